"""Read the output of a program, and remove what launchers, loggers and terminals put before its
lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from submit_tf_job.container.output_lines import START, clean, is_bar, is_noise

_LONGEST, _HEAD = 4000, 120
_JSON_LONGEST = 200_000
# the working directory of a task, which is in no job spec
_WORKDIR = re.compile(
    r"(?<![\w.])/(?:[^\s/'\":]{1,255}/){0,30}(?:container_(?:e\d+_)?\d+_\d+_\d+_\d+|submit_tf_job-local-\w+/work/[\w-]+\.\d+)/"
)
# the directory above it, into which nothing of a job is put
_ABOVE_WORKDIR = re.compile(
    r"(?<![\w.])/(?:[^\s/'\":]{1,255}/){0,30}appcache/application_\d+_\d+/(?!filecache/)"
)
_STAMP = re.compile(
    r"\[?\d{2}(?:\d\d)?[-/]\d\d[-/]\d\d[T ,]+\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?:?(?: |$)"  # noqa: E501
    r"|\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?:?(?: |$)"
    r"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} +\d+ \d\d:\d\d:\d\d (?:\w+ )?\d{4}(?::? |(?=\[\d))"
    r"|\w{3} [ \d]\d \d\d:\d\d:\d\d (?:[\w.-]+ )?"
)
# what torchrun, PyTorch, mpirun, horovodrun, Ray and srun write before each line of a process
_PROCESS = re.compile(
    r"\[(?P<name>rank\d+)\]:(?: |$)|\[(?P<role>[A-Za-z_][\w-]*(?<=\d))\]:|\[(?P<slot>\d+(?:,\d+)?)\]<std(?:out|err)>:? ?"  # noqa: E501
    r"|\((?P<actor>(?:[\w.<>]+ )?pid=\d+(?:, ip=[\d.]+)?)\)(?: |$)"
)
_RANK = re.compile(r"\[rank\d+\]: $")
_LEVELS = {"E": "error", "F": "error", "C": "error", "W": "warning"}
_RECORD = re.compile(
    r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL):[\w.]*:\s?"  # logging's own form
    r"|[DIWEF]\d{4,8} [\d:.]+ +\d+ [^\s\]]+:\d+\] "  # glog, absl, torch
    r"|\[[DIWEFC]\d* [^\]]+\] "  # C++ of PyTorch; tornado
    r"|(?:: )?[DIWEF] [\w./-]+:\d+\] "  # TensorFlow
    r"|(?:(?:\[[^\]]*\]|\{[^}]*\}|[\w.<>]+)[\s|:-]+){0,4}?"  # a logger's name, a thread, a file
    r"[\[(<]?\b(?:DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|SEVERE)\b *[\])>]?[\s:|-]*"
)
_FIELDS = ("message", "msg", "event", "text")
_RAISED_IN = ("exc_info", "exception", "traceback", "stack_trace", "exc_text", "stack", "error")
_LEVELS_IN = ("level", "levelname", "severity", "lvl")


@dataclass(frozen=True)
class OutputLine:
    """A line of an output.

    Attributes:
        number: The number of the line in the text, from 0.
        text: The text of the line, without the prefix that each line of its process has.
        process: The process that wrote the line, as a launcher names it, or "".
        level: `info`, `warning` or `error` for a line of a log, else "".
        message: The text of a line of a log, without logger, level and file.
    """

    number: int
    text: str
    process: str = ""
    level: str = ""
    message: str = ""

    @property
    def is_bar(self) -> bool:
        """Whether the line is a state of a progress bar."""
        return is_bar(self.text)


def without_workdir(text: str) -> str:
    """Return a text in which paths below the task's working directory are relative to it."""
    return _ABOVE_WORKDIR.sub("../", _WORKDIR.sub("", text))


def without_box(line: str) -> str:
    """Return the text between the vertical bars of a line, if the library rich drew it as part of a
    box.
    """
    inside = re.sub(r"^\s*[│┃|] ?", "", line)
    before = inside.rstrip()
    return before[:-1].rstrip() if before.endswith(("│", "┃", "|")) else inside


def read_lines(text: str) -> list[OutputLine]:
    """Return the lines of an output, without colours, noise, and the prefixes of lines."""
    found: list[OutputLine] = []
    for number, written in enumerate(text.split("\n")):
        line = clean(written)
        if is_noise(line):
            continue
        for part in _lines_inside(line):
            read = _read_line(number, part)
            if found and read.is_bar and found[-1].is_bar:
                found.pop()
            found.append(read)
    return _without_prefixes(found)


def _lines_inside(line: str) -> Iterator[str]:
    """Yield the lines that a JSON object contains, or a traceback that begins after a progress bar
    in the same line.
    """
    if line.startswith("{") and line.endswith("}") and len(line) < _JSON_LONGEST:
        try:
            held = json.loads(line)
        except (ValueError, RecursionError):
            held = None
        if isinstance(held, dict) and (lines := list(_of_json(held))):
            yield from lines
            return
    before, start, rest = line.partition(START)
    rank = found[0] if start and (found := _RANK.search(before)) else ""
    if start and is_bar(before.removesuffix(rank)):
        yield before.removesuffix(rank)[:_LONGEST]
        line = rank + start + rest
    if start and rest.startswith(':  File "'):  # of NumPy, whose warning has no end of line there
        yield f"{before}{start}:"[:_LONGEST]
        line = rest[1:]
    yield line[:_LONGEST]


def _of_json(held: dict[str, object]) -> Iterator[str]:
    level = str(next(filter(None, map(held.get, _LEVELS_IN)), ""))
    record = held.get("record")
    flat = {**held, **record} if isinstance(record, dict) else held
    told = next((str(flat[name]) for name in _FIELDS if isinstance(flat.get(name), str)), "")
    if told:
        word = level.upper() if level.upper().rstrip("S") in _WORDS else ""
        first, *more = told.split("\n")
        yield f"{word}: {first}" if word else first
        yield from more
    raised = _traceback_in(held) or next(filter(None, map(_text_of, map(flat.get, _RAISED_IN))), "")
    if raised:
        yield from raised.rstrip().split("\n")


def _traceback_in(value: object, depth: int = 4) -> str:
    """Return the first text in a JSON value that is a traceback, or ""."""
    text = _text_of(value)
    if text or not isinstance(value, dict) or not depth:
        return text if START in text else ""
    inner = (_traceback_in(one, depth - 1) for one in value.values())
    return next(filter(None, inner), "")


def _text_of(value: object) -> str:
    if isinstance(value, list):
        return "\n".join(str(line).rstrip("\n") for line in value)
    return value if isinstance(value, str) else ""


_WORDS = ("DEBUG", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "CRITICAL", "FATAL")


def _read_line(number: int, text: str) -> OutputLine:
    process = ""
    if found := _PROCESS.match(text):
        process = next(filter(None, found.groups()))
        text = text[found.end() :]
    stamped = _STAMP.match(text)
    if stamped:
        text = text[stamped.end() :]
        if not process and (found := _PROCESS.match(text)):
            process = next(filter(None, found.groups()))
            text = text[found.end() :]
    record = _RECORD.match(text[:_HEAD])
    if record is None or not (stamped or _is_record(text)):
        return OutputLine(number, text, process)
    words = record[0].upper()
    level = "info"
    if re.search(r"ERROR|CRITICAL|FATAL|SEVERE", words):
        level = "error"
    elif "WARN" in words:
        level = "warning"
    elif letter := re.match(r"(?:: |\[)?([DIWEFC])(?:\d| )", record[0]):
        level = _LEVELS.get(letter[1], "info")
    return OutputLine(number, text, process, level, text[record.end() :])


def _is_record(text: str) -> bool:
    """Return whether a line without a time is a line of a log, and not a sentence such as `Error:
    x`.
    """
    return bool(
        re.match(
            r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL)(?::[\w.]*:| *[|\]]| - |: | \[?\d+[/-]\d+[ -])"  # noqa: E501
            r"|\[?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\]|[DIWEF]\d{4,8} |\[[DIWEFC]\d* |: [DIWEF] ",  # noqa: E501
            text,
        )
    )


def _without_prefixes(lines: list[OutputLine]) -> list[OutputLine]:
    """Return the lines without the prefix that a pipe wrote before each line of a traceback."""
    done = list(lines)
    for at, line in enumerate(done):
        prefix, start, _ = line.text.partition(START)
        if not start or not prefix.strip() or len(prefix) > 120 or at + 1 >= len(done):
            continue
        is_box = prefix.lstrip()[:1] in "╭+|│" and not re.search(r"\d", prefix)
        if is_box or prefix.rstrip()[-1:] in "─-=":
            continue
        shape = re.compile(re.sub(r"\d+", r"\\d+", re.escape(prefix.rstrip())))
        if not shape.match(done[at + 1].text):
            continue
        for later in range(at, len(done)):
            if found := shape.match(done[later].text):
                text = done[later].text[found.end() :]
                text = text[1:] if prefix.endswith(" ") and text.startswith(" ") else text
                done[later] = replace(done[later], text=text, level="", message="")
    return done


def of_process(lines: Sequence[OutputLine], name: str) -> list[OutputLine]:
    """Return only the lines that one process wrote."""
    return [line for line in lines if line.process == name]
