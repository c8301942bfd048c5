"""The verbs: load, plan, submit, observe, wait, stop, delete. They compose the stages and hold no rule of their own.

Example:
    >>> settings = load_settings()  # doctest: +SKIP
    >>> job = load_job(Path("train.yaml"), settings)  # doctest: +SKIP
    >>> cluster = connect(settings)  # doctest: +SKIP
    >>> submitted = submit(make_plan(job, settings), cluster)  # doctest: +SKIP
    >>> follow(cluster, submitted.ref).verdict.state  # doctest: +SKIP
    <JobState.SUCCEEDED: 'SUCCEEDED'>
"""

from submit_tf_job.api.changing import Change, extend, move, restart, scale, set_priority, start
from submit_tf_job.api.cluster import Cluster, JobRef, connect, find
from submit_tf_job.api.control import delete, owner, stop
from submit_tf_job.api.data import DataCheck
from submit_tf_job.api.diagnosing import diagnose
from submit_tf_job.api.failure import why_failed
from submit_tf_job.api.identity import warnings
from submit_tf_job.api.looking import (
    Description,
    describe,
    error_of,
    fleet,
    follow,
    following,
    in_detail,
    last_lines,
    list_jobs,
    observe,
    status,
)
from submit_tf_job.api.pending import is_waiting, why_pending
from submit_tf_job.api.reaching import find_link, is_reachable, log_page, tunnel_command
from submit_tf_job.api.reading import log_files, logs, tail_of
from submit_tf_job.api.site import site_of
from submit_tf_job.api.staging import Sweep, sweep_staging
from submit_tf_job.api.submitting import Submission, end_doomed, follow_own, load_job, make_plan, submit
from submit_tf_job.settings import load_settings

__all__ = [
    "Change",
    "Cluster",
    "DataCheck",
    "Description",
    "JobRef",
    "Submission",
    "Sweep",
    "connect",
    "delete",
    "describe",
    "diagnose",
    "end_doomed",
    "error_of",
    "extend",
    "find",
    "find_link",
    "fleet",
    "follow",
    "follow_own",
    "following",
    "in_detail",
    "is_reachable",
    "is_waiting",
    "last_lines",
    "list_jobs",
    "load_job",
    "load_settings",
    "log_files",
    "log_page",
    "logs",
    "make_plan",
    "move",
    "observe",
    "owner",
    "restart",
    "scale",
    "set_priority",
    "site_of",
    "start",
    "status",
    "stop",
    "submit",
    "sweep_staging",
    "tail_of",
    "tunnel_command",
    "warnings",
    "why_failed",
    "why_pending",
]
