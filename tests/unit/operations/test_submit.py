"""Submissions: which requests they send, what is refused before anything is deleted; and a deciding
task without container: when it is overdue, and when a follower may stop the job.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from submit_tf_job import operations
from submit_tf_job.container import contract
from submit_tf_job.errors import JobSpecError, NoSuchJob, Refused
from submit_tf_job.jobspec.job import ImagePolicy
from submit_tf_job.observation import JobReport, JobState, JobStatus, verdict
from submit_tf_job.operations.watch import waits_in_vain
from submit_tf_job.yarn.observed import AppReport, ObservedService
from tests.fakes.short_of_memory import Story

HERE = JobReport.parse(
    b'{"version": 1, "submission": "s", "state": "waiting", "wanted": 2, "arrived": 1}'
)


def waiting(*, elapsed_s: float = 1000.0, launched_s: float = 90.0, **changes: Any) -> JobStatus:
    """Return a job whose ApplicationMaster was started 90 s after the job was accepted, and whose
    tasks have no containers.
    """
    record = {
        "id": "application_1_0001",
        "user": "alice",
        "state": changes.pop("state", "RUNNING"),
        "finalStatus": "UNDEFINED",
        "startedTime": 1_000_000,
        "launchTime": 1_000_000 + int(launched_s * 1000) if launched_s else 0,
        "elapsedTime": int(elapsed_s * 1000),
        "amContainerLogs": f"http://n1:8042/node/containerlogs/container_1_0001_{changes.pop('attempt', 1):02}_000001/alice",
    }
    containers = changes.pop("containers", [])
    limit = changes.pop("limit", "900")
    properties = {
        contract.PROPERTY_DECIDING: "chief-0",
        **({contract.PROPERTY_START_TIMEOUT: limit} if limit else {}),
    }
    found = ObservedService.from_json(
        {
            "name": "mnist",
            "id": "application_1_0001",
            "state": "STARTED",
            "configuration": {"properties": properties},
            "components": [
                {"name": "chief", "containers": containers},
                {"name": "worker", "containers": []},
            ],
        }
    )
    return JobStatus("mnist", "application_1_0001", AppReport.from_json(record), found, **changes)


def test_overdue_names_the_deciding_task_without_container() -> None:
    found = verdict(waiting())
    assert found.state is JobState.STARTING
    assert found.reason == "chief-0 has had no container for longer than start_timeout (900 s)"
    assert "submit_tf_job stop mnist" in found.hint


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(waiting(elapsed_s=980), id="waited in its queue for the rest of the time"),
        pytest.param(
            waiting(
                containers=[
                    {"id": "container_1_0001_01_000002", "component_instance_name": "chief-0"}
                ]
            ),
            id="has a container",
        ),
        pytest.param(waiting(limit=""), id="no start_timeout is known"),
        pytest.param(waiting(attempt=2), id="its ApplicationMaster was started again"),
        pytest.param(
            waiting(trouble="the ApplicationMaster does not answer"), id="could not be asked"
        ),
        pytest.param(waiting(foreign=True), id="somebody else's"),
        pytest.param(waiting(launched_s=0), id="when it was started is not known"),
        pytest.param(waiting(state="ACCEPTED"), id="its ApplicationMaster waits"),
        pytest.param(waiting(report=HERE), id="the deciding task is there"),
    ],
)
def test_overdue_is_none_where_it_is_not_certain(seen: JobStatus) -> None:
    assert seen.overdue is None


def test_waits_in_vain_needs_half_a_minute_without_container() -> None:
    now = 0.0
    in_vain = waits_in_vain(lambda: now)
    late, well = (
        waiting(),
        waiting(elapsed_s=10),
    )
    answers = []
    for now, look in (  # noqa: B007
        (0.0, late),
        (20.0, late),
        (25.0, well),
        (29.0, late),
        (58.0, late),
        (60.0, late),
    ):
        answers.append(in_vain(look))
    assert answers == [False, False, False, False, False, True]


# --- the requests of a submission -----------------------------------------------------------------

CLUSTER, SERVICES = "/ws/v1/cluster", "/app/v1/services"


def asked(story: Story) -> list[tuple[str, str]]:
    """Return the requests since the last call."""
    log = story.stage.fake.network.log
    found = [(method, path) for _, method, path in log]
    log.clear()
    return found


def test_each_request_before_a_post_has_its_reason() -> None:
    """docs/architecture.md has the reasons."""
    _another_job, *found = asked(Story())
    assert found[: found.index(("POST", SERVICES))] == [
        ("GET", f"{CLUSTER}/info"),
        ("GET", f"{SERVICES}/ranker"),
        ("GET", f"{CLUSTER}/apps"),
        ("GET", f"{CLUSTER}/apps"),
        ("POST", f"{CLUSTER}/apps/new-application"),
        ("GET", f"{CLUSTER}/nodes"),
        ("GET", "/conf"),
    ]


def test_nothing_is_posted_where_the_cluster_refuses_a_new_job() -> None:
    story = Story()
    story.fails()
    operations.delete(story.cluster, "ranker")
    story.yarn.max_mb = 512
    asked(story)
    with pytest.raises(Refused, match=r"roles\.worker\.memory"):
        operations.submit(story.planned, story.cluster)
    assert ("POST", SERVICES) not in asked(story)
    with pytest.raises(NoSuchJob):
        story.cluster.client.get_service("ranker")


@pytest.mark.parametrize(
    ("executor", "runtimes", "why", "ways"),
    [
        ("DefaultContainerExecutor", "docker", "containers are plain processes", 3),
        ("LinuxContainerExecutor", "default", "the Docker runtime is not allowed", 2),
    ],
)
def test_nothing_is_posted_where_no_node_runs_the_image(
    executor: str, runtimes: str, why: str, ways: int
) -> None:
    story = Story()
    story.fails()
    operations.delete(story.cluster, "ranker")
    conf = story.stage.fake.node.conf
    conf["yarn.nodemanager.container-executor.class"] = f"org.apache.hadoop.{executor}"
    conf["yarn.nodemanager.runtime.linux.allowed-runtimes"] = runtimes
    asked(story)
    with pytest.raises(JobSpecError, match=rf"t\.yaml:3:1: image: .*{why}") as caught:
        operations.submit(story.planned, story.cluster)
    assert caught.value.exit_status == 2
    assert len(caught.value.hint.split("; or ")) == ways
    assert ("POST", SERVICES) not in asked(story)
    job = replace(story.planned.job, image_policy=ImagePolicy.WARN)
    anyway = operations.make_plan(job, story.cluster.settings)
    assert not operations.submit(anyway, story.cluster).adopted


def test_a_job_that_exists_is_found_where_the_cluster_would_refuse_it_now() -> None:
    """A scheduler that starts again asks for its own submission."""
    story = Story()
    story.yarn.max_mb = 512
    again = operations.submit(story.planned, story.cluster)
    assert again.adopted
    assert again.ref == story.done.ref


def test_replace_deletes_nothing_where_the_cluster_refuses_the_new_job() -> None:
    story = Story()
    story.fails()
    story.yarn.max_mb = 512
    with pytest.raises(Refused, match=r"roles\.worker\.memory"):
        operations.submit(story.planned, story.cluster, replace=True)
    assert story.cluster.client.get_service("ranker").id == story.done.ref.application_id
