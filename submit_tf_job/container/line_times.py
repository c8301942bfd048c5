"""Record the times at which stdout and stderr grew, in an index file beside them."""

from __future__ import annotations

import os

from submit_tf_job.container import contract, task_files
from submit_tf_job.container.info import Info

LOOK_S = 1.0


class Stamps:
    """Writes lines `FILE OFFSET TIME`: the bytes from this offset were written at this time or
    later.

    TIME, in seconds since 1970, is the last check at which the file was no longer than OFFSET.
    """

    def __init__(self, info: Info) -> None:
        """Start at the present sizes of the files; without a log directory nothing is recorded."""
        self._info = info
        self._path = info.log_dir and os.path.join(info.log_dir, contract.TIMES_FILE)
        found = [task_files.output_path(info, name) for name in task_files.STREAMS]
        self._watched = {path: task_files.size_of(path) for path in found if os.path.isfile(path)}
        self._names = {path: os.path.basename(os.path.realpath(path)) for path in self._watched}
        self._recorded = dict.fromkeys(self._watched, float("-inf"))
        self._looked = self.grew_at = info.started  # when one of them was last seen to grow
        self._write([self._line(path, 0, info.started) for path in self._watched])

    def look(self, now: float, *, last: bool = False) -> None:
        """Record the files that have grown since the last check, if one is due or `last`."""
        if now < self._looked + LOOK_S and not last:
            return
        age = now - self._info.started
        pace = next(pace for until, pace in contract.TIMES_PACES if age < until)
        lines = []
        for path, before in self._watched.items():
            size = task_files.size_of(path)
            if size > before:
                self.grew_at = now
            if size > before and (last or now >= self._recorded[path] + pace):
                self._recorded[path] = now
                lines.append(self._line(path, before, self._looked))
            self._watched[path] = size
        self._looked = now
        if lines:
            self._write(lines)

    def _line(self, path: str, offset: int, at: float) -> str:
        return "%s %d %.1f\n" % (self._names[path], offset, self._info.wall + at)

    def _write(self, lines: list[str]) -> None:
        if not self._path:
            return
        try:
            handle = task_files.open_regular(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            with open(handle, "a", encoding="ascii") as out:
                out.writelines(lines)
        except (OSError, UnicodeError):
            self._path = ""  # a task does not fail for missing times
