"""Upload a job's files and keytab to HDFS before the POST, remove them with the job, and remove
staged files that no job uses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from submit_tf_job.errors import (
    AuthError,
    ClusterUnavailable,
    InternalError,
    Refused,
    SettingsError,
    SubmitTFJobError,
    UsageError,
)
from submit_tf_job.operations.cluster import Cluster, staging_root, storage_of
from submit_tf_job.operations.retention import is_recovering, retire_all
from submit_tf_job.operations.stored_services import stored_services
from submit_tf_job.settings import Settings
from submit_tf_job.yarn.observed import GOING_ON
from submit_tf_job.yarn.run_names import is_run_of

if TYPE_CHECKING:
    from submit_tf_job.plan import Plan, Upload
    from submit_tf_job.storage import Storage
    from submit_tf_job.storage.staging import Leftover, Sent


class Staging:
    """The files of one submission below the staging directory of its cluster, whose file system is
    opened at the first use: a submission without files needs none.

    Args:
        settings: The user, and the address of HDFS.
        root: The staging directory; None for the default file system.
    """

    def __init__(self, settings: Settings, root: str | None) -> None:
        self._settings, self._root = settings, root
        self._of_run: list[str] = []  # new directories of the run
        self._files: list[str] = []  # new directories of files

    @cached_property
    def _file_system(self) -> Storage:
        return storage_of(self._settings, self._root)

    def stage(
        self, planned: Plan, lists: Mapping[str, bytes], on_progress: Callable[[Sent], None]
    ) -> None:
        """Upload what the service of a plan refers to: its keytab, the lists of its sharded inputs
        (`DataCheck.lists`) and its files, in this order; raises the errors of the three.
        `forget_staged` removes what was made.
        """
        self._of_run = self._stage_keytab(planned)
        self._of_run += self._stage_lists(planned, lists)
        self._files += self._stage_files(planned, on_progress)

    def _stage_keytab(self, planned: Plan) -> list[str]:
        """Upload a keytab of this host to the directory where YARN reads it. Return that directory
        if the keytab was not there before; else, or if the job has no such keytab, [].

        Raises:
            AuthError: The directory cannot be written, or belongs to another user.
        """
        secret = planned.keytab
        if secret is None or not isinstance(secret.content, bytes):
            return []
        from submit_tf_job.storage.staging import stage_secret

        user = self._settings.user
        is_new = stage_secret(self._file_system, secret.uri, secret.content, user=user, levels=3)
        return [secret.directory] if is_new else []

    def _stage_lists(self, planned: Plan, lists: Mapping[str, bytes]) -> list[str]:
        """Write the lists of sharded inputs (`DataCheck.lists`); return their directory, or []
        without lists.

        Raises:
            SubmitTFJobError: The directory cannot be written.
        """
        if not lists:
            return []
        self._file_system.mkdirs(planned.lists, 0o700)
        for name, content in lists.items():
            self._file_system.write(planned.list_uri(name), content)
        return [planned.lists]

    def _stage_files(self, planned: Plan, on_progress: Callable[[Sent], None]) -> list[str]:
        """Upload the files of a plan that HDFS does not have yet. Return their directories, except
        the directories that all jobs share.

        Raises:
            AuthError: The directory cannot be written, or belongs to another user.
            Refused: The disk or the quota is full.
            UsageError: A file of this host was deleted or changed.
            ClusterUnavailable: HDFS cannot be reached.
        """
        from submit_tf_job.storage import NoSuchPath
        from submit_tf_job.storage.staging import stage

        uploads = planned.files
        if not uploads:
            return []
        storage, user = self._file_system, self._settings.user
        for upload in uploads:
            if storage.url(upload.uri) != upload.uri:
                raise InternalError(
                    f"staged at {storage.url(upload.uri)}, and the service says {upload.uri}"
                )
        try:
            return own_directories(stage(uploads, storage, user=user, on_progress=on_progress))
        except AuthError as error:
            raise AuthError(
                f"{user} cannot put the job's files where they are to be staged: {error.message}",
                hint=f"does {user} have a home directory on HDFS? or set `staging` to a directory "
                f"that {user} may write",
                details=error.details,
            ) from None
        # with NoSuchPath they were removed meanwhile; another process of this submission may need
        # those that are there
        except (ClusterUnavailable, NoSuchPath) as error:
            raise ClusterUnavailable(
                f"the job's files could not be sent, and nothing was submitted: {error.message}",
                hint="the same command again sends them anew",
                details=error.details,
            ) from None
        except UsageError:
            self._forget_directories(own_directories(uploads))
            raise
        except Refused as error:
            self._forget_directories(own_directories(uploads))
            raise Refused(
                f"there is no room for the job's files: {error.message}",
                hint=error.hint,
                details=error.details,
            ) from None

    def forget_staged(self) -> None:
        """Remove the staged files of a refused submission."""
        self._forget_directories([*self._of_run, *self._files])

    def _forget_directories(self, directories: Iterable[str]) -> None:
        """Remove staged files; ignore errors, so that the user sees the refusal."""
        from submit_tf_job.storage.staging import forget

        for directory in directories:
            with suppress(SubmitTFJobError):
                forget(self._file_system, directory)

    def forget_others(self, directories: Collection[str]) -> None:
        """Remove the staged files of earlier runs of the job, except for the given directories,
        which this run uses; ignore errors. Do nothing if no directory is given.
        """
        from submit_tf_job.storage.staging import forget_earlier

        if directories:
            with suppress(SubmitTFJobError):
                forget_earlier(self._file_system, directories)


def own_directories(uploads: Iterable[Upload]) -> list[str]:
    """Return the directories of uploads that are not shared by all jobs."""
    return [upload.directory for upload in uploads if not upload.shared]


def forget_files(name: str, settings: Settings, services: str, posted_ms: int) -> None:
    """Remove the staged files of a job without runs, except files that a submission may be about to
    use. Do nothing without a staging directory, or if it cannot be opened with the settings.

    Args:
        name: The job's name.
        settings: The settings.
        services: The text of the job's deleted services, which contains the paths of their files.
        posted_ms: When YARN stored the last one of them, in milliseconds since 1970.

    Raises:
        Refused: It is not certain that all files were removed.
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
        ClusterUnavailable: A source does not answer. If only the live jobs could not be listed,
            nothing was removed; else some files and runs may be gone.
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
