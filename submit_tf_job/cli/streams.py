"""The process's stdout and stderr: a result must be written, a message need not be."""

from __future__ import annotations

import io
import os
import select
import sys
from contextlib import suppress
from typing import Any, NoReturn

from submit_tf_job.errors import OutputError

__all__ = ["ReaderGoneError", "drop_output", "leave", "take_over"]


class ReaderGoneError(Exception):
    """The reader of stdout closed it.

    It is not a BrokenPipeError, because that may also come from a connection to the cluster, and
    click has an exit status of its own for it.
    """


class _Result(io.FileIO):
    """stdout: a failed write raises an error about the result."""

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
                hint="no other error is known; `submit_tf_job status JOB` shows the state of a job",
            ) from error
        return written


class _Messages(io.FileIO):
    """stderr: a closed terminal or a full disk does not fail the command."""

    def write(self, data: Any, /) -> int:
        with suppress(OSError):
            written = super().write(data)
            if written is not None:
                return written
        return memoryview(data).nbytes


def take_over() -> None:
    """Replace the process's stdout and stderr by `_Result` and `_Messages`; a test's streams stay.

    The number of a stream that was closed before the start (`>&-`) is reserved first: otherwise the
    next file or connection would get it.
    """
    # a write to the new 1 fails: the result is lost
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        if not _is_open(number):
            os.open(os.devnull, mode)  # gets the lowest free number
    if sys.stdout is sys.__stdout__:
        if sys.stdout is not None:
            with suppress(OSError, ValueError):  # what a program printed before
                sys.stdout.flush()
        sys.stdout = _text(_Result(1, "wb", closefd=False), sys.__stdout__, by_line=os.isatty(1))
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(_Messages(2, "wb", closefd=False), sys.__stderr__, by_line=True)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _text(raw: io.FileIO, before: object, *, by_line: bool) -> io.TextIOWrapper:
    encoding = before.encoding if isinstance(before, io.TextIOWrapper) else "utf-8"
    # A terminal without the character … must not cause an encoding error.
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=encoding, errors="backslashreplace", line_buffering=by_line
    )


def drop_output() -> None:
    """Discard the rest of stdout's buffer, so that Python does not write it at its end."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def leave(status: int) -> NoReturn:
    """End the process at once, without Python's cleanup; buffered output is written."""
    import logging

    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, OutputError, ReaderGoneError):
            stream.flush()
    os._exit(status)
