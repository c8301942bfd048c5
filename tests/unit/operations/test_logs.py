"""api.logs on a fake cluster: of a job that runs, followed through restarts and faults to its end, and of one that is over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job import api
from submit_tf_job.errors import AuthError, ClusterUnavailable, NoSuchJob, SettingsError, UsageError
from submit_tf_job.settings import load_settings
from submit_tf_job.tasklogs import follow
from submit_tf_job.yarn.records import dumps
from tests.fakes.resource_manager import FakeCluster
from tests.fakes.transport import Fault
from tests.unit.test_yarn_behaviours import service_of

ONE = "container_1700000000000_0001_01_000002"
TWO = "container_1700000000000_0001_01_000003"
AGAIN = "container_1700000000000_0001_01_000004"
AM = "container_1700000000000_0001_01_000001"
LOGS = "/ws/v1/node/containers"


class Job:
    """One job on the fake cluster, whose containers write while somebody waits."""

    def __init__(self, cluster: FakeCluster, hadoop_conf: Path | None = None) -> None:
        self.cluster, self.clock, self.node, self.yarn = cluster, cluster.clock, cluster.node, cluster.yarn
        client = cluster.client()
        arguments = {"resource_managers": ["http://rm1:8088"], "user": "alice", "hadoop_conf": hadoop_conf and str(hadoop_conf)}
        settings = load_settings(arguments=arguments, environ={"HOME": "/nowhere"}, cwd=Path("/"))
        from submit_tf_job.yarn.nodemanager import NodeManagers

        self.api = api.Cluster(settings, client, NodeManagers(client), self.clock, self.clock.sleep)
        client.post_service(dumps(service_of("mnist", "s1", "true")))
        self.said: list[str] = []

    def start(self, *containers: tuple[str, str]) -> None:
        """Let the AM run, with containers of these tasks."""
        self.clock.sleep(5)
        self.yarn.containers["worker"] = [
            {"id": id_, "component_instance_name": task, "bare_host": "node1", "state": "READY"} for task, id_ in containers
        ]

    def writes(self, container: str, data: bytes, *, file: str = "stdout.txt", after_s: float = 0.0) -> None:
        def write() -> None:
            self.node.logs[container, file] = self.node.logs.get((container, file), b"") + data

        self.clock.after(after_s, write) if after_s else write()

    def ends(self, after_s: float, *, state: str = "FINISHED", keeps: bool = True) -> None:
        def end() -> None:
            self.node.ended |= {container for container, _file in self.node.logs}
            [app] = self.yarn.apps.values()
            self.yarn._end(app, state, "SUCCEEDED" if state == "FINISHED" else "KILLED")
            if not keeps:
                self.node.logs.clear()

        self.clock.after(after_s, end)

    def logs(self, task: str | None = None, **options: Any) -> list[str]:
        reading = api.logs(self.api, "mnist", task, say=self.said.append, wall=lambda: self.clock.epoch_ms() / 1000, **options)
        return [f"{line.task} {line.text}" for line in reading]


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


# --- as it is now -------------------------------------------------------------------------------------------------------


def test_a_running_jobs_logs_are_merged(two: Job) -> None:
    assert two.logs() == [
        "worker-0 2023-05-12 12:00:01 a",
        "worker-0 I0512 12:00:02.0 err",
        "worker-1 2023-05-12 12:00:02.5 c\\xff",
        "worker-0 2023-05-12 12:00:03 b",
    ]
    assert two.said == []


def test_a_line_says_where_it_is_from(two: Job) -> None:
    [line] = api.logs(two.api, "application_1700000000000_0001", "worker-0", grep="err$", wall=lambda: two.clock.epoch_ms() / 1000)
    assert (line.task, line.container, line.file, line.text) == ("worker-0", ONE, "stderr.txt", "I0512 12:00:02.0 err")
    assert line.time is not None
    assert line.time.isoformat() == "2023-05-12T12:00:02+00:00"  # the fake's clock stands in November 2023


def test_a_task_a_role_files_and_ends(two: Job) -> None:
    assert two.logs("worker-1") == ["worker-1 2023-05-12 12:00:02.5 c\\xff"]
    assert len(two.logs("worker")) == 4
    assert two.logs("worker-0", tail=1) == ["worker-0 I0512 12:00:02.0 err", "worker-0 2023-05-12 12:00:03 b"]
    assert two.logs(files=["other.log"]) == ["worker-0 other"]
    with pytest.raises(NoSuchJob, match=r"there is no log file nosuch.log") as caught:
        two.logs(files=["nosuch.log"])
    assert caught.value.hint == "There are other.log, stderr.txt, stdout.txt."
    with pytest.raises(UsageError, match="no task or role 'ps'") as wrong:
        two.logs("ps")
    assert wrong.value.hint == "There are worker-0, worker-1."
    with pytest.raises(UsageError, match="no regular expression"):
        two.logs(grep="(")
    with pytest.raises(UsageError, match="no number of lines"):
        two.logs(tail=-1)


def test_the_list_of_files(two: Job) -> None:
    found = api.log_files(two.api, "mnist", "worker-0")
    assert (found.job, found.application_id, found.source) == ("mnist", "application_1700000000000_0001", "nodes")
    [(container, files)] = found.containers
    assert container.task == "worker-0"
    assert [(file.name, file.size) for file in files] == [("other.log", 6), ("stderr.txt", 21), ("stdout.txt", 44)]


def test_a_large_log_is_read_in_pieces_and_only_as_far_as_wanted(two: Job) -> None:
    two.writes(TWO, b"0123456789\n" * 10_000_000)  # more than the funnel takes at once
    assert two.logs("worker-1", tail=1) == ["worker-1 0123456789"]
    assert next(iter(api.logs(two.api, "mnist", "worker-1"))).text.startswith("2023")
    runs = api.logs(two.api, "mnist", "worker-1").runs()
    assert sum(len(run.data) for run in runs) == 110_000_000 + 25


def test_a_connection_that_breaks_is_taken_up_where_it_broke(two: Job) -> None:
    two.writes(TWO, b"".join(b"%07d\n" % number for number in range(100_000)))
    two.cluster.network.faults.append(Fault("truncate", "GET", "0003/logs/stdout.txt"))
    found = two.logs("worker-1")
    assert found[1:] == [f"worker-1 {number:07d}" for number in range(100_000)]


def test_a_node_that_is_gone_costs_its_own_logs_only(two: Job) -> None:
    two.yarn.containers["worker"][1]["bare_host"] = "node2"
    assert [line.split()[0] for line in two.logs()] == ["worker-0"] * 3
    assert two.said == ["worker-1: its logs cannot be read: no NodeManager of node2 is in service"]
    with pytest.raises(ClusterUnavailable, match="no NodeManager of node2"):
        two.logs("worker-1")


def test_before_there_is_anything(job: Job) -> None:
    job.start()
    with pytest.raises(NoSuchJob, match="has no logs yet") as caught:
        job.logs()
    assert "-f waits" in caught.value.hint


def test_whose_job_it_is(two: Job) -> None:
    with pytest.raises(NoSuchJob, match="nosuch"):
        api.logs(two.api, "nosuch")
    bob = Job.__new__(Job)
    bob.__dict__.update(two.__dict__)
    settings = load_settings(
        arguments={"resource_managers": ["http://rm1:8088"], "user": "bob"}, environ={"HOME": "/nowhere"}, cwd=Path("/")
    )
    client = two.cluster.client("bob")
    from submit_tf_job.yarn.nodemanager import NodeManagers

    bob.api = api.Cluster(settings, client, NodeManagers(client), two.clock, two.clock.sleep)
    with pytest.raises(AuthError, match="mnist is alice's, not bob's"):
        bob.logs()
    with pytest.raises(AuthError, match="only alice can ask"):
        api.logs(bob.api, "application_1700000000000_0001")


def test_over_and_nobody_says_where_its_logs_are(two: Job) -> None:
    two.ends(0.1)
    two.clock.sleep(1)
    with pytest.raises(SettingsError, match="hadoop_conf is not set"):
        two.logs()


# --- followed -----------------------------------------------------------------------------------------------------------


def test_following_gives_what_comes_until_the_end(two: Job) -> None:
    two.writes(ONE, b"later\nunfin", after_s=3)
    two.writes(ONE, b"ished\nlast without end", after_s=6)
    two.ends(10)
    assert two.logs(follow=True)[4:] == ["worker-0 later", "worker-0 unfinished", "worker-0 last without end"]
    assert two.said == []


def test_lines_come_within_two_polls(two: Job) -> None:
    came: list[float] = []
    for number in range(20):
        two.writes(ONE, b"at %d\n" % number, after_s=1.3 * number + 0.7)
    two.ends(40)
    start = two.clock()
    for line in api.logs(two.api, "mnist", "worker-0", follow=True, grep="^at"):
        came.append(two.clock() - start - (1.3 * int(line.text[3:]) + 0.7))
    assert len(came) == 20
    assert max(came) <= 2.0


def test_a_quiet_poll_costs_one_request_per_container_and_news_only_themselves(two: Job) -> None:
    two.writes(TWO, b"x" * 1_000 + b"\n")
    two.writes(TWO, b"news\n", after_s=5.5)
    two.ends(9)
    reading = iter(api.logs(two.api, "mnist", "worker-1", follow=True))
    next(reading), next(reading)
    before = len(two.cluster.network.log)
    assert next(reading).text == "news"
    asked = [path for address, _method, path in two.cluster.network.log[before:] if address == "node1:8042"]
    assert asked == [f"{LOGS}/{TWO}/logs"] * (len(asked) - 1) + [f"{LOGS}/{TWO}/logs/stdout.txt"]
    assert 4 <= len(asked) <= 8
    assert [line.text for line in reading] == []


def test_a_tail_then_what_comes(two: Job) -> None:
    two.writes(ONE, b"later\n", after_s=3)
    two.ends(6)
    assert two.logs("worker-0", follow=True, tail=1, files=["stdout.txt"]) == ["worker-0 2023-05-12 12:00:03 b", "worker-0 later"]


def test_a_task_that_is_started_again_is_followed_on(two: Job) -> None:
    two.clock.after(3, lambda: two.yarn.containers["worker"].__setitem__(0, {**two.yarn.containers["worker"][0], "id": AGAIN}))
    two.writes(ONE, b"its last\n", after_s=2.9)
    two.writes(AGAIN, b"again\n", after_s=4)
    two.ends(12)
    assert two.logs("worker-0", follow=True)[3:] == ["worker-0 its last", "worker-0 again"]
    assert two.said == [f"worker-0 was started again, as {AGAIN}: its log goes on with that one"]


def test_following_waits_for_the_first_container(job: Job) -> None:
    job.clock.after(
        12, lambda: job.yarn.containers.update(worker=[{"id": ONE, "component_instance_name": "worker-0", "bare_host": "node1"}])
    )
    job.writes(ONE, b"begun\n", after_s=13)
    job.ends(20)
    assert job.logs(follow=True) == ["worker-0 begun"]


def test_a_resource_manager_that_is_away_is_said_once(two: Job) -> None:
    two.clock.after(3, lambda: two.cluster.kill_active(back_s=40))
    two.writes(ONE, b"meanwhile\n", after_s=20)
    two.ends(80)
    assert "worker-0 meanwhile" in two.logs(follow=True)
    assert [sentence.split(";")[0].split(":")[0] for sentence in two.said] == ["the cluster does not answer", "the cluster answers again"]


def test_fives_in_between_are_survived(two: Job) -> None:
    for _ in range(3):
        two.clock.after(3, lambda: two.cluster.network.faults.append(Fault("error", "GET", f"{LOGS}/{ONE}/logs$")))
    two.writes(ONE, b"after\n", after_s=5)
    two.ends(15)
    assert "worker-0 after" in two.logs(follow=True)
    assert [sentence.partition(":")[2].strip()[:31] for sentence in two.said] == [
        "its logs cannot be read just no",
        "its logs can be read again",
    ]


def test_an_am_that_restarts_is_said_once(two: Job) -> None:
    two.clock.after(3, lambda: setattr(two.yarn, "readable", False))
    two.clock.after(15, lambda: setattr(two.yarn, "readable", True))
    two.writes(ONE, b"meanwhile\n", after_s=9)
    two.ends(30)
    assert "worker-0 meanwhile" in two.logs(follow=True)
    assert [sentence.partition(":")[0] for sentence in two.said] == [
        "which containers it has is not known just now",
        "the cluster answers again",
    ]


def test_a_file_that_becomes_shorter_is_read_again(two: Job) -> None:
    two.clock.after(3, lambda: two.node.logs.__setitem__((TWO, "stdout.txt"), b"new\n"))
    two.ends(8)
    assert two.logs("worker-1", follow=True)[1:] == ["worker-1 new"]
    assert two.said == ["worker-1: stdout.txt has become shorter; it is read again from its beginning"]


def test_the_end_cannot_be_read(two: Job) -> None:
    """The NodeManager has forgotten it, and nobody knows where the collected logs are: that is said, and what was read stays."""
    two.ends(5, state="KILLED", keeps=False)
    assert len(two.logs(follow=True)) == 4
    assert two.said[-1].startswith("the last lines of worker-0, worker-1 cannot be read: where the cluster keeps the logs")


def test_two_hundred_containers_are_asked_politely(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [(f"worker-{number}", f"container_1700000000000_0001_01_{number + 2:06d}") for number in range(200)]
    job.start(*ids)
    for number, (_task, id_) in enumerate(ids):
        job.writes(id_, b"line of %d\n" % number)
    job.ends(60)
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
    assert sorted(job.logs(follow=True)) == sorted(f"{task} line of {number}" for number, (task, _id) in enumerate(ids))
    assert most[0] <= follow.Pulse().workers
    polls = len([path for _address, _method, path in job.cluster.network.log[start:] if path == f"{LOGS}/{ONE}/logs"])
    assert 60 / 4 - 3 <= polls <= 60 / 4 + 3


def test_the_application_master(two: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    from submit_tf_job.yarn.observed import AppAttempt

    two.node.logs[AM, "serviceam.log"] = b"2023-05-12 12:00:00,001 [main] INFO  am\n"
    attempts = (AppAttempt("appattempt_1", "RUNNING", AM, "node1:8041", "node1:8042"),)
    monkeypatch.setattr(two.api.client, "app_attempts", lambda _app_id, **_named: attempts)
    assert two.logs("am") == two.logs(am=True) == ["am 2023-05-12 12:00:00,001 [main] INFO  am"]
    assert [container.task for container, _files in api.log_files(two.api, "mnist").containers] == ["worker-0", "worker-1", "am"]
