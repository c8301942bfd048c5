"""docs/json.md names the fields of each kind of object that `-o json` prints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PAGE = (Path(__file__).parents[1] / "docs" / "json.md").read_text("utf-8")

# Objects whose keys are names that a user or a cluster chose: `*` in the page.
OPEN = {"roles", "files", "origins", "settings", "environment"}
# Objects and lists whose content is described in a sentence.
CLOSED = {
    *("findings[].facts", "pending[].facts", "root_cause.facts", "details", "formats", "tf_config"),
    *("end.report", "end.progress", "end.root_cause"),
    *("progress.metrics", "resubmission.memory_mib", "ports", "settings.*.value"),
}


def documented(kind: str) -> set[str]:
    section = PAGE[PAGE.index(f"\n## {kind}\n") :].partition("\n\n## ")[0]
    cells = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def produced(value: object, path: str = "") -> Iterator[str]:
    """Name every field of an object as the page does: `roles.*.wanted`, `daemons[].pid`."""
    if path in CLOSED:
        return
    if isinstance(value, Mapping):
        for name, item in value.items():
            inner = f"{path}.{'*' if path in OPEN else name}" if path else str(name)
            if path not in OPEN:
                yield inner
            yield from produced(item, inner)
    elif isinstance(value, list):
        for item in value:
            yield from produced(item, f"{path}[]")


def check(kind: str, *printed: Any) -> None:
    """Compare the fields of all printed objects together with the page's table."""
    assert {(value["kind"], value["format"]) for value in printed} == {(kind, 1)}
    told = {name for value in printed for name in produced(value)}
    wanted = documented(kind)
    assert told == wanted, f"undocumented: {told - wanted}; not printed: {wanted - told}"
