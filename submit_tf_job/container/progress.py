"""The progress of tasks: what a program reports about itself, and which tasks have stopped making
progress.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import Any

from submit_tf_job.container import contract, untrusted
from submit_tf_job.container.task_files import open_regular, size_of

PROGRESS_LIMIT = 4096
STDOUT_LIMIT = 65536  # bytes read per poll: the end of what the program wrote since the last one


def _on_one_line(text: str) -> str:
    """Return a text on one line."""
    return " ".join(text.split())


def clean_progress(value: Any) -> dict[str, Any] | None:
    """Return the valid parts of the progress that a program reported; invalid parts are None or
    left out. None if the value is not an object.
    """
    if not isinstance(value, dict):
        return None
    metrics = value.get("metrics")
    pairs = list(metrics.items())[:50] if isinstance(metrics, dict) else []
    clean: dict[str, Any] = {
        "step": untrusted.number(value.get("step")),
        "total": untrusted.number(value.get("total")),
        "metrics": {_on_one_line(name)[:100]: untrusted.metric(number) for name, number in pairs},
    }
    unit, part = value.get("unit"), untrusted.number(value.get("part"))
    if isinstance(unit, str) and unit:
        clean["unit"] = _on_one_line(unit)[:20]
    if part is not None and 0 <= part <= 1:
        clean["part"] = part
    told = untrusted.number(value.get("metrics_step"))
    if told is not None:
        clean["metrics_step"] = told
    return clean


class Progress:
    """Reads progress from the file at TFJOB_PROGRESS_FILE, and from stdout.

    On stdout, lines that start with `contract.PROGRESS_MARK` are read as progress, and also Keras's
    output. As soon as a program uses the file or the mark, Keras's output is ignored. A file of
    more than `PROGRESS_LIMIT` bytes is ignored.
    """

    def __init__(self, path: str, stdout: str = "") -> None:
        """Keep the paths of both files, which need not exist yet; `poll` skips the content that
        `stdout` has now.
        """
        self.path, self.stdout, self._seen = path, stdout, (0, 0, 0)
        self._read = size_of(stdout)
        self._keras: Keras | None = Keras()

    def poll(self) -> dict[str, Any] | None:
        """Return the latest valid progress since the last call; None if there is none. Progress in
        the file counts before that in stdout.
        """
        printed = self._of_stdout()
        written = self._of_file()
        if written:
            self._keras = None
        return written or printed

    def _of_stdout(self) -> dict[str, Any] | None:
        size = size_of(self.stdout)
        if size < self._read:
            self._read = 0  # the program has emptied it
        if size == self._read:
            return None
        try:
            with open(open_regular(self.stdout), "rb") as source:
                source.seek(max(self._read, size - STDOUT_LIMIT))
                text = source.read(STDOUT_LIMIT)
        except OSError:
            return None
        # a progress bar ends with a carriage return
        end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        unfinished = len(text) - end
        # An unfinished line is read again, up to a limit.
        self._read = size - (unfinished if unfinished < PROGRESS_LIMIT else 0)
        whole = text[:end].decode("utf-8", "replace")
        marked = _last_marked_progress(whole)
        if marked:
            self._keras = None
        return marked or clean_progress(self._keras and self._keras.read(whole))

    def _of_file(self) -> dict[str, Any] | None:
        try:
            found = os.stat(self.path)
            mark = (found.st_mtime_ns, found.st_size, found.st_ino)
            if mark == self._seen or found.st_size > PROGRESS_LIMIT:
                return None
            self._seen = mark
            with open(open_regular(self.path), "rb") as source:
                return _parse_progress(source.read(PROGRESS_LIMIT).decode("utf-8"))
        except (OSError, ValueError):
            return None


def _parse_progress(text: str) -> dict[str, Any] | None:
    """Return the progress that a program has written.

    Raises:
        ValueError: The text is not JSON.
    """
    return clean_progress(untrusted.parse(text, constant=str))


def _last_marked_progress(text: str) -> dict[str, Any] | None:
    """Return the last valid progress line of a text; None if there is none."""
    for line in reversed(text.replace("\r", "\n").split("\n")):
        if line.startswith(contract.PROGRESS_MARK):
            try:
                found = _parse_progress(line[len(contract.PROGRESS_MARK) :])
            except ValueError:
                continue
            if found:
                return found
    return None


# --- Keras ----------------------------------------------------------------------------------------
# Not compiled at the start, which need not wait for that; `re` keeps them.
_LINE_ENDS = "[\n\r\b]+"
_STYLE = "\x1b\\[[0-9;]*m"  # Keras 3 colours its bar
_EPOCH = r"Epoch (\d{1,9})/(\d{1,9})\b"
_BATCH = r"(\d{1,12})/(\d{1,12}|Unknown)\s"
_METRIC = r" - ([A-Za-z_][\w./-]{0,99}): (-?\d[\d.e+-]{0,30}|nan|-?inf)(?=\s|$)"


class Keras:
    """Parses Keras's output, and keeps the epoch between two reads.

    `Epoch 3/10`, then `12/32 [=>...] - ETA: 3s - loss: 0.41`, as Keras 2 and 3 print it: with bars
    that are redrawn (carriage returns and backspaces), and with one line per epoch (`verbose=2`).
    From a bar that has not reached its end, only `part` is taken: with a strategy of several
    workers, the metrics in it are sums over the replicas ("accuracy: 1.9062" with two replicas)
    until the epoch ends.
    """

    def __init__(self) -> None:
        self._epoch = self._epochs = 0
        self._metrics: dict[str, float] = {}
        self._whole = 0  # the epoch whose metrics these are

    def read(self, text: str) -> dict[str, Any] | None:
        """Return the last progress in `text`, which has only whole lines; None if there is none."""
        found = None
        for line in re.split(_LINE_ENDS, text):
            found = self._parse_keras_line(re.sub(_STYLE, "", line).strip()) or found
        return found

    def _parse_keras_line(self, line: str) -> dict[str, Any] | None:
        epoch, batch = re.match(_EPOCH, line), re.match(_BATCH, line)
        done = 0.0
        if epoch and 0 < int(epoch.group(1)) <= int(epoch.group(2)):
            self._epoch, self._epochs = int(epoch.group(1)), int(epoch.group(2))
        elif batch and self._epochs:
            if batch.group(2).isdigit() and int(batch.group(2)):
                done = min(1.0, int(batch.group(1)) / int(batch.group(2)))
        else:
            return None
        metrics: dict[str, float] = {}
        for name, value in re.findall(_METRIC, line):
            with contextlib.suppress(ValueError):
                metrics[name] = float(value)
        if batch and not metrics:
            return None  # any program may print `3/10 `
        # "ETA" stands in Keras 2's bar of the last batch, until the epoch has ended
        if batch and batch.group(1) == batch.group(2) and " ETA: " not in line:
            self._metrics, self._whole = metrics, self._epoch
        part = (self._epoch - 1 + done) / self._epochs
        earlier = self._metrics and self._whole != self._epoch
        return {
            **({"metrics_step": self._whole} if earlier else {}),
            "step": self._epoch,
            "total": self._epochs,
            "unit": "epoch",
            "part": round(part, 6),
            "metrics": self._metrics,
        }


# --- which tasks stand still ----------------------------------------------------------------------
# Those that have printed nothing, and told no step, for longer than usual. Only what a task has
# done before counts as usual: one that is silent by nature (a worker whose chief prints for all) is
# never named, and one that prints once an epoch has twice that long.
STILL_S = 120.0  # the least time without news
SILENT = 5  # times that, of tasks that have printed nothing but at their start
STARTING = 0.5  # times that, in which what a program prints is no rhythm
LISTED = 20


class LastNews:
    """When a task last printed something or reported a step, and the longest pause before that."""

    def __init__(self, now: float) -> None:
        self.news_at, self.longest_s = now, 0.0
        self.step: float | None = None
        self.speaks = False


class TaskNews:
    """When each task last printed something or reported a step, since the commands started. This
    class has no clock.
    """

    def __init__(self, still_s: float) -> None:
        """Start without tasks. A task stands still if it has had no news for `still_s` seconds; for
        twice its longest earlier pause, if that is longer; or for five times `still_s`, if it has
        had none but at its start.
        """
        self.still_s = still_s
        self.tasks: dict[str, LastNews] = {}
        self.began = 0.0

    def begin(self, now: float) -> None:
        """Forget all tasks, because the commands start (again)."""
        self.tasks, self.began = {}, now

    def heard(self, at: float, name: str, step: float | None = None) -> None:
        """Record that a task printed something, or reported a step, at a time."""
        task = self.tasks.setdefault(name, LastNews(self.began))
        if at > task.news_at:
            early = self.began + STARTING * self.still_s
            if task.news_at > early:
                task.longest_s = max(task.longest_s, at - task.news_at)
            task.news_at, task.speaks = at, task.speaks or at > early
        if step is not None:
            task.step, task.speaks = step, True

    def last(self, names: list[str]) -> float:
        """Return the latest time at which any of the given tasks printed something or reported a
        step; the start of the commands if none did.
        """
        known = [self.tasks[name].news_at for name in names if name in self.tasks]
        return max(known, default=self.began)

    def found(self, now: float, names: list[str], wall: float) -> dict[str, Any] | None:
        """Return the tasks that stand still, in the form of the report, which names at most
        `LISTED` of them.

        While some tasks have news, those that had none after their start are left out: they may be
        silent by nature. If no task has news, the result is None until all have been silent long
        enough. It is None, too, if no task stands still.

        Args:
            now: The time now.
            names: The tasks whose news counts: tasks that train and whose commands run.
            wall: The difference between seconds since 1970 and the times that this class gets.
        """
        known = {name: self.tasks.get(name) or LastNews(self.began) for name in names}
        still = {name: task for name, task in known.items() if self._is_still(now, task)}
        moving = [task for task in known.values() if now < task.news_at + self.still_s]
        if moving:
            still = {name: task for name, task in still.items() if task.speaks}
        if not still or (not moving and len(still) < len(known)):
            return None
        return {
            "all": not moving,
            "count": len(still),
            "since": wall + max(task.news_at for task in still.values()),
            "tasks": [
                {"task": name, "since": wall + task.news_at, "step": task.step}
                for name, task in list(still.items())[:LISTED]
            ],
            "others_step": max((t.step for t in moving if t.step is not None), default=None),
        }

    def _is_still(self, now: float, task: LastNews) -> bool:
        limit = max(self.still_s, 2 * task.longest_s) if task.speaks else SILENT * self.still_s
        return now >= task.news_at + limit
