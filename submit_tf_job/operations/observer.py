"""Look at a job until something is true of it: owns the clock, the pauses and the patience with a cluster that is out of reach."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import TypeVar

from submit_tf_job import contract
from submit_tf_job.errors import AuthError, ClusterUnavailable, DeadlinePassed, NoSuchJob
from submit_tf_job.observation import Evidence, JobReport, JobState, Observation, Verdict, verdict
from submit_tf_job.yarn.client import Client, Deadline
from submit_tf_job.yarn.nodemanager import ContainerGone, NodeManagers, NodeUnreachable, NoSuchLogFile
from submit_tf_job.yarn.records import AppReport, AppState, ContainerState, FinalStatus, ObservedContainer, ObservedService, ServiceState

__all__ = ["Look", "Observer", "Pace", "Patience", "paced", "watching"]

T = TypeVar("T")

FINAL_STATES = frozenset({AppState.FINISHED, AppState.FAILED, AppState.KILLED})
_ENDED = frozenset({ContainerState.SUCCEEDED, ContainerState.FAILED, ContainerState.STOPPED})
_SERVICE_EVERY_S = 5.0


@dataclass(frozen=True)
class Pace:
    """How often to look: quickly while things change, then ever more politely (facts: client C4).

    Attributes:
        first_s: Pause while something changed lately.
        longest_s: Longest pause.
        eager_s: How long after a change the first pause is kept.
    """

    first_s: float = 1.0
    longest_s: float = 15.0
    eager_s: float = 30.0
    growth: float = 1.5

    def after(self, pause_s: float, quiet_s: float) -> float:
        """Return the pause that follows one of `pause_s`, when nothing has changed for `quiet_s`."""
        return self.first_s if quiet_s < self.eager_s else min(pause_s * self.growth, self.longest_s)


@dataclass(frozen=True)
class Patience:
    """How long to bear what passes by itself.

    Attributes:
        unreachable_s: A cluster that does not answer.
        logs_s: Logs that are still being collected: the second witness comes with them, some seconds after the end (35 s seen).
        forgotten_s: A ResourceManager that does not know the application: one that recovers its state answers so for a moment (seen).
    """

    unreachable_s: float = 900.0
    logs_s: float = 60.0
    forgotten_s: float = 30.0


@dataclass(frozen=True)
class Look:
    """One look at the job, and what it means."""

    seen: Observation
    verdict: Verdict


class Observer:
    """Looks at one job: the ResourceManager's record, the deciding task's report, and the services API where these are not enough.

    The report alone says all about the tasks, in one request of constant size; the services API repeats the whole service in every
    answer, so it is asked only until the deciding container is known, and now and then after that.
    """

    def __init__(
        self,
        client: Client,
        nodes: NodeManagers,
        name: str,
        application_id: str | None,
        *,
        bootstrap: bool | None,
        clock: Callable[[], float],
        user: str | None = None,
        answer_s: float | None = None,
        read_finished: Callable[[AppReport], tuple[Evidence, bytes | None]] | None = None,
    ) -> None:
        """Prepare to look.

        Args:
            client: The ResourceManagers.
            nodes: The NodeManagers' log service.
            name: The service's name.
            application_id: Its application; None to learn it at the first look.
            bootstrap: Whether the job runs under our bootstrap; None to learn it from the service.
            clock: Monotonic seconds.
            user: Whose service it is.
            answer_s: Seconds to look for a ResourceManager that answers, in one look; None for the client's own. A watch has patience of
                its own, and should soon say that there is need of it.
            read_finished: Reads the report of an application that has ended from the aggregated logs.
        """
        self._client, self._nodes, self._clock, self._read_finished = client, nodes, clock, read_finished
        self._answer_s = answer_s
        self._name, self._user, self._application_id, self._bootstrap = name, user, application_id, bootstrap
        self._service: ObservedService | None = None
        self._service_at = float("-inf")
        self._decider: ObservedContainer | None = None
        self._deciding_task: str | None = None
        self._report: JobReport | None = None
        self._evidence = Evidence.UNREADABLE
        self._node_addresses: dict[str, list[str]] = {}

    def look(self, *, detailed: bool = False) -> Observation:
        """Look once.

        Args:
            detailed: Ask the services API also where the report says enough for a verdict: who is where, since when, with which ports.

        Raises:
            NoSuchJob: There is no such service.
            ClusterUnavailable: No ResourceManager answered.
        """
        trouble = ""
        app = None
        if self._application_id is None:
            self._ask_service()
        if self._application_id is not None:
            app = self._client.app(self._application_id, deadline=self._deadline())
        foreign = app is not None and None not in (app.user, self._user) and app.user != self._user
        if foreign and app is not None:
            trouble = f"how its tasks stand: it is a job of {app.user}, and only {app.user} can ask its ApplicationMaster"
        elif app is not None and app.state not in FINAL_STATES and (detailed or self._service_is_old()):
            try:
                self._ask_service()
            except (ClusterUnavailable, NoSuchJob) as error:  # its ApplicationMaster is being started again; the RM knows the rest
                trouble = error.message
        if app is not None:
            self._read_report(app)
        return Observation(
            name=self._name,
            application_id=self._application_id,
            app=app,
            service=self._service,
            report=self._report,
            evidence=self._evidence,
            trouble=trouble,
            foreign=foreign,
        )

    def _deadline(self) -> Deadline | None:
        return None if self._answer_s is None else self._client.deadline(self._answer_s)

    def _service_is_old(self) -> bool:
        age = self._clock() - self._service_at
        if self._decider is None or self._report is None or self._evidence is not Evidence.READ or self._report.is_over:
            return age >= 1.0  # a deciding task that failed may be started again, in another container
        return age >= _SERVICE_EVERY_S and self._report.state == "waiting"

    def _ask_service(self) -> None:
        service = self._client.get_service(self._name, deadline=self._deadline())
        self._service_at = self._clock()
        if self._application_id is None:
            self._application_id = service.id or self._find_application(service)
        elif service.id not in (None, self._application_id):
            raise NoSuchJob(f"{self._name} is another application now: {service.id}, not {self._application_id}")
        if not service.components and self._service is not None and self._service.components:
            self._service = replace(self._service, state=service.state)  # an AM that is coming back lists nothing for a while
            return
        self._service = service
        self._deciding_task = service.properties.get(contract.PROPERTY_DECIDING, self._deciding_task)
        if self._bootstrap is None and service.components:
            self._bootstrap = service.properties.get(contract.PROPERTY_BOOTSTRAP) == "true"
        for component in service.components:
            for container in component.containers:
                if container.instance == self._deciding_task and container.id:
                    self._decider = container

    def _find_application(self, service: ObservedService) -> str | None:
        """Ask the ResourceManager which application a service is: Hadoop 3.1 says so only while it runs (facts: verified-versions 1.3)."""
        apps = self._client.apps(user=self._user, name=self._name, deadline=self._deadline())
        live = [app for app in apps if not app.ended]
        if live:
            return live[0].id
        # While a service has not ended, an application that has is an earlier one of the same name.
        return apps[0].id if apps and service.state is ServiceState.STOPPED else None

    def _read_report(self, app: AppReport) -> None:
        if self._bootstrap is False:
            self._evidence = Evidence.NONE_EXPECTED
            return
        live = self._decider is not None and self._read_live()
        if app.state not in FINAL_STATES or self._is_settled(app):
            return
        evidence, content = self._read_finished(app) if self._read_finished else (Evidence.UNREADABLE, None)
        if content is not None and JobReport.parse(content) is None:
            evidence, content = Evidence.UNREADABLE, None
        if content is not None or self._report is None:
            self._take(content, evidence)
        elif not live:  # what is known was read before the end
            self._evidence = Evidence.COLLECTED_SOON if evidence is Evidence.COLLECTED_SOON else Evidence.UNREADABLE
        elif evidence is Evidence.COLLECTED_SOON and self._report.is_over:  # it may be the word of a start before the last
            self._evidence = evidence

    def _is_settled(self, app: AppReport) -> bool:
        """Say whether what was read is the deciding task's last word: nothing contradicts it that the logs could explain."""
        if self._report is None:
            return self._evidence is Evidence.MISSING
        return self._report.is_over and (self._report.state == "succeeded") is (app.final_status is FinalStatus.SUCCEEDED)

    def _read_live(self) -> bool:
        """Read the report from the NodeManager; say whether that settled the matter."""
        decider = self._decider
        if decider is None or not decider.id or not decider.bare_host:
            return False
        try:
            content = self._read_log(decider.bare_host, decider.id)
        except NoSuchLogFile:
            # Its log directory can be read. That a running container has written nothing yet is no evidence; that an ended one has, is:
            # the state was asked for before the log was read.
            if self._report is None and decider.state in _ENDED:
                self._evidence = Evidence.MISSING
            return self._evidence is Evidence.MISSING
        except (ContainerGone, NodeUnreachable, AuthError):
            return False
        self._take(content, Evidence.READ)
        return self._report is not None

    def _read_log(self, host: str, container_id: str) -> bytes:
        """Read the report from whichever NodeManager of the host has the container."""
        if host not in self._node_addresses:
            nodes = self._client.nodes(deadline=self._deadline())
            self._node_addresses[host] = [node.http_address for node in nodes if node.host == host and node.http_address]
        gone: ContainerGone | NodeUnreachable = NodeUnreachable(f"no NodeManager of {host} is in service")
        for address in self._node_addresses[host]:
            try:
                return self._nodes.read_log(address, container_id, contract.REPORT_FILE).data
            except (ContainerGone, NodeUnreachable) as error:  # noqa: PERF203 - mostly there is one
                gone = error
        self._node_addresses.pop(host)  # a NodeManager that comes back may have another address
        raise gone

    def _take(self, content: bytes | None, evidence: Evidence) -> None:
        if content is None:
            if self._evidence is not Evidence.MISSING or evidence is Evidence.NONE_EXPECTED:
                self._evidence = evidence
            return
        report = JobReport.parse(content)
        if report is not None:
            self._report, self._evidence = report, Evidence.READ


def paced(steps: Generator[float, None, T], sleep: Callable[[float], None]) -> T:
    """Take one step after the other, sleep for as many seconds as each says, and return what the last one returns."""
    while True:
        try:
            pause_s = next(steps)
        except StopIteration as end:
            last: T = end.value
            return last
        sleep(pause_s)


def watching(
    look: Callable[[], Observation],
    until: Callable[[Look], bool],
    *,
    on_look: Callable[[Look], None] = lambda _look: None,
    on_trouble: Callable[[ClusterUnavailable], None] = lambda _error: None,
    deadline_s: float | None = None,
    pace: Pace | None = None,
    patience: Patience | None = None,
    clock: Callable[[], float],
    jitter: Callable[[], float] = random.random,
) -> Generator[float, None, Look]:
    """Look until `until` holds or the job is over; whoever takes the steps waits between them, in a thread or in an event loop.

    Args:
        look: Looks once.
        until: What is waited for; a job that is over ends the watch in any case.
        on_look: Told of every look.
        on_trouble: Told of every look that failed because the cluster could not be reached.
        deadline_s: Seconds from now after which to give up; None for no limit.
        pace: How often to look.
        patience: How long to bear an unreachable cluster.
        clock: Monotonic seconds.
        jitter: A number in [0, 1): many watchers must not look at the same moment.

    Yields:
        Seconds to wait before the next step.

    Returns:
        The last look.

    Raises:
        DeadlinePassed: `deadline_s` passed; the job may still be running.
        ClusterUnavailable: No ResourceManager answered for longer than the patience.
    """
    pace, patience = pace or Pace(), patience or Patience()
    start = clock()
    last_answer, last_change, pause = start, start, pace.first_s
    over_at: float | None = None
    previous: Look | None = None
    while True:
        try:
            seen = look()
        except ClusterUnavailable as error:
            if clock() - last_answer > patience.unreachable_s:
                raise
            on_trouble(error)
            last_change = clock()  # it may be back any moment, and asking once a second is little for a look that is patient by itself
        else:
            now = clock()
            current = Look(seen, verdict(seen))
            on_look(current)
            if current.verdict.state.is_final:
                over_at = now if over_at is None else over_at
                if now - over_at >= _doubt_s(current, patience):
                    return current
            else:
                over_at = None
                if until(current):
                    return current
            if previous is None or _key(current) != _key(previous):
                last_change = now
            last_answer, previous = now, current
        pause = pace.after(pause, clock() - last_change)
        wait = pause * (0.8 + 0.4 * jitter())
        if deadline_s is not None:
            left = start + deadline_s - clock()
            if left <= 0 and previous is not None and previous.seen.evidence is Evidence.COLLECTED_SOON:
                return previous  # the job is over; only its logs are awaited
            if left <= 0:
                raise DeadlinePassed(f"the deadline of {deadline_s:g} s passed")
            wait = min(wait, left)
        yield wait


def _doubt_s(look: Look, patience: Patience) -> float:
    """Say for how long a job must look over before that is believed."""
    if look.verdict.state is JobState.UNKNOWN:
        return patience.forgotten_s
    return patience.logs_s if look.seen.evidence is Evidence.COLLECTED_SOON else 0.0


def _key(look: Look) -> tuple[object, ...]:
    report, app = look.seen.report, look.seen.app
    return (look.verdict.state, app and app.state, report and (report.state, report.arrived), len(look.seen.containers))
