"""Upload a job's files for its containers: each content only once, atomically, and readable only by
its owner.

A file is stored at `<staging>/files/<job>/<hash of its content>/<name>` and never changed: a
NodeManager rejects a file whose time or size differs from what the ApplicationMaster read
(FSDownload.verifyAndCopy). An empty file `.used` beside it is written again at each submission that
uses the file. `bootstrap.zip` belongs to no job, and is never removed.

A client that stages a file first writes that mark, and then checks whether the content exists. A
client that removes a file first renames the content's directory, and then reads the mark. So at
least one of the two clients notices the other.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

from submit_tf_job.errors import (
    AuthError,
    ClusterUnavailable,
    SubmitTFJobError,
    UsageError,
)
from submit_tf_job.jobspec.job import HostFile
from submit_tf_job.plan import Upload
from submit_tf_job.plan.delivery import KINDS, Content, Pack
from submit_tf_job.storage.base import (
    NoSuchPath,
    PathExists,
    Stat,
    Storage,
    join,
    parent_of,
)

USED = ".used"
DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
SECRET_MODE = 0o400
# Files used since then may belong to a submission in progress: it may send another POST minutes
# after it has staged its files, and clocks differ.
RECENT_MS = 20 * 60_000
AT_ONCE = 4
PIECE = 4 * 1024**2


@dataclass(frozen=True)
class Sent:
    """The progress of an upload in bytes.

    Attributes:
        total: Total size of the missing files.
    """

    done: int
    total: int


@dataclass(frozen=True)
class Leftover:
    """The staged files of all jobs that have the same name.

    Attributes:
        paths: The directories of the files.
        size: The size of the files in bytes.
        used_ms: The time of the last submission of a job with that name, as far as the files show
            it, in milliseconds since 1970.
    """

    name: str
    paths: tuple[str, ...]
    size: int
    used_ms: int

    @property
    def used(self) -> datetime:
        """`used_ms` as a time."""
        return datetime.fromtimestamp(self.used_ms / 1000, timezone.utc)


# --- contents ---


def stream(content: Content, piece: int = PIECE) -> Iterator[bytes]:
    """Yield a content in pieces of at least `piece` bytes, except the last piece; files are read
    during the upload.

    Raises:
        UsageError: A file was removed or changed since it was hashed.
    """
    buffer = bytearray()
    for part in _parts_of_pieces(content.pieces if isinstance(content, Pack) else (content,)):
        if len(part) >= piece and not buffer:
            yield part
            continue
        buffer += part
        while len(buffer) >= piece:
            yield bytes(buffer[:piece])
            del buffer[:piece]
    if buffer:
        yield bytes(buffer)


def _parts_of_pieces(pieces: Iterable[bytes | HostFile]) -> Iterator[bytes]:
    for piece in pieces:
        if isinstance(piece, HostFile):
            yield from _pieces_of_file(piece)
        else:
            yield piece


def _pieces_of_file(file: HostFile) -> Iterator[bytes]:
    try:
        with file.path.open("rb", buffering=0) as source:
            _refuse_changed(file, os.fstat(source.fileno()))
            left = file.size
            while left:
                part = source.read(min(PIECE, left))
                if not part:
                    break
                left -= len(part)
                yield part
            _refuse_changed(file, os.fstat(source.fileno()))
    except FileNotFoundError:
        raise _changed_error(file, "is not there any more") from None
    except OSError as error:
        raise _changed_error(file, f"cannot be read any more: {error.strerror or error}") from None


def _refuse_changed(file: HostFile, found: os.stat_result) -> None:
    if file.stamp and HostFile.stamp_of(found) != file.stamp:
        raise _changed_error(file, "was changed after the job spec had been read")


def _changed_error(file: HostFile, what: str) -> UsageError:
    return UsageError(
        f"{file.path} {what}; nothing was submitted",
        hint="submit again when nothing writes to it any more",
    )


# --- files ---


class _SentBytes:
    """Counts the uploaded bytes of several threads, and stops all of them if one fails."""

    def __init__(self, total: int, on_progress: Callable[[Sent], None]) -> None:
        self.over = threading.Event()
        self._lock = threading.Lock()
        self._done, self._total, self._on_progress = 0, total, on_progress

    def count(self, size: int) -> None:
        with self._lock:
            self._done += size
            self._on_progress(Sent(self._done, self._total))

    def through(self, parts: Iterator[bytes]) -> Iterator[bytes]:
        for part in parts:
            if self.over.is_set():
                raise ClusterUnavailable("the upload was ended")
            yield part
            self.count(len(part))


def stage(
    uploads: Sequence[Upload],
    storage: Storage,
    *,
    user: str | None = None,
    on_progress: Callable[[Sent], None] = lambda _sent: None,
) -> list[Upload]:
    """Mark a job's files as used, upload those that are missing, several at once, and return these.

    Two clients may upload the same content at once: each uses its own temporary name, and the first
    file to be complete is kept.

    Args:
        uploads: Files and their targets; all of one job.
        storage: The storage to upload to.
        user: Required owner of the files; None for any.
        on_progress: Called with the progress, from any thread, one call at a time.

    Raises:
        AuthError: The directory is not writable, or an existing one belongs to another user.
        Refused: Not enough space; the partial file is removed.
        UsageError: A file was removed or changed since the job spec was read.
        ClusterUnavailable: The storage is not reachable.

    Example:
        >>> stage(planned.files, storage, user="alice")[0].uri  # doctest: +SKIP
        'hdfs://namenode:8020/user/alice/.submit_tf_job/staging/files/mnist/9f86d0…/tfjob-files.tar'
    """
    for directory in sorted({upload.directory for upload in uploads if not upload.shared}):
        with suppress(NoSuchPath):
            storage.write(join(directory, USED), b"")
    missing = [upload for upload in uploads if not _is_there(upload, storage, user)]
    for directory in sorted({upload.directory for upload in missing}):
        storage.mkdirs(directory, DIRECTORY_MODE)
    _send_all(missing, storage, _SentBytes(sum(upload.size for upload in missing), on_progress))
    return missing


def _is_there(upload: Upload, storage: Storage, user: str | None) -> bool:
    found = storage.stat_or_none(upload.uri)
    if found is not None and user:
        _refuse_strangers(storage, found, user)
    return found is not None and found.size == upload.size


def _send_all(uploads: Sequence[Upload], storage: Storage, progress: _SentBytes) -> None:
    from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        futures = [pool.submit(_send_upload, upload, storage, progress) for upload in uploads]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            failed = next(
                (error for future in done if (error := future.exception()) is not None), None
            )
            if failed is not None:
                raise failed
        finally:
            progress.over.set()  # after an error or an interrupt, stop the other threads
            for future in futures:
                future.cancel()


def _send_upload(upload: Upload, storage: Storage, progress: _SentBytes) -> None:
    with suppress(PathExists):  # another client has uploaded the same content first
        storage.write(
            upload.uri,
            progress.through(stream(upload.content)),
            mode=FILE_MODE,
            overwrite=storage.stat_or_none(upload.uri) is not None,
        )


# --- secrets ---


def stage_secret(storage: Storage, path: str, content: bytes, *, user: str, levels: int) -> bool:
    """Store a secret that only its owner can read: mode 0400, in directories of mode 0700. If the
    storage does not set this mode, the secret is removed again.

    Args:
        storage: The storage to write to.
        path: Path of the file.
        content: The bytes; a file with other content is replaced.
        user: Required owner of the directories.
        levels: Number of parent directories that must have this owner and mode.

    Returns:
        Whether the file is new.

    Raises:
        AuthError: The directories belong to another user, or the storage has no permissions.
    """
    path = storage.path(path)
    directory = parent_of(path)
    storage.mkdirs(directory, DIRECTORY_MODE)
    for _ in range(levels):
        found = storage.stat(directory)
        _refuse_strangers(storage, found, user)
        if found.mode != DIRECTORY_MODE:
            storage.chmod(directory, DIRECTORY_MODE)
        directory = parent_of(directory)
    there = storage.stat_or_none(path)
    if there is None or storage.read(path) != content:
        storage.write(path, content, mode=SECRET_MODE)
    if storage.stat(path).mode != SECRET_MODE:
        storage.chmod(path, SECRET_MODE)
        if storage.stat(path).mode != SECRET_MODE:
            storage.remove(path)
            raise AuthError(
                f"{storage.url(path)}: cannot be closed to others there",
                hint="Use HDFS for `staging`.",
            )
    return there is None


def _refuse_strangers(storage: Storage, found: Stat, user: str) -> None:
    """Raise AuthError if `found` belongs to another user: that user may have stored other bytes
    under our hash.
    """
    if found.owner and found.owner != user:
        message = f"{storage.url(found.path)}: belongs to {found.owner}, not to {user}"
        raise AuthError(message, hint="Use a staging directory of your own, or remove this one.")


# --- removal ---


def forget(storage: Storage, path: str) -> None:
    """Remove the directory of one staged file (`…/<hash of its content>`), and then the directory
    of its job if that is empty.

    Raises:
        NoSuchPath: The directory of the job does not exist.
    """
    storage.remove(path, recursive=True)
    _remove_empty(storage, parent_of(path))


def forget_earlier(storage: Storage, directories: Collection[str]) -> None:
    """Remove the staged files of earlier runs of the same job, except files that this run uses.

    Files that were used in the last 20 minutes before this run, or later, are kept: they may belong
    to another submission whose POST arrives late.

    Args:
        storage: The storage that contains the files.
        directories: The directories that this run uses; earlier runs have theirs beside these.
    """
    mine = {storage.path(directory) for directory in directories}
    for above in {parent_of(path) for path in mine}:
        items = storage.list_dir(above)
        others = [item for item in items if item.path not in mine]
        own = [storage.last_change_ms(item) for item in items if others and item.path in mine]
        for item in others if own else ():
            _remove_unused(storage, item, max(own) - RECENT_MS)


def forget_job(storage: Storage, path: str, *, service: str, posted_ms: int) -> None:
    """Remove the staged files of a deleted job, and other files of jobs with the same name that
    were not used in the last 20 minutes.

    A submission in progress has used its files after the deleted service was stored, so its files
    are kept.

    Args:
        storage: The storage that contains the files.
        path: The directory of a job's name, with a directory for each content or submission.
        service: The JSON of the deleted service; the paths in it were staged for it.
        posted_ms: When YARN stored the deleted service, in milliseconds by the clock of the
            storage.
    """
    path = storage.path(path)
    with suppress(NoSuchPath):  # no files were staged, or another client has removed them
        recent_ms = storage.now_ms(path) - RECENT_MS
        for item in storage.list_dir(path):
            limit_ms = max(recent_ms, posted_ms) if item.path in service else recent_ms
            _remove_unused(storage, item, limit_ms)
        _remove_empty(storage, path)


def forget_leftover(storage: Storage, found: Leftover) -> None:
    """Remove the staged files of all jobs with one name, except files that were used after they
    were listed.
    """
    for path in found.paths:
        with suppress(NoSuchPath):
            for item in storage.list_dir(path):
                _remove_unused(storage, item, found.used_ms)
            _remove_empty(storage, path)


def _remove_unused(storage: Storage, item: Stat, limit_ms: int) -> None:
    """Remove a file or directory, unless it was used after `limit_ms`."""
    if storage.last_change_ms(item) > limit_ms:
        return
    if storage.renames:
        aside = f"{item.path}.{os.urandom(4).hex()}"
        with suppress(NoSuchPath):  # another client removes it
            storage.rename(item.path, aside)
            if storage.last_change_ms(replace(item, path=aside)) <= limit_ms:
                storage.remove(aside, recursive=True)
                return
            try:
                storage.rename(aside, item.path)
            except PathExists:  # who has marked it did not find it, and has uploaded it again
                storage.remove(aside, recursive=True)
        return
    storage.remove(item.path, recursive=True)


def _remove_empty(storage: Storage, path: str) -> None:
    """Remove a job's directory if it is empty; files that another client has written there
    meanwhile are kept.
    """
    if not storage.list_dir(path):
        with suppress(SubmitTFJobError):  # it is not empty any more
            storage.remove(path)


def leftovers(storage: Storage, root: str, *, older_than: timedelta) -> Iterator[Leftover]:
    """List the names of jobs whose staged files were not used for `older_than`; remove nothing.

    A job may run for longer than `older_than`, or be started again: the caller has to check.

    Args:
        storage: The storage that contains the files.
        root: The staging directory.
        older_than: Minimum time since the last use, by the clock of the storage.
    """
    try:
        limit_ms = storage.now_ms(root) - older_than / timedelta(milliseconds=1)
    except NoSuchPath:
        return
    found: dict[str, list[Stat]] = {}
    for kind in KINDS:
        with suppress(NoSuchPath):
            for directory in storage.list_dir(join(root, kind)):
                found.setdefault(directory.name, []).append(directory)
    for name, directories in sorted(found.items()):
        below = [item for directory in directories for item in storage.walk(directory)]
        used_ms = max(item.modified_ms for item in below)
        if used_ms <= limit_ms:
            yield Leftover(
                name,
                tuple(item.path for item in directories),
                sum(item.size for item in below),
                used_ms,
            )
