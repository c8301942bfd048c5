"""A task's inputs and outputs: variables, its share of the files, downloads and uploads."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from submit_tf_job.container import contract, own_python
from submit_tf_job.container.data.collect import collected, states
from submit_tf_job.container.data.store import StoreError, retry
from submit_tf_job.container.data.upload import is_empty
from submit_tf_job.container.data.webhdfs_client import GIVEN_TOKENS
from submit_tf_job.container.guards import in_thread
from submit_tf_job.container.info import BootstrapProblem, Info, log
from submit_tf_job.container.tokens import ENV_FILE, when

INPUTS, OUTPUTS = "tfjob-inputs", "tfjob-outputs"  # directories in the working directory
SILENCE_S = 300.0  # longest time without a message of the copying process
TELL_S = 30.0
OF_EACH = ("every-task", "all-that-write")  # `by` of outputs that each task stores for itself
FETCH_PATIENCE_S = 60.0  # how long a download is tried again
# how long a task stays for an output that could not be stored within `finish_timeout`
KEPT_S = 1800.0
WORDS = {
    "download": ("downloading", "from", "downloaded"),
    "upload": ("uploading", "to", "uploaded"),
}
TRANSFER = "submit_tf_job.container.data.transfer"
FETCH_FAILED, STORE_FAILED = "input-failed", "output-failed"
# the last message where the process did not say it; how much it copied is not known
_ALL_STORED = {"t": "done", "files": 0, "bytes": 0}


class Stopped(Exception):
    """A signal ends the task during a copy, so that nothing waits for the copy any more."""


class Data:
    """The inputs and outputs of one task."""

    def __init__(
        self,
        info: Info,
        env: dict[str, str],
        stopped: Callable[[], object],
        warn: Callable[[str, str], None],
    ) -> None:
        """Keep the arguments. Copies end when `stopped()` returns true; `env` is the environment of
        the program.

        `warn` puts a sentence into the job's report; any thread may call it. Its second argument is
        the subject: the sentence replaces an earlier one about the same subject, and "" removes
        that.
        """
        self.info, self.env, self.stopped, self.warn = info, env, stopped, warn
        self.task: Mapping[str, Any] = info.task["data"]
        self.reads = info.role in self.task["readers"]
        self.needs = self.reads or info.role in self.task["onlookers"]  # no share, but all files
        self.before: dict[str, dict[str, Any]] = {}  # what `collect` of an output finds already
        self.collected: list[str] = []  # paths that are stored with an output

    # --- before the command ---
    def prepare(self) -> None:
        """Set the variables, compute which input files are this task's, and download them. If a
        signal ends the task meanwhile, return without all of them.

        Raises:
            BootstrapProblem: An input cannot be downloaded, its list of files not be read, or a
                directory not be made.
            OSError: The list of this task's files cannot be written.
        """
        self.env.update(self.variables())
        steps = []
        for name, item in self.task["inputs"].items():
            share = self._share_of_files(name) if item["shard"] and self.needs else None
            if item["download"] and self.needs:
                to = self._make_folder(INPUTS, name)
                step = {"do": "download", "name": name, "uri": item["uri"], "to": to}
                steps.append(dict(step, file=to + ".files", share=share))
            elif share is not None:
                path = os.path.join(self._make_folder(INPUTS, ""), f"{name}.files")
                with open(path, "w", encoding="utf-8") as out:
                    out.write("".join(file + "\n" for file in share))
        for name, item in self.task["outputs"].items():
            if item["upload"]:
                self._make_folder(OUTPUTS, name)
                self.before[name] = states(self.info.workdir, item.get("collect", []))
        if steps:
            self._fetch_inputs(steps)

    def variables(self) -> dict[str, str]:
        """Return the variables of inputs and outputs, as they are before anything is copied."""
        found = {}
        for name, item in self.task["inputs"].items():
            copied = item["download"] and self.needs
            path = os.path.join(self.info.cwd, INPUTS, name)
            found[contract.ENV_INPUT + name.upper()] = path if copied else item["uri"]
            if copied or (item["shard"] and self.needs):
                found[contract.ENV_FILES + name.upper()] = path + ".files"
        for name, item in self.task["outputs"].items():
            path = os.path.join(self.info.cwd, OUTPUTS, name)
            found[contract.ENV_OUTPUT + name.upper()] = path if item["upload"] else item["uri"]
        return found

    def renew(self) -> None:
        """Make the outputs empty for the next start of the command, unless they are to be kept
        (`on_retry`).

        A killed command may have left half a file. Removing files may take long, so a thread does
        it.

        Raises:
            BootstrapProblem: The directory of an output cannot be made.
        """
        for name, item in self.task["outputs"].items():
            if item["upload"] and item["on_retry"] == "empty":
                path = os.path.join(self.info.cwd, OUTPUTS, name)  # perhaps of a file
                gone = os.path.join(self.info.cwd, OUTPUTS, f".{name}.gone")
                try:
                    os.rename(path, f"{gone}-{int(time.monotonic() * 1000)}")
                except OSError as err:
                    if os.path.lexists(path):  # else the program has removed it
                        text = f"{path} cannot be emptied: {err.strerror}"
                        raise BootstrapProblem(text, FETCH_FAILED) from err
                self._make_folder(OUTPUTS, name)
        in_thread("remover", self._remove_former, lambda err: log(f"old outputs stay: {err!r}"))

    def _remove_former(self) -> None:
        for path in glob.glob(os.path.join(glob.escape(self.info.cwd), OUTPUTS, ".*.gone-*")):
            shutil.rmtree(path, ignore_errors=True)
            with contextlib.suppress(OSError):
                os.remove(path)  # a file in place of the directory, or a link

    def _make_folder(self, kind: str, name: str) -> str:
        path = os.path.join(self.info.cwd, kind, name)
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as err:
            text = f"{path} cannot be made: {err.strerror}"
            raise BootstrapProblem(text, FETCH_FAILED) from err
        return path

    def _share_of_files(self, name: str) -> list[str]:
        """Return the files of this task: every n-th of the common list, where n tasks read the
        input; all files for a task that does not train but needs them.
        """
        path = os.path.join(self.info.cwd, contract.INPUT_LIST % name)
        try:
            files = list(filter(str.strip, _read_lines(path)))
        except OSError as err:
            text = f"the list of the input {name} cannot be read: {err}"
            raise BootstrapProblem(text, FETCH_FAILED) from err
        counts, readers = self.info.counts, self.task["readers"]
        total = sum(counts[role] for role in readers)
        if not self.reads:
            log(f"input {name}: all {len(files)} files, which {total} tasks share")
            return files
        before = readers[: readers.index(self.info.role)]
        first = sum(counts[role] for role in before) + self.info.index
        mine = files[first::total]
        text = "input %s: %d of %d files, share %d of %d"
        log(text % (name, len(mine), len(files), first + 1, total))
        return mine

    def _fetch_inputs(self, steps: list[dict[str, Any]]) -> None:
        try:
            done = _Copy(self, steps, FETCH_PATIENCE_S).run()
        except Stopped:
            return  # the event loop handles the signal and ends this task
        if done["t"] != "done":
            text = "the input {name} cannot be fetched from {uri}: {why}".format(**done)
            raise BootstrapProblem(text, FETCH_FAILED)
        for step in steps:
            single = os.path.join(step["to"], os.path.basename(step["uri"]))
            if step["share"] is None and _read_lines(step["file"]) == [single]:
                # a single file: the path itself
                self.env[contract.ENV_INPUT + step["name"].upper()] = single

    # --- after the command ---
    @property
    def patience_s(self) -> float:
        """How many seconds the deciding task of a failed job waits for the uploads of other
        tasks.
        """
        outputs = self.task["outputs"].values()
        kept = [item for item in outputs if item["on_failure"] != "discard"]
        others = any(item["upload"] in OF_EACH for item in kept)
        return float(self.info.task["finish_timeout_s"]) if others else 0.0

    def may_store(self, failed: bool) -> bool:
        """Return whether this task may have outputs to store after its command."""
        return any(self._own_outputs(failed))

    def _own_outputs(self, failed: bool = False) -> Iterator[tuple[str, Mapping[str, Any], str]]:
        """Yield the name, the entry of the task description and the URI of each output that this
        task stores; after a failure (`failed`) without those that are then discarded.
        """
        for name, item in self.task["outputs"].items():
            of_each = item["upload"] in OF_EACH
            trains = self.info.role_kind(self.info.role) == contract.KIND_TRAINS
            stores = item["upload"] and (trains if of_each else self.info.decides)
            if stores and not (failed and item["on_failure"] == "discard"):
                yield name, item, item["uri"] + (f"/{self.info.name}" if of_each else "")

    def uploads(self, failed: bool) -> list[dict[str, Any]]:
        """Return the outputs that this task uploads after its command, as steps for `store`.
        Outputs to which it wrote nothing may be left out; after a failure (`failed`), so are those
        that are then discarded.
        """
        steps = []
        for name, item, uri in self._own_outputs(failed):
            folder, overwrite = os.path.join(self.info.cwd, OUTPUTS, name), item["overwrite"]
            wrote = not is_empty(folder) or self._collected(name)
            if (failed or item["upload"] == "all-that-write") and not wrote:
                log(f"the output {name} is passed over: this task wrote nothing")
                self.warn("", name)
                continue
            told, beside = item["uri"], failed and item["on_failure"] == "keep"
            if beside:  # else of `every-task` what all have in common
                told = uri = f"{uri}.failed-{self.info.run}"
            run, task = self.info.run, self.info.name
            # application, attempt, number: each ApplicationMaster counts its containers anew
            container = "_".join(self.info.container.split("_")[-3:])
            mark = f"{run}-{task}-{container}"
            step = {"do": "upload", "name": name, "uri": uri, "told": told, "from": folder}
            step.update(overwrite=overwrite or beside, beside=beside)
            steps.append(dict(step, run=run, task=task, mark=mark))
        return steps

    def _collected(self, name: str) -> list[str]:
        """Return the paths, relative to `workdir`, of what `collect` of an output names."""
        patterns = self.task["outputs"][name].get("collect", [])
        return collected(self.info.workdir, patterns, self.before.get(name, {}))

    def unstored(self) -> Iterator[tuple[str, str]]:
        """Yield a warning that the task was stopped before an output was stored, and the output's
        name, for each output that this task stores. The warning is true until then.
        """
        for name, item, uri in self._own_outputs():
            rule = ", and its `on_failure` is discard" * (item["on_failure"] == "discard")
            who = self.info.name
            yield f"the output {name} of {who} is not stored at {uri}: stopped{rule}", name

    def store(
        self, record: dict[str, Any], steps: list[dict[str, Any]], failed: bool, saves: bool
    ) -> dict[str, Any]:
        """Upload outputs after a command; `record` is the command's record. Return the record of
        the task: with the outputs that are stored, and, if the command itself succeeded, with the
        failure of an upload. After a command that `failed`, such a failure is only a warning, and
        the upload may take `finish_timeout`; unless it `saves`: who stops the job waits then.

        This method blocks: call it in a thread.
        """
        limit_s = float(self.info.task["finish_timeout_s"])
        for step in steps:
            names = self._collected(step["name"])
            step["collected"] = {name: os.path.join(self.info.workdir, name) for name in names}
            self.collected += step["collected"].values()
        limits = (limit_s, limit_s) if failed and not saves else (limit_s + KEPT_S,)
        copy = _Copy(self, steps, *limits)
        try:
            done = copy.run()
        except Stopped:
            done = copy.failed("this task was stopped meanwhile")
        return self._record_after(record, steps, failed, done)

    def not_stored(
        self, record: dict[str, Any], steps: list[dict[str, Any]], failed: bool, why: str
    ) -> dict[str, Any]:
        """Return the result of `store` for an upload that cannot go on, because of `why`."""
        return self._record_after(record, steps, failed, _Copy(self, steps, 0.0).failed(why))

    def _record_after(
        self,
        record: dict[str, Any],
        steps: list[dict[str, Any]],
        failed: bool,
        done: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Warn of the outputs that are not stored; return the record of the task. `done` is the
        last message of the copy.
        """
        stored = [step for step in steps if "stored" in step]
        for step in stored:
            self.warn("", step["name"])
        record = dict(record, stored=[[step["name"], step["told"]] for step in stored])
        if done["t"] == "done":
            return record
        texts = [
            "the output {name} could not be stored at {uri}: {why}".format(**each)
            for each in [done, *done.get("more", ())]
        ]
        for text, each in zip(texts, [done, *done.get("more", ())]):
            log(text)
            # the message of a task that has failed or was stopped by it says nothing of outputs
            self.warn(text if failed or each is not done or self.stopped() else "", each["name"])
        if failed:
            return record  # the command's own failure counts, or the stop
        message = f"{self.info.name} on {self.info.node}: {texts[0]}"
        return dict(record, status=contract.EXIT_DATA, reason=STORE_FAILED, message=message)


class _Copy:
    """Copies in a process of its own; if that process dies or hangs, another one continues.

    The progress goes to the log; warnings go to the log and to the job's report.
    """

    def __init__(
        self,
        data: Data,
        steps: list[dict[str, Any]],
        patience_s: float,
        limit_s: float = float("inf"),
    ) -> None:
        """Keep the arguments. The whole copy may take `limit_s` seconds; an operation that fails is
        tried again for `patience_s` seconds.
        """
        self.data, self.steps, self.patience_s, self.limit_s = data, steps, patience_s, limit_s
        self.end = time.monotonic() + limit_s
        self.finish_s = min(patience_s, float(data.info.task["finish_timeout_s"]))
        self.told = 0.0
        self.stages: dict[str, int] = {}  # what is told of each output that cannot be stored

    def run(self) -> dict[str, Any]:
        """Copy, and return the last message of the process: `t` is "done" or "failed".

        Raises:
            Stopped: This task must end.
        """
        begins, place, ends = WORDS[self.steps[0]["do"]]
        what = [f"{step['name']} {place} {step['uri']}" for step in self.steps]
        log(f"{begins} {', '.join(what)}")
        started = time.monotonic()
        try:
            done: dict[str, Any] = retry(
                self._copy_once, self.patience_s, self._wait_unless_stopped, self._report_waiting
            )
        except StoreError as err:
            done = self.failed(str(err))
        if done["t"] == "done":
            took_s = time.monotonic() - started
            log(f"{ends} {done['files']} files, {done['bytes'] / 1e6:.1f} MB, in {took_s:.1f} s")
        return done

    def failed(self, why: str) -> dict[str, Any]:
        """Return the last message for a copy that has failed, with the reason; if nothing is left
        to copy, that of a copy that is done.
        """
        left = [step for step in self.steps if "stored" not in step]
        if not left:
            return dict(_ALL_STORED)
        each = [{"name": step["name"], "uri": step["uri"], "why": why} for step in left]
        return dict(each[0], t="failed", more=each[1:])

    def _wait_unless_stopped(self, pause_s: float) -> None:
        end = time.monotonic() + pause_s
        while time.monotonic() < end:
            if self.data.stopped():
                raise Stopped
            time.sleep(0.2)

    def _copy_once(self) -> dict[str, Any]:
        info, env = self.data.info, own_python.environment_of(self.data.info, self.data.env)
        env[GIVEN_TOKENS] = info.env.get(ENV_FILE, "")
        request = {"steps": self.steps, "patience_s": self.patience_s}
        argv = own_python.command_line(TRANSFER, info, self.data.env)
        cwd, pipe = own_python.directory_of(info), subprocess.PIPE
        try:
            with own_python.out_of_reach_of_stops():
                process = subprocess.Popen(argv, env=env, cwd=cwd, stdin=pipe, stdout=pipe)
        except OSError as err:  # no memory, too many processes
            text = f"the copying process cannot be started: {err.strerror}"
            raise StoreError(text, transient=True) from err
        how = ""
        with process:
            try:
                assert process.stdin is not None
                with contextlib.suppress(BrokenPipeError), process.stdin as sink:
                    sink.write(json.dumps(request).encode("ascii"))
                for message in self._messages_of_process(process):
                    if time.monotonic() > self.end:
                        why = f"it was not done within {int(self.limit_s)} s (finish_timeout)"
                        return self.failed(why)
                    if message.get("t") in ("done", "failed"):
                        return message
                    if message.get("t") == "broken":
                        how = str(message.get("why"))
                    self._pass_on_message(message)
                died = process.wait()
            finally:
                process.kill()
        if all("stored" in step for step in self.steps):
            return dict(_ALL_STORED)
        # its own failure is in the log; whatever it is, the container is kept for a while
        how = how or (f"exit status {died}" if died >= 0 else "killed, or out of memory")
        raise StoreError(f"the copying process died ({how})", transient=True)

    def _messages_of_process(self, process: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
        """Yield the messages of the copying process until its end, and {} while there is no
        message.

        Raises:
            StoreError: The process hangs.
            Stopped: This task must end.
        """
        assert process.stdout is not None
        handle, rest, heard = process.stdout.fileno(), b"", time.monotonic()
        ready = select.poll()  # select() knows the first 1,024 descriptors alone
        ready.register(handle, select.POLLIN)  # and its end
        while True:
            if self.data.stopped():
                raise Stopped
            if time.monotonic() > heard + SILENCE_S:
                raise StoreError(f"nothing was copied for {SILENCE_S:.0f} s", transient=True)
            if not ready.poll(500):
                yield {}
                continue
            data = os.read(handle, 65536)
            if not data:
                return
            heard = time.monotonic()
            *lines, rest = (rest + data).split(b"\n")
            yield from map(_parse_message, lines)

    def _pass_on_message(self, message: Mapping[str, Any]) -> None:
        kind = message.get("t")
        if kind in ("found", "stored"):  # another process must know it
            key, value = ("was", message["was"]) if kind == "found" else ("stored", message["old"])
            for step in self.steps:
                if step["name"] == message["name"]:
                    step[key] = value
        elif kind == "note":
            self.data.warn(str(message["text"]), "")
        elif kind == "said":
            log(str(message["text"]))
        elif kind == "waiting":
            why = StoreError(str(message["why"]))
            self._report_waiting(why, message["since_s"], message["name"])
        elif kind == "copied" and self._is_due():
            log(f"copied so far: {message['files']} files, {message['bytes'] / 1e6:.1f} MB")

    def _is_due(self) -> bool:
        due = time.monotonic() > self.told + TELL_S
        if due:
            self.told = time.monotonic()
        return due

    def _report_waiting(self, err: StoreError, since_s: float, name: str = "") -> None:
        """Log and report that the copying is tried again, and where the output is in the
        meantime. `name` is the input or output; "" for the first one that is not copied yet.
        """
        left = [step for step in self.steps if name in ("", step["name"]) and "stored" not in step]
        step, stage = (left or self.steps)[0], 2 if since_s >= self.finish_s else 1
        fetches = step["do"] == "download"
        if fetches or stage <= self.stages.get(step["name"], 0):
            if self._is_due():
                log(f"{'still fetching' if fetches else 'not stored yet'}: {err}")
            return
        self.stages[step["name"]], self.told = stage, time.monotonic()
        last_s = (self.finish_s if stage == 1 else self.patience_s) - since_s
        until, uri = when(time.time() + last_s), step["uri"]
        text = f"cannot be stored at {uri} yet; it is tried again until {until}"
        if stage == 2:
            beside = f" (and in {self.data.info.workdir})" if step.get("collected") else ""
            place = (step["from"] + beside, self.data.info.node, until)
            text = f"could not be stored at {uri} within finish_timeout; "
            text += "it is in {} on {} until {}, and is tried again".format(*place)
        self.data.warn(f"the output {step['name']} {text}: {err}", step["name"])


def _parse_message(line: bytes) -> dict[str, Any]:
    """Return a line of the copying process as a message; {} for a line printed by other code of the
    image when Python starts.
    """
    try:
        found = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _read_lines(path: str) -> list[str]:
    with open(path, encoding="utf-8") as source:
        return [line.rstrip("\n") for line in source]
