"""Read files that a user names: up to a limit, and without waiting for a FIFO. Files with secrets
are read only if other users cannot read them, the rule that ssh has for keys.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from submit_tf_job.errors import SettingsError

LARGEST = 64 * 1024 * 1024
# A shell's <(command) is a pipe of this process whose other end is open.
_OWN_DESCRIPTORS = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")


@contextmanager
def open_input(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading. Refuse directories, devices and named FIFOs; allow /dev/null and a
    shell's `<(command)`.

    Raises:
        OSError: The file cannot be opened, or is refused; `strerror` has the reason.
        ValueError: The path contains a NUL.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        refuse_special(path, os.fstat(descriptor))
        os.set_blocking(descriptor, True)
    except OSError:
        os.close(descriptor)
        raise
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor has no path
        yield file


def read_input(path: Path, limit: int = LARGEST) -> bytes:
    """Return at most the first `limit` bytes of a file; see `open_input`.

    Raises:
        OSError: The file cannot be read.
        ValueError: The path contains a NUL.
    """
    with open_input(path) as file:
        return file.read(limit)


def refuse_special(path: Path, found: os.stat_result) -> None:
    """Raise OSError for a directory, a device, a socket or a named FIFO.

    Args:
        path: The path.
        found: The file's status.
    """
    mode = found.st_mode
    own = str(path).startswith(_OWN_DESCRIPTORS)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(0, "is a directory; name a file in it", str(path))
    if stat.S_ISFIFO(mode) and not own:
        raise OSError(0, "is a FIFO, and a file is needed", str(path))
    if (
        stat.S_ISBLK(mode)
        or stat.S_ISSOCK(mode)
        or (stat.S_ISCHR(mode) and not own and found.st_rdev != Path(os.devnull).stat().st_rdev)
    ):
        raise OSError(0, "is a device or a socket, and a file is needed", str(path))


def is_file(path: Path) -> bool:
    """Return whether a path is a regular file; False also for a path that the system refuses."""
    try:
        return path.is_file()
    except OSError:  # such as a word of over 255 letters, which no file can have as its name
        return False


def is_directory(path: Path) -> bool:
    """Return whether a path is a directory; False also for a path that the system refuses."""
    try:
        return path.is_dir()
    except OSError:
        return False


def reason(error: Exception) -> str:
    """Return the reason why a file could not be read, without the path."""
    text = str(getattr(error, "strerror", None) or error)
    return f"{text[:1].lower()}{text[1:]}"


def named_reason(error: OSError) -> str:
    """Return the reason of an error, after the path that it is about, if it has one."""
    return f"{error.filename}: {reason(error)}" if error.filename else reason(error)


# --- files with secrets ---

_PR_SET_DUMPABLE = 4
SECRET_MAX = 64 * 1024  # a delegation token has some 200 bytes, a JWT a few thousand


def refuse_if_others_can_read(path: Path, what: str) -> None:
    """Check that group and others can neither read, write nor execute a file, such as a keytab.

    Args:
        path: The file.
        what: The file's name in the message: "the keytab".

    Raises:
        SettingsError: The file cannot be read, or its group or others may read, write or execute
            it.

    Example:
        >>> refuse_if_others_can_read(Path("/home/alice/alice.keytab"), "the keytab")
    """
    try:
        found = path.stat()
        refuse_special(path, found)
        _refuse_open_mode(path, found, what)
    except OSError as error:
        raise _unreadable_error(path, what, error) from None


def refuse_if_others_can_change(path: Path, what: str) -> None:
    """Check that group and others cannot write a file; they may read it.

    Raises:
        SettingsError: The file does not exist, or its group or others may write it.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise _unreadable_error(path, what, error) from None
    if mode & 0o022:
        raise SettingsError(
            f"{what} {path}: others can change it (mode {mode:04o})", hint=f"chmod go-w {path}"
        )


def read_secret(path: Path, what: str) -> str:
    """Return the secret in a file, which no other user may be able to read.

    The permissions are checked on the opened file, so the file cannot be replaced between the check
    and the read.

    Args:
        path: The file: one line of text; blanks around it are removed.
        what: The file's name in the message: "the file of credentials.file".

    Raises:
        SettingsError: Other users may read, write or execute the file; or it cannot be read, is
            empty, or does not contain a credential.
    """
    try:
        with open_input(path) as file:
            _refuse_open_mode(path, os.fstat(file.fileno()), what)
            raw = file.read(SECRET_MAX + 1)
    except OSError as error:
        raise _unreadable_error(path, what, error) from None
    return one_secret(raw, f"{what} {path}")


def one_secret(raw: bytes, where: str) -> str:
    """Decode one secret. It must be one line of text without control characters: these could end an
    HTTP header and begin another one.

    Raises:
        SettingsError: The content is not such a line; the message never quotes it.
    """
    if len(raw) > SECRET_MAX:
        raise SettingsError(f"{where}: more than {SECRET_MAX // 1024} KiB is not a credential")
    try:
        text = raw.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise SettingsError(
            f"{where}: bytes that are not text (UTF-8) are not a credential"
        ) from None
    if not text:
        raise SettingsError(f"{where}: it is empty")
    if not text.isprintable():
        raise SettingsError(
            f"{where}: more than one line, or a control character, is not a credential"
        )
    return text


def leave_no_core() -> None:
    """Protect the memory of this process, which contains secrets, from core dumps and from other
    processes of the same user.

    A kernel that pipes core dumps to a program ignores the limit for their size (core(5)), so prctl
    is used, too, if it exists.
    """
    import ctypes
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _refuse_open_mode(path: Path, found: os.stat_result, what: str) -> None:
    mode = stat.S_IMODE(found.st_mode)
    for doing, bits in (("read", 0o044), ("change", 0o022), ("run", 0o011)):
        if mode & bits:
            raise SettingsError(
                f"{what} {path}: others can {doing} it (mode {mode:04o})",
                hint=f"chmod 600 {path}",
            )


def _unreadable_error(path: Path, what: str, error: OSError) -> SettingsError:
    return SettingsError(f"{what} {path}: cannot be read: {reason(error)}")
