"""Resolve unquoted YAML scalars, and detect those that other YAML readers resolve differently.

The job spec is YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema): only true and false are
booleans, 010 is ten. Many readers, PyYAML among them, follow YAML 1.1: there `yes` is true, `010`
is eight, `1:30` is ninety and `2024-01-01` is a date. Text for an environment or an argv must be in
quotes if either version resolves it as another type.
"""

from __future__ import annotations

import re

from submit_tf_job.host.located.nodes import Scalar, ScalarKind

_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLEAN = frozenset(("true", "True", "TRUE", "false", "False", "FALSE"))
_WHOLE = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_REAL = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)

_TRUE_11 = frozenset(("yes", "on"))
_FALSE_11 = frozenset(("no", "off"))
_OCTAL_11 = re.compile(r"[-+]?0[0-7_]+")
_NUMBER_11 = re.compile(r"[-+]?(0b[01_]+|[0-9][0-9_]*(\.[0-9_]*)?([eE][-+][0-9]+)?)")
_SEXAGESIMAL_11 = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_DATE_11 = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt\s].*)?")
_LONGEST = 40  # characters of a number that a message shows


def kind_of_plain(text: str) -> ScalarKind:
    """Return the kind of an unquoted scalar by YAML 1.2's core schema."""
    if text in _NULL:
        return ScalarKind.NULL
    if text in _BOOLEAN:
        return ScalarKind.BOOLEAN
    if _WHOLE.fullmatch(text):
        return ScalarKind.WHOLE
    return ScalarKind.REAL if _REAL.fullmatch(text) else ScalarKind.TEXT


def retyped(scalar: Scalar) -> str:
    """Return how YAML reads a scalar that is not text: "the number 1.1", "the boolean true"."""
    text = scalar.text
    if scalar.kind is ScalarKind.BOOLEAN:
        return f"the boolean {text.lower()}"
    if scalar.kind is ScalarKind.NULL:
        return "nothing"
    if len(text) > _LONGEST:
        return "a number"
    return f"the number {_whole(text) if scalar.kind is ScalarKind.WHOLE else _real(text)}"


def _whole(text: str) -> int:
    if text[:2] in ("0x", "0o"):
        return int(text, 0)
    return int(text, 8 if _OCTAL_11.fullmatch(text) else 10)


def _real(text: str) -> float:
    # .inf and .nan carry YAML's dot
    return float(text.replace(".", "", 1) if text[-1] in "fFnN" else text)


def surprising(text: str) -> str | None:
    """Return the YAML 1.1 type of an unquoted scalar that is text in YAML 1.2; None if it is text
    in both.
    """
    if text.lower() in _TRUE_11 | _FALSE_11:
        return "true" if text.lower() in _TRUE_11 else "false"
    if _DATE_11.fullmatch(text):
        return "a date"
    if _NUMBER_11.fullmatch(text) or _SEXAGESIMAL_11.fullmatch(text):
        return "a number"
    return None
