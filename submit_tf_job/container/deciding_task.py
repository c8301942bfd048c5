"""The deciding task: receives the messages of all other tasks, drives the job's state machine, and
sends its decisions.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any

from submit_tf_job.container import contract, untrusted
from submit_tf_job.container.command import TaskCommand
from submit_tf_job.container.connections import Peer, Peers
from submit_tf_job.container.deciding_address import PlaceWatch, finder
from submit_tf_job.container.dns_client import Resolver
from submit_tf_job.container.guards import in_thread
from submit_tf_job.container.info import BootstrapProblem, Info, exit_status, log
from submit_tf_job.container.job_end import JobEnd
from submit_tf_job.container.job_report import Writer
from submit_tf_job.container.loop import FLUSH_S, SILENCE, TICK_S, Loop
from submit_tf_job.container.rendezvous import states
from submit_tf_job.container.rendezvous.machine import StateMachine
from submit_tf_job.container.rendezvous.members import Member, listed
from submit_tf_job.container.stacks import AllStacks
from submit_tf_job.container.wire import ChannelClosed, pack, pack_addresses

LOOKUP_S = 0.5  # between two rounds of DNS queries
LIFETIME_READ_AFTER_S = 1.0  # when the job's lifetime ends; a start does not wait for that
LIFETIME_AGAIN_S = 60.0  # after a failure
UNWATCHED = "the tasks are not told when the job's `lifetime` is nearly over"
SUSPENDED_S = 2 * TICK_S  # a longer turn means that this task may have been suspended


class DecidingTask:
    """Leads the deciding task, which is the task with index 0 in the role that decides."""

    def __init__(self, info: Info, loop: Loop, command: TaskCommand) -> None:
        self.info, self.loop, self.command = info, loop, command
        command.ended, command.renewed, command.warn = self.ended, self.renewed, self.warn
        self.job = StateMachine(info, info.started, log)
        self.writer = Writer(self.job)
        self.peers = Peers(
            info, loop, self._handle_message, self._connection_closed, self._log_once
        )
        self.end = JobEnd(loop, command, self.job, self.peers, self.writer)
        self.stopped = self.end.stopped
        self.resolver = Resolver(info, loop.post)
        self.found: dict[str, str] = {}  # the addresses that DNS has returned, by task
        self.looked_up = 0.0
        # finds this task as the others do
        resolver = finder(info, loop.post) if info.by_place else self.resolver
        self.place = PlaceWatch(resolver, SILENCE * info.ping_s, seen=False)
        self.stacks: AllStacks | None = None  # once somebody has asked for them
        self.announced = ""  # where the others find this task without DNS
        self.logged: set[str] = set()
        self.stage = self.job.stage
        self.changed = True
        self.checked = 0.0
        self.lifetime_due: float | None = None  # when to begin to watch the job's lifetime
        self.ticked: float | None = None
        self.told = info.started
        self.go = pack("go", hosts=pack_addresses([], {}), ports={})

    def open(self) -> None:
        """Listen for the other tasks, if the job has any, and publish this task's address. Start to
        watch the job's lifetime, if the job has a record on HDFS.

        Raises:
            BootstrapProblem: All ports of the rendezvous are in use.
        """
        try:
            if self.info.total > 1:
                self.peers.listen()
                self.command.nofile = self.peers.nofile
        finally:  # without the address the others would wait for one that cannot listen
            if self.info.task.get("meeting"):
                self._announce_address()
        if self.info.task.get("record"):
            self.lifetime_due = self.info.started + LIFETIME_READ_AFTER_S

    def prepared(self) -> None:
        """Take over the connections that other tasks have made while this task prepared itself, and
        accept further ones in the event loop.
        """
        self.peers.take_over()

    def _watch_lifetime(self) -> None:
        """Watch the job's lifetime in a thread.

        Here, and not in the thread, its module is imported: to Python before 3.10, one of a zip
        that another thread still imports is complete.
        """
        from submit_tf_job.container import lifetime  # imports an HTTP client

        self.lifetime_due = None
        in_thread(
            "lifetime",
            lambda: lifetime.watch(self.info, self._lifetime_ends),
            self._lifetime_unwatched,
        )

    def _lifetime_unwatched(self, err: Exception) -> None:
        self.loop.post(lambda: self.warn(f"{UNWATCHED}: {err!r}"))

    def _lifetime_ends(self, until: float) -> None:
        """Have all tasks save and end, because the job's lifetime is nearly over: YARN will have
        ended the job by `until` (monotonic). Do nothing if the job is ending already. This is
        called in a thread.
        """

        def end() -> None:
            if not self.loop.signals.stop() and self.job.phase != states.ENDING:
                self.job.event(time.monotonic(), contract.EVENT_LIFETIME_SAVES)
                self.loop.signals.stop_from_inside(until)

        self.loop.post(end)

    def _announce_address(self) -> None:
        """Write this task's address to the meeting place, in a thread, for tasks that cannot find
        it by DNS. In a job of one task the address is only stored here.
        """
        from submit_tf_job.container import meeting_place

        me = self.job.me
        self.announced = me.address = me.origin = meeting_place.own_address(self.info)
        if self.info.total == 1:
            return

        def failed(text: str, given_up: bool) -> None:
            self.loop.post(lambda: self._address_not_written(text, given_up))

        in_thread(
            "announce",
            lambda: meeting_place.announce(self.info, me.address, failed),
            lambda err: failed(meeting_place.NOT_WRITTEN % repr(err), True),
        )

    def _address_not_written(self, text: str, given_up: bool) -> None:
        """Warn that the address could not be written. If it is `given_up`, and the other tasks can
        find this one only by the meeting place, fail the command instead, unless it has already
        started.
        """
        command = self.command
        if given_up and self.info.by_place and not command.child and not command.record:
            command.fail(BootstrapProblem(text))
        else:
            self.job.warn_once(time.monotonic(), text)
            self.changed = True

    def _log_once(self, text: str) -> None:
        if text not in self.logged and len(self.logged) < 20:
            self.logged.add(text)
            self.job.event(time.monotonic(), text)

    def warn(self, text: str, about: str = "") -> None:
        """Add a warning to the report; it replaces an earlier warning with the same subject
        `about`, and the text "" only removes that.
        """
        self.job.warn(time.monotonic(), text, about and f"{self.info.name} {about}")
        self.changed = True

    # --- what the others say ----------------------------------------------------------------------
    def _connection_closed(self, peer: Peer, ended: bool, silent_s: float) -> None:
        now, member = time.monotonic(), peer.member
        self.changed = True
        if member is None:
            return
        if ended:
            self.end.told(now - FLUSH_S, member)
        self._look_for_stillness(now)
        self.job.connection_lost(now, member, ended and not peer.away, silent_s, peer.away)

    def _handle_message(self, peer: Peer, message: Mapping[str, Any]) -> None:
        now, kind, member = peer.heard, message["t"], peer.member
        self._look_for_stillness(now)
        if member is None or kind == "hello":
            if member is not None or kind != "hello":
                raise ChannelClosed("not a hello")
            self._handle_hello(now, peer, message)
        elif kind == "ping":
            if "probe" not in message:
                self.job.news.heard(now - untrusted.seconds(message.get("quiet")), member.name)
            self.job.usage.heard(member.name, message.get("use"))
            self.peers.pong(peer, message)
        elif kind == "stopping":
            member.stopping = True
        elif kind == "away":
            peer.away = True
        elif kind == "stacks":
            if self.stacks:
                self.stacks.heard(member.name, message.get("number"), message)
        else:
            self._handle_news(now, peer, member, message)

    def _handle_news(
        self, now: float, peer: Peer, member: Member, message: Mapping[str, Any]
    ) -> None:
        """Handle a message that changes the report."""
        kind, self.changed = message["t"], True
        if kind == "progress":
            self._keep_progress(now, member, message.get("data"))
        elif kind == "warn":
            text, about = (untrusted.text(message.get(key), 1000) for key in ("text", "about"))
            text = text if member.name in text or not text else f"{member.name}: {text}"
            self.job.warn(now, text, about and f"{member.name} {about[:100]}")
        elif kind == "running":
            self.job.running(member)
        elif kind == "ready" and message.get("generation") == self.job.generation:
            served = untrusted.ports(message.get("ports"))
            self.job.ready(member, untrusted.port(message.get("port")), served)
            if member.state == states.ARRIVED:
                self._may_go(peer, member)
        elif kind == "done":
            self.job.usage.heard(member.name, message.get("use"))
            self.job.done(now, member, dict(message, ago=peer.age(now, message)))
            peer.send("noted", **({"stay": True} if self.end.hold.may_be(member) else {}))

    def _handle_hello(self, now: float, peer: Peer, message: Mapping[str, Any]) -> None:
        job = self.job
        member, reply = job.hello(now, message, peer, peer.ends)
        self.changed = True
        if reply == "bad":
            raise ChannelClosed("a hello that makes no sense")
        if reply == "wrong-job":
            self._log_once(f"a task of another job called, from {peer.origin}")
        if member is None or reply != "welcome":
            peer.send(reply, status=job.leave_status(member) if member else 0, why=job.why)
            if member:
                self.end.told(now, member)
            return  # the peer closes; otherwise `check_silence` drops it
        self.peers.identify(peer, member)
        known = {"attempt": member.attempt, "process": job.me.process}
        peer.send("welcome", **known, **self.history())
        peer.told[0] = time.monotonic()
        if self.peers.probed:
            self.peers.ping(peer)
            settle_s = self.info.settle_s
            until = min(now + settle_s, self.peers.probed_at + 3 * settle_s)
            job.settle_until = max(job.settle_until, until)
        waits = message.get("state") == "waiting"
        again = member.state == states.ABSENT or (member.state == states.LEFT_OUT and not waits)
        if job.graceful:
            self.end.ask_to_save(peer, member)
        elif job.stays(member) and again:
            peer.send("again", **self.history())
        elif waits and member.state not in (*states.OUT, states.LEFT_OUT):
            self._may_go(peer, member)

    def _may_go(self, peer: Peer, member: Member) -> None:
        """Tell a waiting task to start its command, if the other tasks have started theirs, or if
        it is a sidecar; unless its role has to wait for other roles.
        """
        runs = self.job.phase in (states.RUNNING, states.FINISHING)
        if (runs or member.is_sidecar) and member.role not in self.job.held:
            peer.send_packed(self.go)

    # --- generations ------------------------------------------------------------------------------
    def history(self) -> dict[str, Any]:
        """Return the field `history` of a message: the facts about generations that every task
        remembers, in case YARN replaces the deciding task. {} in a job without `retries`.
        """
        if not self.job.retries:
            return {}
        me = self.job.me.name
        history = {
            "container": self.info.container,
            "host": self.info.node,
            "attempt": self.job.me.attempt,
            "generation": self.job.generation,
            "past": self.job.generations.past,
            "resized": self.job.generations.resized,
            "left_out": self.job.left_out(),
            "prepared": not self.job.unprepared,
            "trained": self.job.me.state == states.SUCCEEDED,
            "stored": [place for place, tasks in sorted(self.job.stored.items()) if me in tasks],
        }
        return {"history": history}

    def _send_history(self, all_tasks: bool = False) -> None:
        """Send the facts of `history` to the sidecars, of which the witness may be the only other
        task; with `all_tasks`, to all tasks. Do nothing in a job without `retries`.
        """
        for peer, member in self.peers.tasks() if self.job.retries else ():
            if all_tasks or not self.job.stays(member):
                peer.send("past", **self.history())

    def _call_generation(self, now: float) -> None:
        """Have all tasks but the sidecars end their commands, and get ready for the next
        generation.
        """
        self.peers.probed = False
        for peer, member in self.peers.tasks():
            peer.send("again" if self.job.stays(member) else "past", **self.history())
        self.command.renew(now, self.job.generation)

    def renewed(self) -> None:
        """Note that this task is ready for the next generation; end the task if it could not be
        prepared.
        """
        if self.command.problem:
            self.loop.exit = exit_status(self.command.problem.status)
            return
        self.job.ready(self.job.me, self.command.port)
        self.changed = True

    def _own_address(self) -> str:
        """Return the address at which the other tasks have found this one; "" if that is
        unknown.
        """
        return self.announced if self.info.by_place else self.job.me.address

    def _task_moved(self, _address: str) -> None:
        """Note that YARN has started this task again in another container, if this one waits for
        the other tasks in a generation after the first.

        After a network partition the other tasks may never connect to this container again, so they
        send no message that would tell it.
        """
        self.job.superseded = self.job.phase == states.WAITING and self.job.generation > 0

    # --- what the loop calls ----------------------------------------------------------------------
    def tick(self, now: float) -> bool:
        """Do the periodic work that is due; leave if YARN has started this task again in a later
        container. Return whether the next call is due in less than a second.
        """
        job = self.job
        self.peers.waited()
        if self.lifetime_due is not None and now >= self.lifetime_due:
            self.lifetime_due = now + LIFETIME_AGAIN_S  # unless that succeeds
            self.command.observers.run(UNWATCHED, self._watch_lifetime)
        if job.retries:
            self.place.check(now, self._own_address, self._task_moved)
        if job.superseded:
            log(f"YARN has started a later container of {self.info.name}; this one leaves")
            self.loop.exit = contract.EXIT_DECIDING_LOST
            return False
        self._listen_to_others(now)
        job.tick(now, self.peers.read_until)
        if self.stage != job.stage:
            self.stage = job.stage
            self._enter_phase(now, job.phase)
        if job.graceful:
            self.changed |= self.end.save(now)
        if job.phase == states.ENDING and self.end.may_leave(now):
            self.end.leave(now)
            return False
        if self.stacks or self.loop.signals.asked_at or "stall" in self.info.task:
            observe = self.command.observers.run
            observe("stacks cannot be taken", self._look_for_stacks, now)
        if job.held:
            self._release_roles(job.released(now))
        self.changed = not self.writer.write(now, self.changed, self.end.saved) and self.changed
        late = not job.absent or now >= job.start_deadline
        if job.kept:
            return False  # for as long as nobody ends it
        soon = job.phase == states.ENDING or bool(job.failures or job.away)
        return soon or (job.phase == states.WAITING and late)

    def _look_for_stacks(self, now: float) -> None:
        from submit_tf_job.container import stacks  # few jobs need it

        self.stacks = self.stacks or stacks.AllStacks(self.command, self.job, self.peers)
        self.changed |= self.stacks.poll(now)

    def _listen_to_others(self, now: float) -> None:
        """Close silent connections and take this task's own progress and resource usage, once a
        second. While the start is awaited, also look up names in DNS; after a failure, ping all
        tasks.
        """
        job = self.job
        self._look_for_stillness(now)
        if now >= self.checked + 1.0:
            self.checked = now
            self.peers.check_silence()
            self._own_progress(now)
            job.news.heard(self.command.stamps.grew_at, self.info.name)
            job.usage.heard(self.info.name, self.command.usage.take(now, 0.0))
        if job.phase == states.WAITING and not job.failures:
            self._look_up(now)
        if job.failures and job.phase != states.ENDING:
            self.peers.ping_all(now, job.settle_until)
        if job.phase == states.WAITING and job.barrier > 1 and now >= self.told + 30:
            self.told, missing = now, job.missing()
            names = listed(missing)
            log(f"waiting for {len(missing)} of {job.barrier} tasks: {names}")

    def _look_up(self, now: float) -> None:
        """Look up in DNS the names that the start waits for, because programs need them. Do nothing
        if tasks find each other by the meeting place, or if a look-up is in progress.
        """
        if self.info.by_place or self.resolver.busy or now < self.looked_up + LOOKUP_S:
            return
        self.looked_up = now
        tasks = {self.info.host(name): name for name in self.job.without_dns_name(now)}

        def found(host: str, address: str | None) -> None:
            name = tasks[host]
            if not address or self.job.is_stale(name, address):
                return
            self.found[name] = address
            if self.job.phase == states.WAITING:  # else the programs have an address instead
                self.job.unresolved.discard(name)
                self.changed = True

        self.resolver.start(list(tasks), found)

    def _look_for_stillness(self, now: float) -> None:
        """Do not count the time in which this task was suspended as silence of another task."""
        since, self.ticked = self.ticked, now
        if since is None or now <= since + SUSPENDED_S or self.info.total == 1:
            return
        seconds = now - since
        self.peers.heard_late(now, seconds)
        self.job.exclude_suspension(now, seconds)
        if seconds > SILENCE * self.info.ping_s:
            self.job.record_suspension(now, seconds)

    def _own_progress(self, now: float) -> None:
        fresh = self.command.new_progress()
        if fresh:
            self._keep_progress(now, self.job.me, fresh)
            self.changed = True

    def _keep_progress(self, now: float, member: Member, told: Any) -> None:
        observe = self.command.observers.run
        observe("progress cannot be kept", self.job.record_progress, now, member, told)

    # --- the commands -----------------------------------------------------------------------------
    def _enter_phase(self, now: float, phase: str) -> None:
        job = self.job
        if job.me.state in states.OUT:  # the training is over, perhaps under a former task
            self.command.next_generation = job.generation
        if job.generation != self.command.next_generation:
            self._call_generation(now)
        if phase == states.RUNNING:
            self._start_commands()
        elif phase == states.PREPARING:
            self._start_prepare()
        elif phase == states.ENDING:
            self.end.begin(now)

    def _start_prepare(self) -> None:
        self.command.preparing = True
        try:
            self.command.run("preparing", self.info.task["prepare"])
        except BootstrapProblem as problem:
            self.command.fail(problem)

    def _start_commands(self) -> None:
        """Tell the tasks to start their commands, and start this task's own command; the roles in
        `job.held` must wait for other roles.
        """
        job = self.job
        self.info.leave_out(job.left_out())
        job.me.port = self.command.port or job.me.port
        hosts, taken = job.hosts(self.found), job.ports()
        self.command.learn(hosts, taken)
        packed = pack_addresses(self.info.addressed_tasks(), hosts)
        self.go = pack("go", hosts=packed, ports=taken, **self.history())
        self.info.attempt = job.me.attempt
        self._release_roles({member.role for member in job.cluster} - job.held)
        self._send_history()
        if self.info.task.get("checkpoints"):
            self._watch_checkpoints()

    def _watch_checkpoints(self) -> None:
        from submit_tf_job.container import checkpoints  # few jobs need it

        observe = self.command.observers.run

        def found(what: dict[str, Any]) -> None:
            observe(unknown, checkpoints.store_result, self.job, time.monotonic(), what)
            self.changed = True

        unknown = "the newest checkpoint is not known"
        watching = checkpoints.CheckpointWatch(self.job, self.command.env, self.loop, found)
        in_thread(
            "checkpoints",
            watching.run,
            lambda err: self.loop.post(lambda: self.warn(f"{unknown}: {err!r}")),
        )

    def _release_roles(self, roles: Collection[str]) -> None:
        """Tell the tasks of some roles to start their commands; start this task's own command, if
        its role is among them.
        """
        for peer, member in self.peers.tasks():
            if member.role in roles and member.state != states.LEFT_OUT:
                peer.send_packed(self.go)
        command, me = self.command, self.job.me
        idle = not (command.record or command.child)
        if idle and me.role in roles and me.state not in states.OUT:
            command.start()
            if command.child:
                self.job.running(me)

    def ended(self, now: float) -> None:
        """Report the end of the command to the state machine. If the command was `prepare` and
        succeeded, the job starts instead.
        """
        job, record = self.job, self.command.record or {}
        self._look_for_stillness(time.monotonic())
        self.changed = True
        command = self.command
        if not command.preparing:
            self._own_progress(now)
        elif record["status"] == 0 and command.child:
            command.forget()
            command.record, command.preparing = None, False
            job.prepared(now)
            return
        elif record["reason"] != "ended":  # not by the job
            text = f"prepare of the job failed: {record['message']}"
            command.record = dict(record, reason=contract.REASON_PREPARE, message=text)
        command.preparing = False
        job.usage.heard(self.info.name, command.usage.take(now, 0.0))
        job.done(now, job.me, command.done_message())
        if job.me.state == states.SUCCEEDED:  # in case this container is lost
            self._send_history(all_tasks=True)

    # --- the end ----------------------------------------------------------------------------------
    def broken(self, now: float, problem: BootstrapProblem) -> int:
        """End the job because of `problem`, an exception of this task's event loop: tell the other
        tasks and write the report. A job that is ending already keeps its verdict. Return the exit
        status.

        With `retries`, do nothing of this while the job lives: YARN starts this task again, and it
        calls the next generation.
        """
        if self.job.retries and self.job.phase != states.ENDING:
            log(problem.message)
            return problem.status
        self.end.broken(now, problem)
        status: int = problem.status if self.loop.exit is None else self.loop.exit
        return status

    def outcome(self) -> tuple[dict[str, Any], dict[str, Any] | None, bytes]:
        """Return the fields of the outcome line (the job's verdict, the first failed task), the
        last report, and the tasks' resource usage for the run's record.
        """
        task = self.job.first["task"] if self.job.first else None
        return (
            {"job": self.job.verdict, "first_failure": task},
            self.writer.last,
            self.writer.usage.record(),
        )
