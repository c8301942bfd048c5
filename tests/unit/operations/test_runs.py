"""A job that was submitted again with more memory is one row of a list."""

from __future__ import annotations

import pytest

from submit_tf_job import operations
from submit_tf_job.observation import JobState
from submit_tf_job.operations.listing import JobSelection, ListedJob
from submit_tf_job.operations.runs import SERVICES_READ
from submit_tf_job.yarn.resource_manager import ResourceManager
from tests.fakes.short_of_memory import Story


def rows(story: Story, **selection: object) -> list[ListedJob]:
    """Return the rows of the story's job, whose fake cluster has another one, too."""
    found = operations.list_jobs(story.cluster, JobSelection(**selection))  # type: ignore[arg-type]
    return [job for job in found if job.name == "ranker"]


def run_again(story: Story) -> None:
    """Let the job run out of memory, and its next run start."""
    story.submit(story.step(story.fails()))
    story.stage.fake.clock.sleep(20)


def test_runs_are_one_row() -> None:
    story = Story()
    assert [job.runs for job in rows(story)] == [1]
    run_again(story)
    run_again(story)
    (row,) = rows(story)
    assert (row.application_id, row.state, row.runs) == (
        story.applications[2],
        JobState.RUNNING,
        3,
    )
    assert [job.runs for job in rows(story, limit=2)] == [3]


def test_run_that_was_replaced_is_a_row_of_its_own() -> None:
    story = Story()
    run_again(story)
    story.fails()
    operations.submit(story.planned, story.cluster, replace=True)
    story.stage.fake.clock.sleep(20)
    assert [job.runs for job in rows(story)] == [1, 1, 1]


def test_runs_before_a_submission_that_was_replaced_stay_rows() -> None:
    story = Story()
    story.fails()
    operations.submit(story.planned, story.cluster, replace=True)
    run_again(story)
    assert [(job.runs, job.application_id) for job in rows(story)] == [
        (2, story.applications[2]),
        (1, story.applications[0]),
    ]


@pytest.mark.parametrize(("final", "read"), [("SUCCEEDED", 0), ("FAILED", SERVICES_READ)])
def test_list_reads_services_only_after_a_failure_and_few_of_them(
    monkeypatch: pytest.MonkeyPatch, final: str, read: int
) -> None:
    story, asked = Story(), list[str]()
    for number in range(SERVICES_READ + 5):
        for ends in (True, False):
            app = story.yarn.submit_app("alice", {"name": f"other-{number}"})
            if ends:
                story.yarn.end(app, "FINISHED", final)
            story.stage.fake.clock.sleep(0.1)
    get_service = ResourceManager.get_service

    def counted(client: ResourceManager, name: str, **more: object) -> object:
        asked.append(name)
        return get_service(client, name, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(ResourceManager, "get_service", counted)
    assert [job.runs for job in rows(story)] == [1]
    assert len(asked) == read
