"""The base class of both kinds of task: one event loop for the command, signals and progress."""

from __future__ import annotations

import abc
import collections
import os
import selectors
import signal
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from submit_tf_job.container import contract, facts, ports, task_files
from submit_tf_job.container.child import STOPS, Child, Signals
from submit_tf_job.container.data.task_data import Data
from submit_tf_job.container.environment import has_proxy, no_proxy, set_tf_config
from submit_tf_job.container.info import (
    BootstrapProblem,
    Info,
    describe,
    exit_status,
    log,
    signal_name,
)
from submit_tf_job.container.line_times import Stamps
from submit_tf_job.container.memory import oom_kills

TICK_S = 1.0  # the pause of an idle event loop
BUSY_S = 0.1
LEFT = (
    "the command of %s has ended, and had left processes in the background, which are not waited "
    "for: %s; a command runs until its own process ends (write no `&` after it)"
)
SILENCE = 3  # unanswered pings after which a connection counts as broken
# bash's exit statuses for a command that it cannot run
SHELL_REASONS = {126: "not-executable", 127: "command-not-found"}


class Agent(abc.ABC):
    """Runs one task; `exit` is its exit status once it has ended."""

    def __init__(self, info: Info, signals: Signals) -> None:
        """Set up the event loop; the command is started later."""
        self.info, self.signals = info, signals
        self.env: dict[str, str] = {}
        self.child: Child | None = None
        self.child_started = self.child_ended = 0.0
        self.record: dict[str, Any] | None = None  # how the command ended
        self.exit: int | None = None
        self.final = False  # a later start of this task on this node exits at once
        self.end_requested = False
        self.stop_grace_s = info.stop_grace_s  # from SIGTERM to SIGKILL
        self.nofile: tuple[int, int] | None = None
        self.selector = selectors.DefaultSelector()
        self.selector.register(signals.reader, selectors.EVENT_READ, lambda _mask: signals.drain())
        self.posted: collections.deque[Callable[[], None]] = collections.deque()
        self.progress = task_files.Progress("")
        self.stamps = Stamps(info)
        self.data: Data | None = None  # the job's inputs and outputs, if it declares any
        self.reserved: ports.Reservation | None = None  # the port of this task
        self.held: list[ports.Reservation] = []  # the ports that the command serves
        self.close_servers: Callable[[], None] | None = None
        self.ping_s = info.ping_s
        self.renewing = False  # the command is ended, and will be started again
        self.generation = self.next_generation = 0  # of the command, and of the next one
        self.prepared: dict[str, str] = {}  # `env` before the first start of the command
        self.problem: BootstrapProblem | None = None  # why the command cannot start
        self.oom_kills = 0  # before the command
        self.preparing = False  # the child is `prepare` of the job
        # The result of the command, and the upload of its outputs that is still to be done.
        self.ending: tuple[dict[str, Any], Callable[[dict[str, Any]], dict[str, Any]]] | None = None

    # --- for the two kinds of task ----------------------------------------------------------------
    def open(self) -> None:  # noqa: B027  (most tasks accept no connections)
        """Start listening for connections, if this task accepts any."""

    def warn(self, text: str) -> None:
        """Log a warning that does not fail the task."""
        log(text)

    def warn_later(self, text: str) -> None:
        """Warn in the event loop; any thread may call this."""
        self.post(lambda: self.warn(text))

    def outcome(self) -> dict[str, Any]:
        """Return the fields of the outcome line beyond those of this task."""
        return {}

    def report(self) -> dict[str, Any] | None:
        """Return the job's report, if this task writes one."""
        return None

    def done_message(self) -> dict[str, Any]:
        """Return how the command ended, and in which generation, for the deciding task."""
        return dict(self.record or {}, generation=self.generation)

    def silent_s(self) -> float:
        """Return how much of `grace` has passed once `SILENCE` pings are unanswered.

        It counts from the first of them, which may have been a turn of the loop late. At least half
        of `grace` is left for a new connection.
        """
        grace_s: float = self.info.task["grace_s"]
        return max(0.0, min((SILENCE - 1) * self.ping_s - TICK_S, grace_s / 2))

    def turn(self, now: float) -> None:
        """Watch the command; once it has ended for the next generation, be ready for that."""
        self.watch_child(now)
        if self.renewing and self.idle:
            self._renew()

    @abc.abstractmethod
    def tick(self, now: float) -> bool:
        """Do what is due; return True while the next step is less than a second away."""

    @abc.abstractmethod
    def command_ended(self, now: float) -> None:
        """Handle the end of the command; `record` holds the result."""

    @abc.abstractmethod
    def renewed(self) -> None:
        """Report that the command of the next generation may start."""

    @abc.abstractmethod
    def stopped(self, now: float) -> None:
        """Handle the first signal that ends this task."""

    # --- the loop ---------------------------------------------------------------------------------
    def run(self, env: dict[str, str], problem: BootstrapProblem | None) -> int:
        """Run the task to its end; `problem` is the reason why the command cannot start, if any."""
        self.env, self.prepared, self.problem = env, dict(env), problem
        self.progress = task_files.Progress(
            env.get(contract.ENV_PROGRESS, ""), task_files.stdout_path(self.info)
        )
        if problem:
            self.fail(problem)
        stop = 0
        try:
            while self.exit is None:
                now = time.monotonic()
                self.stamps.look(now)
                self.turn(now)
                if not stop and self.signals.stop():
                    stop = self.signals.stop()
                    self.stopped(now)
                ending = self.child and (self.child.kill_at or self.child.code is not None)
                stopping = ending and self.child and not self.child.over
                busy = self.tick(now) or stopping
                if self.exit is None:
                    self.wait(BUSY_S if busy else TICK_S)
            return self.exit
        finally:
            self.stamps.look(time.monotonic(), last=True)
            if self.child:
                self.child.close()
            self.signals.forward = None

    def wait(self, timeout_s: float) -> None:
        """Handle events of sockets, threads and signals for at most `timeout_s`."""
        for key, mask in self.selector.select(timeout_s):
            key.data(mask)
        while self.posted:
            self.posted.popleft()()

    def post(self, call: Callable[[], None]) -> None:
        """Run `call` in the event loop; any thread may call this."""
        self.posted.append(call)  # atomic
        self.signals.wake()

    # --- the command ------------------------------------------------------------------------------
    def serve(self, env: dict[str, str]) -> None:
        """Choose the ports that the command serves, and add them to its environment.

        Raises:
            BootstrapProblem: No free port was found.
        """
        reserved = self.reserved.port if self.reserved else 0
        self.info.served, self.held, warnings = ports.serve(self.info, reserved)
        for name, port in self.info.served.items():
            env[contract.ENV_PORT_OF + name.upper().replace("-", "_")] = str(port)
        for warning in warnings:
            self.info.warnings.append(warning)
            self.warn(warning)

    def learn(self, hosts: Mapping[str, str], taken: Mapping[str, int]) -> None:
        """Store where all tasks are, as the deciding task says.

        Args:
            hosts: The addresses of tasks that programs do not know by name.
            taken: The ports of tasks whose own one was in use.
        """
        self.info.hosts, self.info.ports = dict(hosts), dict(taken)
        port = self.info.port(self.info.role, self.info.index)
        self.env[contract.ENV_PORT] = str(port)
        if self.reserved and self.reserved.port != port:
            # the programs know the port that an earlier attempt of this task had
            self.reserved.drop()
            self.reserved = None
            try:
                self.reserved = ports.reserve([port], self.info.name, self.info.node, self.signals)
            except BootstrapProblem as problem:
                self.fail(problem)

    def start_child(self) -> None:
        """Start the command."""
        self.env[contract.ENV_ATTEMPT] = str(self.info.attempt)
        if self.info.task.get("retries"):
            self.env[contract.ENV_GENERATION] = str(self.generation)
            self.env[contract.ENV_INDEX] = str(self.info.position)
            self.env[contract.ENV_COUNT] = str(self.info.sizes[self.info.role])
            self.oom_kills = oom_kills()
        if self.info.hosts and has_proxy(self.env):
            no_proxy(self.env, list(self.info.hosts.values()))
        command = self.info.roles[self.info.role]["command"]
        try:
            self._set_variables()
            for reservation in [self.reserved, *self.held]:
                if reservation:
                    reservation.release()
            if self.info.task.get("variables"):
                from submit_tf_job.container.systems import variables

                self.close_servers = variables.serve(self.info)
            self.run_command("starting", command)
        except BootstrapProblem as problem:
            self.fail(problem)

    def run_command(self, doing: str, command: str | list[str]) -> None:
        """Run a command as the child.

        Args:
            doing: What the log says of it.
            command: A string for bash, or the arguments.

        Raises:
            BootstrapProblem: It cannot be started.
        """
        words = command.split() if isinstance(command, str) else command
        log("%s: %s" % (doing, " ".join(words)[:200]))
        self.child = Child(command, self.env, self.nofile, self.workdir())
        self.child_started = time.monotonic()
        self.signals.forward = self.child.send
        for number in self.signals.seen:  # received before `forward` was set
            if number in STOPS:
                self.child.send(number)

    def _set_variables(self) -> None:
        """Set the facts, TF_CONFIG, and what other frameworks and other systems read."""
        facts.install(self.env, self.info)
        info, value = self.info, ""
        if info.task.get("tf_config", "counts") == "counts":
            self.env.pop(contract.ENV_TF_CONFIG, None)
            value = info.tf_config()
        if info.task.get("framework") in ("torch", "jax"):
            from submit_tf_job.container.frameworks import peers

            self.env.update(peers.variables(info))
        if info.task.get("variables"):
            from submit_tf_job.container.systems import variables

            value = variables.with_environment(info, value)
            stated = info.roles[info.role].get("env", {})
            for name, text in variables.other_variables(info).items():
                if name not in stated:
                    self.env[name] = text
        if value:
            set_tf_config(self.env, value, info.cwd)

    def workdir(self) -> str:
        """Return the directory in which the command starts.

        Raises:
            BootstrapProblem: It does not exist.
        """
        path = os.path.join(
            self.info.cwd, self.info.roles[self.info.role].get("workdir", "")
        ).rstrip("/")
        if not os.path.isdir(path or "/"):
            raise BootstrapProblem(
                contract.EXIT_BOOTSTRAP_ERROR,
                "workdir-missing",
                "the workdir %s does not exist, or is not a directory" % path,
            )
        return path or "/"

    def fail(self, problem: BootstrapProblem) -> None:
        """Record that the command could not run."""
        log(problem.message)
        self.child_ended = self.child_started = time.monotonic()
        message = "%s on %s: %s" % (self.info.name, self.info.node, problem.message)
        self._ended(
            {"status": problem.status, "signal": None, "reason": problem.reason, "message": message}
        )

    def was_stopped(self, number: int) -> None:
        """Record that a signal from outside ended this task."""
        text = "%s was stopped by %s" % (self.info.name, signal_name(number))
        self._ended({"status": 128 + number, "signal": number, "reason": "killed", "message": text})

    def watch_child(self, now: float) -> None:
        """Check whether the command and its process group have ended."""
        if not self.child or self.child.over:
            return
        over = self.child.poll(now)
        if self.child.left:
            self.warn(LEFT % (self.info.name, ", ".join(self.child.left[:5])))
            self.child.left = []
        if self.child.code is not None and not self.record and not self.ending:
            self.child_ended = time.monotonic()  # `now` may be from before a suspension
            record = self._described(self.child.code)
            stop = self.signals.stop()
            if self.renewing:
                return
            if self.end_requested:
                record["reason"] = "ended"
            elif stop:  # the command ended because of the signal, whatever its own status
                self.was_stopped(stop)
                return
            elif isinstance(self.info.roles[self.info.role]["command"], str):
                record["reason"] = SHELL_REASONS.get(record["status"], record["reason"])
            upload = None
            if self.data and not self.preparing:
                upload = self.data.uploads(record, self.end_requested)
            if upload:
                self.ending = (record, upload)
            else:
                self._ended(record)
        # the whole process group has ended, so no process writes to the outputs any more
        if over and self.ending:
            threading.Thread(
                target=self._upload, args=self.ending, name="upload", daemon=True
            ).start()

    def _described(self, code: int) -> dict[str, Any]:
        """Return a record of the command's return code; in a job with `retries` it says whether the
        kernel ended it for its memory.
        """
        record = describe(self.info, code)
        retries = self.info.task.get("retries")
        if retries and code == -signal.SIGKILL and oom_kills() > self.oom_kills:
            text = "%s was killed by the kernel for want of memory"
            record.update(reason=contract.REASON_OOM, message=text % self.info.name)
        return record

    def _upload(
        self, record: dict[str, Any], upload: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> None:
        """Upload the outputs in a thread, while the event loop continues."""
        try:
            done = upload(record)
        except Exception as err:  # noqa: BLE001  (the event loop waits for the result)
            done = record
            if not record["status"]:
                failed = {"status": contract.EXIT_DATA, "reason": "output-failed"}
                done = dict(record, message=repr(err), **failed)
        self.post(lambda: self._uploaded(done))

    def _uploaded(self, record: dict[str, Any]) -> None:
        self.ending = None
        self._ended(record)

    def _ended(self, record: dict[str, Any]) -> None:
        lines = []
        if record["status"]:
            lines = task_files.last_lines(task_files.stderr_path(self.info))
        self.record = dict(
            record, last_lines=lines, duration_s=round(self.child_ended - self.child_started, 3)
        )
        self.command_ended(self.child_ended)

    def stop_child(self, now: float, number: int = signal.SIGTERM) -> None:
        """Stop the command if it runs."""
        if self.child and not self.child.over:
            self.child.stop(now, self.stop_grace_s, number)

    # --- the next generation ----------------------------------------------------------------------
    def renew(self, now: float, generation: int) -> None:
        """End the command, and be ready to start it again; `renewed` is called then.

        A task without a command is ready at once: the start may be the next message.
        """
        self.next_generation = generation
        if not self.renewing:
            log("all tasks start again" + ("; ending the command" if self.child else ""))
            self.renewing = True
            self.stop_child(now)
        if self.idle:
            self._renew()

    def _renew(self) -> None:
        """Forget the ended command, and reserve the task's ports again."""
        self.renewing = self.preparing = False
        self.generation = self.next_generation
        if self.problem:  # another container prepares the task anew
            self.exit = exit_status(self.problem.status)
            return
        if self.child:
            self._free()
            self.env = dict(self.prepared)
            if self.data:
                self.data.renew()
        self.child = self.record = self.close_servers = self.signals.forward = None
        try:
            if not self.reserved:
                self.reserved = ports.reserve_own(self.info, self.env, self.signals)
            if not self.held and self.info.roles[self.info.role].get("ports"):
                self.serve(self.env)
        except BootstrapProblem as problem:
            self.problem = problem
            self.fail(problem)
            return
        self.renewed()

    def _free(self) -> None:
        """Give up what the ended command had: what remains of its processes, and its ports."""
        if self.child:
            self.child.close()
        if self.close_servers:
            self.close_servers()
        for reservation in [self.reserved, *self.held]:
            if reservation:
                reservation.drop()
        self.reserved, self.held = None, []
        self.info.ports.clear()

    @property
    def idle(self) -> bool:
        """Whether no command runs and no output is being uploaded."""
        return (not self.child or self.child.over) and not self.ending
