"""Root causes of failed jobs, so that each is looked for once, and every route has the same."""

from __future__ import annotations

import threading
from collections import OrderedDict

from submit_tf_job import operations
from submit_tf_job.diagnose.cause import Cause
from submit_tf_job.observation import JobState, JobStatus

__all__ = ["Causes"]

_REMEMBERED = 1000
_AGAIN_S = 2.0  # at first, then twice as long each time: logs are collected a while after the end


class Causes:
    """Causes by application id. A gateway that does not have one finds it on the cluster."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # application → its cause, or when it was looked for in vain first and last
        self._found: OrderedDict[str, Cause | tuple[float, float]] = OrderedDict()

    def of(self, cluster: operations.Cluster, status: JobStatus) -> Cause | None:
        """Return why a job failed; None for other jobs, and where no source explains it.

        At the first call for a job this takes some requests to the cluster.
        """
        application = status.application_id
        if status.state is not JobState.FAILED or application is None:
            return None
        with self._lock:
            known = self._found.get(application)
        if isinstance(known, Cause):
            return known
        first, last = known or (cluster.clock(), float("-inf"))
        if cluster.clock() - last < max(_AGAIN_S, last - first):
            return None
        cause = operations.why_failed(cluster, status)
        with self._lock:
            self._keep(application, cause or (first, cluster.clock()))
        return cause

    def remember(self, status: JobStatus, cause: Cause | None) -> None:
        """Keep a cause that was found elsewhere."""
        if cause is not None:
            with self._lock:
                self._keep(status.application_id, cause)

    def _keep(self, application: str, found: Cause | tuple[float, float]) -> None:
        self._found[application] = found
        self._found.move_to_end(application)
        while len(self._found) > _REMEMBERED:
            self._found.popitem(last=False)
