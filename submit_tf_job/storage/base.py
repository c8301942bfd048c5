"""The interface that every storage implements."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from submit_tf_job.errors import SubmitTFJobError, UsageError

PIECE = 4 * 1024 * 1024


class NoSuchPath(UsageError, FileNotFoundError):
    """No file or directory of that path exists."""


class PathExists(UsageError, FileExistsError):
    """A file or directory of that path already exists."""


@dataclass(frozen=True)
class Stat:
    """The metadata of one file or directory.

    Attributes:
        path: Absolute, without scheme and host.
        size: Bytes; 0 for a directory.
        mode: Permission bits, None if the storage has none.
        modified_ms: Milliseconds since the epoch, 0 if unknown.
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


class RangeReader(Protocol):
    """An open file that can be read at any offset."""

    @property
    def size(self) -> int:
        """Size in bytes when the file was opened."""

    def read_range(self, start: int, length: int) -> bytes:
        """Read up to `length` bytes from `start`; fewer only at the end of the file."""


def name_of(path: str) -> str:
    """Return the last component of a path."""
    return path.rstrip("/").rpartition("/")[2]


def parent_of(path: str) -> str:
    """Return the parent directory of a path; the root is its own parent."""
    return path.rstrip("/").rpartition("/")[0] or "/"


def join(directory: str, *names: str) -> str:
    """Join path components with `/`."""
    return "/".join([directory.rstrip("/"), *names])


class Storage(ABC):
    """A file system: HDFS, an object store, or this machine.

    Paths are absolute (`/user/alice/x`) or URIs of the same storage. All errors are this package's,
    with the path in the message: `NoSuchPath`, `PathExists`, `AuthError` (not allowed), `Refused`
    (no space), `ClusterUnavailable` (not reachable).

    Attributes:
        root: Scheme and authority: `hdfs://namenode:8020`, `file://`.
        renames: Whether a directory can be renamed, atomically.
    """

    renames = True

    def __init__(self, root: str) -> None:
        self.root = root

    # --- implemented by each kind of storage ---

    @abstractmethod
    def stat(self, path: str) -> Stat:
        """Return the metadata of a file or directory.

        Raises:
            NoSuchPath: It does not exist.
        """

    @abstractmethod
    def list_dir(self, path: str) -> list[Stat]:
        """List a directory, sorted by name.

        Raises:
            NoSuchPath: It does not exist.
        """

    @abstractmethod
    def open(self, path: str) -> RangeReader:
        """Open a file for reading at any offset."""

    @abstractmethod
    def chmod(self, path: str, mode: int) -> None:
        """Set permission bits; do nothing if the storage has none."""

    @abstractmethod
    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, an empty directory, or with `recursive` a directory with its content; do
        nothing if the path does not exist.
        """

    @abstractmethod
    def home(self, user: str) -> str:
        """Return the path of a user's home directory, which may not exist.

        Raises:
            UsageError: This storage has no home directories.
        """

    @abstractmethod
    def _create(self, path: str, pieces: Iterable[bytes], mode: int) -> None:
        """Write a new file completely, and close it."""

    @abstractmethod
    def _rename(self, source: str, target: str, *, overwrite: bool) -> None:
        """Move atomically; raise `PathExists` if the target exists and `overwrite` is False."""

    @abstractmethod
    def _mkdir(self, path: str, mode: int) -> None:
        """Create one directory in an existing parent; do nothing if it exists."""

    # --- derived from these ---

    def path(self, path: str) -> str:
        """Return the absolute path without scheme and authority.

        Raises:
            UsageError: It belongs to another storage, is relative, or contains `..`.
        """
        plain = path
        if re.match(r"[a-zA-Z][\w+.-]*:", path):
            parts = urlsplit(path)
            authority = f"{parts.scheme}://{parts.netloc}"
            if (
                parts.netloc
                and authority != self.root
                and not self._is_me(parts.scheme, parts.netloc)
            ):
                raise UsageError(
                    f"{path}: is not in {self.root}", hint="Open the storage that the URI names."
                )
            plain = path[path.index(":") + 1 :].removeprefix("//").removeprefix(parts.netloc)
        if not plain.startswith("/") or ".." in plain.split("/"):
            raise UsageError(
                f"{path}: not an absolute path", hint="Write it from the root, without `..`."
            )
        return re.sub(r"/+", "/", plain).rstrip("/") or "/"

    def _is_me(self, scheme: str, authority: str) -> bool:  # noqa: ARG002 - used in subclasses
        return False

    def url(self, path: str) -> str:
        """Return the complete URI of a path for YARN's containers; it is not escaped, because
        Hadoop's `Path` expects that.
        """
        return self.root + self.path(path)

    def look(self, path: str) -> Stat | None:
        """Return the metadata of a file or directory; None if it does not exist."""
        try:
            return self.stat(path)
        except FileNotFoundError:
            return None

    def exists(self, path: str) -> bool:
        """Return whether a file or directory of that path exists."""
        return self.look(path) is not None

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Read up to `length` bytes from `start`; fewer only at the end of the file."""
        return self.open(path).read_range(start, length)

    def stream(self, path: str, *, piece: int = PIECE) -> Iterator[bytes]:
        """Yield the content of a file, `piece` bytes at a time."""
        reader = self.open(path)
        for start in range(0, reader.size, piece):
            yield reader.read_range(start, piece)

    def read(self, path: str, *, limit: int = 64 * 1024 * 1024) -> bytes:
        """Return the content of a file of at most `limit` bytes.

        Raises:
            UsageError: It is larger.
        """
        reader = self.open(path)
        if reader.size > limit:
            raise UsageError(
                f"{self.url(path)}: {reader.size} bytes are more than the {limit} that are "
                f"read at once",
                hint="Use stream().",
            )
        return reader.read_range(0, reader.size)

    def write(
        self,
        path: str,
        content: bytes | Iterable[bytes],
        *,
        mode: int = 0o600,
        overwrite: bool = True,
    ) -> None:
        """Write a file atomically: under a temporary name in the same directory, then renamed, so
        that an incomplete file is never visible.

        Args:
            path: Path of the file; the directory must exist.
            content: The bytes, or pieces of them.
            mode: Permission bits of the file.
            overwrite: Whether to replace an existing file.

        Raises:
            PathExists: The file exists and `overwrite` is False.
        """
        path = self.path(path)
        temporary = join(parent_of(path), f".{name_of(path)}.{os.urandom(8).hex()}.tmp")
        try:
            self._create(temporary, [content] if isinstance(content, bytes) else content, mode)
            self._rename(temporary, path, overwrite=overwrite)
        except BaseException:
            with suppress(SubmitTFJobError):
                self.remove(temporary)
            raise

    def create(self, path: str, pieces: Iterable[bytes], mode: int) -> None:
        """Write a new file under its own name; after an error, an incomplete file remains."""
        self._create(self.path(path), pieces, mode)

    def rename(self, source: str, target: str) -> None:
        """Move a file, or a directory with its content, atomically.

        Raises:
            NoSuchPath: The source does not exist.
            PathExists: The target exists.
        """
        self._rename(self.path(source), self.path(target), overwrite=False)

    def now_ms(self, directory: str) -> int:
        """Return the time by the storage's clock, by creating a file in a directory.

        Raises:
            NoSuchPath: The directory does not exist.
        """
        path = join(self.path(directory), f".tfjob-clock-{os.urandom(4).hex()}")
        self.create(path, (), 0o600)
        try:
            return self.stat(path).modified_ms
        finally:
            self.remove(path)

    def mkdirs(self, path: str, mode: int = 0o700) -> None:
        """Create a directory and its missing parents, all with `mode`; existing ones are not
        changed.
        """
        missing = []
        current = self.path(path)
        while current != "/" and not self.exists(current):
            missing.append(current)
            current = parent_of(current)
        for directory in reversed(missing):
            self._mkdir(directory, mode)
