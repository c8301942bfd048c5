"""diagnose: why a job waits, and why it failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from submit_tf_job.api.cluster import Cluster
from submit_tf_job.api.failure import why_failed
from submit_tf_job.api.pending import is_waiting, why_pending

if TYPE_CHECKING:
    from submit_tf_job.diagnose.model import Diagnosis
    from submit_tf_job.watch import Look

__all__ = ["diagnose"]


def diagnose(cluster: Cluster, look: Look) -> Diagnosis:
    """Find out why a job stands where it stands; asks nothing about one that is well.

    Whatever cannot be found out is left out: a diagnosis never changes a verdict and never fails.
    """
    from submit_tf_job.diagnose.model import Diagnosis

    return Diagnosis(pending=why_pending(cluster, look) if is_waiting(look) else (), failure=why_failed(cluster, look))
