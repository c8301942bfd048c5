"""Lines of a log file: their times, found in the lines or in the times that the bootstrap records
beside the file (`contract.TIMES_FILE`); runs of lines; filters; and where a tail begins.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta, timezone, tzinfo

from submit_tf_job.container import contract
from submit_tf_job.logs.entries import Origin, Run

LONGEST_LINE = 64 * 1024  # bounds the memory for a file without line ends
FIRST_TAIL = 8 * 1024
TAIL_GROWTH = 8
MOST_TAIL = 32 * 1024**2
NEVER = float("-inf")
MOST_UNDATED = 16
_STYLE = re.compile("\x1b\\[[0-9;]*m")

# --- times in lines -------------------------------------------------------------------------------

_ISO = (
    rb"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?[ ]?(Z\b|[+-]\d\d:?\d\d\b)?"
)
# glog: level, month, day; TensorFlow and absl write no year
_ABSL = rb"[IWEFD](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{1,9})"
# Up to 24 characters may precede it, such as "[", "INFO " or "[worker] WARNING:", but no digits:
# those belong to another value.
_LINE = re.compile(rb"^(?:" + _ABSL + rb"|[^\d\n]{0,24}?" + _ISO + rb")", re.MULTILINE)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_FROM_ANOTHER_ZONE_S = 2 * 86400.0


class Dates:
    """Parser for the times of lines.

    A time before 1970, or more than two days in the future, is not a line's time but a value that
    the program printed, such as 9999-12-31 for "never", or the day of a forecast.

    Args:
        wall: Returns the current time, in seconds since the epoch. Its year is used for lines
            without a year.
        zone: The zone of lines without a zone; None for this machine's zone.
    """

    def __init__(self, wall: Callable[[], float], zone: tzinfo | None) -> None:
        self._wall = wall
        self._zone = zone
        self._second: dict[bytes, float] = {}  # cache: thousands of lines share a second

    def find(self, data: bytes) -> Iterator[tuple[int, float]]:
        """Yield the offset and the time, in seconds since the epoch, of each line with a time."""
        for found in _LINE.finditer(data):
            at = self._time_of_line(found)
            if at is not None:
                yield found.start(), at

    def _time_of_line(self, found: re.Match[bytes]) -> float | None:
        parse, first, last = self._iso_time, 7, 12
        if found[1]:
            parse, first, last = self._absl_time, 1, 5
        key = found.string[found.start(first) : found.end(last)] + (found[14] or b"")
        second = self._second.get(key)
        if second is None:
            try:
                second = parse(found)
            except (ValueError, OverflowError, OSError):
                return None  # such as 2026-13-45
            if not 0 <= second <= self._wall() + _FROM_ANOTHER_ZONE_S:
                return None
            if len(self._second) > 10_000:
                self._second.clear()
            self._second[key] = second
        return second + float(b"0." + (found[6] or found[13] or b"0"))

    def _absl_time(self, found: re.Match[bytes]) -> float:
        month, day, hour, minute, second = (int(found[number]) for number in range(1, 6))
        latest_s = self._wall() + _FROM_ANOTHER_ZONE_S
        this_year = datetime.fromtimestamp(latest_s, timezone.utc).year
        for year in range(this_year + 1, this_year - 8, -1):
            try:
                moment = datetime(year, month, day, hour, minute, second, tzinfo=self._zone)
            except ValueError:  # February 29 of a common year
                continue
            if moment.timestamp() <= latest_s:
                return moment.timestamp()
        raise ValueError("no year fits")

    def _iso_time(self, found: re.Match[bytes]) -> float:
        year, month, day, hour, minute, second = (int(found[number]) for number in range(7, 13))
        zone = self._zone
        if found[14]:
            zone = _parse_zone(found[14].decode())
        return datetime(year, month, day, hour, minute, second, tzinfo=zone).timestamp()


def _parse_zone(text: str) -> tzinfo:
    if text == "Z":
        return timezone.utc
    digits = text[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(offset * int(f"{text[0]}1"))


def node_time(text: str | None) -> datetime | None:
    """Parse a time as a NodeManager writes it, in the zone of that node: `Sat Nov 21 10:53:21 +0000
    2026` (Java's `EEE MMM dd HH:mm:ss Z yyyy`); None if the text is missing or has another form.
    """
    try:
        _day, name, day, time, zone, year = (text or "").split()
        hour, minute, second = map(int, time.split(":"))
        month = _MONTHS.index(name) + 1
        return datetime(int(year), month, int(day), hour, minute, second, tzinfo=_parse_zone(zone))
    except (ValueError, OverflowError):
        return None


# --- runs ----------------------------------------------------------------------------------------


class RunCutter:
    """Cuts a file into runs of whole lines: each line with a time begins a new run.

    Args:
        origin: The container and file.
        dates: Parses times; None if the order of lines does not matter: then every piece of bytes
            is one run.
    """

    def __init__(self, origin: Origin, dates: Dates | None) -> None:
        self.origin = origin
        self._dates = dates
        self._rest = b""  # the last line, as long as it is incomplete
        self._order = NEVER

    def cut(self, pieces: Iterable[bytes]) -> Iterator[Run]:
        """Yield all runs of a file."""
        for piece in pieces:
            yield from self.feed(piece)
        yield from self.flush()

    def feed(self, data: bytes) -> Iterator[Run]:
        """Yield the runs of the lines that the next bytes complete. A line of more than
        `LONGEST_LINE` bytes is divided.
        """
        end = data.rfind(b"\n") + 1
        lines = self._rest + data[:end] if end else b""
        self._rest = data[end:] if end else self._rest + data
        if len(self._rest) > LONGEST_LINE:
            cut = _place_to_divide(self._rest)
            lines, self._rest = lines + self._rest[:cut] + b"\n", self._rest[cut:]
        yield from self._runs_of_lines(lines)

    def flush(self) -> Iterator[Run]:
        """Yield the last line, if it is incomplete, with a line end added."""
        rest, self._rest = self._rest, b""
        yield from self._runs_of_lines(rest and rest + b"\n")

    def _runs_of_lines(self, lines: bytes) -> Iterator[Run]:
        if not lines:
            return
        begun, at = 0, None
        for place, time in self._dates.find(lines) if self._dates else ():
            if place > begun:
                yield Run(self.origin, at, self._order, lines[begun:place])
            # a clock that was set back must not reorder a file
            begun, at, self._order = place, time, max(self._order, time)
        yield Run(self.origin, at, self._order, lines[begun:])


def _place_to_divide(line: bytes) -> int:
    """Return where a long line without an end is divided: at the last state of a progress bar, else
    at its last byte, or before a character of UTF-8 whose bytes are not all there.
    """
    state = line.rfind(b"\r") + 1
    if state:
        return state
    for back in (1, 2, 3):
        if line[-back] >= 0xC0:  # the first byte of a character of 2 to 4 bytes
            size = 2 + (line[-back] >= 0xE0) + (line[-back] >= 0xF0)
            return len(line) - (back if size > back else 0)
        if line[-back] < 0x80:
            break
    return len(line)


def text_of(line: bytes) -> str:
    """Decode a line without its end; bytes that are not UTF-8 are written as `\\xff`."""
    return line.rstrip(b"\r\n").decode("utf-8", "backslashreplace")


# --- filters --------------------------------------------------------------------------------------


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
    """Yield the lines that were written after a moment. A line without a time counts as being as
    old as the line before it.

    Args:
        runs: Runs of one file.
        since: Seconds since the epoch.
        untimed: Called if lines of a file without times are yielded, whose age is unknown.
    """
    undated: deque[Run] = deque()
    run = None
    for run in runs:
        if run.order == NEVER and len(undated) < MOST_UNDATED:
            undated.append(run)
            continue
        recent = run.at is None and run.written is not None and run.written >= since
        if run.order >= since or run.order == NEVER or recent:
            yield from undated  # the beginning of a file whose first time is recent enough
            yield run
        undated.clear()
    if run is not None and run.order == NEVER:  # no line has a time
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
    """Return how many bytes at a file's end contain the wanted part. To find that out, read the
    last 8 KiB, and then 8 times as many bytes each time, until they contain it. If the last 32 MiB
    do not, as of a line without an end, it is all bytes: these are read in pieces.

    Args:
        read: Reads the last N bytes.
        size: The file's size.
        enough: Gets the end of the file; returns the offset in it where the wanted part begins;
            None if that part begins earlier.
    """
    tail = FIRST_TAIL
    while tail < size and tail <= MOST_TAIL:
        data = b"".join(read(tail))
        place = enough(data)
        if place is not None:
            return len(data) - place
        tail *= TAIL_GROWTH
    return size


def begins_at(
    count: int, dates: Dates, hidden: re.Pattern[bytes] | None = None
) -> Callable[[bytes], int | None]:
    """Return a function for `start_of_tail`. It returns the offset of the last line with a time
    that is before the last `count` lines; if there is no such line, the offset of the last `count`
    lines. Lines that the pattern `hidden` matches are not counted.
    """

    def enough(data: bytes) -> int | None:
        if not count:  # a last line that is not complete is no line yet
            return data.rfind(b"\n") + 1 or None
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
        for start, _time_of_line in dates.find(data[whole : place + 1]):
            begin = whole + start
        return begin

    return enough


def begins_before(since: float, dates: Dates) -> Callable[[bytes], int | None]:
    """Return a function for `start_of_tail`. It returns the offset of a line that is older than
    `since`.
    """

    def enough(data: bytes) -> int | None:
        whole = data.find(b"\n") + 1
        first, time = next(dates.find(data[whole:]), (0, since))
        if not whole or time >= since:
            return None
        return whole + first

    return enough


def as_left(line: str) -> str:
    """Return the final state of a line that was redrawn, such as a progress bar, as a terminal
    shows it in the end.

    Colours are removed: Keras 3 prints coloured bars.
    """
    return _STYLE.sub("", line.rstrip("\r").rpartition("\r")[2])


# --- the times that the bootstrap records ---------------------------------------------------------

# sorted pairs: an offset in a file, and the time when the bytes there were written
Stamps = tuple[tuple[int, float], ...]

_WRITING_S = 1.0  # a program formats a line's time up to 1 s before it writes the line


def read_stamps(data: bytes) -> dict[str, Stamps]:
    """Parse the times that the bootstrap records (`contract.TIMES_FILE`) into the stamps of each
    log file, by the file's name; ignore invalid lines.
    """
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
    at = bisect.bisect_right([_latest_stamp(stamps, time) for _offset, time in stamps], since)
    return (0, *(offset for offset, _time_of_line in stamps))[at]


def _latest_stamp(stamps: Stamps, time: float) -> float:
    """Return the latest time at which lines may have been written whose stamp is `time`: a stamp
    also stands for the seconds after it, 1 in the first hour of a task, and later up to 60
    (`contract.TIMES_PACES`).
    """
    age = max(0.0, time - stamps[0][1])
    return time + next(pace for until, pace in contract.TIMES_PACES if age < until)


def stamped(runs: Iterable[Run], start: int, stamps: Stamps) -> Iterator[Run]:
    """Set the time of writing of each run, and cut a run where that time changes.

    Args:
        runs: All runs of a file from `start` on.
        start: Offset in the file where the first run begins.
        stamps: The file's stamps.
    """
    offsets = [offset for offset, _time_of_line in stamps]
    latest = float("-inf")
    for run in runs:
        for part in _cut_run(run, start, offsets):
            at = bisect.bisect_right(offsets, start) - 1
            latest, written = max(latest, run.order), None
            if at >= 0:
                begun = stamps[at][1]
                floor = begun if part.at is None else begun - _WRITING_S
                latest, written = max(latest, floor), _latest_stamp(stamps, begun)
            yield part._replace(order=latest, written=written)
            start += len(part.data)


def _cut_run(run: Run, start: int, offsets: list[int]) -> Iterator[Run]:
    """Cut a run, which begins at the offset `start`, at each of the given offsets, or at the
    beginning of the next line after it.
    """
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
