"""The interface of a file system in a container: a few operations, and one exception class."""

from __future__ import annotations

import posixpath
from abc import ABC, abstractmethod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Entry = tuple[str, bool, int]  # path, whether it is a directory, bytes

PIECE = 4 << 20
MISSING = ("FileNotFound", "No such file", "does not exist", "not found")
TRANSIENT = (
    "IOError",
    "timed out",
    "Connection ",
    "SafeMode",
    "safe mode",
    "StandbyException",
    "RetriableException",
    "could only be",
)


class StoreError(Exception):
    """A read or write failed; `passing` marks transient errors."""

    def __init__(self, why: str, *, transient: bool = False) -> None:
        """Keep one sentence."""
        super().__init__(why)
        self.transient = transient


class NotFound(StoreError):
    """The file or directory does not exist."""


class FileStore(ABC):
    """A file system; paths are absolute, without scheme and host."""

    renames = True  # whether a directory is renamed as a whole, so that no reader sees a part of it

    @abstractmethod
    def stat(self, path: str) -> Entry:
        """Return the entry of a path, or raise `NotThere`."""

    @abstractmethod
    def list(self, path: str) -> list[Entry]:
        """List a directory."""

    @abstractmethod
    def read(self, path: str) -> Iterator[bytes]:
        """Yield a file's contents."""

    @abstractmethod
    def write(self, path: str, source: Any, tick: Callable[[int], None]) -> None:
        """Write a new file from an open one."""

    @abstractmethod
    def mkdirs(self, path: str) -> None:
        """Create a directory and its parents."""

    def rename(self, source: str, target: str) -> None:
        """Rename to a path that does not exist; only if `renames` is true."""
        raise StoreError("%s: what is in an object store cannot be moved to %s" % (source, target))

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file, or a directory with its contents, if it exists."""

    def exists(self, path: str) -> bool:
        """Return whether a path exists."""
        try:
            self.stat(path)
        except NotFound:
            return False
        return True


class store_errors:  # noqa: N801  (used like a statement)
    """Turn every exception of the block into `StoreError`."""

    def __init__(self, path: str) -> None:
        """Keep the path for messages."""
        self.path = path

    def __enter__(self) -> None:
        """Enter the block."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        """Convert the exception, if any."""
        if not isinstance(error, Exception) or isinstance(error, (StoreError, GeneratorExit)):
            if error is not None and not isinstance(
                error, (Exception, GeneratorExit, KeyboardInterrupt, SystemExit)
            ):
                # a Rust panic is a BaseException
                raise StoreError("%s: the library gave up: %s" % (self.path, error)) from error
            return
        text = _words(error)
        kind_name = type(error).__name__
        if isinstance(error, FileNotFoundError) or any(word in text for word in MISSING):
            raise NotFound("%s: no such file or directory" % self.path) from error
        raise StoreError(
            "%s: %s" % (self.path, text),
            transient=any(word in kind_name + " " + text for word in TRANSIENT),
        ) from error


def _words(error: BaseException) -> str:
    """Return the first line of an error's message.

    hdfs-native prints Rust's `RPCError("class", "message")`, escaped.
    """
    if isinstance(error, OSError) and error.strerror and error.errno:
        return error.strerror
    text = str(error).strip() or type(error).__name__
    if text.startswith(("RPCError(", "FatalRPCError(")) and '", "' in text:
        text = text.partition('", "')[2].rstrip('")').replace('\\"', '"').replace("\\n", "\n")
    return text.partition("\n")[0][:500]


def files_below(store: FileStore, path: str) -> Iterable[Entry]:
    """List the files at or below a path, sorted by name.

    Files that Hadoop treats as hidden are left out (FileInputFormat).
    """
    found = store.stat(path)
    if not found[1]:
        return [found]
    files: list[Entry] = []
    todo = [path]
    while todo:
        for entry in store.list(todo.pop()):
            if not posixpath.basename(entry[0].rstrip("/")).startswith(("_", ".")):
                if entry[1]:
                    todo.append(entry[0])
                else:
                    files.append(entry)
    return sorted(files)
