"""(Job, Site) → the exact YARN service: a pure function, without clock, environment, network or randomness.

`plan` is the specification in executable form: `render` prints `dumps(plan(...).service)`, `submit` posts that same value.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace

from submit_tf_job import contract
from submit_tf_job.errors import JobSpecError, UsageError
from submit_tf_job.job import Job
from submit_tf_job.plan import check
from submit_tf_job.plan.service import Upload, build
from submit_tf_job.plan.site import Site
from submit_tf_job.yarn.records import Configuration, Service, dumps

__all__ = ["Plan", "Site", "Upload", "plan"]

_UNKNOWN_SUBMISSION = "0" * 16


@dataclass(frozen=True)
class Plan:
    """What will be done for one submission.

    Attributes:
        submission: The submission's id.
        service: The service to post.
        uploads: Contents that must stand on the file system before.
    """

    job: Job
    site: Site
    submission: str
    service: Service
    uploads: tuple[Upload, ...]

    @property
    def body(self) -> str:
        """The request's body: what `render` prints and `submit` posts, byte for byte."""
        return dumps(self.service)


def plan(job: Job, site: Site, *, submission: str | None = None, after: str = "") -> Plan:
    """Plan one submission of a job.

    Args:
        job: The job.
        site: The cluster, and the user there.
        submission: The submission's id, where a scheduler has one: 1 to 64 letters, digits, `.`, `_` or `-`.
            By default it is a hash of job and site, so that the same command finds its own job again.
        after: Application id of a finished run of this very job that the new one replaces: it makes the new id another one.

    Returns:
        The plan; equal arguments give equal plans.

    Raises:
        JobSpecError: YARN or a NodeManager would refuse the job; all problems at once.
        UsageError: The submission id is not one.

    Example:
        >>> plan(job, Site("alice", domain="example.com")).body  # doctest: +SKIP
    """
    problems = check.check_job(job, site)
    if problems:
        raise JobSpecError(problems)
    plain = ""
    if submission is None:
        # The id decides the ports, and so the service: what is hashed is the service with an id of zeros. The user need not stand in
        # it, and two users' jobs on one host must meet neither at a port nor at a rendezvous.
        draft, _ = build(job, site, _UNKNOWN_SUBMISSION, fits=check.fits)
        plain, submission = (hashlib.sha256(f"{dumps(draft)}{site.user}\n{salt}".encode()).hexdigest()[:16] for salt in ("", after))
    elif not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", submission):
        raise UsageError(
            f"{submission!r} is no submission id",
            hint="use 1 to 64 letters, digits, '.', '_' or '-', beginning with a letter or digit",
        )
    service, uploads = build(job, site, submission, fits=check.fits)
    if plain and after:
        service = _rerun(service, plain)
    problems = check.check_service(job, site, service)
    if problems:
        raise JobSpecError(problems)
    return Plan(job, site, submission, service, uploads)


def _rerun(service: Service, plain: str) -> Service:
    """Note whose run it is, so that the command without --replace finds it."""
    configuration = service.configuration or Configuration()
    properties = {**configuration.properties, contract.PROPERTY_RERUN_OF: plain}
    return replace(service, configuration=replace(configuration, properties=properties))
