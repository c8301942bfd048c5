"""The interface of a file system in a container: a few operations, and one exception class."""

from __future__ import annotations

import contextlib
import errno
import posixpath
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from submit_tf_job.container import untrusted

Entry: TypeAlias = "tuple[str, bool, int]"  # path, whether it is a directory, bytes
# milliseconds of the last change by the store's clock, and an id or 0
Version: TypeAlias = "list[int]"

TELL_S = 1.0  # between two reports of what is copied
PIECE = 4 << 20
LONGEST_PAUSE_S = 30.0
# The names of Java's and of hdfs-native's error, and a message that a DataNode passes on alone. A
# Kerberos server or a file of credentials that is "not found" is no missing file: what a failed
# rename has not moved would count as moved.
MISSING = ("FileNotFound", "File does not exist")
# What trying again cannot change. Everything else may pass, whatever it is called: a server that
# restarts, safe mode, a broken pipe, a quota that somebody raises.
LASTING = (
    "AccessControlException",  # a stack trace has AccessController
    "AlreadyExists",
    "AuthorizationException",
    "IllegalArgument",
    "InvalidPath",
    "InvalidToken",
    "MaxDirectoryItems",
    "NotDirectory",
    "PathComponentTooLong",
    "Pathname too long",
    "Permission denied",
    "Unsupported",
    "is a reserved name",  # these two: a DataNode passes on the message alone
    "maximum path component name limit",
)
LASTING_ERRNOS = (
    errno.EACCES,
    errno.EEXIST,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOTDIR,
    errno.ENOTEMPTY,
    errno.EPERM,
    errno.EROFS,
)


class StoreError(Exception):
    """A read or write failed; `transient` tells whether another attempt may succeed later."""

    def __init__(self, why: str, *, transient: bool = False) -> None:
        super().__init__(why)
        self.transient = transient


class NotFound(StoreError):
    """The file or directory does not exist."""


class FileStore(ABC):
    """A file system; paths are absolute, without scheme and host.

    The docstrings here say what each method promises, for all file systems. Each method raises
    `StoreError` if it fails.
    """

    renames = True  # whether a directory is renamed as a whole, so that no reader sees a part of it

    @abstractmethod
    def stat(self, path: str) -> Entry:
        """Return a path, whether it is a directory, and its size in bytes.

        Raises:
            NotFound: Nothing exists at the path.
        """

    @abstractmethod
    def list(self, path: str) -> list[Entry]:
        """Return the entries of a directory, as `stat` does, with their full paths."""

    @abstractmethod
    def read(self, path: str) -> Iterator[bytes]:
        """Yield a file's contents."""

    @abstractmethod
    def write(self, path: str, content: Iterable[bytes], size: int) -> None:
        """Write a new file of `size` bytes into a directory that exists. If the file exists, that
        is an error, but an object store replaces it.
        """

    @abstractmethod
    def mkdirs(self, path: str, permission: str = "") -> None:
        """Create a directory and its parents; `permission` is octal, and only HDFS uses it."""

    @abstractmethod
    def rename(self, source: str, target: str) -> None:
        """Rename to a path that does not exist; fail if it exists. An object store only moves one
        object.
        """

    def version(self, path: str) -> Version | None:
        """Return a value that changes when something else is put at a path; None if nothing exists
        at the path. In an object store the value is always the same.

        A rename does not change the value.
        """
        return [0, 0] if self.exists(path) else None

    def trash(self, path: str) -> str:  # noqa: ARG002 - used in subclasses
        """Return the directory of the user's trash for a path; "" if the store has no trash."""
        return ""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file, or a directory with all that is in it, if it exists; in an object store
        only the object of just this name.
        """

    def exists(self, path: str) -> bool:
        """Return whether a path exists."""
        try:
            self.stat(path)
        except NotFound:
            return False
        return True


@contextlib.contextmanager
def store_errors(path: str) -> Iterator[None]:
    """Turn every exception in the block into `StoreError` (`NotFound` if a file is missing); the
    messages begin with the path.
    """
    try:
        yield
    except (StoreError, GeneratorExit, KeyboardInterrupt, SystemExit):
        raise
    except Exception as error:
        text = _first_line(error)
        named = str(error).partition("\\n")[0] + text  # the first line, with the name of its class
        if isinstance(error, FileNotFoundError) or any(word in named for word in MISSING):
            raise NotFound(f"{path}: no such file or directory") from error
        lasts = getattr(error, "errno", None) in LASTING_ERRNOS or isinstance(error, UnicodeError)
        transient = not lasts and may_pass(f"{type(error).__name__} {error}")
        raise StoreError(f"{path}: {text}", transient=transient) from error
    except BaseException as error:  # a Rust panic
        raise StoreError(f"{path}: the library gave up: {error}") from error


def may_pass(error: str) -> bool:
    """Return whether an error may be temporary; `error` is its class and its message."""
    return not any(word in error for word in LASTING)


def retry(
    call: Callable[[], Any],
    patience_s: float,
    wait: Callable[[float], object],
    waiting: Callable[[StoreError, float], None],
) -> Any:
    """Call a function; call it again after temporary errors. Return its result.

    Args:
        call: The function.
        patience_s: Seconds from the first error to the last attempt.
        wait: Waits for a number of seconds; returns true to stop trying.
        waiting: Called before each wait, with the error and the seconds since the first error.

    Raises:
        StoreError: The last error, if it is permanent, or no further attempt is made.
    """
    first, pause_s = None, 1.0
    while True:
        try:
            return call()
        except StoreError as err:
            now = time.monotonic()
            first = now if first is None else first
            if not err.transient or now + pause_s > first + patience_s:
                raise
            waiting(err, now - first)
            if wait(pause_s):
                raise
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


class Copying:
    """The state of one copy, which several threads use: counts, reports to the task, and
    retries.
    """

    def __init__(self, tell: Callable[..., None], patience_s: float, name: str = "") -> None:
        """Start with nothing copied. An operation that fails is tried again for `patience_s`
        seconds; `tell` sends a message with the given fields to the task; `name` is that of the
        input or output.
        """
        self.files = self.bytes = 0
        self.tell, self.patience_s, self.name = tell, patience_s, name
        self.passed = threading.Event()  # it has ended, or waits
        self.lock, self.told = threading.Lock(), 0.0
        self.failed = threading.Event()  # one thread has given up

    def tick(self, size: int, files: int = 0) -> None:
        with self.lock:
            self.bytes += size
            self.files += files
            if time.monotonic() >= self.told + TELL_S:
                self.told = time.monotonic()
                self.tell(t="copied", files=self.files, bytes=self.bytes)

    def retry(self, call: Callable[[], Any], *, entry: bool = False) -> Any:
        """Call a function; call it again after temporary errors.

        An error that is permanent, or that lasts for `patience_s`, also ends the retries of the
        other threads. With `entry`, a permanent error concerns only this entry, and other entries
        are still copied.

        Raises:
            StoreError: As for the function `retry`.
        """
        try:
            result = retry(call, self.patience_s, self.failed.wait, self._tell_waiting)
            self.tick(0)  # many small steps take long, too
            return result
        except StoreError as err:
            if err.transient or not entry:
                self.failed.set()
            raise

    def _tell_waiting(self, err: StoreError, since_s: float) -> None:
        with self.lock:
            self.tell(t="waiting", why=str(err), since_s=since_s, name=self.name)
        self.passed.set()


def _first_line(error: BaseException) -> str:
    """Return the first line of an error's message.

    hdfs-native prints Rust's `RPCError("class", "message")`, escaped.
    """
    if isinstance(error, OSError) and error.strerror and error.errno:
        return error.strerror
    text = str(error).strip() or type(error).__name__
    if text.startswith(("RPCError(", "FatalRPCError(")) and '", "' in text:
        text = text.partition('", "')[2].rstrip('")').replace('\\"', '"').replace("\\n", "\n")
    return text.partition("\n")[0][:500]


def pieces(source: Any, size: int, tick: Callable[[int], None]) -> Iterator[bytes]:
    """Yield the first `size` bytes of an open file, to which a program may still append, or fewer
    if it has become shorter; `tick` gets the number of bytes of each piece.
    """
    while size:
        piece = source.read(min(size, PIECE))
        if not piece:
            return
        yield piece
        tick(len(piece))
        size -= len(piece)


def shown(text: str) -> str:
    """Return a name or message as one line of text: a name may have any bytes."""
    return untrusted.clean_text(text).replace("\n", "\\n")


def is_hidden(path: str) -> bool:
    """Return whether Hadoop treats a file as hidden (FileInputFormat)."""
    return posixpath.basename(path.rstrip("/")).startswith(("_", "."))


def files_below(store: FileStore, path: str) -> Iterable[Entry]:
    """List the files at or below a path, sorted by name, without hidden files.

    Raises:
        NotFound: Nothing exists at the path.
    """
    found = store.stat(path)
    if not found[1]:
        return [found]
    todo = [path]
    files: list[Entry] = []
    while todo:
        entries = [entry for entry in store.list(todo.pop()) if not is_hidden(entry[0])]
        todo += [entry[0] for entry in entries if entry[1]]
        files += [entry for entry in entries if not entry[1]]
    return sorted(files)
