"""The verbs: load, plan, submit, observe, wait, stop, delete. They compose the stages and hold no rule of their own.

Example:
    >>> settings = load_settings()  # doctest: +SKIP
    >>> job = load_job(Path("train.yaml"), settings)  # doctest: +SKIP
    >>> cluster = connect(settings)  # doctest: +SKIP
    >>> submitted = submit(make_plan(job, settings), cluster)  # doctest: +SKIP
    >>> follow(cluster, submitted.ref).verdict.state  # doctest: +SKIP
    <JobState.SUCCEEDED: 'SUCCEEDED'>
"""

from submit_tf_job.api.cluster import Cluster, JobRef, connect, find
from submit_tf_job.api.control import delete, stop
from submit_tf_job.api.looking import Description, describe, error_of, fleet, follow, in_detail, list_jobs, observe, status
from submit_tf_job.api.pending import is_waiting, why_pending
from submit_tf_job.api.reading import tail_of
from submit_tf_job.api.submitting import Submission, follow_own, load_job, make_plan, site_of, submit
from submit_tf_job.settings import load_settings

__all__ = [
    "Cluster",
    "Description",
    "JobRef",
    "Submission",
    "connect",
    "delete",
    "describe",
    "error_of",
    "find",
    "fleet",
    "follow",
    "follow_own",
    "in_detail",
    "is_waiting",
    "list_jobs",
    "load_job",
    "load_settings",
    "make_plan",
    "observe",
    "site_of",
    "status",
    "stop",
    "submit",
    "tail_of",
    "why_pending",
]
