"""What an unquoted YAML scalar is, and what other YAML readers would make of it.

The job spec is YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema): only true and false are booleans, 010 is ten. Many readers,
PyYAML among them, follow YAML 1.1: there `yes` is true, `010` eight, `1:30` ninety and `2024-01-01` a date. Where text goes into an
environment or an argv, whatever one of the two would retype has to be quoted.
"""

from __future__ import annotations

import re

from submit_tf_job.specfile.nodes import Kind, Scalar

__all__ = ["kind_of_plain", "retyped", "surprising"]

_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLEAN = frozenset(("true", "True", "TRUE", "false", "False", "FALSE"))
_WHOLE = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_REAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")

_TRUE_11 = frozenset(("yes", "on"))
_FALSE_11 = frozenset(("no", "off"))
_OCTAL_11 = re.compile(r"[-+]?0[0-7_]+")
_NUMBER_11 = re.compile(r"[-+]?(0b[01_]+|[0-9][0-9_]*(\.[0-9_]*)?([eE][-+][0-9]+)?)")
_SEXAGESIMAL_11 = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_DATE_11 = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt\s].*)?")
_LONGEST = 40  # a longer number is no number that anybody wrote as one


def kind_of_plain(text: str) -> Kind:
    """Resolve an unquoted scalar by YAML 1.2's core schema."""
    if text in _NULL:
        return Kind.NULL
    if text in _BOOLEAN:
        return Kind.BOOLEAN
    if _WHOLE.fullmatch(text):
        return Kind.WHOLE
    return Kind.REAL if _REAL.fullmatch(text) else Kind.TEXT


def retyped(scalar: Scalar) -> str:
    """Say what YAML made of a scalar that is not text: "the number 1.1", "true"."""
    text = scalar.text
    if scalar.kind is Kind.BOOLEAN:
        return f"the boolean {text.lower()}"
    if scalar.kind is Kind.NULL:
        return "nothing"
    if len(text) > _LONGEST:
        return "a number"
    return f"the number {_whole(text) if scalar.kind is Kind.WHOLE else _real(text)}"


def _whole(text: str) -> int:
    if text[:2] in ("0x", "0o"):
        return int(text, 0)
    return int(text, 8 if _OCTAL_11.fullmatch(text) else 10)


def _real(text: str) -> float:
    return float(text.replace(".", "", 1) if text[-1] in "fFnN" else text)  # .inf and .nan carry YAML's dot


def surprising(text: str) -> str | None:
    """Say what YAML 1.1 makes of an unquoted scalar that is text in YAML 1.2, or None where both read text."""
    if text.lower() in _TRUE_11 | _FALSE_11:
        return "true" if text.lower() in _TRUE_11 else "false"
    if _DATE_11.fullmatch(text):
        return "a date"
    if _NUMBER_11.fullmatch(text) or _SEXAGESIMAL_11.fullmatch(text):
        return "a number"
    return None
