"""A task's inputs and outputs: variables, its share of the files, downloads and uploads."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time

from submit_tf_job.container import contract
from submit_tf_job.container.data.webhdfs_client import GIVEN_TOKENS
from submit_tf_job.container.info import BootstrapProblem, log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from submit_tf_job.container.info import Info

INPUTS, OUTPUTS = "tfjob-inputs", "tfjob-outputs"  # directories in the working directory
SILENCE_S = 300.0  # longest time without a byte copied
TELL_S = 30.0
OF_EACH = ("every-task", "all-that-write")  # `by` of outputs that each task stores for itself
FETCH_FAILED, STORE_FAILED = "input-failed", "output-failed"


class Stopped(Exception):
    """A signal ended the task during a copy."""


class Data:
    """The inputs and outputs of one task."""

    def __init__(self, info: Info, env: dict[str, str], stopped: Callable[[], object]) -> None:
        """Keep the arguments; `env` is the program's, `stopped` returns whether to stop."""
        self.info, self.env, self.stopped = info, env, stopped
        self.task: Mapping[str, Any] = info.task["data"]
        self.reads = info.role in self.task["readers"]
        self.reads_all = info.role in self.task["onlookers"]  # no share, but all files

    # --- before the command ---
    def prepare(self) -> None:
        """Set the variables, compute this task's share, and download.

        Raises:
            BootstrapProblem: An input cannot be downloaded.
        """
        self.env.update(self.variables())
        steps = []
        for name, item in self.task["inputs"].items():
            needed = self.reads or self.reads_all
            share = self._share(name) if item["shard"] and needed else None
            if item["download"] and needed:
                steps.append(self._download(name, item, share))
            elif share is not None:
                self._list(name, share)
        for name, item in self.task["outputs"].items():
            if item["upload"]:
                self._folder(OUTPUTS, name)
        if steps:
            self._fetch(steps)

    def variables(self) -> dict[str, str]:
        """Return the variables of inputs and outputs before any is copied."""
        found = {}
        needed = self.reads or self.reads_all
        for name, item in self.task["inputs"].items():
            copied = item["download"] and needed
            listed = copied or (item["shard"] and needed)
            path = os.path.join(self.info.cwd, INPUTS, name)
            found[contract.ENV_INPUT + name.upper()] = path if copied else item["uri"]
            if listed:
                found[contract.ENV_FILES + name.upper()] = path + ".files"
        for name, item in self.task["outputs"].items():
            path = os.path.join(self.info.cwd, OUTPUTS, name)
            found[contract.ENV_OUTPUT + name.upper()] = path if item["upload"] else item["uri"]
        return found

    def _folder(self, kind: str, name: str) -> str:
        path = os.path.join(self.info.cwd, kind, name)
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as err:
            raise BootstrapProblem(
                contract.EXIT_DATA, FETCH_FAILED, "%s cannot be made: %s" % (path, err.strerror)
            ) from err
        return path

    def _share(self, name: str) -> list[str]:
        """Return this task's files: every n-th of the common list."""
        path = os.path.join(self.info.cwd, contract.INPUT_LIST % name)
        try:
            with open(path, encoding="utf-8") as source:
                files = [line.rstrip("\n") for line in source if line.strip()]
        except OSError as err:
            raise BootstrapProblem(
                contract.EXIT_DATA,
                FETCH_FAILED,
                "the list of the input %s cannot be read: %s" % (name, err),
            ) from err
        counts, readers = self.info.counts, self.task["readers"]
        total = sum(counts[role] for role in readers)
        if not self.reads:
            log("input %s: all %d files, which %d tasks share" % (name, len(files), total))
            return files
        first = (
            sum(counts[role] for role in readers[: readers.index(self.info.role)]) + self.info.index
        )
        mine = files[first::total]
        log(
            "input %s: %d of %d files, share %d of %d"
            % (name, len(mine), len(files), first + 1, total)
        )
        return mine

    def _list(self, name: str, files: list[str]) -> None:
        with open(self._list_path(name), "w", encoding="utf-8") as out:
            out.write("".join(file + "\n" for file in files))

    def _list_path(self, name: str) -> str:
        self._folder(INPUTS, "")
        return os.path.join(self.info.cwd, INPUTS, "%s.files" % name)

    def _download(
        self, name: str, item: Mapping[str, Any], share: list[str] | None
    ) -> dict[str, Any]:
        folder = self._folder(INPUTS, name)
        path = self._list_path(name)
        return {
            "do": "download",
            "name": name,
            "uri": item["uri"],
            "to": folder,
            "file": path,
            "share": share,
        }

    def _fetch(self, steps: list[dict[str, Any]]) -> None:
        log(
            "downloading %s"
            % ", ".join("%s from %s" % (step["name"], step["uri"]) for step in steps)
        )
        started = time.monotonic()
        try:
            done = self._copy(steps)
        except Stopped:
            return  # the event loop handles the signal and ends this task
        if done["t"] != "done":
            text = "the input %(name)s cannot be fetched from %(uri)s: %(why)s" % done
            raise BootstrapProblem(contract.EXIT_DATA, FETCH_FAILED, text)
        log(
            "downloaded %d files, %s, in %.1f s"
            % (done["files"], _amount(done["bytes"]), time.monotonic() - started)
        )
        for step in steps:
            single = os.path.join(step["to"], os.path.basename(step["uri"]))
            if step["share"] is None and _lines(step["file"]) == [single]:
                # a single file: the path itself
                self.env[contract.ENV_INPUT + step["name"].upper()] = single

    # --- after the command ---
    def uploads(
        self, record: Mapping[str, Any], end_requested: bool
    ) -> Callable[[dict[str, Any]], dict[str, Any]] | None:
        """Return a function that uploads the outputs, or None if there is nothing to upload.

        The function takes the record of the command and returns the record of the task. It blocks:
        call it in a thread.
        """
        failed = bool(record["status"]) or end_requested
        steps = self._steps(failed)
        limit_s = float(self.info.task["finish_timeout_s"]) if failed else None
        if not steps:
            return None
        return lambda record: self._store(steps, record, limit_s)

    @property
    def patience_s(self) -> float:
        """How long the deciding task of a failed job waits for uploads of other tasks."""
        others = [
            item
            for item in self.task["outputs"].values()
            if item["upload"] in OF_EACH and item["on_failure"] != "discard"
        ]
        return float(self.info.task["finish_timeout_s"]) if others else 0.0

    def _steps(self, failed: bool) -> list[dict[str, Any]]:
        steps = []
        for name, item in self.task["outputs"].items():
            if not item["upload"]:  # the program writes to the URI itself
                continue
            folder, uri = os.path.join(self.info.cwd, OUTPUTS, name), item["uri"]
            overwrite, uploads = item["overwrite"], self.info.decides
            if item["upload"] in OF_EACH:
                uploads, uri = self.reads, "%s/%s" % (uri, self.info.name)
            if item["upload"] == "all-that-write" and uploads and _is_empty(folder):
                log("the output %s is passed over: this task wrote nothing" % name)
                continue
            if not uploads or (failed and (item["on_failure"] == "discard" or _is_empty(folder))):
                continue
            if failed and item["on_failure"] == "keep":
                uri, overwrite = "%s.failed-%s" % (uri, self.info.submission), True
            mark = "%s-%s" % (self.info.submission, self.info.name)
            steps.append(
                {
                    "do": "upload",
                    "name": name,
                    "uri": uri,
                    "from": folder,
                    "overwrite": overwrite,
                    "mark": mark,
                }
            )
        return steps

    def _store(
        self, steps: list[dict[str, Any]], record: dict[str, Any], limit_s: float | None
    ) -> dict[str, Any]:
        log("uploading %s" % ", ".join("%s to %s" % (step["name"], step["uri"]) for step in steps))
        started = time.monotonic()
        try:
            done = self._copy(steps, limit_s)
        except Stopped:
            done = _failed(steps, "this task was stopped meanwhile")
        if done["t"] == "done":
            log(
                "uploaded %d files, %s, in %.1f s"
                % (done["files"], _amount(done["bytes"]), time.monotonic() - started)
            )
            return record
        text = "the output %(name)s could not be stored at %(uri)s: %(why)s" % done
        log(text)
        if record["status"]:
            return record  # the command's own failure counts
        message = "%s on %s: %s" % (self.info.name, self.info.node, text)
        return dict(record, status=contract.EXIT_DATA, reason=STORE_FAILED, message=message)

    # --- the copying process ---
    def _copy(self, steps: list[dict[str, Any]], limit_s: float | None = None) -> dict[str, Any]:
        """Copy in a separate process, and return its last message.

        Raises:
            Stopped: This task must end.
        """
        root = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
        env = dict(self.env)
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [root, env.get("PYTHONPATH")]))
        env[GIVEN_TOKENS] = self.info.env.get("HADOOP_TOKEN_FILE_LOCATION", "")
        process = subprocess.Popen(
            # without bytecode, which a full disk cuts off (gh-126606): the next copy would fail
            [sys.executable, "-B", "-m", "submit_tf_job.container.data.transfer"],
            env=env,
            cwd=self.info.cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert process.stdin is not None
            with process.stdin as sink:
                sink.write(json.dumps({"steps": steps}).encode("ascii"))
            return self._follow(process, steps, limit_s)
        except OSError as err:  # the process ended before it had read its steps
            return _failed(steps, "the copying process ended at once: %s" % err)
        finally:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()

    def _follow(
        self, process: subprocess.Popen[bytes], steps: list[dict[str, Any]], limit_s: float | None
    ) -> dict[str, Any]:
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
                    log(
                        "copied so far: %d files, %s"
                        % (message["files"], _amount(message["bytes"]))
                    )


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
    return not any(files for _, _, files in os.walk(folder))


def _amount(size: float) -> str:
    if size < 1024:
        return "%d B" % size
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return "%.1f %s" % (size, unit)
    return "%.1f TiB" % (size / 1024)
