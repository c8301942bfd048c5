"""Many files in one order, without holding many open."""

from __future__ import annotations

import heapq
import os
import struct
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from submit_tf_job.errors import SettingsError
from submit_tf_job.tasklogs.model import Origin, Run

__all__ = ["OPEN_AT_ONCE", "in_order"]

OPEN_AT_ONCE = 8  # an open file holds a connection and up to 4 MiB
_WINDOW = 64 * 1024
_HEAD = struct.Struct("<ddI")


def in_order(files: Sequence[Iterable[Run]]) -> Iterator[Run]:
    """Merge files by the time that their lines carry; where they carry none, the order of the files decides.

    Up to `OPEN_AT_ONCE` files are read side by side. More are read one after the other into one temporary file first, because the last line
    of the last file may be the oldest of all.

    Raises:
        SettingsError: There is no room for that file.
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


class _Kept(NamedTuple):
    start: int
    end: int


class _Spool:
    """The runs of many files, one file's after the other's, in one temporary file that has no name."""

    def __enter__(self) -> _Spool:
        self._file = tempfile.TemporaryFile()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._file.close()

    def take(self, runs: Iterable[Run]) -> Iterator[Run]:
        """Read a file to its end; return its runs, to be read again in small windows."""
        start, origin = self._file.tell(), None
        try:
            for run in runs:
                origin = run.origin
                self._file.write(_HEAD.pack(float("nan") if run.at is None else run.at, run.order, len(run.data)) + run.data)
            self._file.flush()
        except OSError as error:
            raise SettingsError(
                f"no room to put the logs in order in {tempfile.gettempdir()}: {error.strerror}",
                hint="Set TMPDIR to a larger place, or ask for fewer tasks, or for --tail.",
            ) from None
        return iter(()) if origin is None else self._again(origin, _Kept(start, self._file.tell()))

    def _again(self, origin: Origin, kept: _Kept) -> Iterator[Run]:
        place, window, at_window = kept.start, b"", kept.start
        while place < kept.end:
            for wanted in (_HEAD.size, 0):
                need = wanted or _HEAD.size + _HEAD.unpack_from(window, place - at_window)[2]
                if place + need > at_window + len(window):
                    window, at_window = os.pread(self._file.fileno(), max(need, min(_WINDOW, kept.end - place)), place), place
            at, order, length = _HEAD.unpack_from(window, place - at_window)
            begin = place - at_window + _HEAD.size
            yield Run(origin, None if at != at else at, order, window[begin : begin + length])
            place += _HEAD.size + length
