"""The name of a task instance's job, and the key of its submission."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from submit_tf_job.airflow.task_run import TaskRun

RUN = TaskRun("http://airflow.example.com", "digits", "train", "scheduled__2026-01-01T00:00:00Z")


def test_job_name_is_the_same_in_every_try() -> None:
    assert RUN.job_name() == replace(RUN).job_name()
    assert re.fullmatch(r"train-[a-z2-7]{5}", RUN.job_name())
    assert re.fullmatch(r"airflow-[0-9a-f]{40}", RUN.key)
    others = [
        replace(RUN, airflow="http://test.example.com"),
        replace(RUN, dag_id="digits2"),
        replace(RUN, task_id="trai", run_id="n"),
        replace(RUN, run_id="manual__2026-01-01T00:00:00+00:00"),
        replace(RUN, map_index=0),
        replace(RUN, map_index=1),
    ]
    assert len({run.key for run in [RUN, *others]}) == 7
    assert len({run.job_name("same") for run in [RUN, *others]}) == 7


def test_a_clear_makes_another_submission_of_the_same_job() -> None:
    cleared = [replace(RUN, cleared_at=number) for number in (0, 1, 2)]
    assert {run.job_name() for run in cleared} == {RUN.job_name()}
    assert len({run.key for run in cleared}) == 3


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
    assert len(name) == len(begins) + 5
    assert re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", name)
