"""Why there are no aggregated logs: a sentence for each reason, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from submit_tf_job.errors import NoSuchJob

__all__ = ["Absence", "NoLogs", "WhatYarnSays", "explain"]

LATEST_UPLOAD_S = 900  # an AM lingers 30 s after it has unregistered, a NodeManager counts as lost after 10 minutes

_OFF = "DISABLED"
_UNDER_WAY = frozenset({"NOT_START", "RUNNING", "RUNNING_WITH_FAILURE"})
_FAILED = frozenset({"FAILED", "TIME_OUT"})


class Absence(str, Enum):
    """Why there is nothing to read."""

    NOT_YET = "not-yet"
    OFF = "off"
    DELETED = "deleted"
    FAILED = "failed"
    ARCHIVED = "archived"
    NOTHING = "nothing"


class NoLogs(NoSuchJob):
    """There are no aggregated logs to read; `reason` says why, and `Absence.NOT_YET` that waiting helps."""

    def __init__(self, message: str, reason: Absence, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, details={"reason": reason.value})
        self.reason = reason


@dataclass(frozen=True)
class WhatYarnSays:
    """What the ResourceManager tells of the application; leave out what is not known.

    Attributes:
        status: `logAggregationStatus` (LogAggregationStatus).
        running: Whether the application has not ended.
        finished_ms: When it ended.
        now_ms: What the time is; the two are compared.
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


def explain(app_id: str, where: str, said: WhatYarnSays, *, enabled: bool | None, retain_s: int | None) -> NoLogs:
    """Say why nothing is there.

    Args:
        app_id: The application.
        where: Directory that was looked through.
        said: What the ResourceManager tells.
        enabled: `yarn.log-aggregation-enable`, if known.
        retain_s: `yarn.log-aggregation.retain-seconds`, None for unlimited or unknown.
    """
    if said.status == _OFF or (enabled is False and said.status is None):
        message = f"{app_id}: the cluster does not collect logs (yarn.log-aggregation-enable is false)"
        return NoLogs(message, Absence.OFF, hint="They are on the nodes only, as long as the NodeManagers keep them.")
    if said.running:
        message = f"{app_id}: still running; logs are collected when all its containers on a node have ended"
        return NoLogs(message, Absence.NOT_YET, hint="Until then the NodeManagers serve them.")
    age = said.age_s
    if said.status in _UNDER_WAY and (age is None or age < LATEST_UPLOAD_S):
        ended = "" if age is None else f", {age} s after its end"
        message = f"{app_id}: its logs are not collected yet{ended}"
        return NoLogs(message, Absence.NOT_YET, hint="Try again in half a minute; NodeManagers upload once the last container has ended.")
    if retain_s is not None and age is not None and age >= retain_s:
        message = f"{app_id}: its logs are deleted: it ended {_span(age)} ago, and the cluster keeps them for {_span(retain_s)}"
        return NoLogs(message, Absence.DELETED, hint="yarn.log-aggregation.retain-seconds sets how long.")
    if said.status in _FAILED:
        message = f"{app_id}: no node could upload its logs (log aggregation: {said.status})"
        return NoLogs(message, Absence.FAILED, hint="Look into the NodeManagers' own logs, and for the files on the nodes.")
    if said.status == "SUCCEEDED":
        message = f"{app_id}: its logs were collected, but are not in {where}"
        return NoLogs(
            message,
            Absence.DELETED,
            hint="They are deleted by now, or yarn.nodemanager.remote-app-log-dir of the cluster is another directory.",
        )
    return NoLogs(
        f"{app_id}: there are no logs in {where}",
        Absence.NOTHING,
        hint="Check the application's user, and yarn.nodemanager.remote-app-log-dir; or they were never collected, or are deleted by now.",
    )


def _span(seconds: int) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
