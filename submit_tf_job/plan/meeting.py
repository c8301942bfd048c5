"""Plan what tasks keep on HDFS by its web address: where the deciding one is, without Registry DNS,
and its last report, beside the record of the run.
"""

from __future__ import annotations

from collections.abc import Iterator

from submit_tf_job.errors import Problem
from submit_tf_job.jobspec.job import Job
from submit_tf_job.plan.delivery import Contribution, Stage
from submit_tf_job.plan.site import Names, Site
from submit_tf_job.yarn.run_names import job_of

__all__ = ["contribution", "report_contribution"]


def contribution(job: Job, site: Site, stage: Stage) -> Contribution:
    """Return the bootstrap's work to find the deciding task; none where DNS alone is asked."""
    if site.names is Names.DNS:
        return Contribution()
    problems = tuple(_problems(job, site))
    web = site.web_hdfs
    if web is None or problems:
        return Contribution(problems=problems)
    return Contribution(
        task={
            "meeting": {
                "protocol": web.protocol,
                "addresses": list(web.addresses),
                "path": f"{web.path}{stage.meeting.removeprefix(site.staging or '')}",
                "user": site.user,
                "dns": site.names is Names.AUTO,
            }
        }
    )


def _problems(job: Job, site: Site) -> Iterator[Problem]:
    if site.names is Names.AUTO:
        return
    if site.web_hdfs is None and sum(job.counts.values()) > 1:
        yield job.problem(
            "roles",
            "with `names: rendezvous` of the settings the tasks find one another by a directory "
            "of HDFS, and none is configured; set hadoop_conf (or staging: hdfs://…), or use "
            "`names: dns`",
        )


def report_contribution(site: Site, run: str) -> Contribution:
    """Return the bootstrap's work on the record; none where HDFS has no web address."""
    web = site.web_hdfs
    if web is None:
        return Contribution()
    path = f"{web.path}/records/{job_of(run)}/{run}.report"
    rule = {"protocol": web.protocol, "addresses": list(web.addresses), "path": path}
    return Contribution(task={"record": {**rule, "user": site.user}})
