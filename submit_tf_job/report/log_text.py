"""Logs: lines as text with the task before them, as JSON objects, and the list of files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from submit_tf_job.report.model import FORMAT_VERSION
from submit_tf_job.report.untrusted import clean

if TYPE_CHECKING:
    from submit_tf_job.tasklogs.model import LogInventory, LogLine
    from submit_tf_job.tasklogs.reader import Reading

__all__ = ["TaskPrinter", "inventory_lines", "inventory_object", "line_object", "log_json", "log_text"]

_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)  # nothing red: a task is no error
_HARMLESS = bytes([*range(0x20, 0x7F), 0x09, 0x0A])


def log_text(reading: Reading, *, prefix: bool | None, colours: bool) -> Iterator[str]:
    """Give the lines as text for a terminal or a file, several at a time, each with its end.

    Args:
        reading: The lines.
        prefix: Whether each line begins with its task; None where several tasks may come.
        colours: Whether the tasks are coloured.
    """
    prefixed = len(reading.tasks) != 1 if prefix is None else prefix
    width = max(map(len, reading.tasks), default=0)
    colour_of: dict[str, int | None] = {}
    for run in reading.runs():
        task = run.origin.container.task
        width = max(width, len(task))  # tasks that are followed from the beginning come one by one
        colour = colour_of.setdefault(task, _COLOURS[len(colour_of) % len(_COLOURS)] if colours else None)
        yield _shown(run.data, _head(task, width, colour) if prefixed else "")


class TaskPrinter:
    """Writes lines as they come, each with its task before it.

    Args:
        tasks: All tasks that there are; one alone stands before no line.
        colours: Whether they are coloured.
    """

    def __init__(self, tasks: Sequence[str], colours: bool) -> None:
        width = max(map(len, tasks), default=0)
        wheel = {task: _COLOURS[number % len(_COLOURS)] if colours else None for number, task in enumerate(tasks)}
        self._heads = {task: _head(task, width, wheel[task]) if len(tasks) > 1 else "" for task in tasks}

    def line(self, task: str, text: str) -> str:
        """Return one line as it is to be shown, with its end."""
        return f"{self._heads[task]}{clean(_as_left(text))}\n"


def _head(task: str, width: int, colour: int | None) -> str:
    words = f"{clean(task):<{width}} | "
    return words if colour is None else f"\x1b[{colour}m{words}\x1b[0m"


def _shown(data: bytes, head: str) -> str:
    """Make lines fit for a terminal: what tasks write must not get to it as it is."""
    text = data.decode("utf-8", "backslashreplace")
    if not data.translate(None, _HARMLESS) or text.replace("\n", "").replace("\t", "").isprintable():
        return head + text[:-1].replace("\n", f"\n{head}") + "\n" if head else text
    return "".join(f"{head}{clean(_as_left(line))}\n" for line in text.split("\n")[:-1])


def _as_left(line: str) -> str:
    """Show a line that was drawn again and again, such as a progress bar, as a terminal would have left it."""
    return line.rstrip("\r").rpartition("\r")[2]


def log_json(reading: Reading) -> Iterator[str]:
    """Give each line as a JSON object on a line of its own."""
    for line in reading:
        yield json.dumps(line_object(line)).replace("\x7f", "\\u007f") + "\n"


def line_object(line: LogLine) -> dict[str, Any]:
    """Build the object of one line."""
    time = line.time.isoformat(timespec="microseconds").replace("+00:00", "Z") if line.time else None
    return {
        "kind": "LogLine",
        "format": FORMAT_VERSION,
        "task": line.task,
        "container": line.container,
        "file": line.file,
        "text": line.text,
        "time": time,
    }


def inventory_lines(inventory: LogInventory) -> Iterator[str]:
    """List the files of each container."""
    width = max((len(info.name) for _container, files in inventory.containers for info in files), default=0)
    for container, files in inventory.containers:
        where = f" on {container.host}" if container.host else ""
        yield f"{container.task}  {container.id}{where}"
        for info in files:
            yield f"  {info.name:<{width}}  {_size(info.size)}"


def _size(size: int | None) -> str:
    if size is None:
        return "-"
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"


def inventory_object(inventory: LogInventory) -> dict[str, Any]:
    """Build the object of the list of files."""
    return {
        "kind": "LogFiles",
        "format": FORMAT_VERSION,
        "job": inventory.job,
        "application_id": inventory.application_id,
        "source": inventory.source,
        "containers": [
            {
                "task": container.task,
                "container": container.id,
                "host": container.host,
                "files": [{"name": info.name, "size": info.size} for info in files],
            }
            for container, files in inventory.containers
        ],
    }
