"""Copy inputs to this disk and outputs from it; run as a program of its own, which a library that hangs or crashes takes down alone.

It reads one JSON object with `steps` from stdin and prints lines of JSON: how much it has copied, and at the end `done` or `failed`.
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

from submit_tf_job.bootstrap.store import NotThere, StoreError, files_below, translated
from submit_tf_job.bootstrap.stores import open_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from submit_tf_job.bootstrap.store import Entry, Store

ATTEMPTS_S = (0.0, 1.0, 5.0)  # pauses before each, where another attempt may help
SIDE_BY_SIDE = 4
TELL_S = 1.0
MAGIC = re.compile(r"[*?\[]")


class Account:
    """What has been copied, told from time to time; called by several threads."""

    def __init__(self, tell: Callable[..., None]) -> None:
        """Begin with nothing."""
        self.files = self.bytes = 0
        self.tell, self.lock, self.told = tell, threading.Lock(), 0.0

    def tick(self, size: int, files: int = 0) -> None:
        """Count."""
        with self.lock:
            self.bytes += size
            self.files += files
            if time.monotonic() >= self.told + TELL_S:
                self.told = time.monotonic()
                self.tell(t="copied", files=self.files, bytes=self.bytes)


def again(call: Callable[[], Any]) -> Any:
    """Call something, and again where it failed for a reason that passes."""
    for number, pause_s in enumerate(ATTEMPTS_S):
        time.sleep(pause_s)
        try:
            return call()
        except StoreError as err:
            if not err.passing or number + 1 == len(ATTEMPTS_S):
                raise
    raise AssertionError("the last attempt returns or raises")


# --- down -------------------------------------------------------------------------------------------------------------
def download(step: Mapping[str, Any], account: Account) -> None:
    """Fetch an input: the files of a list, those that match a pattern, a directory, or one file.

    The step's `file` gets the paths on this disk, one a line.
    """
    store, path = again(lambda: open_store(step["uri"], os.environ))
    pattern = MAGIC.search(path)
    base = posixpath.dirname(path[: pattern.start()]) if pattern else path
    if step.get("share") is not None:
        found: Iterable[Entry] = [_stat(store, _same(step["uri"], uri)) for uri in step["share"]]
    elif pattern:
        found = again(lambda: matching(store, path))
    else:
        found = again(lambda: files_below(store, path))
    single = not pattern and [entry[0] for entry in found] == [path]
    base = posixpath.dirname(path) if single else base
    pairs = [(entry, os.path.join(step["to"], posixpath.relpath(entry[0], base))) for entry in found]
    for _, target in pairs:
        with translated(target):
            os.makedirs(os.path.dirname(target), exist_ok=True)
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        list(pool.map(lambda pair: _fetch(store, pair[0], pair[1], account), pairs))
    with translated(step["file"]), open(step["file"], "w", encoding="utf-8") as out:
        out.write("".join(target + "\n" for _, target in pairs))


def _stat(store: Store, path: str) -> Entry:
    found: Entry = again(lambda: store.stat(path))
    return found


def _same(uri: str, listed: str) -> str:
    """Return the path of a listed file in the store of `uri`: only the path of a list's URIs differs from it, but for viewfs."""
    return open_store(listed, os.environ)[1] if uri.startswith("viewfs:") else "/" + listed.partition("://")[2].partition("/")[2]


def matching(store: Store, pattern: str) -> list[Entry]:
    """List the files that match a pattern, part by part; a directory that matches stands for all files below it."""
    found: list[Entry] = [("/", True, 0)]
    for part in [part for part in pattern.split("/") if part]:
        nearer: list[Entry] = []
        for path, is_dir, _ in found:
            if not MAGIC.search(part):
                with contextlib.suppress(NotThere):
                    nearer.append(store.stat(posixpath.join(path, part)))
            elif is_dir:
                names = [entry for entry in store.list(path) if fnmatch.fnmatchcase(posixpath.basename(entry[0]), part)]
                nearer += [entry for entry in names if part[0] in "_." or not posixpath.basename(entry[0]).startswith(("_", "."))]
        found = nearer
    files = sorted(entry for top in found for entry in (files_below(store, top[0]) if top[1] else [top]))
    if not files:
        raise NotThere("%s: no file matches" % pattern)
    return files


def _fetch(store: Store, entry: Entry, target: str, account: Account) -> None:
    again(lambda: _fetch_once(store, entry, target, account))
    account.tick(0, 1)


def _fetch_once(store: Store, entry: Entry, target: str, account: Account) -> None:
    path, size = entry[0], entry[2]
    have = 0
    with translated(target), open(target, "wb") as sink:
        for piece in store.read(path):
            sink.write(piece)
            have += len(piece)
            account.tick(len(piece))
    if have != size:
        raise StoreError("%s: %d bytes came, and it has %d" % (path, have, size), passing=True)


# --- up ---------------------------------------------------------------------------------------------------------------
def upload(step: Mapping[str, Any], account: Account) -> None:
    """Put a directory where an output is to be: under a name of its own first, then renamed, so that nobody sees half of it."""
    store, target = again(lambda: open_store(step["uri"], os.environ))
    local = step["from"]
    directories, files = _tree(local)
    if not files:
        raise StoreError("nothing was written to %s" % local)
    if not step["overwrite"] and store.exists(target):
        raise StoreError("%s: is there already, and overwrite: true was not said" % target)
    beside = posixpath.join(posixpath.dirname(target), ".%s.%s" % (posixpath.basename(target), step["mark"]))
    place = beside + ".tmp" if store.renames else target
    again(lambda: store.remove(place))
    try:
        for name in [""] + directories:
            _make(store, posixpath.join(place, name).rstrip("/"))
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            list(pool.map(lambda name: _send(store, os.path.join(local, name), posixpath.join(place, name), account), files))
        if store.renames:
            _into_place(store, place, target, beside + ".old")
    except BaseException:
        if store.renames:
            with contextlib.suppress(StoreError):
                store.remove(place)
        raise


def _make(store: Store, path: str) -> None:
    again(lambda: store.mkdirs(path))


def _tree(local: str) -> tuple[list[str], list[str]]:
    directories, files = [], []
    for folder, below, names in os.walk(local, followlinks=False):
        directories += [os.path.relpath(os.path.join(folder, name), local) for name in below]
        files += [os.path.relpath(os.path.join(folder, name), local) for name in names]
    return sorted(directories), sorted(files)


def _send(store: Store, source: str, target: str, account: Account) -> None:
    again(lambda: _send_once(store, source, target, account))
    account.tick(0, 1)


def _send_once(store: Store, source: str, target: str, account: Account) -> None:
    with translated(source):
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
        raise StoreError("%s: is not as long as what was written" % target, passing=True)


def _into_place(store: Store, place: str, target: str, old: str) -> None:
    """Move what was uploaded to where it belongs; what is there comes back when that fails."""
    replaced = store.exists(target)
    if replaced:
        store.remove(old)
        store.rename(target, old)
    try:
        again(lambda: _rename(store, place, target))
    except BaseException:
        if replaced:
            with contextlib.suppress(StoreError):
                store.rename(old, target)
        raise
    if replaced:
        store.remove(old)


def _rename(store: Store, place: str, target: str) -> None:
    try:
        store.rename(place, target)
    except StoreError:
        if store.exists(place) or not store.exists(target):  # else it was done, and the answer got lost
            raise


# --- the program ------------------------------------------------------------------------------------------------------
def run(request: Mapping[str, Any], tell: Callable[..., None]) -> int:
    """Do the steps; tell how far it is, and how it ended."""
    account = Account(tell)
    for step in request["steps"]:
        try:
            (download if step["do"] == "download" else upload)(step, account)
        except StoreError as err:
            tell(t="failed", name=step["name"], uri=step["uri"], why=str(err))
            return 1
    tell(t="done", files=account.files, bytes=account.bytes)
    return 0


def main() -> int:
    """Read the request from stdin."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints goes to the task's stderr

    def tell(**what: Any) -> None:
        out.write(json.dumps(what) + "\n")
        out.flush()

    return run(json.load(sys.stdin), tell)


if __name__ == "__main__":
    sys.exit(main())
