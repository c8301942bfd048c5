"""Object stores, and other file systems that fsspec supports (`s3://`, …)."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from submit_tf_job.errors import SettingsError, UsageError
from submit_tf_job.storage.base import PathExists, Stat, Storage, join, name_of

PROTOCOLS = {"s3a": "s3", "s3n": "s3"}  # Hadoop's scheme: fsspec's protocol
PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "abfs": "adlfs", "abfss": "adlfs"}


class ObjectStorage(Storage):
    """A bucket of an object store.

    An object store has no directories, permissions or renames; an upload becomes visible when it is
    complete.

    Args:
        scheme: The scheme in the URI. `url` returns it unchanged, so that Hadoop gets the `s3a://`
            that it needs.
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
        except (ImportError, ValueError, TypeError) as error:  # the last: it needs more
            hint = "Use hdfs://, webhdfs://, s3:// or file://."
            if protocol in PACKAGES:
                hint = f"pip install {PACKAGES[protocol]}"
            raise SettingsError(f"{scheme}://{authority}: {error}", hint=hint) from None

    def _object_key(self, path: str) -> str:
        return self._bucket + path

    def _stat_path(self, path: str) -> Stat:
        return _stat_of(path, self._fs.info(self._object_key(path)))

    def _list_directory(self, path: str) -> list[Stat]:
        found = self._fs.ls(self._object_key(path), detail=True, refresh=True)
        # without the empty object `directory/`, by which consoles and Hadoop show a directory
        found = [it for it in found if it["type"] != "file" or not it["name"].endswith("/")]
        files = [item["name"].strip("/") for item in found if item["type"] == "file"]
        if files == [self._object_key(path).strip("/")]:
            raise NotADirectoryError("not a directory")
        return [_stat_of(join(path, name_of(item["name"])), item) for item in found]

    def _read_range(self, path: str, start: int, length: int) -> bytes:
        return bytes(self._fs.cat_file(self._object_key(path), start=start, end=start + length))

    def _set_mode(self, path: str, mode: int) -> None:
        """Do nothing: the bucket's policy determines access."""

    def _remove_path(self, path: str, *, recursive: bool) -> None:
        if self.exists(path):
            self._fs.rm(self._object_key(path), recursive=recursive)

    def home(self, user: str) -> str:
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
        """Upload an object; it becomes visible when it is complete. `mode` is ignored. Without
        `overwrite`, an object that another client uploads at the same moment may be replaced.

        Raises:
            PathExists: The object exists and `overwrite` is False.
        """
        path = self.path(path)
        if not overwrite and self.exists(path):
            raise PathExists(f"{self.root}{path}: is there already")
        self.create(path, [content] if isinstance(content, bytes) else content, mode)

    def _create_file(self, path: str, pieces: Iterable[bytes], mode: int) -> None:  # noqa: ARG002 - objects have no mode
        # fsspec's transaction covers the file system, not one file: it commits at the end, and
        # discards the upload if the block fails
        with (
            self._writing,
            self._fs.transaction,
            self._fs.open(self._object_key(path), "wb") as file,
        ):
            for piece in pieces:
                file.write(piece)

    def _rename_path(self, source: str, target: str, *, overwrite: bool) -> None:
        if not overwrite and self.exists(target):
            raise FileExistsError
        self._fs.mv(self._object_key(source), self._object_key(target))

    def _make_directory(self, path: str, mode: int) -> None:
        """Do nothing: a prefix exists when the first object below it is created."""


def _stat_of(path: str, found: dict[str, Any]) -> Stat:
    is_dir = found["type"] == "directory"
    modified: Any = found.get("LastModified") or found.get("created")
    return Stat(
        path=path,
        size=0 if is_dir else int(found["size"] or 0),
        is_dir=is_dir,
        modified_ms=int(modified.timestamp() * 1000) if hasattr(modified, "timestamp") else 0,
    )
