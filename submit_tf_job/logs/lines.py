"""Cut the bytes of a file into runs of lines; filter runs; find the start of a tail."""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from submit_tf_job.logs.entries import Origin, Run
from submit_tf_job.logs.times import Dates

LONGEST_LINE = 64 * 1024  # bounds the memory for a file without line ends
FIRST_TAIL = 8 * 1024
TAIL_GROWTH = 8
NEVER = float("-inf")
_STYLE = re.compile("\x1b\\[[0-9;]*m")
MOST_UNDATED = 16


class Cutter:
    """Splits bytes into complete lines, and buffers the incomplete last line."""

    def __init__(self) -> None:
        """Start with an empty buffer."""
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Add bytes to the buffer and return the complete lines."""
        end = data.rfind(b"\n") + 1
        if end:
            lines, self._rest = self._rest + data[:end], data[end:]
        else:
            lines, self._rest = b"", self._rest + data
        if len(self._rest) > LONGEST_LINE:
            lines, self._rest = lines + self._rest + b"\n", b""
        return lines

    def flush(self) -> bytes:
        """Return the incomplete line with a line end added, and clear the buffer."""
        rest, self._rest = self._rest, b""
        return rest and rest + b"\n"


def text_of(line: bytes) -> str:
    """Decode a line without its end; bytes that are not UTF-8 are written as `\\xff`."""
    return line.rstrip(b"\r\n").decode("utf-8", "backslashreplace")


def dated(
    origin: Origin, pieces: Iterable[bytes], dates: Dates | None, cutter: Cutter | None = None
) -> Iterator[Run]:
    """Cut a file into runs: a line with a time begins a new one.

    Args:
        origin: The container and file.
        pieces: Its bytes.
        dates: Parses times; None where the order does not matter: every piece is one run.
        cutter: Keeps the last line where it is incomplete; without one, that line is yielded too.
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
    """Cut whole lines into runs; `order` is the latest time in the file so far."""
    if not lines:
        return
    begun, at = 0, None
    if dates:
        for place, time in dates.find(lines):
            if place > begun:
                yield Run(origin, at, order, lines[begun:place])
            # a clock that was set back must not reorder a file
            begun, at, order = place, time, max(order, time)
    yield Run(origin, at, order, lines[begun:])


def matching(runs: Iterable[Run], fits: Callable[[str], object]) -> Iterator[Run]:
    """Yield the lines for whose text `fits` returns a true value."""
    for run in runs:
        lines = [line + b"\n" for line in run.data.split(b"\n")[:-1]]
        kept = [fits(text_of(line)) for line in lines]
        if any(kept):
            if not kept[0]:
                run = run._replace(at=None)
            yield run._replace(data=b"".join(itertools.compress(lines, kept)))


def without(runs: Iterable[Run], hidden: re.Pattern[bytes]) -> Iterator[Run]:
    """Yield the lines that a multi-line pattern does not match."""
    for run in runs:
        if hidden.search(run.data) is None:
            yield run
            continue
        kept = hidden.sub(b"", run.data)
        if hidden.match(run.data):
            run = run._replace(at=None)
        if kept:
            yield run._replace(data=kept)


def after(runs: Iterable[Run], since: float, untimed: Callable[[], None]) -> Iterator[Run]:
    """Yield the lines written since a moment; a line without a time is as old as the line before.

    Args:
        runs: Runs of one file.
        since: Seconds since the epoch.
        untimed: Called where lines of unknown age are yielded.
    """
    undated: deque[Run] = deque()
    for run in runs:
        if run.order == NEVER and len(undated) < MOST_UNDATED:
            undated.append(run)
            continue
        recent = run.at is None and run.written is not None and run.written >= since
        if run.order >= since or run.order == NEVER or recent:
            yield from undated  # the beginning of a file whose first time is recent enough
            yield run
        undated.clear()
    if undated:
        untimed()
        yield from undated


def last_lines(runs: Iterable[Run], count: int) -> Iterator[Run]:
    """Yield the last `count` lines of one file."""
    kept: deque[Run] = deque()
    held = 0
    for run in runs:
        kept.append(run)
        held += run.data.count(b"\n")
        while kept and held - kept[0].data.count(b"\n") >= count:
            held -= kept.popleft().data.count(b"\n")
    if not count:
        return
    if kept and held > count:
        data = kept[0].data
        kept[0] = kept[0]._replace(at=None, data=data[_end_of(data, held - count) :])
    yield from kept


def _end_of(data: bytes, lines: int) -> int:
    """Return the offset at which the first `lines` lines end."""
    place = 0
    for _ in range(lines):
        place = data.index(b"\n", place) + 1
    return place


def start_of_tail(
    read: Callable[[int], Iterable[bytes]], size: int, enough: Callable[[bytes], int | None]
) -> int:
    """Return the number of bytes at a file's end to read, while reading little more than that.

    Args:
        read: Reads the last N bytes.
        size: The file's size.
        enough: Takes the end of the file; returns the offset of the wanted part in it, None if that
            part begins earlier.
    """
    tail = FIRST_TAIL
    while tail < size:
        data = b"".join(read(tail))
        place = enough(data)
        if place is not None:
            return len(data) - place
        tail *= TAIL_GROWTH
    return size


def begins_at(
    count: int, dates: Dates, hidden: re.Pattern[bytes] | None = None
) -> Callable[[bytes], int | None]:
    """Return a function for `start_of_tail`: the offset of the last `count` lines, or of the line
    with a time before them.
    """

    def enough(data: bytes) -> int | None:
        place, left = len(data) - data.endswith(b"\n"), count
        while left:
            begin = data.rfind(b"\n", 0, place)
            if begin < 0:
                return None
            if hidden is None or not hidden.match(data[begin + 1 : place] + b"\n"):
                left -= 1
            place = begin
        whole = data.find(b"\n") + 1
        begin = place + 1
        for start, _time in dates.find(data[whole : place + 1]):
            begin = whole + start
        return begin

    return enough


def begins_before(since: float, dates: Dates) -> Callable[[bytes], int | None]:
    """Return a function for `start_of_tail`: the offset of a line older than `since`."""

    def enough(data: bytes) -> int | None:
        whole = data.find(b"\n") + 1
        first, time = next(dates.find(data[whole:]), (0, since))
        if not whole or time >= since:
            return None
        return whole + first

    return enough


def as_left(line: str) -> str:
    """Return the final state of a redrawn line, such as a progress bar, as a terminal shows it.

    Removes colours: Keras 3 prints coloured bars.
    """
    return _STYLE.sub("", line.rstrip("\r").rpartition("\r")[2])
