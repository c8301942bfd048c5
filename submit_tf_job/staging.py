"""Put a job's files where its containers can get them: once per content, whole or not at all, readable by their owner alone.

A file lies at `<root>/<sha256 of the content>/<name>` and is never changed once it is there: a NodeManager refuses a file whose time or
size is not what the ApplicationMaster saw (FSDownload.verifyAndCopy). An empty `.used` beside it is written again when the file is used
again, so that `sweep` knows.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from submit_tf_job.errors import AuthError, SubmitTFJobError
from submit_tf_job.job import ShippedFile
from submit_tf_job.storage.model import NoSuchPath, PathExists, Stat, Storage, join, name_of, parent_of

__all__ = ["StagedFile", "StaleFile", "default_root", "stage", "stage_secret", "sweep"]

USED = ".used"
SECRET_MODE = 0o400
USED_AGAIN_AFTER = timedelta(hours=1)
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class StagedFile:
    """A file that is where containers can get it.

    Attributes:
        uri: What a YARN service writes as `src_file` of a STATIC or ARCHIVE file.
        sha256: Of the content, in hexadecimal digits.
        uploaded: Whether it had to be sent; False where it was there already.
    """

    name: str
    uri: str
    sha256: str
    size: int
    uploaded: bool


@dataclass(frozen=True)
class StaleFile:
    """A staged directory that nobody has used for a while."""

    path: str
    size: int
    used: datetime


def default_root(storage: Storage, user: str) -> str:
    """Return where a user's files are staged unless told otherwise."""
    return join(storage.home(user), ".submit_tf_job", "staging")


def stage(
    files: Sequence[ShippedFile],
    storage: Storage,
    *,
    root: str,
    user: str | None = None,
    directory_mode: int = 0o700,
    now: datetime | None = None,
) -> list[StagedFile]:
    """Upload files that are not there yet.

    Two submitters of the same content at once do no harm to each other: each uploads under a name of its own and the first one's stays.

    Args:
        files: Name (its last component counts) and bytes.
        storage: Where to.
        root: Directory of the storage; see `default_root`.
        user: Who must own what is found there; None to take it whoever owns it. Not looked at where `directory_mode` lets others write.
        directory_mode: Of directories that are made; files get the same rights without those to execute, or to write once executable.
        now: The time; None for the clock's.

    Returns:
        One for each file, in their order.

    Raises:
        AuthError: The directory may not be written, or what is there belongs to somebody else.

    Example:
        >>> bundle = ShippedFile("job.tar", payload)  # doctest: +SKIP
        >>> stage([bundle], storage, root=default_root(storage, "alice"), user="alice")[0].uri  # doctest: +SKIP
        'hdfs://namenode:8020/user/alice/.submit_tf_job/staging/9f86d0…/job.tar'
    """
    moment = now or datetime.now(timezone.utc)
    return [_stage_one(file, storage, root, user, directory_mode, moment) for file in files]


def stage_secret(storage: Storage, path: str, content: bytes, *, user: str, levels: int) -> bool:
    """Put a secret where its owner alone can read it: mode 0400, in directories of mode 0700.

    Args:
        storage: Where to.
        path: Where there.
        content: The bytes; written again where others stand there.
        user: Who must own the directories.
        levels: How many directories above it are its own, and must not be open to others.

    Returns:
        Whether there was no file before.

    Raises:
        AuthError: The directories are somebody else's, or the storage keeps no rights.
    """
    path = storage.path(path)
    directory = parent_of(path)
    storage.mkdirs(directory, 0o700)
    for _ in range(levels):
        found = storage.stat(directory)
        _refuse_strangers(storage, found, user)
        if found.mode != 0o700:
            storage.chmod(directory, 0o700)
        directory = parent_of(directory)
    there = _look(storage, path)
    if there is None or storage.read(path) != content:
        storage.write(path, content, mode=SECRET_MODE)
    if storage.stat(path).mode != SECRET_MODE:
        storage.chmod(path, SECRET_MODE)
        if storage.stat(path).mode != SECRET_MODE:
            storage.remove(path)
            raise AuthError(f"{storage.url(path)}: cannot be closed to others there", hint="Use HDFS for `staging`.")
    return there is None


def _stage_one(file: ShippedFile, storage: Storage, root: str, user: str | None, directory_mode: int, now: datetime) -> StagedFile:
    sha256 = hashlib.sha256(file.content).hexdigest()
    directory = join(storage.path(root), sha256)
    path = join(directory, _safe(file.name))
    found = _look(storage, path)
    if found is not None and user and not directory_mode & 0o022:
        _refuse_strangers(storage, found, user)
    fresh = found is None or found.size != len(file.content)
    if fresh:
        _upload(file, storage, path, directory_mode, replace=found is not None)
    else:
        _mark_used(storage, directory, now)
    return StagedFile(name_of(path), storage.url(path), sha256, len(file.content), fresh)


def _look(storage: Storage, path: str) -> Stat | None:
    try:
        return storage.stat(path)
    except NoSuchPath:
        return None


def _refuse_strangers(storage: Storage, found: Stat, user: str) -> None:
    """Whoever owns the file may have put other bytes under our hash."""
    if found.owner and found.owner != user:
        message = f"{storage.url(found.path)}: belongs to {found.owner}, not to {user}"
        raise AuthError(message, hint="Use a staging directory of your own, or remove this one.")


def _upload(file: ShippedFile, storage: Storage, path: str, directory_mode: int, *, replace: bool) -> None:
    storage.mkdirs(path.rpartition("/")[0], directory_mode)
    readable = directory_mode & 0o444
    mode = readable | (readable >> 2) if file.executable else readable | (directory_mode & 0o200)
    try:
        storage.write(path, file.content, mode=mode, overwrite=replace)
    except PathExists:
        return  # another submitter of the same content was first


def _mark_used(storage: Storage, directory: str, now: datetime) -> None:
    last = max((item.modified_ms for item in storage.list_dir(directory)), default=0)
    if _when(last) + USED_AGAIN_AFTER < now:
        storage.write(join(directory, USED), b"")


def _safe(name: str) -> str:
    """HDFS knows no `:` in names, YARN's properties no blanks; the container sees the name that the service gives it anyway."""
    return re.sub(r"[^\w.+-]", "_", name_of(name), flags=re.ASCII).lstrip(".") or "file"


def _when(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc)


def sweep(storage: Storage, root: str, *, older_than: timedelta, now: datetime | None = None) -> Iterator[StaleFile]:
    """List what nobody has staged for a while; nothing is removed.

    A file may still be needed by a job that runs longer than that, or that is started again: the caller knows.

    Args:
        storage: Where the files are.
        root: The directory that `stage` was given.
        older_than: Age of the last use.
        now: The time; None for the clock's.
    """
    limit = (now or datetime.now(timezone.utc)) - older_than
    try:
        directories = storage.list_dir(root)
    except NoSuchPath:
        return
    for directory in directories:
        if not directory.is_dir or not _HASH.fullmatch(directory.name):
            continue
        try:
            files = storage.list_dir(directory.path)
        except SubmitTFJobError:  # removed meanwhile, or somebody else's
            continue
        used = _when(max([directory.modified_ms, *(file.modified_ms for file in files)]))
        if used < limit:
            yield StaleFile(directory.path, sum(file.size for file in files), used)
