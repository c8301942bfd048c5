"""The requests of an observer, and the status that follows from each response. Any unexpected
request fails the test.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from submit_tf_job.container import contract
from submit_tf_job.errors import AuthError, BadAnswer, ClusterUnavailable, NameTaken, NoSuchJob
from submit_tf_job.observation import Evidence, JobState, JobStatus, verdict
from submit_tf_job.operations.observer import Observer
from submit_tf_job.yarn.nodemanager import (
    ContainerGone,
    LogText,
    NodeManagers,
    NodeUnreachable,
    NoSuchLogFile,
)
from submit_tf_job.yarn.observed import AppReport, Node, ObservedService
from submit_tf_job.yarn.resource_manager import ResourceManager
from tests.fakes.statuses import app

ID = "application_1_0001"
CHIEF = "container_1_0001_01_000002"
AGAIN = "container_1_0001_01_000009"
RUNNING = app("RUNNING", "UNDEFINED")
NODES = (Node("n1:1", "n1", "n1:8042", "RUNNING"), Node("n2:1", "n2", "n2:8042", "RUNNING"))
NO_FILE, GONE, AWAY = NoSuchLogFile("no such file"), ContainerGone("gone"), NodeUnreachable("away")


def service(
    state: str = "STABLE", chief: str | None = "READY", *, container: str = CHIEF, **values: Any
) -> ObservedService:
    """Return a response of the services API: with the deciding task's container, or without
    components.
    """
    listed = {
        "id": container,
        "component_instance_name": "chief-0",
        "state": chief,
        "bare_host": "n1",
    }
    component = {
        "name": "chief",
        "state": "STABLE",
        "number_of_containers": 1,
        "containers": [listed] if chief else [],
    }
    properties = {"submit_tf_job.deciding-task": "chief-0", "submit_tf_job.bootstrap": "true"}
    answer = {
        "name": "mnist",
        "id": ID,
        "state": state,
        "components": [component],
        "configuration": {"properties": properties},
    }
    return ObservedService.from_json({**answer, **values})


BARE: dict[str, Any] = {"components": [], "configuration": {}}


def log(state: str, **values: Any) -> LogText:
    content = json.dumps({"version": 1, "submission": "s", "state": state, **values}).encode()
    return LogText(content, len(content), growing=True)


@dataclass
class Cluster:
    """Plays ResourceManager, NodeManagers and the collected logs; accepts requests in the given
    order only.
    """

    expected: list[tuple[tuple[object, ...], object]] = field(default_factory=list)
    now: float = 100.0
    stderr: bytes = b""

    def expect(self, *call: object, gives: object) -> None:
        self.expected.append((call, gives))

    def answer(self, *call: object) -> Any:
        if not self.expected or self.expected[0][0] != call:
            pytest.fail(f"unexpected: {call}; expected next: {self.expected[:1]}")
        answer = self.expected.pop(0)[1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    deadline_s: float | None = None  # what the observer was told to allow itself

    def deadline(self, seconds: float) -> str:
        return f"within {seconds:g} s"

    def _allowed(self, deadline: object) -> None:
        if deadline in ("within 15 s", "within 5 s"):
            return  # the services API, whose ApplicationMaster may hang
        assert deadline == (None if self.deadline_s is None else f"within {self.deadline_s:g} s")

    def get_written_service(self, name: str, *, deadline: object) -> ObservedService:
        return self.get_service(name, deadline=deadline)

    def get_service(self, name: str, *, deadline: object) -> ObservedService:
        self._allowed(deadline)
        return cast(ObservedService, self.answer("service", name))

    def app(self, app_id: str, *, deadline: object) -> AppReport | None:
        self._allowed(deadline)
        return cast("AppReport | None", self.answer("app", app_id))

    def apps(self, *, user: str | None, name: str, deadline: object) -> tuple[AppReport, ...]:
        self._allowed(deadline)
        return cast("tuple[AppReport, ...]", self.answer("apps", user, name))

    def nodes(self, *, deadline: object) -> tuple[Node, ...]:
        self._allowed(deadline)
        return cast("tuple[Node, ...]", self.answer("nodes"))

    def read_log(
        self, address: str, container: str, file: str, tail_bytes: int | None = None
    ) -> LogText:
        if file == "stderr.txt":  # of a report that was not written to the end
            assert tail_bytes
            return LogText(self.stderr, len(self.stderr), growing=False)
        return cast(LogText, self.answer("log", address, container, file))

    def read_finished(self, record: AppReport) -> tuple[Evidence, bytes | None]:
        return cast("tuple[Evidence, bytes | None]", self.answer("collected", record.state.value))

    def observer(
        self,
        application_id: str | None = ID,
        *,
        bootstrap: bool | None = True,
        collected: bool = True,
        submission: str | None = None,
    ) -> Observer:
        return Observer(
            cast(ResourceManager, self),
            cast(NodeManagers, self),
            "mnist",
            application_id,
            bootstrap=bootstrap,
            clock=lambda: self.now,
            user="alice",
            submission=submission,
            answer_s=self.deadline_s,
            read_finished=self.read_finished if collected else None,
        )

    def expect_log(self, answer: object, *, container: str = CHIEF, nodes: bool = False) -> None:
        if nodes:
            self.expect("nodes", gives=NODES)
        self.expect("log", "n1:8042", container, "job-report.json", gives=answer)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    assert made.expected == [], "not everything that was expected was asked"


Observe = Callable[..., JobStatus]


@pytest.fixture
def watched(cluster: Cluster) -> Observe:
    """Return a function that observes with one observer; each call states its expected requests."""
    observer = cluster.observer()

    def observe(
        record: AppReport | None = RUNNING,
        asked: object = None,
        read: object = None,
        **options: Any,
    ) -> JobStatus:
        cluster.now += options.pop("after_s", 1.0)
        cluster.expect("app", ID, gives=record)
        if asked is not None:
            cluster.expect("service", "mnist", gives=asked)
        if read is not None:
            cluster.expect_log(
                read, nodes=options.pop("nodes", False), container=options.pop("container", CHIEF)
            )
        if "collected" in options:
            cluster.expect(
                "collected", record.state.value if record else "", gives=options.pop("collected")
            )
        assert options == {}
        return observer.observe()

    return observe


# --- whose service it is --------------------------------------------------------------------------


def test_observe_refuses_the_service_of_another_submission(
    cluster: Cluster,
) -> None:
    observer = cluster.observer(submission="mine")
    cluster.expect("app", ID, gives=app("ACCEPTED", "UNDEFINED"))
    cluster.expect("service", "mnist", gives=service("ACCEPTED", None, **BARE))
    observer.observe()  # without its submission yet
    cluster.now += 2
    cluster.expect("app", ID, gives=RUNNING)
    cluster.expect("service", "mnist", gives=service(version="theirs"))
    with pytest.raises(
        NameTaken, match=f"^{ID} runs the service mnist of another submission, theirs, not of mine"
    ) as caught:
        observer.observe()
    assert caught.value.details == {"application_id": ID, "submission_id": "theirs"}


@pytest.mark.parametrize("rerun", [False, True])
def test_observe_accepts_the_service_of_its_submission(cluster: Cluster, rerun: bool) -> None:
    properties = (
        {"submit_tf_job.rerun-of": "mine", "submit_tf_job.submission-id": "next"} if rerun else {}
    )
    cluster.expect("app", ID, gives=RUNNING)
    shown = service(
        chief=None, version="next" if rerun else "mine", configuration={"properties": properties}
    )
    cluster.expect("service", "mnist", gives=shown)
    assert cluster.observer(submission="mine").observe().app == RUNNING


# --- the report while the job runs ----------------------------------------------------------------


def test_observe_before_the_first_container(watched: Observe) -> None:
    seen = watched(asked=service(chief=None))
    assert (seen.app, seen.report, seen.evidence, seen.trouble) == (
        RUNNING,
        None,
        Evidence.UNREADABLE,
        "",
    )
    assert verdict(seen).state is JobState.STARTING


def test_observe_running_container_without_report(watched: Observe) -> None:
    seen = watched(asked=service(chief="RUNNING_BUT_UNREADY"), read=NO_FILE, nodes=True)
    assert (seen.report, seen.evidence) == (None, Evidence.UNREADABLE)
    assert watched(asked=service(), read=NO_FILE).evidence is Evidence.UNREADABLE


def test_observe_reads_the_report(watched: Observe) -> None:
    seen = watched(asked=service(), read=log("waiting", wanted=3, arrived=1), nodes=True)
    assert (seen.evidence, seen.report and seen.report.arrived) == (Evidence.READ, 1)
    assert verdict(watched(read=log("running"))).state is JobState.RUNNING
    assert verdict(watched(read=log("finishing"))).state is JobState.FINISHING


def test_observe_requests_the_services_api_rarely(watched: Observe) -> None:
    watched(asked=service(chief=None))
    watched(after_s=0.5)
    watched(asked=service(), read=log("waiting"), nodes=True, after_s=0.5)
    for _ in range(4):
        watched(read=log("waiting"))
    watched(asked=service(), read=log("waiting"))
    watched(read=log("running"))
    for _ in range(20):
        watched(read=log("running"), after_s=15)


@pytest.mark.parametrize("error", [GONE, AWAY, AuthError("no")])
def test_observe_keeps_the_last_report(watched: Observe, error: Exception) -> None:
    watched(asked=service(), read=log("running"), nodes=True)
    seen = watched(read=error)
    assert seen.report
    assert seen.report.state == "running"
    assert verdict(seen).state is JobState.RUNNING


@pytest.mark.parametrize("error", [GONE, AWAY])
def test_observe_finds_a_node_manager_at_its_new_address(
    watched: Observe, error: Exception
) -> None:
    assert watched(asked=service(), read=error, nodes=True).evidence is Evidence.UNREADABLE
    assert watched(asked=service(), read=log("running"), nodes=True).evidence is Evidence.READ


def test_observe_ignores_invalid_reports(watched: Observe) -> None:
    seen = watched(asked=service(), read=LogText(b"{", 1, growing=True), nodes=True)
    assert (seen.report, seen.evidence) == (None, Evidence.UNREADABLE)


def test_observe_with_two_node_managers_on_one_host(cluster: Cluster) -> None:
    observer = cluster.observer()
    cluster.expect("app", ID, gives=RUNNING)
    cluster.expect("service", "mnist", gives=service())
    cluster.expect(
        "nodes",
        gives=(*NODES, Node("n1:2", "n1", "n1:9042", "RUNNING"), Node("n1:3", "n1", None, "LOST")),
    )
    cluster.expect("log", "n1:8042", CHIEF, "job-report.json", gives=GONE)
    cluster.expect("log", "n1:9042", CHIEF, "job-report.json", gives=log("running"))
    assert observer.observe().evidence is Evidence.READ


# --- trouble --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [BadAnswer("The services API answers 500"), NoSuchJob("not found")]
)
def test_observe_while_the_application_master_restarts(watched: Observe, error: BadAnswer) -> None:
    watched(asked=service(), read=log("waiting"), nodes=True)
    seen = watched(asked=error, read=log("waiting"), after_s=5)
    assert (seen.trouble, len(seen.containers), seen.evidence) == (error.message, 1, Evidence.READ)
    seen = watched(asked=service("ACCEPTED", **BARE), read=log("waiting"), after_s=5)
    assert (seen.trouble, len(seen.containers)) == ("", 1), "what it listed before is remembered"
    assert seen.service
    assert seen.service.state.value == "ACCEPTED"


def test_observe_raises_where_no_resource_manager_responds(cluster: Cluster) -> None:
    observer = cluster.observer()
    cluster.expect("app", ID, gives=ClusterUnavailable("nobody"))
    with pytest.raises(ClusterUnavailable):
        observer.observe()


def test_observe_refuses_another_application_of_the_name(watched: Observe) -> None:
    seen = watched(asked=service(id="application_1_0002"))
    assert (
        seen.trouble
        == "mnist is another application now: application_1_0002, not application_1_0001"
    )
    assert (seen.service, seen.evidence) == (None, Evidence.UNREADABLE)


# --- the end --------------------------------------------------------------------------------------


def test_observe_reads_the_last_report_from_the_node(watched: Observe) -> None:
    watched(asked=service(), read=log("running"), nodes=True)
    found = verdict(watched(app(), read=log("succeeded")))
    assert (found.state, found.confirmed) == (JobState.SUCCEEDED, True)


def test_observe_ended_container_without_report(watched: Observe) -> None:
    assert (
        watched(asked=service(chief="SUCCEEDED"), read=NO_FILE, nodes=True).evidence
        is Evidence.MISSING
    )
    seen = watched(app(), read=NO_FILE)
    assert seen.evidence is Evidence.MISSING
    assert (
        verdict(seen).reason
        == "YARN reports SUCCEEDED, but the deciding task left no outcome: its command never ran"
    )
    assert verdict(watched(app(), read=GONE)).state is JobState.FAILED, (
        "it stays evidence when the logs are gone"
    )


def test_observe_after_the_node_manager_may_have_deleted_the_report(watched: Observe) -> None:
    watched(asked=service(chief="SUCCEEDED"), read=AWAY, nodes=True)
    seen = watched(
        app(), read=NO_FILE, nodes=True, collected=(Evidence.READ, log("succeeded").data)
    )
    assert verdict(seen).confirmed is True


@pytest.mark.parametrize(
    "evidence",
    [Evidence.MISSING, Evidence.UNREADABLE, Evidence.COLLECTED_SOON, Evidence.NONE_EXPECTED],
)
def test_observe_reads_collected_logs_without_report(watched: Observe, evidence: Evidence) -> None:
    watched(asked=service(chief=None))
    assert watched(app(), collected=(evidence, None)).evidence is evidence


def test_observe_reads_the_report_from_collected_logs(watched: Observe) -> None:
    watched(asked=service(), read=AWAY, nodes=True)
    seen = watched(app(), read=AWAY, nodes=True, collected=(Evidence.READ, log("succeeded").data))
    assert (verdict(seen).state, verdict(seen).confirmed) == (JobState.SUCCEEDED, True)
    watched(app(), read=AWAY, nodes=True)


def test_observe_with_a_report_from_before_the_end(watched: Observe) -> None:
    watched(asked=service(), read=log("running"), nodes=True)
    seen = watched(app(), read=GONE, collected=(Evidence.COLLECTED_SOON, None))
    assert (seen.evidence, seen.report and seen.report.state) == (
        Evidence.COLLECTED_SOON,
        "running",
    )
    assert verdict(seen).state is JobState.FINISHING
    seen = watched(app(), read=GONE, nodes=True, collected=(Evidence.MISSING, None))
    assert seen.evidence is Evidence.UNREADABLE, "there was a report"
    assert (verdict(seen).state, verdict(seen).confirmed) == (JobState.SUCCEEDED, False)
    seen = watched(app(), read=GONE, nodes=True, collected=(Evidence.READ, b"{"))
    assert verdict(seen).confirmed is False
    seen = watched(app(), read=GONE, nodes=True, collected=(Evidence.READ, log("succeeded").data))
    assert (verdict(seen).state, verdict(seen).confirmed) == (JobState.SUCCEEDED, True)


def test_observe_with_a_report_that_is_running_after_the_end(watched: Observe) -> None:
    """The bootstrap was killed, so its file still has the state of before."""
    watched(asked=service(), read=log("running"), nodes=True)
    for evidence in (Evidence.COLLECTED_SOON, Evidence.UNREADABLE):
        found = verdict(watched(app(), read=log("running"), collected=(evidence, None)))
        assert (
            found.reason
            == "YARN reports SUCCEEDED, but the deciding task's last word was 'running'"
        )


@pytest.mark.parametrize("status", [0, 3])
def test_observe_completes_a_frozen_report_by_the_outcome_line(
    cluster: Cluster, watched: Observe, status: int
) -> None:
    """The log disk was full for a moment, so the report was not written to the end."""
    outcome: dict[str, Any] = {"submission": "s", "task": "chief-0", "attempt": 0, "signal": None}
    outcome.update(status=status, duration_s=1.0, reason="exited", message="", job="succeeded")
    outcome["first_failure"] = None
    if status:
        outcome.update(job="failed", first_failure="chief-0")
    mark = contract.OUTCOME_MARK
    cluster.stderr = f"{mark}faked\n{mark}{json.dumps(outcome)}\n".encode()
    frozen = log("running", deciding="chief-0", attempt=0)
    watched(asked=service(), read=frozen, nodes=True)
    seen = watched(
        app(), read=frozen, **({"collected": (Evidence.UNREADABLE, None)} if status else {})
    )
    found = verdict(seen)
    if status:
        assert (found.state, found.failure and found.failure.status) == (JobState.FAILED, 3)
    else:
        assert (found.state, found.confirmed) == (JobState.SUCCEEDED, True)


def test_observe_after_a_restart_of_the_deciding_task(watched: Observe) -> None:
    failure = {"task": "chief-0", "status": 1, "message": "chief-0 ended with exit status 1"}
    watched(asked=service(), read=log("running"), nodes=True)
    watched(read=log("failed", first_failure=failure))
    watched(asked=service(chief="FAILED"), read=log("failed", first_failure=failure))
    seen = watched(asked=service(container=AGAIN), read=NO_FILE, container=AGAIN)
    assert verdict(seen).state is JobState.FINISHING
    watched(asked=service(container=AGAIN), read=log("running"), container=AGAIN)
    assert (
        verdict(watched(app(), read=log("succeeded"), container=AGAIN)).state is JobState.SUCCEEDED
    )


def test_observe_reads_collected_logs_where_report_and_yarn_disagree(watched: Observe) -> None:
    """The second start of the deciding task may have been too short to be seen."""
    failure = {"task": "chief-0", "status": 1, "message": "chief-0 ended with exit status 1"}
    watched(asked=service(), read=log("failed", first_failure=failure), nodes=True)
    seen = watched(
        app(), read=log("failed", first_failure=failure), collected=(Evidence.COLLECTED_SOON, None)
    )
    assert seen.evidence is Evidence.COLLECTED_SOON
    seen = watched(
        app(),
        read=log("failed", first_failure=failure),
        collected=(Evidence.READ, log("succeeded").data),
    )
    assert verdict(seen).state is JobState.SUCCEEDED
    found = verdict(
        watched(
            app(), read=log("failed", first_failure=failure), collected=(Evidence.MISSING, None)
        )
    )
    assert (
        found.reason
        == "YARN reports SUCCEEDED, but the task reports: chief-0 ended with exit status 1"
    )


def test_observe_without_collected_logs(cluster: Cluster) -> None:
    observer = cluster.observer(collected=False)
    cluster.expect("app", ID, gives=app())
    seen = observer.observe()
    assert (seen.evidence, verdict(seen).confirmed) == (Evidence.UNREADABLE, False)


def test_observe_an_application_without_record(watched: Observe) -> None:
    watched(asked=service(), read=log("running"), nodes=True)
    assert verdict(watched(None)).state is JobState.UNKNOWN


# --- jobs of others, and jobs known by name alone -------------------------------------------------


def test_observe_reads_no_log_without_bootstrap(cluster: Cluster) -> None:
    observer = cluster.observer(bootstrap=False)
    cluster.expect("app", ID, gives=RUNNING)
    cluster.expect("service", "mnist", gives=service())
    assert observer.observe().evidence is Evidence.NONE_EXPECTED


@pytest.mark.parametrize(
    "properties",
    [{}, {"submit_tf_job.deciding-task": "chief-0", "submit_tf_job.bootstrap": "false"}],
)
def test_observe_reads_bootstrap_from_the_service(
    cluster: Cluster, properties: dict[str, str]
) -> None:
    observer = cluster.observer(bootstrap=None)
    cluster.expect("app", ID, gives=RUNNING)
    cluster.expect("service", "mnist", gives=service(configuration={"properties": properties}))
    assert observer.observe().evidence is Evidence.NONE_EXPECTED


def test_observe_reads_the_application_from_the_service(cluster: Cluster) -> None:
    observer = cluster.observer(None, bootstrap=None)
    cluster.expect("service", "mnist", gives=service())
    cluster.expect("app", ID, gives=RUNNING)
    cluster.expect_log(log("running"), nodes=True)
    seen = observer.observe()
    assert (seen.application_id, seen.evidence) == (ID, Evidence.READ)
    cluster.expect("app", ID, gives=RUNNING)
    cluster.expect_log(log("running"))
    observer.observe()


def test_observe_a_missing_service(cluster: Cluster) -> None:
    observer = cluster.observer(None)
    cluster.expect("service", "mnist", gives=NoSuchJob("no service mnist"))
    with pytest.raises(NoSuchJob, match="no service mnist"):
        observer.observe()


@pytest.mark.parametrize(
    ("state", "apps", "found"),
    [
        ("STOPPED", (app(),), ID),
        ("STOPPED", (), None),
        ("ACCEPTED", (app(),), None),
        ("ACCEPTED", (RUNNING, app()), ID),
        ("STABLE", (app(), RUNNING), ID),
    ],
)
def test_observe_finds_the_application_on_hadoop_3_1(
    cluster: Cluster, state: str, apps: tuple[AppReport, ...], found: str | None
) -> None:
    observer = cluster.observer(None, bootstrap=False)
    cluster.expect("service", "mnist", gives=service(state, id=None, **BARE))
    cluster.expect("apps", "alice", "mnist", gives=apps)
    if found:
        cluster.expect("app", ID, gives=app())
    assert observer.observe().application_id == found


def test_observe_limits_its_requests_in_time(cluster: Cluster) -> None:
    cluster.deadline_s = 10
    observer = cluster.observer(application_id=None)
    cluster.expect("service", "mnist", gives=ClusterUnavailable("away"))
    cluster.expect("apps", "alice", "mnist", gives=ClusterUnavailable("away"))
    with pytest.raises(ClusterUnavailable):
        observer.observe()


def test_observe_another_users_job_sends_nothing_to_the_services_api(cluster: Cluster) -> None:
    record = replace(RUNNING, user="bob")
    observer = cluster.observer(bootstrap=None)
    cluster.expect("app", ID, gives=record)
    seen = observer.observe(detailed=True)
    assert (seen.app, seen.service, seen.foreign) == (record, None, True)
    assert (
        seen.trouble
        == "how its tasks stand: it is a job of bob, and only bob can ask its ApplicationMaster"
    )
    assert verdict(seen).state is JobState.RUNNING
