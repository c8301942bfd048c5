"""The file system of this machine (`file://`)."""

from __future__ import annotations

import os
import shutil
import stat as modes
from collections.abc import Iterable
from pathlib import Path

from submit_tf_job.errors import UsageError
from submit_tf_job.storage.base import Stat, Storage, join


class LocalStorage(Storage):
    """The file system of this machine."""

    def __init__(self) -> None:
        super().__init__("file://")

    def _is_me(self, scheme: str, authority: str) -> bool:
        return scheme == "file" and authority == "localhost"

    def _stat_path(self, path: str) -> Stat:
        return _stat_of(path, Path(path).stat())

    def _list_directory(self, path: str) -> list[Stat]:
        with os.scandir(path) as entries:
            return [
                _stat_of(join(path, entry.name), entry.stat())
                for entry in entries
                if entry.is_file() or entry.is_dir()
            ]

    def _read_range(self, path: str, start: int, length: int) -> bytes:
        with Path(path).open("rb") as file:
            file.seek(start)
            return file.read(length)

    def _set_mode(self, path: str, mode: int) -> None:
        Path(path).chmod(mode)

    def _remove_path(self, path: str, *, recursive: bool) -> None:
        file = Path(path)
        if not file.is_dir() or file.is_symlink():
            file.unlink(missing_ok=True)
        elif recursive:
            shutil.rmtree(file)
        else:
            file.rmdir()

    def home(self, user: str) -> str:
        try:
            return str(Path(f"~{user}").expanduser())
        except RuntimeError:
            raise UsageError(
                f"file://: this machine knows no home of {user}", hint="Name the directory to use."
            ) from None

    def _create_file(self, path: str, pieces: Iterable[bytes], mode: int) -> None:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())

    def _rename_path(self, source: str, target: str, *, overwrite: bool) -> None:
        if overwrite:
            Path(source).replace(target)
        elif Path(source).is_dir():
            # rename(2) replaces an empty directory, and fails for one with content
            if os.path.lexists(target):
                raise FileExistsError
            Path(source).rename(target)
        else:
            os.link(source, target)  # unlike rename(2), it fails if the target exists
            Path(source).unlink()

    def _make_directory(self, path: str, mode: int) -> None:
        try:
            Path(path).mkdir(mode=0o700)
        except FileExistsError:
            if Path(path).is_dir():
                return
            raise
        Path(path).chmod(mode)


def _stat_of(path: str, found: os.stat_result) -> Stat:
    is_dir = modes.S_ISDIR(found.st_mode)
    return Stat(
        path=path,
        size=0 if is_dir else found.st_size,
        is_dir=is_dir,
        mode=modes.S_IMODE(found.st_mode),
        owner=_owner_name(found.st_uid),
        modified_ms=int(found.st_mtime * 1000),
    )


def _owner_name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
