"""Amounts with units, in settings, options and job specs: memory in Mi, Gi, Ti; durations in d, h,
m, s, and also in ms, except in job specs.
"""

from __future__ import annotations

import re
from datetime import datetime

from submit_tf_job.host.quoting import clip

MEMORY = re.compile(r"([1-9][0-9]{0,8})(Mi|Gi|Ti)")
_DURATION = re.compile(
    "(?=[0-9])" + "".join(rf"(?:([0-9]{{1,8}}){unit})?" for unit in ("d", "h", "m", "s", "ms"))
)

_MIB = {"Mi": 1, "Gi": 1024, "Ti": 1024 * 1024}
_SMALLER = {"M": "", "G": "Mi", "T": "Gi"}
_SECONDS = (86_400, 3_600, 60, 1, 0.001)
_MEMORY_LIKE = re.compile(r"([0-9]+)(?:\.([0-9]+))?\s*([a-zA-Z]*)")
_LONGEST_S = 3650 * 86_400


def memory(text: str) -> int:
    """Return an amount of memory in MiB, the unit that YARN uses for containers (Resource.java).

    Raises:
        ValueError: The text is not valid; the error's text is a sentence for users.
    """
    match = MEMORY.fullmatch(text)
    if match:
        return int(match.group(1)) * _MIB[match.group(2)]
    raise ValueError(f"{clip(text)} {_why_no_memory(text)}")


def memory_text(mib: int) -> str:
    """Format an amount of memory as in a job spec, in the largest unit in which it is a whole
    number.
    """
    unit = next(unit for unit in ("Ti", "Gi", "Mi") if mib % _MIB[unit] == 0)
    return f"{mib // _MIB[unit]}{unit}"


def _why_no_memory(text: str) -> str:
    like = _MEMORY_LIKE.fullmatch(text.strip())
    if not like:
        return "is not a valid amount of memory; write one such as 4Gi or 512Mi"
    number, fraction, unit = like.group(1).lstrip("0") or "0", like.group(2) or "", like.group(3)
    letter = unit[:1].upper()
    if not unit:
        return f"has no unit; say Mi or Gi, as in {_with_unit(number, bool(fraction))}"
    if letter in ("B", "K"):
        return "is not a whole number of MiB, in which YARN allocates; write 512Mi or 4Gi"
    if letter not in _SMALLER:
        return "has an unknown unit; say Mi or Gi, as in 4Gi"
    if fraction:
        return f"is not whole; {_without_fraction(number, fraction, letter)}"
    if number == "0" or len(number) > 9:
        much = "no" if number == "0" else "too much"
        return f"is {much} memory; ask for 1Mi to 999999999Ti"
    if unit.lower() in ("mi", "mib", "gi", "gib", "ti", "tib"):
        return f"is misspelled; write {number}{letter}i"
    return f"is ambiguous ({letter}B or {letter}iB); write {number}{letter}i"


def _without_fraction(number: str, fraction: str, letter: str) -> str:
    amount = float(f"{number[:9]}.{fraction[:9]}") * 1024
    if _SMALLER[letter] and amount == int(amount):
        return f"write {int(amount)}{_SMALLER[letter]}"
    return "write a whole number of Mi or Gi"


def _with_unit(number: str, is_fraction: bool) -> str:
    whole = re.fullmatch(r"[1-9][0-9]{0,8}", number) and not is_fraction
    number = number if whole else "4096"
    return f"{number}Mi" if int(number) >= 64 else f"{number}Gi"


def duration_s(text: str) -> float:
    """Return a duration in seconds, in the form of settings and options; unlike in a job spec, it
    may be 0s or in milliseconds.

    Raises:
        ValueError: The text is not valid; the error's text is a sentence for users.
    """
    match = _DURATION.fullmatch(text)
    if match:
        parts = zip(match.groups(), _SECONDS, strict=True)
        return sum(int(number or 0) * seconds for number, seconds in parts)
    bare = text.strip()
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", bare):
        meant = f"{bare}s" if re.fullmatch(r"[1-9][0-9]{0,8}", bare) else "30s"
        raise ValueError(f"{clip(text)} has no unit; say s, m, h or d, as in {meant}")
    raise ValueError(
        f"{clip(text)} is not a duration; write whole numbers with d, h, m and s in that "
        f"order, as in 1h30m"
    )


def duration(text: str) -> int:
    """Return a duration in whole seconds, in the form of a job spec: from 1s to ten years.

    Raises:
        ValueError: The text is not valid; the error's text is a sentence for users.
    """
    seconds = duration_s(text)
    if seconds < 1:
        raise ValueError(f"{clip(text)} is too short; the least is 1s")
    if seconds > _LONGEST_S:
        raise ValueError(f"{clip(text)} is longer than ten years; the most is 3650d")
    if seconds != int(seconds):
        raise ValueError(f"{clip(text)} is finer than a second; write whole seconds")
    return int(seconds)


def duration_text(seconds: float | None) -> str:
    """Format a duration in at most two units: 42s, 3m10s, 5h02m, 4d07h; None as "-"."""
    if seconds is None:
        return "-"
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def local_time(at_s: float, now_s: float | None = None, *, seconds: bool = False) -> str:
    """Format a moment in this machine's local time, such as `2026-05-04 11:30`; "?" if it is
    outside of the calendar.

    In the hour that occurs twice, because summer time ends, the zone is added: `01:30 EST`.

    Args:
        at_s: The moment, in seconds since 1970.
        now_s: If the moment is on the same day as this one, the day is left out.
        seconds: Include the seconds.
    """
    try:
        moment = datetime.fromtimestamp(at_s).astimezone()
        naive = moment.replace(tzinfo=None)
        offsets = {naive.replace(fold=fold).astimezone().utcoffset() for fold in (0, 1)}
        now = None if now_s is None else datetime.fromtimestamp(now_s).astimezone()
    except (ValueError, OSError, OverflowError):
        return "?"
    day = "" if now and moment.date() == now.date() else f"{moment:%Y-%m-%d} "
    zone = f" {moment:%Z}" if len(offsets) > 1 else ""
    return f"{day}{moment:%H:%M:%S}{zone}" if seconds else f"{day}{moment:%H:%M}{zone}"
