"""Format log lines as text, with the task's name before each line, or as JSON objects; and format
the list of log files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from submit_tf_job.diagnose.amounts import clause, size
from submit_tf_job.json_values import document
from submit_tf_job.logs.lines import as_left
from submit_tf_job.report.table import clean

if TYPE_CHECKING:
    from submit_tf_job.logs.entries import LogInventory, LogLine
    from submit_tf_job.logs.read import Reading

_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)  # without red, which means an error
_HARMLESS = bytes([*range(0x20, 0x7F), 0x09, 0x0A])


def log_text(
    reading: Reading, *, prefix: bool | None, colours: bool, timestamps: bool = False
) -> Iterator[str]:
    """Yield the lines as text for a terminal or a file, several at a time, each with its newline.

    Args:
        reading: The lines.
        prefix: Whether each line begins with the name of its task; None for yes if there may be
            several tasks.
        colours: Whether the tasks are coloured.
        timestamps: Whether each line begins with the local time at which it was written.
    """
    if prefix is None:
        prefix = len(reading.tasks) != 1
    heads = _Heads(reading.tasks, colours)
    for run in reading.runs(times=timestamps):
        head = ""
        if prefix:
            head = heads.of(run.origin.container.task)
        if not timestamps:
            yield _printable_lines(run.data, head)
            continue
        first, _end, rest = run.data.partition(b"\n")
        at = run.at
        if at is None:
            at = run.written
        yield _printable_lines(first + b"\n", _time_head(at, colours) + head)
        if rest:
            yield _printable_lines(rest, _time_head(run.written, colours) + head)


class _Heads:
    """The text before the lines of each task, with a different colour for each task.

    Args:
        tasks: The tasks that are known already; others may be added later.
        colours: Whether the tasks are coloured.
    """

    def __init__(self, tasks: Sequence[str], colours: bool) -> None:
        self._colours = colours
        self._width = max(map(len, tasks), default=0)
        self._seen: dict[str, int] = {}

    def of(self, task: str) -> str:
        """Return the text before the lines of a task."""
        self._width = max(self._width, len(task))
        number = self._seen.setdefault(task, len(self._seen))
        words = f"{clean(task):<{self._width}} | "
        if self._colours:
            return f"\x1b[{_COLOURS[number % len(_COLOURS)]}m{words}\x1b[0m"
        return words


class TaskPrinter:
    """Formats lines as they arrive, with the name of its task before each line.

    Args:
        tasks: All tasks; the lines of a single task have no prefix.
        colours: Whether the tasks are coloured.
    """

    def __init__(self, tasks: Sequence[str], colours: bool) -> None:
        heads = _Heads(tasks, colours)
        self._heads = {task: heads.of(task) for task in tasks}
        if len(tasks) == 1:
            self._heads = dict.fromkeys(tasks, "")

    def line(self, task: str, text: str) -> str:
        """Return one line as it is shown, with its newline."""
        return f"{self._heads[task]}{clean(as_left(text))}\n"


def _time_head(at: float | None, colours: bool) -> str:
    words = " " * 20
    if at is not None:
        words = f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M:%S} "
    if colours:
        return f"\x1b[2m{words}\x1b[0m"
    return words


def _printable_lines(data: bytes, head: str) -> str:
    """Return lines for a terminal, each after `head`, with control characters escaped."""
    text = data.decode("utf-8", "backslashreplace")
    harmless = not data.translate(None, _HARMLESS)
    if harmless or text.replace("\n", "").replace("\t", "").isprintable():
        if not head:
            return text
        return head + text[:-1].replace("\n", f"\n{head}") + "\n"
    return "".join(f"{head}{clean(as_left(line))}\n" for line in text.split("\n")[:-1])


def log_json(reading: Reading) -> Iterator[str]:
    """Yield each line as a JSON object on a separate line."""
    for line in reading:
        yield json.dumps(line_object(line)).replace("\x7f", "\\u007f") + "\n"


def _instant_or_none(moment: datetime | None) -> str | None:
    if moment is None:
        return None
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def line_object(line: LogLine) -> dict[str, Any]:
    """Return the JSON object of one log line."""
    return document(
        "LogLine",
        task=line.task,
        container=line.container,
        file=line.file,
        text=line.text,
        time=_instant_or_none(line.time),
        written=_instant_or_none(line.written),
    )


def inventory_lines(inventory: LogInventory) -> Iterator[str]:
    """Return lines with the log files of each container."""
    width = max(
        (len(info.name) for _container, files in inventory.containers for info in files), default=0
    )
    for container, files in inventory.containers:
        yield f"{container.task}  {container.id}{clause(' on {}', container.host)}"
        for info in files:
            yield f"  {info.name:<{width}}  {'-' if info.size is None else size(info.size)}"


def inventory_object(inventory: LogInventory) -> dict[str, Any]:
    """Return the JSON object with the list of log files."""
    return document(
        "LogFiles",
        job=inventory.job,
        application_id=inventory.application_id,
        source=inventory.source,
        containers=[
            {
                "task": container.task,
                "container": container.id,
                "host": container.host,
                "files": [{"name": info.name, "size": info.size} for info in files],
            }
            for container, files in inventory.containers
        ],
    )
