"""Collect the stacks of the Python processes of all tasks, for `submit_tf_job stacks` and
`stall_timeout`.

The `sitecustomize` of a task (`environment.py`) has Python's faulthandler write the stacks of all
threads into a file of the log directory at a signal. The faulthandler is C code, so it also answers
while no Python code can run. A process gets the signal only while it has that file open and catches
the signal, because the signal would end any other process.
"""

from __future__ import annotations

import collections
import contextlib
import os
import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from submit_tf_job.container import contract, task_files, untrusted
from submit_tf_job.container.child import Process, descendants
from submit_tf_job.container.command import TaskCommand
from submit_tf_job.container.connections import Peers
from submit_tf_job.container.guards import in_thread
from submit_tf_job.container.info import Info
from submit_tf_job.container.rendezvous import failures, states
from submit_tf_job.container.rendezvous.machine import StateMachine

CALM_S = 2.0  # after SIGQUIT: with SIGTERM it is `stop --grace`
WRITING_S = 2.0  # for one process to begin to write
QUIET_S = 0.1  # without more of it, the text is whole
TASK_S, ALL_S = 10.0, 15.0  # for one task, and for all of them
FILE_LIMIT = 4 * 1024 * 1024  # of a task's own file, which then begins anew
ALL_TEXTS, LEAST, MOST = 4000000, 400, 24000  # bytes: of all tasks, and of one (`LINE_LIMIT`)
LISTED = 20
WATCH_S, BUSY = 5.0, 0.05  # how long, and from which part of a core on, a stalled task is at work
UNREAD = {
    "T": "is stopped by a signal such as SIGSTOP; it cannot answer",
    "t": "is stopped by a debugger; it cannot answer",
    "D": "waits in the kernel (state D, mostly for a disk or a network file system)",
}
SILENT = "did not answer signal %d; the program handles it itself, or is only beginning"
DEAF = (
    "does not listen: it began with -I, -E or -S, or with a PYTHONPATH that leaves out this "
    "task's, or closed the file"
)
MUTE = "!"  # the key of what does not answer
HALTED = "!!"  # the key of what cannot answer, by its state (`UNREAD`)
FIRST = {HALTED: 0, MUTE: 1}  # these keys go before those of stacks, in this order
LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python", "<frozen")


def take(info: Info, guard: int, limit: int, watch_s: float) -> dict[str, Any]:
    """Return the stacks of this task's processes, and keep them in its log directory.

    Args:
        guard: The id of the bootstrap's guard process, which is left out.
        limit: The largest number of characters of `text`.
        watch_s: Seconds to measure the CPU time of the processes before the stacks are taken.

    Returns:
        `where`: the place in the program, in a few words; `key`, which is equal for tasks at the
        same place; `text` with the stacks; and `cores`, the CPU time used per second while the
        processes were watched.
    """
    path = task_files.stacks_path(info)
    before = {process.pid: process.cpu_s for process in descendants()} if watch_s else {}
    time.sleep(watch_s)
    found = [process for process in descendants() if process.pid != guard]
    used = sum(process.cpu_s - before.get(process.pid, 0.0) for process in found if watch_s)
    cores = round(used / watch_s, 3) if watch_s else 0.0
    deadline = time.monotonic() + TASK_S
    answers = [_stacks_of_process(path, process, deadline, info.cwd) for process in found]
    answers = [answer for answer in answers if answer[0]]
    if not answers:
        names = ", ".join(f"{p.name} (process {p.pid})" for p in found[:LISTED])
        text = "no Python process runs" + (": " + names if names else "; its command does not run")
        return {"where": text, "key": "none", "text": "", "cores": cores}
    # one that cannot answer says more than the program's main process
    where, key = min((place for _, place in answers), key=lambda place: FIRST.get(place[1], 2))
    text = "\n".join(text for text, _ in answers)
    if len(text) > limit:
        text = text[:limit] + f"\n... (all: {contract.STACKS_FILE} of this task's log)"
    return {"where": where, "key": key, "text": text, "cores": cores}


def _stacks_of_process(
    path: str, process: Process, deadline: float, cwd: str
) -> tuple[str, tuple[str, str]]:
    """Return the stacks of a process, and the place in the program where it is now, with the key of
    that place. If a Python process cannot answer, the reason takes the place of both; "" and ("",
    "") if it does not run Python.
    """
    listens = _can_write_stacks(path, process.pid)
    if not listens and not process.name.startswith("python"):
        return "", ("", "")
    name = f"process {process.pid} ({_command_line(process)})"
    why, text = UNREAD.get(process.state, "" if listens else DEAF), ""
    key = HALTED if process.state in UNREAD else MUTE
    if listens and process.state not in "Tt" and time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):
            text = _request_stacks(path, process, name)
        why = why or SILENT % contract.STACKS_SIGNAL
    if not text:
        return f"{name} {why}", (f"process {process.pid} {why}", key)
    for folder in {cwd, os.path.realpath(cwd)}:  # each task has its own
        text = text.replace(f'"{folder}/', '"')
    threads = text.split("\n\n")[::-1]  # the main thread first
    return "\n".join([name + ":"] + threads), _innermost_frame(threads[0])


def _request_stacks(path: str, process: Process, name: str) -> str:
    """Make a process write its stacks, and return them; "" if it writes none in time.

    Raises:
        OSError: The file cannot be used, or the process has ended.
    """
    handle = task_files.open_regular(path, os.O_WRONLY | os.O_APPEND)
    try:
        if os.fstat(handle).st_size > FILE_LIMIT:
            os.ftruncate(handle, 0)
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        os.write(handle, (f"=== {at} {name}\n").encode("ascii"))
        begin = before = os.fstat(handle).st_size
        os.kill(process.pid, contract.STACKS_SIGNAL)
        until, grew_at = time.monotonic() + WRITING_S, 0.0
        while time.monotonic() < until:
            time.sleep(QUIET_S / 5)
            size, now = os.fstat(handle).st_size, time.monotonic()
            if size > before:
                before, grew_at, until = size, now, max(until, now + 2 * QUIET_S)
            elif grew_at and now > grew_at + QUIET_S:
                break
    finally:
        os.close(handle)
    with open(task_files.open_regular(path), "rb") as source:
        source.seek(begin)
        return source.read(FILE_LIMIT).decode("ascii", "replace").strip()


def _can_write_stacks(path: str, pid: int) -> bool:
    """Return whether a process has the file for stacks open, and catches the signal."""
    folder, path = f"/proc/{pid}/", os.path.realpath(path)
    try:
        with open(folder + "status", errors="replace") as source:  # it has the process's name
            caught = next(line for line in source if line.startswith("SigCgt:"))
        if not int(caught.split()[1], 16) >> (contract.STACKS_SIGNAL - 1) & 1:
            return False
        for name in os.listdir(folder + "fd"):
            with contextlib.suppress(OSError):
                if os.readlink(folder + "fd/" + name) == path:
                    return True
    except (OSError, ValueError, IndexError, StopIteration):
        pass
    return False


def _command_line(process: Process) -> str:
    try:
        with open(f"/proc/{process.pid}/cmdline", "rb") as source:
            words = source.read(200).decode("ascii", "replace").split("\0")
    except OSError:
        words = []
    text = " ".join(words).strip() or process.name
    return "".join(c if " " <= c <= "~" else "?" for c in text)


def _innermost_frame(thread: str) -> tuple[str, str]:
    """Return the innermost frame of the program's own code, or else of all code, and a key made
    from all frames without line numbers.
    """
    frames = [line.strip() for line in thread.split("\n") if line.startswith("  File ")]
    if not frames:
        return "in no Python code", "-"
    own = [frame for frame in frames if not any(part in frame for part in LIBRARIES)]
    file, _, rest = (own or frames)[0][len('File "') :].partition('", line ')
    line, _, function = rest.partition(" in ")
    plain = [frame.partition(", line ")[0] + frame.rpartition(" in ")[2] for frame in frames]
    key = "{:08x}".format(zlib.crc32("\n".join(plain).encode("ascii", "replace")))
    return f"{function} ({os.path.basename(file)}:{line})", key


def take_in_thread(
    command: TaskCommand, limit: int, watch_s: float, taken: Callable[[dict[str, Any]], None]
) -> None:
    """Take the stacks of the task's processes in a thread, then call `taken` with the result of
    `take` in the event loop.

    Args:
        limit: The largest number of characters of the stacks.
        watch_s: For how many seconds the CPU use is measured before; 0 for not at all.
    """
    guard = command.child.guard if command.child else 0

    def run() -> None:
        found = take(command.info, guard, limit, watch_s)
        command.post(lambda: taken(found))

    def failed(err: Exception) -> None:
        # without `cores`: a task whose use is not known is not taken for one that stands still
        found = {"where": f"its stacks cannot be taken: {err!r}"[:300], "key": MUTE, "text": ""}
        command.post(lambda: taken(found))

    in_thread("stacks", run, failed)


class AllStacks:
    """The stacks of all tasks, which the deciding task collects in a file of its log directory."""

    def __init__(self, command: TaskCommand, job: StateMachine, peers: Peers) -> None:
        self.command, self.job, self.peers = command, job, peers
        self.number = 0
        self.until: float | None = None
        self.awaited: set[str] = set()
        self.found: dict[str, dict[str, Any]] = {}
        self.stalls: Mapping[str, Any] | None = job.info.task.get("stall")
        self.judged_at = job.started
        self.judges = False  # they are taken because nothing moves

    def poll(self, now: float) -> bool:
        """Ask for the stacks, if a signal asks for them, or if no task that trains has had news for
        `stall_timeout`. Return True once all tasks have answered, or the time is up: then the
        stacks are written, and a stall is judged.
        """
        signals = self.command.signals
        if signals.asked_at and now >= signals.asked_at + CALM_S:
            signals.asked_at = 0.0
            if not signals.stop() and not self.job.graceful and self.until is None:
                self.begin(now)
        if self.stalls and self.until is None and self.job.phase == states.RUNNING:
            news_at = self.job.news.last(self.job.training())
            if now >= max(self.judged_at, news_at) + self.stalls["after_s"]:
                self.judged_at, self.judges = now, True
                self.begin(now, WATCH_S)
        if self.until is None or (self.awaited and now < self.until):
            return False
        self.until = None
        odd = self._write_all_stacks(now)
        if self.judges:
            self.judges = False
            self._judge_standstill(now, odd)
        return True

    def _judge_standstill(self, now: float, odd: str | None) -> None:
        """Warn of the standstill or let the job fail, unless a task that trains has made progress
        or uses CPU time. `odd` is the task whose stack differs from the others, if any.
        """
        job, stalls = self.job, self.stalls
        names = job.training() if job.phase == states.RUNNING else []
        # one that was cut off when the stacks were asked for may be back
        known = [name for name in names if name in self.found]
        if not known or not stalls or job.news.last(names) > self.judged_at - stalls["after_s"]:
            return
        used = [self.found[name].get("cores", 0.0) for name in known]
        if any(cores is None or cores > BUSY for cores in used):
            return
        name, differs = odd or known[0], " stands elsewhere than the rest" if odd else ""
        text = f"no task that trains printed anything or told a step for {stalls['after_s']:.0f} s "
        text += f"(`stall_timeout`), or used CPU time in {WATCH_S:.0f} s after that; "
        text += f"{name}{differs}: {self.found[name]['where']}"
        if stalls["fail"]:
            failures.stalled(job, now, name, text)
        else:
            job.warn_once(now, text)

    def begin(self, now: float, watch_s: float = 0.0) -> None:
        """Ask all tasks but the witness for their stacks; each first watches its CPU time for
        `watch_s`.
        """
        self.number += 1
        self.until, self.found = now + ALL_S + watch_s, {}
        tasks = self.peers.tasks()
        limit = min(MOST, max(LEAST, ALL_TEXTS // (len(tasks) + 1)))
        self.awaited = {self.job.me.name}.union(member.name for _, member in tasks)
        self.awaited.discard(contract.WITNESS)
        me, number = self.job.me.name, self.number
        take_in_thread(self.command, limit, watch_s, lambda found: self.heard(me, number, found))
        for peer, member in tasks:
            if member.name in self.awaited:
                peer.send("stacks", number=number, limit=limit, watch_s=watch_s)

    def heard(self, name: str, number: Any, message: Mapping[str, Any]) -> None:
        """Keep the answer of a task; ignore a second one, and one to an earlier request."""
        if number == self.number and name in self.awaited:
            self.awaited.discard(name)
            keys = ("where", "key", "text")
            found = {key: untrusted.text(message.get(key), MOST + 100) for key in keys}
            self.found[name] = {**found, "cores": untrusted.number(message.get("cores"))}

    def _write_all_stacks(self, now: float) -> str | None:
        """Write the file with the stacks of all tasks, and keep an event; return the task whose
        stack differs from the stacks of the other tasks, or None.
        """
        job = self.job
        for name in self.awaited:
            text = f"did not answer within {ALL_S:.0f} s; its node or container hangs"
            self.found[name] = {"where": text, "key": MUTE, "text": ""}
        names, odd = order(job, self.found)
        about: dict[str, Any] = {"version": 1, "at": job.info.wall + now, "differs": odd}
        about["tasks"] = [
            {
                "task": name,
                "host": job.members[name].host,
                "where": self.found[name]["where"],
                "text": self.found[name]["text"],
            }
            for name in names
        ]
        many = f"stacks of {len(names)} tasks were" if len(names) > 1 else "stack of one task was"
        said = f"the {many} taken"
        if odd:
            said += f"; {odd} stands elsewhere than the rest: {self.found[odd]['where']}"
        job.event(now, said)
        try:
            if job.info.log_dir:
                path = os.path.join(job.info.log_dir, contract.ALL_STACKS_FILE)
                task_files.write_json(path, about)
        except OSError as err:
            job.event(now, f"the stacks cannot be written: {err}")
        return odd


def order(
    job: StateMachine, found: Mapping[str, Mapping[str, Any]]
) -> tuple[list[str], str | None]:
    """Return the tasks in order, first the task whose stack differs from those of the others; and
    the name of that task, or None.
    """
    keys = {name: found[name]["key"] for name in found}
    trains = [name for name in job.members if job.members[name].role_kind == contract.KIND_TRAINS]
    counts = collections.Counter(keys[name] for name in trains if name in keys)

    def rank(name: str) -> tuple[bool, int, int]:
        return (name not in trains, FIRST.get(keys[name], 2), counts[keys[name]])

    names = sorted((name for name in job.members if name in keys), key=rank)
    first = keys[names[0]]
    differs = len(counts) > 1 and (first in FIRST or counts[first] < max(counts.values()))
    return names, names[0] if differs else None
