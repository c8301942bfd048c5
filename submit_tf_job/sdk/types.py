"""The types of what the client returns and takes, for annotations of programs that use it."""

from __future__ import annotations

from submit_tf_job.diagnose.cause import Cause
from submit_tf_job.doctor.findings import Check
from submit_tf_job.jobspec.job import Job
from submit_tf_job.operations.listing import ListedJob
from submit_tf_job.plan import Plan

__all__ = ["Cause", "Check", "Job", "ListedJob", "Plan"]
