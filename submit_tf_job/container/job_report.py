"""The job's report: one JSON file in the log directory of the deciding task's container.

The last report is also written beside the run's record on HDFS, and is still there after YARN has
forgotten the run and the logs are deleted.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from submit_tf_job.container import contract, task_files
from submit_tf_job.container.guards import Observers, in_thread
from submit_tf_job.container.info import Info, log
from submit_tf_job.container.rendezvous import states
from submit_tf_job.container.rendezvous.machine import StateMachine
from submit_tf_job.container.rendezvous.members import KEPT, Member
from submit_tf_job.container.rendezvous.start import elastic_sizes
from submit_tf_job.container.usage_file import UsageWriter

if TYPE_CHECKING:
    from submit_tf_job.container.data.webhdfs_client import WebHdfs

TASKS_LISTED = 200
# an unchanged report is rewritten, so that its age shows whether the deciding task is running
HEARTBEAT_S = 30.0
UNSUMMED = "the tasks' resource usage cannot be summarised"
RECORD_S = 5.0  # the job's end does not wait longer for HDFS
RECORD_BYTES = 65536  # of a report with its tasks


def snapshot(job: StateMachine, now: float, over: bool) -> dict[str, Any]:
    """Return the job's report at the time `now`, as a JSON object; `over` means that nothing
    changes any more.
    """
    info, wall = job.info, job.info.wall
    state = job.phase
    if state == states.ENDING:
        state = job.verdict if over or job.verdict != states.SUCCEEDED else states.FINISHING
    waiting = job.phase == states.WAITING or (job.first or {}).get("reason") == "peers-missing"
    wanted = job.barrier - sum(counts.get(states.LEFT_OUT, 0) for counts in job.counts.values())
    report: dict[str, Any] = {
        "version": contract.REPORT_VERSION,
        "job": info.task["job"],
        "run": info.run,
        "deciding": info.deciding,
        "container": info.container,
        "attempt": job.me.attempt,
        "state": state,
        "started_at": wall + job.started,
        "updated_at": wall + now,
        "ended_at": wall + now if over else None,
        "wanted": wanted,
        "arrived": wanted - job.absent,
        "missing": job.missing()[:KEPT] if waiting else [],
        "unnamed": job.without_dns_name(now)[:KEPT],
        "start": job.start_times,
        "roles": {role: _role_counts(job, role) for role in info.counts},
        "outcome": job.outcome,
        "first_failure": job.first,
        "later_failures": job.later,
        "warnings": job.warnings,
        "progress": job.progress,
        "events": job.events,
    }
    if job.retries:
        used = {"max": job.retries, "used": job.generations.used, "refusal": job.refusal}
        past = job.generations.past
        report.update(generation=job.generation, generations=past, retries=used)
    if job.rules:
        report["elastic"] = elastic_sizes(job)
    runs = job.phase == states.RUNNING
    may_be_empty = {
        "standstill": job.news.found(now, job.training(), wall) if runs else None,
        "awaited": job.awaited(),
        "held": job.kept,
        "checkpoint": job.checkpoint,
        "served": _served_ports(job),
        "outputs": _stored_outputs(job, state),
        "image_ignored": job.image_ignored,
        "credentials": info.credentials,
    }
    report.update((key, value) for key, value in may_be_empty.items() if value)
    if job.graceful:
        own = [] if over or job.me.state in states.OUT else [job.me.name]
        report["saving"] = (own + job.saving(now))[:KEPT]
    if len(job.members) <= TASKS_LISTED:
        report["tasks"] = [_task_entry(job, member) for member in job.members.values()]
    return report


def _task_entry(job: StateMachine, member: Member) -> dict[str, Any]:
    """Return the entry of a task in the report. While the tasks wait for the next generation, a
    connected task that is not ready yet is still ending its command.
    """
    keys = ("host", "address", "container", "state", "attempt", "status")
    found = {key: getattr(member, key) for key in keys}
    if member.state == states.ABSENT and (member is job.me or member.peer is not None):
        found["state"] = states.RESTARTING
    gpus = job.info.gpus if member is job.me else member.gpus
    return dict(found, task=member.name, **({"gpus": gpus} if gpus else {}))


def _stored_outputs(job: StateMachine, state: str) -> list[dict[str, Any]]:
    """List the outputs that tasks have stored; after a success also the outputs that the program
    writes itself.
    """
    found = [(name, uri, len(tasks)) for (name, uri), tasks in sorted(job.stored.items())]
    data = job.info.task.get("data") if state == states.SUCCEEDED else None
    for name, item in (data or {"outputs": {}})["outputs"].items():
        if not item["upload"]:
            found.append((name, item["uri"], 0))
    return [dict(zip(("name", "uri", "tasks"), one)) for one in found[:TASKS_LISTED]]


def _served_ports(job: StateMachine) -> list[dict[str, Any]]:
    """List the ports that tasks serve; on the host network, the host is the name of the node."""
    info = job.info
    job.me.ports = info.served
    own = info.task["ports"]["mode"] != "host"
    serving = [
        member for member in job.members.values() if member.ports and member.state not in states.OUT
    ]
    return [
        {"task": member.name, "host": member.address if own else member.host, "ports": member.ports}
        for member in serving[:TASKS_LISTED]
    ]


def _role_counts(job: StateMachine, role: str) -> dict[str, int]:
    counts = job.counts[role]
    wanted = sum(counts.values()) - counts.get(states.LEFT_OUT, 0)
    counted = (states.ALIVE, states.SUCCEEDED, states.FAILED, states.ENDED, states.LOST)
    return {
        "wanted": wanted,
        "arrived": wanted - counts.get(states.ABSENT, 0),
        "restarts": job.restarts[role],
        "max_restarts": job.info.roles[role]["max_restarts"],
        **{state: counts.get(state, 0) for state in counted},
    }


class Writer:
    """Writes the report at once when the job's state changes, else at most once a second if it has
    changed, and every `HEARTBEAT_S` if not.
    """

    def __init__(self, job: StateMachine) -> None:
        """Prepare to write into the log directory; without a log directory no report is written."""
        folder = job.info.log_dir
        self.job, self.path = job, folder and os.path.join(folder, contract.REPORT_FILE)
        self.usage = UsageWriter(job, folder and os.path.join(folder, contract.USAGE_FILE))
        self.observers = Observers(lambda text: job.warn(job.started, text))
        self._written, self._state = -HEARTBEAT_S, ""
        self.failed_at: float | None = None  # since when it cannot be written
        self.last: dict[str, Any] | None = None

    def write(self, now: float, changed: bool, over: bool = False) -> bool:
        """Write the report if it is due, and `job-usage.json`. Return True once all changes are in
        the file, or if there is no log directory to write to; False if the report is not due, or
        could not be written.
        """
        self.observers.run(UNSUMMED, self.usage.write, now, over)
        state = self.job.phase + self.job.verdict
        pause_s = 1.0 if changed or self.failed_at is not None else HEARTBEAT_S
        due = over or state != self._state or now >= self._written + pause_s
        if not self.path or not due:
            return not self.path
        self._written, self._state = now, state
        try:
            self.last = snapshot(self.job, now, over)
            task_files.write_json(self.path, self.last)
        except Exception as err:  # noqa: BLE001  (a disk may have room again, and the last report decides)
            if self.failed_at is None:
                self.failed_at = now
                why = err if isinstance(err, OSError) else repr(err)
                self.job.warn(now, f"the report cannot be written, and is tried again: {why}")
            return False
        self.failed_at = None
        return True


# --- the record of the run ------------------------------------------------------------------------
def leave_record(info: Info, report: Mapping[str, Any], usage: bytes = b"") -> None:
    """Write the last report of a job that is over, and the tasks' resource usage (`usage`), to the
    run's record; an error is only logged. A report of more than `RECORD_BYTES` is written without
    its tasks. This takes at most `RECORD_S`.
    """
    from submit_tf_job.container.data.webhdfs_client import WebHdfs  # an HTTP client

    found = dict(report)
    text = json.dumps(found, sort_keys=True).encode("utf-8")
    if len(text) > RECORD_BYTES:
        found.pop("tasks", None)
        text = json.dumps(found, sort_keys=True).encode("utf-8")
    files = {contract.RECORD_REPORT: text}
    if usage:
        files[contract.RECORD_USAGE] = usage
    writing = in_thread(
        "record",
        lambda: _write_record(info, files, WebHdfs),
        lambda err: log(f"the record of this run has no report: {err!r}"),
    )
    if writing:
        writing.join(RECORD_S)


def _write_record(info: Info, files: Mapping[str, bytes], client: type[WebHdfs]) -> None:
    from submit_tf_job.container.data.store import NotFound, StoreError

    rule = info.task["record"]
    try:
        store = client(
            rule["protocol"], rule["addresses"], dict(info.env, HADOOP_USER_NAME=rule["user"])
        )
        for ending, text in files.items():
            path = rule["path"][: -len(contract.RECORD_REPORT)] + ending
            with contextlib.suppress(NotFound):
                store.remove(path)
            store.write(path, [text], len(text))
    except StoreError as err:
        log(f"the record of this run has no report: {err}")
