"""The interface that every storage implements, and the errors into which the exceptions of
libraries are converted.
"""

from __future__ import annotations

import errno
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from submit_tf_job.errors import (
    AuthError,
    BadAnswer,
    ClusterUnavailable,
    Refused,
    SubmitTFJobError,
    UnknownHost,
    UsageError,
)

PIECE = 4 * 1024 * 1024


class NoSuchPath(UsageError, FileNotFoundError):
    """No file or directory with that path exists."""


class PathExists(UsageError, FileExistsError):
    """A file or directory with that path already exists."""


@dataclass(frozen=True)
class Stat:
    """The metadata of one file or directory.

    Attributes:
        path: The absolute path, without scheme and host.
        size: Bytes; 0 for a directory.
        mode: Permission bits; None if the storage has none.
        modified_ms: Milliseconds since 1970; 0 if unknown.
    """

    path: str
    size: int
    is_dir: bool
    mode: int | None = None
    owner: str = ""
    modified_ms: int = 0

    @property
    def name(self) -> str:
        """The last component of the path."""
        return name_of(self.path)


@dataclass(frozen=True)
class RangeReader:
    """An open file that can be read at any offset.

    Attributes:
        url: The file's URI, for messages.
        size: Size in bytes when the file was opened.
        read: Reads a number of bytes from an offset; the file must have that many bytes.
    """

    url: str
    size: int
    read: Callable[[int, int], bytes] = field(repr=False)

    def read_range(self, start: int, length: int) -> bytes:
        """Read up to `length` bytes from `start`; fewer only at the end of the file."""
        length = min(length, self.size - start)
        if length <= 0:
            return b""
        with translated(self.url):
            return self.read(start, length)


def uri_parts(uri: str) -> SplitResult:
    """Return the parts of a URI.

    Raises:
        UsageError: Its host has brackets that are not those around an IPv6 address.
    """
    try:
        return urlsplit(uri)
    except ValueError:
        raise UsageError(
            f"{uri}: not a valid URI", hint="Write brackets only around an IPv6 address."
        ) from None


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
    (no space), `UsageError` (a path that is not valid, or of another kind than the operation needs:
    a file, a directory with content), `ClusterUnavailable` (not reachable), `BadAnswer` (any other
    error of a library).

    Attributes:
        root: Scheme and authority: `hdfs://namenode:8020`, `file://`.
        renames: Whether a directory can be renamed, atomically.
    """

    renames = True

    def __init__(self, root: str) -> None:
        self.root = root

    # --- implemented by each kind of storage: absolute paths; any exception is translated ---

    @abstractmethod
    def _stat_path(self, path: str) -> Stat: ...

    @abstractmethod
    def _list_directory(self, path: str) -> list[Stat]:
        """List a directory, in any order."""

    def _open_file(self, path: str) -> tuple[int, Callable[[int, int], bytes]]:
        """Return a file's size, and a function that reads a number of bytes from an offset."""
        found = self._stat_path(path)
        if found.is_dir:
            raise IsADirectoryError("is a directory")
        return found.size, partial(self._read_range, path)

    def _read_range(self, path: str, start: int, length: int) -> bytes:
        raise NotImplementedError

    @abstractmethod
    def _set_mode(self, path: str, mode: int) -> None: ...

    @abstractmethod
    def _remove_path(self, path: str, *, recursive: bool) -> None: ...

    @abstractmethod
    def _create_file(self, path: str, pieces: Iterable[bytes], mode: int) -> None:
        """Write a new file completely, and close it."""

    @abstractmethod
    def _rename_path(self, source: str, target: str, *, overwrite: bool) -> None:
        """Move a path atomically. If the target exists, raise `FileExistsError`, unless
        `overwrite`.
        """

    @abstractmethod
    def _make_directory(self, path: str, mode: int) -> None:
        """Create one directory, whose parent must exist; do nothing if the directory exists."""

    @abstractmethod
    def home(self, user: str) -> str:
        """Return the path of a user's home directory; the directory need not exist.

        Raises:
            UsageError: This storage has no home directories.
        """

    # --- derived from these ---

    def stat(self, path: str) -> Stat:
        """Return the metadata of a file or directory.

        Raises:
            NoSuchPath: The path does not exist.
        """
        path = self.path(path)
        with translated(self.root + path):
            return self._stat_path(path)

    def list_dir(self, path: str) -> list[Stat]:
        """List a directory, sorted by name.

        Raises:
            NoSuchPath: The directory does not exist.
            UsageError: The path is a file.
        """
        path = self.path(path)
        with translated(self.root + path):
            return sorted(self._list_directory(path), key=lambda item: item.path)

    def open(self, path: str) -> RangeReader:
        """Open a file for reading at any offset.

        Raises:
            NoSuchPath: The file does not exist.
            UsageError: The path is a directory.
        """
        path = self.path(path)
        with translated(self.root + path):
            size, read = self._open_file(path)
        return RangeReader(self.root + path, size, read)

    def chmod(self, path: str, mode: int) -> None:
        """Set permission bits; do nothing if the storage has none."""
        path = self.path(path)
        with translated(self.root + path):
            self._set_mode(path, mode)

    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, an empty directory, or with `recursive` a directory with its content; do
        nothing if the path does not exist.

        Raises:
            UsageError: The directory has content, and `recursive` is False.
        """
        path = self.path(path)
        with translated(self.root + path):
            self._remove_path(path, recursive=recursive)

    def path(self, path: str) -> str:
        """Return the absolute path without scheme and authority.

        Raises:
            UsageError: The path belongs to another storage, is relative, or contains `..`.
        """
        plain = path
        if re.match(r"[a-zA-Z][\w+.-]*:", path):
            parts = uri_parts(path)
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
        """Return the complete URI of a path, for YARN's containers. The URI is not escaped, because
        Hadoop's `Path` expects an unescaped one.
        """
        return self.root + self.path(path)

    def stat_or_none(self, path: str) -> Stat | None:
        """Return the metadata of a file or directory; None if the path does not exist."""
        try:
            return self.stat(path)
        except FileNotFoundError:
            return None

    def exists(self, path: str) -> bool:
        """Return whether a file or directory with that path exists."""
        return self.stat_or_none(path) is not None

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
            UsageError: The file is larger.
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
        """Write a file atomically. It is written under a temporary name in the same directory, and
        then renamed, so that an incomplete file is never visible.

        Args:
            path: Path of the file; its directory must exist.
            content: The bytes, or pieces of them.
            mode: Permission bits of the file.
            overwrite: Whether to replace an existing file.

        Raises:
            NoSuchPath: The directory of the file does not exist.
            PathExists: The file exists and `overwrite` is False.
        """
        path = self.path(path)
        temporary = join(parent_of(path), f".{name_of(path)}.{os.urandom(8).hex()}.tmp")
        try:
            self.create(temporary, [content] if isinstance(content, bytes) else content, mode)
            with translated(self.root + path):
                self._rename_path(temporary, path, overwrite=overwrite)
        except BaseException:
            with suppress(SubmitTFJobError):
                self.remove(temporary)
            raise

    def create(self, path: str, pieces: Iterable[bytes], mode: int) -> None:
        """Write a new file directly under its name; after an error, an incomplete file remains."""
        path = self.path(path)
        with translated(self.root + path):
            self._create_file(path, pieces, mode)

    def rename(self, source: str, target: str) -> None:
        """Move a file, or a directory with its content; atomically, if the storage `renames`.

        Raises:
            NoSuchPath: The source does not exist.
            PathExists: The target exists.
        """
        source, target = self.path(source), self.path(target)
        with translated(self.root + target):
            self._rename_path(source, target, overwrite=False)

    def walk(self, item: Stat) -> Iterator[Stat]:
        """Yield a file or directory, and all that is below it; what is removed meanwhile is left
        out.
        """
        yield item
        if item.is_dir:
            with suppress(NoSuchPath):  # removed by another client
                for child in self.list_dir(item.path):
                    yield from self.walk(child)

    def last_change_ms(self, item: Stat) -> int:
        """Return when a file was changed, or a directory or anything below it, in milliseconds
        since 1970.
        """
        return max(below.modified_ms for below in self.walk(item))

    def now_ms(self, directory: str) -> int:
        """Return the time by the storage's clock, in milliseconds since 1970; 0 if the storage does
        not report it. To learn it, a file is created in the directory, and removed.

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
        """Create a directory and its missing parents, all with the mode `mode`; directories that
        exist are not changed.
        """
        missing = []
        current = self.path(path)
        while current != "/" and not self.exists(current):
            missing.append(current)
            current = parent_of(current)
        for directory in reversed(missing):
            with translated(self.root + directory):
                self._make_directory(directory, mode)


# --- errors ---------------------------------------------------------------------------------------


class _FailureRow(NamedTuple):
    """The class of this package's error for one kind of failure, and its hint."""

    kind: type[SubmitTFJobError]
    hint: str = ""


_NOT_ALLOWED = _FailureRow(AuthError, "Ask the owner for access, or name another user or path.")
_NOT_AUTHENTICATED = _FailureRow(
    AuthError,
    "Get a ticket (kinit), or check that the Hadoop configuration is this cluster's.",
)
_NO_ROOM = _FailureRow(
    Refused,
    "Free room (`hdfs dfs -rm -skipTrash`), or ask for a larger quota or more DataNodes.",
)
_LATER = _FailureRow(
    ClusterUnavailable,
    "Wait until the NameNode serves again; `hdfs dfsadmin -safemode get` and `hdfs haadmin` tell.",
)
_WRONG_PATH = _FailureRow(UsageError, "Name another path.")
_MISSING = _FailureRow(NoSuchPath, "Check the path, and that the storage is the right one.")
_EXISTS = _FailureRow(PathExists)
_UNREACHABLE = _FailureRow(ClusterUnavailable)
_NO_SUCH_HOST = _FailureRow(UnknownHost)
_ENCRYPTED = _FailureRow(
    Refused, "Without Java, files of an encryption zone go through webhdfs:// only."
)

# Meanings of Hadoop's messages. The patterns contain the names of Hadoop's exception classes, and
# their messages too, since WebHDFS returns only the message.
_WORDS: tuple[tuple[str, _FailureRow], ...] = (
    (r"AccessControlException|AuthorizationException|Permission denied", _NOT_ALLOWED),
    (
        r"GSSAPIError|SASLError|NoSASLMechanism|InvalidToken|SaslException|AuthenticationException",
        _NOT_AUTHENTICATED,
    ),
    (
        r"QuotaExceeded|quota .{0,400}is exceeded|could only be (written|replicated) to|No space left|FSLimitException",  # noqa: E501
        _NO_ROOM,
    ),
    (r"SafeMode|[Ss]afe mode|StandbyException|state standby|RetriableException", _LATER),
    (r"FileAlreadyExists|AlreadyBeingCreated|already exists", _EXISTS),
    (r"FileNotFoundException|File does not exist|FileNotFound\(|BlocksNotFound", _MISSING),
    (
        r"PathIsNotEmptyDirectory|is non empty|NotDirectory|not a directory|InvalidPath|is a directory",  # noqa: E501
        _WRONG_PATH,
    ),
    (r"File encryption", _ENCRYPTED),
    (r"Name or service not known|No address associated with hostname", _NO_SUCH_HOST),
    (r"IOError|DataTransferError|timed out|Connection (refused|reset)", _UNREACHABLE),
)

_KINDS: tuple[tuple[type[BaseException], _FailureRow], ...] = (
    (FileNotFoundError, _MISSING),
    (FileExistsError, _EXISTS),
    (PermissionError, _NOT_ALLOWED),
    (IsADirectoryError, _WRONG_PATH),
    (NotADirectoryError, _WRONG_PATH),
)
_ERRNO: dict[int, _FailureRow] = {  # those for which Python has no class
    errno.ENOSPC: _NO_ROOM,
    errno.EDQUOT: _NO_ROOM,
    errno.ENOTEMPTY: _WRONG_PATH,
    errno.EROFS: _NOT_ALLOWED,
}


def failure(error: BaseException, where: str) -> SubmitTFJobError:
    """Return the error of this package for any exception of a storage library.

    Args:
        error: The library's exception.
        where: The URI of the operation; the message starts with it.
    """
    words = _hadoop_words(error)
    meaning = _row_of_error(error, words)
    if meaning is _EXISTS:
        words = "is there already"
    elif isinstance(error, FileNotFoundError):
        words = "no such file or directory"
    return meaning.kind(f"{where}: {words}", hint=meaning.hint)


def _row_of_error(error: BaseException, words: str) -> _FailureRow:
    named = f"{type(error).__name__} {words}"
    known = [row for kind, row in _KINDS if isinstance(error, kind)]
    known += [row for pattern, row in _WORDS if re.search(pattern, named)]
    if known:
        return known[0]
    if isinstance(error, OSError):
        return _ERRNO.get(error.errno or 0, _UNREACHABLE)
    return _FailureRow(BadAnswer)


def _hadoop_words(error: BaseException) -> str:
    """Return the first line of an error message. hdfs-native gives the message in Rust's debug
    format, `RPCError("class", "message")`, with escapes.
    """
    text = str(error)
    found = re.fullmatch(r'(?:Fatal)?RPCError\("([^"]*)", "(.*)"\)', text, re.DOTALL)
    if found:
        message = found[2].replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\")
        return f"{found[1].rpartition('.')[2]}: {_first_line(message)}"
    if isinstance(error, OSError) and error.strerror and error.errno:
        return error.strerror
    return _first_line(text) or type(error).__name__


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "")


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Convert any exception in the block to an error of this package, whose message begins with
    `where`, the URI of the operation.
    """
    try:
        yield
    except SubmitTFJobError:
        raise
    except Exception as error:  # the libraries raise RuntimeError, ValueError and OSError
        raise failure(error, where) from error
