"""The order of things: who am I, have I been here before, prepare, meet the others, run, say how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import traceback

from submit_tf_job import contract
from submit_tf_job.bootstrap import environment, files, ports
from submit_tf_job.bootstrap.child import Signals
from submit_tf_job.bootstrap.info import Info, Problem, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from submit_tf_job.bootstrap.agent import Agent


def main(task: Mapping[str, Any], files_tar: bytes | None) -> int:
    """Run this container's task.

    Args:
        task: The task description, the same for all tasks of the job.
        files_tar: The user's files as a tar, where they travel with the service.

    Returns:
        The exit status: the command's, or one of `contract.py`.
    """
    try:
        signals = Signals()
        try:
            info = Info(task, os.environ, os.getcwd())
        except ValueError as err:
            raise Problem(contract.EXIT_BOOTSTRAP_ERROR, "bootstrap-error", str(err)) from err
        marker = files.read_marker(info)
        if marker and marker["final"]:
            return _been_here(info, marker)
        info.attempt = marker["attempt"] + 1 if marker else 0
        return _run(info, signals, files_tar)
    except Problem as err:
        message = err.message
    except Exception as err:  # noqa: BLE001  (whatever happens, the container's last line says so)
        traceback.print_exc()
        message = "the bootstrap failed: %r" % err
    say(message)
    status = contract.EXIT_BOOTSTRAP_ERROR
    _outcome(
        {"task": os.environ.get(contract.ENV_INSTANCE), "status": status, "exit": status, "reason": "bootstrap-error", "message": message}
    )
    return status


def _run(info: Info, signals: Signals, files_tar: bytes | None) -> int:
    agent: Agent
    if info.decides:  # imported only here, so that the files of other roles need not carry the deciding task's modules
        from submit_tf_job.bootstrap.decider import Decider

        agent = Decider(info, signals)
    else:
        from submit_tf_job.bootstrap.follower import Follower

        agent = Follower(info, signals)
    env = dict(os.environ)
    problem = None
    try:
        agent.open()  # first: from now on the others can be told what goes wrong
        _prepare(info, signals, files_tar, env, agent)
    except Problem as err:
        problem = err
    status = agent.run(env, problem)
    record = agent.record or {"status": status, "signal": None, "reason": "ended", "message": "it did not run", "duration_s": 0.0}
    outcome = {key: record[key] for key in ("status", "signal", "reason", "message", "duration_s")}
    outcome = dict(outcome, task=info.name, submission=info.submission, attempt=info.attempt, exit=status, **agent.outcome())
    files.write_marker(info, agent.final, status, outcome, agent.report())
    _outcome(outcome)
    return status


def _prepare(info: Info, signals: Signals, files_tar: bytes | None, env: dict[str, str], agent: Agent) -> None:
    if files_tar:
        files.unpack(files_tar, info.cwd)
    for name in (contract.COMMON_ARCHIVE, contract.PAYLOAD_ARCHIVE):
        if os.path.isfile(os.path.join(info.cwd, name)):
            files.unpack(os.path.join(info.cwd, name), info.cwd)
    if info.task.get("files"):
        from submit_tf_job.bootstrap import shipped  # travels only with jobs that have such

        shipped.deliver(info)
    for warning in environment.prepare(info, env):
        agent.warn(warning)
    if info.task.get("files"):
        shipped.find_packages(info, env)
    if info.role in info.cluster() and info.total > 1:
        ports.listen(info.port(info.role, info.index), info.name, info.node, signals).close()
    _credentials(info, env, agent)
    if info.task.get("data"):
        from submit_tf_job.bootstrap.data import Data  # travels only with jobs that say what they read or write

        agent.data = Data(info, env, signals.stop)
        agent.data.prepare()


def _credentials(info: Info, env: dict[str, str], agent: Agent) -> None:
    """Give the program what it proves to HDFS with who it is: delegation tokens, or a ticket of its own."""
    if not info.task.get("tokens"):
        return
    from submit_tf_job.bootstrap.tokens import Tokens  # travels only to clusters that have them

    tokens = None
    try:
        tokens = Tokens(env)
        info.credentials += tokens.accounts
        for sentence in tokens.sentences(env):
            say(sentence)
    except ValueError as err:
        agent.warn(str(err))
    login = None
    if "login" in info.task.get("kerberos", {}):
        from submit_tf_job.bootstrap.login import log_in  # travels only with such jobs

        login, warnings = log_in(info, env)
        for warning in warnings:
            agent.warn(warning)
    if login:
        info.credentials.append({"kind": "kerberos-ticket", "owner": login.principal, "until": login.until})
        login.keep(lambda text: agent.post(lambda: agent.warn(text)))
    try:
        if tokens:
            tokens.give(env, info.cwd, own_login=login is not None)
    except OSError as err:
        agent.warn("the delegation tokens cannot be written under their other names: %s" % err)


def _been_here(info: Info, marker: Mapping[str, Any]) -> int:
    """Leave at once: a new AM attempt starts finished tasks again (seen)."""
    say("this task had its end in an earlier container of this application; leaving with its status %d" % marker["exit"])
    if marker.get("report") and info.log_dir:
        files.write_json(os.path.join(info.log_dir, contract.REPORT_FILE), marker["report"])
    _outcome(marker["outcome"])
    status: int = marker["exit"]
    return status


def _outcome(outcome: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):
        os.write(2, (contract.OUTCOME_MARK + json.dumps(outcome, separators=(",", ":"), sort_keys=True) + "\n").encode("ascii"))
