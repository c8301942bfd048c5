"""What deciding and other tasks have in common: one event loop around the command, its signals and its progress."""

from __future__ import annotations

import abc
import queue
import selectors
import signal
import threading
import time

from submit_tf_job import contract
from submit_tf_job.bootstrap import files
from submit_tf_job.bootstrap.child import STOPS, Child, Signals
from submit_tf_job.bootstrap.environment import give_tf_config, has_proxy, no_proxy
from submit_tf_job.bootstrap.info import Problem, describe, say, signal_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from submit_tf_job.bootstrap.data import Data
    from submit_tf_job.bootstrap.info import Info

TICK_S = 1.0  # while nothing is about to happen
BUSY_S = 0.1
PING_S = 5.0
SILENCE = 3  # pings without an answer until a connection counts as broken


class Agent(abc.ABC):
    """Runs one task; `exit` is its status once it is over."""

    def __init__(self, info: Info, signals: Signals) -> None:
        """Begin without a command."""
        self.info, self.signals = info, signals
        self.env: dict[str, str] = {}
        self.child: Child | None = None
        self.child_started = self.child_ended = 0.0
        self.record: dict[str, Any] | None = None  # how the command ended
        self.exit: int | None = None
        self.final = False  # a later start of this task on this node is to leave at once
        self.told_to_end = False
        self.nofile: tuple[int, int] | None = None
        self.selector = selectors.DefaultSelector()
        self.selector.register(signals.reader, selectors.EVENT_READ, lambda _mask: signals.drain())
        self.posted: queue.Queue[Callable[[], None]] = queue.Queue()
        self.progress = files.Progress("")
        self.data: Data | None = None  # what the job reads and writes, where it says so
        # How the command ended, and what is still to be done about its outputs.
        self.ending: tuple[dict[str, Any], Callable[[dict[str, Any]], dict[str, Any]]] | None = None

    # --- for the two kinds of task -----------------------------------------------------------------------------------
    def open(self) -> None:  # noqa: B027  (most tasks are called by nobody)
        """Be there for others, if this task is."""

    def warn(self, text: str) -> None:
        """Tell a person about something that is no failure."""
        say(text)

    def outcome(self) -> dict[str, Any]:
        """Return what the outcome line says beyond this task."""
        return {}

    def report(self) -> dict[str, Any] | None:
        """Return the job's report, if this task keeps it."""
        return None

    @abc.abstractmethod
    def tick(self, now: float) -> bool:
        """Do what is due; True while something is to happen soon."""

    @abc.abstractmethod
    def command_ended(self, now: float) -> None:
        """`record` is there."""

    @abc.abstractmethod
    def stopped(self, now: float) -> None:
        """The first signal that ends this task has come."""

    # --- the loop ----------------------------------------------------------------------------------------------------
    def run(self, env: dict[str, str], problem: Problem | None) -> int:
        """Run to the end; `problem` is why the command cannot be started at all."""
        self.env = env
        self.progress = files.Progress(env.get(contract.ENV_PROGRESS, ""), files.stdout_path(self.info))
        if problem:
            self.fail(problem)
        stop = 0
        try:
            while self.exit is None:
                now = time.monotonic()
                self.watch_child(now)
                if not stop and self.signals.stop():
                    stop = self.signals.stop()
                    self.stopped(now)
                busy = self.tick(now) or bool(self.child and self.child.kill_at and not self.child.over)
                if self.exit is None:
                    self.wait(BUSY_S if busy else TICK_S)
            return self.exit
        finally:
            if self.child:
                self.child.close()
            self.signals.forward = None

    def wait(self, timeout_s: float) -> None:
        """Handle events of sockets, threads and signals for at most `timeout_s`."""
        for key, mask in self.selector.select(timeout_s):
            key.data(mask)
        while True:
            try:
                self.posted.get_nowait()()
            except queue.Empty:
                return

    def post(self, call: Callable[[], None]) -> None:
        """Have the event loop call something; for other threads."""
        self.posted.put(call)
        self.signals.wake()

    # --- the command -------------------------------------------------------------------------------------------------
    def start_child(self, table: Mapping[str, list[str]] | None) -> None:
        """Start the command; TF_CONFIG is made here, from `table` where the names do not resolve in containers."""
        self.env[contract.ENV_ATTEMPT] = str(self.info.attempt)
        if table and has_proxy(self.env):
            no_proxy(self.env, [address for addresses in table.values() for address in addresses])
        command = self.info.roles[self.info.role]["command"]
        try:
            if self.info.task.get("tf_config", "counts") == "counts":
                self.env.pop(contract.ENV_TF_CONFIG, None)
                value = self.info.tf_config(table)
                if value:
                    give_tf_config(self.env, value, self.info.cwd)
            say("starting: %s" % " ".join((command if isinstance(command, str) else " ".join(command)).split())[:200])
            self.child = Child(command, self.env, self.nofile)
        except Problem as problem:
            self.fail(problem)
            return
        self.child_started = time.monotonic()
        self.signals.forward = self.child.send
        for number in self.signals.seen:  # came while it was being started
            if number in STOPS:
                self.child.send(number)

    def fail(self, problem: Problem) -> None:
        """The command cannot run; that is how it ended."""
        say(problem.message)
        self.child_ended = self.child_started = time.monotonic()
        message = "%s on %s: %s" % (self.info.name, self.info.node, problem.message)
        self._ended({"status": problem.status, "signal": None, "reason": problem.reason, "message": message})

    def was_stopped(self, number: int) -> None:
        """YARN, or a person, has ended this task."""
        text = "%s was stopped by %s" % (self.info.name, signal_name(number))
        self._ended({"status": 128 + number, "signal": number, "reason": "killed", "message": text})

    def watch_child(self, now: float) -> None:
        """See whether the command has ended, and all of its group."""
        if not self.child or self.child.over:
            return
        over = self.child.poll(now)
        if self.child.code is not None and not self.record and not self.ending:
            self.child_ended = now
            record = describe(self.info, self.child.code)
            stop = self.signals.stop()
            if self.told_to_end:
                record["reason"] = "ended"
            elif stop:  # whatever it made of the signal, it did not end by itself
                self.was_stopped(stop)
                return
            elif isinstance(self.info.roles[self.info.role]["command"], str) and record["status"] in (126, 127):
                record["reason"] = "command-not-found" if record["status"] == 127 else "not-executable"  # in bash's own words
            upload = self.data.uploads(record, self.told_to_end) if self.data else None
            if upload:
                self.ending = (record, upload)
            else:
                self._ended(record)
        if over and self.ending:  # nothing of the command is left that could still write
            threading.Thread(target=self._upload, args=self.ending, name="upload", daemon=True).start()

    def _upload(self, record: dict[str, Any], upload: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Upload the outputs, in a thread; the loop goes on meanwhile."""
        try:
            done = upload(record)
        except Exception as err:  # noqa: BLE001  (the loop waits for a word, whatever happens here)
            done = record if record["status"] else dict(record, status=contract.EXIT_DATA, reason="output-failed", message=repr(err))
        self.post(lambda: self._uploaded(done))

    def _uploaded(self, record: dict[str, Any]) -> None:
        self.ending = None
        self._ended(record)

    def _ended(self, record: dict[str, Any]) -> None:
        lines = files.last_lines(files.stderr_path(self.info)) if record["status"] else []
        self.record = dict(record, last_lines=lines, duration_s=round(self.child_ended - self.child_started, 3))
        self.command_ended(self.child_ended)

    def stop_child(self, now: float, number: int = signal.SIGTERM) -> None:
        """End the command if it runs."""
        if self.child and not self.child.over:
            self.child.stop(now, self.info.stop_grace_s, number)

    @property
    def idle(self) -> bool:
        """No command runs (any more, or yet), and nothing of it is being uploaded."""
        return (not self.child or self.child.over) and not self.ending
