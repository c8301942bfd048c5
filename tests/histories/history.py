"""One history: it happens, the world calms down, and the promises are checked.

Promises, each asserted from the world's own record, never from the client's state:

1. Applications of one submission never run at the same time, and none runs a second time unless a
   person deleted or replaced the first one.
2. No command adopts, ends or deletes an application or a stored service of another submission.
3. What a command reports is what happened, and nothing is removed that a job still needs.
4. The same command in a calm world ends with one application, which runs, and its verdict.
5. A name is never "taken" by the caller's own submission.
6. Nothing is left behind that blocks the name.
7. No run loses its DNS records to the cleanup of an earlier one.
8. A command ends in bounded time and with a bounded number of requests.
9. A job that runs out of memory is submitted again once after each run, and not too often.

Hadoop itself breaks promises where two POSTs pass `checkAppNotExistOnHdfs` before either has
stored its service (some 10 ms): what follows from that is marked with "race".
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise

from submit_tf_job.errors import ClusterUnavailable, DeadlinePassed, NameTaken, Refused
from submit_tf_job.operations.lineage import Resubmission
from submit_tf_job.operations.submit import FOLLOWED_S
from tests.histories.classes import Script, script_of
from tests.histories.hadoop import App, Broken, Cluster, submission_of
from tests.histories.kernel import STARTS_AT_S, Kernel, Line
from tests.histories.network import Network
from tests.histories.people import (
    GROWS,
    MOST_RUNS,
    NAME,
    USER,
    Order,
    People,
    Person,
    Report,
    world_storage,
)

__all__ = ["Result", "run"]

KEY = (USER, NAME)
_STATES = {
    "SUCCEEDED": "SUCCEEDED",
    "FAILED": "FAILED",
    "ENDED": "STOPPED",
    "KILLED": "STOPPED",
    "UNDEFINED": "",
}
QUIET_S = 400.0  # what is on its way, or inside a server, has ended by then
COMMAND_MAX_S = 300.0 + 300.0 + 60.0  # for the former application to leave, and to submit
REQUESTS_MAX = 3000


@dataclass(frozen=True)
class Result:
    """What a history has broken, and how it went."""

    kind: str
    seed: str
    broken: tuple[Broken, ...]
    trace: tuple[Line, ...]
    script: Script

    def __str__(self) -> str:
        head = [f"{self.kind} {self.seed}: {self.script.site}", f"  {self.script.weather}"]
        lines = [str(line) for line in self.trace]
        said = [f"BROKEN {broken.promise}: {broken.words}" for broken in self.broken]
        return "\n".join([*head, *lines, *said])


class History:
    """Runs one script."""

    def __init__(self, kind: str, seed: str) -> None:
        self.kind, self.seed = kind, seed
        rng = random.Random(f"{kind}:{seed}")
        self.script = script_of(kind, rng)
        self.kernel = Kernel()
        self.cluster = Cluster(self.kernel, rng, self.script.site)
        self.network = Network(self.cluster, rng, self.script.weather)
        self.people = People(self.cluster, self.network, rng)
        if self.script.refused:
            planned = self.people.plan(self.script.people[0])
            self.cluster.refused.add(planned.submission)

    def run(self) -> Result:
        """Let it happen and check it."""
        try:
            with world_storage(self.cluster):
                self._storm()
                self._quiet()
                self._once_more()
                self.kernel.run_for(60.0)
        finally:
            self.kernel.close()
        self._check_reports()
        self._check_runs()
        self._check_resubmissions()
        race = "race " if self.cluster.raced else ""
        broken = tuple(
            Broken(race + b.promise, b.words) for b in dict.fromkeys(self.cluster.broken)
        )
        return Result(self.kind, self.seed, broken, tuple(self.kernel.trace), self.script)

    def _storm(self) -> None:
        for at, happen in self.script.troubles:
            self.kernel.at(at, lambda happen=happen: happen(self.cluster))  # type: ignore[misc]
        for person in self.script.people:
            self.people.begin(person)
        self.kernel.at(self.script.storm_s, self._calm)
        self.kernel.run(lambda: self.people.busy == 0)
        assert self.people.busy == 0, "a command waits for something that never comes"

    def _calm(self) -> None:
        self.cluster.calm = True
        self.kernel.log("world", "is calm from now on")

    def _quiet(self) -> None:
        if not self.cluster.calm:
            self._calm()
        self.kernel.run_for(QUIET_S)
        self._check_deleted()
        self.kernel.log("world", "the same commands once more")

    def _check_deleted(self) -> None:
        """Promise 3: what was deleted last of all is gone."""
        last = max(self.people.reports, key=lambda report: report.ended)
        beside = [r for r in self.people.reports if r is not last and r.ended > last.began]
        wanted = last.order.verb in ("delete", "force-delete") and str(last) == "done"
        if wanted and not beside and self.holder() is not None:
            self._break("3 report", f"{last.by} says deleted, and {self.holder()} has the name")

    # --- promises 4, 5, 6 ---

    def _once_more(self) -> None:
        """Let each person who still wants a job give the last command once more."""
        for person in self.script.people:
            order = next(
                (o for o in reversed(person.orders) if o.verb in ("submit", "replace")), None
            )
            last = person.orders[-1].verb
            if order is None or last in ("delete", "force-delete", "stop"):
                continue
            self._give(person)

    def _give(self, person: Person) -> None:
        ended: list[Report] = []
        self.people.give(person, Order("submit"), ended.append)
        self.kernel.run(lambda: bool(ended))
        if not ended:
            self._break("4 converges", f"{person.name}'s last command never ends")
            return
        report = ended[0]
        if self.cluster.refused and isinstance(report.error, Refused):
            if self.holder() in self.cluster.own[report.by]:
                self._break("6 name blocked", f"{report.by}: {report}, and it has the name")
        elif isinstance(report.error, NameTaken):
            self._check_taken(report)
        elif report.app_id is None and not (self._unknowable() and report.retryable):
            self._break("4 converges", f"{report.by} in a calm world: {report}")
        elif report.app_id is not None:
            self._check_end(report)

    def _check_taken(self, report: Report) -> None:
        """Promises 5 and 6: the name must be held by another submission."""
        holder = self.holder()
        mine = self.cluster.own[report.by]
        if holder is None:
            self._break("6 name blocked", f"{report.by} finds the name taken by nothing: {report}")
        elif holder == "?":
            self._break("6 name blocked", f"{report.by} finds a torn service: {report}")
        elif holder in mine and not self._unknowable():
            self._break("5 own name", f"{report.by} finds its own submission and says: {report}")

    def _unknowable(self) -> bool:
        """Whether nobody without HDFS can see whose the service is: its AM does not answer."""
        running = any(app.state == "RUNNING" for app in self.cluster.apps.values())
        return not self.script.site.hdfs and not (running and self.script.site.am_answers)

    def holder(self) -> str | None:
        """Return whose submission has the name, "?" for a service that nobody can read."""
        live = [app for app in self.cluster.apps.values() if app.live]
        if live:
            return live[0].submission
        where = self.cluster.directories.get(KEY)
        if where is None or (where.spec is None and not where.empty):
            return None
        return submission_of(where.spec) if where.spec is not None else "?"

    def _check_end(self, report: Report) -> None:
        app = self.cluster.apps[report.app_id or ""]
        never = app.ran_from is None and not self._ended_by_person(app)
        if never and not self._too_slow(app):
            words = f"{report.by} ends with {app.id}, which never ran ({app.why or app.words})"
            self._break("4 converges", words)
        if report.verdict != _STATES[app.final]:
            words = f"{app.id} is {app.final}, and {report.by} says {report.verdict or report}"
            self._break("4 converges", words)

    def _too_slow(self, app: App) -> bool:
        """Whether its AM gave up before its server had written the id into the stored service."""
        where = self.cluster.directories.get(KEY)
        named = where is not None and where.spec is not None and where.spec.get("id") == app.id
        hadoops = app.why in ("appIdStr is null", "its stored service is cut off")
        return named and hadoops and not app.killed_by

    def _ended_by_person(self, app: App) -> bool:
        return app.killed_by in self.cluster.may_end

    # --- promises 1, 2, 3, 8 ---

    def _check_reports(self) -> None:
        for report in self.people.reports:
            self._check_effort(report)
            if report.app_id is not None:
                self._check_submitted(report)
            elif report.error is not None and not report.retryable:
                self._check_refused(report)

    def _check_effort(self, report: Report) -> None:
        took = (report.said_at or report.ended) - report.began
        sent = self.network.sent.get(report.by, 0)
        frozen = any(person.freezes for person in self.script.people)
        if took > COMMAND_MAX_S and not frozen:
            self._break("8 bounded", f"{report.by} took {took:.0f} s: {report}")
        if sent > REQUESTS_MAX:
            self._break("8 bounded", f"{report.by} sent {sent} requests")

    def _check_submitted(self, report: Report) -> None:
        """Promises 2 and 3: what is called submitted is the caller's, and runs or ran."""
        app = self.cluster.apps.get(report.app_id or "")
        if app is None:
            self._break("3 report", f"{report.by} says {report.app_id}, which does not exist")
            return
        if report.verdict not in ("", _STATES[app.final]):
            words = f"{app.id} is {app.final}, and {report.by} says {report.verdict}"
            self._break("3 report", words)
        mine = self.cluster.own[report.by] | {report.submission}
        if not self.cluster.is_one_of(app.runs or app.spec, mine):
            words = f"{report.by} says {report}, and that is {app.submission}"
            self._break("2 other people's", words)
        elif app.ran_from is None and app.why:
            if not self._deleted_since(report.began) and not self._too_slow(app):
                words = f"{report.by} says {report}, and it never ran: {app.why}"
                self._break("3 report", words)
        elif app.killed_by and app.killed_by not in self.cluster.may_end:
            if self.cluster.apps[app.id].final in ("KILLED", "ENDED"):
                words = f"{report.by} says {report}, and {app.killed_by} ended it"
                self._break("3 report", words)

    def _check_refused(self, report: Report) -> None:
        """Promise 3: what is called refused does not run, and never will."""
        mine = self.cluster.own[report.by]
        if report.order.verb not in ("submit", "replace"):
            return
        if isinstance(report.error, (ClusterUnavailable, DeadlinePassed)):
            return
        for app in self.cluster.apps.values():
            ran = app.ran_from is not None and (app.ran_until or 1e12) > report.ended
            if app.by == report.by and ran:
                self._break("3 report", f"{report.by} says {report}, and {app.id} of it runs")
            elif isinstance(report.error, NameTaken) and app.submission in mine:
                lived = app.started_ms <= self._ms(report.ended)
                allowed = report.by in self.cluster.may_delete or not self.script.site.hdfs
                if lived and ran and not allowed:
                    words = f"{report.by} says {report}, and {app.id} is its own"
                    self._break("5 own name", words)

    def _ms(self, at: float) -> float:
        return self.kernel.epoch_ms() - (self.kernel.now - at) * 1000

    def _check_runs(self) -> None:
        """Promise 1, and that nothing was removed that a job needed."""
        by_submission: dict[str, list[App]] = {}
        for app in self.cluster.apps.values():
            if app.ran_from is not None:
                by_submission.setdefault(app.submission, []).append(app)
            staged = "staging" in app.why
            if staged and not app.killed_by and not self._deleted_since(STARTS_AT_S):
                self._break("3 report", f"{app.id} dies because {app.why}")
        for submission, apps in by_submission.items():
            apps.sort(key=lambda app: app.ran_from or 0.0)
            for first, second in pairwise(apps):
                deleted = self._deleted_since(first.ran_from or 0.0, until=second.ran_from)
                if not deleted and not self._forgotten(first, second):
                    words = f"{submission} runs as {first.id} and again as {second.id}"
                    self._break("1 one application", words)

    def _forgotten(self, first: App, again: App) -> bool:
        """Whether a job was submitted from the start because who deleted the run that ran out of
        memory has died before the next POST, or waits for longer than others wait for it, because
        its DELETE had no answer.
        """
        at = self.kernel.now - (self.kernel.epoch_ms() - again.started_ms) / 1000
        growing = {person.name for person in self.script.people if person.program == GROWS}
        others = [
            report
            for report in self.people.reports
            if report.by != again.by and report.began <= at <= report.ended
        ]
        long_ago = at >= (first.ran_until or at) + FOLLOWED_S
        return again.by.partition(".")[0] in growing and (long_ago or not others)

    def _check_resubmissions(self) -> None:
        """Promise 9."""
        after: dict[str, set[str]] = {}
        for app in self.cluster.apps.values():
            made = Resubmission.of(app.spec["configuration"]["properties"])
            if made.number and app.ran_from is not None:
                after.setdefault(made.former, set()).add(app.submission)
                if made.number >= MOST_RUNS:
                    self._break("9 again", f"{app.id} is run {made.number + 1}")
        for former, submissions in after.items():
            if len(submissions) > 1:
                self._break("9 again", f"{former} is followed by {sorted(submissions)}")
            if self.cluster.apps[former].final not in ("FAILED", "KILLED"):
                self._break("9 again", f"{former} has not failed, and is followed")

    def _deleted_since(self, since: float, until: float | None = None) -> bool:
        """Whether a person deleted or replaced what has the name meanwhile."""
        return any(
            report.by in self.cluster.may_delete
            and (report.ended or 1e12) >= since
            and (until is None or report.began <= until)
            for report in self.people.reports
        )

    def _break(self, promise: str, words: str) -> None:
        self.cluster.break_promise(promise, words)


def run(kind: str, seed: int | str) -> Result:
    """Run one history of a class."""
    return History(kind, str(seed)).run()
