"""Parse the index with times of writing that the bootstrap keeps beside a container's files."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator

from submit_tf_job.container import contract
from submit_tf_job.logs.entries import Run

__all__ = ["Stamps", "offset_before", "read_stamps", "stamped"]

# sorted pairs: an offset in a file, and the time when the bytes there were written
Stamps = tuple[tuple[int, float], ...]

_WRITING_S = 1.0  # a program takes the time of a line before it writes the line


def read_stamps(data: bytes) -> dict[str, Stamps]:
    """Parse an index into stamps by file; ignore invalid lines."""
    found: dict[str, list[tuple[int, float]]] = {}
    for line in data.splitlines():
        words = line.split(b" ")
        try:
            name, offset, time = words[0].decode("ascii"), int(words[1]), float(words[2])
        except (ValueError, IndexError):
            continue
        if offset >= 0 and 0 <= time < 1e11:
            found.setdefault(name, []).append((offset, time))
    return {name: tuple(sorted(pairs)) for name, pairs in found.items()}


def offset_before(stamps: Stamps, since: float) -> int:
    """Return an offset before which all lines are older than `since`."""
    at = bisect.bisect_right([_latest(stamps, time) for _offset, time in stamps], since)
    return (0, *(offset for offset, _time in stamps))[at]


def _latest(stamps: Stamps, time: float) -> float:
    """Return the latest write time for a record at `time`; records of long tasks are rare."""
    age = max(0.0, time - stamps[0][1])
    return time + next(pace for until, pace in contract.TIMES_PACES if age < until)


def stamped(runs: Iterable[Run], start: int, stamps: Stamps) -> Iterator[Run]:
    """Set each run's time of writing, and cut runs where it changes.

    Args:
        runs: All runs of a file from `start` on.
        start: Offset of the first in the file.
        stamps: The file's index.
    """
    offsets = [offset for offset, _time in stamps]
    latest = float("-inf")
    for run in runs:
        for part in _cut(run, start, offsets):
            at = bisect.bisect_right(offsets, start) - 1
            latest, written = max(latest, run.order), None
            if at >= 0:
                begun = stamps[at][1]
                floor = begun if part.at is None else begun - _WRITING_S
                latest, written = max(latest, floor), _latest(stamps, begun)
            yield part._replace(order=latest, written=written)
            start += len(part.data)


def _cut(run: Run, start: int, offsets: list[int]) -> Iterator[Run]:
    """Cut a run at the first line at or behind each offset."""
    place, rest = 0, run
    first = bisect.bisect_right(offsets, start)
    last = bisect.bisect_left(offsets, start + len(run.data))
    for offset in offsets[first:last]:
        end = offset - start
        if end > place and run.data[end - 1 : end] != b"\n":
            end = run.data.find(b"\n", end) + 1
        if not place < end < len(run.data):
            continue
        yield rest._replace(data=run.data[place:end])
        place, rest = end, run._replace(at=None)
    yield rest._replace(data=run.data[place:])
