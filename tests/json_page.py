"""docs/json.md names the fields of each kind of object that `-o json` prints. Their types come from
the JSON Schemas of `jsonview`, where an object has one: `python -m tests.json_page` writes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from submit_tf_job.jsonview import schemas

PATH = Path(__file__).parents[1] / "docs" / "json.md"
PAGE = PATH.read_text("utf-8")
WORDS = {"string": "text", "boolean": "true or false", "integer": "number"}

# Objects whose keys are names that a user or a cluster chose: `*` in the page.
OPEN = {"roles", "asked", "files", "origins", "settings", "environment", "warnings"}
# Objects and lists whose content is described in a sentence.
CLOSED = {
    *("findings[].facts", "pending[].facts", "root_cause.facts", "details", "formats", "tf_config"),
    *("end.report", "end.progress", "end.root_cause", "submission.values", "submission.asked"),
    *(f"runs[].{name}" for name in ("values", "lines", "metrics", "peak_memory_bytes")),
    *("roles.*.cpu_cores", "roles.*.memory_bytes", "roles.*.gpu_percent"),
    *("roles.*.gpus_used", "roles.*.gpu_memory_bytes", "tasks[].cpu_cores", "tasks[].memory_bytes"),
    *("tasks[].gpus", "rows[].charge"),
    *(f"{one}[].{name}" for one in ("labels", "nodes") for name in ("free", "total")),
    *("queues[].limit", "queues[].used"),
    *("metrics", "progress.metrics", "resubmission.memory_mib", "ports", "settings.*.value"),
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


def typed_page() -> str:
    """Return the page with the types of all objects that have a schema."""
    known = dict(schemas())
    kind, lines = "", []
    for line in PAGE.splitlines(keepends=True):
        kind = line[3:].strip() if line.startswith("## ") else kind
        if kind in known and line.startswith("| `"):
            names, types, meaning = line.split(" | ", 2)
            told = [_type(known, known[kind], name) for name in re.findall(r"`([^`]+)`", names)]
            if None not in told:
                found = told if len(set(told)) > 1 else told[:1]
                types = types if "](#" in types else ", ".join(map(str, found))
            line = f"{names} | {types} | {meaning}"
        lines.append(line)
    return "".join(lines)


def _type(known: Mapping[str, Any], shape: Mapping[str, Any], path: str) -> str | None:
    """Return the type of a field in words; None if its object is described in a sentence."""
    first, _, rest = path.partition(".")
    inner = shape.get("properties", {}).get(first.removesuffix("[]"), shape)
    if inner is shape:
        inner = shape.get("additionalProperties") if first == "*" else None
        if not isinstance(inner, Mapping):
            return None
    if rest:
        return _type(known, _target(known, inner.get("items", inner)), rest)
    return _words(inner)


def _target(known: Mapping[str, Any], shape: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow a reference, which may be to null as well."""
    reference = shape.get("oneOf", [shape])[0].get("$ref")
    return known[reference.rpartition("/")[2]] if reference else shape


def _words(shape: Mapping[str, Any]) -> str:
    if "oneOf" in shape:
        return "object or null"
    if "const" in shape or "enum" in shape:
        return "number" if shape.get("const") == 1 else "text"
    if shape.get("$ref", "").endswith("/JobState"):
        return "text"
    kinds = shape.get("type", "object")
    kind, *null = kinds if isinstance(kinds, list) else [kinds]
    if kind == "array":
        return f"list of {_words(shape['items'])}"
    word = WORDS.get(kind) or str(kind)
    return f"{word.replace(' or ', ', ')} or null" if null else word


if __name__ == "__main__":
    PATH.write_text(typed_page(), "utf-8")
