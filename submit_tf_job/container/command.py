"""The command of a task: its environment, its ports, its end, and its next start."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from submit_tf_job.container import (
    contract,
    environment,
    left_files,
    ports,
    program_variables,
    task_files,
)
from submit_tf_job.container.child import STOPS, Child, Signals, is_shell, oom_kills
from submit_tf_job.container.data.task_data import Data
from submit_tf_job.container.guards import Observers, in_thread
from submit_tf_job.container.info import BootstrapProblem, Info, describe, log, signal_name
from submit_tf_job.container.peer_traffic import PeerTraffic
from submit_tf_job.container.progress import Progress
from submit_tf_job.container.sampler import Sampler

LEFT = (
    "the command of %s has ended, and had left processes in the background, which are not waited "
    "for: %s; a command runs until its own process ends (write no `&` after it)"
)
# what begins the warning of a part that observes, and fails
UNMEASURED = "what it uses cannot be measured"
UNMET = "whether it meets other tasks is not known"
UNREAD = "the program's own log files cannot be read"
UNSTAMPED = "the times of its output cannot be kept"
# bash's exit statuses for a command that it cannot run
SHELL_REASONS = {126: "not-executable", 127: "command-not-found"}


class TaskCommand:
    """The command of one task, which may be started several times (`retries`).

    The task's leader (`DecidingTask` or `OtherTask`) sets three callbacks: `ended` is called with
    the time once `record` has a result; `renewed` is called when the command may start again, or
    if it never can (`problem`); `warn` is called with a sentence for the job's report.
    """

    def __init__(self, info: Info, signals: Signals, post: Callable[[Callable[[], None]], None]):
        """Keep the arguments: `post(f)` runs f in the event loop."""
        self.info, self.signals, self.post = info, signals, post
        self.ended: Callable[[float], None] = lambda _now: None
        self.renewed: Callable[[], None] = lambda: None
        self.warn: Callable[..., None] = log
        self.env: dict[str, str] = {}
        self.prepared: dict[str, str] = {}  # `env` before the first start
        self.problem: BootstrapProblem | None = None  # why the command cannot start
        self.child: Child | None = None
        self.by_shell = False  # the child is a shell
        self.started_at = self.ended_at = 0.0
        self.record: dict[str, Any] | None = None  # how the command ended
        self.end_requested = False
        self.stop_grace_s = info.stop_grace_s  # from SIGTERM to SIGKILL
        self.saves = False  # it is ended by a stop that waits, also for its outputs
        self.nofile: tuple[int, int] | None = None
        self.observers = Observers(lambda text: self.warn(f"{info.name}: {text}"))
        self.progress = Progress("")
        self.stamps = task_files.Stamps(info)
        self.usage = Sampler(info)
        self.data: Data | None = None  # the job's inputs and outputs, if it declares any
        self.reserved: ports.Reservation | None = None  # the port of this task
        self.held: list[ports.Reservation] = []  # the ports that the command serves
        self.close_servers: Callable[[], None] | None = None
        self.renewing = False  # the command is ended, and will be started again
        self.generation = self.next_generation = 0  # of the command, and of the next one
        self.oom_kills = 0  # before the command
        self.files_before: Collection[str] = ()  # in the working directory, at the start
        self.logs_before: Mapping[str, tuple[int, int, int]] = {}
        self.peer_traffic: PeerTraffic | None = None  # of the command with other tasks
        self.preparing = False  # the child is `prepare` of the job
        # the result of the command, whose outputs are still to be stored, and whether it failed
        self.ending: tuple[dict[str, Any], bool] | None = None

    @property
    def idle(self) -> bool:
        """Whether no process of the command runs and no output is being uploaded."""
        return (not self.child or self.child.over) and not self.ending

    @property
    def port(self) -> int:
        """The port that is reserved for this task; 0 if no port is reserved."""
        return self.reserved.port if self.reserved else 0

    @property
    def is_ending(self) -> bool:
        """Whether the command has ended or must end, and some of its processes still run."""
        child = self.child
        return bool(child and (child.kill_at or child.code is not None) and not child.over)

    def warn_later(self, text: str, about: str = "") -> None:
        """Warn in the event loop; any thread may call this.

        With `about`, the text replaces an earlier warning about the same subject; "" removes that
        warning.
        """
        self.post(lambda: self.warn(text, about))

    def warn_unstored(self) -> None:
        """Warn about each output that is not stored, because the task is being stopped. Do nothing
        if the end of the command has been recorded already.
        """
        if self.data and not self.record:
            for text, name in self.data.unstored():
                self.warn(text, name)

    # --- the start --------------------------------------------------------------------------------
    def serve(self, env: dict[str, str]) -> None:
        """Reserve the ports in `ports` of the role, and set the variables with their numbers in
        `env`.

        Raises:
            BootstrapProblem: No free port was found.
        """
        self.info.served, self.held, warnings = ports.serve(self.info, self.port)
        for name, port in self.info.served.items():
            env[contract.ENV_PORT_OF + name.upper().replace("-", "_")] = str(port)
        self.info.warnings += warnings
        for warning in warnings:
            self.warn(warning)

    def set_up(self, env: dict[str, str], problem: BootstrapProblem | None) -> None:
        """Store the environment of the command. `problem` is the reason why the command cannot
        start, or None; a problem is recorded at once as the end of the command.
        """
        self.env, self.prepared, self.problem = env, dict(env), problem
        stdout = task_files.output_path(self.info, "stdout")
        self.progress = Progress(env.get(contract.ENV_PROGRESS, ""), stdout)
        if problem:
            self.fail(problem)

    def learn(self, hosts: Mapping[str, str], taken: Mapping[str, int]) -> None:
        """Store the addresses and ports of other tasks, as the deciding task has sent them. If
        `taken` names another port for this task, reserve that one; a failure to do so is recorded.

        Args:
            hosts: The addresses of tasks that programs do not know by name.
            taken: The ports of tasks whose own port was in use.
        """
        self.info.hosts, self.info.ports = dict(hosts), dict(taken)
        port = self.info.port(self.info.role, self.info.index)
        if self.reserved and self.reserved.port != port:
            # the programs know the port that an earlier attempt of this task had
            self.reserved.drop()
            self.reserved = None
            try:
                self.reserved = ports.reserve([port], self.info.name, self.info.node, self.signals)
            except BootstrapProblem as problem:
                self.fail(problem)

    def start(self) -> None:
        """Start the command, without waiting for it. A command that cannot start is recorded as
        failed; no exception is raised.
        """
        if self.info.task.get("retries"):
            self.env[contract.ENV_GENERATION] = str(self.generation)
            self.oom_kills = oom_kills()
        if self.info.hosts and environment.has_proxy(self.env):
            environment.no_proxy(self.env, list(self.info.hosts.values()))
        try:
            self.set_variables()
            for reservation in self._all_reservations():
                reservation.release()
            if "horovod" in self.info.task.get("variables", ()):
                from submit_tf_job.container import horovod  # imports an HTTP server

                self.close_servers = horovod.serve(self.info)
            self.files_before = self._files_in_cwd()
            self.peer_traffic = self.observers.run(UNMET, PeerTraffic, self.info, time.monotonic())
            self.run("starting", self.info.roles[self.info.role]["command"])
        except BootstrapProblem as problem:
            self.fail(problem)
        except Exception as err:  # noqa: BLE001  (the others are told of it, too)
            self.fail(BootstrapProblem(f"the command cannot be started: {err!r}"))

    def set_variables(self) -> None:
        """Set the variables `TFJOB_…`, TF_CONFIG, and the variables that other frameworks and other
        systems read; write the files that these variables name.

        Raises:
            BootstrapProblem: As for `program_variables.all_variables`.
            OSError: A file cannot be written.
        """
        found, files = program_variables.all_variables(self.info)
        if self.info.task.get("tf_config", "counts") == "counts":
            self.env.pop(contract.ENV_TF_CONFIG, None)
        value = found.pop(contract.ENV_TF_CONFIG, "")
        self.env.update(found)
        if value:
            environment.set_tf_config(self.env, value, self.info.cwd)
        for path, content in files.items():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="ascii") as out:
                out.write(content)

    def run(self, doing: str, command: str | list[str]) -> None:
        """Start a command as the child process: a string is run by bash, a list is a program with
        arguments. `doing` describes the command in the log.

        Raises:
            BootstrapProblem: The command cannot be started, or its directory does not exist.
        """
        observe = self.observers.run
        self.env.update(environment.own_variables(self.info))
        self.env[contract.ENV_ATTEMPT] = str(self.info.attempt)
        words = command.split() if isinstance(command, str) else command
        log(f"{doing}: {' '.join(' '.join(words).split())[:200]}")
        workdir = self._working_directory()
        self.by_shell = is_shell(command, self.env.get("PATH"), workdir)
        self.logs_before = observe(UNREAD, task_files.log_files, self.info, otherwise={})
        self.child = Child(command, self.env, self.nofile, workdir)
        self.started_at = time.monotonic()
        self.signals.forward = self.child.send
        for number in self.signals.seen:  # received before `forward` was set
            if number in STOPS:
                self.child.send(number)
        observe(UNMEASURED, self.usage.begin, self.started_at, self.env, self.child.guard)

    def _working_directory(self) -> str:
        path = self.info.workdir
        if not os.path.isdir(path):
            text = f"the workdir {path} does not exist, or is not a directory"
            raise BootstrapProblem(text, "workdir-missing")
        return path

    # --- the end ----------------------------------------------------------------------------------
    def fail(self, problem: BootstrapProblem) -> None:
        """Record that the command could not run."""
        log(problem.message)
        self.ended_at = self.started_at = time.monotonic()
        message = f"{self.info.name} on {self.info.node}: {problem.message}"
        record = {"status": problem.status, "signal": None, "reason": problem.reason}
        self._end_with(dict(record, message=message))

    def was_stopped(self, number: int) -> None:
        """Record that a signal from outside ended this task."""
        text = f"{self.info.name} was stopped by {signal_name(number)}"
        reason = contract.REASON_KILLED
        self._end_with(
            {"status": 128 + number, "signal": number, "reason": reason, "message": text}
        )

    def watch(self, now: float) -> None:
        """Check for new output, and for the end of the command and of its process group. The event
        loop calls this in each turn.

        When the command has ended, its end is recorded, if necessary after an upload of its
        outputs. After `renew`, the task gets ready for the next start instead.
        """
        observe = self.observers.run
        observe(UNSTAMPED, self.stamps.check, now)
        if self.child and not self.child.over:
            observe(UNMEASURED, self.usage.measure, now)
            over = self.child.poll(now)
            if self.peer_traffic and self.child.code is None:
                observe(UNMET, self.peer_traffic.check, now)
            if self.child.left:
                self.warn(LEFT % (self.info.name, ", ".join(self.child.left[:5])))
                self.child.left = []
            if self.child.code is not None and not self.record and not self.ending:
                self.ended_at = time.monotonic()  # `now` may be from before a suspension
                observe(UNMEASURED, self.usage.end, self.ended_at)
                if not self.renewing:
                    self._take_exit_code(self.child.code)
            # the whole process group has ended, so no process writes to the outputs any more
            if over and self.ending:
                self._upload_outputs(*self.ending)
        if self.renewing and self.idle:
            self._be_ready_again()

    def _take_exit_code(self, code: int) -> None:
        """Record how the command ended. If the task may have outputs to store, only keep the record
        in `ending`: `watch` uploads them once the whole process group has ended. A shell may have
        left a process that saves.
        """
        record = describe(self.info, code, self.by_shell)
        oom = self.info.task.get("retries") and record["signal"] == signal.SIGKILL
        if oom and oom_kills() > self.oom_kills:
            text = "%s was killed by the kernel for want of memory"
            record.update(reason=contract.REASON_OOM, message=text % self.info.name)
        # A stop that waits is one also before the event loop has seen it.
        asked = self.end_requested or bool(self.signals.stop() and not self.signals.must_end())
        if asked:
            record["reason"] = "ended"
        elif self.signals.stop():  # the command ended because of it, whatever its own status
            self.was_stopped(self.signals.stop())
            return
        elif self.by_shell:
            record["reason"] = SHELL_REASONS.get(record["status"], record["reason"])
        failed = bool(record["status"]) or asked
        if self.data and not self.preparing and self.data.may_store(failed):
            self.ending = (record, failed)
        else:
            self._end_with(record)

    def _upload_outputs(self, record: dict[str, Any], failed: bool) -> None:
        """Upload the outputs, if there are any, in a thread, then have the event loop record the
        end of the command.
        """
        data = self.data
        assert data is not None
        steps = data.uploads(failed)
        if not steps:
            self._end_with(record)
            return

        def run() -> None:
            done = data.store(record, steps, failed, self.saves)
            self.post(lambda: self._end_with(done))

        def broken(error: Exception) -> None:
            done = data.not_stored(record, steps, failed, repr(error))
            self.post(lambda: self._end_with(done))

        in_thread("upload", run, broken)

    def _end_with(self, record: dict[str, Any]) -> None:
        self.ending = None
        failed, duration_s = record["status"], round(self.ended_at - self.started_at, 3)
        observe = self.observers.run
        lines = observe(UNREAD, self._last_lines, otherwise=[]) if failed else []
        if not failed and self.child and not self.preparing:
            now = self._files_in_cwd()
            text = left_files.sentence(self.info.name, self.files_before, now)
            if text:
                self.warn(text, "left files")
        met = self.peer_traffic.result(self.ended_at) if self.peer_traffic else None
        self.record = dict(record, last_lines=lines, duration_s=duration_s, met=met)
        self.ended(self.ended_at)

    def _files_in_cwd(self) -> dict[str, int]:
        """Return path → size of the files in the working directory; {} for a task whose files are
        not checked.

        Only the first task of a role that trains or evaluates is checked.
        """
        kind = self.info.role_kind(self.info.role)
        if self.info.index or kind in (contract.KIND_SERVES, contract.KIND_SIDECAR):
            return {}
        outputs = [path for name, path in self.env.items() if name.startswith(contract.ENV_OUTPUT)]
        outputs += self.data.collected if self.data else []
        return dict(
            self.observers.run(
                "files that the program leaves are not known",
                left_files.files_below,
                self.info.cwd,
                outputs,
                otherwise={},
            )
        )

    def _last_lines(self) -> list[str]:
        return task_files.program_lines(self.info, self.logs_before)

    def new_progress(self) -> dict[str, Any] | None:
        """Return the latest progress of the program since the last call; None if there is none."""
        found: dict[str, Any] | None = None
        if self.child:
            found = self.observers.run("its progress cannot be read", self.progress.poll)
        return found

    def done_message(self) -> dict[str, Any]:
        """Return the message for the deciding task that tells how the command ended, and in which
        generation.
        """
        place = {"directory": self.info.cwd} if self.info.task.get("hold_s") else {}
        return dict(self.record or {}, generation=self.generation, **place)

    def stop(self, now: float, number: int = signal.SIGTERM) -> None:
        """Send a signal (0: none) to the command's process group, and SIGKILL after `stop_grace_s`.
        Do nothing if no process of the command runs.
        """
        if self.child and not self.child.over:
            self.child.stop(now, self.stop_grace_s, number)

    def close(self) -> None:
        """Kill what is left of the command's processes, because the task ends."""
        self.observers.run(UNSTAMPED, lambda: self.stamps.check(time.monotonic(), last=True))
        self.observers.run(UNMEASURED, self.usage.close)
        self.forget()

    def forget(self) -> None:
        """Kill what is left of the command's processes, and forget them, so that another command
        can be started.
        """
        if self.child:
            self.child.close()
        self.child = self.signals.forward = None

    # --- the next generation ----------------------------------------------------------------------
    def renew(self, now: float, generation: int) -> None:
        """End the command, and get ready to start it again as the given generation.

        `renewed` is called when the task is ready: at once if no command runs, so that the next
        message may already start the command. If a port cannot be reserved again, or an output not
        be emptied, that is recorded as the end of the command instead.
        """
        self.next_generation = generation
        if not self.renewing:
            log("all tasks start again" + ("; ending the command" if self.child else ""))
            self.renewing = True
            self.stop(now)
        if self.idle:
            self._be_ready_again()

    def _be_ready_again(self) -> None:
        """Release the ended command's child process, reserve the task's ports again, and call
        `renewed`.
        """
        self.renewing = self.preparing = False
        self.generation = self.next_generation
        if not self.problem:  # else another container prepares the task anew
            had_run = self.child is not None
            if had_run:
                self.forget()
                self._give_up_ports()
                self.env = dict(self.prepared)
            self.record = None
            try:
                if had_run and self.data:
                    self.data.renew()
                if not self.reserved:
                    self.reserved = ports.reserve_own(self.info, self.signals)
                if not self.held and self.info.roles[self.info.role].get("ports"):
                    self.serve(self.env)
            except BootstrapProblem as problem:
                self.problem = problem
                self.fail(problem)
                return
        self.renewed()

    def _all_reservations(self) -> list[ports.Reservation]:
        return ([self.reserved] if self.reserved else []) + self.held

    def _give_up_ports(self) -> None:
        if self.close_servers:
            self.close_servers()
            self.close_servers = None
        for reservation in self._all_reservations():
            reservation.drop()
        self.reserved, self.held = None, []
        self.info.ports.clear()
