"""The leader of every task except the deciding one: it waits for the start, and reports its end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from submit_tf_job.container import contract, untrusted
from submit_tf_job.container.caller import ANSWER_S, Caller
from submit_tf_job.container.command import TaskCommand
from submit_tf_job.container.info import (
    BootstrapProblem,
    Info,
    exit_status,
    log,
    log_hold,
    signal_name,
)
from submit_tf_job.container.loop import Loop
from submit_tf_job.container.wire import ChannelClosed, unpack_addresses

# A deciding task listens and answers within seconds of its start, before all that takes long. One
# whose address is known, and that has answered at no port of it for so long, has ended before, or
# could not listen.
UNHEARD_S = 50.0
REPORT_S = 1.0  # to report the end of the command when the job is over


class OtherTask:
    """Leads a task that obeys the deciding task's messages."""

    def __init__(self, info: Info, loop: Loop, command: TaskCommand) -> None:
        self.info, self.loop, self.command = info, loop, command
        command.ended, command.renewed, command.warn = self.ended, self.renewed, self.warn
        self.caller = Caller(info, loop, self._hello_message, self._handle_message)
        self.seen: str | None = None  # the process of the deciding task that last welcomed this one
        self.progress_s = max(1.0, info.total / 100.0)
        self.pinged = self.sent = 0.0
        start = float(info.task["start_timeout_s"])
        self.unheard_s = max(float(info.task.get("unheard_s", UNHEARD_S)), info.task["grace_s"])
        self.start_deadline = info.started + start + min(30.0, start / 2)
        # the exit status, once it is decided
        self.leave: int | None = None
        self.leave_by: float | None = None
        self.told_done = self.noted = False
        self.stay = False  # the job may hold this container: its end says whether it does
        self.hold_until = 0.0
        self.patient = False
        self.calls = 0  # how many connections this process has made
        self.news: dict[str, Any] | None = None
        # whether this task starts again with the others: sidecars do not, but remember, too
        self.retried = bool(info.task.get("retries"))
        self.stays = self.retried and not info.may_grow(info.role)
        # what a later container of the deciding task has to learn, as this one told last
        self.history: dict[str, Any] = {"generation": 0}
        self.gave_up: int | None = None  # the generation whose command was ended without being told

    def open(self) -> None:
        """Do nothing: no task connects to this one."""

    def prepared(self) -> None:
        """Do nothing: no task connects to this one."""

    def outcome(self) -> tuple[dict[str, Any], None, bytes]:
        """Return nothing for the outcome line, the report and the usage: only the deciding task
        writes these.
        """
        return {}, None, b""

    def warn(self, text: str, about: str = "") -> None:
        """Log a warning, and send it to the deciding task for the report if there is a connection.
        With `about`, it replaces an earlier warning about the same subject; "" removes that.
        """
        if text:
            log(text)
        if self.caller.welcomed:
            self.caller.send("warn", text=text[:1000], about=about)

    # --- messages ---------------------------------------------------------------------------------
    def _hello_message(self, address: str) -> dict[str, Any]:
        """Return the fields of the first message on a connection. They contain everything that a
        deciding task may not know because it is in a new container or was suspended.
        """
        info, command, now = self.info, self.command, time.monotonic()
        self.told_done = False
        self.calls += 1
        hello = {
            "run": info.run,
            "role": info.role,
            "index": info.index,
            "attempt": info.attempt,
            "process": info.process,
            "call": self.calls,
            "state": "done" if command.record else "running" if command.child else "waiting",
            "host": info.node,
            "address": address,
            "port": command.port,
            "container": info.container,
            "age_s": round(now - info.started, 3),
            "search_s": round(now - (self.caller.begun or now), 3),
            "seen": self.seen,
            "ignored_image": info.ignored_image,
            "gpus": info.gpus,
            "ports": info.served,
            "warnings": info.warnings,
        }
        known = {"history": self.history, "gave_up": self.gave_up} if self.retried else {}
        return dict(hello, **known)

    def _handle_message(self, now: float, message: Mapping[str, Any]) -> None:
        kind, status = message["t"], untrusted.whole(message.get("status"))
        history = message.get("history")
        if isinstance(history, dict) and untrusted.whole(history.get("generation")) is not None:
            self.history = history
        if kind == "welcome":
            attempt = untrusted.whole(message.get("attempt"))
            self.info.attempt, self.seen = attempt or 0, untrusted.text(message.get("process"), 255)
            if not self.command.child and not self.command.record:
                log(f"registered with {self.info.deciding}; waiting for the start signal")
        elif kind == "again" and self.leave is None:
            self.command.renew(now, self.history["generation"])
        elif kind == "go" and not self.command.child:
            self._start_command(message)
        elif kind == "ping":
            self.caller.send("ping", probe=message.get("probe"))
        elif kind == "noted":
            self.noted, self.stay = True, message.get("stay") is True
        elif kind in ("end", "finished") and status is not None:
            self._told_end(now, message, status)
        elif kind == "stacks":
            self.command.observers.run("stacks cannot be taken", self._take_stacks, message)
        elif kind == "grace" and self.command.child:
            self.command.child.spare(now + untrusted.seconds(message.get("grace_s")))

    def _told_end(self, now: float, message: Mapping[str, Any], status: int) -> None:
        if self.leave is None and not self.command.record:
            why = untrusted.text(message.get("why"), 500)
            log(f"stopping: {why or 'this task has ended before'}")
        self.loop.final = True
        hold_s = untrusted.seconds(message.get("hold_s"))
        self.hold_until = now + hold_s
        if hold_s:
            log_hold(self.info, hold_s)
        if "grace_s" in message:
            self.command.stop_grace_s = untrusted.seconds(message["grace_s"])
            self.command.saves = True
            self.command.warn_unstored()
        self._leave_with(now, status)

    def _take_stacks(self, message: Mapping[str, Any]) -> None:
        from submit_tf_job.container import stacks

        number, limit = (untrusted.whole(message.get(key)) or 0 for key in ("number", "limit"))
        watch_s = min(untrusted.seconds(message.get("watch_s")), stacks.ALL_S)
        send = self.caller.send
        stacks.take_in_thread(
            self.command, limit, watch_s, lambda found: send("stacks", number=number, **found)
        )

    def _start_command(self, message: Mapping[str, Any]) -> None:
        command = self.command
        command.generation = self.history["generation"]
        # a sidecar may start before the tasks are counted
        self.info.leave_out(self._left_out(message))
        if command.record or self.leave is not None:
            return
        self.gave_up = None
        hosts = unpack_addresses(self.info.addressed_tasks(), message["hosts"])
        command.learn(hosts, untrusted.ports(message.get("ports"), None))
        if not command.record:
            command.start()
        if command.child:
            self.caller.send("running")

    def _left_out(self, message: Mapping[str, Any]) -> dict[str, list[int]]:
        """Return, by role, the indexes of the tasks that are not part of this generation.

        Raises:
            ChannelClosed: The message names this task, or a role that does not exist.
        """
        history = message.get("history")
        found = history.get("left_out") if isinstance(history, dict) else None
        known = found if isinstance(found, dict) else {}
        me, counts = self.info, self.info.counts
        if not set(known) <= set(counts) or me.index in known.get(me.role, ()):
            raise ChannelClosed("a start without this task")
        return known

    # --- what the loop calls ----------------------------------------------------------------------
    def tick(self, now: float) -> bool:
        """Do the periodic work that is due; return whether the next call is due in less than a
        second.
        """
        self._poll_progress()
        self._report_end(now)
        self._check_end(now)
        if self.loop.exit is not None:
            return False
        if self.retried:
            self.caller.look_elsewhere(now)
        self.caller.tick(now)
        ends = self.command.renewing if self.stays else bool(self.command.record)
        return ends or self.leave is not None or not self.caller.is_calling

    def _poll_progress(self) -> None:
        self.news = self.command.new_progress() or self.news

    def _report_end(self, now: float) -> None:
        command, caller = self.command, self.caller
        if not caller.welcomed:
            return
        if command.record and not self.told_done and not command.renewing:
            self.told_done = True
            if self.news:
                caller.send("progress", data=self.news)
            ended = command.ended_at
            caller.send(
                "done",
                ago=now - ended,
                after=ended - caller.pong_at,
                number=caller.pong,
                **command.done_message(),
                **self._use_for_message(now),
            )
        elif now >= self.pinged + self.info.ping_s:
            self.pinged = now
            quiet = int(now - command.stamps.grew_at)
            silent = {"quiet": quiet} if quiet > self.info.ping_s else {}
            caller.send("ping", **silent, **self._use_for_message(now))
        if self.news and now >= self.sent + self.progress_s:
            self.sent, news, self.news = now, self.news, None
            caller.send("progress", data=news)

    def _use_for_message(self, now: float) -> dict[str, Any]:
        """Return the resource usage of the command as a field of a message. It is {} most of the
        time, so that the deciding task gets at most about a hundred of these a second, even from
        thousands of tasks.
        """
        found = self.command.usage.take(now, self.info.total / 100.0)
        return {"use": found} if found else {}

    def ended(self, now: float) -> None:
        """Report the end of the command to the deciding task, now or after the next connection is
        made.
        """
        self._poll_progress()
        self._report_end(now)

    def renewed(self) -> None:
        """Tell the deciding task that the next command may start, at once or with the next hello.
        End this task if it could not be prepared.
        """
        command = self.command
        if command.problem:
            self.loop.exit = exit_status(command.problem.status)
            return
        self.told_done = self.noted = False
        if self.caller.welcomed:
            self.caller.send(
                "ready", generation=command.generation, port=command.port, ports=self.info.served
            )

    # --- the end ----------------------------------------------------------------------------------
    def _check_end(self, now: float) -> None:
        if self.leave is not None or (self.command.record and not self.stays):
            self._try_to_leave(now)
        elif self.caller.welcomed:
            return
        elif self.retried:
            self._await_deciding(now)
        else:
            self._check_deadlines(now)

    def _await_deciding(self, now: float) -> None:
        """Wait for the deciding task, which YARN may start again in another container.

        If it does not come within `grace`, a task that keeps its container ends its command,
        because the next generation starts the command again. A deciding task that was only
        suspended calls that generation when this task reports the end of its command. After
        `start_timeout` this task ends.
        """
        task, command, lost_at = self.info.task, self.command, self.caller.lost_at
        runs = command.child and not (command.renewing or command.record or command.ending)
        if self.stays and runs and now >= lost_at + task["grace_s"]:
            self.gave_up = command.generation
            self.caller.drop()  # a hello that is under way does not say it
            command.renew(now, command.generation)
        # one whose node was given up and lives on; YARN has no third container when it ends
        waits_since = max(lost_at, self.caller.taken_at)
        if now >= max(self.start_deadline, waits_since + task["start_timeout_s"]):
            log(f"{self.info.deciding} was not found in time: {self.caller.trouble}")
            # YARN would start a task that stays again after any other status; the witness tells
            # YARN
            self._leave_with(now, 0 if self.stays else contract.EXIT_PEERS_MISSING)

    def _check_deadlines(self, now: float) -> None:
        """End a task that cannot continue without its deciding task."""
        grace_s, deciding = self.info.task["grace_s"], self.info.deciding
        given_up = now >= self.caller.lost_at + grace_s
        if self.command.child:
            has_ended = self._has_ended(now)
            if has_ended:
                text = "%s has ended, and YARN does not start it again; this task ends, too"
                log(text % deciding)
            elif given_up:
                text = "%s did not come back within %d s (`grace`); this task cannot determine "
                log((text + "whether it is suspended or dead") % (deciding, grace_s))
            if has_ended or given_up:
                self._leave_with(now, contract.EXIT_DECIDING_LOST)
        elif self.seen is None and self.caller.unheard_s(now) >= self.unheard_s:
            unheard_s = self.caller.unheard_s(now)
            text = (
                f"{deciding} has ended, or could not start: for {unheard_s:.0f} s it has answered "
            )
            text += f"at none of its ports. {self.caller.trouble}"
            self._give_up(text, "wrong-job" if self.caller.wrong_job else "peers-missing")
        elif now >= self.start_deadline and (not self.seen or given_up):
            text = f"{deciding} was not found in time: {self.caller.trouble}"
            self._give_up(text, "wrong-job" if self.caller.wrong_job else "peers-missing")

    def _give_up(self, text: str, reason: str) -> None:
        """End this task, whose command has not started."""
        problem = BootstrapProblem(text, reason)
        self.loop.exit = problem.status
        self.command.fail(problem)

    def _has_ended(self, now: float) -> bool:
        """Return whether this task was connected to the deciding task, and that task has ended for
        good: its ports are closed, and YARN will not start it again.
        """
        gone = self.seen is not None and self.caller.is_deaf and not self.retried
        return gone and now >= self.caller.lost_at + contract.CLOSED_S

    def _leave_with(self, now: float, status: int) -> None:
        """Stop the command, and then end this task with the exit status `status`."""
        if self.leave is None:
            self.leave = status
            self.caller.leaving = True
            self.command.end_requested = True
            self.command.stop(now)

    def _try_to_leave(self, now: float) -> None:
        record = self.command.record
        if not self.command.idle or self._is_held(now):
            return
        if self.leave_by is None:
            wait_s = REPORT_S
            # the deciding task must receive this end: it may be about to start (again)
            if self.leave is None:
                wait_s = float(self.info.task["grace_s"])
                if self.seen is None:
                    wait_s = max(wait_s, self.start_deadline - now)
            self.leave_by = now + wait_s
        reachable = self.caller.welcomed or (self.leave is None and not self._has_ended(now))
        unheard = bool(record) and not self.noted and reachable
        if unheard and (now < self.leave_by or self._is_suspended(now)):
            return
        self.loop.exit = self.leave
        if self.leave is None and record:
            role = self.info.role
            most = self.info.roles[role]["max_restarts"]
            self.loop.final = not record["status"] or self.info.attempt >= most
            # to Hadoop 3.1 and 3.2 a service has failed if any container has
            sidecar = self.info.may_grow(role) and role != contract.WITNESS_ROLE
            forgiven = sidecar and self.loop.final
            self.loop.exit = 0 if forgiven else exit_status(record["status"])

    def broken(self, now: float, problem: BootstrapProblem) -> int:
        """End this task because of `problem`, an exception of its event loop: tell the deciding
        task, unless the command has ended before. Return the exit status.

        With `retries`, a task that starts again with the others tells nothing: the loss of its
        container calls the next generation.
        """
        command = self.command
        if self.leave is None and self.stays:
            log(problem.message)
            return problem.status
        if not command.record:
            command.fail(problem)
        self._report_end(now)
        if self.leave is not None:
            return self.leave
        return exit_status(command.record["status"] if command.record else problem.status)

    def _is_held(self, now: float) -> bool:
        """Return whether the job holds this container, or may do so (`hold_on_failure`)."""
        if self.loop.signals.stop():
            return False
        return now < self.hold_until or (self.stay and self.leave is None and self.caller.welcomed)

    def _is_suspended(self, now: float) -> bool:
        """Return whether the deciding task is probably suspended: it accepts connections, but does
        not respond.

        When a suspended deciding task continues, it should still learn of the end of this command.
        """
        limit_s = float(self.info.task["finish_timeout_s"])
        late = now >= self.command.ended_at + limit_s or now >= self.caller.accepted + 2 * ANSWER_S
        if self.leave is not None or self.seen is None or late:
            return False
        if not self.patient:
            self.patient = True
            text = "%s takes connections and does not answer; waiting up to %d s to report the end"
            log(text % (self.info.deciding, limit_s))
        return True

    def stopped(self, now: float) -> None:
        """End this task because YARN stops it: tell the deciding task, and wait for the end of the
        command, which has got the signal already and gets SIGKILL after `stop_grace`.

        YARN sends SIGKILL 250 ms after its signal, so the message may not arrive.
        """
        number, command = self.loop.signals.stop(), self.command
        log(f"stopped by {signal_name(number)}")
        if self.caller.welcomed:
            self.caller.send("stopping")
        if self.leave is None:
            self.leave = exit_status(command.record["status"]) if command.record else 128 + number
            self.caller.leaving = True
        command.stop(now, 0)
        if not command.child and not command.record:
            command.ended_at = command.started_at = now
            command.was_stopped(number)
