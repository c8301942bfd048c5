"""Files of a task: its output and the times at which it grew, reports, and markers."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import stat
from collections.abc import Mapping
from typing import Any, BinaryIO

from submit_tf_job.container import contract, output_lines, untrusted
from submit_tf_job.container.info import Info

CHECK_S = 1.0  # between two checks whether the output has grown
STREAMS = {"stdout": 1, "stderr": 2}
LOGS = (".log", ".out", ".err")
END_BYTES, FAR_BYTES, EXCEPTION_BYTES = 64 * 1024, 16 * 1024 * 1024, 6 * 1024
TRACEBACK = b"Traceback (most recent call last)"


def write_json(path: str, value: Mapping[str, Any]) -> None:
    """Write a JSON file that everyone may read, as `write_file` does. Its texts and numbers are
    cleaned, also those in error messages and file names.
    """
    text = json.dumps(untrusted.clean(value), separators=(",", ":"))
    write_file(path, text.encode("ascii"), 0o644)


def write_file(path: str, content: bytes, mode: int) -> None:
    """Write a file by rename, so that a reader sees either the old file or the new file. Raise
    `OSError` if it cannot be written.

    The new file is first written under a name that no file has, because opening a pipe that a
    program has made would block. Only its owner may read it until it is complete.
    """
    beside = f"{path}.{os.urandom(4).hex()}.tmp"
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(handle, "wb") as sink:
            sink.write(content)
        os.chmod(beside, mode)
        os.replace(beside, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def open_regular(path: str, flags: int = os.O_RDONLY) -> int:
    """Open a file that a program may have replaced by something else; return its descriptor.

    Raises:
        OSError: The file cannot be opened, or is not a regular file, but for example a pipe, on
            which opening would block.
    """
    handle = os.open(path, flags | os.O_NONBLOCK, 0o644)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return handle


def output_path(info: Info, name: str) -> str:
    """Return the file of this task's `stdout` or `stderr`.

    If there are several log directories, the file is not always in the first one.
    """
    own = f"/proc/self/fd/{int(STREAMS[name])}"
    return own if os.path.isfile(own) else os.path.join(info.log_dir, name + ".txt")


def stacks_path(info: Info) -> str:
    """Return the file for the stacks of this task's Python processes."""
    return os.path.join(info.log_dir or info.cwd, contract.STACKS_FILE)


def last_lines(path: str, lines: int = 20, width: int = 500, total: int = 8000) -> list[str]:
    """Return the last lines of an output, without noise and without the bootstrap's own lines; []
    if it cannot be read. If the last 64 kB contain no traceback but the last 16 MB do, return the
    last lines of the 6 kB that begin at the last traceback instead.

    Args:
        path: The file.
        lines: The largest number of lines.
        width: The largest number of characters of one line.
        total: The largest number of characters of all lines.
    """
    try:
        with open(open_regular(path), "rb") as source:
            size = source.seek(0, os.SEEK_END)
            source.seek(max(0, size - END_BYTES))
            text = source.read(END_BYTES)
            if TRACEBACK not in text and size > END_BYTES:
                text = _from_exception(source, size) or text
    except OSError:
        return []
    found = output_lines.own_end(output_lines.telling_lines(text.decode("utf-8", "replace")))
    kept = [untrusted.clean_text(line)[:width] for line in found[-lines:]]
    while sum(map(len, kept)) > total:
        del kept[0]
    return kept


def _from_exception(source: BinaryIO, size: int) -> bytes:
    """Return some kilobytes that begin at the last traceback in the last megabytes; b"" if there is
    no traceback.
    """
    source.seek(max(0, size - FAR_BYTES))
    text = source.read(FAR_BYTES)
    at = text.rfind(TRACEBACK)
    if at < 0:
        return b""
    begin = text.rfind(b"\n", 0, at) + 1
    return text[begin : begin + EXCEPTION_BYTES].rpartition(b"\n")[0]


def program_lines(info: Info, logs_before: Mapping[str, tuple[int, int, int]]) -> list[str]:
    """Return the last lines that a task's program wrote: to stderr; if that is empty, to stdout; if
    that is empty, to a log file below its working directory.

    Args:
        info: The task.
        logs_before: What `log_files` returned before the program started.
    """
    outputs = [output_path(info, name) for name in ("stderr", "stdout")]
    return next(filter(None, map(last_lines, outputs + _own_logs(info, logs_before))), [])


def _own_logs(info: Info, before: Mapping[str, tuple[int, int, int]]) -> list[str]:
    """Return the three log files that were written last of those that have changed since `before`,
    the last one first.

    No time is compared with the clock, because a node's clock may be set while the program runs.
    """
    now = log_files(info)
    changed = [path for path in now if now[path] != before.get(path)]
    return sorted(changed, key=lambda path: now[path], reverse=True)[:3]


def log_files(info: Info) -> dict[str, tuple[int, int, int]]:
    """Return the files below the working directory that look like logs by their names, each with
    the time of its last change, its size and its inode. At most 20 directories, and 200 entries of
    each, are looked at.
    """
    found = {}
    folders = [info.cwd]
    for folder in folders:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in itertools.islice(entries, 200):
                if entry.is_dir(follow_symlinks=False):
                    if len(folders) < 20 and not entry.name.startswith("."):
                        folders.append(entry.path)
                elif entry.name.endswith(LOGS) and entry.is_file(follow_symlinks=False):
                    now = entry.stat(follow_symlinks=False)
                    found[entry.path] = (now.st_mtime_ns, now.st_size, now.st_ino)
    return found


def size_of(path: str) -> int:
    """Return the size of a file, or 0 if it does not exist."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


class Stamps:
    """Writes lines `FILE OFFSET TIME`: the bytes from this offset were written at this time or
    later.

    TIME, in seconds since 1970, is the time of the last check at which the file's size was not
    larger than OFFSET.
    """

    def __init__(self, info: Info) -> None:
        """Start at the present sizes of the files; without a log directory nothing is recorded."""
        self._info = info
        self._path = info.log_dir and os.path.join(info.log_dir, contract.TIMES_FILE)
        found = [output_path(info, name) for name in STREAMS]
        self._watched = {path: size_of(path) for path in found if os.path.isfile(path)}
        self._names = {path: os.path.basename(os.path.realpath(path)) for path in self._watched}
        self._recorded = dict.fromkeys(self._watched, float("-inf"))
        self._checked_at = self.grew_at = info.started  # when one of them was last seen to grow
        self._append_lines([self._offset_line(path, 0, info.started) for path in self._watched])

    def check(self, now: float, *, last: bool = False) -> None:
        """Record the files that have grown since the last check, if a check is due or this is the
        last one (`last`).
        """
        if now < self._checked_at + CHECK_S and not last:
            return
        age = now - self._info.started
        pace = next(pace for until, pace in contract.TIMES_PACES if age < until)
        lines = []
        for path, before in self._watched.items():
            size = size_of(path)
            if size > before:
                self.grew_at = now
            if size > before and (last or now >= self._recorded[path] + pace):
                self._recorded[path] = now
                lines.append(self._offset_line(path, before, self._checked_at))
            self._watched[path] = size
        self._checked_at = now
        if lines:
            self._append_lines(lines)

    def _offset_line(self, path: str, offset: int, at: float) -> str:
        return f"{self._names[path]} {offset} {self._info.wall + at:.1f}\n"

    def _append_lines(self, lines: list[str]) -> None:
        if not self._path:
            return
        try:
            handle = open_regular(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            with open(handle, "a", encoding="ascii") as out:
                out.writelines(lines)
        except (OSError, UnicodeError):
            self._path = ""  # a task does not fail for missing times


def marker_path(info: Info) -> str:
    """Return the file that keeps a task's outcome, for a later start of the task on the same node;
    "" if there is no application id.
    """
    name = f"tfjob-done-{info.run}-{info.name}.json"
    return os.path.join(os.path.dirname(info.cwd), name) if info.application() else ""


def read_marker(info: Info) -> dict[str, Any] | None:
    """Return the outcome of an earlier start of this task in this application; None if there is
    none, or it is damaged.
    """
    try:
        with open(open_regular(marker_path(info)), encoding="utf-8") as source:
            marker = untrusted.parse(source.read())
    except (OSError, ValueError):
        return None
    types = {"attempt": int, "exit": int, "final": bool, "outcome": dict}
    known = isinstance(marker, dict) and marker.get("application") == info.application()
    whole = known and all(isinstance(marker.get(key), kind) for key, kind in types.items())
    return marker if whole else None


def write_marker(
    info: Info,
    final: bool,
    status: int,
    outcome: Mapping[str, Any],
    report: Mapping[str, Any] | None,
) -> None:
    """Write the outcome for a later start of this task on this node. Do nothing without an
    application id; ignore errors.
    """
    path = marker_path(info)
    marker = {"application": info.application(), "attempt": info.attempt, "exit": status}
    if path:
        with contextlib.suppress(OSError):  # of other users' directories
            write_json(path, dict(marker, final=final, outcome=outcome, report=report))
