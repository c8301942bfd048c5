"""Run a job on this machine without a cluster: from the service that would be posted, with one
process or container for each task.
"""

from submit_tf_job.local.local_run import LocalRun, Outcome, run_local

__all__ = ["LocalRun", "Outcome", "run_local"]
