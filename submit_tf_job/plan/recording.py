"""Plan where the deciding task leaves its last report, beside the record of the run."""

from __future__ import annotations

from submit_tf_job.plan.delivery import Contribution
from submit_tf_job.plan.site import Site
from submit_tf_job.yarn.run_names import job_of

__all__ = ["contribution"]


def contribution(site: Site, run: str) -> Contribution:
    """Return the bootstrap's work on the record; none where HDFS has no web address."""
    web = site.web_hdfs
    if web is None:
        return Contribution()
    path = f"{web.path}/records/{job_of(run)}/{run}.report"
    rule = {"protocol": web.protocol, "addresses": list(web.addresses), "path": path}
    return Contribution(task={"record": {**rule, "user": site.user}})
