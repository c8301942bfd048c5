"""A task's inputs and outputs: variables, its share of the files, downloads and uploads."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import select
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from submit_tf_job.container import contract, environment
from submit_tf_job.container.data.store import StoreError, retry
from submit_tf_job.container.data.webhdfs_client import GIVEN_TOKENS
from submit_tf_job.container.info import BootstrapProblem, Info, log

INPUTS, OUTPUTS = "tfjob-inputs", "tfjob-outputs"  # directories in the working directory
SILENCE_S = 300.0  # longest time without a message of the copying process
TELL_S = 30.0
OF_EACH = ("every-task", "all-that-write")  # `by` of outputs that each task stores for itself
FETCH_PATIENCE_S = 60.0  # how long a download is tried again
# how long a task stays for an output that could not be stored within `finish_timeout`
KEPT_S = 1800.0
FETCH_FAILED, STORE_FAILED = "input-failed", "output-failed"


class Stopped(Exception):
    """A signal ended the task during a copy."""


class Data:
    """The inputs and outputs of one task."""

    def __init__(
        self,
        info: Info,
        env: dict[str, str],
        stopped: Callable[[], object],
        warn: Callable[[str], None],
    ) -> None:
        """Keep the arguments.

        Args:
            info: The task.
            env: The program's environment.
            stopped: Returns whether to stop.
            warn: Puts a sentence into the job's report; any thread may call it.
        """
        self.info, self.env, self.stopped, self.warn = info, env, stopped, warn
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

    def renew(self) -> None:
        """Give the next start of the command empty outputs, unless they are kept (`on_retry`).

        What a killed command has left may be half a file. Removing it may take long, so that a
        thread does it.
        """
        for name, item in self.task["outputs"].items():
            if item["upload"] and item["on_retry"] == "empty":
                folder = self._folder(OUTPUTS, name)
                gone = os.path.join(self.info.cwd, OUTPUTS, ".%s.gone" % name)
                os.rename(folder, "%s-%d" % (gone, time.monotonic() * 1000))
                self._folder(OUTPUTS, name)
        threading.Thread(target=self._remove_former, name="remover", daemon=True).start()

    def _remove_former(self) -> None:
        for path in glob.glob(os.path.join(glob.escape(self.info.cwd), OUTPUTS, ".*.gone-*")):
            shutil.rmtree(path, ignore_errors=True)

    def _folder(self, kind: str, name: str) -> str:
        path = os.path.join(self.info.cwd, kind, name)
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as err:
            text = "%s cannot be made: %s" % (path, err.strerror)
            raise BootstrapProblem(text, FETCH_FAILED) from err
        return path

    def _share(self, name: str) -> list[str]:
        """Return this task's files: every n-th of the common list."""
        path = os.path.join(self.info.cwd, contract.INPUT_LIST % name)
        try:
            with open(path, encoding="utf-8") as source:
                files = [line.rstrip("\n") for line in source if line.strip()]
        except OSError as err:
            text = "the list of the input %s cannot be read: %s" % (name, err)
            raise BootstrapProblem(text, FETCH_FAILED) from err
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
            done = self._copy(steps, FETCH_PATIENCE_S)
        except Stopped:
            return  # the event loop handles the signal and ends this task
        if done["t"] != "done":
            text = "the input %(name)s cannot be fetched from %(uri)s: %(why)s" % done
            raise BootstrapProblem(text, FETCH_FAILED)
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
        if not steps:
            return None
        return lambda record: self._store(steps, record, failed)

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
                uploads, uri = self._trains(), "%s/%s" % (uri, self.info.name)
            if item["upload"] == "all-that-write" and uploads and _is_empty(folder):
                log("the output %s is passed over: this task wrote nothing" % name)
                continue
            if not uploads or (failed and (item["on_failure"] == "discard" or _is_empty(folder))):
                continue
            told = item["uri"]  # of `every-task` what all have in common
            if failed and item["on_failure"] == "keep":
                told = uri = "%s.failed-%s" % (uri, self.info.run)
                overwrite = True
            me = (self.info.run, self.info.name, self.info.container.rpartition("_")[2])
            steps.append(
                {
                    "do": "upload",
                    "name": name,
                    "uri": uri,
                    "told": told,
                    "from": folder,
                    "overwrite": overwrite,
                    "run": self.info.run,
                    "task": self.info.name,
                    "mark": "%s-%s-%s" % me,
                }
            )
        return steps

    def _trains(self) -> bool:
        return bool(self.info.roles[self.info.role]["kind"] == contract.KIND_TRAINS)

    def _store(
        self, steps: list[dict[str, Any]], record: dict[str, Any], failed: bool
    ) -> dict[str, Any]:
        log("uploading %s" % ", ".join("%s to %s" % (step["name"], step["uri"]) for step in steps))
        started, limit_s = time.monotonic(), float(self.info.task["finish_timeout_s"])
        try:
            if failed:
                done = self._copy(steps, limit_s, limit_s)
            else:
                done = self._copy(steps, limit_s + KEPT_S)
        except Stopped:
            done = _failed(steps, "this task was stopped meanwhile")
        if done["t"] == "done":
            log(
                "uploaded %d files, %s, in %.1f s"
                % (done["files"], _amount(done["bytes"]), time.monotonic() - started)
            )
            return dict(record, stored=[[step["name"], step["told"]] for step in steps])
        text = "the output %(name)s could not be stored at %(uri)s: %(why)s" % done
        log(text)
        if record["status"]:
            return record  # the command's own failure counts
        message = "%s on %s: %s" % (self.info.name, self.info.node, text)
        return dict(record, status=contract.EXIT_DATA, reason=STORE_FAILED, message=message)

    # --- the copying process ---
    def _copy(
        self, steps: list[dict[str, Any]], patience_s: float, limit_s: float = float("inf")
    ) -> dict[str, Any]:
        """Copy in a separate process, in another one if that dies; return its last message.

        Args:
            steps: What to copy.
            patience_s: How long an operation that fails is tried again.
            limit_s: How long all of it may take.

        Raises:
            Stopped: This task must end.
        """
        telling = _Telling(self, steps, patience_s)
        end = time.monotonic() + limit_s

        def copy() -> dict[str, Any]:
            request = {"steps": steps, "patience_s": patience_s}
            return self._copy_once(request, telling, end, limit_s)

        try:
            done: dict[str, Any] = retry(copy, patience_s, self._wait, telling.waiting)
        except StoreError as err:
            return _failed(steps, str(err))
        return done

    def _wait(self, pause_s: float) -> None:
        end = time.monotonic() + pause_s
        while time.monotonic() < end:
            if self.stopped():
                raise Stopped
            time.sleep(0.2)

    def _copy_once(
        self, request: dict[str, Any], telling: _Telling, end: float, limit_s: float
    ) -> dict[str, Any]:
        env = environment.with_modules(self.env)
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
            with contextlib.suppress(BrokenPipeError), process.stdin as sink:
                sink.write(json.dumps(request).encode("ascii"))
            for message in self._messages(process):
                if time.monotonic() > end:
                    why = "it was not done within %d s (finish_timeout)" % limit_s
                    return _failed(request["steps"], why)
                if message.get("t") in ("done", "failed"):
                    return message
                telling.message(message)
            died = process.wait()
        finally:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()
        text = "the copying process died (%s)"
        if died >= 0:  # its own failure, which is in the log
            raise StoreError(text % ("exit status %d" % died))
        raise StoreError(text % "killed, or out of memory", transient=True)

    def _messages(self, process: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
        """Yield the messages of the copying process, and {} while there is none, to its end.

        Raises:
            StoreError: It hangs.
            Stopped: This task must end.
        """
        assert process.stdout is not None
        handle, rest, heard = process.stdout.fileno(), b"", time.monotonic()
        while True:
            if self.stopped():
                raise Stopped
            if time.monotonic() > heard + SILENCE_S:
                raise StoreError("nothing was copied for %d s" % SILENCE_S, transient=True)
            if not select.select([handle], [], [], 0.5)[0]:
                yield {}
                continue
            data = os.read(handle, 65536)
            if not data:
                return
            heard = time.monotonic()
            *lines, rest = (rest + data).split(b"\n")
            yield from map(_message, lines)


class _Telling:
    """Tells how the copying goes: in the log, and in the report what its readers should know."""

    def __init__(self, data: Data, steps: list[dict[str, Any]], patience_s: float) -> None:
        """Start silent."""
        self.data, self.steps = data, steps
        self.limit_s = min(patience_s, float(data.info.task["finish_timeout_s"]))
        self.patience_s, self.told, self.stages = patience_s, 0.0, 0

    def message(self, message: Mapping[str, Any]) -> None:
        """Handle a message of the copying process."""
        kind = message.get("t")
        if kind == "found":
            for step in self.steps:
                if step["name"] == message["name"]:
                    step["was"] = message["was"]
        elif kind == "note":
            self.data.warn(str(message["text"]))
        elif kind == "waiting":
            self.waiting(StoreError(str(message["why"])), message["since_s"])
        elif kind == "copied" and self._is_due():
            log("copied so far: %d files, %s" % (message["files"], _amount(message["bytes"])))

    def _is_due(self) -> bool:
        due = time.monotonic() > self.told + TELL_S
        if due:
            self.told = time.monotonic()
        return due

    def waiting(self, err: StoreError, since_s: float) -> None:
        """Tell that the copying is tried again, and where the output is meanwhile."""
        step = self.steps[0]
        if step["do"] == "download":
            if self._is_due():
                log("still fetching: %s" % err)
            return
        stage = 2 if since_s >= self.limit_s else 1
        if stage <= self.stages:
            if self._is_due():
                log("not stored yet: %s" % err)
            return
        self.stages, self.told = stage, time.monotonic()
        where = "it is in %s on %s" % (step["from"], self.data.info.node)
        last_s = (self.limit_s if stage == 1 else self.patience_s) - since_s
        until = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(time.time() + last_s))
        text = "the output %s cannot be stored at %s yet; it is tried again until %s: %s"
        if stage == 2:
            text = "the output %s could not be stored at %s within finish_timeout; "
            text += where + " until %s, and is tried again: %s"
        self.data.warn(text % (step["name"], step["uri"], until, err))


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
