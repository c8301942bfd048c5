"""Name and submission id of a task instance's job."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from submit_tf_job.airflow.task_run import TaskRun

RUN = TaskRun(
    "http://airflow.example.com", "digits", "train", "scheduled__2026-01-01T00:00:00+00:00"
)


def test_job_name_is_the_same_in_every_try() -> None:
    assert RUN.job_name() == replace(RUN).job_name()
    assert re.fullmatch(r"train-[a-z2-7]{10}", RUN.job_name())
    assert re.fullmatch(r"airflow-[0-9a-f]{40}", RUN.submission_id)
    others = [
        replace(RUN, airflow="http://test.example.com"),
        replace(RUN, dag_id="digits2"),
        replace(RUN, task_id="trai", run_id="n"),
        replace(RUN, run_id="manual__2026-01-01T00:00:00+00:00"),
        replace(RUN, map_index=0),
        replace(RUN, map_index=1),
    ]
    assert len({run.submission_id for run in [RUN, *others]}) == 7
    assert len({run.job_name("same") for run in [RUN, *others]}) == 7


def test_job_name_changes_after_a_clear() -> None:
    again = replace(RUN, cleared_at=2)
    assert again.submission_id != RUN.submission_id
    assert again.job_name() == f"{RUN.job_name()}-2"
    names = [
        RUN.job_name(),
        again.job_name(),
        replace(RUN, cleared_at=1).job_name(),
        replace(RUN, map_index=3).job_name(),
        "train",
        "x",
    ]
    assert again.earlier(names) == (RUN.job_name(), f"{RUN.job_name()}-1")


@pytest.mark.parametrize(
    ("task", "readable", "begins"),
    [
        ("train", "mnist", "mnist-"),
        ("Group.Train_It", None, "group-train-it-"),
        ("7days", None, "j7days-"),
        ("übung", None, "bung-"),
        ("日本", None, "job-"),
        ("a" * 250, None, f"{'a' * 20}-"),
        ("abcdefghijklmnopqrs.tuvw", None, "abcdefghijklmnopqrs-"),
    ],
)
def test_job_name_is_readable_and_valid(task: str, readable: str | None, begins: str) -> None:
    name = replace(RUN, task_id=task).job_name(readable)
    assert name.startswith(begins)
    assert len(name) == len(begins) + 10
    assert re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", name)
