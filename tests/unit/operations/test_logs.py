"""`operations.logs` on a fake cluster: of a running job, followed through restarts and faults, and
of one that is over.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job import operations
from submit_tf_job.container import contract
from submit_tf_job.errors import AuthError, ClusterUnavailable, NoSuchJob, SettingsError, UsageError
from submit_tf_job.logs import follow
from submit_tf_job.observation import JobReport, JobState, JobStatus, Verdict
from submit_tf_job.report.log_text import output_lines
from submit_tf_job.settings import load_settings
from submit_tf_job.yarn.observed import ObservedService
from tests.fakes.logged_job import AM, ONE, Job
from tests.fakes.resource_manager import FakeCluster
from tests.fakes.transport import Fault

TWO = "container_1700000000000_0001_01_000003"
AGAIN = "container_1700000000000_0001_01_000004"
LOGS = "/ws/v1/node/containers"


@pytest.fixture
def job() -> Job:
    return Job(FakeCluster())


@pytest.fixture
def two(job: Job) -> Job:
    job.start(("worker-0", ONE), ("worker-1", TWO))
    job.writes(ONE, b"2023-05-12 12:00:01 a\n2023-05-12 12:00:03 b\n")
    job.writes(ONE, b"I0512 12:00:02.0 err\n", file="stderr.txt")
    job.writes(ONE, b"other\n", file="other.log")
    job.writes(TWO, b"2023-05-12 12:00:02.5 c\xff\n")
    return job


# --- as it is now ---------------------------------------------------------------------------------


def test_logs_of_a_running_job_are_merged(two: Job) -> None:
    assert two.logs() == [
        "worker-0 2023-05-12 12:00:01 a",
        "worker-0 I0512 12:00:02.0 err",
        "worker-1 2023-05-12 12:00:02.5 c\\xff",
        "worker-0 2023-05-12 12:00:03 b",
    ]
    assert two.said == []


def test_logs_lines_have_task_and_file(two: Job) -> None:
    [line] = operations.logs(
        two.api,
        "application_1700000000000_0001",
        "worker-0",
        grep="err$",
        wall=lambda: two.clock.epoch_ms() / 1000,
    )
    assert (line.task, line.container, line.file, line.text) == (
        "worker-0",
        ONE,
        "stderr.txt",
        "I0512 12:00:02.0 err",
    )
    assert line.time is not None
    # the fake's clock begins in November 2023
    assert line.time.isoformat() == "2023-05-12T12:00:02+00:00"


def test_logs_selects_tasks_roles_and_files(two: Job) -> None:
    assert two.logs("worker-1") == ["worker-1 2023-05-12 12:00:02.5 c\\xff"]
    assert len(two.logs("worker")) == 4
    assert two.logs("worker-0", tail=1) == [
        "worker-0 I0512 12:00:02.0 err",
        "worker-0 2023-05-12 12:00:03 b",
    ]
    assert two.logs(files=["other.log"]) == ["worker-0 other"]
    with pytest.raises(NoSuchJob, match=r"there is no log file nosuch.log") as caught:
        two.logs(files=["nosuch.log"])
    assert caught.value.hint == "There are other.log, stderr.txt, stdout.txt."
    with pytest.raises(UsageError, match="no task or role 'ps'") as wrong:
        two.logs("ps")
    assert wrong.value.hint == "There are worker-0, worker-1."
    for task in ("worker-2", "worker-9"):
        with pytest.raises(UsageError, match=f"there is no task '{task}'") as wrong:
            two.logs(task)
        assert wrong.value.hint == "worker has 2 tasks, 0 to 1."
    with pytest.raises(UsageError, match="not a valid regular expression"):
        two.logs(grep="(")
    with pytest.raises(UsageError, match="not a valid number of lines"):
        two.logs(tail=-1)


def test_log_files_of_a_running_job(two: Job) -> None:
    found = operations.log_files(two.api, "mnist", "worker-0")
    assert (found.job, found.application_id, found.source) == (
        "mnist",
        "application_1700000000000_0001",
        "nodes",
    )
    [(container, files)] = found.containers
    assert container.task == "worker-0"
    assert [(file.name, file.size) for file in files] == [
        ("other.log", 6),
        ("stderr.txt", 21),
        ("stdout.txt", 44),
    ]


def test_logs_reads_a_large_file_in_pieces(two: Job) -> None:
    two.writes(TWO, b"0123456789\n" * 10_000_000)  # more than one response may hold
    assert two.logs("worker-1", tail=1) == ["worker-1 0123456789"]
    assert next(iter(operations.logs(two.api, "mnist", "worker-1"))).text.startswith("2023")
    runs = operations.logs(two.api, "mnist", "worker-1").runs()
    assert sum(len(run.data) for run in runs) == 110_000_000 + 25


def test_logs_resumes_after_a_broken_connection(two: Job) -> None:
    two.writes(TWO, b"".join(b"%07d\n" % number for number in range(100_000)))
    two.cluster.network.faults.append(Fault("truncate", "GET", "0003/logs/stdout.txt"))
    found = two.logs("worker-1")
    assert found[1:] == [f"worker-1 {number:07d}" for number in range(100_000)]


def test_logs_without_one_lost_node(two: Job) -> None:
    two.yarn.containers["worker"][1]["bare_host"] = "node2"
    assert [line.split()[0] for line in two.logs()] == ["worker-0"] * 3
    assert two.said == ["worker-1: its logs cannot be read: no NodeManager of node2 is in service"]
    with pytest.raises(ClusterUnavailable, match="no NodeManager of node2"):
        two.logs("worker-1")


def test_logs_before_the_first_container(job: Job) -> None:
    job.start()
    with pytest.raises(NoSuchJob, match="has no logs yet") as caught:
        job.logs()
    assert "-f waits" in caught.value.hint


def test_logs_of_another_users_job(two: Job) -> None:
    with pytest.raises(NoSuchJob, match="nosuch"):
        operations.logs(two.api, "nosuch")
    bob = Job.__new__(Job)
    bob.__dict__.update(two.__dict__)
    settings = load_settings(
        arguments={"resource_managers": ["http://rm1:8088"], "user": "bob"},
        environ={"HOME": "/nowhere"},
        cwd=Path("/"),
    )
    client = two.cluster.client("bob")
    from submit_tf_job.yarn.nodemanager import NodeManagers

    bob.api = operations.Cluster(settings, client, NodeManagers(client), two.clock, two.clock.sleep)
    with pytest.raises(AuthError, match="mnist is alice's, not bob's"):
        bob.logs()
    with pytest.raises(AuthError, match="only alice can ask"):
        operations.logs(bob.api, "application_1700000000000_0001")


def test_logs_of_an_ended_job_without_configuration(two: Job) -> None:
    two.ends(0.1)
    two.clock.sleep(1)
    with pytest.raises(SettingsError, match="hadoop_conf is not set"):
        two.logs()


# --- followed -------------------------------------------------------------------------------------


def test_logs_follow_until_the_end(two: Job) -> None:
    two.writes(ONE, b"later\nunfin", after_s=3)
    two.writes(ONE, b"ished\nlast without end", after_s=6)
    two.ends(10)
    assert two.logs(follow=True)[4:] == [
        "worker-0 later",
        "worker-0 unfinished",
        "worker-0 last without end",
    ]
    assert two.said == []


def test_logs_follow_yields_lines_within_two_polls(two: Job) -> None:
    came: list[float] = []
    for number in range(20):
        two.writes(ONE, b"at %d\n" % number, after_s=1.3 * number + 0.7)
    two.ends(40)
    start = two.clock()
    for line in operations.logs(two.api, "mnist", "worker-0", follow=True, grep="^at"):
        came.append(two.clock() - start - (1.3 * int(line.text[3:]) + 0.7))
    assert len(came) == 20
    assert max(came) <= 2.0


def test_logs_follow_requests_only_new_bytes(two: Job) -> None:
    two.writes(TWO, b"x" * 1_000 + b"\n")
    two.writes(TWO, b"news\n", after_s=5.5)
    two.ends(9)
    reading = iter(operations.logs(two.api, "mnist", "worker-1", follow=True))
    next(reading), next(reading)
    before = len(two.cluster.network.log)
    assert next(reading).text == "news"
    asked = [
        path
        for address, _method, path in two.cluster.network.log[before:]
        if address == "node1:8042"
    ]
    assert asked == [f"{LOGS}/{TWO}/logs"] * (len(asked) - 1) + [f"{LOGS}/{TWO}/logs/stdout.txt"]
    assert 4 <= len(asked) <= 8
    assert [line.text for line in reading] == []


def test_logs_follow_with_tail(two: Job) -> None:
    two.writes(ONE, b"later\n", after_s=3)
    two.ends(6)
    assert two.logs("worker-0", follow=True, tail=1, files=["stdout.txt"]) == [
        "worker-0 2023-05-12 12:00:03 b",
        "worker-0 later",
    ]


def test_logs_follow_a_restarted_task(two: Job) -> None:
    two.clock.after(
        3,
        lambda: two.yarn.containers["worker"].__setitem__(
            0, {**two.yarn.containers["worker"][0], "id": AGAIN}
        ),
    )
    two.writes(ONE, b"its last\n", after_s=2.9)
    two.writes(AGAIN, b"again\n", after_s=4)
    two.ends(12)
    assert two.logs("worker-0", follow=True)[3:] == ["worker-0 its last", "worker-0 again"]
    assert two.said == [f"worker-0 was started again as {AGAIN}; its log continues there"]


def test_logs_follow_waits_for_the_first_container(job: Job) -> None:
    job.clock.after(
        12,
        lambda: job.yarn.containers.update(
            worker=[{"id": ONE, "component_instance_name": "worker-0", "bare_host": "node1"}]
        ),
    )
    job.writes(ONE, b"begun\n", after_s=13)
    job.ends(20)
    assert job.logs(follow=True) == ["worker-0 begun"]


def test_logs_follow_reports_an_unreachable_resource_manager_once(two: Job) -> None:
    two.clock.after(3, lambda: two.cluster.kill_active(back_s=40))
    two.writes(ONE, b"meanwhile\n", after_s=20)
    two.ends(80)
    assert "worker-0 meanwhile" in two.logs(follow=True)
    assert [sentence.split(";")[0].split(":")[0] for sentence in two.said] == [
        "the cluster does not answer",
        "the cluster answers again",
    ]


def test_logs_follow_retries_after_5xx(two: Job) -> None:
    for _ in range(3):
        two.clock.after(
            3,
            lambda: two.cluster.network.faults.append(Fault("error", "GET", f"{LOGS}/{ONE}/logs$")),
        )
    two.writes(ONE, b"after\n", after_s=5)
    two.ends(15)
    assert "worker-0 after" in two.logs(follow=True)
    assert [sentence.partition(":")[2].strip()[:31] for sentence in two.said] == [
        "its logs cannot be read just no",
        "its logs can be read again",
    ]


def test_logs_follow_reports_a_restarting_am_once(two: Job) -> None:
    two.clock.after(3, lambda: setattr(two.yarn, "readable", False))
    two.clock.after(15, lambda: setattr(two.yarn, "readable", True))
    two.writes(ONE, b"meanwhile\n", after_s=9)
    two.ends(30)
    assert "worker-0 meanwhile" in two.logs(follow=True)
    assert [sentence.partition(":")[0] for sentence in two.said] == [
        "which containers it has is not known just now",
        "the cluster answers again",
    ]


def test_logs_follow_rereads_a_file_that_became_shorter(two: Job) -> None:
    two.clock.after(3, lambda: two.node.logs.__setitem__((TWO, "stdout.txt"), b"new\n"))
    two.ends(8)
    assert two.logs("worker-1", follow=True)[1:] == ["worker-1 new"]
    assert two.said == [
        "worker-1: stdout.txt has become shorter; it is read again from its beginning"
    ]


def test_logs_follow_where_the_end_cannot_be_read(two: Job) -> None:
    """The NodeManager has deleted the log, and there is no configuration for collected logs: a
    sentence reports it, and the lines that were read remain.
    """
    two.ends(5, state="KILLED", keeps=False)
    assert len(two.logs(follow=True)) == 4
    assert two.said[-1].startswith(
        "the last lines of worker-0, worker-1 cannot be read: where the cluster keeps the logs"
    )


def test_logs_follow_limits_requests_for_two_hundred_containers(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [
        (f"worker-{number}", f"container_1700000000000_0001_01_{number + 2:06d}")
        for number in range(200)
    ]
    job.start(*ids)
    for number, (_task, id_) in enumerate(ids):
        job.writes(id_, b"line of %d\n" % number)
    job.ends(24)
    open_now, most = [0], [0]

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*args: Any, **named: Any) -> Any:
            open_now[0] += 1
            most[0] = max(most[0], open_now[0])
            try:
                return call(*args, **named)
            finally:
                open_now[0] -= 1

        return counting

    monkeypatch.setattr(job.api.nodes, "list_logs", counted(job.api.nodes.list_logs))
    start = len(job.cluster.network.log)
    assert sorted(job.logs(follow=True)) == sorted(
        f"{task} line of {number}" for number, (task, _id) in enumerate(ids)
    )
    assert most[0] <= follow.Pulse().workers
    polls = len(
        [
            path
            for _address, _method, path in job.cluster.network.log[start:]
            if path == f"{LOGS}/{ONE}/logs"
        ]
    )
    assert 24 / 4 - 3 <= polls <= 24 / 4 + 3


def test_logs_of_the_application_master(two: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    from submit_tf_job.yarn.observed import AppAttempt

    two.node.logs[AM, "serviceam.log"] = b"2023-05-12 12:00:00,001 [main] INFO  am\n"
    attempts = (AppAttempt("appattempt_1", "RUNNING", AM, "node1:8041", "node1:8042"),)
    monkeypatch.setattr(two.api.client, "app_attempts", lambda _app_id, **_named: attempts)
    assert two.logs("am") == two.logs(am=True) == ["am 2023-05-12 12:00:00,001 [main] INFO  am"]
    assert [
        container.task for container, _files in operations.log_files(two.api, "mnist").containers
    ] == ["worker-0", "worker-1", "am"]


def test_logs_order_of_lines_without_a_time(job: Job) -> None:
    job.start(("worker-0", ONE), ("worker-1", TWO))
    now = job.clock.epoch_ms() / 1000
    job.writes(ONE, b"first\nfourth\n")
    job.writes(TWO, b"second\nthird\n")
    for container, offset, times in ((ONE, 6, (10, 40)), (TWO, 7, (20, 30))):
        index = "".join(
            f"stdout.txt {at} {now - 900 + time}\n"
            for at, time in zip((0, offset), times, strict=True)
        )
        job.writes(container, index.encode(), file="tfjob-times.txt")
    assert [line.split()[1] for line in job.logs()] == ["first", "second", "third", "fourth"]
    assert job.logs(since_s=800) == []
    assert len(job.logs(since_s=1000)) == 4
    [line] = operations.logs(job.api, "mnist", "worker-0", grep="first", wall=lambda: now)
    assert line.time is None
    assert line.written is not None
    assert line.written.timestamp() == pytest.approx(now - 889)
    job.ends(3)
    followed = list(operations.logs(job.api, "mnist", follow=True, wall=lambda: now))
    assert [line.text for line in followed] == ["first", "second", "third", "fourth"]
    assert job.said == []


# --- what the deciding task writes, between the looks of a watch ----------------------------------


def seen_running(job: Job, state: JobState = JobState.RUNNING, container: str = ONE) -> JobStatus:
    """Return the status of a running job whose deciding task is worker-0."""
    containers = [
        {
            "id": container,
            "component_instance_name": "worker-0",
            "bare_host": "node1",
            "state": "READY",
        }
    ]
    answer = {
        "name": "mnist",
        "state": "STABLE",
        "configuration": {"properties": {contract.PROPERTY_DECIDING: "worker-0"}},
        "components": [{"name": "worker", "containers": containers}],
    }
    app = job.api.client.app("application_1700000000000_0001")
    said = JobReport.parse(
        json.dumps({"version": 1, "submission": "s1", "state": "running"}).encode()
    )
    return JobStatus(
        "mnist",
        app.id if app else None,
        app,
        ObservedService.from_json(answer),
        said,
        given_verdict=Verdict(state),
    )


def output_of(job: Job, **options: Any) -> tuple[operations.OutputFollower, list[str]]:
    came: list[str] = []

    def show(runs: Any) -> None:
        came.extend(line for run in runs for line in output_lines(run))

    return operations.OutputFollower(
        job.api, show, job.said.append, wall=lambda: job.clock.epoch_ms() / 1000, **options
    ), came


def test_output_follower_reads_during_sleep(two: Job) -> None:
    output, came = output_of(two)
    output.sleep(3)
    assert came == []  # its node is not known yet
    output.update(seen_running(two))
    two.writes(ONE, b"[submit_tf_job] waiting\nTFJOB_PROGRESS {}\nlater\nunfin", after_s=3)
    start = two.clock()
    output.sleep(15)
    assert two.clock() - start == pytest.approx(15, abs=0.5)
    assert came == [
        "worker-0 | 2023-05-12 12:00:01 a",
        "worker-0 | I0512 12:00:02.0 err",
        "worker-0 | 2023-05-12 12:00:03 b",
        "worker-0 | later",
    ]
    two.writes(ONE, b"ished\n")
    two.ends(1)
    two.clock.sleep(2)
    output.update(seen_running(two, JobState.SUCCEEDED))
    assert came[-1] == "worker-0 | unfinished"
    output.update(seen_running(two, JobState.SUCCEEDED))
    output.sleep(5)
    assert (len(came), two.said) == (5, [])


def test_output_follower_begins_with_the_tail(two: Job) -> None:
    output, came = output_of(two, tail=1)
    output.update(seen_running(two))
    two.writes(ONE, b"later\n", after_s=3)
    output.sleep(5)
    assert came == [
        "worker-0 | I0512 12:00:02.0 err",
        "worker-0 | 2023-05-12 12:00:03 b",
        "worker-0 | later",
    ]


def test_output_follower_retries_rarely(two: Job) -> None:
    output, _came = output_of(two)
    output.update(seen_running(two, container="container_1700000000000_0099_01_000002"))
    before = len(two.cluster.network.log)
    output.sleep(60)
    assert len([one for one in two.cluster.network.log[before:] if one[0] == "node1:8042"]) <= 5
    assert len(two.said) == 1
    assert "its logs cannot be read just now" in two.said[0]
