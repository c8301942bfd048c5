"""`put`: what is copied where, and what is refused before the first byte. On HDFS: tests/cluster."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.builders.command_line import Cli


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d/e").mkdir(parents=True)
    (tmp_path / "d/e/inner").write_bytes(b"in")
    (tmp_path / "d/link").symlink_to("e/inner")
    (tmp_path / "a.csv").write_bytes(b"abc")
    (tmp_path / "there").mkdir()
    return tmp_path


def files(directory: Path) -> dict[str, bytes]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}


TREE = {"e/inner": b"in", "link": b"in"}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["a.csv", "there"], {"a.csv": b"abc"}),
        (["a.csv", "there/"], {"a.csv": b"abc"}),
        (["a.csv", "there/b.csv"], {"b.csv": b"abc"}),
        (["a.csv", "there/new/"], {"new/a.csv": b"abc"}),
        (["a.csv", "there/x/y"], {"x/y": b"abc"}),
        (["d", "there"], {f"d/{name}": content for name, content in TREE.items()}),
        (["d/", "there/copy"], {f"copy/{name}": content for name, content in TREE.items()}),
        (["a.csv", "d/e", "there/many"], {"many/a.csv": b"abc", "many/e/inner": b"in"}),
    ],
)
def test_put_names_what_it_copies_as_hadoop_does(
    cli: Cli, here: Path, words: list[str], found: dict[str, bytes]
) -> None:
    *sources, target = words
    done = cli("put", *sources, f"file://{here}/{target}", "-o", "json")
    assert (done.status, files(here / "there")) == (0, found)
    copied = done.json["copied"]
    assert [one["source"] for one in copied] == sources
    assert sum(one["files"] for one in copied) == len(found)
    assert all(one["uri"].startswith(f"file://{here}/there") for one in copied)


def test_put_tells_how_much_it_copied_of_a_file_whose_size_is_another(cli: Cli, here: Path) -> None:
    done = cli("put", "/proc/version", f"file://{here}/there/", "-o", "json")
    assert done.status == 0
    assert done.json["copied"][0]["bytes"] == (here / "there/version").stat().st_size > 0


def test_put_overwrites_only_where_it_is_told_to(cli: Cli, here: Path) -> None:
    (here / "there/a.csv").write_bytes(b"old")
    (here / "there/d").mkdir()
    (here / "there/d/kept").write_bytes(b"kept")
    target = f"file://{here}/there"
    for source in ("a.csv", "d"):
        done = cli("put", source, target)
        assert (done.status, "is there already" in done.err) == (2, True)
    assert files(here / "there") == {"a.csv": b"old", "d/kept": b"kept"}
    assert cli("put", "a.csv", "d", target, "--overwrite").status == 0
    expected = {
        "a.csv": b"abc",
        "d/kept": b"kept",
        **{f"d/{name}": text for name, text in TREE.items()},
    }
    assert files(here / "there") == expected


def test_put_refuses_before_the_first_byte(cli: Cli, here: Path) -> None:
    (here / "d/2026-11-29T10:00.log").write_bytes(b"")
    (here / "loop").mkdir()
    (here / "e2").mkdir()
    (here / "e2/inner").write_bytes(b"other")
    (here / "loop/self").symlink_to(".")
    os.mkfifo(here / "pipe")
    (here / os.fsdecode(b"odd\xff")).write_bytes(b"")
    for source, words in {
        "nosuch": "nosuch: No such file or directory",
        "d": "HDFS takes no name with a colon",
        "loop": "is a link to a directory that holds it",
        "pipe": "is neither a file nor a directory",
        os.fsdecode(b"odd\xff"): "no unprintable characters",
    }.items():
        done = cli("put", "a.csv", source, f"file://{here}/there/")
        assert (done.status, words in done.err) == (2, True), done.err
    for option in ((), ("--overwrite",)):
        done = cli(
            "put", "d/e/inner", "a.csv", "d/link", "e2/inner", f"file://{here}/there/", *option
        )
        assert (done.status, "d/e/inner and e2/inner would both be " in done.err) == (2, True)
    for target in ("hdfs://[nn/models", "hdfs://nn]:8020/models"):
        done = cli("put", "a.csv", target)
        assert (done.status, f"{target}: not a valid URI" in done.err) == (2, True), done.err
    assert cli("put", "a.csv").err.splitlines()[0] == "error: missing TARGET"
    assert files(here / "there") == {}
