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
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import PurePath
from typing import Any

from submit_tf_job.container.data.store import (
    Copying,
    Entry,
    FileStore,
    NotFound,
    StoreError,
    Version,
    files_below,
    is_hidden,
    pieces,
    store_errors,
)
from submit_tf_job.container.data.stores import open_store

MAGIC = re.compile(r"[*?\[]")
SIDE_BY_SIDE = 4
MARK = ".submit_tf_job"  # a file in each stored output; readers of Hadoop skip such names
NEW, OLD = ".tfjob-tmp", ".tfjob-old"
LEFT_MS = 24 * 3600 * 1000  # the age at which what an upload left is nobody's any more


# --- downloads ------------------------------------------------------------------------------------
def download(step: Mapping[str, Any], copying: Copying) -> None:
    """Download an input: the files of a list, the matches of a pattern, a directory, or one file.

    The step's `file` gets the paths on this disk, one per line.
    """
    store, path = copying.retry(lambda: open_store(step["uri"], os.environ))
    pattern = MAGIC.search(path)
    base = posixpath.dirname(path[: pattern.start()]) if pattern else path
    if step["share"] is not None:
        paths = [_same(step["uri"], uri) for uri in step["share"]]
        found: Iterable[Entry] = [copying.retry(partial(store.stat, path)) for path in paths]
    elif pattern:
        found = copying.retry(lambda: matching(store, path))
    else:
        found = copying.retry(lambda: files_below(store, path))
    if not pattern and [entry[0] for entry in found] == [path]:  # a single file
        base = posixpath.dirname(path)
    targets = [os.path.join(step["to"], posixpath.relpath(entry[0], base)) for entry in found]
    for target in targets:
        with store_errors(target):
            os.makedirs(os.path.dirname(target), exist_ok=True)
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        list(pool.map(partial(_fetch, copying, store), found, targets))
    with store_errors(step["file"]), open(step["file"], "w", encoding="utf-8") as out:
        out.write("".join(target + "\n" for target in targets))


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


def _fetch(copying: Copying, store: FileStore, entry: Entry, target: str) -> None:
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


# --- uploads --------------------------------------------------------------------------------------
def tree(root: str, note: Callable[[str], None]) -> tuple[list[str], list[str], list[str]]:
    """List the directories, the files and the broken links below a directory, relative to it.

    Links are followed. `note` gets a sentence about each entry that holds nothing of its own, and
    is left out: a link to a directory around itself, a socket, a pipe.
    """
    directories: list[str] = []
    files: list[str] = []
    broken: list[str] = []
    top = PurePath(os.path.realpath(root))
    todo = [("", frozenset(map(str, [top, *top.parents])))]
    while todo:
        folder, above = todo.pop()
        with store_errors(os.path.join(root, folder)):
            names = os.listdir(os.path.join(root, folder))
        for name in names:
            relative = os.path.join(folder, name)
            path = os.path.join(root, relative)
            real = os.path.realpath(path)
            if os.path.isfile(path):
                if relative != MARK:
                    files.append(relative)
            elif not os.path.exists(path):
                broken.append(relative)
            elif not os.path.isdir(path):
                note(f"{relative} is neither a file nor a directory; it is not stored")
            elif real in above:
                note(f"{relative} is a link to a directory around it; it is not stored")
            else:
                directories.append(relative)
                todo.append((relative, above | {real}))
    return sorted(directories), sorted(files), sorted(broken)


class OutputUpload:
    """The upload of one output: all of it or nothing at its place, and nothing that was trained is
    dropped. Its steps bear being begun again by another process.

    It is written beside its place first, so that no reader sees a part of it, and then renamed. A
    rename fails where something is, so what another job has put there meanwhile is never lost. What
    was there when the upload began is renamed away first, with `overwrite`, and goes to the user's
    trash unless an upload of this program wrote it: a wrong URI shall not cost a directory of
    somebody's.
    """

    def __init__(
        self, store: FileStore, target: str, step: Mapping[str, Any], copying: Copying
    ) -> None:
        self.store, self.target, self.step, self.copying = store, target, step, copying
        folder, name = posixpath.split(target)
        self.prefix = posixpath.join(folder, f".{name}.")
        self.place = self.prefix + step["mark"] + NEW
        self.old = self.prefix + step["mark"] + OLD
        self.aside = f"{target}.failed-{step['run']}"
        self.was: Version | None = None
        self.broken: list[str] = []  # links to nothing

    def run(self) -> None:
        """Store the output.

        Raises:
            StoreError: It is not at its place; the message says where it is, if anywhere.
        """
        directories, files, self.broken = tree(self.step["from"], self._note)
        if not files:
            raise StoreError(f"nothing was written to {self.step['from']}")
        self._try(self._begin)
        if not self.store.renames:
            good = not self.broken and self._may_replace(self.was)
            self.place = self.target if good else self.aside
        self._try(lambda: self.store.remove(self.place))
        try:
            for name in [""] + directories:
                self._try(partial(self.store.mkdirs, posixpath.join(self.place, name).rstrip("/")))
            with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
                list(pool.map(self._send, files))
            self._try(self._sign)
            self._settle()
        except BaseException:
            if self.store.renames:
                with contextlib.suppress(StoreError):
                    self.store.remove(self.place)
            raise
        self._sweep()

    def _try(self, call: Callable[[], Any]) -> Any:
        return self.copying.retry(call)

    def _note(self, text: str) -> None:
        self.copying.tell(t="note", text=f"the output {self.step['name']}: {text}")

    # --- what stands there ---
    def _begin(self) -> None:
        """Note what is to be replaced; finish what an earlier process of this task had begun."""
        if self.store.renames and self.store.exists(self.old):
            if self.store.exists(self.target):
                self._dispose(self.old)
            else:
                self.store.rename(self.old, self.target)
        if "was" in self.step:
            self.was = self.step["was"]
        else:
            self.was = self.store.version(self.target)
            self.copying.tell(t="found", name=self.step["name"], was=self.was)

    def _may_replace(self, there: Version | None) -> bool:
        """Return whether an upload may replace what is there: what was there at its beginning, or
        what an earlier container of this task has stored.
        """
        if there is None or (self.step["overwrite"] and there == self.was):
            return True
        signed = self._signature(self.target)
        return all(signed.get(key) == self.step[key] for key in ("run", "task"))

    def _signature(self, path: str) -> dict[str, Any]:
        """Return what the upload that wrote a directory has left in it; {} if none did."""
        try:
            content = b"".join(self.store.read(posixpath.join(path, MARK)))
            found = json.loads(content.decode("utf-8"))
        except (StoreError, ValueError) as err:
            if isinstance(err, StoreError) and err.transient:
                raise
            return {}
        return found if isinstance(found, dict) else {}

    def _sign(self) -> None:
        path = posixpath.join(self.place, MARK)
        me = {"run": self.step["run"], "task": self.step["task"]}
        text = json.dumps(me, sort_keys=True).encode("ascii")
        self.store.remove(path)
        self.store.write(path, [text], len(text))

    # --- copying ---
    def _send(self, name: str) -> None:
        source, target = os.path.join(self.step["from"], name), posixpath.join(self.place, name)
        begun: list[bool] = []

        def send() -> None:
            if begun:  # the file may be there
                self.store.remove(target)
            begun.append(True)
            with store_errors(source):
                file = open(source, "rb")  # noqa: SIM115 - closed below; what goes wrong in between is about the target
            with file:
                size = os.fstat(file.fileno()).st_size
                self.store.write(target, pieces(file, size, self.copying.tick), size)
            if self.store.stat(target)[2] != size:
                raise StoreError(f"{target}: is not as long as what was written", transient=True)

        self._try(send)
        self.copying.tick(0, 1)

    # --- the last step ---
    def _settle(self) -> None:
        """Rename the upload to its target, or beside it if something else stands there."""
        if not self.store.renames:
            if self.place == self.aside:
                self._set_aside(self.was)
            return
        there = self._try(lambda: self.store.version(self.target))
        if self.broken or not self._try(lambda: self._may_replace(there)):
            self._set_aside(there)
        if there:
            self._rename(self.target, self.old)
            if self._try(lambda: self.store.version(self.old)) != there:  # replaced just now
                self._rename(self.old, self.target)
                self._set_aside(None)
        try:
            placed = self._rename(self.place, self.target)
        except StoreError:
            if there:
                with contextlib.suppress(StoreError):
                    self.store.rename(self.old, self.target)
            raise
        if there:
            self._try(lambda: self._dispose(self.old))
        if not placed:
            self._set_aside(None)

    def _rename(self, source: str, target: str) -> bool:
        """Rename; return False if something is at the target."""

        def rename() -> bool:
            try:
                self.store.rename(source, target)
            except StoreError:
                if not self.store.exists(target):
                    raise
                return not self.store.exists(source)  # then only the response was lost
            return True

        done: bool = self._try(rename)
        return done

    def _set_aside(self, there: Version | None) -> None:
        """Leave the upload beside its target, and raise `StoreError`: it is not at its place."""
        why = f"{self.target}: something else was stored there during the upload, and stays"
        if self.broken:
            why = f"{os.path.join(self.step['from'], self.broken[0])} is a link to nothing"
        elif there == self.was and not self.step["overwrite"]:
            why = f"{self.target}: exists already; set overwrite: true to replace it"
        if self.store.renames:
            self._try(lambda: self.store.remove(self.aside))
            self._rename(self.place, self.aside)
        raise StoreError(f"{why}; the output is at {self.aside}")

    def _dispose(self, old: str) -> None:
        """Remove a replaced output; what no upload wrote goes to the trash, as with `hdfs dfs -rm`
        (TrashPolicyDefault), or beside the target where there is no trash.
        """
        if self._signature(old):
            self.store.remove(old)
            return
        to = f"{self.target}.replaced-{self.step['run']}"
        try:
            trash = self.store.trash(self.target)
            if trash:
                in_trash = trash + "/Current" + self.target
                self.store.mkdirs(posixpath.dirname(in_trash), permission="700")
                if self.store.exists(in_trash):
                    in_trash += f"{int(time.time() * 1000)}"
                self.store.rename(old, in_trash)
                to = in_trash
        except StoreError as err:
            if err.transient:
                raise
            trash = ""
        if not trash:
            self.store.rename(old, to)
        self._note(
            f"what stood at {self.target} was no output of an earlier job, and is now at {to}"
        )

    def _sweep(self) -> None:
        """Remove what uploads to this target have left that were killed more than a day ago."""
        if not self.store.renames:
            return
        with contextlib.suppress(StoreError):
            now = self.store.version(self.target)
            for path, is_dir, _ in self.store.list(posixpath.dirname(self.target)):
                if is_dir and path.startswith(self.prefix) and path.endswith((NEW, OLD)):
                    left = self.store.version(path)
                    if now and left and now[0] - left[0] > LEFT_MS:
                        self.store.remove(path) if path.endswith(NEW) else self._dispose(path)


# --- the program ----------------------------------------------------------------------------------
def run(request: Mapping[str, Any], tell: Callable[..., None]) -> int:
    """Run the steps, report progress and the result, and return the exit status."""
    copying = Copying(tell, request["patience_s"])
    for step in request["steps"]:
        try:
            if step["do"] == "download":
                download(step, copying)
            else:
                store, target = copying.retry(partial(open_store, step["uri"], os.environ))
                OutputUpload(store, target, step, copying).run()
        except StoreError as err:
            tell(t="failed", name=step["name"], uri=step["uri"], why=str(err))
            return 1
    tell(t="done", files=copying.files, bytes=copying.bytes)
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
