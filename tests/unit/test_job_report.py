"""The job's report: that its class has what the container writes, and that nothing in it can cost a
job its verdict.
"""

from __future__ import annotations

import ast
import json
import random
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job import Status, job_report
from submit_tf_job.observation import JobStatus
from submit_tf_job.report.job_text import change_line
from tests.builders.statuses import FAILURE, FAILURE_JSON, app, report
from tests.unit.container.descriptions import role
from tests.unit.container.played import Played

PACKAGE = Path(job_report.__file__).parent


# --- the container's writer ---


def written_reports() -> Iterator[dict[str, Any]]:
    """Yield reports that have, together, everything that the container writes."""
    roles = {"chief": role(1, "trains"), "worker": role(3, "trains"), "eval": role(1, "evaluates")}
    rule = {"worker": {"min": 1, "grow_after_s": 300}}
    played = Played(roles, retries={"max": 2, "on": ["any"]}, elastic=rule)
    job = played.job
    yield played.report()
    job.info.credentials.append({"kind": "kerberos-ticket", "owner": "ann", "until": 1.5})
    for index in range(3):
        here: dict[str, Any] = {
            "container": f"container_{index}",
            "gpus": ["A100"],
            "ports": {"tensorboard": 6006},
        }
        here["ignored_image"] = "img" if index == 1 else ""
        played.hello(f"worker-{index}", at=f"10.0.0.{index + 2}", **here)
    played.hello("eval-0", container="container_9")
    job.unresolved.clear()
    played.after(0)
    for member in job.members.values():
        job.running(member)
    told = {"step": 3, "total": 9, "unit": "epoch", "part": 0.1, "metrics": {"loss": 0.5}}
    told["metrics_step"] = 2
    job.checkpoint = {"uri": "hdfs:///c", "name": "ckpt-3", "step": 3, "at": 1.5}
    for part in (0.1, 0.5):
        played.after(60)
        job.record_progress(played.now, job.me, {**told, "part": part})
        job.news.heard(played.now, "worker-0", 3.0)
    played.after(100)
    job.news.heard(played.now, "chief-0", 9.0)
    played.after(90)
    job.news.heard(played.now, "chief-0", 9.0)
    yield played.report()
    played.done("worker-1", 3, last_lines=["Traceback", "ValueError"], signal=None)
    played.after(10)
    yield played.report()

    played = Played(roles)
    played.start()
    played.done("worker-2", 0, stored=[["model", "hdfs:///m"]])
    played.done("chief-0", 0, duration_s=3.5)
    yield played.report()
    for name in ("worker-0", "worker-1"):
        played.done(name, 4, signal=9)
    played.after(40)
    played.job.kept = {
        "task": "worker-0",
        "host": "node",
        "container": "container_1",
        "directory": "/d",
        "until": 2.5,
    }
    yield played.report(over=True)

    played = Played(roles)
    played.start()
    played.job.stop(played.now, graceful=True)
    yield played.report()


def compared(made: Any, written: Mapping[str, Any], seen: set[tuple[type, str]]) -> None:
    """Compare an object of the class with what was written for it, fact by fact."""
    facts = {f.metadata["key"] or f.name: f for f in fields(made) if "read" in f.metadata}
    assert set(written) <= set(facts), f"{type(made).__name__} lacks what the container writes"
    for key, value in written.items():
        seen.add((type(made), key))
        read = getattr(made, facts[key].name)
        if is_dataclass(read):
            compared(read, value, seen)
        elif isinstance(read, tuple) and any(map(is_dataclass, read)):
            assert len(read) == len(value)
            for one, its in zip(read, value, strict=True):
                compared(one, its, seen)
        elif isinstance(read, Mapping) and any(map(is_dataclass, read.values())):
            assert read.keys() == value.keys()
            for name, one in read.items():
                compared(one, value[name], seen)
        else:
            nothing = type(made)().__getattribute__(facts[key].name)
            shown = list(read) if isinstance(read, tuple) else read
            assert shown == value or (value in (None, "") and read == nothing), (made, key)


def test_job_report_has_what_the_container_writes_and_nothing_else() -> None:
    seen: set[tuple[type, str]] = set()
    for written in written_reports():
        content = json.dumps(written).encode()
        made = job_report.JobReport.parse(content)
        assert made
        compared(made, written, seen)
        assert made.record(10**6) == json.loads(content)
        if made.progress:
            assert made.progress.to_json() == written["progress"]
    kinds = {kind for kind in vars(job_report).values() if isinstance(kind, type)}
    facts = {
        (kind, found.metadata["key"] or found.name)
        for kind in kinds - {job_report.OutcomeLine}
        if is_dataclass(kind)
        for found in fields(kind)
        if "read" in found.metadata and found.metadata["key"] != "*"
    }
    assert facts - seen == set(), "no container writes it"


# --- what is broken in it ---


def test_job_report_parse_of_a_complete_report() -> None:
    found = report(
        "running",
        missing=["ps-0"],
        roles={"worker": {"wanted": 2, "arrived": 1, "running": 1, "restarts": 3, "new": 1}},
        outcome={"status": 0},
        first_failure=FAILURE_JSON,
        warnings=["slow", True, None, 7, [], ""],
        progress={"step": 3, "new": 1},
        unknown={"a": 1},
    )
    assert (found.run, found.state, found.missing) == ("s", "running", ("ps-0",))
    assert (found.wanted, found.arrived, found.outcome_status) == (2, 2, 0)
    assert found.roles == {
        "worker": job_report.RoleCounts(wanted=2, arrived=1, running=1, restarts=3)
    }
    assert (found.first_failure, found.warnings) == (FAILURE, ("slow", "7", ""))
    assert found.progress
    assert found.progress.to_json() == {"step": 3, "new": 1}
    assert found.record(10**6)["unknown"] == {"a": 1}


NO_REPORT = [
    *(b"", b"{", b"[]", b"null", b"{}", b"\xff", b"[" * 100_000),
    b'{"version": 2, "run": "s", "state": "running"}',
    b'{"version": 1, "state": "running"}',
    b'{"version": 1, "run": "s"}',
    b'{"version": 1, "run": "s", "state": ["running"]}',
]


@pytest.mark.parametrize("content", NO_REPORT, ids=range(len(NO_REPORT)))
def test_job_report_parse_of_invalid_content(content: bytes) -> None:
    assert job_report.JobReport.parse(content) is None


def test_job_report_parse_of_a_truncated_report() -> None:
    whole = json.dumps(report("failed", first_failure=FAILURE_JSON).record(10**6)).encode()
    assert job_report.JobReport.parse(whole)
    assert [job_report.JobReport.parse(whole[:length]) for length in range(len(whole))] == [
        None
    ] * len(whole)


# what any program, task or disk may leave in the place of a value
STRANGE = [
    *("null", "true", "0", "-1", "1.5", "NaN", "-Infinity", "1e999", "1e308", "-1e308"),
    *("9" * 5000, "-" + "9" * 300, '""', '"x"', '"-"', '"\\ud800"', '"lo\\udc80ss"', '"\\u0000"'),
    *('"\\u001b[31mred"', '"a\\nb"', '"\\u202e"', '"' + "x" * 9000 + '"', "[]", "{}", "[[]]"),
    *('[null, 1, "x", {}, []]', '{"": null}', '{"a": 1, "b": [1]}', '{"\\ud800": "\\ud800"}'),
    *("[" * 2000 + "]" * 2000, '{"a":' * 2000 + "1" + "}" * 2000, "[" * 200 + "]" * 200),
]


def everywhere(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths of all values in JSON."""
    yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from everywhere(inner, (*path, key))


def changed(value: Any, path: tuple[str | int, ...], mark: str) -> Any:
    """Return JSON with a text at one path."""
    if not path:
        return mark
    copy = value.copy()
    copy[path[0]] = changed(value[path[0]], path[1:], mark)
    return copy


REPORTS = list(written_reports())
# without these a file is not a report, or tells another end
IDENTITY = (("version",), ("run",), ("state",))
PLACES = [[path for path in everywhere(one) if path and path not in IDENTITY] for one in REPORTS]


def broken(seed: int) -> tuple[dict[str, Any], bytes]:
    """Return a report that a container writes, and it with strange values in a few places."""
    chance = random.Random(seed)
    number = chance.randrange(len(REPORTS))
    whole = {**REPORTS[number], "new": None}
    for mark in range(chance.choice((1, 1, 2, 5))):
        path = chance.choice([*PLACES[number], ("new",)])
        with suppress(KeyError, IndexError, TypeError, AttributeError):  # inside of another one
            whole = changed(whole, path, f"@{mark}@")
    text = json.dumps(whole)
    for mark in range(5):
        text = text.replace(f'"@{mark}@"', chance.choice(STRANGE))
    return REPORTS[number], text.encode()


def shown(seen: JobStatus) -> str:
    """Return what commands, the SDK and the gateway show of a status."""
    status = Status(seen)
    told = json.dumps(status.to_json(), allow_nan=False)
    return "\n".join((str(status), repr(status), change_line(seen, 1.0), told))


WHOLE = {one["state"]: job_report.JobReport.parse(json.dumps(one).encode()) for one in REPORTS}
ENDS = {"succeeded": "SUCCEEDED", "failed": "FAILED", "stopped": "KILLED"}


@pytest.mark.slow
@pytest.mark.parametrize("count", [2000, pytest.param(20_000, marks=pytest.mark.long)])
def test_broken_report_is_read_and_shown_and_costs_no_verdict(count: int) -> None:
    for seed in range(count):
        whole, content = broken(seed)
        found = job_report.JobReport.parse(content)
        assert found, seed
        final = ENDS.get(whole["state"])
        record = app("FINISHED", final) if final else app("RUNNING", "UNDEFINED")
        good = JobStatus("mnist", "application_1_0001", record, report=WHOLE[whole["state"]])
        seen = replace(good, report=found)
        assert (seen.state, seen.verdict.confirmed) == (good.state, good.verdict.confirmed), seed
        shown(seen).encode()
        json.dumps(found.record(10**6), allow_nan=False, ensure_ascii=False).encode()


# --- its readers ---


PARSERS = ("job_report.py", "usage_report.py")


def read_by_string(tree: ast.AST, keys: set[str]) -> Iterator[ast.AST]:
    """Yield what takes a key out of a report or its progress: `….get("key")`, `…["key"]`."""
    for node in ast.walk(tree):
        taken: tuple[ast.expr, ast.expr] | None = None
        if isinstance(node, ast.Subscript):
            taken = node.value, node.slice
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("get", "entries", "pop")
            and node.args
        ):
            taken = node.func.value, node.args[0]
        if taken is None or not isinstance(taken[1], ast.Constant) or taken[1].value not in keys:
            continue
        names = {
            getattr(inner, "attr", getattr(inner, "id", "")) for inner in ast.walk(taken[0])
        } | {getattr(getattr(node, "func", None), "attr", "")}
        if names & {"report", "progress", "raw", "written", "entries", "_written"}:
            yield node


@pytest.mark.slow
def test_keys_of_the_report_are_read_by_its_parser_alone() -> None:
    keys = {
        found.metadata["key"] or found.name
        for kind in vars(job_report).values()
        if isinstance(kind, type) and is_dataclass(kind)
        for found in fields(kind)
        if "read" in found.metadata
    }
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"  # type: ignore[attr-defined]
        for path in PACKAGE.rglob("*.py")
        if path.name not in PARSERS and "container" not in path.relative_to(PACKAGE).parts
        if "inspection" not in path.name
        if re.search("report|progress", text := path.read_text("utf-8"))
        for node in read_by_string(ast.parse(text), keys)
    ]
    assert found == []
    text = 'report.raw.get("deciding"), seen.entries("tasks"), (report.progress or {})["step"]'
    assert len(list(read_by_string(ast.parse(text), keys))) == 3
