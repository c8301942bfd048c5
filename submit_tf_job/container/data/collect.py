"""Put files of the working directory into the directory of an output (`collect`)."""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Iterator, Sequence

from submit_tf_job.container.info import log
from submit_tf_job.container.left_files import is_the_programs


def collected(directory: str, patterns: Sequence[str]) -> Iterator[str]:
    """Yield the paths, relative to a directory, that match glob patterns. If a directory matches,
    nothing below it is yielded.

    Files of the bootstrap, hidden files, and links, which lead out of the directory, are left out.
    """
    found = set()
    for pattern in patterns:
        for path in glob.iglob(os.path.join(glob.escape(directory), pattern), recursive=True):
            name = os.path.relpath(path, directory)
            if all(map(is_the_programs, name.split(os.sep))) and not os.path.islink(path):
                found.add(name)
    for name in sorted(found):
        parts = name.split(os.sep)
        if not any(os.sep.join(parts[:end]) in found for end in range(1, len(parts))):
            yield name


def collect(directory: str, patterns: Sequence[str], target: str) -> None:
    """Move the files that match patterns into the directory `target`, under the same relative
    paths; a file that exists there is not replaced. A file that cannot be moved is logged, and
    stays.
    """
    for name in collected(directory, patterns):
        to = os.path.join(target, name)
        if os.path.lexists(to):
            log(f"{name} is not collected: the program has written it to {to}, too")
            continue
        try:
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.move(os.path.join(directory, name), to)
        except OSError as err:
            log(f"{name} cannot be collected: {err}")
