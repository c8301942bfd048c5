"""Hash this host's files, and remember which archives a container can unpack, so that unchanged
files are not read again.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from submit_tf_job.jobspec.job import HostFile
from submit_tf_job.jobspec.reading_budget import ReadingBudget

PIECE = 1024 * 1024
FORGOTTEN_AFTER_S = 90 * 24 * 3600
# A file that is written to again within one tick of its file system's clock keeps its times: hashes
# of files as young as this are not cached (as in git).
YOUNG_NS = 2_000_000_000


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits; the file is read in pieces.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb", buffering=0) as file:
        return _hash_of_file(file)


def _hash_of_file(file: BinaryIO, budget: ReadingBudget | None = None) -> str:
    digest = hashlib.sha256()
    while piece := file.read(PIECE):
        if budget:
            budget.check()
        digest.update(piece)
    return digest.hexdigest()


@contextmanager
def opened_again(file: HostFile) -> Iterator[BinaryIO]:
    """Open a file for reading that was hashed earlier, and check that it is still the same file.

    Raises:
        OSError: The file cannot be opened; or (if `file.stamp` is known) it was changed or replaced
            since it was hashed.
    """
    with file.path.open("rb") as source:
        if file.stamp and HostFile.stamp_of(os.fstat(source.fileno())) != file.stamp:
            raise OSError(0, "it was changed meanwhile", str(file.path))
        yield source


class KnownContents:
    """A cache for one directory of job specs: the hashes of files, and which archives had no
    problem.

    Args:
        directory: The cache directory; None for no cache. A cache that cannot be read or written
            only costs time.
        base: The directory of the job spec; for each directory there is a separate cache file.
        budget: The limits for reading the files.
    """

    def __init__(self, directory: Path | None, base: Path, budget: ReadingBudget) -> None:
        self._budget = budget
        name = f"{hashlib.sha256(os.fsencode(base.absolute())).hexdigest()[:32]}.json"
        self._file = directory / name if directory else None
        self._known: dict[str, list[object]] = {}
        self._fresh = False
        with suppress(OSError, ValueError):
            found = json.loads(self._file.read_text("utf-8")) if self._file else {}
            self._known = found if isinstance(found, dict) else {}

    def file(self, path: Path, opened: BinaryIO, found: os.stat_result) -> HostFile:
        """Return a file with its hash, from the cache if the file has not changed. The hash of a
        file that was written less than 2 s ago is not cached.

        Args:
            path: The file's path.
            opened: The opened file, from which the content is read.
            found: The status of the open file.

        Raises:
            OSError: The file cannot be read.
            UsageError: As `ReadingBudget.check`.
        """
        stamp, key = HostFile.stamp_of(found), os.fspath(path)
        match self._known.get(key):
            case [*old, str(sha256)] if old == [*stamp]:
                pass
            case _:
                sha256 = _hash_of_file(opened, self._budget)
                if found.st_mtime_ns + YOUNG_NS < time.time_ns():
                    self._remember_content(key, [*stamp, sha256])
        return HostFile(path, found.st_size, sha256, stamp)

    def archive_problem(self, file: HostFile, *, links: bool = True) -> str:
        """Return why an archive cannot be read, or cannot be unpacked in a container; "" if it can.
        The whole archive is read, unless the same content had no problem before.

        Args:
            file: The archive.
            links: Whether symbolic links that lead out of the archive are refused, too.

        Raises:
            UsageError: As `ReadingBudget.check`.
        """
        # few jobs have one, and tarfile is large
        from submit_tf_job.jobspec.archives import archive_kind, archive_problem

        checked = f"archive {file.sha256} {archive_kind(file.path.name)} {links}"
        if checked in self._known:
            return ""
        try:
            with opened_again(file) as source:
                why = archive_problem(file.path.name, source, links=links, budget=self._budget)
        except OSError as error:
            return f"cannot be read: {error.strerror or error}"
        if not why:
            self._remember_content(checked, [])
        return why

    def _remember_content(self, key: str, known: list[object]) -> None:
        self._known[key] = known
        self._fresh = True

    def save(self) -> None:
        """Write the cache if it has changed, and remove cache files that were not written for 90
        days. Errors are ignored.
        """
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
