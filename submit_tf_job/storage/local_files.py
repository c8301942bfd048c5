"""The file system of this machine (`file://`)."""

from __future__ import annotations

import os
import shutil
import stat as modes
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from submit_tf_job.errors import UsageError
from submit_tf_job.storage.base import Stat, Storage, join
from submit_tf_job.storage.failures import translated


@dataclass(frozen=True)
class _LocalFile:
    path: str
    size: int

    def read_range(self, start: int, length: int) -> bytes:
        with translated(f"file://{self.path}"), Path(self.path).open("rb") as file:
            file.seek(start)
            return file.read(max(0, min(length, self.size - start)))


class LocalStorage(Storage):
    """The file system of this machine."""

    def __init__(self) -> None:
        super().__init__("file://")

    def _is_me(self, scheme: str, authority: str) -> bool:
        return scheme == "file" and authority == "localhost"

    def stat(self, path: str) -> Stat:
        """Return the metadata of one file or directory."""
        path = self.path(path)
        with translated(self.root + path):
            return _stat(path, Path(path).stat())

    def list_dir(self, path: str) -> list[Stat]:
        """List a directory, sorted by name."""
        path = self.path(path)
        with translated(self.root + path), os.scandir(path) as entries:
            found = [
                _stat(join(path, entry.name), entry.stat())
                for entry in entries
                if entry.is_file() or entry.is_dir()
            ]
        return sorted(found, key=lambda item: item.path)

    def open(self, path: str) -> _LocalFile:
        """Open a file for reading at any offset."""
        found = self.stat(path)
        with translated(self.root + found.path):
            if found.is_dir:
                raise IsADirectoryError("is a directory")
        return _LocalFile(found.path, found.size)

    def chmod(self, path: str, mode: int) -> None:
        """Set permission bits."""
        path = self.path(path)
        with translated(self.root + path):
            Path(path).chmod(mode)

    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, an empty directory, or with `recursive` a directory with its content."""
        file = Path(self.path(path))
        with translated(f"{self.root}{file}"):
            if not file.is_dir() or file.is_symlink():
                file.unlink(missing_ok=True)
            elif recursive:
                shutil.rmtree(file)
            else:
                file.rmdir()

    def home(self, user: str) -> str:
        """Return the path of a user's home directory."""
        try:
            return str(Path(f"~{user}").expanduser())
        except RuntimeError:
            raise UsageError(
                f"file://: this machine knows no home of {user}", hint="Name the directory to use."
            ) from None

    def _create(self, path: str, pieces: Iterable[bytes], mode: int) -> None:
        with translated(self.root + path):
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.writelines(pieces)
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())

    def _rename(self, source: str, target: str, *, overwrite: bool) -> None:
        with translated(self.root + target):
            if overwrite or Path(source).is_dir():  # it replaces no directory with content
                Path(source).replace(target)
            else:
                os.link(source, target)  # unlike rename(2), it fails if the target exists
                Path(source).unlink()

    def _mkdir(self, path: str, mode: int) -> None:
        with translated(self.root + path):
            try:
                Path(path).mkdir(mode=0o700)
            except FileExistsError:
                if Path(path).is_dir():
                    return
                raise
            Path(path).chmod(mode)


def _stat(path: str, found: os.stat_result) -> Stat:
    is_dir = modes.S_ISDIR(found.st_mode)
    return Stat(
        path=path,
        size=0 if is_dir else found.st_size,
        is_dir=is_dir,
        mode=modes.S_IMODE(found.st_mode),
        owner=_owner(found.st_uid),
        group=str(found.st_gid),
        modified_ms=int(found.st_mtime * 1000),
    )


def _owner(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
