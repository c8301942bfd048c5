"""Run a job on this machine without any cluster: the very service that would be posted, one process for each task."""

from submit_tf_job.local.run import LocalRun, Outcome, run_local

__all__ = ["LocalRun", "Outcome", "run_local"]
