"""Read the files that a job spec ships, on the submitting host, at load time."""

from __future__ import annotations

import posixpath
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from submit_tf_job.job import ShippedFile
from submit_tf_job.specfile.nodes import clip
from submit_tf_job.specfile.values import Value
from submit_tf_job.specfile.vocabulary import SHIPPED

__all__ = ["HADOOP_FILES", "MAX_BYTES", "MAX_FILES", "MAX_LEVELS", "Host", "Shipper"]

MAX_BYTES = 64 * 1024 * 1024
MAX_FILES = 5_000
MAX_LEVELS = 50
HADOOP_FILES = ("core-site.xml", "hdfs-site.xml", "yarn-site.xml")
_LONGEST_NAME = 1024
_SKIPPED = frozenset(("__pycache__", ".git"))
_EXPECTED = "a path, or {src: path, dst: name}"


@dataclass(frozen=True)
class Host:
    """What a job spec may find on this host.

    Attributes:
        base: The directory that relative paths start from; None where no file of this host may be read (a gateway's callers).
        hadoop_conf: The Hadoop configuration directory, for `hadoop.conf: inline`.
        krb5_conf: The files that are krb5.conf here, in the order of their weight.
    """

    base: Path | None = None
    hadoop_conf: Path | None = None
    krb5_conf: tuple[Path, ...] = ()


class _CannotShip(Exception):
    """Why a file cannot travel, as the end of a message."""


class Shipper:
    """Reads each file once, and keeps what travels in bounds.

    Args:
        base: The directory that relative paths start from; None where no file of this host may be read (a gateway's callers).
    """

    def __init__(self, base: Path | None) -> None:
        self._base = base
        self._read: dict[Path, bytes] = {}
        self._bytes = 0

    def ship(self, value: Value) -> list[ShippedFile] | None:
        """Read what one entry of `files` names: a file, or all files under a directory."""
        asked = self._asked(value)
        if asked is None:
            return None
        src, dst = asked
        if self._base is None:
            return value.fail("files of this host are not read here; put them on HDFS or into the image")
        try:
            return list(self._files(src, self._base / src, dst))
        except _CannotShip as error:
            return value.fail(f"{clip(src)}: {error}")

    def _asked(self, value: Value) -> tuple[str, str] | None:
        """Return the path on this host and the name in the task's working directory ("." for a directory's content itself)."""
        if not value.is_mapping:
            src = value.text(expected=_EXPECTED)
            if src is None or not _is_path(value, src):
                return None
            inside = posixpath.normpath(src)
            return src, posixpath.basename(inside) if inside.startswith(("/", "..")) else inside
        section = value.section(SHIPPED, _EXPECTED)
        if section is None:
            return None
        at = section.required(
            "src", lambda item: item.text(expected="a path"), "say which file, as in {src: conf/prod.yaml, dst: conf.yaml}"
        )
        name = section.required(
            "dst", _destination, "say the file's name in the task's working directory; without one, write the path alone"
        )
        if at is None or name is None or not _is_path(value, at):
            return None
        return at, name

    def _files(self, shown: str, path: Path, name: str) -> Iterator[ShippedFile]:
        try:
            if path.is_dir():
                found = list(self._directory(path, path.resolve(), "" if name == "." else name + "/", ()))
                if not found:
                    raise _CannotShip("the directory holds no file")
                yield from found
            else:
                if name in (".", ""):
                    raise _CannotShip("only a directory can have the name '.'; give the file a name")
                yield self._file(path, name)
        except FileNotFoundError:
            raise _CannotShip(_not_found(shown, path)) from None
        except OSError as error:
            raise _CannotShip(f"cannot be read: {error.strerror or error}") from None
        except (ValueError, RuntimeError) as error:  # a NUL in the path; a loop of symbolic links on Python before 3.13
            raise _CannotShip(f"cannot be read: {error}") from None

    def _directory(self, path: Path, root: Path, prefix: str, above: tuple[Path, ...]) -> Iterator[ShippedFile]:
        here = path.resolve()
        if here in above:
            raise _CannotShip(f"the symbolic link {clip(prefix.rstrip('/'))} leads back to a directory above it; take it out")
        if len(above) == MAX_LEVELS:
            raise _CannotShip(f"its directories are nested more than {MAX_LEVELS} levels deep; pack them into one archive")
        for child in sorted(path.iterdir()):
            if child.name in _SKIPPED:
                continue
            if child.is_symlink() and not child.resolve().is_relative_to(root):
                raise _CannotShip(
                    f"the symbolic link {clip(prefix + child.name)} leads out of the directory; copy the file in, or list it by itself"
                )
            if child.is_dir():
                yield from self._directory(child, root, f"{prefix}{child.name}/", (*above, here))
            else:
                yield self._file(child, prefix + child.name)

    def _file(self, path: Path, name: str) -> ShippedFile:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise _CannotShip(f"{clip(path.name)} is neither a file nor a directory")
        if not name.isprintable():
            raise _CannotShip(f"the file name {clip(name)} holds characters that cannot travel; rename it")
        resolved = path.resolve()
        if resolved not in self._read:
            self._reserve(status.st_size)
            self._read[resolved] = path.read_bytes()
        return ShippedFile(name, self._read[resolved], bool(status.st_mode & stat.S_IXUSR))

    def _reserve(self, size: int) -> None:
        self._bytes += size
        if self._bytes > MAX_BYTES:
            raise _CannotShip(
                f"with it the files come to more than {MAX_BYTES // 1024**2} MiB; put large ones on HDFS and read them from there"
            )
        if len(self._read) >= MAX_FILES:
            raise _CannotShip(f"with it there are more than {MAX_FILES} files; pack them into one archive, or put them on HDFS")


def _is_path(value: Value, src: str) -> bool:
    if "://" in src:
        value.fail(f"{clip(src)} is no file of this host; read it from the program, or download it first")
        return False
    return True


def _destination(value: Value) -> str | None:
    name = value.text(expected="a relative path")
    if name is None:
        return None
    clean = posixpath.normpath(name)
    if clean.startswith(("/", "..")) or not name.isprintable() or len(name) > _LONGEST_NAME:
        return value.fail(f"{clip(name)} does not lie in the task's working directory; write a short relative path without '..'")
    return clean


def _not_found(shown: str, path: Path) -> str:
    if shown.startswith("~"):
        return "no such file; '~' is not expanded here, write the path out"
    if any(char in shown for char in "*?["):
        return "no such file; patterns are not expanded, name the directory or each file"
    return (
        f"no such file or directory ({path if str(path).isprintable() else clip(str(path))}); paths start from the job spec's own directory"
    )
