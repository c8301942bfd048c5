"""Print the newest checkpoint in a directory of a file system, as a program of its own.

It reads `{"uri": …}` from stdin and prints one object: `name`, `step` and `at` of the newest
checkpoint; an empty object if there is no checkpoint; or `why`, the reason why that is not known.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import sys
from typing import Any

from submit_tf_job.container.data.store import FileStore, NotFound, StoreError, is_hidden, shown
from submit_tf_job.container.data.stores import open_store

# TensorFlow's files of one checkpoint, and what PyTorch, Keras and others append
_PARTS = re.compile(r"(\.(index|meta|data-\d+-of-\d+|keras|h5|hdf5|pth?|ckpt|bin|safetensors))+$")
_STEP = re.compile(r"step[=_-]?(\d+)|(\d+)(?=\D*$)")
_UNFINISHED = re.compile(r"tmp|temp|partial|\.crc$", re.IGNORECASE)
MOST_ASKED = 20  # files without a number whose times are compared


def newest(store: FileStore, path: str) -> dict[str, Any]:
    """Return name, step and time (in seconds) of the newest checkpoint; {} if there is none. The
    step or the time is None if it is not known.

    The newest checkpoint is the one with the highest step, which is the number in its name; if no
    name has a number, the newest is the file that was written last.

    Raises:
        StoreError: The store cannot be read.
    """
    try:
        entries = [entry[0] for entry in store.list(path)]
    except NotFound:
        return {}
    names = [name for name in map(posixpath.basename, entries) if not is_hidden(name)]
    names = [name for name in names if not _UNFINISHED.search(name) and name != "checkpoint"]
    steps = {}
    for name in names:
        number = _STEP.search(_PARTS.sub("", name))
        if number:
            steps[name] = int((number.group(1) or number.group(2))[:18])
    if steps:
        last = max(steps, key=lambda name: (steps[name], name))
        at = _written_at(store, path, last)
        return {"name": _PARTS.sub("", last), "step": steps[last], "at": at}
    times = {name: _written_at(store, path, name) or 0.0 for name in names[-MOST_ASKED:]}
    if not times:
        return {}
    last = max(times, key=lambda name: times[name])
    return {"name": _PARTS.sub("", last), "step": None, "at": times[last] or None}


def _written_at(store: FileStore, path: str, name: str) -> float | None:
    version = store.version(posixpath.join(path, name))
    return version[0] / 1000.0 if version and version[0] else None


def main() -> int:
    """Read the request from stdin, and print the newest checkpoint, or why it is not known. Return
    0.
    """
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries goes to the task's stderr
    try:
        found = newest(*open_store(json.load(sys.stdin)["uri"], os.environ))
    except StoreError as err:
        found = {"why": shown(str(err))}
    out.write(json.dumps(found))
    out.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
