"""Upload a job's files and keytab to HDFS before the POST, remove them with the job, and remove
staged files that no job uses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from submit_tf_job.errors import (
    AuthError,
    ClusterUnavailable,
    InternalError,
    JobSpecError,
    Refused,
    SettingsError,
    SubmitTFJobError,
    UsageError,
)
from submit_tf_job.operations.cluster import Cluster, staging_root, storage_of
from submit_tf_job.operations.runs import is_recovering, retire_all
from submit_tf_job.operations.stored_services import stored_services
from submit_tf_job.operations.submit_checks import NOT_OWN, open_named
from submit_tf_job.settings import Settings
from submit_tf_job.yarn.observed import GOING_ON
from submit_tf_job.yarn.run_names import is_run_of

if TYPE_CHECKING:
    from submit_tf_job.jobspec.job import Kerberos
    from submit_tf_job.plan import Plan, Upload
    from submit_tf_job.storage.staging import Leftover, Sent

# --- a keytab ---


def check_keytab(planned: Plan, settings: Settings, *, for_caller: bool) -> None:
    """Check a keytab on HDFS, if this host can read HDFS.

    Args:
        planned: The plan of the job.
        settings: The settings.
        for_caller: As for `open_named`.

    Raises:
        JobSpecError: The keytab does not exist, cannot be read, is readable for every user, or
            belongs to another principal.
    """
    kerberos = planned.job.kerberos
    if kerberos is None or kerberos.secret is not None or not kerberos.keytab.startswith("hdfs://"):
        return
    why = _trouble_on_hdfs(kerberos, settings, for_caller)
    if why:
        raise JobSpecError([planned.job.problem("kerberos.keytab", f"{kerberos.keytab} {why}")])


def _trouble_on_hdfs(kerberos: Kerberos, settings: Settings, for_caller: bool) -> str:
    from submit_tf_job.container import keytab
    from submit_tf_job.storage import NoSuchPath

    try:
        storage = open_named(settings, kerberos.keytab, for_caller=for_caller)
        if storage is None:
            return NOT_OWN
        found = storage.stat(kerberos.keytab)
        if found.is_dir:
            return "is a directory; name the keytab in it"
        if found.mode is not None and found.mode & 0o004:
            return (
                f"can be read by everybody (mode {found.mode & 0o777:03o}); hdfs dfs -chmod "
                f"400 {storage.path(kerberos.keytab)}"
            )
        if found.size > keytab.LONGEST:
            return f"has {found.size} bytes; no keytab is so large"
        why = keytab.find_problem(storage.read(kerberos.keytab), kerberos.principal)
        return f"cannot be used: {why}" if why else ""
    except NoSuchPath:
        return (
            f"is not there (as {settings.user} sees HDFS); YARN would run the job without it, "
            f"and only its log would say so"
        )
    except AuthError as error:
        if "Permission denied" in error.message or "AccessControlException" in error.message:
            return f"is not readable for {settings.user}, as whom YARN fetches it: {error.message}"
        return ""  # this host has no credentials, but YARN has
    except SubmitTFJobError:
        return ""  # this host cannot reach HDFS


def stage_keytab(planned: Plan, settings: Settings) -> list[str]:
    """Upload a keytab of this host to the directory where YARN reads it. Return that directory if
    the keytab was not there before.

    Raises:
        AuthError: The directory cannot be written, or belongs to another user.
    """
    secret = planned.keytab
    if secret is None or not isinstance(secret.content, bytes):
        return []
    from submit_tf_job.storage.staging import stage_secret

    storage = storage_of(settings, secret.uri)
    is_new = stage_secret(storage, secret.uri, secret.content, user=settings.user, levels=3)
    return [secret.directory] if is_new else []


# --- lists and files ---


def stage_lists(planned: Plan, settings: Settings, lists: Mapping[str, bytes]) -> list[str]:
    """Write the lists of sharded inputs (`DataCheck.lists`); return their directory.

    Raises:
        SubmitTFJobError: The directory cannot be written.
    """
    if not lists:
        return []
    storage = storage_of(settings, planned.site.staging)
    storage.mkdirs(planned.lists, 0o700)
    for name, content in lists.items():
        storage.write(planned.list_uri(name), content)
    return [planned.lists]


def stage_files(planned: Plan, settings: Settings, told: Callable[[Sent], None]) -> list[str]:
    """Upload the files that do not exist yet. Return their directories, except the directories that
    all jobs share.

    Raises:
        AuthError: The directory cannot be written, or belongs to another user.
        Refused: The disk or the quota is full.
        UsageError: A file was deleted or changed.
        ClusterUnavailable: HDFS cannot be reached.
    """
    from submit_tf_job.storage import NoSuchPath
    from submit_tf_job.storage.staging import stage

    uploads = planned.files
    if not uploads:
        return []  # a file system may not be configured
    storage = storage_of(settings, planned.site.staging)
    for upload in uploads:
        if storage.url(upload.uri) != upload.uri:
            raise InternalError(
                f"staged at {storage.url(upload.uri)}, and the service says {upload.uri}"
            )
    try:
        return own_directories(stage(uploads, storage, user=settings.user, told=told))
    except AuthError as error:
        raise AuthError(
            f"{settings.user} cannot put the job's files where they are to be staged: "
            f"{error.message}",
            hint=f"does {settings.user} have a home directory on HDFS? or set `staging` to a "
            f"directory that {settings.user} may write",
            details=error.details,
        ) from None
    # with NoSuchPath they were removed meanwhile; another process of this submission may need those
    # that are there
    except (ClusterUnavailable, NoSuchPath) as error:
        raise ClusterUnavailable(
            f"the job's files could not be sent, and nothing was submitted: {error.message}",
            hint="the same command again sends them anew",
            details=error.details,
        ) from None
    except UsageError:
        forget_staged(planned, settings, own_directories(uploads))
        raise
    except Refused as error:
        forget_staged(planned, settings, own_directories(uploads))
        raise Refused(
            f"there is no room for the job's files: {error.message}",
            hint=error.hint,
            details=error.details,
        ) from None


def own_directories(uploads: Iterable[Upload]) -> list[str]:
    """Return the directories of uploads that are not shared by all jobs."""
    return [upload.directory for upload in uploads if not upload.shared]


def forget_staged(planned: Plan, settings: Settings, directories: Iterable[str]) -> None:
    """Remove the staged files of a refused submission; ignore errors, so that the user sees the
    refusal.
    """
    from submit_tf_job.storage.staging import forget

    for directory in directories:
        with suppress(SubmitTFJobError):
            forget(storage_of(settings, planned.site.staging), directory)


def forget_others(planned: Plan, settings: Settings, directories: Collection[str]) -> None:
    """Remove the staged files of earlier runs of the job, except for the given directories, which
    this run uses; ignore errors.
    """
    from submit_tf_job.storage.staging import forget_earlier

    if directories:
        with suppress(SubmitTFJobError):
            forget_earlier(storage_of(settings, planned.site.staging), directories)


def forget_files(name: str, settings: Settings, services: str, posted_ms: int) -> None:
    """Remove the staged files of a job without runs, except files that a submission may be about to
    use.

    Args:
        name: The job's name.
        settings: The settings.
        services: The text of the job's deleted services, which contains the paths of their files.
        posted_ms: When YARN stored the last one of them.

    Raises:
        SubmitTFJobError: HDFS responded, and the removal failed.
    """
    from submit_tf_job.plan.delivery import Stage
    from submit_tf_job.storage.staging import forget_job

    root = staging_root(settings)
    if root is None:
        return
    stage = Stage.of(root, name)
    try:
        storage = storage_of(settings, stage.files)
    except (SettingsError, UsageError):
        return  # so nothing was staged from this host either
    try:
        forget_job(storage, stage.files, service=services, posted_ms=posted_ms)
    except SubmitTFJobError as error:
        raise Refused(
            f"whether files that were staged for {name} are left is not certain: {error.message}",
            hint=f"remove {stage.files}, delete {name} again, or wait for "
            "`submit_tf_job staging gc`",
        ) from None


@dataclass(frozen=True)
class Sweep:
    """The result of a sweep, or of its dry run.

    Attributes:
        root: The staging directory.
        removed: Jobs whose files were removed, or in a dry run would be removed.
        kept: Jobs whose files are old enough but kept, because the job is alive.
        runs: Ended runs beyond `keep_runs` that were deleted, or in a dry run would be deleted.
    """

    root: str
    removed: tuple[Leftover, ...]
    kept: tuple[Leftover, ...]
    dry_run: bool
    runs: tuple[str, ...] = ()


def sweep_staging(cluster: Cluster, *, older_than: timedelta, dry_run: bool = False) -> Sweep:
    """Remove the staged files of jobs that no longer exist or are over, and the ended runs of all
    jobs beyond `keep_runs`.

    Args:
        older_than: Minimum time since the job's last submission. It protects a job that is being
            submitted at this moment: YARN has no record of such a job yet.
        dry_run: Remove nothing.

    Raises:
        SettingsError: No staging directory is configured.
        ClusterUnavailable: The jobs that are alive cannot be listed; nothing is removed.
    """
    from submit_tf_job.storage.staging import forget_leftover, leftovers

    root = staging_root(cluster.settings)
    if root is None:
        raise SettingsError(
            "no staging directory is known",
            hint="set hadoop_conf, or staging: hdfs://… in the settings",
        )
    storage = storage_of(cluster.settings, root)
    found = list(leftovers(storage, storage.path(root), older_than=older_than))
    live = [
        app.name or "" for app in cluster.client.apps(user=cluster.settings.user, states=GOING_ON)
    ]
    stored = stored_services(cluster)
    if stored is not None and is_recovering(cluster):  # not all of these have ended for sure
        live += stored.names()
    alive = {item.name for item in found if any(is_run_of(run, item.name) for run in live)}
    doomed = tuple(item for item in found if item.name not in alive)
    for item in doomed if not dry_run else ():
        forget_leftover(storage, item)
    retired = retire_all(cluster, dry_run=dry_run)
    kept = tuple(item for item in found if item.name in alive)
    return Sweep(root, doomed, kept, dry_run, retired)
