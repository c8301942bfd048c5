"""why_failed: gather what a diagnosis weighs, in a handful of requests and some seconds, whatever the size of the job."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from submit_tf_job.api.cluster import Cluster
from submit_tf_job.api.reading import tail_of
from submit_tf_job.errors import SubmitTFJobError

if TYPE_CHECKING:
    from submit_tf_job.diagnose.failure import Suspect
    from submit_tf_job.diagnose.model import RootCause
    from submit_tf_job.observation import Observation
    from submit_tf_job.watch import Look
    from submit_tf_job.yarn.records import AppReport

__all__ = ["why_failed"]

_log = logging.getLogger(__name__)

LIMIT_S = 8.0
STDERR_BYTES = 64 * 1024
AM_LOG_BYTES = 1024 * 1024  # one container's end takes up to 12 kB in it
_ALL_LINES = 1_000_000


def why_failed(cluster: Cluster, look: Look, *, limit_s: float = LIMIT_S) -> RootCause | None:
    """Find out why a job failed.

    Args:
        cluster: Its cluster.
        look: The last look at it.
        limit_s: Seconds after which it is given up.

    Returns:
        The root cause; None where the job has not failed, or nothing that can be read now says more than the verdict. It never raises and
        never changes the verdict.

    Example:
        >>> cause = why_failed(cluster, status(cluster, "mnist"))  # doctest: +SKIP
        >>> cause.code, cause.sentence  # doctest: +SKIP
        ('module-missing', 'worker-1 could not import the module pandas')
    """
    from submit_tf_job.observation import JobState

    if look.verdict.state is not JobState.FAILED:
        return None
    found: list[RootCause | None] = []
    # A thread, because HDFS has no deadline of its own; it ends with the process where nobody waits for it any more.
    asking = threading.Thread(target=lambda: found.append(_investigate(cluster, look.seen)), daemon=True)
    asking.start()
    asking.join(limit_s)
    return found[0] if found else None


def _investigate(cluster: Cluster, seen: Observation) -> RootCause | None:
    try:
        return _gather(cluster, seen)
    except SubmitTFJobError as error:
        _log.info("why it failed could not be found out: %s", error.message)
    except Exception:  # noqa: BLE001 - a verdict is not to be lost by what only explains it
        _log.info("a defect in finding out why a job failed", exc_info=True)
    return None


def _gather(cluster: Cluster, seen: Observation) -> RootCause | None:
    from submit_tf_job.diagnose.failure import Clues, conclude, first_of, needs_am, suspect_of, suspects
    from submit_tf_job.diagnose.witnesses import OF_MEMORY
    from submit_tf_job.yarn.amlog import container_ends, deciding_role, last_error

    if seen.app is None:
        return None
    known = suspects(seen)
    clues = Clues(seen, known[0] if known else None, known[1:])
    asked_am = needs_am(clues.suspect)
    if asked_am:
        log = _am_log(cluster, seen.app)
        clues = replace(clues, ends=container_ends(log), am_error=last_error(log))
        clues = replace(clues, suspect=first_of(clues.suspect, suspect_of(clues.ends, seen, deciding_role(log)), seen))
    if clues.suspect is not None:
        clues = replace(clues, stderr=_stderr(cluster, seen.app, clues.suspect))
    cause = conclude(clues)
    if cause is not None and cause.code in OF_MEMORY and not cause.facts.get("asked_mib") and not asked_am:
        ends = container_ends(_am_log(cluster, seen.app))  # they say how much the container was given
        cause = conclude(replace(clues, ends=ends))
    return cause


def _stderr(cluster: Cluster, app: AppReport, suspect: Suspect) -> str:
    if not suspect.container_id:
        return ""
    lines = tail_of(cluster, app, suspect.container_id, host=suspect.host, lines=_ALL_LINES, max_bytes=STDERR_BYTES)
    return "\n".join(lines)


def _am_log(cluster: Cluster, app: AppReport) -> str:
    """Read the end of the last ApplicationMaster's log."""
    from submit_tf_job.yarn.amlog import AM_LOG

    attempts = cluster.client.app_attempts(app.id)
    last = next((attempt for attempt in reversed(attempts) if attempt.container_id), None)
    if last is None or last.container_id is None:
        return ""
    host = (last.node_http_address or "").rpartition(":")[0] or None
    return "\n".join(tail_of(cluster, app, last.container_id, AM_LOG, host=host, lines=_ALL_LINES, max_bytes=AM_LOG_BYTES))
