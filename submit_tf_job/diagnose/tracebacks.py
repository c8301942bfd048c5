"""The Python exception that ended a program, out of the end of its stderr."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["PythonError", "python_error"]

_START = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s+File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<function>\S+))?')
_LAST = re.compile(r"^(?:[A-Za-z_][\w.]*\.\w+|[A-Z_]\w*)(?:: .*)?$")
# What an exception class is called, where no traceback says so: a SyntaxError has none.
_BARE = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?\w*(?:Error|Exception|Interrupt|Warning)(?:: .*)?$")
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python3(?:\.\d+)?/|^<frozen |/python3?\.\d+/lib/|^<__array_function__")
_LONGEST = 500  # and never with Java's stack, which clients of HDFS put into theirs


@dataclass(frozen=True)
class PythonError:
    """A Python exception.

    Attributes:
        name: Its class without the module, `ModuleNotFoundError`.
        last_line: The traceback's last line.
        file: The user's own file that it came from, or "".
        line: The line in it.
        text: The whole of the traceback, with what was written after it.
    """

    name: str
    last_line: str
    file: str = ""
    line: int | None = None
    text: str = ""

    @property
    def place(self) -> str:
        """`train.py:12`, or ""."""
        return f"{self.file.rpartition('/')[2]}:{self.line}" if self.file else ""


def python_error(stderr: str) -> PythonError | None:
    """Find the last traceback of a program's stderr.

    One that Python ignored ("Exception ignored in …", in finalizers at the end) ended nothing and is passed over.
    """
    lines = stderr.split("\n")
    starts = [n for n, line in enumerate(lines) if line.strip().endswith(_START) and not _ignored(lines, n)]
    if not starts:
        return _without_traceback(lines)
    start = starts[-1]
    indent = len(lines[start]) - len(lines[start].lstrip())
    frames: list[re.Match[str]] = []
    for number in range(start + 1, len(lines)):
        line = lines[number][indent:] if lines[number][:indent].isspace() or not indent else lines[number]
        frame = _FRAME.match(line)
        if frame:
            frames.append(frame)
        elif line.strip() and not line.startswith((" ", "\t")):
            if not _LAST.match(line):
                continue  # somebody else's line in between: TensorFlow's C++ writes to the same stderr
            return _error(line, frames, "\n".join(lines[start:]))
    return None


def _ignored(lines: list[str], number: int) -> bool:
    return number > 0 and lines[number - 1].startswith("Exception ignored in")


def _without_traceback(lines: list[str]) -> PythonError | None:
    for number in range(len(lines) - 1, -1, -1):
        if _BARE.match(lines[number]):
            before = [frame for line in lines[max(0, number - 5) : number] if (frame := _FRAME.match(line))]
            if before:
                return _error(lines[number], before, "\n".join(lines[max(0, number - 5) :]))
    return None


def _error(line: str, frames: list[re.Match[str]], text: str) -> PythonError:
    name = line.partition(":")[0].rpartition(".")[2].strip()
    own = next((frame for frame in reversed(frames) if not _LIBRARY.search(frame["file"])), None)
    return PythonError(
        name, line.partition("\\n\\tat ")[0].strip()[:_LONGEST], own["file"] if own else "", int(own["line"]) if own else None, text
    )
