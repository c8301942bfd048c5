"""Logs of a job that runs, as they grow."""

from __future__ import annotations

from tests.world.cluster import FakeCluster
from tests.world.logged_job import ONE, Job


def test_follow_without_earlier_lines_starts_at_the_line_that_is_being_written() -> None:
    job = Job(FakeCluster())
    job.start(("worker-0", ONE))
    job.writes(ONE, b"old\n" * 5_000 + b"begun")
    job.writes(ONE, b" and done\nnew\n", after_s=5)
    job.ends(20)
    assert job.logs(follow=True, tail=0) == ["worker-0 begun and done", "worker-0 new"]
    assert job.said == []


def test_dates_that_no_calendar_of_python_holds_are_text() -> None:
    job = Job(FakeCluster())
    job.start(("worker-0", ONE))
    never = [
        "9999-12-31 23:59:59 -1200 x",
        "9999-12-31 23:59:59.9999999 y",
        "0001-01-01 00:00:00 z",
    ]
    job.writes(ONE, "\n".join(["I1114 22:13:20.0 a", *never, "b", ""]).encode())
    assert job.logs() == [f"worker-0 {line}" for line in ("I1114 22:13:20.0 a", *never, "b")]


def test_follow_ends_where_a_list_has_more_bytes_than_are_served() -> None:
    job = Job(FakeCluster())
    job.start(("worker-0", ONE))
    job.node.promised = 5
    job.writes(ONE, b"old\n")
    job.writes(ONE, b"new\n", after_s=5)
    job.ends(20)
    assert job.logs(follow=True) == ["worker-0 old", "worker-0 new"]
