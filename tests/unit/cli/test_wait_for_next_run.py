"""`wait NAME` of a job that is submitted again with more memory."""

from __future__ import annotations

from typing import Any

import pytest

from submit_tf_job import operations
from submit_tf_job.cli import status as commands
from tests.fakes.short_of_memory import OOM, Story


class Talk:
    """The output of a command."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.followed: list[str | None] = []

    def settings(self) -> None: ...

    def say(self, line: str) -> None:
        self.said.append(line)


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> Story:
    """A job whose first run ran out of memory, and whose second one has the name."""
    story = Story()
    failed = story.fails()
    story.submit(story.step(failed))
    ends = {failed.application_id: (failed, OOM)}

    def wait_for(context: Any, _cluster: Any, ref: Any, *_more: Any) -> Any:
        context.followed.append(ref.application_id)
        return ends.get(ref.application_id, ("last", None))[0]

    def find(_cluster: Any, job: str) -> operations.JobRef:
        assert job in ("ranker", failed.application_id)
        return operations.JobRef("ranker", failed.application_id)

    monkeypatch.setattr(operations, "connect", lambda _settings: story.cluster)
    monkeypatch.setattr(operations, "find", find)
    monkeypatch.setattr(commands, "_wait_for", wait_for)
    monkeypatch.setattr(
        operations, "why_failed", lambda _cluster, status: OOM if status is failed else None
    )
    next_run = operations.next_run
    monkeypatch.setattr(
        operations,
        "next_run",
        lambda cluster, status, *more, **named: (
            next_run(cluster, status, *more, **named) if status is failed else None
        ),
    )
    monkeypatch.setattr(commands, "finish", lambda _context, status, _cause: status)
    return story


def test_wait_for_a_name_follows_to_the_last_run(story: Story) -> None:
    talk = Talk()
    assert commands.wait(talk, "ranker") == "last"  # type: ignore[arg-type, comparison-overlap]
    assert talk.followed == story.applications
    assert talk.said[-1] == f"     submitted again as {story.applications[-1]}"


def test_wait_for_an_application_ends_with_it(story: Story) -> None:
    talk = Talk()
    commands.wait(talk, story.applications[0])  # type: ignore[arg-type]
    assert talk.followed == story.applications[:1]
    assert talk.said == []
