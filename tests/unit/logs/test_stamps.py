"""Times of lines that carry none: what the bootstrap records, and what `logs` makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submit_tf_job.container import contract, task_files
from submit_tf_job.logs import lines
from submit_tf_job.logs.entries import Origin, Run, TaskContainer
from submit_tf_job.logs.lines import offset_before, read_stamps, stamped
from submit_tf_job.logs.read import log_lines
from tests.builders.task_info import task_info

OUT = Origin(TaskContainer("worker-0", "c1"), "stdout.txt")


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Path, Path]:
    """A task that started at second 100 of a clock, which is 1,000,100 in seconds since 1970."""
    info = task_info(tmp_path)
    info.log_dir, info.started, info.wall = str(tmp_path), 100.0, 1_000_000.0
    out = tmp_path / "stdout.txt"
    out.write_bytes(b"old\n")
    paths = {"stdout": str(out), "stderr": str(tmp_path / "gone.txt")}
    monkeypatch.setattr(task_files, "output_path", lambda _info, name: paths[name])
    return info, out, tmp_path / contract.TIMES_FILE


def test_stamps_record_where_a_file_began_to_grow(watched: tuple[Any, Path, Path]) -> None:
    info, out, index = watched
    made = task_files.Stamps(info)
    times = [(100.5, b"at once\n"), (101.0, b""), (110.0, b""), (110.4, b"later\n")]
    for now, text in (*times, (111.5, b""), (112.5, b"")):
        with out.open("ab") as file:
            file.write(text)
        made.check(now)
    rows = ["0 1000100.0", "4 1000100.0", "12 1000110.0"]
    assert index.read_text() == "".join(f"stdout.txt {row}\n" for row in rows)


def test_stamps_record_the_last_lines_of_a_task(watched: tuple[Any, Path, Path]) -> None:
    info, out, index = watched
    made = task_files.Stamps(info)
    made.check(200.0)
    out.write_bytes(b"old\nits last words\n")
    made.check(200.2, last=True)
    assert index.read_text().splitlines()[1:] == ["stdout.txt 4 1000200.0"]


@pytest.mark.slow
def test_stamps_become_rare_in_a_long_task_and_stay_small(watched: tuple[Any, Path, Path]) -> None:
    info, out, index = watched
    made = task_files.Stamps(info)
    for second in range(1, 8000):
        with out.open("ab") as file:
            file.write(b"x\n")
        made.check(100.0 + second)
    found = read_stamps(index.read_bytes())["stdout.txt"]
    assert 3600 <= len(found) <= 3600 + 4400 / 10 + 3
    assert [offset for offset, _time in found] == sorted({offset for offset, _time in found})


def test_read_stamps_ignores_invalid_lines() -> None:
    data = (
        b"stdout.txt 5 20.5\nx\nstdout.txt -1 2\nstdout.txt 1 nan\nstderr.txt 0 10\nstdout.txt "
        b"0 10\n\xff 0 1\nstdout.txt a 1"
    )
    assert read_stamps(data) == {"stdout.txt": ((0, 10.0), (5, 20.5)), "stderr.txt": ((0, 10.0),)}


def test_stamped_cuts_at_the_first_line_behind_an_offset() -> None:
    runs = [Run(OUT, None, lines.NEVER, b"aa\nbbbb\ncc\n"), Run(OUT, 50.0, 50.0, b"timed\nrest\n")]
    found = list(stamped(runs, 0, ((0, 10.0), (5, 20.0), (8, 30.0), (17, 60.0))))
    assert [(run.data, run.at, run.order, run.written) for run in found] == [
        (b"aa\nbbbb\n", None, 10.0, 11.0),  # the second line was begun before
        (b"cc\n", None, 30.0, 31.0),
        (b"timed\n", 50.0, 50.0, 31.0),
        (b"rest\n", None, 60.0, 61.0),
    ]
    told = [(one.text, one.time is None, one.written) for one in log_lines(found[-2:])]
    assert [row[:2] for row in told] == [("timed", False), ("rest", True)]
    assert [written and written.timestamp() for *_, written in told] == [31.0, 61.0]


def test_stamped_starts_at_the_offset_of_a_tail() -> None:
    run = Run(OUT, None, lines.NEVER, b"bb\ncc\n")
    found = stamped([run], 103, ((0, 10.0), (106, 20.0)))
    assert [(one.data, one.written) for one in found] == [(b"bb\n", 11.0), (b"cc\n", 21.0)]
    assert offset_before(((0, 10.0), (106, 200.0), (300, 400.0)), 300.0) == 106
    assert offset_before((), 300.0) == 0


@pytest.mark.slow
@given(
    st.lists(
        st.lists(st.sampled_from([b"a", b"\n", b"bc\n"]), min_size=1).map(
            lambda parts: b"".join(parts) + b"\n"
        ),
        max_size=6,
    ),
    st.lists(st.integers(0, 60), max_size=8),
)
def test_stamped_loses_no_byte_and_no_order(pieces: list[bytes], offsets: list[int]) -> None:
    index = tuple((offset, float(number)) for number, offset in enumerate(sorted(offsets)))
    found = list(stamped([Run(OUT, None, lines.NEVER, piece) for piece in pieces], 0, index))
    assert b"".join(run.data for run in found) == b"".join(pieces)
    assert all(run.data.endswith(b"\n") for run in found)
    assert [run.order for run in found] == sorted(run.order for run in found)


def test_after_uses_the_time_of_writing() -> None:
    runs = list(stamped([Run(OUT, None, lines.NEVER, b"old\nnew\n")], 0, ((0, 100.0), (4, 1000.0))))
    asked: list[int] = []
    for since in (900.0, 1000.9):  # it was written by second 1001
        left = lines.after(iter(runs), since, lambda: asked.append(1))
        assert [run.data for run in left] == [b"new\n"]
    assert list(lines.after(iter(runs), 1001.1, lambda: asked.append(1))) == []
    assert asked == []


@pytest.mark.parametrize("count", [1, 16, 17, 18, 34])
def test_after_says_that_a_file_has_no_times(count: int) -> None:
    runs, asked = [Run(OUT, None, lines.NEVER, b"line\n")] * count, list[int]()
    assert list(lines.after(iter(runs), 900.0, lambda: asked.append(1))) == runs
    assert asked == [1]


def test_stamped_keeps_the_time_of_a_line_that_was_written_a_moment_later() -> None:
    slow = Run(OUT, 31.290, 31.290, b"2026 ...\n")
    wrong = Run(OUT, 20.0, 20.0, b"1 hour ago ...\n")
    assert [run.order for run in stamped([slow], 0, ((0, 31.296),))] == [31.290]
    assert [run.order for run in stamped([wrong], 0, ((0, 40.0),))] == [39.0]


def test_stamps_of_a_long_task_are_less_exact() -> None:
    run = Run(OUT, None, lines.NEVER, b"a\nb\nc\n")
    found = stamped([run], 0, ((0, 0.0), (2, 4000.0), (4, 90000.0)))
    times = [(0.0, 1.0), (4000.0, 4010.0), (90000.0, 90060.0)]
    assert [(one.order, one.written) for one in found] == times
