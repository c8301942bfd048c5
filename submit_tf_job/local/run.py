"""Run a plan on this machine: start its tasks, tell what they write, restart and end them as YARN would, and judge the end."""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from submit_tf_job import contract
from submit_tf_job.errors import DeadlinePassed
from submit_tf_job.job import Job, Restart
from submit_tf_job.local.places import Place, Processes
from submit_tf_job.local.shelf import Shelf
from submit_tf_job.local.task import LOG_FILES, Task, inherited
from submit_tf_job.observation import Evidence, JobReport, Observation, verdict
from submit_tf_job.plan import Plan, plan
from submit_tf_job.plan.data import list_uri
from submit_tf_job.tfconfig import host_name
from submit_tf_job.watch import Look
from submit_tf_job.yarn.observed import AppReport
from submit_tf_job.yarn.states import AppState, FinalStatus

__all__ = ["LocalRun", "Outcome", "run_local"]

STAGING = "local:"
LOOK_S = 0.1
# What YARN leaves the others when the deciding task is done: the bootstraps end by themselves within that.
LINGER_S = 15.0
GRACE_S = 6.0  # more than the bootstrap gives its command
_LINE_MAX = 64 * 1024


@dataclass(frozen=True)
class Outcome:
    """How a local run ended.

    Attributes:
        look: What was seen last, and the verdict, as on YARN.
        statuses: Task → exit status of its last attempt.
        directory: Where working directories and logs are, None where they were removed.
    """

    look: Look
    statuses: Mapping[str, int]
    directory: Path | None


@dataclass
class _File:
    """A log file that is being written."""

    path: Path
    at: int = 0
    rest: bytes = b""

    def lines(self, *, last: bool = False) -> Iterator[str]:
        """Give the lines that have come, and at the end the one that was not ended."""
        with self.path.open("rb") as file:
            file.seek(self.at)
            data = file.read()
        self.at += len(data)
        *whole, self.rest = (self.rest + data).split(b"\n")
        if self.rest and (last or len(self.rest) > _LINE_MAX):
            whole, self.rest = [*whole, self.rest], b""
        for line in whole:
            yield line.decode("utf-8", "backslashreplace")


@dataclass
class LocalRun:
    """One run of a plan.

    Args:
        planned: What would be posted.
        root: Where directories and logs are made.
        environment: What tasks inherit.
        on_line: Told of each line: task, file, text.
        on_look: Told of the job each time it was looked at.
        lists: The files of each sharded input, as `api.DataCheck` found them.
        place: Where the tasks live: processes of this machine, or `Containers`.
    """

    planned: Plan
    root: Path
    environment: Mapping[str, str]
    on_line: Callable[[str, str, str], None] = lambda _task, _file, _line: None
    on_look: Callable[[Look], None] = lambda _look: None
    lists: Mapping[str, bytes] = field(default_factory=dict)
    place: Place = field(default_factory=Processes)
    tasks: dict[str, Task] = field(default_factory=dict)
    _files: dict[tuple[str, str], _File] = field(default_factory=dict)
    _serial: int = 0
    _last: JobReport | None = None

    def run(self, timeout_s: float | None = None) -> Look:
        """Run it to its end; whatever happens, no process of it is left.

        Raises:
            DeadlinePassed: `timeout_s` passed; the tasks were ended.
            SubmitTFJobError: A task could not be started.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            self._start_all()
            while not self._is_over():
                if deadline is not None and time.monotonic() > deadline:
                    raise DeadlinePassed(f"{self.planned.job.name} was not over after {timeout_s:g} s; its tasks were ended")
                self._turn()
                time.sleep(LOOK_S)
            self._refuse_what_did_not_start()
            self._let_others_end()
        finally:
            self._end_all()
            self._tell_lines(last=True)
        look = self._look()
        self.on_look(look)
        return look

    def _start_all(self) -> None:
        site, name = self.planned.site, self.planned.job.name
        contents = {upload.uri: upload.content for upload in self.planned.uploads}
        contents.update({list_uri(self.planned.job, site, self.planned.submission, item): content for item, content in self.lists.items()})
        shelf = Shelf(self.root / "staged", contents)
        for component in self.planned.service.components:
            for index in range(component.number_of_containers):
                host = host_name(component.name, index, name, site.registry_user, site.domain)
                task = self.place.task(f"{component.name}-{index}", component, self.root, shelf, host)
                self.tasks[task.name] = task
        for task in self.tasks.values():
            self._start(task)

    def _start(self, task: Task) -> None:
        self._serial += 1
        task.start(f"container_0_0000_01_{self._serial:06d}", self.environment)
        for name in LOG_FILES:
            self._files[(task.name, name)] = _File(task.logs / name)

    @property
    def _decider(self) -> Task:
        return self.tasks[self.planned.job.deciding_task]

    def _is_over(self) -> bool:
        return self._decider.status is not None and not self._may_restart(self._decider)

    def _turn(self) -> None:
        self._tell_lines()
        self._refuse_what_did_not_start()
        for task in self.tasks.values():
            if task.status is not None and self._may_restart(task):
                self._tell_lines(last=True, only=task.name)
                self._start(task)
        look = self._look()
        self.on_look(look)

    def _refuse_what_did_not_start(self) -> None:
        for task in self.tasks.values():
            if task.trouble is not None:
                raise task.trouble

    def _may_restart(self, task: Task) -> bool:
        """Say whether YARN would start it again: its role's restart policy, and its bootstrap's own account of the attempts."""
        role = self.planned.job.roles[task.component.name]
        if role.restart is not Restart.ON_FAILURE or not task.status or task.attempt >= role.max_restarts:
            return False
        return task.status not in (contract.EXIT_JOB_FAILED, contract.EXIT_DECIDER_LOST)

    def _tell_lines(self, *, last: bool = False, only: str | None = None) -> None:
        for (task, name), file in self._files.items():
            if only in (None, task):
                for line in file.lines(last=last):
                    self.on_line(task, name, line)

    def _look(self) -> Look:
        seen = Observation(self.planned.job.name, None, self._app(), report=self._report(), evidence=self._evidence())
        return Look(replace(seen, app=None), verdict(seen))

    def _app(self) -> AppReport:
        """Say what the ResourceManager would: the deciding task's exit status is the application's final status."""
        status = self._decider.status
        state, final = AppState.RUNNING, FinalStatus.UNDEFINED
        if status is not None and not self._may_restart(self._decider):
            state, final = AppState.FINISHED, FinalStatus.FAILED if status else FinalStatus.SUCCEEDED
        return AppReport("", None, self.planned.job.name, None, state, final)

    def _report(self) -> JobReport | None:
        try:
            content = (self._decider.logs / contract.REPORT_FILE).read_bytes()
        except OSError:
            return self._last
        self._last = JobReport.parse(content) or self._last
        return self._last

    def _evidence(self) -> Evidence:
        if not self.planned.job.bootstrap:
            return Evidence.NONE_EXPECTED
        return Evidence.READ if (self._decider.logs / contract.REPORT_FILE).exists() else Evidence.MISSING

    def _let_others_end(self) -> None:
        """Give the others the time that YARN gives them; the deciding bootstrap has told them to end."""
        deadline = time.monotonic() + (LINGER_S if self.planned.job.bootstrap else 0)
        while time.monotonic() < deadline and any(task.status is None for task in self.tasks.values()):
            self._tell_lines()
            time.sleep(LOOK_S)

    def _end_all(self) -> None:
        for task in self.tasks.values():
            task.tell_to_end()
        deadline = time.monotonic() + GRACE_S
        for task in self.tasks.values():
            task.end(deadline)

    @property
    def statuses(self) -> dict[str, int]:
        """Exit statuses of the tasks that have ended."""
        return {name: task.status for name, task in self.tasks.items() if task.status is not None}


def run_local(
    job: Job,
    user: str,
    environ: Mapping[str, str],
    *,
    port_range: tuple[int, int] = (20000, 32767),
    timeout_s: float | None = None,
    keep: bool = False,
    on_line: Callable[[str, str, str], None] = lambda _task, _file, _line: None,
    on_look: Callable[[Look], None] = lambda _look: None,
    then: Callable[[LocalRun], object] = lambda _run: None,
    lists: Mapping[str, bytes] = MappingProxyType({}),
    place: Place | None = None,
) -> Outcome:
    """Run a job on this machine: one process or container for each task, its own bootstrap, TF_CONFIG, verdict and exit statuses.

    As processes, images, memory limits, mounts at other places and queues mean nothing here; the programs are those of `PATH`.

    Args:
        job: The job.
        user: Whose name stands in host names.
        environ: The caller's environment; `PATH` and a few more reach the tasks.
        port_range: Ports that the tasks take.
        timeout_s: Seconds after which the tasks are ended; None for no limit.
        keep: Leave working directories and logs.
        on_line: Told of each line: task, file, text.
        on_look: Told of the job each time it was looked at, some ten times a second.
        then: Called before anything is removed.
        lists: The files of each sharded input, as `api.DataCheck` found them.
        place: Where the tasks live: processes of this machine, or `Containers`.

    Raises:
        JobSpecError: The job cannot be planned.
        DeadlinePassed: `timeout_s` passed.

    Example:
        >>> run_local(job, "alice", os.environ).look.verdict.state  # doctest: +SKIP
    """
    with place or Processes() as here, _directory(keep=keep) as root:
        site = here.site(user, port_range, STAGING)
        # An id of its own for every run: its ports are others than those of a run beside it.
        planned = plan(replace(job, kerberos=None, network=here.network), site, submission=uuid.uuid4().hex[:16])
        run = LocalRun(planned, root, inherited(environ), on_line, on_look, lists, here)
        look = run.run(timeout_s)
        then(run)
        return Outcome(look, run.statuses, root if keep else None)


@contextmanager
def _directory(*, keep: bool) -> Iterator[Path]:
    if keep:
        yield Path(tempfile.mkdtemp(prefix="submit_tf_job-local-"))
    else:
        with tempfile.TemporaryDirectory(prefix="submit_tf_job-local-", ignore_cleanup_errors=True) as made:
            yield Path(made)
