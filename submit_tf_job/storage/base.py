"""What a storage can do, whatever stands behind it."""

from __future__ import annotations

import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from submit_tf_job.errors import SubmitTFJobError, UsageError

__all__ = ["PathExists", "RangeReader", "Space", "Stat", "Storage", "join", "name_of", "parent_of"]

PIECE = 4 * 1024 * 1024


class NoSuchPath(UsageError, FileNotFoundError):
    """There is no file or directory of that path."""


class PathExists(UsageError, FileExistsError):
    """There is a file or directory of that path already."""


@dataclass(frozen=True)
class Stat:
    """One file or directory.

    Attributes:
        path: Absolute, without scheme and host.
        size: Bytes; 0 for a directory.
        mode: Permission bits, None where the storage has none.
        modified_ms: Milliseconds since the epoch, 0 where unknown.
    """

    path: str
    size: int
    is_dir: bool
    mode: int | None = None
    owner: str = ""
    group: str = ""
    modified_ms: int = 0

    @property
    def name(self) -> str:
        """The last component of the path."""
        return name_of(self.path)


@dataclass(frozen=True)
class Space:
    """Room in bytes; None where the storage does not say."""

    total: int | None
    used: int | None
    free: int | None


class RangeReader(Protocol):
    """An open file that is read at any place."""

    @property
    def size(self) -> int:
        """Bytes, as of the opening."""

    def read_range(self, start: int, length: int) -> bytes:
        """Read at most `length` bytes from `start`; fewer only where the file ends."""


def name_of(path: str) -> str:
    """Return the last component of a path."""
    return path.rstrip("/").rpartition("/")[2]


def parent_of(path: str) -> str:
    """Return the directory that holds a path; the root is its own parent."""
    return path.rstrip("/").rpartition("/")[0] or "/"


def join(directory: str, *names: str) -> str:
    """Join path components with `/`."""
    return "/".join([directory.rstrip("/"), *names])


class Storage(ABC):
    """A place where files are kept: HDFS, an object store, this machine.

    Paths are absolute (`/user/alice/x`) or whole URIs of this very storage. Whatever goes wrong leaves as one of this package's errors
    with the path in its message: `NoSuchPath`, `PathExists`, `AuthError` (not allowed), `Refused` (no room), `ClusterUnavailable` (not
    reached).

    Attributes:
        root: Scheme and authority: `hdfs://namenode:8020`, `file://`.
    """

    def __init__(self, root: str) -> None:
        self.root = root

    # --- what each kind of storage does in its own way ---

    @abstractmethod
    def stat(self, path: str) -> Stat:
        """Look at one file or directory.

        Raises:
            NoSuchPath: There is none.
        """

    @abstractmethod
    def list_dir(self, path: str) -> list[Stat]:
        """List a directory, sorted by name.

        Raises:
            NoSuchPath: There is none.
        """

    @abstractmethod
    def open(self, path: str) -> RangeReader:
        """Open a file for reading at any place."""

    @abstractmethod
    def chmod(self, path: str, mode: int) -> None:
        """Set permission bits; nothing happens where the storage has none."""

    @abstractmethod
    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, an empty directory, or with `recursive` all beneath; what is not there is removed already."""

    @abstractmethod
    def df(self, path: str = "/") -> Space:
        """Tell the room where `path` lies."""

    @abstractmethod
    def _home(self, user: str) -> str: ...

    @abstractmethod
    def _create(self, path: str, pieces: Iterable[bytes], mode: int) -> None:
        """Write a new file of the name, whole, closed when this returns."""

    @abstractmethod
    def _rename(self, source: str, target: str, *, overwrite: bool) -> None:
        """Move atomically; raise `PathExists` where the target is there and may not be overwritten."""

    @abstractmethod
    def _mkdir(self, path: str, mode: int) -> None:
        """Make one directory whose parent is there; one that is there already is no error."""

    # --- what not all of them can ---

    can_append = False  # whether a file that was begun can be gone on with

    def append(self, path: str, pieces: Iterable[bytes]) -> None:  # noqa: ARG002 - for those that can
        """Write at the end of a file."""
        raise UsageError(f"{self.url(path)}: files cannot be gone on with there")

    def recover(self, path: str) -> None:
        """Close a file that a process left open when it died; return when that is done."""
        raise UsageError(f"{self.url(path)}: files cannot be gone on with there")

    # --- what follows from that ---

    def path(self, path: str) -> str:
        """Return the absolute path without scheme and authority.

        Raises:
            UsageError: It lies in another storage, is relative, or has a `..` in it.
        """
        plain = path
        if re.match(r"[a-zA-Z][\w+.-]*:", path):
            parts = urlsplit(path)
            authority = f"{parts.scheme}://{parts.netloc}"
            if parts.netloc and authority != self.root and not self._is_me(parts.scheme, parts.netloc):
                raise UsageError(f"{path}: is not in {self.root}", hint="Open the storage that the URI names.")
            plain = path[path.index(":") + 1 :].removeprefix("//").removeprefix(parts.netloc)
        if not plain.startswith("/") or ".." in plain.split("/"):
            raise UsageError(f"{path}: not an absolute path", hint="Write it from the root, without `..`.")
        return re.sub(r"/+", "/", plain).rstrip("/") or "/"

    def _is_me(self, scheme: str, authority: str) -> bool:  # noqa: ARG002 - for storages with several names
        return False

    def url(self, path: str) -> str:
        """Return the whole URI of a path, as YARN's containers take it (Hadoop's `Path` takes it unescaped)."""
        return self.root + self.path(path)

    def home(self, user: str) -> str:
        """Return a user's home directory, whether it is there or not.

        Raises:
            UsageError: This storage has none.
        """
        return self._home(user)

    def exists(self, path: str) -> bool:
        """Tell whether there is a file or directory of that path."""
        try:
            self.stat(path)
        except FileNotFoundError:
            return False
        return True

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Read at most `length` bytes from `start`; fewer only where the file ends."""
        return self.open(path).read_range(start, length)

    def stream(self, path: str, *, piece: int = PIECE) -> Iterator[bytes]:
        """Read a whole file, `piece` bytes at a time."""
        reader = self.open(path)
        for start in range(0, reader.size, piece):
            yield reader.read_range(start, piece)

    def read(self, path: str, *, limit: int = 64 * 1024 * 1024) -> bytes:
        """Read a whole file that is not larger than `limit` bytes.

        Raises:
            UsageError: It is larger.
        """
        reader = self.open(path)
        if reader.size > limit:
            raise UsageError(f"{self.url(path)}: {reader.size} bytes are more than the {limit} that are read at once", hint="Use stream().")
        return reader.read_range(0, reader.size)

    def write(self, path: str, content: bytes | Iterable[bytes], *, mode: int = 0o600, overwrite: bool = True) -> None:
        """Write a file atomically: under a temporary name beside it, then renamed. Nobody ever sees half of it.

        Args:
            path: Where; the directory must be there.
            content: The bytes, or pieces of them.
            mode: Permission bits of the file.
            overwrite: Whether a file of that name is replaced.

        Raises:
            PathExists: There is one and `overwrite` is False.
        """
        path = self.path(path)
        temporary = join(parent_of(path), f".{name_of(path)}.{secrets.token_hex(8)}.tmp")
        try:
            self._create(temporary, [content] if isinstance(content, bytes) else content, mode)
            self._rename(temporary, path, overwrite=overwrite)
        except BaseException:
            with suppress(SubmitTFJobError):
                self.remove(temporary)
            raise

    def create(self, path: str, pieces: Iterable[bytes], mode: int) -> None:
        """Write a new file under its own name: where that breaks off, what was written stays."""
        self._create(self.path(path), pieces, mode)

    def rename(self, source: str, target: str, *, overwrite: bool = False) -> None:
        """Move atomically.

        Raises:
            PathExists: The target is there and may not be overwritten.
        """
        self._rename(self.path(source), self.path(target), overwrite=overwrite)

    def mkdirs(self, path: str, mode: int = 0o700) -> None:
        """Make a directory and those above it that are missing, all with `mode`; what is there already stays as it is."""
        missing = []
        current = self.path(path)
        while current != "/" and not self.exists(current):
            missing.append(current)
            current = parent_of(current)
        for directory in reversed(missing):
            self._mkdir(directory, mode)
