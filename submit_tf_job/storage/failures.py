"""Translate the exceptions of storage libraries into this package's errors."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from submit_tf_job.errors import (
    AuthError,
    BadAnswer,
    ClusterUnavailable,
    Refused,
    SubmitTFJobError,
    UsageError,
)
from submit_tf_job.storage.base import NoSuchPath, PathExists


class _FailureRow(NamedTuple):
    """The error of this package for a failure."""

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
        r"QuotaExceeded|quota .*is exceeded|could only be (written|replicated) to|No space left|FSLimitException",  # noqa: E501
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
    (r"IOError|DataTransferError|timed out|Connection (refused|reset)", _UNREACHABLE),
)

_ERRNO: dict[int, _FailureRow] = {
    errno.ENOENT: _MISSING,
    errno.EEXIST: _EXISTS,
    errno.EACCES: _NOT_ALLOWED,
    errno.EPERM: _NOT_ALLOWED,
    errno.ENOSPC: _NO_ROOM,
    errno.EDQUOT: _NO_ROOM,
    errno.ENOTDIR: _WRONG_PATH,
    errno.EISDIR: _WRONG_PATH,
    errno.ENOTEMPTY: _WRONG_PATH,
    errno.EROFS: _NOT_ALLOWED,
}

_KINDS: tuple[tuple[type[BaseException], _FailureRow], ...] = (
    (FileNotFoundError, _MISSING),
    (FileExistsError, _EXISTS),
    (PermissionError, _NOT_ALLOWED),
    (IsADirectoryError, _WRONG_PATH),
    (NotADirectoryError, _WRONG_PATH),
)


def failure(error: BaseException, where: str) -> SubmitTFJobError:
    """Convert any exception of a storage library to an error of this package.

    Args:
        error: The library's exception.
        where: The URI of the operation; the message starts with it.
    """
    words = _hadoop_words(error)
    for kind, meaning in _KINDS:
        if isinstance(error, kind):
            return meaning.kind(f"{where}: {_plain(kind, words)}", hint=meaning.hint)
    known = (
        made for pattern, made in _WORDS if re.search(pattern, f"{type(error).__name__} {words}")
    )
    otherwise = _FailureRow(BadAnswer)
    if isinstance(error, OSError):
        otherwise = _ERRNO.get(error.errno or 0, _UNREACHABLE)
    meaning = next(known, otherwise)
    return meaning.kind(f"{where}: {words}", hint=meaning.hint)


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
