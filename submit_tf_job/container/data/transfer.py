"""Copy inputs to this disk and outputs from it, as a program of its own.

A library that hangs or crashes affects this process only. It reads one JSON object with `steps`
from stdin and prints lines of JSON: its progress, and at the end `done` or `failed`.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import posixpath
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from submit_tf_job.container.data.store import NotFound, StoreError, files_below, store_errors
from submit_tf_job.container.data.stores import open_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from submit_tf_job.container.data.store import Entry, FileStore

ATTEMPTS_S = (0.0, 1.0, 5.0)  # pauses before each attempt, for transient errors
SIDE_BY_SIDE = 4
TELL_S = 1.0
MAGIC = re.compile(r"[*?\[]")


class CopyCounter:
    """Counts what has been copied, and reports it from time to time; used by several threads."""

    def __init__(self, tell: Callable[..., None]) -> None:
        """Start at zero."""
        self.files = self.bytes = 0
        self.tell, self.lock, self.told = tell, threading.Lock(), 0.0

    def tick(self, size: int, files: int = 0) -> None:
        """Add to the counts."""
        with self.lock:
            self.bytes += size
            self.files += files
            if time.monotonic() >= self.told + TELL_S:
                self.told = time.monotonic()
                self.tell(t="copied", files=self.files, bytes=self.bytes)


def retry(call: Callable[[], Any]) -> Any:
    """Call a function, with retries after transient errors."""
    for number, pause_s in enumerate(ATTEMPTS_S):
        time.sleep(pause_s)
        try:
            return call()
        except StoreError as err:
            if not err.transient or number + 1 == len(ATTEMPTS_S):
                raise
    raise AssertionError("the last attempt returns or raises")


# --- downloads ------------------------------------------------------------------------------------
def download(step: Mapping[str, Any], account: CopyCounter) -> None:
    """Download an input: the files of a list, the matches of a pattern, a directory, or one file.

    The step's `file` gets the paths on this disk, one per line.
    """
    store, path = retry(lambda: open_store(step["uri"], os.environ))
    pattern = MAGIC.search(path)
    base = path
    if pattern:
        base = posixpath.dirname(path[: pattern.start()])
    if step.get("share") is not None:
        found: Iterable[Entry] = [_stat(store, _same(step["uri"], uri)) for uri in step["share"]]
    elif pattern:
        found = retry(lambda: matching(store, path))
    else:
        found = retry(lambda: files_below(store, path))
    if not pattern and [entry[0] for entry in found] == [path]:  # a single file
        base = posixpath.dirname(path)
    pairs = [
        (entry, os.path.join(step["to"], posixpath.relpath(entry[0], base))) for entry in found
    ]
    for _, target in pairs:
        with store_errors(target):
            os.makedirs(os.path.dirname(target), exist_ok=True)
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        list(pool.map(lambda pair: _fetch(store, pair[0], pair[1], account), pairs))
    with store_errors(step["file"]), open(step["file"], "w", encoding="utf-8") as out:
        out.write("".join(target + "\n" for _, target in pairs))


def _stat(store: FileStore, path: str) -> Entry:
    found: Entry = retry(lambda: store.stat(path))
    return found


def _same(uri: str, listed: str) -> str:
    """Return the path of a listed file in the store of `uri`.

    Except for viewfs, the URIs of a list differ only in their paths.
    """
    if uri.startswith("viewfs:"):
        return open_store(listed, os.environ)[1]
    return "/" + listed.partition("://")[2].partition("/")[2]


def matching(store: FileStore, pattern: str) -> list[Entry]:
    """List the files that match a pattern, including all files below a matching directory."""
    found: list[Entry] = [("/", True, 0)]
    for part in [part for part in pattern.split("/") if part]:
        nearer: list[Entry] = []
        for path, is_dir, _ in found:
            if not MAGIC.search(part):
                with contextlib.suppress(NotFound):
                    nearer.append(store.stat(posixpath.join(path, part)))
            elif is_dir:
                names = [
                    entry
                    for entry in store.list(path)
                    if fnmatch.fnmatchcase(posixpath.basename(entry[0]), part)
                ]
                nearer += [
                    entry
                    for entry in names
                    if part[0] in "_." or not posixpath.basename(entry[0]).startswith(("_", "."))
                ]
        found = nearer
    files: list[Entry] = []
    for top in found:
        files += files_below(store, top[0]) if top[1] else [top]
    files.sort()
    if not files:
        raise NotFound("%s: no file matches" % pattern)
    return files


def _fetch(store: FileStore, entry: Entry, target: str, account: CopyCounter) -> None:
    retry(lambda: _fetch_once(store, entry, target, account))
    account.tick(0, 1)


def _fetch_once(store: FileStore, entry: Entry, target: str, account: CopyCounter) -> None:
    path, size = entry[0], entry[2]
    have = 0
    with store_errors(target), open(target, "wb") as sink:
        for piece in store.read(path):
            sink.write(piece)
            have += len(piece)
            account.tick(len(piece))
    if have != size:
        raise StoreError("%s: %d bytes came, and it has %d" % (path, have, size), transient=True)


# --- uploads --------------------------------------------------------------------------------------
def upload(step: Mapping[str, Any], account: CopyCounter) -> None:
    """Upload a directory to an output's URI.

    It gets a temporary name first and is then renamed, so that no reader sees a part of it.
    """
    store, target = retry(lambda: open_store(step["uri"], os.environ))
    local = step["from"]
    directories, files = _tree(local)
    if not files:
        raise StoreError("nothing was written to %s" % local)
    if not step["overwrite"] and store.exists(target):
        raise StoreError("%s: exists already; set overwrite: true to replace it" % target)
    beside = posixpath.join(
        posixpath.dirname(target), ".%s.%s" % (posixpath.basename(target), step["mark"])
    )
    place = beside + ".tmp" if store.renames else target
    retry(lambda: store.remove(place))
    try:
        for name in [""] + directories:
            _make(store, posixpath.join(place, name).rstrip("/"))
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            list(
                pool.map(
                    lambda name: _send(
                        store, os.path.join(local, name), posixpath.join(place, name), account
                    ),
                    files,
                )
            )
        if store.renames:
            _move_to_target(store, place, target, beside + ".old")
    except BaseException:
        if store.renames:
            with contextlib.suppress(StoreError):
                store.remove(place)
        raise


def _make(store: FileStore, path: str) -> None:
    retry(lambda: store.mkdirs(path))


def _tree(local: str) -> tuple[list[str], list[str]]:
    directories, files = [], []
    for folder, below, names in os.walk(local, followlinks=False):
        directories += [os.path.relpath(os.path.join(folder, name), local) for name in below]
        files += [os.path.relpath(os.path.join(folder, name), local) for name in names]
    return sorted(directories), sorted(files)


def _send(store: FileStore, source: str, target: str, account: CopyCounter) -> None:
    retry(lambda: _send_once(store, source, target, account))
    account.tick(0, 1)


def _send_once(store: FileStore, source: str, target: str, account: CopyCounter) -> None:
    with store_errors(source):
        size = os.path.getsize(source)
        file = open(source, "rb")  # noqa: SIM115 - closed below; what goes wrong in between is about the target
    with file:
        try:
            store.write(target, file, account.tick)
        except StoreError:
            with contextlib.suppress(StoreError):
                store.remove(target)
            raise
    if store.stat(target)[2] != size:
        raise StoreError("%s: is not as long as what was written" % target, transient=True)


def _move_to_target(store: FileStore, place: str, target: str, old: str) -> None:
    """Rename an upload to its target; if that fails, restore the previous target."""
    replaced = store.exists(target)
    if replaced:
        store.remove(old)
        store.rename(target, old)
    try:
        retry(lambda: _rename(store, place, target))
    except BaseException:
        if replaced:
            with contextlib.suppress(StoreError):
                store.rename(old, target)
        raise
    if replaced:
        store.remove(old)


def _rename(store: FileStore, place: str, target: str) -> None:
    try:
        store.rename(place, target)
    except StoreError:
        # otherwise the rename succeeded, and its response was lost
        if store.exists(place) or not store.exists(target):
            raise


# --- the program ----------------------------------------------------------------------------------
def run(request: Mapping[str, Any], tell: Callable[..., None]) -> int:
    """Run the steps, report progress and the result, and return the exit status."""
    account = CopyCounter(tell)
    for step in request["steps"]:
        try:
            (download if step["do"] == "download" else upload)(step, account)
        except StoreError as err:
            tell(t="failed", name=step["name"], uri=step["uri"], why=str(err))
            return 1
    tell(t="done", files=account.files, bytes=account.bytes)
    return 0


def main() -> int:
    """Run the request on stdin."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries goes to the task's stderr

    def tell(**what: Any) -> None:
        out.write(json.dumps(what) + "\n")
        out.flush()

    return run(json.load(sys.stdin), tell)


if __name__ == "__main__":
    sys.exit(main())
