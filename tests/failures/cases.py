"""Read the programs of `programs/*.txt`: how each is run, and what is to be told of its end.

A case begins with `=== NAME`, has fields `key: value`, and files, each behind `--- FILE`. Fields:
`with` (the environment it needs), `run` (the command), `words` (all must be told, separated by
` | `), `code` (those that are right), `cut` (those that a part of its output may give), `place`,
`retry` (yes or no), `hint` (words of the hint), `never` (words that mislead), `status` and `stderr`
for what no machine here can do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

PROGRAMS = Path(__file__).parent / "programs"
RECORDED = Path(__file__).parents[1] / "data" / "failures"


@dataclass(frozen=True)
class Case:
    """One program that fails."""

    name: str
    category: str
    fields: dict[str, str]
    files: dict[str, str] = field(default_factory=dict)

    @property
    def is_text(self) -> bool:
        """Whether its output is written down here, because no machine here can make it."""
        return "status" in self.fields

    def listed(self, key: str) -> list[str]:
        """Return the parts of a field that are separated by ` | `."""
        return [part.strip() for part in self.fields.get(key, "").split(" | ") if part.strip()]


def cases() -> list[Case]:
    """Return all cases, by category."""
    return [case for path in sorted(PROGRAMS.glob("*.txt")) for case in _parsed(path)]


def _parsed(path: Path) -> list[Case]:
    found: list[Case] = []
    file: str | None = None
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("=== "):
            found.append(Case(line[4:].strip(), path.stem, {}))
            file = None
        elif not found:
            continue
        elif line.startswith("--- "):
            file = line[4:].strip()
            found[-1].files[file] = ""
        elif file is not None:
            found[-1].files[file] += f"{line}\n"
        elif line.strip():
            key, _, value = line.partition(":")
            found[-1].fields[key.strip()] = value.strip()
    return found


def recorded() -> dict[str, dict[str, Any]]:
    """Return how each program ended, and its outputs, by category and name."""
    found = {
        path.stem: yaml.load(path.read_text("utf-8"), yaml.CSafeLoader) or {}
        for path in sorted(RECORDED.glob("*.yaml"))
    }
    for case in cases():
        if case.is_text:
            ended = {"status": int(case.fields["status"]), **case.files}
            found.setdefault(case.category, {})[case.name] = ended
    return found


def judged(case: Case, cause: Mapping[str, Any]) -> tuple[list[str], bool]:
    """Return what is wrong in the cause that is told, and whether it misleads."""
    told, hint = f"{cause['sentence']} {cause['exception']}", cause["hint"]
    wrong = [f"{words!r} is not told" for words in case.listed("words") if words not in told]
    wrong += [f"{words!r} is not advised" for words in case.listed("hint") if words not in hint]
    misled = [words for words in case.listed("never") if words in f"{cause['sentence']} {hint}"]
    for key, value in (
        ("code", cause["code"]),
        ("place", cause["facts"].get("place", "")),
        ("retry", "yes" if cause["retryable"] else "no"),
    ):
        if case.fields.get(key) and value not in case.fields[key].split():
            wrong.append(f"{key} is {value}")
    return wrong + [f"{words!r} misleads" for words in misled], bool(misled)
