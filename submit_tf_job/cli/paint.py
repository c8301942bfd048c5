"""Colour the parts of a line by their position in the lines that `report` writes.

Only states, headings, labels and secondary text are coloured, not a word that a program printed,
such as FAILED in the output of its tests.
"""

from __future__ import annotations

import re

__all__ = ["paint"]

_RED, _GREEN, _YELLOW, _CYAN, _BOLD, _DIM = 31, 32, 33, 36, 1, 2
_STATES = {
    "SUCCEEDED": _GREEN,
    "FAILED": _RED,
    "STOPPED": _YELLOW,
    "UNKNOWN": _YELLOW,
    "PENDING": _YELLOW,
    "STARTING": _CYAN,
    "RUNNING": _CYAN,
    "FINISHING": _CYAN,
}
_TASK_STATES = {
    "running": _CYAN,
    "ready": _CYAN,
    "succeeded": _GREEN,
    "failed": _RED,
    "lost": _RED,
    "restarting": _YELLOW,
}
_FINDINGS = {"ok": _GREEN, "WARNING": _YELLOW, "FAILURE": _RED}
# a line of a program: the text behind the bar is not coloured
_OUTPUT = re.compile(r"(\S+-\d+ +\| )(.*)")
_HEADING = re.compile(r" {0,2}[A-Z]{2,}(?: +[A-Z]{2,})+")
_CHANGE = re.compile(rf"(\d+:\d\d  )({'|'.join(_STATES)})\b(.*)")
_JOB = re.compile(rf"(\S+)( +)({'|'.join(_STATES)})\b(.*)")
_TASK = re.compile(rf"(  \S+-\d+ +)({'|'.join(_TASK_STATES)})\b(.*)")
_FINDING = re.compile(rf"({'|'.join(_FINDINGS)})( +[a-z][a-z-]* .*)")
_LABEL = re.compile(r"(  )(first cause|warning)( .*)|(warning|error)(: .*)")
_QUIET = re.compile(
    r" {2,}(?:hint: |next: |application_|application  |Ctrl-C|submit_tf_job |https?://|Fix: ).*"
)


def paint(line: str) -> str:
    """Return a line with colours added; its text is not changed."""
    if found := _OUTPUT.fullmatch(line):
        return _in(_DIM, found[1]) + found[2]
    if _HEADING.fullmatch(line):
        return _in(_BOLD, line)
    if found := _CHANGE.fullmatch(line):
        return _in(_DIM, found[1]) + _in(_STATES[found[2]], found[2]) + found[3]
    if found := _JOB.fullmatch(line):
        return _in(_BOLD, found[1]) + found[2] + _in(_STATES[found[3]], found[3]) + found[4]
    if found := _TASK.fullmatch(line):
        return found[1] + _in(_TASK_STATES[found[2]], found[2]) + found[3]
    if found := _FINDING.fullmatch(line):
        return _in(_FINDINGS[found[1]], found[1]) + found[2]
    if found := _LABEL.fullmatch(line):
        word = found[2] or found[4]
        colour = _YELLOW if word == "warning" else _RED
        return (found[1] or "") + _in(colour, word) + (found[3] or found[5])
    return _in(_DIM, line) if _QUIET.fullmatch(line) else line


def _in(colour: int, text: str) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m"
