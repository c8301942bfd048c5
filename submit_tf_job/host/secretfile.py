"""Files that hold a secret: read only where nobody else can read them, as ssh does with private keys."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from submit_tf_job.errors import SettingsError

__all__ = ["leave_no_core", "one_secret", "read_secret", "refuse_if_others_can_change", "refuse_if_others_can_read"]

_PR_SET_DUMPABLE = 4
SECRET_MAX = 64 * 1024  # a delegation token has some 200 bytes, a JWT a few thousand


def refuse_if_others_can_read(path: Path, what: str) -> None:
    """Check the rights of a file that another program will open: a keytab for the Kerberos library, say.

    Args:
        path: The file.
        what: What it is, for the sentence: "the keytab".

    Raises:
        SettingsError: It is not there, or its group or anybody else may read or write it.

    Example:
        >>> refuse_if_others_can_read(Path("/home/alice/alice.keytab"), "the keytab")
    """
    try:
        _check(path, path.stat(), what)
    except OSError as error:
        raise _unreadable(path, what, error) from None


def refuse_if_others_can_change(path: Path, what: str) -> None:
    """Check the rights of a file that all may read and that decides what is run.

    Raises:
        SettingsError: It is not there, or its group or anybody else may write it.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise _unreadable(path, what, error) from None
    if mode & 0o022:
        raise SettingsError(f"{what} {path}: others can change it (mode {mode:04o})", hint=f"chmod go-w {path}")


def read_secret(path: Path, what: str) -> str:
    """Read a secret out of a file that nobody else can read; what is checked is what is read.

    Args:
        path: The file; one line of text, blanks and the newline around it do not count.
        what: What it is, for the sentence: "the file of credentials.file".

    Raises:
        SettingsError: Others may read or write it, it cannot be read, it is empty, or it holds what no credential does.
    """
    try:
        with path.open("rb") as file:
            _check(path, os.fstat(file.fileno()), what)
            raw = file.read(SECRET_MAX + 1)
    except OSError as error:
        raise _unreadable(path, what, error) from None
    return one_secret(raw, f"{what} {path}")


def one_secret(raw: bytes, where: str) -> str:
    """Take bytes for one secret: a line of text without control characters, which could end an HTTP header and begin another.

    Raises:
        SettingsError: It is none; the message never quotes it.
    """
    if len(raw) > SECRET_MAX:
        raise SettingsError(f"{where}: more than {SECRET_MAX // 1024} KiB is no credential")
    try:
        text = raw.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise SettingsError(f"{where}: bytes that are not text (UTF-8) are no credential") from None
    if not text:
        raise SettingsError(f"{where}: there is nothing in it")
    if not text.isprintable():
        raise SettingsError(f"{where}: more than one line, or a control character, is no credential")
    return text


def leave_no_core() -> None:
    """Keep this process's memory, in which secrets are now, out of core dumps and from other processes of the same user.

    The limit alone does not bind a kernel that pipes its dumps to a program (core(5)); where there is no prctl it is all there is.
    """
    import ctypes
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _check(path: Path, found: os.stat_result, what: str) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise SettingsError(f"{what} {path}: a directory")
    open_to_others = stat.S_IMODE(found.st_mode) & 0o077
    if open_to_others:
        doing = "read" if open_to_others & 0o044 else "change" if open_to_others & 0o022 else "run"
        raise SettingsError(
            f"{what} {path}: others can {doing} it (mode {stat.S_IMODE(found.st_mode):04o})", hint=f"make it yours alone: chmod 600 {path}"
        )


def _unreadable(path: Path, what: str, error: OSError) -> SettingsError:
    return SettingsError(f"{what} {path}: cannot be read: {error.strerror or error}")
