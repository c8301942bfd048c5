"""The bytecode of the bootstrap's modules, which the tasks of an application on one node share."""

from __future__ import annotations

import json
import marshal
import os
import shutil
import zlib
from pathlib import Path

import pytest

from submit_tf_job.container.bytecode import Modules
from submit_tf_job.plan import payload
from tests.bootstrap.harness import UNTIL_GO, Cluster, role


def shared(job: Cluster) -> list[Path]:
    """Return the files with bytecode that the application's tasks share."""
    return sorted((job.root / "app").glob(".tfjob-bootstrap-*/*"))


def run_once_more(job: Cluster) -> None:
    for marker in (job.root / "app").glob("tfjob-done-*"):
        marker.unlink()
    job.start("worker-0")
    assert job.wait("worker-0") == 0, job.stderr("worker-0")


@pytest.fixture
def ran(any_job: Cluster) -> Cluster:
    """A job of one task, which has run once."""
    any_job.job({"worker": role(1, "trains", "true")})
    any_job.start()
    assert any_job.wait_all() == {"worker-0": 0}
    return any_job


def test_tasks_on_one_node_share_bytecode(any_job: Cluster) -> None:
    job = any_job
    job.job({"chief": role(1, "trains", UNTIL_GO), "worker": role(2, "trains", UNTIL_GO)})
    job.start()
    job.started("chief-0", "worker-0", "worker-1")
    names = {path.name for path in shared(job)}
    assert {f"submit_tf_job.container.{n}.py" for n in ("decider", "follower", "main")} <= names
    assert len({path.parent for path in shared(job)}) == 1
    job.go()
    assert set(job.wait_all().values()) == {0}
    for cwd, _logs in job.places.values():
        own = cwd / ".tfjob-bootstrap"
        assert (own / "submit_tf_job/container/main.py").is_file()
        assert not [*own.rglob("*.new"), *own.rglob("__pycache__")]


def test_bytecode_is_compiled_once(ran: Cluster) -> None:
    before = {path: path.stat().st_ino for path in shared(ran)}
    run_once_more(ran)
    assert before
    assert {path: path.stat().st_ino for path in shared(ran)} == before


@pytest.mark.parametrize("kept", [0, 0.5, 0.99, "zeros", "another module's", "none"])
def test_damaged_bytecode_is_compiled_again(ran: Cluster, kept: float | str) -> None:
    whole = {path: path.read_bytes() for path in shared(ran)}
    paths = list(whole)
    for path, other in zip(paths, paths[1:] + paths[:1], strict=True):
        if isinstance(kept, str):
            path.write_bytes(bytes(len(whole[path])) if kept == "zeros" else whole[other])
        else:
            path.write_bytes(whole[path][: int(len(whole[path]) * kept)])
        if kept == "none":
            path.unlink()
    run_once_more(ran)
    assert {path: path.read_bytes() for path in shared(ran)} == whole


@pytest.mark.parametrize("how", ["others may write it", "another user's", "a link"])
def test_bytecode_that_others_may_have_written_is_never_run(
    job: Cluster, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "another user's" and os.geteuid():
        pytest.skip("only root can give a file to another user")
    job.job({"worker": role(1, "trains", "true")})
    cwd, _logs, _environ = job.place("worker-0")
    (job.root / "app").chmod(0o777)
    monkeypatch.chdir(cwd)
    code = payload.code(payload.needs(job.task))
    modules = Modules(json.loads(zlib.decompress(code)), zlib.decompress(code))
    name = "submit_tf_job/container/main.py"
    foreign = compile(
        f"open({str(job.root / 'foreign')!r}, 'w')\ndef main(*_): return 0", "", "exec"
    )
    content = marshal.dumps(foreign)
    seal = zlib.crc32(content, zlib.crc32(name.encode(), modules.key))
    planted = Path(modules.shared) / name.replace("/", ".")
    planted.parent.mkdir()
    planted.write_bytes(b"%08x" % seal + content)
    assert modules.code(name) == foreign  # it would be run if the file were this user's alone
    if how == "others may write it":
        planted.chmod(0o666)
    elif how == "another user's":
        os.chown(planted, 12345, 12345)
    else:
        planted.symlink_to(planted.rename(job.root / "elsewhere"))
    job.start()
    assert job.wait_all() == {"worker-0": 0}
    assert not (job.root / "foreign").exists()


@pytest.mark.parametrize("how", ["a file", "a link to nothing", "a pipe", "read-only"])
def test_tasks_run_where_nothing_can_be_shared(ran: Cluster, how: str) -> None:
    (folder,) = {path.parent for path in shared(ran)}
    pipe = folder / "submit_tf_job.container.main.py"
    if how == "a pipe":
        pipe.unlink()
        os.mkfifo(pipe)
    elif how == "read-only":
        pipe.unlink()
        folder.chmod(0o500)
    else:
        shutil.rmtree(folder)
        folder.symlink_to("nothing") if how == "a link to nothing" else folder.write_text("a file")
    run_once_more(ran)
    if folder.is_dir():
        folder.chmod(0o700)


def test_nobody_else_may_write_modules_under_any_umask(job: Cluster) -> None:
    job.job({"worker": role(1, "trains", "true")})
    job.start(shell="umask 0")
    assert job.wait_all() == {"worker-0": 0}
    assert shared(job)
    for path in shared(job):
        assert path.stat().st_mode & 0o077 == path.parent.stat().st_mode & 0o077 == 0
    ((cwd, _logs),) = job.places.values()
    assert (cwd / ".tfjob-bootstrap").stat().st_mode & 0o022 == 0


def test_a_new_container_runs_after_one_was_killed_while_it_wrote(any_job: Cluster) -> None:
    job = any_job
    job.job({"worker": role(1, "trains", "true")})
    for delay_s in (0.02, 0.04, 0.06, 0.08, 0.1):
        job.start("worker-0", shell=f"(sleep {delay_s}; kill -9 $$) &")
        job.wait("worker-0")
    run_once_more(job)
