"""The process's stdout and stderr (a failure to write a result is an error, a failure to write a
message is not), and the colours of a terminal.
"""

from __future__ import annotations

import io
import os
import re
import select
import sys
from contextlib import suppress
from typing import Any, NoReturn

from submit_tf_job.errors import OutputError


class ReaderGoneError(Exception):
    """The program that read stdout has closed it.

    This class is not a BrokenPipeError, because a connection to the cluster may also raise that
    error, and because click has a special exit status for it.
    """


class _Result(io.FileIO):
    """The stream for stdout. A failed write raises OutputError, because the result is lost, or
    ReaderGoneError if the reader has closed the pipe.
    """

    def write(self, data: Any, /) -> int:
        try:
            written: int | None = super().write(data)
            # another process made the stream non-blocking, and its buffer is full
            while written is None:
                select.select([], [self], [])
                written = super().write(data)
        except BrokenPipeError as error:
            raise ReaderGoneError from error
        except OSError as error:
            raise OutputError(
                f"the result could not be written to stdout: {error.strerror}",
                hint="`submit_tf_job status JOB` shows the state of a job",
            ) from error
        return written


class _Messages(io.FileIO):
    """The stream for stderr. A failed write is ignored: a command does not fail because its
    terminal is closed or its disk is full.
    """

    def write(self, data: Any, /) -> int:
        with suppress(OSError):
            written = super().write(data)
            if written is not None:
                return written
        return memoryview(data).nbytes


def take_over() -> None:
    """Replace the process's stdout and stderr by `_Result` and `_Messages`; streams that a test has
    set are kept.

    If a stream was closed before the start (`>&-`), its file descriptor is reserved first:
    otherwise the next file or connection would get that number.
    """
    # a write to the new 1 fails: the result is lost
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        if not _is_open(number):
            os.open(os.devnull, mode)  # gets the lowest free number
    if sys.stdout is sys.__stdout__:
        if sys.stdout is not None:
            with suppress(OSError, ValueError):  # what a program printed before
                sys.stdout.flush()
        sys.stdout = _text_stream(
            _Result(1, "wb", closefd=False), sys.__stdout__, by_line=os.isatty(1)
        )
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text_stream(_Messages(2, "wb", closefd=False), sys.__stderr__, by_line=True)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _text_stream(raw: io.FileIO, before: object, *, by_line: bool) -> io.TextIOWrapper:
    encoding = before.encoding if isinstance(before, io.TextIOWrapper) else "utf-8"
    # A terminal without the character … must not cause an encoding error.
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=encoding, errors="backslashreplace", line_buffering=by_line
    )


def drop_output() -> None:
    """Discard what is left in the buffer of stdout, so that Python does not write it at exit."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def leave(status: int) -> NoReturn:
    """End the process at once, without Python's cleanup; output that is still in buffers is written
    first.
    """
    import logging

    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, OutputError, ReaderGoneError):
            stream.flush()
    os._exit(status)


# --- colours --------------------------------------------------------------------------------------

_RED, _GREEN, _YELLOW, _CYAN, _BOLD, _DIM = 31, 32, 33, 36, 1, 2
_STATES = {
    **dict.fromkeys(("STARTING", "RUNNING", "FINISHING"), _CYAN),
    **dict.fromkeys(("STOPPED", "UNKNOWN", "PENDING"), _YELLOW),
    "SUCCEEDED": _GREEN,
    "FAILED": _RED,
}
_TASK_STATES = {
    **dict.fromkeys(("running", "ready"), _CYAN),
    "succeeded": _GREEN,
    "failed": _RED,
    "lost": _RED,
    "restarting": _YELLOW,
}
_FINDINGS = {"ok": _GREEN, "WARNING": _YELLOW, "FAILURE": _RED}
_LABELS = {"first cause": _RED, "warning": _YELLOW, "error": _RED}
_COLOURS = {**_STATES, **_TASK_STATES, **_FINDINGS, **_LABELS}

# A kind of line, and the colour of each of its groups; None for that of its word. The
# parts are found by their position in the lines that `report` writes. Only states, headings, labels
# and secondary text are coloured, not a word that a program printed, such as FAILED in the output
# of its tests.
_LINES: tuple[tuple[str, tuple[int | None, ...]], ...] = (
    (r"(\S+-\d+ +\| )(?:.*)", (_DIM,)),  # a line of a program
    (r"( {0,2}[A-Z]{2,}(?: +[A-Z]{2,})+)", (_BOLD,)),
    (rf"(\d+:\d\d  )({'|'.join(_STATES)})\b.*", (_DIM, None)),
    (rf"(\S+) +({'|'.join(_STATES)})\b.*", (_BOLD, None)),
    (rf"  \S+-\d+ +({'|'.join(_TASK_STATES)})\b.*", (None,)),
    (rf"({'|'.join(_FINDINGS)}) +[a-z][a-z-]* .*", (None,)),
    (r"  (first cause|warning) .*", (None,)),
    (r"(warning|error): .*", (None,)),
    (
        r"( {2,}(?:hint: |next: |application_|application  |Ctrl-C|submit_tf_job |https?://|Fix: ).*)",  # noqa: E501
        (_DIM,),
    ),
)


def paint(line: str) -> str:
    """Return a line with colours added; the text itself is not changed."""
    for pattern, colours in _LINES:  # compiled here, as only a terminal needs them
        if found := re.fullmatch(pattern, line):
            painted, at = "", 0
            for group, colour in enumerate(colours, 1):
                start, end = found.span(group)
                code = _COLOURS[found[group]] if colour is None else colour
                painted += f"{line[at:start]}\x1b[{code}m{line[start:end]}\x1b[0m"
                at = end
            return painted + line[at:]
    return line
