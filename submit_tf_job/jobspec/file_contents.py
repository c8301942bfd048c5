"""Hash this host's files, and look through archives: can a container unpack them? What was found is
cached: unchanged files are not read again.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import stat
import tarfile
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from submit_tf_job.host.located.tree import clip
from submit_tf_job.jobspec.job import HostFile

PIECE = 1024 * 1024
FORGOTTEN_AFTER_S = 90 * 24 * 3600
# A file that is written to again within one tick of its file system's clock keeps its times: hashes
# of files as young as this are not cached (as in git).
YOUNG_NS = 2_000_000_000
ZIPS = (".zip", ".whl")
TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")


def sha256_of(path: Path) -> str:
    """Return the hash of a file, read in pieces.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb", buffering=0) as file:
        return _digest(file)


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while piece := file.read(PIECE):
        digest.update(piece)
    return digest.hexdigest()


@contextmanager
def opened_again(file: HostFile) -> Iterator[BinaryIO]:
    """Open a file that was hashed before.

    Raises:
        OSError: It cannot be opened, or was changed or replaced meanwhile.
    """
    with file.path.open("rb") as source:
        if file.stamp and HostFile.stamp_of(os.fstat(source.fileno())) != file.stamp:
            raise OSError(0, "it was changed meanwhile", str(file.path))
        yield source


class KnownContents:
    """What is known of the contents of the files of one job spec's directory, cached.

    Args:
        directory: The cache directory; None for no cache. A cache that cannot be read or written
            only costs time.
        base: The directory of the job spec; each has its own cache file.
    """

    def __init__(self, directory: Path | None, base: Path) -> None:
        name = f"{hashlib.sha256(os.fsencode(base.absolute())).hexdigest()[:32]}.json"
        self._file = directory / name if directory else None
        self._known: dict[str, list[object]] = {}
        self._fresh = False
        with suppress(OSError, ValueError):
            found = json.loads(self._file.read_text("utf-8")) if self._file else {}
            self._known = found if isinstance(found, dict) else {}

    def file(self, path: Path, opened: BinaryIO, found: os.stat_result) -> HostFile:
        """Return a file with its hash, from the cache if the file has not changed.

        Args:
            path: Its path.
            opened: The file, opened; it is read from here.
            found: The status of the open file.

        Raises:
            OSError: It cannot be read.
        """
        stamp, key = HostFile.stamp_of(found), os.fspath(path)
        match self._known.get(key):
            case [*old, str(sha256)] if old == [*stamp]:
                pass
            case _:
                sha256 = _digest(opened)
                if found.st_mtime_ns + YOUNG_NS < time.time_ns():
                    self._remember(key, [*stamp, sha256])
        return HostFile(path, found.st_size, sha256, stamp)

    def archive_problem(self, file: HostFile, *, links: bool = True) -> str:
        """Return why an archive cannot be unpacked in a container, "" if it can; read all of it,
        unless the same content had no problem before.

        Args:
            file: The archive.
            links: Whether links out of it are refused, too.
        """
        checked = f"archive {file.sha256} {archive_kind(file.path.name)} {links}"
        why = "" if checked in self._known else _archive_problem(file, links)
        if not why and checked not in self._known:
            self._remember(checked, [])
        return why

    def _remember(self, key: str, known: list[object]) -> None:
        self._known[key] = known
        self._fresh = True

    def save(self) -> None:
        """Write the cache."""
        if self._file is None or not self._fresh:
            return
        with suppress(OSError, ValueError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self._file.parent)
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                json.dump(self._known, out)
            Path(temporary).replace(self._file)
            for other in self._file.parent.iterdir():
                if other.stat().st_mtime < time.time() - FORGOTTEN_AFTER_S:
                    other.unlink()


# --- archives ---


def archive_kind(name: str) -> str:
    """Return "zip" or "tar" by a file's name; "" for other files."""
    lower = name.lower()
    if lower.endswith(ZIPS):
        return "zip"
    return "tar" if lower.endswith(TARS) else ""


_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError)


def _archive_problem(file: HostFile, links: bool) -> str:
    kind = archive_kind(file.path.name)
    if not kind:
        return (
            f"is not an archive that can be unpacked; its name must end in one of "
            f"{', '.join(ZIPS[:1] + TARS)}"
        )
    try:
        with opened_again(file) as source:
            return next(_in_zip(source) if kind == "zip" else _in_tar(source, links), "")
    except _DAMAGED as error:
        return f"is not a complete archive: {error}"
    except OSError as error:  # gzip and lzma raise OSErrors for damaged files, too
        return f"cannot be read as an archive: {error.strerror or error}"


def _in_zip(source: BinaryIO) -> Iterator[str]:
    with zipfile.ZipFile(source) as found:
        for info in found.infolist():
            if info.flag_bits & 0x1:
                yield f"is encrypted ({clip(info.filename)}), and a job knows no password"
            if stat.S_ISLNK(info.external_attr >> 16):
                yield (
                    f"holds the symbolic link {clip(info.filename)}, which zip files cannot be "
                    f"trusted with; use a tar"
                )
            yield from _outside(info.filename)
        bad = found.testzip()
        if bad is not None:
            yield f"is not a complete archive: {clip(bad)} is damaged"


def _in_tar(source: BinaryIO, links: bool) -> Iterator[str]:
    with tarfile.open(fileobj=source) as found:
        for member in found:
            yield from _outside(member.name)
            if member.issym():
                if not links:
                    continue
                yield from _outside(
                    posixpath.join(posixpath.dirname(member.name), member.linkname),
                    f"the link {clip(member.name)} to ",
                )
            elif member.islnk():
                yield from _outside(member.linkname, f"the link {clip(member.name)} to ")
            elif not (member.isfile() or member.isdir()):
                yield (
                    f"holds {clip(member.name)}, which is neither a file nor a directory nor a link"
                )


def _outside(name: str, what: str = "") -> Iterator[str]:
    """Yield the problem of a member outside of the directory that the archive is unpacked into."""
    if name.startswith("/") or posixpath.normpath(name).split("/")[0] == "..":
        yield (
            f"holds {what}{clip(name)}, which leads out of the directory it is unpacked into; "
            f"pack it anew without"
        )
