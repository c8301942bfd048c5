"""The times that lines of logs carry."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone, tzinfo

__all__ = ["Dates", "node_time"]

_ISO = rb"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?[ ]?(Z\b|[+-]\d\d:?\d\d\b)?"
_ABSL = rb"[IWEFD](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{1,9})"  # glog: level, month, day; TensorFlow and absl write no year
# Up to 24 characters before it: "[", "INFO ", "[worker] WARNING:"; a digit there would be something else's.
_LINE = re.compile(rb"^(?:" + _ABSL + rb"|[^\d\n]{0,24}?" + _ISO + rb")", re.MULTILINE)
_FROM_ANOTHER_ZONE = timedelta(days=2)


class Dates:
    """Reads the times of lines.

    Args:
        now: What the time is, as a time of the zone that lines without one are written in.
    """

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._zone: tzinfo = now.tzinfo or timezone.utc
        self._second: dict[bytes, float] = {}  # lines come in thousands per second

    def find(self, data: bytes) -> Iterator[tuple[int, float]]:
        """Find the lines that carry a time: where each begins, and its time in seconds since the epoch."""
        for found in _LINE.finditer(data):
            at = self._time(found)
            if at is not None:
                yield found.start(), at

    def of(self, line: bytes) -> float | None:
        """Return the time of one line."""
        found = _LINE.match(line)
        return self._time(found) if found else None

    def _time(self, found: re.Match[bytes]) -> float | None:
        fraction = found[6] or found[13]
        start = found.start(1) if found[1] else found.start(7)
        end = found.end(5) if found[1] else found.end(12)
        key = found.string[start:end] + (found[14] or b"")
        second = self._second.get(key)
        if second is None:
            try:
                second = self._absl(found) if found[1] else self._iso(found)
            except (ValueError, OverflowError):
                return None  # 2026-13-45: a number that looks like a date
            if len(self._second) > 10_000:
                self._second.clear()
            self._second[key] = second
        return second + float(b"0." + fraction) if fraction else second

    def _absl(self, found: re.Match[bytes]) -> float:
        month, day, hour, minute, second = (int(found[number]) for number in range(1, 6))
        for year in range(self._now.year + 1, self._now.year - 8, -1):
            try:
                moment = datetime(year, month, day, hour, minute, second, tzinfo=self._zone)
            except ValueError:  # the 29th of February of most years
                continue
            if moment <= self._now + _FROM_ANOTHER_ZONE:
                return moment.timestamp()
        raise ValueError("no year fits")

    def _iso(self, found: re.Match[bytes]) -> float:
        year, month, day, hour, minute, second = (int(found[number]) for number in range(7, 13))
        zone = _zone(found[14].decode()) if found[14] else self._zone
        return datetime(year, month, day, hour, minute, second, tzinfo=zone).timestamp()


def _zone(text: str) -> tzinfo:
    if text == "Z":
        return timezone.utc
    digits = text[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)


def node_time(text: str | None) -> datetime | None:
    """Read a time as NodeManagers write it, in their own zone: `Sat Nov 21 10:53:21 +0000 2026` (Java's EEE MMM dd HH:mm:ss Z yyyy)."""
    words = (text or "").split()
    if len(words) != 6 or words[1] not in _MONTHS:
        return None
    try:
        hour, minute, second = (int(part) for part in words[3].split(":"))
        return datetime(int(words[5]), _MONTHS[words[1]], int(words[2]), hour, minute, second, tzinfo=_zone(words[4]))
    except (ValueError, OverflowError):
        return None


_MONTHS = {
    name: number for number, name in enumerate(("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1)
}
