"""Format the settings as a JSON object and as lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from submit_tf_job.jsonview import FORMAT_VERSION
from submit_tf_job.settings import Settings, keys

__all__ = ["settings_lines", "settings_object"]


def settings_object(settings: Settings) -> dict[str, Any]:
    """Return the object that `config show -o json` prints."""
    return {
        "kind": "Settings",
        "format": FORMAT_VERSION,
        "profile": settings.profile,
        "settings": {
            name: {"value": _plain(key.value_of(settings)), "origin": settings.origins[name]}
            for name, key in keys().items()
        },
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
    """Return the settings, each with the source of its value."""
    yield f"profile: {settings.profile or '(none)'}"
    width = max(len(name) for name in keys())
    for name, key in keys().items():
        value = _plain(key.value_of(settings))
        yield f"{name:<{width}}  {_shown(name, value):<40}  {settings.origins[name]}"


def _shown(name: str, value: Any) -> str:
    if value in (None, [], {}):
        return "-"
    if isinstance(value, float):
        days, rest = divmod(value, 86400)
        return f"{days:g}d" if days and not rest else f"{value:.15g}s"
    if name in ("gateway.upload_size", "caps.memory"):
        return f"{value // 1024**2}Mi"
    if isinstance(value, list):
        return {"ports.range": "-"}.get(name, ", ").join(map(str, value))
    if isinstance(value, dict):
        return json.dumps(value)
    return str(value)
