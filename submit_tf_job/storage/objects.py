"""Object stores and other file systems of fsspec (`s3://`, …)."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from submit_tf_job.errors import SettingsError, UsageError
from submit_tf_job.storage.base import PathExists, Stat, Storage, join, name_of
from submit_tf_job.storage.failures import translated

PROTOCOLS = {"s3a": "s3", "s3n": "s3"}  # Hadoop's scheme: fsspec's protocol
PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "abfs": "adlfs", "abfss": "adlfs"}


@dataclass(frozen=True)
class _ObjectFile:
    storage: ObjectStorage
    path: str
    size: int

    def read_range(self, start: int, length: int) -> bytes:
        end = min(start + length, self.size)
        if end <= start:
            return b""
        return self.storage.cat(self.path, start, end)


class ObjectStorage(Storage):
    """A bucket of an object store.

    It has no directories, permissions or renames; an upload becomes visible when it is complete.

    Args:
        scheme: As in the URI; unchanged in `url`, so that Hadoop reads `s3a://` again.
        authority: The bucket.
        options: Arguments of fsspec's file system.
    """

    renames = False

    def __init__(self, scheme: str, authority: str, **options: Any) -> None:
        super().__init__(f"{scheme}://{authority}")
        self._bucket = authority
        self._writing = threading.Lock()
        protocol = PROTOCOLS.get(scheme, scheme)
        try:
            import fsspec

            self._fs = fsspec.filesystem(protocol, skip_instance_cache=True, **options)
        except (ImportError, ValueError) as error:
            hint = "Use hdfs://, webhdfs://, s3:// or file://."
            if protocol in PACKAGES:
                hint = f"pip install {PACKAGES[protocol]}"
            raise SettingsError(f"{scheme}://{authority}: {error}", hint=hint) from None

    def _key(self, path: str) -> str:
        return self._bucket + self.path(path)

    def cat(self, path: str, start: int, end: int) -> bytes:
        """Return the bytes from `start` up to, but not including, `end`."""
        with translated(self.root + path):
            return bytes(self._fs.cat_file(self._key(path), start=start, end=end))

    def stat(self, path: str) -> Stat:
        """Return the metadata of one object or prefix."""
        path = self.path(path)
        with translated(self.root + path):
            return _stat(path, self._fs.info(self._key(path)))

    def list_dir(self, path: str) -> list[Stat]:
        """List a prefix, sorted by name."""
        path = self.path(path)
        with translated(self.root + path):
            found = self._fs.ls(self._key(path), detail=True, refresh=True)
            if [item["name"].strip("/") for item in found if item["type"] == "file"] == [
                self._key(path).strip("/")
            ]:
                raise NotADirectoryError("not a directory")
        return sorted(
            (_stat(join(path, name_of(item["name"])), item) for item in found),
            key=lambda item: item.path,
        )

    def open(self, path: str) -> _ObjectFile:
        """Open an object for reading at any offset."""
        found = self.stat(path)
        if found.is_dir:
            raise UsageError(f"{self.root}{found.path}: is a directory", hint="Name a file.")
        return _ObjectFile(self, found.path, found.size)

    def chmod(self, path: str, mode: int) -> None:
        """Do nothing: the bucket's policy determines access."""

    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove an object, or with `recursive` all objects below a prefix."""
        path = self.path(path)
        if self.exists(path):
            with translated(self.root + path):
                self._fs.rm(self._key(path), recursive=recursive)

    def home(self, user: str) -> str:
        """Return the path of a user's home directory."""
        raise UsageError(
            f"{self.root}: a bucket has no home of {user}", hint="Name the directory to use."
        )

    def write(
        self,
        path: str,
        content: bytes | Iterable[bytes],
        *,
        mode: int = 0o600,
        overwrite: bool = True,
    ) -> None:
        """Upload an object; it becomes visible when it is complete."""
        path = self.path(path)
        if not overwrite and self.exists(path):
            raise PathExists(f"{self.root}{path}: is there already")
        self._create(path, [content] if isinstance(content, bytes) else content, mode)

    def _create(self, path: str, pieces: Iterable[bytes], mode: int) -> None:  # noqa: ARG002 - objects have no mode
        # fsspec's transaction covers the file system, not one file: it commits at the end, and
        # discards the upload if the block fails
        with (
            translated(self.root + path),
            self._writing,
            self._fs.transaction,
            self._fs.open(self._key(path), "wb") as file,
        ):
            for piece in pieces:
                file.write(piece)

    def _rename(self, source: str, target: str, *, overwrite: bool) -> None:
        if not overwrite and self.exists(target):
            raise PathExists(f"{self.root}{target}: is there already")
        with translated(self.root + target):
            self._fs.mv(self._key(source), self._key(target))

    def _mkdir(self, path: str, mode: int) -> None:
        """Do nothing: a prefix exists when the first object below it is created."""


def _stat(path: str, found: dict[str, Any]) -> Stat:
    is_dir = found["type"] == "directory"
    modified: Any = found.get("LastModified") or found.get("created")
    return Stat(
        path=path,
        size=0 if is_dir else int(found["size"] or 0),
        is_dir=is_dir,
        modified_ms=int(modified.timestamp() * 1000) if hasattr(modified, "timestamp") else 0,
    )
