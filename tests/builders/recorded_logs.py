"""Aggregated logs that were recorded from clusters."""

from __future__ import annotations

import json
from pathlib import Path

from submit_tf_job.logs.collected import (
    AggregatedLogs,
    LogSettings,
)
from submit_tf_job.storage.local_files import LocalStorage

DATA = Path(__file__).parents[1] / "data" / "logs"


def recording(name: str) -> tuple[str, list[tuple[str, str, str, int, str]]]:
    found = json.loads((DATA / name / "java.json").read_text())
    return found["app_id"], [tuple(row) for row in found["logs"]]


def recorded(name: str, root: Path | None = None) -> AggregatedLogs:
    return AggregatedLogs(
        LocalStorage(),
        recording(name)[0],
        user="alice",
        settings=LogSettings(root=str(root or DATA / name)),
    )


def container(app_id: str, number: int) -> str:
    return f"{app_id.replace('application', 'container')}_01_{number:06}"
