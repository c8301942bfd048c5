"""Load a job spec file, plan its submission, and submit it: load_job, make_plan, submit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_values
from pathlib import Path
from typing import TYPE_CHECKING

from submit_tf_job.container import contract
from submit_tf_job.errors import (
    ClusterUnavailable,
    DeadlinePassed,
    InternalError,
    JobSpecError,
    NameTaken,
    Problem,
    SubmitTFJobError,
)
from submit_tf_job.operations import keytabs as identity
from submit_tf_job.operations import staging
from submit_tf_job.operations.cluster import (
    Cluster,
    JobRef,
    check_identity,
    storage_of,
    stored_copy,
)
from submit_tf_job.operations.inputs import DataCheck
from submit_tf_job.operations.room import check_room
from submit_tf_job.operations.site_facts import site_of
from submit_tf_job.settings import Settings, directories, krb5_conf_files
from submit_tf_job.yarn.states import FinalStatus

if TYPE_CHECKING:
    from submit_tf_job.dialects.conversion import Conversion
    from submit_tf_job.jobspec import Defaults
    from submit_tf_job.jobspec.job import Job
    from submit_tf_job.plan import Plan, Upload
    from submit_tf_job.storage.staging import Sent
    from submit_tf_job.yarn.deletion import Deleted
    from submit_tf_job.yarn.observed import AppReport, ObservedService

__all__ = ["Submission", "convert", "detached", "load_job", "make_plan", "submit"]

FOLLOWED_S = 60.0  # from the end of a run to its successor's submission, at most


@dataclass(frozen=True)
class Submission:
    """The result of a submission.

    Attributes:
        ref: The job, with its application.
        adopted: Whether the application existed already, from an earlier identical submission.
        warnings: What the cluster did not do as the job spec says, though the job runs.
    """

    ref: JobRef
    adopted: bool
    plan: Plan
    warnings: tuple[str, ...] = ()


def load_job(
    path: Path,
    settings: Settings,
    *,
    overrides: Sequence[str] = (),
    name: str | None = None,
    text: bytes | None = None,
    base: Path | None = None,
    host_files: bool = True,
    uploads: Path | None = None,
    dialect: str | None = None,
) -> Job:
    """Read a job spec file.

    Args:
        path: The file; `files` are relative to its directory.
        overrides: `path=value` texts, as for `--set`.
        name: Another name for the job.
        text: The content, if it was read already (standard input).
        base: The directory for `files` of `text`; default: the working directory.
        host_files: Whether `text` may name files of this host; False for another user's text.
        uploads: The directory of the files that were sent with `text`, which it may name.
        dialect: The file's format, "jobspec" for none of other systems; None to recognise it.

    Raises:
        JobSpecError: Every problem of the file at once.
    """
    from submit_tf_job import jobspec

    defaults = _defaults(settings)
    conf, krb5, cache = settings.hadoop_conf, krb5_conf_files(settings), directories().cache
    if text is None:
        return jobspec.load(
            path,
            overrides=overrides,
            name=name,
            defaults=defaults,
            hadoop_conf=conf,
            krb5_conf=krb5,
            cache=cache,
            dialect=dialect,
        )
    where = (base or Path.cwd()) if host_files else None
    return jobspec.loads(
        text,
        source=str(path),
        base=where,
        cache=cache if host_files else None,
        overrides=overrides,
        name=name,
        defaults=defaults,
        hadoop_conf=conf,
        krb5_conf=krb5,
        uploads=uploads,
        dialect=dialect,
    )


def _defaults(settings: Settings) -> Defaults:
    from submit_tf_job.jobspec import Defaults

    job = dict(settings.job)
    if isinstance(job.get("kerberos"), dict):  # a gateway's defaults are for all its callers
        job["kerberos"] = {
            key: value.replace("{user}", settings.user) if isinstance(value, str) else value
            for key, value in job["kerberos"].items()
        }
    return Defaults(job, settings.shapes, settings.origins["job"], settings.task_memory)


def convert(
    content: str | bytes | Sequence[str],
    settings: Settings,
    *,
    source: str,
    base: Path,
    dialect: str | None = None,
    overrides: Sequence[str] = (),
    name: str | None = None,
    strict: bool = False,
) -> Conversion:
    """Convert a job file or a command line of another system to a job spec.

    Args:
        content: The file, or the words of a command line.
        settings: The settings, with the site's defaults for jobs.
        source: Its name in messages.
        base: The directory of relative `files`.
        dialect: The name of the format; None to recognise it.
        overrides: `path=value` texts, as for `--set`.
        name: Another name for the job.
        strict: Refuse a job with parts that cannot be converted.

    Raises:
        JobSpecError: The error has every problem found.
    """
    from submit_tf_job.dialects import conversion
    from submit_tf_job.jobspec.files import Host

    made = conversion.convert(
        content,
        source=source,
        host=Host(base, settings.hadoop_conf, krb5_conf_files(settings), directories().cache, None),
        defaults=_defaults(settings),
        dialect=dialect,
        overrides=overrides,
        name=name,
    )
    lost = [remark for remark in made.remarks if remark.level == "warning"]
    if strict and lost:
        raise JobSpecError(
            Problem(r.place.line, r.place.column, r.path, r.text, r.place.source) for r in lost
        )
    return made


def make_plan(
    job: Job, settings: Settings, *, submission: str | None = None, after: str = ""
) -> Plan:
    """Return the plan of a submission; sends no request.

    Raises:
        JobSpecError: YARN or a NodeManager would refuse the job.
    """
    from submit_tf_job.plan import plan
    from submit_tf_job.plan.limits import check_endings

    check_endings(job, settings.hadoop_version or "")
    return plan(job, site_of(settings), submission=submission, after=after)


def detached(planned: Plan, settings: Settings) -> Plan:
    """Return the plan of a job that nobody follows: with the settings' lifetime, if it has none.

    Nothing on the cluster ends a job that never gets a container (docs/internals/endings.md). The
    submission's id does not depend on it, so the same command without `--detach` finds the job.
    """
    lifetime_s = int(settings.detached_lifetime_s)
    if planned.job.lifetime_s or not lifetime_s:
        return planned
    return replace_values(planned, service=replace_values(planned.service, lifetime=lifetime_s))


def submit(
    planned: Plan,
    cluster: Cluster,
    *,
    replace: bool = False,
    after: str = "",
    on_upload: Callable[[Sent], None] = lambda _sent: None,
    on_wait: Callable[[str], None] = lambda _line: None,
) -> Submission:
    """Submit a plan exactly once, even if a response is lost.

    Args:
        planned: The plan.
        cluster: The cluster.
        replace: Delete a *finished* job of that name first, including an earlier run of this
            submission.
        after: The application of a finished run whose service is deleted first; the service of any
            other run stays.
        on_upload: Called with the progress of the upload, from any thread, one call at a time.
        on_wait: Called with one line while the name's former application still holds it (see
            `yarn.former`).

    Returns:
        The application, new or adopted.

    Raises:
        JobSpecError: An input or output does not exist, or cannot be read or written.
        NameTaken: Another submission holds the name, or (with `replace`) a job of that name is
            still running.
        Refused: The cluster refuses the job.
        ClusterUnavailable: The cluster failed, and the job may or may not run; the same call again
            determines it.
        DeadlinePassed: `timeouts.submit` passed, for instance because the name's former application
            still held it.
    """
    from submit_tf_job.yarn.former import wait_until_left
    from submit_tf_job.yarn.reconcile import IN_FLIGHT_S
    from submit_tf_job.yarn.submit import submit as post

    check_identity(cluster)
    _check_version(planned, cluster)
    data = DataCheck(planned.job, cluster.settings, for_caller=cluster.own_jobs_only)
    identity.check_keytab(planned, cluster.settings)
    if replace or after:
        # all that can refuse the job comes before the finished one is deleted
        data.look()
        _check_limits(planned, cluster)
        check_room(planned, cluster)
    if replace:
        planned = _replace(planned, cluster, on_wait)
    followed = _followed(planned, cluster, on_wait)
    if after:
        ours = _forget_former(planned, cluster, after, on_wait)
        followed = _another_follows(cluster, after, 0.0 if ours else IN_FLIGHT_S)
    sent: list[Upload] = []
    keytabs: list[bool] = []
    said: list[str] = []  # what the job may meet on this cluster

    def prepare() -> None:
        within_s = cluster.settings.timeouts.submit_s
        wait_until_left(
            cluster.client,
            planned.job.name,
            user=planned.site.user,
            within_s=within_s,
            on_wait=on_wait,
        )
        # Only for a job that is about to be posted: a running one takes room itself, and its
        # cluster may have changed since.
        if not (replace or after):
            _check_limits(planned, cluster)
        said[:] = check_room(planned, cluster)
        # Nothing is staged before the name was found free: after an error nothing has to be
        # removed that another process with this submission may need.
        keytabs.append(identity.stage_keytab(planned, cluster.settings))
        data.prepare(planned)
        sent.extend(staging.stage_files(planned, cluster.settings, on_upload))

    try:
        done = post(
            cluster.client,
            planned.body,
            name=planned.job.name,
            user=planned.site.user,
            submission_id=planned.submission,
            deadline=cluster.client.deadline(cluster.settings.timeouts.submit_s),
            stored=stored_copy(cluster.settings, planned.job.name, planned.submission),
            before=prepare,
            followed=followed,
        )
    except (ClusterUnavailable, DeadlinePassed, InternalError):
        raise  # the job may have been accepted, and would need its keytab
    except SubmitTFJobError:
        if not _holds(cluster, planned):
            if any(keytabs):
                identity.forget_keytab(planned, cluster.settings)
            staging.forget_staged(planned, cluster.settings, tuple(sent))
            data.forget(planned)
        raise
    if not done.adopted:
        identity.forget_other_keytabs(planned, cluster.settings)
        staging.forget_other_files(planned, cluster.settings)
        data.forget(planned, others=True)
    ref = JobRef(planned.job.name, done.application_id, planned.submission)
    warnings = (
        *filter(None, () if done.adopted else said),
        *_with_priority(cluster, ref, planned.job),
    )
    return Submission(ref, done.adopted, planned, warnings)


def _followed(
    planned: Plan, cluster: Cluster, on_wait: Callable[[str], None]
) -> Callable[[AppReport | None], bool]:
    """Return what says whether a follower may be about to submit the run after a given one, for
    `retries.memory` (`operations.lineage`): until then the job's name is free for a moment.
    """
    rule, configuration = planned.job.retries, planned.service.configuration
    properties = configuration.properties if configuration else {}
    first = rule is not None and rule.memory is not None
    first = first and contract.PROPERTY_RERUN_OF not in properties
    told = False

    def followed(newest: AppReport | None) -> bool:
        nonlocal told
        if newest is None:
            return False
        age_s = cluster.wall() - (newest.finished_ms or 0) / 1000
        failed = newest.ended and newest.final_status is FinalStatus.FAILED
        if not first or not failed or not 0 <= age_s < FOLLOWED_S:
            return False
        if not told:
            on_wait(
                f"{newest.id} failed {age_s:.0f} s ago, and who follows it may submit it again "
                f"(`retries.memory`); waiting up to {FOLLOWED_S - age_s:.0f} s for that"
            )
        told = True
        return True

    return followed


def _with_priority(cluster: Cluster, ref: JobRef, job: Job) -> tuple[str, ...]:
    """Set the job's priority, and return the warnings; also for an adopted job, whose client may
    have died after the POST.
    """
    if job.priority is None:
        return ()
    from submit_tf_job.operations.change import apply_priority

    return tuple(filter(None, [apply_priority(cluster, ref, job.priority)]))


def _holds(cluster: Cluster, planned: Plan) -> bool:
    """Return whether another process may hold the name with the same submission, and need the
    staged files.
    """
    from submit_tf_job.yarn.reconcile import Whose, said_whose

    name = planned.job.name
    try:
        service, mine = cluster.client.get_service(name), planned.submission
        if said_whose(service, mine) is Whose.OURS:
            return True
        return not service.version and stored_submission(cluster.settings, name, mine) == mine
    except SubmitTFJobError:
        return False  # it does not exist, or cannot be read


def stored_submission(settings: Settings, name: str, mine: str) -> str | None:
    """Return the submission id of a stored service; None without an HDFS configuration, or for a
    service of another tool. See `history`.
    """
    if settings.hadoop_conf is None:
        return None
    from submit_tf_job.operations import history

    return history.stored_submission(storage_of(settings), settings.user, name, mine)


def _replace(planned: Plan, cluster: Cluster, on_wait: Callable[[str], None]) -> Plan:
    """Delete the finished job that holds the name, and return a plan with a new submission id."""
    from submit_tf_job.plan import plan

    name, former = planned.job.name, "unknown"

    def check(service: ObservedService | None, app: AppReport | None) -> None:
        nonlocal former
        if app is not None:
            raise NameTaken(
                f"{name} is still running as {app.id}, and only a job that is over is replaced",
                hint=f"stop it first: submit_tf_job stop {name}",
            )
        former = (service and service.id) or former

    if not _delete(planned, cluster, check, on_wait):
        return planned
    if planned.submission != plan(planned.job, planned.site).submission:
        return planned  # the id was set by a scheduler
    again = plan(planned.job, planned.site, after=former)
    service = replace_values(again.service, lifetime=planned.service.lifetime)  # of `detached`
    return replace_values(again, service=service)


class _AnotherRunError(Exception):
    """The name is held by another run."""


def _another_follows(
    cluster: Cluster, former: str, within_s: float
) -> Callable[[AppReport | None], bool]:
    """Return what says whether another follower submits the run after `former`, or has done so.

    Args:
        within_s: How long it may take that has deleted the service of `former`: its DELETE may
            still remove the DNS records of that name.
    """
    from submit_tf_job.yarn.reconcile import SETTLE_S

    until = cluster.clock() + within_s
    unlisted_since: float | None = None

    def followed(newest: AppReport | None) -> bool:
        nonlocal unlisted_since
        if newest is None:
            # a new leader returns no application for a moment (docs/hadoop-facts.md#failover)
            unlisted_since = cluster.clock() if unlisted_since is None else unlisted_since
            return cluster.clock() - unlisted_since < SETTLE_S
        # a later run without a service has ended, and was deleted by who submits the next one
        return newest.id != former or cluster.clock() < until

    return followed


def _forget_former(
    planned: Plan, cluster: Cluster, former: str, on_wait: Callable[[str], None]
) -> bool:
    """Delete the service of one finished run, if it is still there: several clients may do the
    same, and one of them may have submitted the next run already.

    Returns:
        False if the name has no service: another client has just deleted that of the run, and its
        DELETE may still be under way.
    """
    from submit_tf_job.yarn.deletion import Deleted

    copy = stored_copy(cluster.settings, planned.job.name, planned.submission)

    def check(service: ObservedService | None, app: AppReport | None) -> None:
        held_by = service.id if service else None
        if held_by is None and copy is not None:  # Hadoop 3.1 shows it only while the job runs
            with contextlib.suppress(SubmitTFJobError):
                held_by = copy.read().app_id
        if app is not None or held_by != former:
            raise _AnotherRunError

    try:
        return _delete(planned, cluster, check, on_wait) is Deleted.OURS
    except _AnotherRunError:
        return True  # it is the next run, or nothing of this lineage


def _delete(
    planned: Plan,
    cluster: Cluster,
    check: Callable[[ObservedService | None, AppReport | None], None],
    on_wait: Callable[[str], None],
) -> Deleted:
    """Delete the finished job that holds the name."""
    from submit_tf_job.yarn import stopping

    return stopping.delete(
        cluster.client,
        planned.job.name,
        user=cluster.settings.user,
        copy=stored_copy(cluster.settings, planned.job.name, planned.submission),
        deadline=cluster.client.deadline(cluster.settings.timeouts.submit_s),
        check=check,
        on_wait=on_wait,
    )


def _check_version(planned: Plan, cluster: Cluster) -> None:
    """Check whether this Hadoop can run the job. Its request is the first one: where no
    ResourceManager answers, `submit` gives up after `timeouts.failover`, not `timeouts.submit`.
    """
    from submit_tf_job.plan.limits import check_endings, check_version

    found = cluster.client.recent_info().hadoop_version
    version = cluster.settings.hadoop_version or found or ""
    check_version(planned.body, version)
    check_endings(planned.job, version)


def _check_limits(planned: Plan, cluster: Cluster) -> None:
    from submit_tf_job.plan.limits import check_limits

    check_limits(planned.job, planned.site, cluster.client.maximum_resources())
