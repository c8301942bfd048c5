"""Translate the exceptions of storage libraries into this package's errors."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from submit_tf_job.errors import (
    AuthError,
    BadAnswer,
    ClusterUnavailable,
    Refused,
    SubmitTFJobError,
    UsageError,
)
from submit_tf_job.storage.base import NoSuchPath, PathExists

__all__ = ["failure", "translated"]

Make = Callable[[str], SubmitTFJobError]


def _not_allowed(message: str) -> SubmitTFJobError:
    return AuthError(message, hint="Ask the owner for access, or name another user or path.")


def _not_authenticated(message: str) -> SubmitTFJobError:
    return AuthError(
        message,
        hint="Get a ticket (kinit), or check that the Hadoop configuration is this cluster's.",
    )


def _no_room(message: str) -> SubmitTFJobError:
    return Refused(
        message,
        hint="Free room (`hdfs dfs -rm -skipTrash`), or ask for a larger quota or more DataNodes.",
    )


def _later(message: str) -> SubmitTFJobError:
    return ClusterUnavailable(
        message,
        hint="Wait until the NameNode serves again; `hdfs dfsadmin -safemode get` and `hdfs "
        "haadmin` tell.",
    )


def _wrong_path(message: str) -> SubmitTFJobError:
    return UsageError(message, hint="Name another path.")


def _missing(message: str) -> SubmitTFJobError:
    return NoSuchPath(message, hint="Check the path, and that the storage is the right one.")


def _encrypted(message: str) -> SubmitTFJobError:
    return Refused(
        message, hint="Without Java, files of an encryption zone go through webhdfs:// only."
    )


# Meanings of Hadoop's messages. The patterns contain the names of Hadoop's exception classes, and
# their messages too, since WebHDFS returns only the message.
_WORDS: tuple[tuple[str, Make], ...] = (
    (r"AccessControlException|AuthorizationException|Permission denied", _not_allowed),
    (
        r"GSSAPIError|SASLError|NoSASLMechanism|InvalidToken|SaslException|AuthenticationException",
        _not_authenticated,
    ),
    (
        r"QuotaExceeded|quota .*is exceeded|could only be (written|replicated) to|No space left|FSLimitException",  # noqa: E501
        _no_room,
    ),
    (r"SafeMode|[Ss]afe mode|StandbyException|state standby|RetriableException", _later),
    (r"FileAlreadyExists|AlreadyBeingCreated|already exists", PathExists),
    (r"FileNotFoundException|File does not exist|FileNotFound\(|BlocksNotFound", _missing),
    (
        r"PathIsNotEmptyDirectory|is non empty|NotDirectory|not a directory|InvalidPath|is a directory",  # noqa: E501
        _wrong_path,
    ),
    (r"File encryption", _encrypted),
    (r"IOError|DataTransferError|timed out|Connection (refused|reset)", ClusterUnavailable),
)

_ERRNO: dict[int, Make] = {
    errno.ENOENT: _missing,
    errno.EEXIST: PathExists,
    errno.EACCES: _not_allowed,
    errno.EPERM: _not_allowed,
    errno.ENOSPC: _no_room,
    errno.EDQUOT: _no_room,
    errno.ENOTDIR: _wrong_path,
    errno.EISDIR: _wrong_path,
    errno.ENOTEMPTY: _wrong_path,
    errno.EROFS: _not_allowed,
}

_KINDS: tuple[tuple[type[BaseException], Make], ...] = (
    (FileNotFoundError, _missing),
    (FileExistsError, PathExists),
    (PermissionError, _not_allowed),
    (IsADirectoryError, _wrong_path),
    (NotADirectoryError, _wrong_path),
)


def failure(error: BaseException, where: str) -> SubmitTFJobError:
    """Convert any exception of a storage library to an error of this package.

    Args:
        error: The library's exception.
        where: The URI of the operation; the message starts with it.
    """
    words = _hadoop_words(error)
    for kind, make in _KINDS:
        if isinstance(error, kind):
            return make(f"{where}: {_plain(kind, words)}")
    for pattern, make in _WORDS:
        if re.search(pattern, f"{type(error).__name__} {words}"):
            return make(f"{where}: {words}")
    if isinstance(error, OSError):
        return _ERRNO.get(error.errno or 0, ClusterUnavailable)(f"{where}: {words}")
    return BadAnswer(f"{where}: {words}")


def _plain(kind: type[BaseException], words: str) -> str:
    if kind is FileNotFoundError:
        return "no such file or directory"
    if kind is FileExistsError:
        return "is there already"
    return words


def _hadoop_words(error: BaseException) -> str:
    """Return the first line of an error message; hdfs-native returns Rust's debug format,
    `RPCError("class", "message")`, escaped.
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
    """Convert any exception of the block to an error of this package."""
    try:
        yield
    except SubmitTFJobError:
        raise
    except Exception as error:  # the libraries raise RuntimeError, ValueError and OSError
        raise failure(error, where) from error
