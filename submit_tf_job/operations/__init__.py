"""Operations on jobs: load, plan, submit, status, follow, stop, delete.

They combine the stages and contain no rules. The package is not called `jobs`, because importing a
subpackage would replace the function `submit_tf_job.jobs`.

Example:
    >>> settings = submit_tf_job.settings.load_settings()  # doctest: +SKIP
    >>> job = load_job(Path("train.yaml"), settings)  # doctest: +SKIP
    >>> cluster = connect(settings)  # doctest: +SKIP
    >>> submitted = submit(make_plan(job, settings), cluster)  # doctest: +SKIP
    >>> wait_for_end(cluster, submitted.ref).state  # doctest: +SKIP
    <JobState.SUCCEEDED: 'SUCCEEDED'>
"""

from __future__ import annotations

from submit_tf_job.operations.change import (
    Change,
    extend,
    move,
    restart,
    scale,
    set_priority,
)
from submit_tf_job.operations.cluster import Cluster, JobRef, check_identity, connect
from submit_tf_job.operations.data_check import DataCheck
from submit_tf_job.operations.follow import Restarts, follow
from submit_tf_job.operations.follow_events import (
    End,
    Event,
    NextRun,
    Notice,
    Pause,
    until_end,
)
from submit_tf_job.operations.links import (
    Links,
    all_links,
    find_links,
    is_reachable,
    tunnel_command,
)
from submit_tf_job.operations.listing import gpus_of_run, list_jobs, open_listing
from submit_tf_job.operations.logs import log_files, logs
from submit_tf_job.operations.read_status import describe, error_of, last_lines, status
from submit_tf_job.operations.resubmission import (
    NOT_SUBMITTED,
    next_step,
    next_step_of_json,
    runs_of,
)
from submit_tf_job.operations.run_records import run_history
from submit_tf_job.operations.runs import find, has_run, live_runs, other_job_of_key
from submit_tf_job.operations.staging import Sweep, sweep_staging
from submit_tf_job.operations.stop import delete, owner, stop
from submit_tf_job.operations.submit import (
    Submission,
    convert,
    load_job,
    make_plan,
    read_text,
    submit,
)
from submit_tf_job.operations.take_stacks import JobStacks, take_stacks
from submit_tf_job.operations.watch_run import wait_for_end
from submit_tf_job.operations.why import diagnose, is_waiting, why_failed, why_pending

__all__ = [
    "NOT_SUBMITTED",
    "Change",
    "Cluster",
    "DataCheck",
    "End",
    "Event",
    "JobRef",
    "JobStacks",
    "Links",
    "NextRun",
    "Notice",
    "Pause",
    "Restarts",
    "Submission",
    "Sweep",
    "all_links",
    "check_identity",
    "connect",
    "convert",
    "delete",
    "describe",
    "diagnose",
    "error_of",
    "extend",
    "find",
    "find_links",
    "follow",
    "gpus_of_run",
    "has_run",
    "is_reachable",
    "is_waiting",
    "last_lines",
    "list_jobs",
    "live_runs",
    "load_job",
    "log_files",
    "logs",
    "make_plan",
    "move",
    "next_step",
    "next_step_of_json",
    "open_listing",
    "other_job_of_key",
    "owner",
    "read_text",
    "restart",
    "run_history",
    "runs_of",
    "scale",
    "set_priority",
    "status",
    "stop",
    "submit",
    "sweep_staging",
    "take_stacks",
    "tunnel_command",
    "until_end",
    "wait_for_end",
    "why_failed",
    "why_pending",
]
