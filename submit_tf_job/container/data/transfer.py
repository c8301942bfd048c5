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
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from submit_tf_job.container.data.store import (
    Copying,
    Entry,
    FileStore,
    NotFound,
    StoreError,
    files_below,
    is_hidden,
    shown,
    store_errors,
)
from submit_tf_job.container.data.stores import open_store
from submit_tf_job.container.data.upload import SIDE_BY_SIDE, OutputUpload

MAGIC = re.compile(r"[*?\[]")


# --- downloads ------------------------------------------------------------------------------------
def download(step: Mapping[str, Any], copying: Copying) -> None:
    """Download an input: the files of a list, the matches of a pattern, a directory, or one file.

    The paths on this disk are written to the step's `file`, one per line.

    Raises:
        StoreError: The store cannot be read, or this disk not be written.
    """
    store, path = copying.retry(lambda: open_store(step["uri"], os.environ))
    pattern = MAGIC.search(path)
    base = posixpath.dirname(path[: pattern.start()]) if pattern else path
    if step["share"] is not None:
        paths = [_path_in_store(step["uri"], uri) for uri in step["share"]]
        found: Iterable[Entry] = [copying.retry(partial(store.stat, path)) for path in paths]
    elif pattern:
        found = copying.retry(lambda: matching(store, path))
    else:
        found = copying.retry(lambda: files_below(store, path))
    if not pattern and [entry[0] for entry in found] == [path]:  # a single file
        base = posixpath.dirname(path)
    strange = [entry[0] for entry in found if len(entry[0].splitlines()) > 1]
    if strange:  # the list would have two lines for it
        raise StoreError(f"the file name {shown(strange[0])} holds a line break; rename it")
    targets = [os.path.join(step["to"], posixpath.relpath(entry[0], base)) for entry in found]
    for target in targets:
        with store_errors(target):
            os.makedirs(os.path.dirname(target), exist_ok=True)
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        list(pool.map(partial(_fetch_file, copying, store), found, targets))
    with store_errors(step["file"]), open(step["file"], "w", encoding="utf-8") as out:
        out.write("".join(target + "\n" for target in targets))


def _path_in_store(uri: str, listed: str) -> str:
    """Return the path of a listed file in the store of `uri`.

    Except for viewfs, the URIs of a list differ only in their paths.
    """
    if uri.startswith("viewfs:"):
        return open_store(listed, os.environ)[1]
    return "/" + listed.partition("://")[2].partition("/")[2]


def matching(store: FileStore, pattern: str) -> list[Entry]:
    """List the files that match a pattern, including all files below a matching directory.

    Raises:
        NotFound: No file matches.
    """
    found: list[Entry] = [("/", True, 0)]
    for part in [part for part in pattern.split("/") if part]:
        nearer: list[Entry] = []
        for path, is_dir, _ in found:
            if not MAGIC.search(part):
                with contextlib.suppress(NotFound):
                    nearer.append(store.stat(posixpath.join(path, part)))
            elif is_dir:
                for entry in store.list(path):
                    matches = fnmatch.fnmatchcase(posixpath.basename(entry[0]), part)
                    if matches and (part[0] in "_." or not is_hidden(entry[0])):
                        nearer.append(entry)
        found = nearer
    files: list[Entry] = []
    for top in found:
        files += files_below(store, top[0]) if top[1] else [top]
    if not files:
        raise NotFound(f"{pattern}: no file matches")
    return sorted(files)


def _fetch_file(copying: Copying, store: FileStore, entry: Entry, target: str) -> None:
    path, _, size = entry

    def fetch() -> None:
        have = 0
        with store_errors(target), open(target, "wb") as sink:
            for piece in store.read(path):
                sink.write(piece)
                have += len(piece)
                copying.tick(len(piece))
        if have != size:
            text = f"{path}: {have} bytes came, and it has {size}"
            raise StoreError(text, transient=True)

    copying.retry(fetch)
    copying.tick(0, 1)


# --- the program ----------------------------------------------------------------------------------
def run(request: Mapping[str, Any], tell: Callable[..., None]) -> int:
    """Run the steps, report progress and the result, and return the exit status. The first download
    that fails ends the run. An upload concerns no other one: while it waits for its file system,
    the next one begins.
    """
    steps = request["steps"]
    copies = [Copying(tell, request["patience_s"], step["name"]) for step in steps]
    results = []
    with ThreadPoolExecutor(len(steps)) as pool:
        for step, copying in zip(steps, copies):
            results.append(pool.submit(_run_step, step, copying))
            if step["do"] == "download" and results[-1].result():
                break
            copying.passed.wait()
    failures = list(filter(None, (result.result() for result in results)))
    if failures:
        tell(t="failed", more=failures[1:], **failures[0])
        return 1
    files, size = (sum(getattr(each, key) for each in copies) for key in ("files", "bytes"))
    tell(t="done", files=files, bytes=size)
    return 0


def _run_step(step: Mapping[str, Any], copying: Copying) -> dict[str, str]:
    """Run one step; return its failure, or {}."""
    try:
        if step["do"] == "download":
            download(step, copying)
        else:
            store, target = copying.retry(partial(open_store, step["uri"], os.environ))
            OutputUpload(store, target, step, copying).run()
    except StoreError as err:
        return {"name": step["name"], "uri": step["uri"], "why": str(err)}
    finally:
        copying.passed.set()
    return {}


def main() -> int:
    """Read a request from stdin, run it, and print the messages. Return the exit status."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries goes to the task's stderr

    lock = threading.Lock()

    def tell(**what: Any) -> None:
        texts = {key: shown(value) for key, value in what.items() if isinstance(value, str)}
        with lock:
            out.write(json.dumps(dict(what, **texts)) + "\n")
            out.flush()

    try:
        return run(json.load(sys.stdin), tell)
    except Exception as err:  # the log gets the traceback; another process tries again
        tell(t="broken", why=repr(err)[:500])
        raise


if __name__ == "__main__":
    sys.exit(main())
