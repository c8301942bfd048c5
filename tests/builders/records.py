"""Records of runs, as `submit` and the end of a run write them into the staging directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BEGAN_S = 1_700_000_000


def write_record(
    staging: Path,
    run: str,
    *,
    user: str = "alice",
    at_s: int = 0,
    took_s: int = 100,
    state: str = "SUCCEEDED",
    spec: str = "",
    overrides: tuple[str, ...] = (),
    values: dict[str, Any] | None = None,
    report: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Write the record of a run that has ended; return it."""
    job = run.rpartition("-")[0]
    began = BEGAN_S + at_s
    submission = {"key": "k", "content": "k", "number": 0, "at": began, "spec": spec}
    submission |= {"by": user, "host": "here", "version": "1.0", "overrides": list(overrides)}
    end = {"state": state, "reason": "", "hint": "", "confirmed": True, "root_cause": None}
    end |= {"progress": (report or {}).get("progress"), "report": report}
    end |= {"started_at": began, "finished_at": began + took_s}
    record = {
        "kind": "RunRecord",
        "format": 1,
        "name": job,
        "run": run,
        "application_id": f"application_1700000000000_{9000 + at_s % 1000:04}",
        "user": user,
        "submission": {**submission, **({"values": values} if values else {})},
        "end": end,
    }
    directory = staging / "records" / job
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{run}.json").write_text(json.dumps(record))
    return record


def report_of(run: str, **told: Any) -> dict[str, Any]:
    """Return the report of a job that has succeeded."""
    return {"version": 1, "run": run, "state": "succeeded", "job": run.rpartition("-")[0], **told}
