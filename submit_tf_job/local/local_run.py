"""Run a plan on this machine: start its tasks, forward their output, restart and end them as YARN
does, and return the verdict.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from submit_tf_job import waiting
from submit_tf_job.container import contract
from submit_tf_job.errors import DeadlinePassed, SettingsError
from submit_tf_job.job_report import JobReport
from submit_tf_job.jobspec.job import Job, Restart, RoleKind
from submit_tf_job.local.tasks import (
    LOG_FILES,
    Containers,
    LocalCache,
    LocalTask,
    Processes,
    inherited,
)
from submit_tf_job.observation import Evidence, JobState, JobStatus
from submit_tf_job.plan import Plan, plan
from submit_tf_job.yarn.observed import AppReport, AppState, FinalStatus
from submit_tf_job.yarn.run_names import host_name

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause

STAGING = "local:"
_LINE_MAX = 64 * 1024
_END_BYTES = 256 * 1024


@dataclass(frozen=True)
class Outcome:
    """The result of a local run.

    Attributes:
        status: The last status, with the same verdict as on YARN.
        statuses: Task → exit status of its last attempt.
        directory: Directory of working directories and logs; None if it was removed.
        cause: Why the job failed; None if it did not fail, or if nothing explains more than the
            verdict.
    """

    status: JobStatus
    statuses: Mapping[str, int]
    directory: Path | None
    cause: Cause | None = None


@dataclass
class _FollowedFile:
    """Reads a log file while it is written."""

    path: Path
    at: int = 0
    rest: bytes = b""

    def lines(self, *, last: bool = False) -> Iterator[str]:
        """Yield the new complete lines; with `last`, also an incomplete last line. A line of more
        than 64 KiB is yielded in parts.
        """
        with self.path.open("rb") as file:
            file.seek(self.at)
            data = file.read()
        self.at += len(data)
        *whole, self.rest = (self.rest + data).split(b"\n")
        if self.rest and (last or len(self.rest) > _LINE_MAX):
            whole, self.rest = [*whole, self.rest], b""
        for line in whole:
            yield line.decode("utf-8", "backslashreplace")


def _end_of(path: Path) -> str:
    with suppress(OSError), path.open("rb") as file:
        file.seek(max(0, file.seek(0, 2) - _END_BYTES))
        return file.read(_END_BYTES).decode("utf-8", "backslashreplace")
    return ""


@dataclass
class LocalRun:
    """One run of a plan on this machine.

    Attributes:
        planned: The plan.
        root: The directory for working directories and logs.
        environment: The variables that tasks inherit.
        on_line: As for `run_local`.
        on_status: As for `run_local`.
        lists: As for `run_local`.
        runner: Makes the tasks, as processes or as containers.
        tasks: The tasks by name, such as `worker-0`; empty before `run`.
    """

    planned: Plan
    root: Path
    environment: Mapping[str, str]
    on_line: Callable[[str, str, str], None] = lambda _task, _file, _line: None
    on_status: Callable[[JobStatus], None] = lambda _status: None
    lists: Mapping[str, bytes] = field(default_factory=dict)
    runner: Processes | Containers = field(default_factory=Processes)
    tasks: dict[str, LocalTask] = field(default_factory=dict)
    _files: dict[tuple[str, str], _FollowedFile] = field(default_factory=dict)
    _serial: int = 0
    _last: JobReport | None = None

    def run(self, timeout_s: float | None = None) -> JobStatus:
        """Run the job to its end, and end all its processes, even after an error; return the last
        status, also if the job has failed.

        Raises:
            DeadlinePassed: `timeout_s` passed; the tasks were ended.
            SubmitTFJobError: A task could not be started.
        """
        try:
            self._start_all()
            for _ in waiting.LOCAL_JOB_IS_OVER.attempts(within_s=timeout_s):
                if self._is_over():
                    break
                self._take_turn()
            else:
                raise DeadlinePassed(
                    f"{self.planned.job.name} was not over after {timeout_s:g} s; its tasks were "
                    f"ended"
                )
            self._raise_start_errors()
            self._let_others_end()
        finally:
            self._end_all()
            self._forward_lines(last=True)
        status = self._current_status()
        self.on_status(status)
        return status

    def _start_all(self) -> None:
        site, name = self.planned.site, self.planned.job.name
        contents = {upload.uri: upload.content for upload in self.planned.uploads}
        contents |= {self.planned.list_uri(item): content for item, content in self.lists.items()}
        cache = LocalCache(self.root / "staged", contents)
        for component in self.planned.service.with_files().components:
            for index in range(component.number_of_containers):
                made = f"{component.name}-{index}"
                host = host_name(component.name, index, name, site.registry_user, site.domain)
                self.tasks[made] = self.runner.task(made, component, self.root, cache, host)
        for task in self.tasks.values():
            self._start_task(task)

    def _start_task(self, task: LocalTask) -> None:
        self._serial += 1
        task.start(f"container_0_0000_01_{self._serial:06d}", self.environment)
        for name in LOG_FILES:
            self._files[(task.name, name)] = _FollowedFile(task.logs / name)

    @property
    def _deciding_task(self) -> LocalTask:
        return self.tasks[self.planned.job.deciding_task]

    def _is_over(self) -> bool:
        return self._deciding_task.status is not None and not self._may_restart(self._deciding_task)

    def _take_turn(self) -> None:
        self._forward_lines()
        self._raise_start_errors()
        for task in self.tasks.values():
            if task.status is not None and self._may_restart(task):
                self._forward_lines(last=True, only=task.name)
                self._start_task(task)
        self.on_status(self._current_status())

    def _raise_start_errors(self) -> None:
        for task in self.tasks.values():
            if error := task.start_error:
                raise error

    def _may_restart(self, task: LocalTask) -> bool:
        """Return whether YARN would start the task again, given its role's restart policy and the
        number of its attempts.
        """
        role = self.planned.job.roles[task.component.name]
        if self.planned.job.retries and role.kind is not RoleKind.SIDECAR:
            return task.status not in (None, 0)
        if role.restart is not Restart.ON_FAILURE or task.attempt >= role.max_restarts:
            return False
        final = (None, 0, contract.EXIT_JOB_FAILED, contract.EXIT_DECIDING_LOST)
        return task.status not in final

    def _forward_lines(self, *, last: bool = False, only: str | None = None) -> None:
        for (task, name), file in self._files.items():
            if only in (None, task):
                for line in file.lines(last=last):
                    self.on_line(task, name, line)

    def _current_status(self) -> JobStatus:
        app, report = self._app_report(), self._job_report()
        there = (self._deciding_task.logs / contract.REPORT_FILE).exists()
        seen = JobStatus(
            self.planned.job.name,
            "",
            app,
            run=self.planned.run,
            report=report,
            evidence=Evidence.READ if there else Evidence.MISSING,
        )
        return replace(seen, app=None, recorded_verdict=seen.verdict)

    def _app_report(self) -> AppReport:
        """Return what the ResourceManager would report about the application. Once the job is over,
        the final status is FAILED if the deciding task's exit status is not 0 or, in a job with
        `retries`, if its report says that the job failed; on a cluster YARN learns the same from
        the exit status of the witness.
        """
        report = self._job_report()
        state, final = AppState.FINISHED, FinalStatus.SUCCEEDED
        if not self._is_over():
            state, final = AppState.RUNNING, FinalStatus.UNDEFINED
        elif self._deciding_task.status or (report and report.retried and report.state == "failed"):
            final = FinalStatus.FAILED
        return AppReport("", None, self.planned.job.name, None, state, final)

    def _job_report(self) -> JobReport | None:
        try:
            content = (self._deciding_task.logs / contract.REPORT_FILE).read_bytes()
        except OSError:
            return self._last
        self._last = JobReport.parse(content) or self._last
        return self._last

    def why_failed(self, status: JobStatus) -> Cause | None:
        """Return why the job failed, according to its report and the outputs of the task that
        failed first, as on a cluster; None if the job has not failed, or if nothing explains more
        than the verdict.
        """
        if status.state is not JobState.FAILED:
            return None
        from submit_tf_job.diagnose.failure import conclude, evidence_of

        evidence = evidence_of(status)
        task = self.tasks.get(evidence.suspect.task)
        if task is not None:
            ends = [_end_of(task.logs / name) for name in ("stderr.txt", "stdout.txt")]
            evidence = replace(evidence, stderr=ends[0], stdout=ends[1])
        return conclude(evidence)

    def _let_others_end(self) -> None:
        """Wait up to 15 s until the other tasks have ended; the deciding task's bootstrap has told
        them to end.
        """
        for _ in waiting.LOCAL_TASKS_HAVE_ENDED.attempts():
            self._forward_lines()
            if len(self.statuses) == len(self.tasks):
                break

    def _end_all(self) -> None:
        for task in self.tasks.values():
            task.terminate()
        deadline = time.monotonic() + waiting.LOCAL_PROCESS_HAS_ENDED.within_s
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
    port_range: tuple[int, int],
    timeout_s: float | None = None,
    keep: bool = False,
    on_line: Callable[[str, str, str], None] = lambda _task, _file, _line: None,
    on_status: Callable[[JobStatus], None] = lambda _status: None,
    then: Callable[[LocalRun], object] = lambda _run: None,
    lists: Mapping[str, bytes] = MappingProxyType({}),
    runner: Containers | None = None,
) -> Outcome:
    """Run a job on this machine, with one process or container for each task, and with the
    bootstrap, TF_CONFIG, verdict and exit statuses of a cluster.

    If the tasks are processes, then images, memory limits, mounts and queues have no effect, and
    programs are found in `PATH`.

    Args:
        job: The job.
        user: The user whose name is in the host names.
        environ: The caller's environment; tasks that are processes inherit `PATH` and a few more
            variables, containers none.
        port_range: Ports for the tasks.
        timeout_s: Seconds after which the tasks are ended; None for no limit.
        keep: Keep working directories and logs; the result has their directory.
        on_line: Called with each line: task, file, text.
        on_status: Called with each status, about ten times a second.
        then: Called with the run after its end, before anything is removed; not called after an
            error.
        lists: Name of each sharded input → its list, as `operations.submit_checks` made it.
        runner: Makes tasks that are Docker containers; None for processes.

    Raises:
        JobSpecError: The job cannot be planned.
        DeadlinePassed: `timeout_s` passed; the tasks were ended.
        SubmitTFJobError: A task could not be started, a file of the job is missing or was changed,
            Docker or an image is not available, or there is no directory for temporary files.

    Example:
        >>> run_local(job, "alice", os.environ).status.state  # doctest: +SKIP
    """
    with runner or nullcontext(Processes()) as entered, _run_directory(keep=keep) as root:
        site = entered.site(user, port_range, STAGING)
        # A key of its own for each run, so that simultaneous runs use different ports.
        planned = plan(
            replace(job, kerberos=None, network=entered.network),
            site,
            key=uuid.uuid4().hex[:16],
        )
        run = LocalRun(planned, root, inherited(environ), on_line, on_status, lists, entered)
        status = run.run(timeout_s)
        then(run)
        return Outcome(status, run.statuses, root if keep else None, run.why_failed(status))


@contextmanager
def _run_directory(*, keep: bool) -> Iterator[Path]:
    try:
        tempfile.gettempdir()
    except OSError as error:
        why = f"there is no directory for temporary files: {error.strerror}"
        raise SettingsError(why, hint="set TMPDIR to one that you can write to") from None
    if keep:
        yield Path(tempfile.mkdtemp(prefix="submit_tf_job-local-"))
    else:
        with tempfile.TemporaryDirectory(
            prefix="submit_tf_job-local-", ignore_cleanup_errors=True
        ) as made:
            yield Path(made)
