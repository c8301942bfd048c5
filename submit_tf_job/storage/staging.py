"""Put a job's files where its containers can get them: once per content, whole or not at all, readable by their owner alone.

A file lies at `<staging>/files/<job>/<its content's id>/<name>` and is never changed once it is there: a NodeManager refuses a file whose
time or size is not what the ApplicationMaster saw (FSDownload.verifyAndCopy). An empty `.used` in the job's directory is written again
when the job is submitted again, so that `sweep` knows.

An upload that was interrupted goes on where it ended: a large file is written under `.<name>.<host>.<pid>.<token>.part`, and whoever finds
one whose process on this host is gone takes it over.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from submit_tf_job.errors import AuthError, ClusterUnavailable, Refused, SubmitTFJobError, UsageError
from submit_tf_job.job import HostFile
from submit_tf_job.plan import Upload
from submit_tf_job.plan.data import LISTS
from submit_tf_job.plan.identity import KEYTABS
from submit_tf_job.plan.packing import Pack
from submit_tf_job.plan.service import FILES, Content
from submit_tf_job.storage.model import NoSuchPath, PathExists, Stat, Storage, join, name_of, parent_of

__all__ = ["Leftover", "Sent", "StagedFile", "forget", "forget_others", "pieces_of", "stage", "stage_secret", "sweep"]

USED = ".used"
DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
SECRET_MODE = 0o400
USED_AGAIN_AFTER = timedelta(hours=1)
AT_ONCE = 4
PIECE = 4 * 1024**2
RESUMABLE = 32 * 1024**2  # smaller ones are sent again as a whole
_WRITTEN_NOW: set[str] = set()  # parts that threads of this process are writing
_PART = re.compile(r"\.(?P<name>.+)\.(?P<host>[\w-]+)\.(?P<pid>\d+)\.[0-9a-f]{8}\.part")


@dataclass(frozen=True)
class StagedFile:
    """A file that is where containers can get it.

    Attributes:
        uri: What a YARN service writes as `src_file` of a STATIC or ARCHIVE file.
        sent: Bytes that had to be sent: 0 where it was there already, fewer than `size` where a part of it was.
    """

    uri: str
    size: int
    sent: int


@dataclass(frozen=True)
class Sent:
    """How far the upload is, in bytes.

    Attributes:
        total: Of the files that were not there.
    """

    done: int
    total: int


@dataclass(frozen=True)
class Leftover:
    """What is staged for jobs of one name.

    Attributes:
        paths: Its directories.
        size: Bytes.
        used: When a job of the name was submitted last, as far as the files show it.
    """

    name: str
    paths: tuple[str, ...]
    size: int
    used: datetime


# --- what is sent ---


def pieces_of(content: Content) -> Sequence[bytes | HostFile]:
    """Say what a content consists of."""
    return content.pieces if isinstance(content, Pack) else (content,)


def stream(content: Content, start: int = 0, piece: int = PIECE) -> Iterator[bytes]:
    """Read a content from `start` on, in pieces of that size; files are read as they are sent.

    Raises:
        UsageError: A file has gone or was changed since it was hashed.
    """
    buffer = bytearray()
    for part in _parts_from(pieces_of(content), start):
        if len(part) >= piece and not buffer:
            yield part
            continue
        buffer += part
        while len(buffer) >= piece:
            yield bytes(buffer[:piece])
            del buffer[:piece]
    if buffer:
        yield bytes(buffer)


def _parts_from(pieces: Iterable[bytes | HostFile], start: int) -> Iterator[bytes]:
    for piece in pieces:
        size = piece.size if isinstance(piece, HostFile) else len(piece)
        if start >= size:
            start -= size
            continue
        if isinstance(piece, HostFile):
            yield from _file(piece, start)
        else:
            yield piece[start:]
        start = 0


def _file(file: HostFile, start: int) -> Iterator[bytes]:
    try:
        with file.path.open("rb", buffering=0) as source:
            _refuse_changed(file, os.fstat(source.fileno()))
            source.seek(start)
            left = file.size - start
            while left:
                part = source.read(min(PIECE, left))
                if not part:
                    break
                left -= len(part)
                yield part
            _refuse_changed(file, os.fstat(source.fileno()))
    except FileNotFoundError:
        raise _changed(file, "is not there any more") from None
    except OSError as error:
        raise _changed(file, f"cannot be read any more: {error.strerror or error}") from None


def _refuse_changed(file: HostFile, found: os.stat_result) -> None:
    if file.stamp and HostFile.stamp_of(found) != file.stamp:
        raise _changed(file, "was changed after the job spec had been read")


def _changed(file: HostFile, what: str) -> UsageError:
    return UsageError(f"{file.path} {what}; nothing was submitted", hint="submit again when nothing writes to it any more")


# --- files ---


class _Teller:
    """Counts what is sent, from several threads, and ends them all when one of them fails."""

    def __init__(self, total: int, told: Callable[[Sent], None]) -> None:
        self.over = threading.Event()
        self._lock = threading.Lock()
        self._done, self._total, self._told = 0, total, told

    def count(self, size: int) -> None:
        with self._lock:
            self._done += size
            self._told(Sent(self._done, self._total))

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
    told: Callable[[Sent], None] = lambda _sent: None,
    now: datetime | None = None,
) -> list[StagedFile]:
    """Send what is not there yet, several at once.

    Two submitters of the same content at once do no harm to each other: each uploads under a name of its own and the first one's stays.

    Args:
        uploads: What has to be where; all of one job.
        storage: Where to.
        user: Who must own what is found there; None to take it whoever owns it.
        told: Told how far it is, by any thread, one at a time.
        now: The time; None for the clock's.

    Returns:
        One for each upload, in their order.

    Raises:
        AuthError: The directory may not be written, or what is there belongs to somebody else.
        Refused: There is no room; what was sent of the file that did not fit is removed.
        UsageError: A file has gone or was changed since the job spec was read.
        ClusterUnavailable: The storage cannot be reached; what was sent of large files is kept, and used the next time.

    Example:
        >>> stage(planned.uploads, storage, user="alice")[0].uri  # doctest: +SKIP
        'hdfs://namenode:8020/user/alice/.submit_tf_job/staging/files/mnist/9f86d0…/tfjob-files.tar'
    """
    missing = [upload for upload in uploads if not _is_there(upload, storage, user)]
    for directory in sorted({upload.directory for upload in missing}):
        storage.mkdirs(storage.path(directory), DIRECTORY_MODE)
    teller = _Teller(sum(upload.size for upload in missing), told)
    sent = dict(zip((upload.uri for upload in missing), _send_all(missing, storage, teller), strict=True))
    if not missing and uploads:
        _mark_used(storage, parent_of(storage.path(uploads[0].directory)), now or datetime.now(timezone.utc))
    return [StagedFile(storage.url(upload.uri), upload.size, sent.get(upload.uri, 0)) for upload in uploads]


def _is_there(upload: Upload, storage: Storage, user: str | None) -> bool:
    found = _look(storage, storage.path(upload.uri))
    if found is not None and user:
        _refuse_strangers(storage, found, user)
    return found is not None and found.size == upload.size


def _send_all(uploads: Sequence[Upload], storage: Storage, teller: _Teller) -> list[int]:
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        futures = [pool.submit(_send, upload, storage, teller) for upload in uploads]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            failed = next((error for future in done if (error := future.exception()) is not None), None)
            if failed is not None:
                raise failed
        finally:
            teller.over.set()  # the others need not go on, be it an error or an interrupt
            for future in futures:
                future.cancel()
    return [future.result() for future in futures]


def _send(upload: Upload, storage: Storage, teller: _Teller) -> int:
    path = storage.path(upload.uri)
    if upload.size >= RESUMABLE and storage.can_append:
        return _send_large(upload, storage, path, teller)
    with suppress(PathExists):  # another submitter of the same content was first
        storage.write(path, teller.through(stream(upload.content)), mode=FILE_MODE, overwrite=_look(storage, path) is not None)
    return upload.size


def _send_large(upload: Upload, storage: Storage, path: str, teller: _Teller) -> int:
    part = join(parent_of(path), f".{name_of(path)}.{_host()}.{os.getpid()}.{secrets.token_hex(4)}.part")
    _WRITTEN_NOW.add(part)
    try:
        start = _taken_over(upload, storage, path, part)
        teller.count(start)
        rest = teller.through(stream(upload.content, start))
        if start:
            storage.append(part, rest)
        else:
            storage.create(part, rest, FILE_MODE)
        if storage.stat(part).size != upload.size:
            raise Refused(f"{storage.url(part)} has not the {upload.size} bytes that were sent", hint="submit again")
        with suppress(PathExists):
            storage.rename(part, path, overwrite=_look(storage, path) is not None)
    except (Refused, UsageError):
        with suppress(SubmitTFJobError):
            storage.remove(part)
        raise
    finally:
        _WRITTEN_NOW.discard(part)
    _remove_parts(storage, path)
    return upload.size - start


def _taken_over(upload: Upload, storage: Storage, path: str, mine: str) -> int:
    """Take over what an interrupted upload left, where it left anything; return its size."""
    for found in _dead_parts(storage, path):
        try:
            storage.rename(found.path, mine, overwrite=False)
        except SubmitTFJobError:
            continue  # another one was faster
        storage.recover(mine)
        size = storage.stat(mine).size
        if 0 < size <= upload.size:
            return size
        storage.remove(mine)
    return 0


def _dead_parts(storage: Storage, path: str) -> list[Stat]:
    """List what uploads of the same file left whose process, on this host, is gone."""
    found = []
    for item in storage.list_dir(parent_of(path)):
        match = _PART.fullmatch(item.name)
        if match and match["name"] == name_of(path) and match["host"] == _host() and not _is_written(item.path, int(match["pid"])):
            found.append(item)
    return found


def _remove_parts(storage: Storage, path: str) -> None:
    with suppress(SubmitTFJobError):
        for item in _dead_parts(storage, path):
            storage.remove(item.path)


def _is_written(path: str, pid: int) -> bool:
    if pid == os.getpid():
        return path in _WRITTEN_NOW
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _host() -> str:
    return re.sub(r"[^\w-]", "-", socket.gethostname(), flags=re.ASCII) or "host"


# --- secrets ---


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
    storage.mkdirs(directory, DIRECTORY_MODE)
    for _ in range(levels):
        found = storage.stat(directory)
        _refuse_strangers(storage, found, user)
        if found.mode != DIRECTORY_MODE:
            storage.chmod(directory, DIRECTORY_MODE)
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


# --- afterwards ---


def forget(storage: Storage, path: str) -> None:
    """Remove a content's directory, and the job's when nothing else is in it."""
    directory = storage.path(path)
    storage.remove(directory, recursive=True)
    above = parent_of(directory)
    if all(item.name == USED for item in storage.list_dir(above)):
        storage.remove(above, recursive=True)


def forget_others(storage: Storage, uploads: Sequence[Upload]) -> None:
    """Remove what earlier jobs of the name left, and this one does not use."""
    mine = {storage.path(upload.directory) for upload in uploads}
    for above in {parent_of(path) for path in mine}:
        for item in storage.list_dir(above):
            if item.is_dir and item.path not in mine:
                storage.remove(item.path, recursive=True)


def _mark_used(storage: Storage, directory: str, now: datetime) -> None:
    last = max((item.modified_ms for item in storage.list_dir(directory)), default=0)
    if _when(last) + USED_AGAIN_AFTER < now:
        storage.write(join(directory, USED), b"")


def _when(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc)


def sweep(storage: Storage, root: str, *, older_than: timedelta, now: datetime | None = None) -> Iterator[Leftover]:
    """List the jobs for which nobody has staged anything for a while; nothing is removed.

    A job may run longer than that, or be started again: the caller knows.

    Args:
        storage: Where the files are.
        root: The staging directory.
        older_than: Age of the last use.
        now: The time; None for the clock's.
    """
    limit = (now or datetime.now(timezone.utc)) - older_than
    found: dict[str, list[Stat]] = {}
    for kind in (FILES, KEYTABS, LISTS):
        with suppress(NoSuchPath):
            for directory in storage.list_dir(join(root, kind)):
                found.setdefault(directory.name, []).append(directory)
    for name, directories in sorted(found.items()):
        below = [item for directory in directories for item in _all_below(storage, directory)]
        used = _when(max(item.modified_ms for item in below))
        if used <= limit:
            yield Leftover(name, tuple(item.path for item in directories), sum(item.size for item in below), used)


def _all_below(storage: Storage, item: Stat) -> Iterator[Stat]:
    yield item
    if item.is_dir:
        with suppress(NoSuchPath):  # removed meanwhile
            for child in storage.list_dir(item.path):
                yield from _all_below(storage, child)
