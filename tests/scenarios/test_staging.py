"""The files of a job in the staging directory: sent once, whole, their owner's alone, and removed."""

from __future__ import annotations

import json
import os
import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders.command_line import Done
from tests.world import World


@pytest.fixture
def staged(kept: World) -> World:
    """Let there be files that a job spec names."""
    (kept.home / "t.py").write_text("print()\n")
    (kept.home / "run ü.sh").write_text("#!/bin/sh\n")
    (kept.home / "run ü.sh").chmod(0o755)
    return kept


def submits(world: World, *words: str, name: str = "mnist") -> Done:
    return world("submit", world.spec(name, files=["t.py", "run ü.sh"]), "--detach", *words)


def files(world: World, job: str = "*") -> list[Path]:
    return sorted(world.home.glob(f"staging/files/{job}/*/tfjob-files.tar"))


def ends(world: World, *, days: int = 1) -> None:
    """End the job, and let what it has staged be of another day."""
    world.passes(10)
    world.ends()
    age(world.home / "staging", world.cluster.clock.epoch_ms() / 1000 - days * 86400)


def age(directory: Path, at: float) -> None:
    for path in (directory, *directory.rglob("*")):
        os.utime(path, (at, at))


def test_staged_files_are_a_tar_that_only_its_owner_reads(staged: World) -> None:
    assert submits(staged).status == 0
    [path] = files(staged, "mnist")
    with tarfile.open(path) as tar:
        members = {member.name: (member.mode, tar.extractfile(member)) for member in tar}
    assert {name: mode for name, (mode, _) in members.items()} == {"t.py": 0o644, "run ü.sh": 0o755}
    chain = [path, *list(path.parents)[:4]]
    assert chain[-1] == staged.home / "staging"
    assert [item.stat().st_mode & 0o777 for item in chain] == [0o600, *[0o700] * 4]


def test_render_stages_what_its_service_refers_to(staged: World) -> None:
    spec = staged.spec("mnist", files=["t.py", "run ü.sh"])
    assert staged("render", spec).status == 0
    assert files(staged) == []
    rendered = staged("render", spec, "--stage")
    assert rendered.status == 0, rendered.err
    service = json.loads(rendered.out)
    uris = set(re.findall(r'"src_file": "(.*?)"', json.dumps(service)))
    assert len(uris) == 2, service  # the files, and the bootstrap
    assert all(Path(uri.partition(":")[2].replace("//", "", 1)).is_file() for uri in uris), uris
    before = {path: path.stat().st_ino for path in files(staged)}
    assert submits(staged).status == 0
    assert {path: path.stat().st_ino for path in files(staged)} == before
    assert staged.yarn.apps


def test_staged_files_are_sent_once_and_half_a_file_is_sent_again(staged: World) -> None:
    submits(staged)
    [path] = files(staged)
    before, content = path.stat(), path.read_bytes()
    ends(staged, days=0)
    submits(staged)
    assert [(found, found.stat().st_ino) for found in files(staged)] == [(path, before.st_ino)]
    ends(staged)
    path.write_bytes(content[:99])
    submits(staged)
    assert path.read_bytes() == content


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_a_stranger_s_file_is_not_trusted(staged: World) -> None:
    submits(staged)
    [path] = files(staged)
    os.chown(path, 12345, 12345)
    ends(staged)
    done = submits(staged)
    assert (done.status, "tfjob-files.tar: belongs to " in done.err) == (4, True), done.err
    assert len(staged.yarn.apps) == 1


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda path: path.write_bytes(b"other"), "was changed"),
        (Path.unlink, "is not there any mo"),
    ],
)
def test_a_file_that_changes_after_it_was_read_is_not_submitted(
    staged: World, change: Callable[[Path], object], why: str
) -> None:
    data = staged.home / "data"
    data.write_bytes(os.urandom(9_000_000))  # what is large is read as it is sent
    staged.cluster.clock.after(0.001, lambda: change(data))
    done = staged("submit", staged.spec(files=["data"]), "--detach")
    assert (done.status, f"{data} {why}" in done.err) == (2, True), done.err
    assert "nothing was submitted" in done.err
    assert (files(staged), staged.yarn.apps) == ([], {})


def test_the_next_run_removes_what_the_last_one_alone_has_used(staged: World) -> None:
    submits(staged, name="other")
    ends(staged)
    submits(staged)
    [old] = files(staged, "mnist")
    ends(staged)
    (staged.home / "t.py").write_text("print(1)\n")
    assert submits(staged).status == 0
    [new] = files(staged, "mnist")
    assert new != old
    assert len(files(staged, "other")) == 1, "what another job has staged"


def test_delete_removes_the_files_but_for_those_of_a_submission_on_its_way(staged: World) -> None:
    submits(staged)
    ends(staged)
    [old] = files(staged, "mnist")
    new = old.parents[1] / ("0" * 64) / "tfjob-files.tar"
    new.parent.mkdir()
    new.write_text("")
    assert staged("delete", "mnist").status == 0
    assert files(staged) == [new]


def test_gc_removes_what_nobody_has_used_for_a_week(staged: World) -> None:
    submits(staged)
    staged.passes(10)
    staged.ends()
    staged.passes(61)
    week = ("staging", "gc", "--older-than", "7d", "-o", "json")
    assert staged(*week).json["removed"] == []
    age(staged.home / "staging", 0)
    submits(staged)  # found there, and used again
    staged.passes(10)
    staged.ends()
    staged.passes(61)
    assert staged(*week).json["removed"] == []
    age(staged.home / "staging", 0)
    assert [item["name"] for item in staged(*week).json["removed"]] == ["mnist"]
    assert files(staged) == []
