"""Store the directory of an output: all of it or nothing at its place."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import posixpath
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import PurePath
from typing import Any

from submit_tf_job.container import untrusted
from submit_tf_job.container.data.store import (
    Copying,
    FileStore,
    NotFound,
    StoreError,
    Version,
    pieces,
    retry,
    shown,
    store_errors,
)

SIDE_BY_SIDE = 4
MARK = ".submit_tf_job"  # a file in each stored output; readers of Hadoop skip such names
NEW, OLD = ".tfjob-tmp", ".tfjob-old"
LEFT_MS = 24 * 3600 * 1000  # the age at which what an upload left is nobody's any more
LONGEST = 64  # bytes of a target's name that its hidden names repeat
TURNS = 5  # how often something else may come to the place between two steps
CLEAR_S = 60.0  # how long it is tried to clear away what an output has replaced
NAMED = 3  # entries that a message names
FILE, DIRECTORY, LEFT, NOTHING = "file", "directory", "left", "nothing"


def entries(root: str) -> Iterator[tuple[str, str, str]]:
    """Yield kind and relative path of each entry below a directory (or of the file itself, if it is
    a file); and, for an entry that is not stored, the reason. The mark of an upload is left out.

    Links are followed. The kind `LEFT` means an entry that cannot be stored; `NOTHING` means an
    entry without content of its own: a link to a directory that contains the link, a socket, a
    pipe.

    Raises:
        StoreError: The directory itself cannot be read; `NotFound` if it does not exist.
    """
    if os.path.isfile(root):
        yield FILE, "", ""
        return
    top = PurePath(os.path.realpath(root))
    todo = [("", frozenset(map(str, [top, *top.parents])))]
    while todo:
        folder, above = todo.pop()
        try:
            with store_errors(os.path.join(root, folder)):
                names = os.listdir(os.path.join(root, folder))
        except StoreError as err:
            if not folder:
                raise
            yield LEFT, folder, _cannot_be_read(err)
            continue
        for name in sorted(names):
            relative = os.path.join(folder, name)
            path = os.path.join(root, relative)
            real = os.path.realpath(path)
            if os.path.isfile(path):
                if relative != MARK or not signature(path):
                    yield FILE, relative, ""
            elif not os.path.exists(path):
                yield LEFT, relative, "is a link to nothing"
            elif not os.path.isdir(path):
                yield NOTHING, relative, "is neither a file nor a directory"
            elif real in above:
                yield NOTHING, relative, "is a link to a directory around it"
            else:
                yield DIRECTORY, relative, ""
                todo.append((relative, above | {real}))


def _cannot_be_read(err: StoreError) -> str:
    return "cannot be read: " + _without_path(err)


def _without_path(err: StoreError) -> str:
    """Return the message of an error without the path at its beginning: a message that names
    several entries has little space for each.
    """
    return str(err).partition(": ")[2]


def is_empty(root: str) -> bool:
    """Return whether there is nothing to store below a directory, or no such directory; False if it
    cannot be read.
    """
    try:
        return all(kind in (DIRECTORY, NOTHING) for kind, _, _ in entries(root))
    except StoreError as err:
        return isinstance(err, NotFound)


def signature(path: str) -> dict[str, Any]:
    """Return the content of a mark that an upload has written, from a file on this disk; {} for any
    other file.
    """
    with contextlib.suppress(OSError), open(path, "rb") as source:
        return _signature_of(source.read(1000))
    return {}


def _signature_of(content: bytes) -> dict[str, Any]:
    try:
        found = untrusted.parse(content.decode("utf-8"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) and {"run", "task"} <= set(found) else {}


def _shortened(name: str) -> str:
    """Return a name, or another one in place of a long name. The hidden names of an upload also
    have its mark, and file systems accept 255 bytes.
    """
    encoded = name.encode("utf-8", "surrogateescape")
    if len(encoded) <= LONGEST:
        return name
    return f"{name[:10]}-{hashlib.sha256(encoded).hexdigest()[:16]}"


class OutputUpload:
    """The upload of one output. Either the whole output is put at its place or nothing, and no
    result of the training is deleted. Another process may repeat the steps.

    The output is first written beside its place, so that no reader sees a part of it, and then
    renamed. A rename fails if something exists at the new place, so a result that another job has
    put there meanwhile is never lost. With `overwrite`, content that existed there when the upload
    began is renamed away first. It is then moved to the user's trash, unless an upload of this
    program wrote it: a wrong URI must not delete another directory.

    An object store has no renames: there the objects are written to the place one by one, and
    former objects are removed afterwards.
    """

    def __init__(
        self, store: FileStore, target: str, step: Mapping[str, Any], copying: Copying
    ) -> None:
        self.store, self.target, self.step, self.copying = store, target, step, copying
        folder, name = posixpath.split(target)
        self.prefix = posixpath.join(folder, f".{_shortened(name)}.")
        self.place = self.prefix + step["mark"] + NEW
        self.own_old = self.prefix + step["mark"] + "."  # how what it renames away begins
        self.old = ""  # what it has renamed away
        self.aside = f"{target}.failed-{step['run']}"
        self.was: Version | None = None
        self.sources: dict[str, str] = {}  # of each file its path on this disk
        self.directories: set[str] = set()
        self.left: dict[str, str] = {}  # what cannot be stored, and why
        self.refused: list[str] = []  # of these the store refuses the name
        self.marked = True  # the output has the mark, whose name the job does not use itself
        self.complete = False  # all that can be stored is at `place`
        self.cleared: dict[str, str] = {}  # where what was replaced is moved
        self.former: list[str] = []  # objects that are not written anew

    def run(self) -> None:
        """Store the output.

        Raises:
            StoreError: The output is not at its place; the message says where it is, if it is
                stored at all.
        """
        if "stored" in self.step:  # by a process that died since
            self.old = self.step["stored"]
            self._clear_away()
            return
        self._find_entries()
        if not self.sources:
            raise StoreError(self._left_text() or f"nothing was written to {self.step['from']}")
        self._with_retries(self._begin_upload)
        if not self.store.renames:
            good = not self._is_partial() and self._may_replace(self.was)
            self.place = self.target if good else self.aside
            self.former = self._with_retries(self._find_objects)
        else:
            self._with_retries(lambda: self.store.remove(self.place))
        try:
            self._write_entries()
            self._rename_to_target()
            for path in self.former:
                self._with_retries(partial(self.store.remove, path))
        except BaseException as err:
            if self.complete and isinstance(err, StoreError) and self.store.renames:
                raise StoreError(f"{err}; {self._leave_beside()}") from err
            if self.store.renames:
                with contextlib.suppress(StoreError):
                    self.store.remove(self.place)
            raise
        self.copying.tell(t="stored", name=self.step["name"], old=self.old)
        self._clear_away()

    def _with_retries(self, call: Callable[[], Any]) -> Any:
        return self.copying.retry(call)

    def _log_note(self, text: str) -> None:
        self.copying.tell(t="note", text=f"the output {self.step['name']}: {text}")

    def _find_objects(self) -> list[str]:
        """Return the objects that exist below the place; they are removed when the new objects are
        there. An object with the very name of the place is moved away now: beside it, some stores
        accept nothing below that name.
        """
        if not self.store.exists(self.place):
            return []
        if not self.store.stat(self.place)[1]:  # an object of just this name
            beside = self._free_name_beside()
            self.store.rename(self.place, beside)
            self._log_note(f"what stood at {self.place} before is now at {beside}")
            return []
        found: list[str] = []
        todo = [self.place]
        while todo:
            self.copying.tick(0)
            with contextlib.suppress(NotFound):  # its last object is removed meanwhile
                for path, is_prefix, _ in self.store.list(todo.pop()):
                    (todo if is_prefix else found).append(path)
        return found

    # --- what is to be stored ---
    def _find_entries(self) -> None:
        """Find the directories and files of the output: those of its directory, and what is
        collected beside it.

        Raises:
            StoreError: The directory cannot be read.
        """
        folder, beside = self.step["from"], self.step.get("collected", {})
        for top, root in [("", folder), *sorted(beside.items())]:
            try:
                for kind, below, why in entries(root):
                    name = "/".join(filter(None, (top, below)))
                    self._take_entry(kind, name, os.path.join(root, below).rstrip("/"), why)
            except StoreError as err:
                if top:
                    self.left[top] = _cannot_be_read(err)
                elif not (beside and isinstance(err, NotFound)):  # the program has removed it
                    raise
        self.directories.update(name for name, path in beside.items() if os.path.isdir(path))
        for name in [*beside, *self.sources]:
            while posixpath.dirname(name):
                name = posixpath.dirname(name)
                self.directories.add(name)

    def _take_entry(self, kind: str, name: str, path: str, why: str) -> None:
        """Note an entry of the output, by the name that it is stored under."""
        self.copying.tick(0)
        if kind == LEFT:
            self.left[name] = why
        elif kind == NOTHING:
            self._log_note(f"{shown(name)} {why}; it is not stored")
        elif kind == DIRECTORY:
            self.directories.add(name)
        elif name in self.sources:
            text = "is also in its directory; that of the working directory is not stored"
            self._log_note(f"{shown(name)} {text}")
        elif name:
            self.sources[name] = path
        else:
            name = os.path.basename(path)
            self.sources[name] = path
            stored = posixpath.join(self.step["uri"], name)
            self._log_note(f"the program wrote a file in place of its directory; it is at {stored}")
        if name == MARK and kind in (FILE, DIRECTORY):
            self.marked = False
            self.left[name] = "has the name of this program's own mark"

    def _is_partial(self) -> bool:
        """Return whether entries are missing that cannot be stored, so that the upload must not be
        put at the output's place.
        """
        return bool(self.left) and not self.step.get("beside")

    def _left_text(self) -> str:
        """Return a sentence that names the entries which cannot be stored."""
        base = os.path.basename(self.step["from"])
        # the report keeps 500 characters of all
        found = sorted(self.left.items())[:NAMED]
        texts = [f"{base}/{shown(name)[:60]} {why[:60]}" for name, why in found]
        more = len(self.left) - NAMED
        return "; ".join(texts + [f"and {more} more, which the log names"] * (more > 0))

    def _leave_out(self, name: str, err: StoreError) -> None:
        """Continue without an entry whose error is permanent, such as a name that HDFS does not
        accept.
        """
        self.left[name] = "is refused: " + _without_path(err)
        self.refused.append(name)
        text = f"the output {self.step['name']}: {shown(name)} is refused: {err}"
        self.copying.tell(t="said", text=text)

    # --- what stands there ---
    def _begin_upload(self) -> None:
        """Remember the version that the upload may replace; finish steps that an earlier process of
        this task has begun.
        """
        mine = []
        if self.store.renames:
            found = self._renamed_away()
            mine = [path for _, path in found if path.startswith(self.own_old)]
            if found and not mine and not self.store.exists(self.target):
                mine = [found[-1][1]]  # of an upload that was killed before it put its own there
        for path in mine:
            self._bring_back(path)
        if "was" in self.step:
            self.was = self.step["was"]
        else:
            self.was = self.store.version(self.target)
            self.copying.tell(t="found", name=self.step["name"], was=self.was)

    def _renamed_away(self) -> list[tuple[int, str]]:
        """Return time and path of each former output that an upload to this place has renamed away,
        sorted by time.
        """
        found = []
        with contextlib.suppress(NotFound):  # the directory does not exist
            for path, _, _ in self.store.list(posixpath.dirname(self.target)):
                parts = self._hidden_parts(path, OLD)
                if len(parts) == 2 and parts[1].isdecimal():
                    found.append((int(parts[1]), path))
        return sorted(found)

    def _hidden_parts(self, path: str, end: str) -> list[str]:
        """Return the parts of a hidden name of an upload to this place: its mark and, of what it
        has renamed away, the time. [] for another name.

        A mark has no dot. So `.m.v2.MARK.tfjob-tmp`, of an upload to `m.v2`, has one part too many
        for `m`.
        """
        if not (path.startswith(self.prefix) and path.endswith(end)):
            return []
        return path[len(self.prefix) : -len(end)].split(".")

    def _bring_back(self, old: str) -> None:
        """Rename a former output from its hidden name back to its place, or, if something else
        exists there, to a name beside the place.
        """
        if self._rename_if_free(old, self.target) or not self.store.exists(old):
            return
        beside = self._free_name_beside()
        if self._rename_if_free(old, beside):
            self._log_note(f"what stood at {self.target} before is now at {beside}")

    def _free_name_beside(self) -> str:
        """Return a name beside the target that does not exist yet."""
        path = f"{self.target}.replaced-{self.step['run']}"
        return path + f"-{int(time.time() * 1000)}" if self.store.exists(path) else path

    def _may_replace(self, there: Version | None) -> bool:
        """Return whether the upload may replace the content that is now at its place: there is
        none; with `overwrite`, it was there when the upload began; or an earlier container of this
        task has stored it.
        """
        if there is None or (self.step["overwrite"] and there == self.was):
            return True
        signed = self._mark_at(self.target)
        return all(signed.get(key) == self.step[key] for key in ("run", "task"))

    def _mark_at(self, path: str) -> dict[str, Any]:
        """Return the content of the mark of an upload in a directory; {} if there is no mark.

        Raises:
            StoreError: The store does not respond.
        """
        try:
            return _signature_of(b"".join(self.store.read(posixpath.join(path, MARK))))
        except StoreError as err:
            if err.transient:
                raise
            return {}

    def _write_mark(self) -> None:
        path = posixpath.join(self.place, MARK)
        me = {"run": self.step["run"], "task": self.step["task"]}
        text = json.dumps(me, sort_keys=True).encode("ascii")
        self.store.remove(path)
        self.store.write(path, [text], len(text))

    # --- copying ---
    def _write_entries(self) -> None:
        """Write all that can be stored to `place`, and the mark.

        Raises:
            StoreError: No file could be stored, or the store does not respond.
        """
        self._with_retries(partial(self.store.mkdirs, self.place))
        for name in sorted(self.directories):
            self._store_entry(name, partial(self.store.mkdirs, posixpath.join(self.place, name)))
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            stored = list(pool.map(self._send_file, sorted(self.sources)))
        if not any(stored):
            raise StoreError(self._left_text())
        if self.marked:
            self._with_retries(self._write_mark)
        self.complete = True
        kept = {posixpath.join(self.place, name) for name in (MARK, *self.sources)}
        self.former = [path for path in self.former if path not in kept]

    def _store_entry(self, name: str, store: Callable[[], object]) -> bool:
        """Store an entry; return False if the store refuses it permanently."""
        if any(name.startswith(folder + "/") for folder in list(self.refused)):
            return False
        try:
            self.copying.retry(store, entry=True)
        except StoreError as err:
            if err.transient:
                raise
            self._leave_out(name, err)
            return False
        return True

    def _send_file(self, name: str) -> bool:
        source, target = self.sources[name], posixpath.join(self.place, name)
        attempts: list[int] = []  # bytes of each
        size = 0

        def tick(count: int) -> None:
            attempts[-1] += count
            self.copying.tick(count)

        def send() -> None:
            nonlocal size
            if attempts:  # the file may be there
                self.copying.tick(-attempts[-1])
                self.store.remove(target)
            attempts.append(0)
            with store_errors(source):
                file = open(source, "rb")  # noqa: SIM115 - closed below; what goes wrong in between is about the target
            with file:
                size = os.fstat(file.fileno()).st_size
                self.store.write(target, pieces(file, size, tick), size)
            if self.store.stat(target)[2] != size:
                raise StoreError(f"{target}: is not as long as what was written", transient=True)

        if not self._store_entry(name, send):
            return False
        self.copying.tick(0, 1)
        with contextlib.suppress(OSError):
            if os.stat(source).st_size != size:
                text = "was still being written, and is stored as it was in between"
                self._log_note(f"{shown(name)} {text} ({size} bytes)")
        return True

    # --- the last step ---
    def _rename_to_target(self) -> None:
        """Rename the upload to its target; if something else exists there, or entries are missing,
        rename it to a name beside the target, and raise `StoreError`.
        """
        if not self.store.renames:
            if self.place == self.aside or self._is_partial():
                self._set_aside(self.was)
            return
        there = None
        for _ in range(TURNS):
            there = self._with_retries(lambda: self.store.version(self.target))
            if self._is_partial() or not self._with_retries(partial(self._may_replace, there)):
                break
            if there and not self._hide_replaced(there):
                continue
            try:
                if self._rename_if_free(self.place, self.target):
                    return
            except StoreError:
                if self.old:
                    with contextlib.suppress(StoreError):
                        self.store.rename(self.old, self.target)
                raise
            if self.old:
                self._with_retries(partial(self._bring_back, self.old))
                self.old = ""
        self._set_aside(there)

    def _hide_replaced(self, there: Version) -> bool:
        """Rename away the content that the output replaces; return False if by then other content
        is there.

        A rename does not change the time of a directory. So the new name contains the time of the
        rename, by the store's clock.
        """
        written = self._with_retries(lambda: self.store.version(self.place)) or [0]
        self.old = f"{self.own_old}{written[0]}{OLD}"

        def rename() -> None:
            try:
                self.store.rename(self.target, self.old)
            except StoreError:
                # the response was lost, or another upload has renamed it away
                if not self.store.exists(self.old) and self.store.exists(self.target):
                    raise

        self._with_retries(rename)
        found = self._with_retries(lambda: self.store.version(self.old))
        if found == there:
            return True
        if found:
            self._with_retries(partial(self._bring_back, self.old))
        self.old = ""
        return False

    def _rename_if_free(self, source: str, target: str) -> bool:
        """Rename a path that no other process renames; return False if the target exists."""

        def rename() -> bool:
            try:
                self.store.rename(source, target)
            except StoreError:
                if self.store.exists(source):
                    if self.store.exists(target):
                        return False
                    raise
            return True  # or only the response was lost

        done: bool = self._with_retries(rename)
        return done

    def _set_aside(self, there: Version | None) -> None:
        """Leave the upload beside its target, and raise `StoreError`, because the output is not at
        its place.
        """
        why = f"{self.target}: something else was stored there during the upload, and stays"
        if self._is_partial():
            why = self._left_text()
        elif there == self.was and not self.step["overwrite"]:
            why = f"{self.target}: exists already; set overwrite: true to replace it"
        if self.store.renames:
            self._with_retries(lambda: self.store.remove(self.aside))
            if not self._rename_if_free(self.place, self.aside):
                raise StoreError(why)
        self.complete = False  # and told here where it is
        what = "the rest" if self._is_partial() and self.marked else "the output"
        # objects may have been written before one was refused
        raise StoreError(f"{why}; {what} is at {self.aside if self.store.renames else self.place}")

    def _leave_beside(self) -> str:
        """Rename a complete upload, whose last step has failed, to its name beside the target, if
        that is free. Return where it is, for a message.
        """
        try:
            if self.store.exists(self.place) and not self.store.exists(self.aside):
                self.store.rename(self.place, self.aside)
                return f"the output is at {self.aside}"
        except StoreError:
            return f"all of it may be at {self.place} or {self.aside}"
        return f"all of it may be at {self.place}"

    # --- after it ---
    def _clear_away(self) -> None:
        """Remove the replaced output, and the leftovers of killed uploads; do nothing in an object
        store. Errors are only noted or ignored, because the output is stored by now.
        """
        if not self.store.renames:
            return
        if self.left:
            self._log_note(f"not all of it is stored: {self._left_text()}")
        wait = self.copying.failed.wait
        try:
            if self.old:
                retry(
                    partial(self._dispose_of, self.old), CLEAR_S, wait, lambda _err, _since_s: None
                )
        except StoreError as err:
            self._log_note(f"what stood at {self.target} before is still at {self.old}: {err}")
        with contextlib.suppress(StoreError):
            self._remove_leftovers()

    def _dispose_of(self, old: str) -> None:
        """Remove a replaced output. If no upload wrote it, move it to the trash, as `hdfs dfs -rm`
        does (TrashPolicyDefault), or to a name beside the target if there is no trash.
        """
        if self.store.exists(old):
            if self._mark_at(old):
                self.store.remove(old)
                return
            self._move_away(old)
        if old in self.cleared:
            text = f"what stood at {self.target} was no output of an earlier job, and is now at "
            self._log_note(text + self.cleared.pop(old))

    def _move_away(self, old: str) -> None:
        """Move replaced content to the trash, or to a name beside the target if there is no
        trash.
        """
        try:
            trash = self.store.trash(self.target)
            if trash:
                self.cleared[old] = in_trash = f"{trash}/Current{self.target}"
                self.store.mkdirs(posixpath.dirname(in_trash), permission="700")
                if self.store.exists(in_trash):
                    self.cleared[old] = in_trash + f"{int(time.time() * 1000)}"
                self.store.rename(old, self.cleared[old])
                return
        except StoreError as err:
            if err.transient:
                raise
        self.cleared[old] = self._free_name_beside()
        self.store.rename(old, self.cleared[old])

    def _remove_leftovers(self) -> None:
        """Clear away what killed uploads to this target left more than a day ago: remove their
        unfinished copies, put complete ones beside the target, and move former outputs that they
        had renamed away to the trash. A former output that a lost container of this task had
        renamed away is cleared away at once.
        """
        written = self.store.version(self.target)
        before = (written or [0])[0] - LEFT_MS
        mine = f"{self.prefix}{self.step['run']}-{self.step['task']}-"
        for at, path in self._renamed_away():
            if path.startswith(mine):  # of a lost container of this task
                self._dispose_of(path)
            elif at < before:
                self._move_away(path)
        for path, _, _ in self.store.list(posixpath.dirname(self.target)):
            parts = self._hidden_parts(path, NEW)
            left = self.store.version(path) if len(parts) == 1 else None
            if left and left[0] < before:
                beside = f"{self.target}.failed-{parts[0]}"
                if not self._mark_at(path) or self.store.exists(beside):
                    self.store.remove(path)
                    continue
                self.store.rename(path, beside)  # once: the output itself is stored
                self._log_note(f"an upload that had not come to its place is now at {beside}")
