"""Files of a task: what the user sent, the tail of stderr, progress, reports and markers."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile

from submit_tf_job import contract
from submit_tf_job.bootstrap.info import PREFIX, Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from submit_tf_job.bootstrap.info import Info

PROGRESS_LIMIT = 4096
STDOUT_LIMIT = 65536  # of what a program writes between two looks, the end is read
# A minimal image lacks en_US.UTF-8, which YARN's AM asks for (seen in every container of such images).
NOISE = ("setlocale: LC_ALL", contract.OUTCOME_MARK, PREFIX)


def unpack(archive: bytes | str, cwd: str) -> None:
    """Unpack a tar (its bytes, or its path) into `cwd`: plain files and directories only, nothing outside.

    Raises:
        Problem: A member would land elsewhere, or cannot be written.
    """
    root = os.path.realpath(cwd)
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) if isinstance(archive, bytes) else tarfile.open(archive) as tar:
            for member in tar:
                _unpack_member(tar, member, root)
    except (OSError, tarfile.TarError, EOFError) as err:
        raise Problem(contract.EXIT_BOOTSTRAP_ERROR, "bootstrap-error", "the job's files could not be unpacked: %s" % err) from err


def _unpack_member(tar: tarfile.TarFile, member: tarfile.TarInfo, root: str) -> None:
    target = os.path.join(root, member.name)
    folder = target if member.isdir() else os.path.dirname(target)
    if os.path.isabs(member.name) or ".." in member.name.split("/") or not (member.isfile() or member.isdir()):
        raise tarfile.TarError("%r is not a plain file below the working directory" % member.name)
    if not (os.path.realpath(folder) + os.sep).startswith(root.rstrip(os.sep) + os.sep):
        raise tarfile.TarError("%r would land outside the working directory" % member.name)
    os.makedirs(folder, exist_ok=True)
    source = tar.extractfile(member)
    if source is None:
        return
    if os.path.lexists(target):
        os.unlink(target)  # a link that YARN made points into its cache, which is not ours to write
    with source, open(target, "xb") as sink:
        shutil.copyfileobj(source, sink)
    os.chmod(target, (member.mode & 0o777) | 0o600)


def write_json(path: str, value: Mapping[str, Any]) -> None:
    """Write a file by rename: a reader sees the old or the new one."""
    with open(path + ".tmp", "w", encoding="ascii") as sink:
        sink.write(json.dumps(value, separators=(",", ":")))
    os.chmod(path + ".tmp", 0o644)
    os.replace(path + ".tmp", path)


def stderr_path(info: Info) -> str:
    """Return the file that this task's stderr goes to: where there are several log directories, the first need not be it."""
    own = "/proc/self/fd/2"
    return own if os.path.isfile(own) else os.path.join(info.log_dir, "stderr.txt")


def last_lines(path: str, lines: int = 20, width: int = 500, total: int = 8000) -> list[str]:
    """Return the end of a task's stderr without noise and without our own lines."""
    try:
        with open(path, "rb") as source:
            source.seek(max(0, source.seek(0, os.SEEK_END) - 65536))
            text = source.read(65536).decode("utf-8", "replace")
    except OSError:
        return []
    kept = [line.rstrip()[:width] for line in text.split("\n") if line.strip() and not any(noise in line for noise in NOISE)]
    kept = kept[-lines:]
    while sum(map(len, kept)) > total:
        del kept[0]
    return kept


def _number(value: Any) -> float | int | None:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300  # no NaN, no infinity
    return value if good else None


def clean_progress(value: Any) -> dict[str, Any] | None:
    """Return what is usable of a program's progress, or None."""
    if not isinstance(value, dict):
        return None
    metrics = value.get("metrics")
    pairs = list(metrics.items())[:50] if isinstance(metrics, dict) else []
    return {
        "step": _number(value.get("step")),
        "total": _number(value.get("total")),
        "metrics": {str(name)[:100]: _number(number) for name, number in pairs},
    }


def stdout_path(info: Info) -> str:
    """Return the file that this task's stdout goes to, as `stderr_path` does."""
    own = "/proc/self/fd/1"
    return own if os.path.isfile(own) else os.path.join(info.log_dir, "stdout.txt")


class Progress:
    """Watches the file at TFJOB_PROGRESS_FILE, and the lines on stdout that start with `contract.PROGRESS_MARK`."""

    def __init__(self, path: str, stdout: str = "") -> None:
        """Watch `path` and `stdout`, which need not exist; what stdout holds already was written by an earlier program."""
        self.path, self.stdout, self._seen = path, stdout, (0, 0, 0)
        self._read = _size(stdout)

    def poll(self) -> dict[str, Any] | None:
        """Return what was said last since the last call, where it makes sense; the file has the last word."""
        printed = self._of_stdout()
        return (self._of_file() if self.path else None) or printed

    def _of_stdout(self) -> dict[str, Any] | None:
        size = _size(self.stdout)
        if size <= self._read:
            return None
        try:
            with open(self.stdout, "rb") as source:
                source.seek(max(self._read, size - STDOUT_LIMIT))
                text = source.read(STDOUT_LIMIT)
        except OSError:
            return None
        complete, newline, unfinished = text.rpartition(b"\n")
        # A line that is not finished yet is read again, but not for ever.
        self._read = size - (len(unfinished) if len(unfinished) < PROGRESS_LIMIT else 0)
        return _marked((complete + newline).decode("utf-8", "replace"))

    def _of_file(self) -> dict[str, Any] | None:
        try:
            found = os.stat(self.path)
            mark = (found.st_mtime_ns, found.st_size, found.st_ino)
            if mark == self._seen or found.st_size > PROGRESS_LIMIT:
                return None
            self._seen = mark
            with open(self.path, "rb") as source:
                return clean_progress(json.loads(source.read(PROGRESS_LIMIT).decode("utf-8")))
        except (OSError, ValueError, RecursionError):
            return None


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size if path else 0
    except OSError:
        return 0


def _marked(text: str) -> dict[str, Any] | None:
    """Return the last progress line of a text that makes sense."""
    for line in reversed(text.split("\n")):
        if line.startswith(contract.PROGRESS_MARK):
            try:
                found = clean_progress(json.loads(line[len(contract.PROGRESS_MARK) :]))
            except (ValueError, RecursionError):
                continue
            if found:
                return found
    return None


def marker_path(info: Info) -> str:
    """Return where a task leaves its outcome for a later start of itself on the same node, or ""."""
    if not info.application():
        return ""
    return os.path.join(os.path.dirname(info.cwd), "tfjob-done-%s-%s.json" % (info.submission, info.name))


def read_marker(info: Info) -> dict[str, Any] | None:
    """Return what an earlier start of this very task, in this very application, left behind."""
    try:
        with open(marker_path(info), encoding="utf-8") as source:
            marker = json.load(source)
        return marker if marker["application"] == info.application() and isinstance(marker["exit"], int) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_marker(info: Info, final: bool, status: int, outcome: Mapping[str, Any], report: Mapping[str, Any] | None) -> None:
    """Leave the outcome where a later start of this task on this node looks for it."""
    path = marker_path(info)
    if not path or not os.access(os.path.dirname(path), os.W_OK):
        return
    marker = {"application": info.application(), "final": final, "attempt": info.attempt, "exit": status, "outcome": outcome}
    try:
        write_json(path, dict(marker, report=report))
    except OSError:
        return
