"""Find the reason for missing aggregated logs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from submit_tf_job.errors import NoSuchJob

__all__ = ["Absence", "NoLogs", "WhatYarnSays", "explain"]

# an AM runs for 30 s after it has unregistered, a NodeManager counts as lost after 10 minutes
LATEST_UPLOAD_S = 900

_OFF = "DISABLED"
_UNDER_WAY = frozenset({"NOT_START", "RUNNING", "RUNNING_WITH_FAILURE"})
_FAILED = frozenset({"FAILED", "TIME_OUT"})


class Absence(str, Enum):
    """The reasons for missing logs."""

    NOT_YET = "not-yet"
    OFF = "off"
    DELETED = "deleted"
    FAILED = "failed"
    ARCHIVED = "archived"
    NOTHING = "nothing"


class NoLogs(NoSuchJob):
    """The application has no aggregated logs; with `Absence.NOT_YET` they are uploaded later."""

    def __init__(self, message: str, reason: Absence, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, details={"reason": reason.value})
        self.reason = reason


@dataclass(frozen=True)
class WhatYarnSays:
    """The ResourceManager's report of the application; None for unknown values.

    Attributes:
        status: `logAggregationStatus` (LogAggregationStatus).
        running: Whether the application has not ended.
        finished_ms: When it ended.
        now_ms: The current time.
    """

    status: str | None = None
    running: bool = False
    finished_ms: int | None = None
    now_ms: int | None = None

    @property
    def age_s(self) -> int | None:
        """Seconds since the end."""
        if not self.finished_ms or self.now_ms is None:
            return None
        return max(0, (self.now_ms - self.finished_ms) // 1000)


def explain(
    app_id: str, where: str, said: WhatYarnSays, *, enabled: bool | None, retain_s: int | None
) -> NoLogs:
    """Return the error with the reason for missing logs.

    Args:
        app_id: The application.
        where: Directory that was searched.
        said: The ResourceManager's report.
        enabled: `yarn.log-aggregation-enable`, if known.
        retain_s: `yarn.log-aggregation.retain-seconds`, None for unlimited or unknown.
    """
    if said.status == _OFF or (enabled is False and said.status is None):
        message = (
            f"{app_id}: the cluster does not collect logs (yarn.log-aggregation-enable is false)"
        )
        return NoLogs(
            message,
            Absence.OFF,
            hint="They are on the nodes only, as long as the NodeManagers keep them.",
        )
    if said.running:
        message = (
            f"{app_id}: still running; logs are collected when all its containers on a node "
            f"have ended"
        )
        return NoLogs(message, Absence.NOT_YET, hint="Until then the NodeManagers serve them.")
    age = said.age_s
    if said.status in _UNDER_WAY and (age is None or age < LATEST_UPLOAD_S):
        ended = "" if age is None else f", {age} s after its end"
        message = f"{app_id}: its logs are not collected yet{ended}"
        return NoLogs(
            message,
            Absence.NOT_YET,
            hint="Try again in half a minute; NodeManagers upload once the last container has "
            "ended.",
        )
    if retain_s is not None and age is not None and age >= retain_s:
        message = (
            f"{app_id}: its logs are deleted: it ended {_span(age)} ago, and the cluster keeps "
            f"them for {_span(retain_s)}"
        )
        return NoLogs(
            message, Absence.DELETED, hint="yarn.log-aggregation.retain-seconds sets how long."
        )
    if said.status in _FAILED:
        message = f"{app_id}: no node could upload its logs (log aggregation: {said.status})"
        return NoLogs(
            message,
            Absence.FAILED,
            hint="Check the NodeManagers' own logs; the files may still be on the nodes.",
        )
    if said.status == "SUCCEEDED":
        message = f"{app_id}: its logs were collected, but are not in {where}"
        return NoLogs(
            message,
            Absence.DELETED,
            hint="They were deleted since, or yarn.nodemanager.remote-app-log-dir of the "
            "cluster is another directory.",
        )
    return NoLogs(
        f"{app_id}: there are no logs in {where}",
        Absence.NOTHING,
        hint="Check the application's user, and yarn.nodemanager.remote-app-log-dir. Or the logs "
        "were never collected, or were deleted since.",
    )


def _span(seconds: int) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
