"""Hash this host's files, and cache the hashes: unchanged files are not read again."""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path

from submit_tf_job.jobspec.job import HostFile

PIECE = 1024 * 1024
FORGOTTEN_AFTER_S = 90 * 24 * 3600
MOST_REMEMBERED = 200_000
# A file that is written to again within one tick of its file system's clock keeps its times: hashes
# of files as young as this are not cached (as in git).
YOUNG_NS = 2_000_000_000


def sha256_of(path: Path) -> str:
    """Return the hash of a file, read in pieces.

    Raises:
        OSError: It cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()


class Digests:
    """The cached hashes of the files of one job spec's directory.

    Args:
        directory: The cache directory; None for no cache. A cache that cannot be read or written
            only costs time.
        base: The directory of the job spec; each has its own cache file.
    """

    def __init__(self, directory: Path | None, base: Path) -> None:
        self._file = (
            directory / f"{hashlib.sha256(os.fsencode(base.absolute())).hexdigest()[:32]}.json"
            if directory
            else None
        )
        self._known: dict[str, list[object]] = {}
        self._used: dict[str, list[object]] = {}
        self._fresh = False
        if self._file is not None:
            with suppress(OSError, ValueError):
                found = json.loads(self._file.read_text("utf-8"))
                self._known = found if isinstance(found, dict) else {}

    def file(self, path: Path, found: os.stat_result) -> HostFile:
        """Return a file with its hash, from the cache if the file has not changed.

        Raises:
            OSError: It cannot be read.
        """
        stamp = HostFile.stamp_of(found)
        key = os.fspath(path)
        known = self._known.get(key)
        if (
            isinstance(known, list)
            and known[:-1] == list(stamp)
            and isinstance(known[-1], str)
            and len(known[-1]) == 64
        ):
            self._used[key] = known
            return HostFile(path, found.st_size, known[-1], stamp)
        sha256 = sha256_of(path)
        if found.st_mtime_ns + YOUNG_NS < time.time_ns():
            self._used[key] = [*stamp, sha256]
            self._fresh = True
        return HostFile(path, found.st_size, sha256, stamp)

    def is_proven(self, what: str) -> bool:
        """Return whether the check `what` has passed before for the same content."""
        if what in self._known:
            self._used[what] = self._known[what]
        return what in self._used

    def prove(self, what: str) -> None:
        """Record that a check has passed."""
        self._used[what] = []
        self._fresh = True

    def save(self) -> None:
        """Write the cache."""
        if self._file is None or not self._fresh:
            return
        import tempfile

        with suppress(OSError, ValueError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self._file.parent)
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                json.dump(
                    self._used if len(self._known) > MOST_REMEMBERED else self._known | self._used,
                    out,
                )
            Path(temporary).replace(self._file)
            self._forget_old()

    def _forget_old(self) -> None:
        assert self._file is not None
        for other in self._file.parent.iterdir():
            if other.stat().st_mtime < time.time() - FORGOTTEN_AFTER_S:
                other.unlink()
