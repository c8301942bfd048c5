"""Lines of a program's output: a progress bar becomes one line, colours are removed, and lines that
other programs wrote are left out. The diagnosis of a failure uses the same functions.
"""

from __future__ import annotations

import re

from submit_tf_job.container import contract
from submit_tf_job.container.info import PREFIX

_COLOUR = re.compile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\-_])")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_BAR = re.compile(
    r"\d%\s{0,99}\|[^|]*\||\[[=#]*>?[.\s]*\] ?-|[━╺╸]{5}|"
    r"\b\d+/(?:\d+|\?) \[.{0,80}\d(?:it|s|batch)\w{0,20}/\w|"
    r"^\s*\d+/(?:\d+|Unknown)\s.*\b\d+m?s(?:/(?:step|epoch))?\b"
)
_OF_TORCHRUN = re.compile(r"torch\.distributed\.elastic\.\S*ChildFailedError")
START = "Traceback (most recent call last)"
# A minimal image lacks en_US.UTF-8, which YARN's AM sets (seen on 3.4.2); and what TensorFlow, JAX
# and Python write at their start and end whatever the program does.
_NOISE = re.compile(
    r"setlocale: LC_ALL|oneDNN custom operations are on|cpu_feature_guard\.cc"
    r"|Unable to register cu\w+ (?:factory|plugin)|To enable the following instructions"
    r"|Could not find cuda drivers|computation placer already registered"
    r"|All log messages before absl::InitializeLog|TF-TRT Warning: Could not find TensorRT"
    r"|CUDA backend failed to initialize: Unable to|No GPU/TPU found, falling back to CPU"
    r"|This TensorFlow binary is optimized|Ignore above cudart dlerror"
    r"|Could not load dynamic library 'lib(?:cud|nvinfer)|resource_tracker: There appear to be"
    r"|^  warnings\.warn\('resource_tracker|destroy_process_group\(\) was not called"
)


def clean(line: str) -> str:
    """Return a line as a terminal shows it: without colours; of a progress bar, only its last
    state.
    """
    if "\x1b" in line:
        line = _COLOUR.sub("", line)
    if "\r" in line or "\b" in line:
        states = [part for part in re.split("[\r\b]+", line) if part.strip()]
        line = states[-1] if states else ""
    return _CONTROL.sub("", line).rstrip()


def is_noise(line: str) -> bool:
    """Return whether a line says nothing about the program, such as a line of the bootstrap."""
    return PREFIX in line or contract.OUTCOME_MARK in line or bool(_NOISE.search(line))


def is_bar(line: str) -> bool:
    """Return whether a line is a state of a progress bar."""
    return bool(_BAR.search(line))


def telling_lines(text: str) -> list[str]:
    """Return the lines of an output without empty lines and noise; a sequence of progress bars is
    reduced to the last one.
    """
    found: list[str] = []
    for written in text.split("\n"):
        line = clean(written)
        if not line or is_noise(line):
            continue
        if found and is_bar(line) and is_bar(found[-1]):
            found.pop()
        found.append(line)
    return found


def own_end(lines: list[str]) -> list[str]:
    """Return the lines without those that torchrun writes when its processes have ended."""
    last = next(
        (at for at in range(len(lines) - 1, -1, -1) if _OF_TORCHRUN.match(lines[at])), len(lines)
    )
    begin = next((at for at in range(last - 1, 0, -1) if START in lines[at]), last)
    return lines[:begin] if last < len(lines) else lines
