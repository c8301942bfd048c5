"""One history: it happens, the world calms down, and the promises are checked.

Promises, each asserted from the world's own record, never from the client's state:

1. One application for each key and number; a key is run again as its caller wants it (never, after
   a failure, always), once for each command, and after the run before has ended.
2. No command adopts or ends a run of another submission.
3. What a command reports is what happened, and nothing is removed that a live run needs. What is
   called submitted is not withdrawn afterwards, whoever posted it.
4. The same command in a calm world ends with one run, and its verdict.
5. A job is never "running already" by the caller's own submission, or by nothing.
6. Two runs of a job are alive at once only if a client was killed, stood still, knows nothing or
   was not let look (401, 403), or until the POST of the second one is answered.
7. No run loses its DNS records, whatever ends and whichever ResourceManager starts.
8. A command ends in bounded time and with a bounded number of requests.
9. A job that runs out of memory is submitted again once after each run, and not too often.
10. Nothing is left but what retention keeps, and after `delete` nothing.

Where a server stands still between its check of a name and its first write until another POST of
that name has passed, Hadoop accepts both (`services.py`). One application stays: the other one may
have been reported by who did not follow it, and is withdrawn, or its ApplicationMaster cannot start.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations, pairwise

from submit_tf_job.errors import ClusterUnavailable, DeadlinePassed, NameTaken, Refused
from submit_tf_job.yarn.run_names import Again
from submit_tf_job.yarn.service_properties import AGAIN, Resubmission
from tests.histories.classes import CLASSES, Script
from tests.histories.kernel import Kernel
from tests.histories.people import (
    KEEP_RUNS,
    MOST_RUNS,
    USER,
    Order,
    People,
    Person,
    Report,
    world_storage,
)
from tests.world.clock import Line
from tests.world.network import Network
from tests.world.weather import Weather
from tests.world.yarn import App, Broken, Yarn

__all__ = ["Result", "run"]

_STATES = {
    "SUCCEEDED": "SUCCEEDED",
    "FAILED": "FAILED",
    "ENDED": "STOPPED",
    "KILLED": "STOPPED",
    "UNDEFINED": "",
}
QUIET_S = 400.0  # what is on its way, or inside a server, has ended by then
COMMAND_MAX_S = 300.0 + 300.0  # to submit, and to prepare that
REQUESTS_MAX = 3000
RECOVERED_S = 10.0
DELETED_AT_ONCE = 3


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
        self.script = CLASSES[kind](rng)
        # no client's clock decides anything, so this changes no history
        clocks = random.Random(f"{kind}:{seed}:clocks")
        for person in self.script.people:
            person.clock_off_s = clocks.choice((0.0, -3600.0, 3600.0, -86400.0, 86400.0))
        self.kernel = Kernel()
        self.cluster = Yarn(self.kernel, rng, self.script.site)
        self.network = Network(self.cluster, rng, self.script.weather)
        self.people = People(self.kernel, self.cluster, self.network, rng, self.script.collides)

    def run(self) -> Result:
        """Let it happen and check it."""
        try:
            with world_storage(self.cluster, self.script.collides):
                if self.script.refused:
                    self.cluster.refused.add(self.people.plan(self.script.people[0]).key)
                self._storm()
                self._quiet()
                for person in self.script.people:
                    if any(order.verb == "submit" for order in person.orders):
                        self._once_more(person)
                self._delete_all()
        finally:
            self.kernel.close()
        for report in self.people.reports:
            self._check_report(report)
        self._check_runs()
        self._check_resubmissions()
        broken = tuple(dict.fromkeys(self.cluster.broken))
        return Result(self.kind, self.seed, broken, tuple(self.kernel.trace), self.script)

    def _storm(self) -> None:
        for at, happen in self.script.troubles:
            self.kernel.after(at, lambda happen=happen: happen(self.cluster))  # type: ignore[misc]
        for person in self.script.people:
            self.people.begin(person)
        self.kernel.after(self.script.storm_s, self._calm)
        self.kernel.run(lambda: self.people.busy == 0)
        assert self.people.busy == 0, "a command waits for something that never comes"

    def _calm(self) -> None:
        self.cluster.calm = True
        self.kernel.log("world", "is calm from now on")

    def _quiet(self) -> None:
        if not self.cluster.calm:
            self._calm()
        self.kernel.run_for(QUIET_S)
        self.kernel.log("world", "the same commands once more")

    def _give(self, person: Person, verb: str) -> Report | None:
        ended: list[Report] = []
        self.people.give(person, Order(verb), ended.append)
        self.kernel.run(lambda: bool(ended))
        if not ended:
            self._break("4 converges", f"{person.name}'s last command never ends")
        return ended[0] if ended else None

    # --- promises 4 and 10 ---

    def _once_more(self, person: Person) -> None:
        """Let a person give the command once more."""
        before = len(self.cluster.directories)
        report = self._give(person, "submit")
        if report is None or (self.cluster.refused and isinstance(report.error, Refused)):
            return
        if report.app_id is None:
            # it may be another submission's, which is checked with all reports
            if not isinstance(report.error, NameTaken):
                self._break("4 converges", f"{report.by} in a calm world: {report}")
            return
        app = self._stays(self.cluster.apps[report.app_id])
        if (app.forgotten and app.killed_by) or self._was_deleted(app, app):
            return  # that it was withdrawn is forgotten, too
        if app.ran_from is None and not self._too_slow(app) and not self._ended_by_person(app):
            words = f"{report.by} ends with {app.id}, which never ran ({app.why or app.words})"
            self._break("4 converges", words)
        if report.verdict != _STATES[app.final] and not app.forgotten:
            words = f"{app.id} is {app.final}, and {report.by} says {report.verdict or report}"
            self._break("4 converges", words)
        if not report.adopted and self.script.site.hdfs:
            self._check_kept(report, before)

    def _check_kept(self, report: Report, before: int) -> None:
        """Promise 10, after a submission that has posted a new run."""
        specs = {name: where.spec for (_, name), where in self.cluster.directories.items()}
        plain = [name for name, spec in specs.items() if AGAIN not in str(spec)]
        plain = [name for name in plain if not self._is_new(name, report)]
        if len(specs) < min(KEEP_RUNS, before + 1):
            self._break("10 left behind", f"{report.by} leaves only {sorted(specs)}")
        if len(plain) > max(KEEP_RUNS, before + 1 - DELETED_AT_ONCE):
            self._break("10 left behind", f"{report.by} leaves {len(plain)} stored services")
        jars = [n for (_, n), where in self.cluster.directories.items() if where.jars]
        undisturbed = len(self.script.people) == 1 and self.script.weather == Weather()
        undisturbed &= self.script.site.remembers > MOST_RUNS
        undisturbed &= not any(report.killed for report in self.people.reports)
        if undisturbed and set(jars) - {report.run}:
            self._break("10 left behind", f"{report.by} leaves the libraries of {jars}")

    def _is_new(self, name: str, report: Report) -> bool:
        """Whether a POST of a run might still be on its way when another one was submitted."""
        written_s = self.cluster.directories[USER, name].changed_ms / 1000
        begun_s = self.kernel.epoch_ms() / 1000 - (self.kernel.now - report.began)
        return begun_s - written_s < 180.0

    def _delete_all(self) -> None:
        self.kernel.run_for(200.0)  # a refused POST may look like one that is under way
        runs = [name for _, name in self.cluster.directories]
        report = self._give(Person("tidy", self.script.people[0].program, []), "force-delete")
        if report is None or report.error is not None:
            self._break("10 left behind", f"delete in a calm world: {report}")
        elif self.script.site.hdfs:
            left = [name for _, name in self.cluster.directories]
            left += [
                path
                for path in self.cluster.files
                if "/keytabs/" in path and path[-1] != "/" and any(run in path for run in runs)
            ]
            if left:
                self._break("10 left behind", f"after {report.by}: {left}")
        self.kernel.run_for(60.0)

    # --- promises 2, 3, 5, 8 ---

    def _check_report(self, report: Report) -> None:
        took = (report.said_at or report.ended) - report.began
        sent = self.network.sent.get(report.by, 0)
        frozen = any(person.freezes for person in self.script.people)
        if took > COMMAND_MAX_S and not frozen:
            self._break("8 bounded", f"{report.by} took {took:.0f} s: {report}")
        if sent > REQUESTS_MAX:
            self._break("8 bounded", f"{report.by} sent {sent} requests")
        if report.app_id is not None:
            self._check_submitted(report, report.app_id)
        elif report.order.verb == "submit" and report.error is not None:
            self._check_refused(report)

    def _check_submitted(self, report: Report, app_id: str) -> None:
        """Promises 2 and 3: what is called submitted is the caller's, and runs or ran."""
        app = self.cluster.apps.get(app_id)
        if app is None:
            self._break("3 report", f"{report.by} says {app_id}, which does not exist")
            return
        app = self._stays(app)
        if report.verdict not in ("", _STATES[app.final]) and not app.forgotten:
            words = f"{app.id} is {app.final}, and {report.by} says {report.verdict}"
            self._break("3 report", words)
        # a name without its definition is known by its hash alone, and here the hashes collide
        retired = self.script.collides and app.name in {name for _, name, _ in self.cluster.deleted}
        if self._root(app) != report.key and not retired:
            self._break("2 other people's", f"{report.by} says {report}, and that is {app.key}")
        elif app.ran_from is None and app.why and not self._was_deleted(app, app):
            if not self._too_slow(app):
                words = f"{report.by} says {report}, and it never ran: {app.why}"
                self._break("3 report", words)
        elif app.final == "KILLED" and not (self._ended_by_person(app) or app.forgotten):
            withdrawn = "withdrawn" in app.words and self.cluster.keys.get(app.killed_by) == app.key
            if (withdrawn and app.killed_by in self.people.frozen) or self.cluster.came_late(app):
                # another process of its submission stood still before it withdrew it; or its POST
                # arrived after its run was deleted, and so may a request to delete it
                return
            words = f"{report.by} says {report}, and {app.killed_by} ended it"
            self._break("3 report", words)

    def _stays(self, app: App) -> App:
        """Return the application that stays, of several ones of a name that Hadoop has accepted."""
        if app.name not in self.cluster.raced or (app.ran_from and "withdrawn" not in app.words):
            return app
        ran = [one for one in self._named(app.name) if one.ran_from]
        return next((one for one in ran if "withdrawn" not in one.words), app)

    def _root(self, app: App) -> str:
        """Return the key of the submission that an application goes back to."""
        former = Resubmission.of(app.spec["configuration"]["properties"]).former
        before = [one for one in self.cluster.apps.values() if one.name == former]
        return self._root(before[0]) if before else app.key

    def _too_slow(self, app: App) -> bool:
        """Whether its AM gave up before its server had written the id into the stored service."""
        hadoops = app.why in ("appIdStr is null", "its stored service is cut off")
        return hadoops and not app.killed_by

    def _ended_by_person(self, app: App) -> bool:
        return app.killed_by in self.cluster.may_end

    def _check_refused(self, report: Report) -> None:
        """Promises 3 and 5: what is called refused does not run, and never will."""
        if isinstance(report.error, (ClusterUnavailable, DeadlinePassed)):
            return
        for app in self.cluster.apps.values():
            # one that is being killed runs on for a moment
            ran = app.ran_from is not None and (app.ran_until or 1e12) > report.ended + 5.0
            if app.by == report.by and ran:
                self._break("3 report", f"{report.by} says {report}, and {app.id} of it runs")
        if isinstance(report.error, NameTaken):
            app_id = str(report.error.details.get("application_id"))
            found = self.cluster.apps.get(app_id) or self.cluster.unsaved.get(app_id)
            if found is None or (found.over_at or 1e12) < report.began:
                self._break("5 own name", f"{report.by} says {report}, and nothing is there")
            elif self._root(found) == report.key:
                self._break("5 own name", f"{report.by} says {report}, and that is its own")

    # --- promises 1, 6, 9 ---

    def _check_runs(self) -> None:
        apps = sorted(self.cluster.apps.values(), key=lambda app: app.accepted_at)
        # one that its own command withdrew, before anybody told of it, is no run
        came_up = [app for app in apps if app.came_up and "withdrawn" not in app.words]
        for app in apps:
            late = self._was_deleted(app, app)
            if "staging" in app.why and not app.killed_by and not late:
                self._break("3 report", f"{app.id} dies because {app.why}")
        for key in {app.key for app in came_up}:
            self._check_key([app for app in came_up if app.key == key])
        for first, second in combinations([app for app in came_up if app.ran_from], 2):
            self._check_beside(first, second)

    def _check_key(self, apps: list[App]) -> None:
        """Promise 1; the applications are those of one key, the oldest first."""
        key, again = apps[0].key, self.people.again.get(apps[0].key, Again.NEVER)
        # one that came late failed without its keytab, and is what is run again
        late = any(self.cluster.came_late(a) for a in self.cluster.apps.values() if a.key == key)
        for first, second in combinations(apps, 2):
            both = f"{first.id} ({first.name}) and {second.id} ({second.name})"
            # a client that stood still posts by what it saw before
            free = first.forgotten or second.by in self.people.frozen
            free = free or self._was_deleted(first, second)
            if first.name == second.name and not free:
                self._break("1 one application", f"{both} have one name")
            if first.by == second.by and not (late or self._was_deleted(first, second)):
                self._break("1 one application", f"{both} are one command's, {first.by}")
        for first, second in pairwise(apps if not late else ()):
            both = f"{key}, {again.value}: {first.id} and {second.id}"
            succeeded = first.final == "SUCCEEDED" and not first.forgotten
            if self._was_deleted(first, second):
                continue
            if again is Again.NEVER or (again is Again.AFTER_FAILURE and succeeded):
                self._break("1 one application", f"{both} are run again")
            if second.accepted_at < (first.over_at or 1e12):
                self._break("1 one application", f"{both}, which begins before the first one ends")

    def _was_deleted(self, first: App, second: App) -> bool:
        """Whether a person deleted the first run, and nothing told of it any more when the second
        one was posted, or that POST had been on its way since before.
        """
        return any(
            name == first.name
            and by in self.cluster.may_delete
            and (first is second or at <= second.accepted_at)
            and (first.forgotten or second.sent_at <= at or self._recovered(second.sent_at))
            for at, name, by in self.cluster.deleted
        )

    def _recovered(self, at: float) -> bool:
        """Whether a ResourceManager recovered then, or shortly before."""
        return any(0 <= at - since <= RECOVERED_S for since in self.cluster.led_since)

    def _check_beside(self, first: App, second: App) -> None:
        """Promise 6."""
        begin = max(first.ran_from or 0.0, second.ran_from or 0.0)
        end = min(first.ran_until or self.kernel.now, second.ran_until or self.kernel.now)
        poster = next(report for report in self.people.reports if report.by == second.by)
        # its answer was lost, and it found its run when that ran already
        lost = poster.adopted and poster.run == second.name
        unknown = lost or poster.killed or second.by in self.people.frozen
        unknown = unknown or (poster.error is not None and poster.run != second.name)
        answered = self.people.said.get((second.by, second.name), poster.ended)
        unknown = unknown or any(
            by == second.by and second.accepted_at <= at <= answered
            for at, by in self.network.forbidden
        )
        late = self.cluster.came_late(first) or self.cluster.came_late(second)
        if first.name == second.name or end - begin <= 0 or unknown or late:
            return
        if end > answered + 5.0:
            self._break("6 two runs", f"{first.id} and {second.id} run at the same time")

    def _check_resubmissions(self) -> None:
        """Promise 9."""
        after: dict[str, set[str]] = {}
        for app in self.cluster.apps.values():
            made = Resubmission.of(app.spec["configuration"]["properties"])
            if made.number and app.ran_from is not None:
                after.setdefault(made.former, set()).add(app.name)
                if made.number >= MOST_RUNS:
                    self._break("9 again", f"{app.id} is run {made.number + 1}")
        for former, names in after.items():
            if len(names) > 1:
                self._break("9 again", f"{former} is followed by {sorted(names)}")
            if not any(app.final in ("FAILED", "KILLED") for app in self._named(former)):
                self._break("9 again", f"{former} has not failed, and is followed")

    def _named(self, name: str) -> Iterable[App]:
        return [app for app in self.cluster.apps.values() if app.name == name]

    def _break(self, promise: str, words: str) -> None:
        self.cluster.break_promise(promise, words)


def run(kind: str, seed: int | str) -> Result:
    """Run one history of a class."""
    return History(kind, str(seed)).run()
