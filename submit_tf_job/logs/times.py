"""The times of lines: those in them, and the index that the bootstrap keeps beside the files."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone, tzinfo

from submit_tf_job.container import contract
from submit_tf_job.logs.entries import Run

_ISO = (
    rb"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?[ ]?(Z\b|[+-]\d\d:?\d\d\b)?"
)
# glog: level, month, day; TensorFlow and absl write no year
_ABSL = rb"[IWEFD](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{1,9})"
# Up to 24 characters may precede it, such as "[", "INFO " or "[worker] WARNING:", but no digits:
# those belong to another value.
_LINE = re.compile(rb"^(?:" + _ABSL + rb"|[^\d\n]{0,24}?" + _ISO + rb")", re.MULTILINE)
_FROM_ANOTHER_ZONE = timedelta(days=2)


class Dates:
    """Parser for the times of lines.

    Args:
        now: The current time, in the zone of lines without a zone.
    """

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._zone: tzinfo = now.tzinfo or timezone.utc
        self._second: dict[bytes, float] = {}  # cache: thousands of lines share a second

    def find(self, data: bytes) -> Iterator[tuple[int, float]]:
        """Yield the offset and the time, in seconds since the epoch, of each line with a time."""
        for found in _LINE.finditer(data):
            at = self._time(found)
            if at is not None:
                yield found.start(), at

    def of(self, line: bytes) -> float | None:
        """Return the time of one line, None without one."""
        found = _LINE.match(line)
        if found is None:
            return None
        return self._time(found)

    def _time(self, found: re.Match[bytes]) -> float | None:
        parse, first, last = self._iso, 7, 12
        if found[1]:
            parse, first, last = self._absl, 1, 5
        key = found.string[found.start(first) : found.end(last)] + (found[14] or b"")
        second = self._second.get(key)
        if second is None:
            try:
                second = parse(found)
            except (ValueError, OverflowError):
                return None  # such as 2026-13-45
            if len(self._second) > 10_000:
                self._second.clear()
            self._second[key] = second
        return second + float(b"0." + (found[6] or found[13] or b"0"))

    def _absl(self, found: re.Match[bytes]) -> float:
        month, day, hour, minute, second = (int(found[number]) for number in range(1, 6))
        for year in range(self._now.year + 1, self._now.year - 8, -1):
            try:
                moment = datetime(year, month, day, hour, minute, second, tzinfo=self._zone)
            except ValueError:  # February 29 of a common year
                continue
            if moment <= self._now + _FROM_ANOTHER_ZONE:
                return moment.timestamp()
        raise ValueError("no year fits")

    def _iso(self, found: re.Match[bytes]) -> float:
        year, month, day, hour, minute, second = (int(found[number]) for number in range(7, 13))
        zone = self._zone
        if found[14]:
            zone = _zone(found[14].decode())
        return datetime(year, month, day, hour, minute, second, tzinfo=zone).timestamp()


def _zone(text: str) -> tzinfo:
    if text == "Z":
        return timezone.utc
    digits = text[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(offset * int(f"{text[0]}1"))


def node_time(text: str | None) -> datetime | None:
    """Parse a NodeManager's time, in its own zone: `Sat Nov 21 10:53:21 +0000 2026`
    (Java's `EEE MMM dd HH:mm:ss Z yyyy`).
    """
    try:
        _day, name, day, time, zone, year = (text or "").split()
        hour, minute, second = map(int, time.split(":"))
        month = _MONTHS.index(name) + 1
        return datetime(int(year), month, int(day), hour, minute, second, tzinfo=_zone(zone))
    except (ValueError, OverflowError):
        return None


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


# --- the index of times ---------------------------------------------------------------------------

# sorted pairs: an offset in a file, and the time when the bytes there were written
Stamps = tuple[tuple[int, float], ...]

_WRITING_S = 1.0  # a program formats a line's time up to 1 s before it writes the line


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
