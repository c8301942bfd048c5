"""The parts of a run in order of time, from what YARN and the deciding task's report tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from submit_tf_job.observation import JobStatus
from submit_tf_job.operations.timeline import timeline_of
from tests.builders.statuses import app, report

BEGUN_S = 1_700_000_000
START = {"launched_at": 30, "arrived_at": 40, "at": 41}
LOST = {
    "generation": 0,
    "task": "worker-1",
    "message": "worker-1 was lost",
    "at": 100,
    "duration_s": 59,
}
LAST = {"launched_at": 110, "arrived_at": 112, "at": 113}
SAVES = {"at": 150, "text": "stopped, with time to save"}
ENDED = {"state": "succeeded", "outcome": {"status": 0, "duration_s": 159}, "ended_at": 210}
HOLD = {"start": START, "state": "failed", "outcome": {"status": 1, "duration_s": 159}}
STAYS = {"at": 202, "text": "the container of worker-1 stays for 1800 s"}
LEFT = {"at": 300, "text": "the container of worker-1 is no longer held: released"}
HELD = [
    *("waited 0-5", "containers 5-30", "files 30-40", "prepared 40-41", "trained 41-200"),
    "stored 200-202",
]

# seconds: the application's end, the ApplicationMaster's start, the report → the parts
RUNS: dict[str, tuple[int | None, int | None, dict[str, Any] | None, list[str]]] = {
    "waits": (None, None, None, ["waited 0-"]),
    "is over, and nothing is left of it": (90, None, None, []),
    "containers start": (None, 5, None, ["waited 0-5", "containers 5-"]),
    "tasks arrive": (None, 5, {"state": "waiting"}, ["waited 0-5", "containers 5-20", "files 20-"]),
    "trains": (
        None,
        5,
        {"start": START},
        ["waited 0-5", "containers 5-30", "files 30-40", "prepared 40-41", "trained 41-"],
    ),
    "one task, which has no start": (None, 5, {}, ["waited 0-5", "containers 5-20", "trained 20-"]),
    "began again": (
        None,
        5,
        {"start": LAST, "generation": 1, "generations": [LOST]},
        ["waited 0-5", "containers 5-20", "lost 41-100", "trained 113-"],
    ),
    "succeeded, with an output": (
        230,
        5,
        {"start": START, **ENDED, "outputs": [{"name": "model", "uri": "hdfs:///m", "tasks": 1}]},
        [
            *("waited 0-5", "containers 5-30", "files 30-40", "prepared 40-41", "trained 41-200"),
            *("stored 200-210", "ended 210-230", "logs 230-"),
        ],
    ),
    "saved before its stop": (
        230,
        5,
        {"start": START, "events": [SAVES], **ENDED, "state": "stopped"},
        [
            *("waited 0-5", "containers 5-30", "files 30-40", "prepared 40-41", "trained 41-150"),
            *("saved 150-200", "stored 200-210", "ended 210-230", "logs 230-"),
        ],
    ),
    "held": (None, 5, {**HOLD, "events": [STAYS]}, [*HELD, "held 202-"]),
    "held, and the deciding task had no command": (
        None,
        5,
        {**HOLD, "outcome": None, "events": [STAYS]},
        [*HELD[:-2], "trained 41-202", "held 202-"],
    ),
    "was held": (
        330,
        5,
        {**HOLD, "ended_at": 303, "events": [STAYS, LEFT]},
        [*HELD, "held 202-300", "ended 303-330", "logs 330-"],
    ),
    "held until it was killed": (
        330,
        5,
        {**HOLD, "events": [STAYS]},
        [*HELD, "held 202-330", "logs 330-"],
    ),
    "killed, and nobody told an outcome": (
        90,
        5,
        {"start": START},
        [
            "waited 0-5",
            "containers 5-30",
            "files 30-40",
            "prepared 40-41",
            "trained 41-90",
            "logs 90-",
        ],
    ),
    "another ApplicationMaster, or a clock that differs": (
        None,
        50,
        {"start": START},
        ["waited 0-20", "containers 20-30", "files 30-40", "prepared 40-41", "trained 41-"],
    ),
}


def moments(value: Any) -> Any:
    """Turn seconds after the submission into those of a report."""
    if isinstance(value, list):
        return [moments(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    return {
        name: inner + BEGUN_S if name == "at" or name.endswith("_at") else moments(inner)
        for name, inner in value.items()
    }


@pytest.mark.parametrize("case", RUNS)
def test_timeline_has_the_parts_that_are_known(case: str) -> None:
    finished, am, told, wanted = RUNS[case]
    state = ("FINISHED", "SUCCEEDED") if finished else ("RUNNING", "UNDEFINED")
    record = replace(
        app(*state),
        started_ms=BEGUN_S * 1000,
        launch_ms=am and (BEGUN_S + am) * 1000,
        finished_ms=finished and (BEGUN_S + finished) * 1000,
        log_aggregation_status="RUNNING",
    )
    said = None
    if told is not None:
        said = report(**moments({"state": "running", "started_at": 20, **told}))
    seen = JobStatus("r", record.id, record, report=said)
    parts = [
        f"{part.part} {part.from_ms // 1000 - BEGUN_S}-"
        f"{'' if part.until_ms is None else part.until_ms // 1000 - BEGUN_S}"
        for part in timeline_of(seen)
    ]
    assert parts == wanted
