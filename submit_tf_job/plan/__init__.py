"""(Job, Site) → Plan: the service that is posted, and the files to upload before it."""

from submit_tf_job.plan.delivery import Upload
from submit_tf_job.plan.planner import Plan, plan
from submit_tf_job.plan.site import Site

__all__ = ["Plan", "Site", "Upload", "plan"]
