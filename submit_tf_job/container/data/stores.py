"""Open file systems in a container: with hdfs-native or fsspec if the image has them, else WebHDFS.

This code runs in a process of its own (`transfer`), so that a library that crashes, hangs or fills
the memory affects only that process.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import posixpath
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any

from submit_tf_job.container import hadoop
from submit_tf_job.container.data.store import (
    PIECE,
    Entry,
    FileStore,
    NotFound,
    StoreError,
    Version,
    store_errors,
)
from submit_tf_job.container.data.webhdfs_client import WebHdfs
from submit_tf_job.container.hadoop_configuration import HadoopConfiguration, listed

CONNECT_S = 10.0
FSSPEC = {"s3a": "s3", "s3n": "s3"}  # Hadoop's names for what fsspec calls s3


class Disk(FileStore):
    """Files of this container (`file://`)."""

    def stat(self, path: str) -> Entry:
        with store_errors(path):
            return path, os.path.isdir(path), os.stat(path).st_size

    def list(self, path: str) -> list[Entry]:
        with store_errors(path):
            return [one for entry in os.scandir(path) for one in _entry_of(entry)]

    def read(self, path: str) -> Iterator[bytes]:
        with store_errors(path), open(path, "rb") as source:
            yield from iter(lambda: source.read(PIECE), b"")

    def write(self, path: str, content: Iterable[bytes], size: int) -> None:  # noqa: ARG002
        with store_errors(path), open(path, "xb") as sink:
            sink.writelines(content)

    def mkdirs(self, path: str, permission: str = "") -> None:  # noqa: ARG002
        with store_errors(path):
            os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        with store_errors(target):
            if os.path.lexists(target):  # the kernel replaces an empty directory
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            os.rename(source, target)

    def version(self, path: str) -> Version | None:
        """Return the time of the last change, and the inode."""
        with store_errors(path):
            if not os.path.lexists(path):
                return None
            found = os.lstat(path)
            return [found.st_mtime_ns // 1000000, found.st_ino]

    def remove(self, path: str) -> None:
        with store_errors(path):
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            elif os.path.lexists(path):
                os.unlink(path)


def _entry_of(entry: os.DirEntry[str]) -> Iterator[Entry]:
    """Yield an entry of a directory; nothing for one that is removed meanwhile. A link to nothing
    is a file, which cannot be read.
    """
    with contextlib.suppress(FileNotFoundError):
        try:
            yield entry.path, entry.is_dir(), entry.stat().st_size
        except FileNotFoundError:
            yield entry.path, False, os.lstat(entry.path).st_size


class Native(FileStore):
    """HDFS through hdfs-native, without Java."""

    def __init__(self, url: str, conf: Mapping[str, str]) -> None:
        """Connect to `hdfs://…`; the credentials come from the environment."""
        with store_errors(url):
            library = import_module("hdfs_native")
            self.conf = conf
            self.client: Any = library.Client(url, dict(conf))  # its own reader includes no files
            self.options: Any = library.WriteOptions

    def stat(self, path: str) -> Entry:
        with store_errors(path):
            found = self.client.get_file_info(path)
            return path, found.isdir, found.length

    def list(self, path: str) -> list[Entry]:
        with store_errors(path):
            return [(item.path, item.isdir, item.length) for item in self.client.list_status(path)]

    def read(self, path: str) -> Iterator[bytes]:
        with store_errors(path):
            reader = self.client.read(path)
            for start in range(0, len(reader), PIECE):
                yield reader.read_range(start, min(PIECE, len(reader) - start))

    def write(self, path: str, content: Iterable[bytes], size: int) -> None:  # noqa: ARG002
        with store_errors(path):
            writer = self.client.create(path, self.options(overwrite=False, create_parent=False))
            for piece in content:
                writer.write(piece)
            writer.close()

    def mkdirs(self, path: str, permission: str = "") -> None:
        with store_errors(path):
            self.client.mkdirs(path, int(permission or "755", 8), create_parent=True)

    def rename(self, source: str, target: str) -> None:
        with store_errors(target):
            self.client.rename(source, target)

    def version(self, path: str) -> Version | None:
        """Return the time of the last change; the library does not tell the inode."""
        with contextlib.suppress(NotFound), store_errors(path):
            return [self.client.get_file_info(path).modification_time, 0]
        return None

    def trash(self, path: str) -> str:
        """Return the trash of the user who owns what this process has just written."""
        with store_errors(path):
            owner = self.client.get_file_info(path).owner
            return hadoop.home_directory("hdfs", "", owner, self.conf) + "/.Trash"

    def remove(self, path: str) -> None:
        with store_errors(path):
            self.client.delete(path, True)


class ByFsspec(FileStore):
    """Object stores through fsspec and its package for the scheme.

    Objects have no directories: they appear one by one.
    """

    renames = False

    def __init__(self, fs: Any, bucket: str) -> None:
        self.fs, self.bucket = fs, bucket

    def stat(self, path: str) -> Entry:
        with store_errors(path):
            return (path, *_kind_and_size(self.fs.info(self.bucket + path)))

    def list(self, path: str) -> list[Entry]:
        with store_errors(path):
            found = self.fs.ls(self.bucket + path, detail=True)
            return [
                (posixpath.join(path, _name_of_item(item)), *_kind_and_size(item))
                for item in found
                if not _is_marker(item)
            ]

    def read(self, path: str) -> Iterator[bytes]:
        with store_errors(path), self.fs.open(self.bucket + path, "rb") as source:
            yield from iter(lambda: source.read(PIECE), b"")

    def write(self, path: str, content: Iterable[bytes], size: int) -> None:  # noqa: ARG002
        """Write an object, which becomes visible when it is complete."""
        with store_errors(path):
            sink = self.fs.open(self.bucket + path, "wb")
            try:
                for piece in content:
                    sink.write(piece)
            except BaseException:
                with contextlib.suppress(Exception):
                    sink.closed = True  # or its end closes it, and half an object is complete
                with contextlib.suppress(Exception):
                    sink.discard()
                raise
            sink.close()

    def mkdirs(self, path: str, permission: str = "") -> None:
        """Do nothing: a prefix exists as soon as an object has it."""

    def rename(self, source: str, target: str) -> None:
        if self.exists(target):
            raise StoreError(f"{target}: exists already")
        with store_errors(target):
            self.fs.cp_file(self.bucket + source, self.bucket + target)
        self.remove(source)

    def remove(self, path: str) -> None:
        """Remove one object; `rm` would take a `[` or `*` in its name for a pattern."""
        if not self.exists(path):  # who may only write objects may not try to remove one
            return
        with contextlib.suppress(NotFound), store_errors(path):
            try:
                self.fs.rm_file(self.bucket + path)
            except NotImplementedError:  # of adlfs from 2023.1 to 2025.8
                self.fs.rm(glob.escape(self.bucket + path))


def _name_of_item(item: Mapping[str, Any]) -> str:
    return posixpath.basename(str(item["name"]).rstrip("/"))


def _is_marker(item: Mapping[str, Any]) -> bool:
    """Return whether an item is the empty object `directory/`, by which consoles and Hadoop show a
    directory.
    """
    return item["type"] == "file" and str(item["name"]).endswith("/")


def _kind_and_size(item: Mapping[str, Any]) -> tuple[bool, int]:
    return item["type"] == "directory", int(item.get("size") or 0)


# --- choosing a store -----------------------------------------------------------------------------
def open_store(uri: str, env: Mapping[str, str]) -> tuple[FileStore, str]:
    """Return the store of a URI, and the path in it.

    Raises:
        StoreError: The image has no library for this kind of store; the Hadoop configuration does
            not name the NameNode, or where a viewfs path leads; or, with hdfs-native, no NameNode
            responds.
    """
    scheme, authority, path = _parts_of_uri(uri)
    if scheme == "file":
        return Disk(), path
    if scheme in ("webhdfs", "swebhdfs"):
        conf = hadoop.properties(env)
        addresses = hadoop.addresses_of_webhdfs(scheme, authority, conf)
        return WebHdfs("https" if scheme == "swebhdfs" else "http", addresses, env), path
    if scheme in ("hdfs", "viewfs"):
        return _open_hdfs(scheme, authority, path, env)
    return _open_fsspec(scheme, authority), path


def _parts_of_uri(uri: str) -> tuple[str, str, str]:
    """Return scheme, host with port, and path of a URI, whose path may have any characters."""
    scheme, _, rest = uri.partition("://")
    authority, slash, path = rest.partition("/")
    return scheme, authority, slash + path


def _open_hdfs(
    scheme: str, authority: str, path: str, env: Mapping[str, str]
) -> tuple[FileStore, str]:
    conf = hadoop.properties(env)
    authority = authority or hadoop.default_authority(conf, scheme)
    if scheme == "viewfs":
        target = hadoop.resolve_viewfs(authority, path, conf)
        if target is None:
            text = "no mount table of the Hadoop configuration in this container leads there"
            raise StoreError("; ".join([text, *conf.problems]))
        scheme, authority, path = _parts_of_uri(target)
        if scheme == "viewfs":
            raise StoreError(f"the mount table leads to {target}, which is no file system itself")
        if scheme != "hdfs":
            return open_store(target, env)
    if not authority:
        raise StoreError(_no_name_node(conf))
    try:
        import_module("hdfs_native")
    except ImportError:
        protocol, addresses = hadoop.web_addresses(authority, conf)
        if not addresses:
            raise StoreError(
                "the image has no hdfs-native, and no Hadoop configuration in this "
                "container names a NameNode's web address"
            ) from None
        return WebHdfs(protocol, addresses, env), path
    nodes = hadoop.addresses_of(authority, conf)
    if authority not in listed(conf, "dfs.nameservices"):  # hdfs-native has no default port
        authority = nodes[0]
    _check_reachable(nodes)
    return Native("hdfs://" + authority, hadoop.for_native(conf)), path


def _no_name_node(conf: HadoopConfiguration) -> str:
    """Return why a URI without a host leads nowhere."""
    text = "the URI names no NameNode, and "
    if conf.problems:
        return f"{text}the Hadoop configuration cannot be read: {'; '.join(conf.problems)}"
    if not conf:
        return (
            f"{text}this container has no Hadoop configuration; write hadoop: {{conf: inline}}, "
            f"or hdfs://host:port/…"
        )
    if conf.get("fs.defaultFS"):
        return f"{text}{conf.origins['fs.defaultFS']} has fs.defaultFS {conf['fs.defaultFS']}"
    return f"{text}the Hadoop configuration in this container sets no fs.defaultFS"


def _check_reachable(addresses: list[str]) -> None:
    """Check that one of these NameNodes accepts a connection within `CONNECT_S`: hdfs-native tries
    for minutes.

    Raises:
        StoreError: None does; it may be temporary.
    """
    problems = []
    for address in addresses:
        host, port = hadoop.host_and_port(address)
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()
        except (OSError, ValueError) as err:
            problems.append(f"{address}: {getattr(err, 'strerror', None) or err}")
        else:
            return
    raise StoreError(f"no NameNode answers ({'; '.join(problems)})", transient=True)


def _open_fsspec(scheme: str, authority: str) -> FileStore:
    try:
        fsspec = import_module("fsspec")
        return ByFsspec(fsspec.filesystem(FSSPEC.get(scheme, scheme)), authority)
    except (ImportError, ValueError) as err:
        why = "the image has nothing that reads %s:// (%s); install fsspec, and its package for "
        why += "that, in the image"
        raise StoreError(why % (scheme, err)) from None
