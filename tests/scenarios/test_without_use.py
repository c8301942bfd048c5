"""Doors that show use, metrics and records, of applications and runs that have none: what is not
known is said, and is no zero and no traceback.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.operations import record_files
from tests.world import World
from tests.world.yarn import App

USAGE: dict[str, Any] = {
    "version": 1,
    "run": "mnist-4abcdefg",
    "roles": {"worker": {"tasks": 2, "for_s": 60, "peak_by": "kernel"}},
    "tasks": [{"task": "worker-1", "cpu_cores": {"now": 2.0}, "memory_bytes": {"now": 4096}}],
}
DAMAGED = "cannot be read: it is damaged, or a newer version wrote it"


def other_application(world: World, name: str, **values: Any) -> App:
    """Let the same user have an application that this tool has not submitted."""
    world.submitted("own")
    made = copy.copy(world.yarn.apps[world.application])
    made.id, made.name = f"{made.id[:-4]}0099", name
    for key, value in values.items():
        setattr(made, key, value)
    world.yarn.apps[made.id] = made
    return made


@pytest.mark.parametrize("verb", ["usage", "compare", "history", "describe", "status"])
def test_an_application_of_another_type_is_no_job(kept: World, verb: str) -> None:
    app = other_application(kept, "word count", type="MAPREDUCE")
    done = kept(verb, app.id)
    assert (done.status, done.out) == (5, "")
    assert f"{app.id} is an application of type MAPREDUCE" in done.err
    assert "word count" not in kept("list").out


def test_a_service_of_another_tool_has_no_use_and_no_record(kept: World) -> None:
    app = other_application(kept, "sleeper", started_ms=0)
    spec = {"name": "sleeper", "id": app.id, "components": []}
    kept.yarn.directories[app.user, "sleeper"] = copy.copy(
        kept.yarn.directories[app.user, kept.name]
    )
    kept.yarn.directories[app.user, "sleeper"].spec = spec
    app.spec = app.runs = spec
    shown = kept("usage", app.id)
    assert "not known: submit_tf_job did not submit this service" in shown.out
    found = kept("usage", app.id, "-o", "json").json
    assert (found["charged"], found["elapsed_s"], found["asked"]) == (None, None, {})
    compared = kept("compare", app.id)
    assert (compared.status, "has no record" in compared.err) == (5, True)
    assert kept("history", app.id).out == "no run has a record\n"


def ended(world: World) -> Path:
    """Return the record of a run that has ended, and that YARN has forgotten."""
    chief = world.running("chief-0")["chief-0"]
    progress = {"step": 40, "metrics": {"loss": 0.25}}
    told: dict[str, Any] = {"progress": progress, "outcome": {"status": 0}}
    world.reports(chief, "succeeded", deciding="chief-0", **told)
    world.cluster.clock.after(1, world.ends)
    world("wait", "mnist")
    [record] = (world.home / "staging/records").rglob(f"{world.name}.json")
    world.yarn.apps.clear()
    world.cluster.node.logs.clear()
    record_files.warn_of_unreadable.cache_clear()
    return record


def of_earlier_version(record: dict[str, Any]) -> dict[str, Any]:
    for key in ("values", "asked"):
        del record["submission"][key]
    del record["end"]["report"]
    return record


DOORS = [("history",), ("history", "mnist"), ("compare", "mnist"), ("usage", "mnist"), ("status", "mnist")]  # fmt: skip


def test_a_run_of_an_earlier_version_shows_what_its_record_has(kept: World) -> None:
    record = ended(kept)
    record.write_text(json.dumps(of_earlier_version(json.loads(record.read_bytes()))))
    for words in DOORS:
        done = kept(*words)
        assert (done.status, done.err, "SUCCEEDED" in done.out) == (0, "", True), done
        assert " 0 " not in done.out, done.out
    assert "earlier versions measured nothing" in kept("usage", "mnist").out
    found = kept("usage", "mnist", "-o", "json").json
    assert (found["asked"], found["charged"], found["roles"]) == ({}, None, {})


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda content: content[:200],
    "empty": lambda _content: b"",
    "another kind": lambda content: content.replace(b'"RunRecord"', b'"RunRecord2"'),
    "no submission": lambda content: json.dumps({**json.loads(content), "submission": {}}).encode(),
}


@pytest.mark.parametrize("how", DAMAGES)
def test_a_record_that_cannot_be_read_is_told(
    kept: World, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    record = ended(kept)
    record.write_bytes(DAMAGES[how](record.read_bytes()))
    for words in DOORS:
        caplog.clear()
        record_files.warn_of_unreadable.cache_clear()
        done = kept(*words)
        assert done.status == (0 if words == ("history",) else 5), done
        assert [one.message for one in caplog.records] == [f"{record} {DAMAGED}"], words
        assert "did you mean mnist" not in done.err
    assert "its records were removed, are damaged" in kept("status", "mnist").err


@pytest.mark.parametrize("end", [{"state": "PAUSED", "report": 7}, {"state": 3}, {}])
def test_a_record_with_an_end_of_a_newer_version_has_an_unknown_state(
    kept: World, end: dict[str, Any]
) -> None:
    record = ended(kept)
    content = {**json.loads(record.read_bytes()), "format": 2, "end": end, "report": None}
    record.write_text(json.dumps(content))
    for words in DOORS:
        done = kept(*words)
        assert (done.status, "UNKNOWN" in done.out) == (0, True), done


USES: dict[str, tuple[str, str, bool]] = {
    "cut": (json.dumps(USAGE)[:100], "they left nothing that can be read", True),
    "newer": (json.dumps({**USAGE, "version": 2}), "they left nothing that can be read", True),
    "no amounts": (json.dumps({**USAGE, "roles": {}}), "what they reported has no amounts", False),
}


@pytest.mark.parametrize("how", USES)
def test_a_file_of_use_that_cannot_be_read_is_told(
    kept: World, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    content, words, is_damaged = USES[how]
    file = ended(kept).with_suffix(".usage")
    file.write_text(content)
    done = kept("usage", "mnist", "--tasks")
    assert (done.status, f"not known: {words}" in done.out) == (0, True), done
    assert [one.message for one in caplog.records] == [f"{file} {DAMAGED}"] * is_damaged
    assert kept("compare", "mnist").status == kept("describe", "mnist").status == 0
