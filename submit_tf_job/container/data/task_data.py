"""What the job reads and writes, as one task sees it: variables, its share of the files, downloads and uploads around the command."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time

from submit_tf_job import contract
from submit_tf_job.bootstrap.info import Problem, say
from submit_tf_job.bootstrap.webhdfs import GIVEN_TOKENS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from submit_tf_job.bootstrap.info import Info

INPUTS, OUTPUTS = "tfjob-inputs", "tfjob-outputs"  # in the working directory
SILENCE_S = 300.0  # without a byte copied
TELL_S = 30.0
FETCH_FAILED, STORE_FAILED = "input-failed", "output-failed"


class Stopped(Exception):
    """The task is to end."""


class Data:
    """Inputs and outputs of one task."""

    def __init__(self, info: Info, env: dict[str, str], stopped: Callable[[], object]) -> None:
        """Keep what is asked; `env` is the program's, `stopped` says whether this task is to end."""
        self.info, self.env, self.stopped = info, env, stopped
        self.task: Mapping[str, Any] = info.task["data"]
        self.reads = info.role in self.task["readers"]
        self.looks_on = info.role in self.task["onlookers"]

    # --- before the command ---
    def prepare(self) -> None:
        """Set the variables, work out the share, and download.

        Raises:
            Problem: An input cannot be fetched.
        """
        steps = []
        for name, item in self.task["inputs"].items():
            share = self._share(name) if item["shard"] and (self.reads or self.looks_on) else None
            self.env[contract.ENV_INPUT + name.upper()] = item["uri"]
            if item["download"] and (self.reads or self.looks_on):
                steps.append(self._download(name, item, share))
            elif share is not None:
                self._list(name, share)
        for name, item in self.task["outputs"].items():
            self.env[contract.ENV_OUTPUT + name.upper()] = self._folder(OUTPUTS, name) if item["upload"] else item["uri"]
        if steps:
            self._fetch(steps)

    def _folder(self, kind: str, name: str) -> str:
        path = os.path.join(self.info.cwd, kind, name)
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as err:
            raise Problem(contract.EXIT_DATA, FETCH_FAILED, "%s cannot be made: %s" % (path, err.strerror)) from err
        return path

    def _share(self, name: str) -> list[str]:
        """Return this task's files: every n-th of the list that all tasks have."""
        path = os.path.join(self.info.cwd, contract.INPUT_LIST % name)
        try:
            with open(path, encoding="utf-8") as source:
                files = [line.rstrip("\n") for line in source if line.strip()]
        except OSError as err:
            raise Problem(contract.EXIT_DATA, FETCH_FAILED, "the list of the input %s cannot be read: %s" % (name, err)) from err
        counts, readers = self.info.counts, self.task["readers"]
        total = sum(counts[role] for role in readers)
        if not self.reads:
            say("input %s: all %d files, which %d tasks share" % (name, len(files), total))
            return files
        first = sum(counts[role] for role in readers[: readers.index(self.info.role)]) + self.info.index
        mine = files[first::total]
        say("input %s: %d of %d files, share %d of %d" % (name, len(mine), len(files), first + 1, total))
        return mine

    def _list(self, name: str, files: list[str]) -> None:
        path = self._list_path(name)
        with open(path, "w", encoding="utf-8") as out:
            out.write("".join(file + "\n" for file in files))
        self.env[contract.ENV_FILES + name.upper()] = path

    def _list_path(self, name: str) -> str:
        self._folder(INPUTS, "")
        return os.path.join(self.info.cwd, INPUTS, "%s.files" % name)

    def _download(self, name: str, item: Mapping[str, Any], share: list[str] | None) -> dict[str, Any]:
        folder = self._folder(INPUTS, name)
        path = self._list_path(name)
        self.env[contract.ENV_FILES + name.upper()] = path
        self.env[contract.ENV_INPUT + name.upper()] = folder
        return {"do": "download", "name": name, "uri": item["uri"], "to": folder, "file": path, "share": share}

    def _fetch(self, steps: list[dict[str, Any]]) -> None:
        say("downloading %s" % ", ".join("%s from %s" % (step["name"], step["uri"]) for step in steps))
        started = time.monotonic()
        try:
            done = self._copy(steps)
        except Stopped:
            return  # the loop sees the signal, and ends this task
        if done["t"] != "done":
            text = "the input %s cannot be fetched from %s: %s" % (done["name"], done["uri"], done["why"])
            raise Problem(contract.EXIT_DATA, FETCH_FAILED, text)
        say("downloaded %d files, %s, in %.1f s" % (done["files"], _amount(done["bytes"]), time.monotonic() - started))
        for step in steps:
            single = os.path.join(step["to"], os.path.basename(step["uri"]))
            if step["share"] is None and _lines(step["file"]) == [single]:
                self.env[contract.ENV_INPUT + step["name"].upper()] = single  # one file: its own path

    # --- after the command ---
    def uploads(self, record: Mapping[str, Any], told_to_end: bool) -> Callable[[dict[str, Any]], dict[str, Any]] | None:
        """Return what uploads the outputs of a command that has ended so, None where nothing is to be uploaded.

        It takes how the command ended and returns how the task did, all in all. It takes its time: call it in a thread.
        """
        failed = bool(record["status"]) or told_to_end
        steps = self._steps(failed)
        limit_s = float(self.info.task["finish_timeout_s"]) if failed else None
        return (lambda record: self._store(steps, record, limit_s)) if steps else None

    @property
    def patience_s(self) -> float:
        """Return how long the deciding task waits for others that store something although the job failed."""
        others = [item for item in self.task["outputs"].values() if item["upload"] == "every-task" and item["on_failure"] != "discard"]
        return float(self.info.task["finish_timeout_s"]) if others else 0.0

    def _steps(self, failed: bool) -> list[dict[str, Any]]:
        steps = []
        for name, item in self.task["outputs"].items():
            if not item["upload"] or not (self.reads if item["upload"] == "every-task" else self.info.decides):
                continue
            folder = os.path.join(self.info.cwd, OUTPUTS, name)
            uri = "%s/%s" % (item["uri"], self.info.name) if item["upload"] == "every-task" else item["uri"]
            wanted = not failed or item["on_failure"] != "discard"
            if failed and item["on_failure"] == "keep":
                uri = "%s.failed-%s" % (uri, self.info.submission)
            overwrite = item["overwrite"] or (failed and item["on_failure"] == "keep")
            if wanted and not (failed and _is_empty(folder)):
                mark = "%s-%s" % (self.info.submission, self.info.name)
                steps.append({"do": "upload", "name": name, "uri": uri, "from": folder, "overwrite": overwrite, "mark": mark})
        return steps

    def _store(self, steps: list[dict[str, Any]], record: dict[str, Any], limit_s: float | None) -> dict[str, Any]:
        say("uploading %s" % ", ".join("%s to %s" % (step["name"], step["uri"]) for step in steps))
        started = time.monotonic()
        try:
            done = self._copy(steps, limit_s)
        except Stopped:
            done = _failed(steps, "this task was stopped meanwhile")
        if done["t"] == "done":
            say("uploaded %d files, %s, in %.1f s" % (done["files"], _amount(done["bytes"]), time.monotonic() - started))
            return record
        text = "the output %s could not be stored at %s: %s" % (done["name"], done["uri"], done["why"])
        say(text)
        if record["status"]:
            return record  # its own failure counts
        message = "%s on %s: %s" % (self.info.name, self.info.node, text)
        return dict(record, status=contract.EXIT_DATA, reason=STORE_FAILED, message=message)

    # --- the copying process ---
    def _copy(self, steps: list[dict[str, Any]], limit_s: float | None = None) -> dict[str, Any]:
        """Have it done by a process of its own, and watch that it goes on.

        Raises:
            Stopped: This task is to end.
        """
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        path = os.pathsep.join([root] + [part for part in [self.env.get("PYTHONPATH")] if part])
        process = subprocess.Popen(
            [sys.executable, "-m", "submit_tf_job.bootstrap.transfer"],
            env=dict(self.env, **{"PYTHONPATH": path, GIVEN_TOKENS: self.info.env.get("HADOOP_TOKEN_FILE_LOCATION", "")}),
            cwd=self.info.cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert process.stdin is not None
            with process.stdin as sink:
                sink.write(json.dumps({"steps": steps}).encode("ascii"))
            return self._follow(process, steps, limit_s)
        except OSError as err:  # it ended before it had read what to do
            return _failed(steps, "the copying process ended at once: %s" % err)
        finally:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()

    def _follow(self, process: subprocess.Popen[bytes], steps: list[dict[str, Any]], limit_s: float | None) -> dict[str, Any]:
        assert process.stdout is not None
        handle, rest = process.stdout.fileno(), b""
        started = heard = told = time.monotonic()
        while True:
            if self.stopped():
                raise Stopped
            now = time.monotonic()
            if now > heard + SILENCE_S:
                return _failed(steps, "nothing was copied for %d s" % SILENCE_S)
            if limit_s is not None and now > started + limit_s:
                return _failed(steps, "it was not done within %d s (finish_timeout)" % limit_s)
            if not select.select([handle], [], [], 0.5)[0]:
                continue
            data = os.read(handle, 65536)
            if not data:
                return _failed(steps, "the copying process died (killed, or out of memory)")
            heard = now
            *lines, rest = (rest + data).split(b"\n")
            for message in map(_message, lines):
                if message.get("t") in ("done", "failed"):
                    return message
                if message.get("t") == "copied" and now > told + TELL_S:
                    told = now
                    say("copied so far: %d files, %s" % (message["files"], _amount(message["bytes"])))


def _failed(steps: list[dict[str, Any]], why: str) -> dict[str, Any]:
    return {"t": "failed", "name": steps[0]["name"], "uri": steps[0]["uri"], "why": why}


def _message(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line.decode("utf-8"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _lines(path: str) -> list[str]:
    with open(path, encoding="utf-8") as source:
        return [line.rstrip("\n") for line in source]


def _is_empty(folder: str) -> bool:
    return not os.path.isdir(folder) or not os.listdir(folder)


def _amount(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return "%d %s" % (size, unit) if unit == "B" else "%.1f %s" % (size, unit)
        size /= 1024
    return "%.1f TiB" % size
