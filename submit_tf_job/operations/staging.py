"""A job's files on HDFS: put there before the job is posted, removed with it, swept when nobody needs them any more."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from submit_tf_job.api.cluster import Cluster, storage_of
from submit_tf_job.api.site import site_of
from submit_tf_job.errors import AuthError, ClusterUnavailable, InternalError, Refused, SettingsError, SubmitTFJobError, UsageError
from submit_tf_job.settings import Settings

if TYPE_CHECKING:
    from submit_tf_job.plan import Plan, Upload
    from submit_tf_job.staging import Leftover, Sent

__all__ = ["Sweep", "files_of", "forget_files", "forget_other_files", "forget_staged", "stage_files", "sweep_staging"]


def files_of(planned: Plan) -> tuple[Upload, ...]:
    """List what a plan stages, without its secret."""
    return tuple(upload for upload in planned.uploads if not upload.secret)


def stage_files(planned: Plan, settings: Settings, told: Callable[[Sent], None]) -> tuple[Upload, ...]:
    """Send what is not there yet; return what was not.

    Raises:
        AuthError: The directory may not be written, or is somebody else's.
        Refused: There is no room.
        UsageError: A file has gone or was changed.
        ClusterUnavailable: HDFS cannot be reached.
    """
    from submit_tf_job.staging import stage

    uploads = files_of(planned)
    if not uploads:
        return ()  # and there may be no file system
    storage = storage_of(settings, planned.site.staging)
    try:
        staged = stage(uploads, storage, user=settings.user, told=told)
    except AuthError as error:
        raise AuthError(
            f"{settings.user} cannot put the job's files where they are to be staged: {error.message}",
            hint=f"does {settings.user} have a home directory on HDFS? or set `staging` to a directory that {settings.user} may write",
            details=error.details,
        ) from None
    except UsageError:
        forget_staged(planned, settings, uploads)
        raise
    except Refused as error:
        forget_staged(planned, settings, uploads)
        raise Refused(f"there is no room for the job's files: {error.message}", hint=error.hint, details=error.details) from None
    except ClusterUnavailable as error:
        raise ClusterUnavailable(
            f"the job's files could not be sent, and nothing was submitted: {error.message}",
            hint="the same command again goes on where this one ended",
            details=error.details,
        ) from None
    for upload, file in zip(uploads, staged, strict=True):
        if file.uri != upload.uri:
            raise InternalError(f"staged at {file.uri}, and the service says {upload.uri}")
    return tuple(upload for upload, file in zip(uploads, staged, strict=True) if file.sent)


def forget_staged(planned: Plan, settings: Settings, sent: tuple[Upload, ...]) -> None:
    """Remove what a submission that was refused has sent; its refusal is what counts, whatever becomes of this."""
    from submit_tf_job.staging import forget

    for upload in sent:
        with suppress(SubmitTFJobError):
            forget(storage_of(settings, planned.site.staging), upload.directory)


def forget_other_files(planned: Plan, settings: Settings) -> None:
    """Remove what earlier jobs of the name left: this submission has the name now."""
    from submit_tf_job.staging import forget_others

    uploads = files_of(planned)
    if uploads:
        with suppress(SubmitTFJobError):
            forget_others(storage_of(settings, planned.site.staging), uploads)


def forget_files(name: str, settings: Settings) -> None:
    """Remove everything that was staged for jobs of a name.

    Raises:
        SubmitTFJobError: HDFS could be asked, and it cannot be done.
    """
    from submit_tf_job.plan.data import lists_of
    from submit_tf_job.plan.service import staged_for

    root = site_of(settings).staging
    if root is None:
        return
    where = staged_for(root, name)
    try:
        storage = storage_of(settings, where)
    except (SettingsError, UsageError):
        return  # nor could anything have been put there, from here
    try:
        storage.remove(where, recursive=True)
        storage.remove(lists_of(root, name), recursive=True)
    except SubmitTFJobError as error:
        raise Refused(
            f"whether files that were staged for {name} are left is not certain: {error.message}",
            hint=f"remove {where}, delete {name} again, or wait for `submit_tf_job staging gc`",
        ) from None


@dataclass(frozen=True)
class Sweep:
    """What was swept, or would be.

    Attributes:
        root: The staging directory.
        removed: Jobs whose files were removed, or would be.
        kept: Jobs whose files are old enough and stay, because the job is alive.
    """

    root: str
    removed: tuple[Leftover, ...]
    kept: tuple[Leftover, ...]
    dry_run: bool


def sweep_staging(cluster: Cluster, *, older_than: timedelta, dry_run: bool = False) -> Sweep:
    """Remove what is staged for jobs that are no more: of clients that died, and of jobs that are over and that nobody deleted.

    Args:
        older_than: How long ago such a job must have been submitted last: one that is being submitted now is not known to YARN yet.
        dry_run: Remove nothing.

    Raises:
        SettingsError: No staging directory is known.
        ClusterUnavailable: Which jobs are alive cannot be found out; nothing is removed.
    """
    from submit_tf_job.staging import sweep

    root = site_of(cluster.settings).staging
    if root is None:
        raise SettingsError("no staging directory is known", hint="set hadoop_conf, or staging: hdfs://… in the settings")
    storage = storage_of(cluster.settings, root)
    found = list(sweep(storage, storage.path(root), older_than=older_than))
    alive = {app.name for app in cluster.client.apps(user=cluster.settings.user) if not app.ended}
    # Looked at once more: one may have been submitted again while the ResourceManager was asked.
    still = {item.name for item in sweep(storage, storage.path(root), older_than=older_than)}
    doomed = tuple(item for item in found if item.name not in alive and item.name in still)
    for path in () if dry_run else (path for item in doomed for path in item.paths):
        storage.remove(path, recursive=True)
    return Sweep(root, doomed, tuple(item for item in found if item.name in alive), dry_run)
