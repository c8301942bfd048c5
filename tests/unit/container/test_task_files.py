"""The user's files, the tail of stderr, progress, markers."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submit_tf_job import contract
from submit_tf_job.bootstrap import files
from submit_tf_job.bootstrap.info import Info, Problem

CONTAINER = "container_e17_1700000000000_0042_01_000003"


def packed(*members: tuple[str, bytes, int], change: Callable[[tarfile.TarInfo], None] | None = None) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content, mode in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), mode
            if change:
                change(info)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def task_info(cwd: Path, container: str = CONTAINER, submission: str = "abc") -> Info:
    roles = {"worker": {"count": 2, "duty": "decides", "max_restarts": 0}}
    task = {"version": 1, "job": "mnist", "submission": submission, "deciding": "worker", "cluster_roles": ["worker"], "roles": roles}
    return Info(task, {contract.ENV_INSTANCE: "worker-1", "CONTAINER_ID": container}, str(cwd))


# --- unpacking -----------------------------------------------------------------------------------------------------------
def test_files_and_their_modes(tmp_path: Path) -> None:
    files.unpack(packed(("train.py", b"1", 0o644), ("a/b/run.sh", b"2", 0o755)), str(tmp_path))
    assert (tmp_path / "train.py").read_bytes() == b"1"
    assert (tmp_path / "a/b/run.sh").read_bytes() == b"2"
    assert os.access(tmp_path / "a/b/run.sh", os.X_OK)
    assert not os.access(tmp_path / "train.py", os.X_OK)


def test_archive_by_path_may_be_compressed(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "files.tar.gz", "w:gz") as tar:
        info = tarfile.TarInfo("x")
        info.size = 1
        tar.addfile(info, io.BytesIO(b"x"))
    files.unpack(str(tmp_path / "files.tar.gz"), str(tmp_path))
    assert (tmp_path / "x").read_bytes() == b"x"


def test_link_in_the_way_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("YARN's")
    (tmp_path / "cwd").mkdir()
    (tmp_path / "cwd/train.py").symlink_to(tmp_path / "cache")
    files.unpack(packed(("train.py", b"mine", 0o644)), str(tmp_path / "cwd"))
    assert (tmp_path / "cwd/train.py").read_bytes() == b"mine"
    assert (tmp_path / "cache").read_text() == "YARN's"


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "link/evil"])
def test_nothing_lands_outside(tmp_path: Path, name: str) -> None:
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    (cwd / "link").symlink_to(tmp_path)
    with pytest.raises(Problem, match="the job's files could not be unpacked"):
        files.unpack(packed((name, b"x", 0o644)), str(cwd))
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_only_plain_files(tmp_path: Path, kind: bytes) -> None:
    def change(info: tarfile.TarInfo) -> None:
        info.type, info.size, info.linkname = kind, 0, "/etc/passwd"

    with pytest.raises(Problem, match="is not a plain file below the working directory"):
        files.unpack(packed(("x", b"", 0o644), change=change), str(tmp_path))


@pytest.mark.parametrize("archive", [b"", b"no tar at all", packed(("x", b"y" * 2000, 0o644))[:700]])
def test_broken_archive(tmp_path: Path, archive: bytes) -> None:
    with pytest.raises(Problem) as raised:
        files.unpack(archive, str(tmp_path))
    assert raised.value.status == contract.EXIT_BOOTSTRAP_ERROR


# --- the tail of stderr --------------------------------------------------------------------------------------------------
def tail(tmp_path: Path, content: bytes) -> list[str]:
    (tmp_path / "stderr.txt").write_bytes(content)
    return files.last_lines(str(tmp_path / "stderr.txt"))


def test_noise_and_our_own_lines_are_left_out(tmp_path: Path) -> None:
    content = (
        b"bash: warning: setlocale: LC_ALL: cannot change locale (en_US.UTF-8)\n"
        b"[submit_tf_job] starting: python train.py\nTraceback\n\nValueError: \xff no\r\n" + contract.OUTCOME_MARK.encode() + b"{}\n"
    )
    assert tail(tmp_path, content) == ["Traceback", "ValueError: \ufffd no"]


def test_tail_is_bounded(tmp_path: Path) -> None:
    assert tail(tmp_path, b"".join(b"line %d\n" % i for i in range(100_000))) == [f"line {i}" for i in range(99_980, 100_000)]
    assert tail(tmp_path, b"x" * 100_000) == ["x" * 500]
    long = tail(tmp_path, b"".join(b"%04d" % i + b"y" * 2000 + b"\n" for i in range(50)))
    assert len(long) == 16
    assert long[-1].startswith("0049")
    assert tail(tmp_path, b"") == []


def test_no_stderr_no_lines(tmp_path: Path) -> None:
    assert files.last_lines(str(tmp_path / "nothing")) == []


@given(st.binary(max_size=3000))
def test_any_bytes_make_a_message_of_bounded_size(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    lines = tail(tmp_path_factory.getbasetemp(), content * 40)
    assert len(lines) <= 20
    assert len(json.dumps(lines)) < 60_000


# --- progress ------------------------------------------------------------------------------------------------------------
def test_progress_is_read_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "p"
    progress = files.Progress(str(path))
    assert progress.poll() is None
    path.write_text('{"step": 3, "total": 10, "metrics": {"loss": 0.25}, "more": 1}')
    assert progress.poll() == {"step": 3, "total": 10, "metrics": {"loss": 0.25}}
    assert progress.poll() is None
    path.write_text('{"step": 4}')
    assert progress.poll() == {"step": 4, "total": None, "metrics": {}}


@pytest.mark.parametrize("content", ["", "{", "[1]", "3", '"x"', "null", "\x00", '{"step": ' + "1" * 5000 + "}", "[" * 4000])
def test_progress_that_makes_no_sense_is_ignored(tmp_path: Path, content: str) -> None:
    (tmp_path / "p").write_text(content)
    assert files.Progress(str(tmp_path / "p")).poll() is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"step": "3"}, {"step": None, "total": None, "metrics": {}}),
        ({"step": True, "total": 1.5}, {"step": None, "total": 1.5, "metrics": {}}),
        ({"metrics": {"nan": float("nan"), "inf": float("inf"), "huge": 10**400, "deep": [1]}}, None),
        ({"metrics": [1]}, {"step": None, "total": None, "metrics": {}}),
    ],
)
def test_clean_progress(value: dict[str, Any], expected: dict[str, Any] | None) -> None:
    expected = expected or {"step": None, "total": None, "metrics": {"nan": None, "inf": None, "huge": None, "deep": None}}
    assert files.clean_progress(value) == expected


def test_metrics_are_bounded() -> None:
    clean = files.clean_progress({"metrics": {"m" * 200 + str(i): i for i in range(500)}})
    assert clean
    assert len(clean["metrics"]) <= 50
    assert max(map(len, clean["metrics"])) == 100


# --- markers -------------------------------------------------------------------------------------------------------------
def test_marker_is_for_the_same_task_of_the_same_application(tmp_path: Path) -> None:
    cwd = tmp_path / CONTAINER
    cwd.mkdir()
    files.write_marker(task_info(cwd), True, 3, {"status": 3}, {"state": "failed"})
    assert (tmp_path / "tfjob-done-abc-worker-1.json").exists()
    marker = files.read_marker(task_info(cwd))
    assert marker == {
        "application": "1700000000000_0042",
        "final": True,
        "attempt": 0,
        "exit": 3,
        "outcome": {"status": 3},
        "report": {"state": "failed"},
    }
    assert files.read_marker(task_info(cwd, container="container_e18_1700000000000_0042_02_000009")) == marker
    assert files.read_marker(task_info(cwd, container="container_1700000000000_0043_01_000003")) is None
    assert files.read_marker(task_info(cwd, submission="other")) is None


def test_no_marker_where_yarn_gives_no_container_id(tmp_path: Path) -> None:
    (tmp_path / "cwd").mkdir()
    files.write_marker(task_info(tmp_path / "cwd", container=""), True, 0, {}, None)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cwd"]
    assert files.read_marker(task_info(tmp_path / "cwd", container="")) is None


@pytest.mark.parametrize("content", ["", "[]", "3", "{}", '{"application": "1700000000000_0042", "exit": "x"}'])
def test_marker_that_makes_no_sense_is_ignored(tmp_path: Path, content: str) -> None:
    (tmp_path / "tfjob-done-abc-worker-1.json").write_text(content)
    assert files.read_marker(task_info(tmp_path / "cwd")) is None


def test_json_is_written_by_rename(tmp_path: Path) -> None:
    files.write_json(str(tmp_path / "r.json"), {"a": "\u00e9"})
    assert (tmp_path / "r.json").read_text() == '{"a":"\\u00e9"}'
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]


# --- progress on stdout --------------------------------------------------------------------------------------------------
def test_progress_lines(tmp_path: Path) -> None:
    out = tmp_path / "stdout.txt"
    out.write_text('TFJOB_PROGRESS {"step": 1}\n')
    progress = files.Progress("", str(out))
    assert progress.poll() is None  # an earlier program wrote it
    with out.open("a") as stdout:
        stdout.write(
            'x\nTFJOB_PROGRESS {"step": 2, "total": 9}\nTFJOB_PROGRESS {"step": 3, "metrics": {"loss": 0.5}}\ny\nTFJOB_PROGRESS {"st'
        )
        stdout.flush()
        assert progress.poll() == {"step": 3, "total": None, "metrics": {"loss": 0.5}}
        assert progress.poll() is None
        stdout.write('ep": 4}\n')
        stdout.flush()
        assert progress.poll() == {"step": 4, "total": None, "metrics": {}}


@pytest.mark.parametrize(
    "line", ["TFJOB_PROGRESS", "TFJOB_PROGRESS 7", "TFJOB_PROGRESS {", " TFJOB_PROGRESS {}", "TFJOB_PROGRESS " + "[" * 9000]
)
def test_no_progress_line(tmp_path: Path, line: str) -> None:
    out = tmp_path / "stdout.txt"
    progress = files.Progress("", str(out))
    out.write_text(f'TFJOB_PROGRESS {{"step": 1}}\n{line}\n')
    assert progress.poll() == {"step": 1, "total": None, "metrics": {}}


def test_much_output_is_read_at_its_end(tmp_path: Path) -> None:
    out = tmp_path / "stdout.txt"
    progress = files.Progress("", str(out))
    out.write_bytes(b'TFJOB_PROGRESS {"step": 1}\n' + b"\xff" * 500_000 + b'\nTFJOB_PROGRESS {"step": 2}\n')
    assert progress.poll() == {"step": 2, "total": None, "metrics": {}}
    with out.open("ab") as stdout:
        stdout.write(b"z" * 200_000)  # a line without an end
    assert progress.poll() is None
    with out.open("ab") as stdout:
        stdout.write(b'\nTFJOB_PROGRESS {"step": 3}\n')
    assert progress.poll() == {"step": 3, "total": None, "metrics": {}}


def test_the_file_has_the_last_word(tmp_path: Path) -> None:
    out, path = tmp_path / "stdout.txt", tmp_path / "progress.json"
    progress = files.Progress(str(path), str(out))
    out.write_text('TFJOB_PROGRESS {"step": 1}\n')
    path.write_text('{"step": 7}')
    assert progress.poll() == {"step": 7, "total": None, "metrics": {}}
    assert progress.poll() is None
