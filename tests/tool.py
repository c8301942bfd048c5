"""The tool as its users call it, as a process; and the processes of a job on a sandbox, to kill
them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import requests
import yaml

LOOK_S = 2.0  # what only the tasks and their ApplicationMaster know
SUBMIT_S = 900  # no test job takes longer, on two cores with ten times as much to do


@dataclass
class Result:
    """What one call of the tool printed and returned."""

    status: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def json(self) -> dict[str, Any]:
        """stdout as the one JSON object it must be."""
        assert self.stdout, f"status {self.status}, and no JSON: {self.stderr}"
        value: dict[str, Any] = json.loads(self.stdout)
        return value


# The last calls of this process, for what a failed test tells (tests/red.py).
calls: deque[tuple[list[str], Result]] = deque(maxlen=30)


@dataclass
class Tool:
    """submit_tf_job, called as a process with the sandbox's profile."""

    environ: Mapping[str, str]
    profile: str
    cwd: Path
    jobs: list[str] = field(default_factory=list)
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def __call__(self, *arguments: object, timeout: float = SUBMIT_S, stdin: str = "") -> Result:
        """Run one command to its end."""
        start = time.monotonic()
        done = subprocess.run(
            self.argv(*arguments),
            env=self.environ,
            cwd=self.cwd,
            capture_output=True,
            text=True,
            timeout=timeout,
            input=stdin,
        )
        result = Result(done.returncode, done.stdout, done.stderr, time.monotonic() - start)
        calls.append(([str(word) for word in arguments], result))
        assert "Traceback" not in done.stderr, done.stderr
        return result

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        """Start one command and return its process."""
        process = subprocess.Popen(
            self.argv(*arguments),
            env=self.environ,
            cwd=self.cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def tidy(self) -> None:
        """End what a test has left running: processes, and jobs, which are deleted."""
        for process in self.started:
            if process.returncode is None:
                process.kill()
                process.communicate()
        apps = self._applications()
        for job in self.jobs:
            if apps is None or any(app["finalStatus"] == "UNDEFINED" for app in runs_of(job, apps)):
                self("delete", job, "--force")

    def argv(self, *arguments: object) -> list[str]:
        """Compose the command line."""
        words = [str(argument) for argument in arguments]
        bare = ("sandbox", "version", "schema", "init")
        if words[0] in bare or words[:2] == ["gateway", "token"]:
            return [sys.executable, "-m", "submit_tf_job", *words]
        group = 2 if words[0] in ("config", "staging", "gateway") else 1
        profile = ["--profile", self.profile] if self.profile else []
        return [sys.executable, "-m", "submit_tf_job", *words[:group], *profile, *words[group:]]

    def given(self, **environ: str) -> Tool:
        """Return the same with more in its environment."""
        return replace(self, environ={**self.environ, **environ}, jobs=[])

    def spec(self, name: str, **content: Any) -> Path:
        """Write a job spec of a name of its own; the job is deleted at the end of the test."""
        self.jobs.append(name)
        path = self.cwd / f"{name}.yaml"
        whole = {"name": name, "image": "library/python:3.11", **content}
        path.write_text(yaml.safe_dump(whole, sort_keys=False))
        return path

    def status(self, job: str) -> dict[str, Any]:
        """Ask for a job's state."""
        return self("status", job, "-o", "json").json

    def until(
        self, job: str, holds: Callable[[dict[str, Any]], bool], timeout: float = SUBMIT_S
    ) -> dict[str, Any]:
        """Ask until something holds of a job; it may be that it is submitted only now.

        The ResourceManager is looked at in this process, and the command is run when it tells
        something new, or after a while, for what it does not know.
        """
        deadline, asked_at, known = time.monotonic() + timeout, 0.0, None
        while True:
            now, told = time.monotonic(), self._in_yarn(job)
            if told != known or now - asked_at > LOOK_S:
                asked_at, known = now, told
                asked = self("status", job, "-o", "json")
                if asked.status == 0 and holds(asked.json):  # else no state was found out
                    return asked.json
            assert time.monotonic() < deadline, asked
            time.sleep(0.2)

    def root_cause(self, job: str) -> dict[str, Any]:
        """Return why a job has failed; each look looks for it anew, for a few seconds."""
        return dict(
            until(
                lambda: self.status(job)["root_cause"],
                f"why {job} failed",
                within_s=SUBMIT_S,
                pause_s=1,
            )
        )

    def stop(self, job: str, *options: object) -> Result:
        """Stop a job, as its user does who is told to look again (status 8): on a busy node its
        containers take longer to end than one command waits.
        """

        def looked() -> Result | None:
            done = self("stop", job, *options)
            return done if done.status != 8 else None

        stopped: Result = until(looked, f"all containers of {job} have ended")
        return stopped

    def collected(self, job: str) -> None:
        """Wait until YARN has collected the logs of a job that is over; `logs` waits a minute."""
        application = self.status(job)["application_id"]

        def are_collected() -> bool:
            if (apps := self._applications()) is None:
                return self("logs", job).status == 0
            collected = {app["id"] for app in apps if app["logAggregationStatus"] == "SUCCEEDED"}
            return application in collected

        until(are_collected, f"YARN collects the logs of {job}", within_s=SUBMIT_S, pause_s=1)

    def _in_yarn(self, job: str) -> list[tuple[str, str, int]] | None:
        """Return application, state and number of containers of each run of a job; None where the
        ResourceManager does not tell it without Kerberos.
        """
        if (apps := self._applications()) is None:
            return None
        return [(app["id"], app["state"], app["runningContainers"]) for app in runs_of(job, apps)]

    def _applications(self) -> list[dict[str, Any]] | None:
        profiles = Path(self.environ["HOME"]) / ".config/submit_tf_job/profiles.d"
        with contextlib.suppress(OSError, ValueError, KeyError, requests.RequestException):
            settings = yaml.safe_load((profiles / f"{self.profile}.yaml").read_text())
            answer = requests.get(
                f"{settings['resource_managers'][0]}/ws/v1/cluster/apps",
                params={"user": settings["user"]},
                timeout=10,
            )
            return list((answer.json()["apps"] or {}).get("app", []))
        return None

    def output(self, job: str, task: str) -> str:
        """Return what a task's containers wrote to stdout."""
        return self("logs", job, task, "--raw").stdout

    def printed(self, job: str, task: str, text: str, timeout: float = SUBMIT_S) -> None:
        """Wait until a task has written a text."""
        self.until(job, lambda _seen: text in self.output(job, task), timeout)


class LocalTool(Tool):
    """The tool on a machine without any settings; its job specs have one small task."""

    def spec(self, name: str, **content: Any) -> Path:
        roles = {"worker": {"memory": "128Mi"}}
        path = super().spec(name, **{"strategy": "single", "roles": roles, **content})
        self.jobs.clear()
        return path


def until(
    what: Callable[[], Any], said: str = "", within_s: float = SUBMIT_S, pause_s: float = 0.05
) -> Any:
    """Repeat until the answer is true."""
    deadline = time.monotonic() + within_s
    while not (answer := what()):
        assert time.monotonic() < deadline, f"not within {within_s} s: {said}"
        time.sleep(pause_s)
    return answer


def runs_of(job: str, apps: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the applications of a job's runs."""
    return [app for app in apps if re.fullmatch(rf"{job}(-[0-9][a-z2-7]{{7}})?", app["name"])]


def warned_of_room(tool: Tool) -> Tool:
    """The tool with `capacity_check: warn`: it posts what the cluster has no room for."""
    return tool.given(SUBMIT_TF_JOB_CAPACITY_CHECK="warn")


def processes_of(job: str) -> dict[int, str]:
    """Find the processes of this machine that belong to tasks of a job, by their environment."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environ = (entry / "environ").read_bytes().split(b"\0")
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        names = {
            item.partition(b"=")[2].decode()
            for item in environ
            if item.startswith(b"YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_HOSTNAME=")
        }
        if any(re.search(rf"\.{job}(-[0-9][a-z2-7]{{7}})?\.", name) for name in names):
            found[int(entry.name)] = command
    return found


def bootstrap_of(job: str, task: str) -> int:
    """Find the process of a task's bootstrap, once it runs."""

    def found() -> int | None:
        for pid, command in processes_of(job).items():
            environ = b""
            with contextlib.suppress(OSError):
                environ = (Path("/proc") / str(pid) / "environ").read_bytes()
            if (
                f"TFJOB_INSTANCE={task}".encode() in environ.split(b"\0")
                and "bootstrap.zip" in command
                and "bash" not in command.split()[0]
            ):
                return pid
        return None

    return int(until(found, f"no bootstrap of {task} in {job}"))


def kill(job: str, task: str) -> None:
    """Kill a task's container, with everything in it."""
    os.kill(bootstrap_of(job, task), signal.SIGKILL)


def held(name: str) -> str:
    """Return a command that lasts until `release` ends it, in whatever container it runs."""
    return f"(python3 -c 'import time; time.sleep(3600)' held-{name} || true)"


def release(name: str, tasks: int = 1) -> None:
    """Let the command that `held` has returned end, once so many tasks run it."""
    mark = f"held-{name}".encode()

    def found() -> list[int]:
        entries = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        pids = [int(entry.name) for entry in entries if mark in _cmdline(entry).split(b"\0")]
        return pids if len(pids) >= tasks else []

    for pid in until(found, f"{tasks} processes with the argument {mark!r}", within_s=SUBMIT_S):
        os.kill(pid, signal.SIGKILL)


def gone(job: str, within_s: float = SUBMIT_S) -> None:
    """Assert that no process of a job is left."""
    deadline = time.monotonic() + within_s
    while left := processes_of(job):
        assert time.monotonic() < deadline, left
        time.sleep(0.3)


def application_master(job: str) -> int:
    """Find the ApplicationMaster of a job, once it runs."""
    named = rf"-service_name\0{job}(-[0-9][a-z2-7]{{7}})?\0".encode()

    def found() -> int | None:
        for entry in Path("/proc").iterdir():
            line = _cmdline(entry) if entry.name.isdigit() else b""
            if b"ServiceMaster" in line and b"java" in line[:80] and re.search(named, line):
                return int(entry.name)
        return None

    return int(until(found, f"no ApplicationMaster of {job}"))


def _cmdline(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


def script(directory: Path, text: str) -> str:
    """Write a program that stands in for Python; containers must be able to reach it."""
    path = directory / "python3"
    path.write_text("#!/bin/sh\n" + text)
    for place in (path, *directory.parents, directory):
        if place.owner() == path.owner() and str(place) not in ("/", "/tmp"):
            place.chmod(place.stat().st_mode | 0o055)
    return str(path)


def put_twice(tool: Callable[..., Result], directory: Path) -> None:
    """Copy a directory to HDFS by the command; it is there, and is not replaced."""
    for name, content in {"a.csv": b"a", "d/e/f": b"f" * 3_000_000}.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    target = f"hdfs:///tmp/put-{secrets.token_hex(6)}/"
    done = tool("put", directory, target, "-o", "json")
    assert done.status == 0, done.stderr
    assert [(one["files"], one["bytes"]) for one in done.json["copied"]] == [(2, 3_000_001)]
    again = tool("put", directory, target)
    assert (again.status, "is there already" in again.stderr) == (2, True), again
