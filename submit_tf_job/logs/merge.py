"""Read many files: several requests at once, and lines merged by time, with few files open."""

from __future__ import annotations

import heapq
import math
import os
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from submit_tf_job.errors import SettingsError
from submit_tf_job.logs.entries import Origin, Run

T = TypeVar("T")
R = TypeVar("R")

OPEN_AT_ONCE = 8  # an open file holds a connection and up to 4 MiB
_WINDOW = 64 * 1024
_HEAD = struct.Struct("<dddI")


def in_threads(call: Callable[[T], R], values: Sequence[T], most: int) -> list[R]:
    """Return the result for each value, in their order; several are computed in threads.

    Args:
        call: The function.
        values: Its arguments.
        most: Maximum number of threads.
    """
    threads = min(most, len(values))
    if threads <= 1:
        return [call(value) for value in values]
    with ThreadPoolExecutor(max_workers=threads) as pool:
        return list(pool.map(call, values))


def in_order(files: Sequence[Iterable[Run]]) -> Iterator[Run]:
    """Merge files by the times of their lines; files without times keep their order.

    Up to `OPEN_AT_ONCE` files are read side by side. More are first read one by one into one
    temporary file, because the last line of the last file may be the oldest of all.

    Raises:
        SettingsError: The disk has no space for that file.
    """
    if len(files) == 1:
        yield from files[0]
    elif len(files) <= OPEN_AT_ONCE:
        yield from heapq.merge(*files, key=_when)
    else:
        with _Spool() as spool:
            yield from heapq.merge(*[spool.take(runs) for runs in files], key=_when)


def _when(run: Run) -> float:
    return run.order


def _packed(time: float | None) -> float:
    return math.nan if time is None else time


def _unpacked(time: float) -> float | None:
    return None if math.isnan(time) else time


class _Spool:
    """The runs of many files in one temporary file without a name."""

    def __enter__(self) -> _Spool:
        self._file = tempfile.TemporaryFile()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._file.close()

    def take(self, runs: Iterable[Run]) -> Iterator[Run]:
        """Copy a file's runs; return them as an iterator that reads small windows."""
        start, origin = self._file.tell(), None
        try:
            for run in runs:
                origin = run.origin
                self._file.write(
                    _HEAD.pack(_packed(run.at), run.order, _packed(run.written), len(run.data))
                    + run.data
                )
            self._file.flush()
        except OSError as error:
            raise SettingsError(
                f"no space in {tempfile.gettempdir()} to sort the logs: {error.strerror}",
                hint="Set TMPDIR to a larger directory, or use --tail, or name one task.",
            ) from None
        if origin is None:
            return iter(())
        return self._again(origin, start, self._file.tell())

    def _again(self, origin: Origin, place: int, end: int) -> Iterator[Run]:
        window, at = b"", 0  # the bytes from `place` on, and where the next run begins in them
        while place + at < end:
            have = len(window) - at
            need = _HEAD.size
            if have >= need:
                need += _HEAD.unpack_from(window, at)[3]
            if have < need:
                place, at = place + at, 0
                size = max(need, min(_WINDOW, end - place))
                window = os.pread(self._file.fileno(), size, place)
                continue
            time, order, written, length = _HEAD.unpack_from(window, at)
            at += _HEAD.size + length
            yield Run(origin, _unpacked(time), order, window[at - length : at], _unpacked(written))
