"""What a file system is to a task, whatever it is reached by: a few calls, and one kind of failure."""

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
PASSING = ("IOError", "timed out", "Connection ", "SafeMode", "safe mode", "StandbyException", "RetriableException", "could only be")


class StoreError(Exception):
    """Why something could not be read or written; `passing` where another attempt may mend it."""

    def __init__(self, why: str, *, passing: bool = False) -> None:
        """Keep one sentence."""
        super().__init__(why)
        self.passing = passing


class NotThere(StoreError):
    """There is no such file or directory."""


class Store(ABC):
    """A file system; paths are absolute, without scheme and host."""

    renames = True  # a directory moves as a whole, so that nobody sees half of it

    @abstractmethod
    def stat(self, path: str) -> Entry:
        """Look at a path, or raise `NotThere`."""

    @abstractmethod
    def list(self, path: str) -> list[Entry]:
        """List a directory."""

    @abstractmethod
    def read(self, path: str) -> Iterator[bytes]:
        """Read a whole file."""

    @abstractmethod
    def write(self, path: str, source: Any, tick: Callable[[int], None]) -> None:
        """Write a new file from an open one."""

    @abstractmethod
    def mkdirs(self, path: str) -> None:
        """Make a directory and those above it."""

    def rename(self, source: str, target: str) -> None:
        """Move, where the target is not there; only where `renames` is true."""
        raise StoreError("%s: what is in an object store cannot be moved to %s" % (source, target))

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file, or a directory with all beneath; what is not there is removed already."""

    def exists(self, path: str) -> bool:
        """Say whether there is something at a path."""
        try:
            self.stat(path)
        except NotThere:
            return False
        return True


class translated:  # noqa: N801  (it reads as the statement that it is)
    """Let nothing but `StoreError` out of the block."""

    def __init__(self, path: str) -> None:
        """Remember what it is about."""
        self.path = path

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Turn whatever was raised."""
        if not isinstance(error, Exception) or isinstance(error, (StoreError, GeneratorExit)):
            if error is not None and not isinstance(error, (Exception, GeneratorExit, KeyboardInterrupt, SystemExit)):
                raise StoreError("%s: the library gave up: %s" % (self.path, error)) from error  # a Rust panic is a BaseException
            return
        text = _words(error)
        kind_name = type(error).__name__
        if isinstance(error, FileNotFoundError) or any(word in text for word in MISSING):
            raise NotThere("%s: no such file or directory" % self.path) from error
        raise StoreError("%s: %s" % (self.path, text), passing=any(word in kind_name + " " + text for word in PASSING)) from error


def _words(error: BaseException) -> str:
    """Return the first line of what went wrong; hdfs-native prints Rust's `RPCError("class", "message")`, escaped."""
    if isinstance(error, OSError) and error.strerror and error.errno:
        return error.strerror
    text = str(error).strip()
    if text.startswith(("RPCError(", "FatalRPCError(")) and '", "' in text:
        text = text.partition('", "')[2].rstrip('")').replace('\\"', '"').replace("\\n", "\n")
    return text.splitlines()[0][:500] if text else type(error).__name__


def files_below(store: Store, path: str) -> Iterable[Entry]:
    """List the files at or below a path, sorted by name, without those that Hadoop takes for hidden (FileInputFormat)."""
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
