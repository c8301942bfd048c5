"""The settings: their JSON object and their lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from submit_tf_job.report.model import FORMAT_VERSION
from submit_tf_job.settings import KEYS, Settings

__all__ = ["settings_lines", "settings_object"]


def settings_object(settings: Settings) -> dict[str, Any]:
    """Build the object that `config show -o json` prints."""
    return {
        "kind": "Settings",
        "format": FORMAT_VERSION,
        "profile": settings.profile,
        "settings": {name: {"value": _plain(settings[name]), "origin": settings.origins[name]} for name in KEYS},
    }


def _plain(value: Any) -> Any:
    if isinstance(value, (bool, int, float, str, type(None))):
        return value
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return str(value)


def settings_lines(settings: Settings) -> Iterator[str]:
    """List the settings with the place each came from."""
    yield f"profile: {settings.profile or '(none)'}"
    width = max(len(name) for name in KEYS)
    for name in KEYS:
        value = _plain(settings[name])
        yield f"{name:<{width}}  {_shown(name, value):<40}  {settings.origins[name]}"


def _shown(name: str, value: Any) -> str:
    if value in (None, [], {}):
        return "-"
    if isinstance(value, float):
        return f"{value:g}s"
    return "-".join(str(item) for item in value) if name == "ports.range" else _flat(value)


def _flat(value: Any) -> str:
    import json

    return ", ".join(map(str, value)) if isinstance(value, list) else json.dumps(value) if isinstance(value, dict) else str(value)
