"""Run a job on this machine without a cluster: the service that would be posted, one process or
container per task.
"""

from submit_tf_job.local.local_run import LocalRun, Outcome, run_local

__all__ = ["LocalRun", "Outcome", "run_local"]
