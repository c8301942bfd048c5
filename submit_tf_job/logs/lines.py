"""From the bytes of a file to runs of lines: cut, dated, filtered, from the end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from submit_tf_job.tasklogs.model import Origin, Run
from submit_tf_job.tasklogs.times import Dates

__all__ = [
    "NEVER",
    "Cutter",
    "after",
    "begins_at",
    "begins_before",
    "dated",
    "last_lines",
    "matching",
    "runs_of",
    "start_of_tail",
    "text_of",
]

LONGEST_LINE = 64 * 1024  # a file without any line end must not fill the memory
FIRST_TAIL = 8 * 1024
TAIL_GROWTH = 8
NEVER = float("-inf")
MOST_UNDATED = 16


class Cutter:
    """Keeps the beginning of a line until its end comes."""

    def __init__(self) -> None:
        """Begin at a line's beginning."""
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Take bytes, return whole lines."""
        end = data.rfind(b"\n") + 1
        if end:
            lines, self._rest = self._rest + data[:end], data[end:]
        else:
            lines, self._rest = b"", self._rest + data
        if len(self._rest) > LONGEST_LINE:
            lines, self._rest = lines + self._rest + b"\n", b""
        return lines

    def flush(self) -> bytes:
        """Return what is left as a line."""
        rest, self._rest = self._rest, b""
        return rest + b"\n" if rest else b""


def text_of(line: bytes) -> str:
    """Decode a line, its end taken off; bytes that are no UTF-8 are written as `\\xff`."""
    return line.rstrip(b"\r\n").decode("utf-8", "backslashreplace")


def dated(origin: Origin, pieces: Iterable[bytes], dates: Dates | None, cutter: Cutter | None = None) -> Iterator[Run]:
    """Cut a file into runs: a line with a time begins a new one.

    Args:
        origin: Whose file it is.
        pieces: Its bytes.
        dates: Reads times; None where the order does not matter, and every piece is one run.
        cutter: Gets the last line where it has no end yet; without one, that line is given as it is.
    """
    order = NEVER
    keeper = cutter or Cutter()
    for piece in pieces:
        for run in runs_of(origin, keeper.feed(piece), dates, order):
            order = run.order
            yield run
    if cutter is None:
        yield from runs_of(origin, keeper.flush(), dates, order)


def runs_of(origin: Origin, lines: bytes, dates: Dates | None, order: float) -> Iterator[Run]:
    """Cut whole lines into runs, when the file has said `order` so far."""
    if not lines:
        return
    begun, at = 0, None
    for place, time in dates.find(lines) if dates else ():
        if place > begun:
            yield Run(origin, at, order, lines[begun:place])
        begun, at, order = place, time, max(order, time)  # a clock that goes back must not tear a file apart
    yield Run(origin, at, order, lines[begun:])


def matching(runs: Iterable[Run], fits: Callable[[str], object]) -> Iterator[Run]:
    """Keep the lines that fit."""
    for run in runs:
        lines = run.data.splitlines(keepends=True) if b"\r" not in run.data else [line + b"\n" for line in run.data.split(b"\n")[:-1]]
        kept = [number for number, line in enumerate(lines) if fits(text_of(line))]
        if kept:
            at = run.at if kept[0] == 0 else None
            yield Run(run.origin, at, run.order, b"".join(lines[number] for number in kept))


def after(runs: Iterable[Run], since: float, untimed: Callable[[], None]) -> Iterator[Run]:
    """Leave out what was written before a moment; lines without a time are as old as the line before them.

    Args:
        runs: Runs of one file.
        since: Seconds since the epoch.
        untimed: Called where lines are given although nothing says how old they are.
    """
    undated: deque[Run] = deque()
    for run in runs:
        if run.order == NEVER and len(undated) < MOST_UNDATED:
            undated.append(run)
            continue
        if run.order >= since or run.order == NEVER:
            yield from undated  # the beginning of a file whose first time is recent enough
            yield run
        undated.clear()
    if undated:
        untimed()
        yield from undated


def last_lines(runs: Iterable[Run], count: int) -> Iterator[Run]:
    """Keep the last lines of one file."""
    kept: deque[Run] = deque()
    held = 0
    for run in runs:
        kept.append(run)
        held += run.data.count(b"\n")
        while kept and held - kept[0].data.count(b"\n") >= count:
            held -= kept.popleft().data.count(b"\n")
    if kept and held > count:
        first = kept.popleft()
        kept.appendleft(Run(first.origin, None, first.order, first.data[_end_of(first.data, held - count) :]))
    yield from kept if count else ()


def _end_of(data: bytes, lines: int) -> int:
    """Return where the first `lines` lines end."""
    place = 0
    for _ in range(lines):
        place = data.index(b"\n", place) + 1
    return place


def start_of_tail(read: Callable[[int], Iterable[bytes]], size: int, enough: Callable[[bytes], int | None]) -> int:
    """Find from how many bytes before its end on a file is wanted, reading no more than about that.

    Args:
        read: Reads so many bytes of its end.
        size: Its size.
        enough: Looks at the end of the file; returns where in it the wanted part begins, None where that is further ahead.
    """
    tail = FIRST_TAIL
    while tail < size:
        data = b"".join(read(tail))
        place = enough(data)
        if place is not None:
            return len(data) - place
        tail *= TAIL_GROWTH
    return size


def begins_at(count: int, dates: Dates) -> Callable[[bytes], int | None]:
    """Say where the last `count` lines of a text begin, or the line with a time before them (for `start_of_tail`)."""

    def enough(data: bytes) -> int | None:
        place = len(data) - data.endswith(b"\n")
        for _ in range(count):
            place = data.rfind(b"\n", 0, place)
            if place < 0:
                return None
        whole = data.find(b"\n") + 1
        timed = [start for start, _time in dates.find(data[whole : place + 1])]
        return whole + timed[-1] if timed else place + 1

    return enough


def begins_before(since: float, dates: Dates) -> Callable[[bytes], int | None]:
    """Say where a text has a line older than `since` (for `start_of_tail`)."""

    def enough(data: bytes) -> int | None:
        whole = data.find(b"\n") + 1
        first = next(dates.find(data[whole:]), None) if whole else None
        return whole + first[0] if first and first[1] < since else None

    return enough
