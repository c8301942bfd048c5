"""The cost of each regular expression of the package grows with its text, not with its square."""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import itertools
import re
import signal
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.hostile_texts import hostile_texts

PACKAGE = Path(__file__).parents[2] / "submit_tf_job"
FIRST, SIZE = 500, 16_000
MOST_S, MOST_RATIO = 0.05, 8  # for four times the text; both are exceeded by a square
LIMIT_S = 0.2
# How long a text is at most, and whether it is one line, where that is decided before.
LINE = "a line"
BOUNDS = {
    "diagnose/output.py:_RECORD": (120, LINE),
    "diagnose/output.py": (4000, LINE),
    "diagnose/exceptions.py": (4000, LINE),
    "diagnose/last_words.py": (4000, LINE),
    "diagnose/evidence.py": (4000, ""),
    "yarn/errors.py": (4000, ""),
    "diagnose/failure.py": (8000, ""),
    "container/data/newest_checkpoint.py": (255, LINE),  # a file's name
    "container/output_lines.py": (SIZE, LINE),
    "cli/streams.py": (SIZE, LINE),
}
# Their text is this package's own, or of the machine of whoever calls them.
OWN = (
    "sandbox/",
    "cli/manual.py",
    "dialects/rows.py",
    "jobspec/kinds.py:_MARKUP",
    "doctor/images.py",
    "airflow/",
)
# The methods of patterns that are called by another name than their own.
CALLED = {"cli/streams.py:_LINES": {"fullmatch"}, "jobspec/wheels.py:_PATHS": {"match"}}
# Where patterns come from that a call takes from a variable; () for those of whoever calls, and for
# those whose words are quoted in a pattern without repeats.
TAKEN: dict[str, tuple[str, ...]] = {
    "cli/manual.py: own": (),
    "cli/streams.py: pattern": ("cli/streams.py:_LINES",),
    "diagnose/output.py: re.sub('\\\\d+', '\\\\\\\\d+', re.escape(prefix.rstrip()))": (),
    "diagnose/patterns.py: pattern.regex": ("diagnose/evidence.py:PROGRAM",),
    "diagnose/patterns.py: pattern.near": ("diagnose/evidence.py:PROGRAM",),
    "diagnose/queueing.py: _DETAIL.format(re.escape(name))": ("diagnose/queueing.py:_DETAIL",),
    "dialects/rows.py: ''.join((words.get(part) or re.escape(part) for part in parts))": (),
    "doctor/imageprobe.py: '[\\'\"]{}[\\'\"]\\\\s*[:,]\\\\s*[\\'\"]?([\\\\w.]+)'.format(key)": (),
    "host/kerberos.py: pattern": ("host/kerberos.py:_MEANINGS",),
    "host/located/yaml_source.py: pattern": ("host/located/yaml_source.py:_SYNTAX",),
    "jobspec/from_command.py: path": (),
    "jobspec/kinds.py: pattern": ("jobspec/keys.py",),
    "jobspec/left_out.py: fnmatch.translate(x)": (),
    "jobspec/own_program.py: names": ("jobspec/own_program.py:_OWN_SETS",),
    "jobspec/sent_files.py: hidden + fnmatch.translate(part)": (),
    "logs/archive.py: _EXPORT % (name.encode(), name.encode())": ("logs/archive.py:_EXPORT",),
    "logs/read.py: text": (),
    "sandbox/processes.py: b':/%b(/|$)' % re.escape(group).encode()": (),
    "settings.py: pattern": (),
    "storage/base.py: pattern": ("storage/base.py:_WORDS",),
    "yarn/errors.py: meaning.pattern": ("yarn/errors.py:_CREDENTIALS", "yarn/errors.py:_MEANINGS"),
}


@dataclasses.dataclass
class _Found:
    """A pattern: where it is, and by which methods it is called."""

    pattern: re.Pattern[Any]
    place: str
    methods: set[str]

    def bound(self) -> tuple[int, str]:
        file = self.place.partition(":")[0]
        return BOUNDS.get(self.place) or BOUNDS.get(file) or (SIZE, "")


@pytest.mark.slow
@pytest.mark.parametrize("texts", [4, pytest.param(10_000, marks=pytest.mark.long)])
def test_cost_of_each_pattern_grows_with_its_text(texts: int) -> None:
    slow = []
    for found in _patterns():
        if not found.place.startswith(OWN) and (words := _slow(found, texts)):
            slow.append(words)
    assert not slow, "\n".join(slow)


def test_each_pattern_that_a_call_takes_from_a_variable_is_known() -> None:
    assert set(_Package.read().taken) == set(TAKEN), "say in TAKEN where its patterns come from"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"\d+%", "search"),
        (r"^\s+(?:at )?.*?\(?(/[^\s:()]+):(\d+)$", "match"),
        (r"(a|aa)+b", "fullmatch"),
        (r"<x>(.*?)</x>", "search"),
        (r"\s*[|]$", "sub"),
        (r"x.*y.*z", "match"),
    ],
)
def test_patterns_that_cost_more_are_found(pattern: str, method: str) -> None:
    assert _slow(_Found(re.compile(pattern), "", {method}))


@pytest.mark.parametrize("pattern", [r"(?<!\d)\d+%", r"a{1,30}b", r"<[^<>]*>", r"^\w+ .*$"])
def test_patterns_that_cost_as_much_as_their_text_pass(pattern: str) -> None:
    assert not _slow(_Found(re.compile(pattern), "", {"search", "fullmatch", "sub"}))


# --- how long a pattern takes ---------------------------------------------------------------------


def _slow(found: _Found, texts: int = 10_000) -> str:
    """Return what is too slow about a pattern on its first hostile texts, or ""."""
    longest, is_line = found.bound()
    least_s = (
        MOST_S * (FIRST / longest) ** 2
    )  # a square that takes MOST_S takes more of a short text
    for text in itertools.islice(hostile_texts(found.pattern), texts):
        first = text.of_size(FIRST)
        for method in () if is_line and "\n" in first else found.methods:
            if _cost_s(found.pattern, method, first) < least_s:
                continue
            middle_s = _cost_s(found.pattern, method, text.of_size(longest // 4))
            last_s = _cost_s(found.pattern, method, text.of_size(longest))
            if last_s >= LIMIT_S or last_s > max(MOST_S, MOST_RATIO * middle_s):
                shown = f"{method} {first[:40]!r}… of {longest} characters: {last_s:.2f} s"
                return f"{found.place}: {found.pattern.pattern!r} {shown}"
    return ""


class _TooLongError(Exception):
    """The error that ends a match."""


def _cost_s(pattern: re.Pattern[Any], method: str, text: str) -> float:
    """Return the seconds of the processor that a call takes, the best of two; at most LIMIT_S."""
    call = getattr(pattern, method)
    given: Any = text.encode("utf-8", "replace") if isinstance(pattern.pattern, bytes) else text

    def late(*_: object) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGVTALRM, late)
    best_s = LIMIT_S
    try:
        for _ in range(2):
            signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
            begun = time.thread_time()
            call(given[:0], given) if method == "sub" else call(given)
            best_s = min(best_s, time.thread_time() - begun)
            if best_s < 0.00001:
                break
    except _TooLongError:
        pass
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    return best_s


# --- which patterns there are ---------------------------------------------------------------------

_FLAGS_AT = {"sub": 4, "split": 3, "compile": 1}  # 2 of all others
_CALLS = ("match", "search", "fullmatch", "finditer", "findall", "sub", "split")
_SCAN = {"finditer": "sub", "findall": "sub", "split": "sub"}  # they look as `sub` does


def _patterns() -> list[_Found]:
    """Return each pattern once, with all of its places' methods."""
    package = _Package.read()
    made: dict[re.Pattern[Any], _Found] = {}
    for place, pattern in package.patterns():
        methods = package.methods_of(place)
        known = made.setdefault(pattern, _Found(pattern, place, set()))
        known.methods |= methods
    return list(made.values())


class _Package:
    """The sources of the package, and the modules that hold patterns."""

    def __init__(self) -> None:
        self.inline: list[tuple[str, str, re.Pattern[Any]]] = []
        self.calls: dict[str, set[str]] = defaultdict(set)
        self.taken: list[str] = []
        self.modules: dict[str, dict[str, Any]] = {}

    @staticmethod
    @functools.cache
    def read() -> _Package:
        package = _Package()
        for path in sorted(PACKAGE.rglob("*.py")):
            text, file = path.read_text(), str(path.relative_to(PACKAGE))
            if re.search(r"^\s*import re$", text, re.MULTILINE):
                package.module(file, text)
        return package

    def module(self, file: str, text: str) -> None:
        names: dict[str, Any] = {"re": re}
        if not file.startswith("airflow/"):  # which the tests' environment lacks
            dotted = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            names = vars(importlib.import_module(f"submit_tf_job.{dotted}"))
            self.modules[file] = names
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                self.call(file, node, node.func, names)

    def call(self, file: str, node: ast.Call, func: ast.Attribute, names: dict[str, Any]) -> None:
        name = func.value.id if isinstance(func.value, ast.Name) else ""
        name = func.value.attr if isinstance(func.value, ast.Attribute) else name
        if name == "re" and func.attr in (*_CALLS, "compile"):
            try:
                pattern = _evaluated(node, func.attr, names)
            except NameError:
                self.taken.append(f"{file}: {ast.unparse(node.args[0])}")
                return
            if func.attr != "compile":
                self.inline.append((f"{file}:{node.lineno}", func.attr, pattern))
        elif func.attr in _CALLS:
            self.calls[f"{file}:{name}"].add(func.attr)
            self.calls[name].add(func.attr)

    def patterns(self) -> Iterator[tuple[str, re.Pattern[Any]]]:
        yield from ((place, pattern) for place, _, pattern in self.inline)
        seen = set[int]()
        strings = {place for places in TAKEN.values() for place in places}
        for file, names in self.modules.items():
            for name, value in names.items():
                place = f"{file}:{name}"
                for one in _held(value, seen, is_taken=place in strings or file in strings):
                    yield place, one

    def methods_of(self, place: str) -> set[str]:
        of_place = {method for one, method, _ in self.inline if one == place}
        name = place.partition(":")[2]
        found = of_place or CALLED.get(place) or self.calls.get(place) or self.calls.get(name)
        return {_SCAN.get(one, one) for one in found or {"match", "search"}}


def _evaluated(node: ast.Call, method: str, names: dict[str, Any]) -> re.Pattern[Any]:
    at = _FLAGS_AT.get(method, 2)
    flags = [word.value for word in node.keywords if word.arg == "flags"] or node.args[at : at + 1]
    given = [_value(one, names) for one in (node.args[0], *flags)]
    return given[0] if isinstance(given[0], re.Pattern) else re.compile(*given)


def _value(node: ast.expr, names: dict[str, Any]) -> Any:
    """Return the value of an expression; what an f-string takes from a variable is "x"."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.JoinedStr):
            for at, part in enumerate(inner.values):
                if isinstance(part, ast.FormattedValue):
                    try:
                        words = str(_value(part.value, names))
                    except NameError:
                        words = "x"
                    inner.values[at] = ast.Constant(words)
    whole = ast.fix_missing_locations(ast.Expression(node))
    return eval(compile(whole, "a pattern", "eval"), dict(names))


def _held(value: Any, seen: set[int], *, is_taken: bool) -> Iterator[re.Pattern[Any]]:
    """Return the patterns that a value holds; and of taken ones its texts that are patterns."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, (str, bytes)):
        if is_taken and any(sign in str(value) for sign in "*+[\\"):
            try:
                yield re.compile(value, re.MULTILINE)
            except re.error:  # a sentence beside its pattern
                return
    elif id(value) not in seen:
        inner: Iterable[Any] = ()
        if isinstance(value, (tuple, list, set, frozenset)):
            inner = value
        elif isinstance(value, dict):
            inner = value.values()
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            inner = [getattr(value, one.name, None) for one in dataclasses.fields(value)]
        elif isinstance(value, type) and value.__module__.startswith("submit_tf_job"):
            inner = list(vars(value).values())
        seen.add(id(value))
        for one in inner:
            yield from _held(one, seen, is_taken=is_taken)
