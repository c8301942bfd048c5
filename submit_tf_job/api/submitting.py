"""load_job, make_plan, submit: from a job spec file to an application."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from submit_tf_job.api import identity, staging
from submit_tf_job.api.cluster import Cluster, JobRef, check_identity, storage_of
from submit_tf_job.api.control import stop
from submit_tf_job.api.data import DataCheck
from submit_tf_job.api.looking import follow
from submit_tf_job.api.site import site_of
from submit_tf_job.errors import ClusterUnavailable, DeadlinePassed, InternalError, NameTaken, NoSuchJob, SubmitTFJobError
from submit_tf_job.settings import Settings, directories, krb5_conf_files

if TYPE_CHECKING:
    from submit_tf_job.job import Job
    from submit_tf_job.plan import Plan, Upload
    from submit_tf_job.staging import Sent
    from submit_tf_job.watch import Look

__all__ = ["Submission", "end_doomed", "follow_own", "load_job", "make_plan", "submit"]


@dataclass(frozen=True)
class Submission:
    """What became of a submission.

    Attributes:
        ref: The job, with its application.
        adopted: Whether the application was there already: this same submission had been made before.
    """

    ref: JobRef
    adopted: bool
    plan: Plan


def load_job(
    path: Path,
    settings: Settings,
    *,
    overrides: Sequence[str] = (),
    name: str | None = None,
    text: bytes | None = None,
    base: Path | None = None,
    host_files: bool = True,
) -> Job:
    """Read a job spec file.

    Args:
        path: The file; its directory is where `files` are looked for.
        overrides: `path=value` texts, as `--set` takes them.
        name: Another name for the job.
        text: The content, where it was read already (standard input).
        base: Where `files` of such a content are looked for; default: the working directory.
        host_files: Whether `text` may name files of this host; not where somebody else wrote it.

    Raises:
        JobSpecError: Every problem of the file at once.
    """
    from submit_tf_job import specfile

    defaults = specfile.Defaults(settings["job"], settings["shapes"], settings.origins["job"])
    conf, krb5, cache = settings["hadoop_conf"], krb5_conf_files(settings), directories().cache
    if text is None:
        return specfile.load(path, overrides=overrides, name=name, defaults=defaults, hadoop_conf=conf, krb5_conf=krb5, cache=cache)
    where = (base or Path.cwd()) if host_files else None
    return specfile.loads(
        text, source=str(path), base=where, overrides=overrides, name=name, defaults=defaults, hadoop_conf=conf, krb5_conf=krb5
    )


def make_plan(job: Job, settings: Settings, *, submission: str | None = None, after: str = "") -> Plan:
    """Plan a submission: pure, without a request to anybody.

    Raises:
        JobSpecError: YARN or a NodeManager would refuse the job.
    """
    from submit_tf_job.plan import plan

    return plan(job, site_of(settings), submission=submission, after=after)


def submit(planned: Plan, cluster: Cluster, *, replace: bool = False, on_upload: Callable[[Sent], None] = lambda _sent: None) -> Submission:
    """Submit a plan: once, whatever gets lost on the way.

    Args:
        planned: The plan.
        cluster: Where to.
        replace: Delete a *finished* job of that name first, this very submission's own earlier run included.
        on_upload: Told how far the upload of the job's files is, by any thread, one at a time.

    Returns:
        The application, new or adopted.

    Raises:
        JobSpecError: An input or output is not there, or not to be read or written.
        NameTaken: Another submission holds the name, or (with `replace`) a job of that name is still running.
        Refused: The cluster refuses the job.
        ClusterUnavailable: It could not be done, and it is not certain whether the job runs; submitting again finds out.
    """
    from submit_tf_job.yarn.submit import submit as post

    check_identity(cluster)
    data = DataCheck(planned.job, cluster.settings)
    if replace:
        data.look()  # before the finished job is gone
        planned = _replace(planned, cluster)
    identity.check_keytab(planned, cluster.settings)
    _check_limits(planned, cluster)
    sent: list[Upload] = []

    def prepare() -> None:
        data.prepare(planned)
        sent.extend(staging.stage_files(planned, cluster.settings, on_upload))

    staged = identity.stage_keytab(planned, cluster.settings)
    try:
        done = post(
            cluster.client,
            planned.body,
            name=planned.job.name,
            user=planned.site.user,
            submission_id=planned.submission,
            deadline=cluster.client.deadline(cluster.settings["timeouts.submit"]),
            stored=lambda: stored_submission(cluster.settings, planned.job.name, planned.submission),
            before=prepare,
        )
    except (ClusterUnavailable, DeadlinePassed, InternalError):
        raise  # it may have been accepted, and then needs its keytab
    except SubmitTFJobError:
        if staged:
            identity.forget_keytab(planned, cluster.settings)
        staging.forget_staged(planned, cluster.settings, tuple(sent))
        data.forget(planned)
        raise
    if not done.adopted:
        identity.forget_other_keytabs(planned, cluster.settings)
        staging.forget_other_files(planned, cluster.settings)
        data.forget(planned, others=True)
    return Submission(JobRef(planned.job.name, done.application_id), done.adopted, planned)


def stored_submission(settings: Settings, name: str, mine: str) -> str | None:
    """Read whose a service is that waits or is over, None where there is no HDFS to ask, or it is not one of ours; see `leftovers`."""
    if settings["hadoop_conf"] is None:
        return None
    from submit_tf_job import leftovers

    return leftovers.stored_submission(storage_of(settings), settings.user, name, mine)


def _replace(planned: Plan, cluster: Cluster) -> Plan:
    """Make the name free of a finished job; the new submission gets an id of its own."""
    from submit_tf_job.plan import plan
    from submit_tf_job.yarn import stopping
    from submit_tf_job.yarn.reconcile import SETTLE_S

    name = planned.job.name
    try:
        service, app = stopping.held_by(cluster.client, name, user=cluster.settings.user, settle_s=SETTLE_S)
    except NoSuchJob:
        return planned
    if app is not None:
        raise NameTaken(
            f"{name} is still running as {app.id}, and only a job that is over is replaced",
            hint=f"stop it first: submit_tf_job stop {name}",
        )
    stopping.delete(cluster.client, name, user=cluster.settings.user)
    if planned.submission != plan(planned.job, planned.site).submission:
        return planned  # a scheduler's own id
    return plan(planned.job, planned.site, after=service.id or "unknown")


def _check_limits(planned: Plan, cluster: Cluster) -> None:
    from submit_tf_job.plan.limits import check_limits, check_version

    check_version(planned.body, cluster.settings["hadoop_version"] or cluster.client.cluster_info().hadoop_version or "")
    check_limits(planned.job, planned.site, cluster.client.maximum_resources())


def follow_own(
    cluster: Cluster,
    submission: Submission,
    *,
    timeout_s: float | None = None,
    on_look: Callable[[Look], None] = lambda _look: None,
    on_trouble: Callable[[ClusterUnavailable], None] = lambda _error: None,
) -> Look:
    """Watch a job that one has submitted to its end, and end it where it can only wait in vain.

    A container that fails before its bootstrap runs (an image without Python, a mount that a node lacks) cannot tell the deciding task;
    left alone, the job would hold its other containers until the start deadline.

    Raises:
        DeadlinePassed: `timeout_s` passed.
        ClusterUnavailable: The cluster was out of reach for longer than `timeouts.unreachable`.
    """
    look = follow(
        cluster,
        submission.ref,
        until=lambda look: bool(look.seen.failed_before_bootstrap),
        bootstrap=submission.plan.job.bootstrap,
        timeout_s=timeout_s,
        on_look=on_look,
        on_trouble=on_trouble,
    )
    return end_doomed(cluster, submission.ref, look)


def end_doomed(cluster: Cluster, ref: JobRef, look: Look) -> Look:
    """Stop a job that can only wait in vain, as it was seen, and say why; any other is left as it is."""
    from submit_tf_job.observation import JobState, Verdict
    from submit_tf_job.watch import Look

    doomed = look.seen.failed_before_bootstrap
    if look.verdict.state.is_final or not doomed:
        return look
    stopped = stop(cluster, ref.application_id or ref.name)
    reason = f"the container of {doomed[0]} failed before its bootstrap could run, so the job was stopped"
    hint = "does its image have bash and Python? is each of its mounts there on every node?"
    return Look(stopped.seen, Verdict(JobState.FAILED, reason, confirmed=True, hint=hint))
