"""Find the files of the working directory that are stored with an output (`collect`)."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from typing import Any

from submit_tf_job.container.left_files import is_the_programs


def states(directory: str, patterns: Sequence[str]) -> dict[str, Any]:
    """Return the paths, relative to a directory, that match glob patterns, each with a value that
    changes when the file does, or anything below the directory. If a directory matches, nothing
    below it is returned.

    Files of the bootstrap, hidden files, pipes and sockets, and links, which lead out of the
    directory, are left out.
    """
    found = set()
    for pattern in patterns:
        for path in glob.iglob(os.path.join(glob.escape(directory), pattern), recursive=True):
            name = os.path.relpath(path, directory)
            if all(map(is_the_programs, name.split(os.sep))) and _has_content(path):
                found.add(name)
    tops = {}
    for name in sorted(found):
        parts = name.split(os.sep)
        if not any(os.sep.join(parts[:end]) in found for end in range(1, len(parts))):
            tops[name] = _state(os.path.join(directory, name))
    return tops


def _has_content(path: str) -> bool:
    return not os.path.islink(path) and (os.path.isfile(path) or os.path.isdir(path))


def _state(path: str) -> Any:
    try:
        if os.path.isdir(path):
            with os.scandir(path) as entries:
                return {entry.name: _state(entry.path) for entry in entries if not _loops(entry)}
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _loops(entry: os.DirEntry[str]) -> bool:
    return entry.is_symlink() and entry.is_dir()


def collected(directory: str, patterns: Sequence[str], before: Mapping[str, Any]) -> list[str]:
    """Return the paths that match patterns, as for `states`, without those that are as they were
    `before` the program: files that the job has brought.
    """
    found = states(directory, patterns)
    return [name for name in found if name not in before or found[name] != before[name]]
