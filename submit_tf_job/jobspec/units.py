"""Read amounts with units: memory in Mi, Gi, Ti; durations in s, m, h, d."""

from __future__ import annotations

import re

from submit_tf_job.jobspec.nodes import Scalar, ScalarKind, clip
from submit_tf_job.jobspec.values import Value

__all__ = ["DURATION", "MEMORY", "duration", "memory", "memory_text"]

MEMORY = re.compile(r"([1-9][0-9]{0,8})(Mi|Gi|Ti)")
DURATION = re.compile(
    r"(?=[0-9])(?:([0-9]{1,8})d)?(?:([0-9]{1,8})h)?(?:([0-9]{1,8})m)?(?:([0-9]{1,8})s)?"
)

_MIB = {"Mi": 1, "Gi": 1024, "Ti": 1024 * 1024}
_SMALLER = {"M": "", "G": "Mi", "T": "Gi"}
_SECONDS = (86_400, 3_600, 60, 1)
_MEMORY_LIKE = re.compile(r"([0-9]+)(?:\.([0-9]+))?\s*([a-zA-Z]*)")
_LONGEST_S = 3650 * 86_400


def memory(value: Value) -> int | None:
    """Read an amount of memory in MiB, YARN's unit for containers (Resource.java)."""
    node = value.node
    if isinstance(node, Scalar) and node.kind in (ScalarKind.WHOLE, ScalarKind.REAL):
        return value.fail(
            f"{clip(node.text)[1:-1]} has no unit; say Mi or Gi, as in {_bare_memory(node.text)}"
        )
    text = value.text(expected="an amount of memory such as 4Gi")
    if text is None:
        return None
    match = MEMORY.fullmatch(text)
    if match:
        return int(match.group(1)) * _MIB[match.group(2)]
    return value.fail(_wrong_memory(text))


def memory_text(mib: int) -> str:
    """Format an amount of memory as in a job spec, in the largest unit that needs no fraction."""
    unit = next(unit for unit in ("Ti", "Gi", "Mi") if mib % _MIB[unit] == 0)
    return f"{mib // _MIB[unit]}{unit}"


def _wrong_memory(text: str) -> str:
    like = _MEMORY_LIKE.fullmatch(text.strip())
    if not like:
        return f"{clip(text)} is not a valid amount of memory; write one such as 4Gi or 512Mi"
    number, fraction, unit = like.group(1).lstrip("0") or "0", like.group(2) or "", like.group(3)
    letter = unit[:1].upper()
    if not unit:
        return f"{clip(text)} has no unit; say Mi or Gi, as in {_bare_memory(number)}"
    if letter in ("B", "K"):
        return f"{clip(text)} is finer than YARN counts; say Mi or Gi, as in 512Mi"
    if letter not in _SMALLER:
        return f"{clip(text)} has an unknown unit; say Mi or Gi, as in 4Gi"
    if fraction:
        return f"{clip(text)} is not whole; {_without_fraction(number, fraction, letter)}"
    if number == "0" or len(number) > 9:
        return (
            f"{clip(text)} is {'no' if number == '0' else 'too much'} memory; ask for 1Mi to "
            f"999999999Ti"
        )
    if unit.lower() in ("mi", "mib", "gi", "gib", "ti", "tib"):
        return f"{clip(text)} is not the way to write it; did you mean {number}{letter}i?"
    return f"{clip(text)} is ambiguous ({letter}B or {letter}iB); write {number}{letter}i"


def _without_fraction(number: str, fraction: str, letter: str) -> str:
    amount = float(f"{number[:9]}.{fraction[:9]}") * 1024
    if _SMALLER[letter] and amount == int(amount):
        return f"write {int(amount)}{_SMALLER[letter]}"
    return "write a whole number of Mi or Gi"


def _bare_memory(number: str) -> str:
    whole = number if re.fullmatch(r"[1-9][0-9]{0,8}", number) else "4096"
    return f"{whole}Mi" if int(whole) >= 64 else f"{whole}Gi"


def duration(value: Value) -> int | None:
    """Read a duration in seconds."""
    node = value.node
    if isinstance(node, Scalar) and node.kind in (ScalarKind.WHOLE, ScalarKind.REAL):
        return value.fail(
            f"{clip(node.text)[1:-1]} has no unit; say s, m, h or d, as in "
            f"{_bare_duration(node.text)}"
        )
    text = value.text(expected="a duration such as 15m")
    if text is None:
        return None
    match = DURATION.fullmatch(text)
    if not match:
        if text.strip().isdigit():
            return value.fail(
                f"{clip(text)} has no unit; say s, m, h or d, as in {_bare_duration(text.strip())}"
            )
        return value.fail(
            f"{clip(text)} is not a duration; write whole numbers with d, h, m and s in "
            f"that order, as in 1h30m"
        )
    seconds = sum(
        int(part or 0) * unit for part, unit in zip(match.groups(), _SECONDS, strict=True)
    )
    if seconds == 0:
        return value.fail(f"{clip(text)} is too short; the least is 1s")
    if seconds > _LONGEST_S:
        return value.fail(f"{clip(text)} is longer than ten years; the most is 3650d")
    return seconds


def _bare_duration(number: str) -> str:
    return f"{number}s" if re.fullmatch(r"[1-9][0-9]{0,8}", number) else "30s"
