"""HDFS as a client sees it: staged files, and the services that YARN keeps."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable

from submit_tf_job.errors import Refused
from submit_tf_job.storage.base import NoSuchPath, PathExists, Stat, Storage
from tests.world.yarn import Directory, Yarn

__all__ = ["Hdfs"]

ROOT = "hdfs://nn.example.com:8020"


class Hdfs(Storage):
    """One client's HDFS.

    Args:
        yarn: The cluster whose files these are.
        touch: Called before each operation: takes time, and raises where HDFS does not answer.
    """

    def __init__(self, yarn: Yarn, touch: Callable[[str], None]) -> None:
        super().__init__(ROOT)
        self._yarn, self._touch = yarn, touch

    @property
    def _files(self) -> dict[str, bytes]:
        return self._yarn.files

    def _service(self, path: str) -> tuple[str, Directory | None]:
        """Return what a path below a service's directory is there ("" for the directory itself, "?"
        for all other paths), and the directory.
        """
        parts = path.split("/")  # /user/alice/.yarn/services/NAME/NAME.json
        if not 6 <= len(parts) <= 7 or parts[3:5] != [".yarn", "services"]:
            return "?", None
        return "/".join(parts[6:]), self._yarn.directories.get((parts[2], parts[5]))

    def _content(self, path: str) -> bytes | None:
        name, where = self._service(path)
        if where is None or not name.endswith(".json"):
            return self._files.get(path)
        if where.spec is None:
            return b"" if where.torn else None
        if where.text is None:
            where.text = json.dumps(where.spec).encode()
        return where.text

    def _stat_path(self, path: str) -> Stat:
        self._touch("stat")
        return self._seen(path)

    def _seen(self, path: str) -> Stat:
        content, (name, where) = self._content(path), self._service(path)
        if content is not None:
            mode = 0o400 if "keytab" in path else 0o600
            json_of = where if where is not None and name.endswith(".json") else None
            written_ms = json_of.written_ms if json_of else self._yarn.written_ms[path]
            return Stat(path, len(content), False, mode, "alice", written_ms)
        if where is not None and (not name or (name == "lib" and where.jars)):
            return Stat(path, 0, True, 0o700, "alice", where.changed_ms)
        if path == "/" or any(other.startswith(path + "/") for other in list(self._files)):
            return Stat(path, 0, True, 0o700, "alice", 1_600_000_000_000)
        raise NoSuchPath(f"{self.url(path)}: there is no such file or directory")

    def _list_directory(self, path: str) -> list[Stat]:
        self._touch("list")
        services = {f"/user/{user}/.yarn/services/{name}" for user, name in self._yarn.directories}
        below = [other for other in (*list(self._files), *services) if other.startswith(path + "/")]
        if not below:
            raise NoSuchPath(f"{self.url(path)}: there is no such file or directory")
        names = sorted({other[len(path) + 1 :].partition("/")[0] for other in below})
        return [self._seen(f"{path}/{name}") for name in names if name]

    def _open_file(self, path: str) -> tuple[int, Callable[[int, int], bytes]]:
        self._touch("read " + path)
        content = self._content(path)
        if content is None:
            raise NoSuchPath(f"{self.url(path)}: there is no such file or directory")
        return len(content), lambda start, length: content[start : start + length]

    def _set_mode(self, path: str, mode: int) -> None:
        """Do nothing: rights are not modelled."""

    def _remove_path(self, path: str, *, recursive: bool) -> None:
        self._touch("remove")
        name, where = self._service(path)
        gone = [one for one in list(self._files) if one == path or one.startswith(path + "/")]
        if not recursive and gone not in ([], [path], [path + "/"]):
            raise Refused(f"{self.url(path)}: is not empty")
        for other in gone:
            del self._files[other]
        if where is not None:
            where.changed_ms = self._yarn.clock.epoch_ms()
            where.jars = where.jars and name != "lib"
        elif any(not other.endswith("/") for other in gone):
            told = re.sub(r"\.[0-9a-f]{8}$", "", path)  # random
            self._yarn.clock.log("hdfs", f"{told} is removed")

    def home(self, user: str) -> str:
        return f"/user/{user}"

    def _create_file(self, path: str, pieces: Iterable[bytes], mode: int) -> None:
        self._touch("create")
        name, where = self._service(path)
        if name != "?":  # without its parents: FSDirWriteFileOp.startFile with createParent false
            if where is None:
                raise NoSuchPath(f"{self.url(path)}: there is no such directory")
            where.changed_ms = self._yarn.clock.epoch_ms()
        else:
            self._seen(path.rpartition("/")[0] or "/")
        if path in self._files:
            raise PathExists(f"{self.url(path)}: exists")
        self._files[path] = b"".join(pieces)
        self._yarn.written_ms[path] = self._yarn.clock.epoch_ms()

    def _rename_path(self, source: str, target: str, *, overwrite: bool) -> None:
        self._touch("rename")
        files = list(self._files)  # uploads run side by side
        there = [path for path in files if path == target or path.startswith(target + "/")]
        if there and not overwrite:
            raise PathExists(f"{self.url(target)}: exists")
        moved = [path for path in files if path == source or path.startswith(source + "/")]
        if not moved:
            raise NoSuchPath(f"{self.url(source)}: there is no such file or directory")
        for path in moved:
            new = target + path[len(source) :]
            self._files[new] = self._files.pop(path)
            if path in self._yarn.written_ms:
                self._yarn.written_ms[new] = self._yarn.written_ms[path]

    def _make_directory(self, path: str, mode: int) -> None:
        self._touch("mkdir")
        self._files.setdefault(path + "/", b"")
