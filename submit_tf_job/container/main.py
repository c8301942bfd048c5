"""Run one container's task: identify it, prepare it, run the rendezvous, write the outcome."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from typing import Any

from submit_tf_job.container import contract, environment, ports, task_files, untrusted
from submit_tf_job.container.child import Signals
from submit_tf_job.container.command import TaskCommand
from submit_tf_job.container.deciding_task import DecidingTask
from submit_tf_job.container.guards import Observers
from submit_tf_job.container.info import BootstrapProblem, Info, log, problem_of
from submit_tf_job.container.loop import Loop
from submit_tf_job.container.other_task import OtherTask

CONF = "conf"  # where YARN puts TEMPLATE files
_TARS = (
    contract.COMMON_ARCHIVE,
    contract.PAYLOAD_ARCHIVE,
    os.path.join(CONF, contract.INLINE_FILES),
)


def main() -> int:
    """Run this container's task, which `conf/tfjob.json` describes. Return the exit status of the
    bootstrap: that of the command, or one of the constants in `contract.py`.
    """
    try:
        signals = Signals()
        try:
            with open(os.path.join(CONF, contract.TASK_FILE), encoding="ascii") as file:
                task = json.load(file)
            info = Info(task, os.environ, os.getcwd())
        except (OSError, ValueError) as err:
            raise BootstrapProblem(str(err)) from err
        marker = task_files.read_marker(info)
        if marker and marker["final"]:
            return _repeat_outcome(info, marker)
        if marker:
            info.attempt = marker["attempt"] + 1
        info.ignored_image = environment.ignored_image(os.environ)
        return _run_task(info, signals)
    except Exception as err:  # noqa: BLE001  (the outcome line reports every failure)
        message = problem_of(err).message
    log(message)
    status = contract.EXIT_BOOTSTRAP_ERROR
    outcome = {"task": os.environ.get(contract.ENV_INSTANCE), "status": status, "exit": status}
    _log_outcome(dict(outcome, reason="bootstrap-error", message=message))
    return status


def _run_task(info: Info, signals: Signals) -> int:
    loop = Loop(signals, info.started)
    command = TaskCommand(info, signals, loop.post)
    part = _leader_of_task(info, loop, command)
    # the report of the deciding task contains this warning for every task, unless it is allowed
    is_allowed = info.task.get("image_policy") == contract.IMAGE_ALLOWED
    if info.ignored_image and (is_allowed or not info.decides):
        text = "this task runs as a plain process of its node: the NodeManager does not run the "
        log(text + "image " + info.ignored_image)
    env = dict(os.environ)
    problem = None
    try:
        part.open()  # first, so that the other tasks can be informed of errors
        _prepare_task(info, env, command)
    except OSError as err:
        problem = BootstrapProblem(f"this task cannot be prepared: {err}")
    except Exception as err:  # noqa: BLE001  (the other tasks are told of it, too)
        problem = problem_of(err)
    part.prepared()
    command.set_up(env, problem)
    status = loop.run(command, part.tick, part.stopped, part.broken)
    why = loop.problem or BootstrapProblem("it did not run", "ended")
    record = {"status": status, "signal": None, "reason": why.reason, "message": why.message}
    record = command.record or dict(record, duration_s=0.0)
    outcome = {key: record[key] for key in ("status", "signal", "reason", "message", "duration_s")}
    outcome.update(task=info.name, run=info.run, attempt=info.attempt, exit=status)
    more, report, usage = part.outcome()
    outcome.update(more)
    # the status is decided, and nothing that is written of it changes it
    watched = Observers(log)
    marker = (info, loop.final, status, outcome, report)
    watched.run("the outcome cannot be kept", task_files.write_marker, *marker)
    _log_outcome(outcome)
    if report and loop.final and info.task.get("record"):
        from submit_tf_job.container import job_report

        unwritten = "the record of this run has no report"
        watched.run(unwritten, job_report.leave_record, info, report, usage)
    return status


def _leader_of_task(info: Info, loop: Loop, command: TaskCommand) -> DecidingTask | OtherTask:
    """Return the leader of this task, a `DecidingTask` or an `OtherTask`. Only the modules that
    this leader needs are imported.
    """
    if info.decides:
        from submit_tf_job.container import deciding_task

        return deciding_task.DecidingTask(info, loop, command)
    from submit_tf_job.container import other_task

    return other_task.OtherTask(info, loop, command)


def _prepare_task(info: Info, env: dict[str, str], command: TaskCommand) -> None:
    environment.require_image(info)
    if info.task.get("gpus") and info.roles[info.role]["gpus"]:
        from submit_tf_job.container import gpus

        gpus.check(info, dict(env, **info.roles[info.role].get("env", {})))
    tars = [name for name in _TARS if os.path.isfile(name)]
    if tars or info.task.get("files"):  # many jobs have none
        from submit_tf_job.container import shipped

        shipped.deliver(info, tars)
    for warning in environment.prepare(info, env):
        command.warn(warning)
    if info.task.get("files"):
        shipped.find_packages(info, env)
    if info.task.get("framework") == "tensorflow":
        from submit_tf_job.container import installed

        unknown = "the version of TensorFlow is not known"
        for warning in command.observers.run(unknown, installed.check, info, env, otherwise=()):
            command.warn(warning)
    command.reserved = ports.reserve_own(info, command.signals)
    if info.roles[info.role].get("ports"):
        command.serve(env)
    _give_credentials(info, env, command)
    if info.task.get("data"):
        from submit_tf_job.container.data.task_data import Data

        command.data = Data(info, env, command.signals.must_end, command.warn_later)
        command.data.prepare()


def _give_credentials(info: Info, env: dict[str, str], command: TaskCommand) -> None:
    """Give the program its HDFS credentials: delegation tokens, or a ticket of its own. Errors are
    warnings, unless the job requires the login. Do nothing in a job without tokens.
    """
    if not info.task.get("tokens"):
        return
    from submit_tf_job.container.tokens import Tokens

    tokens = None
    try:
        tokens = Tokens(env)
        info.credentials += tokens.summaries
        for summary_line in tokens.describe(env):
            log(summary_line)
    except ValueError as err:
        command.warn(str(err))
    login = None
    if "login" in info.task.get("kerberos", {}):
        from submit_tf_job.container.login import log_in

        login = log_in(info, env, command.warn)
    if login:
        info.credentials.append(
            {"kind": "kerberos-ticket", "owner": login.principal, "until": login.until}
        )
        login.keep(command.warn_later)
    try:
        if tokens:
            tokens.install(env, info.cwd, own_login=login is not None)
    except OSError as err:
        command.warn(f"the delegation tokens cannot be written under their other names: {err}")


def _repeat_outcome(info: Info, marker: Mapping[str, Any]) -> int:
    """Log the outcome of an earlier start of this task, and return the exit status of that start.

    A new AM attempt starts finished tasks again
    (hadoop-facts.md#restart-of-the-applicationmaster).
    """
    text = "this task ended in an earlier container of this application; exiting with its status %d"
    log(text % marker["exit"])
    if marker.get("report") and info.log_dir:
        with contextlib.suppress(OSError):  # of a full disk: the status decides
            report = os.path.join(info.log_dir, contract.REPORT_FILE)
            task_files.write_json(report, marker["report"])
    _log_outcome(marker["outcome"])
    return int(marker["exit"])


def _log_outcome(outcome: Mapping[str, Any]) -> None:
    text = json.dumps(untrusted.clean(outcome), separators=(",", ":"), sort_keys=True)
    with contextlib.suppress(OSError):
        os.write(2, (f"{contract.OUTCOME_MARK}{text}\n").encode("ascii"))
