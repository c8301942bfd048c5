"""Whatever a caller's job spec says, its job gets no file but those that came with it."""

from __future__ import annotations

import io
import itertools
import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job import Job, JobSpecError
from tests.world.gateway import JOB, World, refused

SECRET = "the-secret-of-somebody-else"
SENT = ("train.py", "src/a.py", "src/deep/b.py", "x.tar.gz", "p-1-py3-none-any.whl")


def _archive() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo("inside"))
    return packed.getvalue()


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A gateway with secrets beside the directory of a request, and below that of another one."""
    made = World(tmp_path)
    with made.file.open("a") as callers:
        callers.write(f"# {SECRET}\n")
    other = made.gateway.uploads.new()
    for directory in (tmp_path, other.parent, other):
        for name in ("secret.txt", "secret.tar.gz", "secret-1-py3-none-any.whl"):
            (directory / name).write_bytes(SECRET.encode())
    return made


def _paths(tmp_path: Path) -> Iterator[str]:
    """Ways out of a directory, by its parents, by patterns, by both, and by the root."""
    ups = (
        *("..", "**/..", "[.][.]", "?.", ".?", ".*", "??", "*/..", "**/**/..", "./..", "src/../.."),
        *(
            "**/../..",
            "src/**/../..",
            "src/*/../../..",
            "x/..",
            "%2e%2e",
            "..\0",
            "...",
            "\uff0e\uff0e",
        ),
        *("[.].", ".[.]", "{..,x}", "~", "src/deep/../../..", "**/./..", "**//..", "..//", "\\.."),
    )
    ends = ("secret*", "callers", "*/secret*", "**/secret*", "*/*/secret*", "**", "secret[.]txt")
    yield from (
        "/".join((up,) * levels + (end,)) for up in ups for levels in (1, 3) for end in ends
    )
    yield from itertools.chain.from_iterable(
        (f"{root}{tmp_path}/secret.txt", f"{root}{tmp_path}/s*", f"{root}{tmp_path}/**")
        for root in ("", "/", "./", "**/", "**", "*", "[/]", "file://")
    )
    yield from ("/proc/self/environ", "//etc/passwd", "/dev/fd/*", "/**/callers", "**/callers")


def _naming(path: str) -> Iterator[dict[str, Any]]:
    """Every key that takes a path of the submitting host."""
    role = JOB["roles"]["worker"]
    yield {"files": [path]}
    yield {"files": [{"src": path, "dst": "x/y/z/w/a/b"}]}
    yield {"files": [{"src": path, "unpack": True, "dst": "x"}]}
    yield {"files": [{"wheels": [path]}]}
    yield {"files": [{"project": path}]}
    yield {"roles": {"worker": {**role, "files": [path]}}}
    yield {"roles": {"worker": {**role, "python": {"wheels": [path]}}}}
    yield from ({"python": {key: path}} for key in ("requirements", "environment", "project"))
    yield {"python": {"wheels": [path]}}
    yield {"kerberos": {"principal": "a/_HOST@R", "keytab": path}}


@pytest.mark.slow
def test_no_path_of_a_job_spec_leads_out_of_what_was_sent(world: World, tmp_path: Path) -> None:
    directory = world.gateway.uploads.new()
    for name in SENT:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(_archive())
    client = world.connect(world.settings)
    for number, path in enumerate(_paths(tmp_path)):
        ways = list(_naming(path))
        # all forms for the first key, and for each other key a part of the forms
        for changes in (ways[0], ways[1 + number % (len(ways) - 1)]):
            spec = json.dumps({**JOB, **changes}).encode()
            with pytest.raises(JobSpecError) as caught:
                client.load_sent(spec, "job.json", files=directory)
            told = str(caught.value).replace(path, "")
            assert SECRET not in told, changes
            assert str(tmp_path) not in told, "where the gateway keeps files is not told"


@pytest.mark.parametrize(
    "src",
    [
        "**/**/../../callers",
        "**/../../../callers",
        "**/../*/secret.txt",
        "**/**/**/../../../callers",
        "src/../**/../../callers",
        "[.][.]/*/secret*",
        "../*/secret.txt",
    ],
)
def test_a_caller_gets_no_file_of_the_host_or_of_another_caller(world: World, src: str) -> None:
    for changes in ({"files": [{"src": src, "dst": "x/y/z/w"}]}, {"files": [{"wheels": [src]}]}):
        job = ("job", ("job.json", json.dumps({**JOB, **changes}).encode(), "application/json"))
        files = [("files", (name, _archive())) for name in SENT]
        answer = world.ask("POST", "/v1/jobs", files=[job, *files])
        assert SECRET not in answer.text
        refused(answer, 422, "job-spec")
        assert world.apps == []


@pytest.mark.parametrize(
    ("src", "names"),
    [
        ("train.py", "train.py"),
        ("./src//a.py", "src/a.py"),
        ("src", "src/a.py src/deep/b.py"),
        ("src/", "src/a.py src/deep/b.py"),
        ("s*", "src/a.py src/deep/b.py"),
        ("[s]??/*.py", "src/a.py"),
        ("**/*.py", "src/a.py src/deep/b.py train.py"),
        ("src/**", "src/a.py src/deep/b.py"),
        ("**/**/b.py", "src/deep/b.py"),
        ("src/**/deep/*", "src/deep/b.py"),
        ("src/*/", "src/deep/b.py"),
    ],
)
def test_paths_and_patterns_mean_what_they_mean_at_home(
    world: World, tmp_path: Path, src: str, names: str
) -> None:
    at_home = tmp_path / "home"
    for name in SENT:
        (at_home / name).parent.mkdir(parents=True, exist_ok=True)
        (at_home / name).write_text(name)
    spec = json.dumps({**JOB, "files": [src]}).encode()
    client = world.connect(world.settings)
    mine = client.load({**JOB, "files": [src]}, base=at_home)
    sent = client.load_sent(spec, "job.json", files=at_home)
    assert [file.name for file in sent.roles["worker"].files] == names.split()
    assert sent.roles["worker"].files == mine.roles["worker"].files


def test_links_among_the_sent_files_are_not_followed(world: World, tmp_path: Path) -> None:
    root = tmp_path / "sent"
    (root / "src").mkdir(parents=True)
    (root / "src/a.py").write_text("mine")
    (root / "link").symlink_to(tmp_path)
    (root / "src/secret.txt").symlink_to(tmp_path / "secret.txt")
    (root / "src/secret.tar.gz").symlink_to("../../secret.tar.gz")
    os.mkfifo(root / "src/secret.fifo")
    client = world.connect(world.settings)

    def load(entry: Any) -> Job:
        spec = json.dumps({**JOB, "files": [entry]}).encode()
        return client.load_sent(spec, "job.json", files=root)

    for src in (
        "link",
        "link/*",
        "link/secret.txt",
        "*/secret*",
        "**/secret.txt",
        "src/secret.txt",
    ):
        with pytest.raises(JobSpecError):
            load(src)
    for entry in ({"src": "src/secret.tar.gz", "unpack": True}, "src/secret.fifo"):
        with pytest.raises(JobSpecError):
            load(entry)
    for src in ("src", "**", "*", "src/*"):
        assert [file.name for file in load(src).roles["worker"].files] == ["src/a.py"]


@pytest.mark.parametrize("entry", ["src/a.py", "src", {"src": "src/a.tar.gz", "unpack": True}])
@pytest.mark.parametrize("replaced", ["src/a.py", "src/a.tar.gz", "src"])
def test_file_that_becomes_a_link_is_not_opened(
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    entry: Any,
    replaced: str,
) -> None:
    root = tmp_path / "sent"
    for directory in (root / "src", tmp_path / "elsewhere"):
        directory.mkdir(parents=True)
        for name in ("a.py", "a.tar.gz"):
            (directory / name).write_bytes(_archive())
    real_open = os.open

    def replacing_open(path: Any, *arguments: Any, **options: Any) -> int:
        """Replace a file by a link after it was found, and before it is opened."""
        if not (root / replaced).is_symlink():
            (root / replaced).rename(tmp_path / "away")
            (root / replaced).symlink_to(tmp_path / "elsewhere" / Path(replaced).name)
        return real_open(path, *arguments, **options)

    (tmp_path / "elsewhere/src").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setattr(os, "open", replacing_open)
    spec = json.dumps({**JOB, "files": [entry]}).encode()
    named = entry if isinstance(entry, str) else entry["src"]
    if not (replaced.startswith(named) or named.startswith(replaced)):
        return
    with pytest.raises(JobSpecError, match="cannot be read"):
        world.connect(world.settings).load_sent(spec, "job.json", files=root)
