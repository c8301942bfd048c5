"""What the keys of a job spec name is opened only where docs/security.md says so.

All keys of `jobspec/keys.py` are gone through, so that a new one cannot be forgotten.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job import AuthError
from submit_tf_job.jobspec import keys
from submit_tf_job.jobspec.kinds import Kind
from tests.world.gateway import JOB, World

ROOT = Path(__file__).parents[3]
SAMPLES = ("/etc/passwd", "../x", "hdfs://nn:1/x", "https://h/x", "file:///x", "/a:/b", "r.test/y")
FOREIGN = (
    "hdfs://internal.test:22/x",
    "hdfs://u@internal/x",
    "viewfs://internal/x",
    "s3a://bucket/x",
    "webhdfs://169.254.169.254:80/x",
    "https://internal.test/x",
)


def _leaves(kind: Kind, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Kind]]:
    """Yield each kind without members, with its path: `*` for any name, `0` for an item."""
    if kind.keys:
        for key in kind.keys.rows.values():
            yield from _leaves(key.kind, (*path, key.name))
    elif kind.members:
        yield from _leaves(kind.members, (*path, "*"))
    elif kind.items:
        yield from _leaves(kind.items, (*path, "0"))
    elif "string" in kind.types and any(_takes(kind, text) for text in SAMPLES):
        yield path, kind


def _takes(kind: Kind, text: str) -> bool:
    try:
        kind.make(text)
    except ValueError:
        return False
    return True


NAMING = [
    (path, kind) for key in keys.JOB.rows.values() for path, kind in _leaves(key.kind, (key.name,))
]


def _documented() -> dict[str, str]:
    """Return who opens what a key names, by key."""
    section = (ROOT / "docs/security.md").read_text("utf-8").split("## What a job spec names")[1]
    rows = re.findall(
        r"^\| (`[^|]*`) \|[^|]*\| ([^|]*) \|", section.split("\n## ")[0], re.MULTILINE
    )
    named = [(name, who) for row, who in rows for name in re.findall("`([^`]+)`", row)]
    assert len(dict(named)) == len(named)
    return dict(named)


def _plain(path: tuple[str, ...]) -> str:
    return ".".join(part for part in path if part not in ("*", "0")).removeprefix("roles.")


def test_page_has_each_key_that_can_name_something() -> None:
    assert {_plain(path) for path, _ in NAMING} == set(_documented())


def _spec_of(path: tuple[str, ...], value: str) -> dict[str, Any]:
    """Return a job spec with a value at a path, and with what a value there cannot be without."""
    made: Any = value
    for part, above in zip(reversed(path), reversed(("", *path[:-1])), strict=True):
        if part == "0":
            made = [made]
        elif part == "*":
            made = (
                {"worker": {**JOB["roles"]["worker"], **made}} if above == "roles" else {"a": made}
            )
        else:
            made = {part: made}
        if part == "src":
            made["dst"] = "x/y"
        if above == "kerberos":
            made = {"principal": "a/_HOST@R", "keytab": "file:///k", **made}
    return {**JOB, **made}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("gateway"))


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path, _ in NAMING], ids=".".join)
def test_no_key_opens_what_a_caller_did_not_send(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...]
) -> None:
    for name in ("secret", "secret.tar.gz", "a-1-py3-none-any.whl"):
        (tmp_path / name).write_text("secret")
    opened: list[str] = []

    def open_storage(uri: str, **_options: Any) -> None:
        opened.append(uri)
        raise AuthError(uri)

    monkeypatch.setattr("submit_tf_job.storage.open_storage", open_storage)
    paths = [f"{tmp_path}/{name}" for name in ("secret", "secret.t*", "*.whl")]
    texts = [*paths, f"**/../..{tmp_path}/secret", f"file://{tmp_path}/secret", *FOREIGN]
    if _documented()[_plain(path)] == "nobody" or path[0] == "roles":
        texts = [texts[0], texts[5]]
    for text in texts:
        spec = _spec_of(path, text)
        assert json.dumps(text) in json.dumps(spec)
        with _opened_below(tmp_path, opened):
            job = ("job.json", json.dumps(spec).encode(), "application/json")
            parts = [("job", job), ("files", ("sent.py", b""))]
            answer = world.ask("POST", "/v1/jobs", files=parts)
        assert answer.status_code in (201, 409, 422), answer.text
        assert opened == [], (spec, answer.text)


_watched: list[tuple[str, list[str]]] = []


@contextmanager
def _opened_below(directory: Path, opened: list[str]) -> Iterator[None]:
    """Add to `opened` what this process opens or lists below a directory."""
    _watched.append((str(directory), opened))
    try:
        yield
    finally:
        _watched.clear()


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    for directory, opened in _watched:
        if event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith(
            directory
        ):
            opened.append(str(arguments[0]))


sys.addaudithook(_watch)
