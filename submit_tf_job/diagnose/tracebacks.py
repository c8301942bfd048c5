"""Find the Python exception that ended a program, in the end of its stderr."""

from __future__ import annotations

import re
from dataclasses import dataclass

_START = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s+File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<function>\S+))?')
_LAST = re.compile(r"^(?:[A-Za-z_][\w.]*\.\w+|[A-Z_]\w*)(?:: .*)?$")
# Names of exception classes, for errors without a traceback such as SyntaxError.
_BARE = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?\w*(?:Error|Exception|Interrupt|Warning)(?:: .*)?$")
_LIBRARY = re.compile(
    r"/(?:site|dist)-packages/|/lib/python3(?:\.\d+)?/|/bin/torchrun$|^<frozen |/python3?\.\d+/lib/|^<__array_function__"  # noqa: E501
)
OF_TORCHRUN = "ChildFailedError"
# PyTorch writes it before each line of a traceback once the process group exists (seen on 2.15)
_RANK = re.compile(r"^\[rank\d+\]:(?: |$)")
_LONGEST = 500  # excludes Java's stack, which HDFS clients append


@dataclass(frozen=True)
class PythonError:
    """A Python exception.

    Attributes:
        name: Its class without the module, `ModuleNotFoundError`.
        last_line: The traceback's last line.
        file: The user's own file that it came from, or "".
        line: The line in that file.
        text: The whole traceback, with the lines that follow it.
    """

    name: str
    last_line: str
    file: str = ""
    line: int | None = None
    text: str = ""

    @property
    def place(self) -> str:
        """File and line, `train.py:12`, or ""."""
        return f"{self.file.rpartition('/')[2]}:{self.line}" if self.file else ""


def python_error(stderr: str) -> PythonError | None:
    """Return the exception of the last traceback in a program's stderr, or None.

    Exceptions that Python ignored ("Exception ignored in …", in finalizers at exit) are skipped,
    because they do not end a program.
    """
    lines = [_RANK.sub("", line) for line in stderr.split("\n")]
    starts = [
        n
        for n, line in enumerate(lines)
        if line.strip().endswith(_START) and not _ignored(lines, n)
    ]
    if not starts:
        return _without_traceback(lines)
    for start in reversed(starts):
        error = _of_traceback(lines, start)
        # torchrun's own exception follows that of the process that it ran
        if error is None or error.name != OF_TORCHRUN or start == starts[0]:
            return error
    return None


def _of_traceback(lines: list[str], start: int) -> PythonError | None:
    """Return the exception whose traceback begins at a line."""
    indent = len(lines[start]) - len(lines[start].lstrip())
    frames: list[re.Match[str]] = []
    for number in range(start + 1, len(lines)):
        line = (
            lines[number][indent:]
            if lines[number][:indent].isspace() or not indent
            else lines[number]
        )
        frame = _FRAME.match(line)
        if frame:
            frames.append(frame)
        elif line.strip() and not line.startswith((" ", "\t")):
            if not _LAST.match(line):
                # a line of TensorFlow's C++ code, which logs to the same stderr
                continue
            return _error(line, frames, "\n".join(lines[start:]))
    return None


def _ignored(lines: list[str], number: int) -> bool:
    return number > 0 and lines[number - 1].startswith("Exception ignored in")


def _without_traceback(lines: list[str]) -> PythonError | None:
    for number in range(len(lines) - 1, -1, -1):
        if _BARE.match(lines[number]):
            before = [
                frame
                for line in lines[max(0, number - 5) : number]
                if (frame := _FRAME.match(line))
            ]
            if before:
                return _error(lines[number], before, "\n".join(lines[max(0, number - 5) :]))
    return None


def _error(line: str, frames: list[re.Match[str]], text: str) -> PythonError:
    name = line.partition(":")[0].rpartition(".")[2].strip()
    own = next((frame for frame in reversed(frames) if not _LIBRARY.search(frame["file"])), None)
    return PythonError(
        name,
        line.partition("\\n\\tat ")[0].strip()[:_LONGEST],
        own["file"] if own else "",
        int(own["line"]) if own else None,
        text,
    )
