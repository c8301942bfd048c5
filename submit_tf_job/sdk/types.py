"""The types of what the client returns and takes, for annotations of programs that use it."""

from __future__ import annotations

from submit_tf_job.doctor.findings import Check
from submit_tf_job.plan import Plan

__all__ = ["Check", "Plan"]
