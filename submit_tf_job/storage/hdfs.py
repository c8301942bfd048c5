"""HDFS through hdfs-native, which speaks RPC and the block protocol: without Java and libhdfs.

hdfs-native takes its configuration as an argument, but the user name for simple authentication only
from HADOOP_USER_NAME, which it reads at every connection to a NameNode. Therefore
`host.hadoop_user` sets that variable during calls that may connect, and only here; calls for
different users run one after the other. On a Kerberos cluster the ticket determines the user, and
the variable is ignored. DataNodes, which hold the blocks, take no user name.
"""

from __future__ import annotations

import atexit
import os
import re
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from submit_tf_job import waiting
from submit_tf_job.container import untrusted
from submit_tf_job.container.hadoop import (
    addresses_of,
    default_authority,
    for_native,
    home_directory,
    host_and_port,
)
from submit_tf_job.container.hadoop_configuration import listed
from submit_tf_job.errors import (
    BadAnswer,
    ClusterUnavailable,
    SubmitTFJobError,
    UnknownHost,
    UsageError,
)
from submit_tf_job.host.hadoop_user import HADOOP_USER_NAME
from submit_tf_job.storage.base import PIECE, Stat, Storage

T = TypeVar("T")
CONNECT_TIMEOUT_S = 10.0


_UNDER_WAY: set[threading.Thread] = set()
_LEAVING = threading.Event()


def calls_under_way() -> bool:
    """Return whether any call of hdfs-native is still running, including calls that have timed out.

    If a call returns while Python exits, the process is aborted with status 134, because Python
    unwinds the thread through Rust's frames. A program that needs no cleanup by Python can use
    `os._exit` while a call is running.
    """
    return bool(_UNDER_WAY)


def _wait_for_calls() -> None:
    """At exit, refuse new calls, and wait for up to 10 s until no call is running."""
    _LEAVING.set()
    for _ in waiting.HDFS_CALLS_HAVE_ENDED.attempts():
        if not _UNDER_WAY:
            return


atexit.register(_wait_for_calls)


def _within_limit(call: Callable[[], T], timeout_s: float, what: str) -> T:
    """Run a call of hdfs-native in a thread, with a timeout, because hdfs-native has no timeouts of
    its own. Errors of the call are raised here.

    Raises:
        ClusterUnavailable: The call did not end in time, or Python exits.
        BadAnswer: hdfs-native panicked.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001 - passed to the caller's thread
            errors.append(error)
        finally:
            _UNDER_WAY.discard(thread)

    thread = threading.Thread(target=run, name="hdfs-native", daemon=True)
    _UNDER_WAY.add(thread)
    try:
        if _LEAVING.is_set():  # a thread of the background would return while Python exits
            raise ClusterUnavailable(f"{what}: the program ends")
        thread.start()
    except BaseException:
        _UNDER_WAY.discard(thread)
        raise
    thread.join(timeout_s)
    if thread.is_alive():
        raise ClusterUnavailable(
            f"{what}: no answer within {timeout_s:g} s",
            hint="Check that the NameNode and the DataNodes are well.",
        )
    if errors:
        if isinstance(errors[0], Exception):
            raise errors[0]
        # a Rust panic is a BaseException
        raise BadAnswer(f"{what}: hdfs-native gave up: {errors[0]}") from errors[0]
    return results[0]


class HdfsStorage(Storage):
    """HDFS (or ViewFS) through hdfs-native.

    Args:
        scheme: `hdfs` or `viewfs`.
        authority: `host:port`, `host`, or a nameservice of `conf`.
        conf: Properties of core-site.xml and hdfs-site.xml; HADOOP_CONF_DIR is not used.
        user: The user for simple authentication; None for the login name (or HADOOP_USER_NAME).
        timeout_s: Limit of each single call, in seconds.
    """

    def __init__(
        self,
        scheme: str,
        authority: str,
        *,
        conf: Mapping[str, str],
        user: str | None,
        timeout_s: float,
    ) -> None:
        super().__init__(f"{scheme}://{authority}")
        self.timeout_s = timeout_s
        self._conf = dict(conf)
        self._user = user
        self._client: Any = None
        self._connecting = threading.Lock()

    # --- calls -------

    def _call_client(self, path: str, call: Callable[[Any], T]) -> T:
        """Run one operation that may connect to the NameNode."""
        where = self.root + path
        client = self._client_of_storage()
        with HADOOP_USER_NAME.set_to(self._user):
            return _within_limit(lambda: call(client), self.timeout_s, where)

    def _client_of_storage(self) -> Any:
        with self._connecting:
            if self._client is None:
                scheme, _, authority = self.root.partition("://")
                url, conf = self.root, self._conf
                if scheme == "viewfs":
                    conf = _with_fallback(authority, conf)
                else:
                    addresses = addresses_of(authority, conf)
                    self._probe_addresses(addresses)
                    if addresses and authority == addresses[0].rpartition(":")[0]:
                        url = f"hdfs://{addresses[0]}"  # hdfs-native has no default port
                from hdfs_native import Client

                with HADOOP_USER_NAME.set_to(self._user):
                    # os.devnull in place of a directory, so that HADOOP_CONF_DIR is not used
                    self._client = Client(url, for_native(conf), os.devnull)
            return self._client

    def _probe_addresses(self, addresses: Iterable[str]) -> None:
        """Raise an error with the addresses, within seconds, if no process listens at any of them;
        hdfs-native would wait until the kernel gives up. Do nothing without addresses.
        """
        problems, missing = [], True
        for address in addresses:
            host, port = host_and_port(address)
            try:
                with socket.create_connection(
                    (host.strip("[]"), int(port)), timeout=min(CONNECT_TIMEOUT_S, self.timeout_s)
                ):
                    return
            except (OSError, ValueError) as error:
                problems.append(f"{address}: {getattr(error, 'strerror', None) or error}")
                missing = missing and _is_no_address(error)
        if problems:
            raise self._unreachable_error("; ".join(problems), missing)

    def _unreachable_error(self, why: str, missing: bool) -> SubmitTFJobError:
        """Return the error for a connection that failed; `missing` tells that there is no such
        host.

        In `hdfs://models/x`, for example, `models` is a host, although the user probably meant a
        path.
        """
        name = urlsplit(self.root).netloc
        services = listed(self._conf, "dfs.nameservices")
        known = name in (default_authority(self._conf, "hdfs"), *services)
        if known or re.search("[.:]", name):
            known_as = UnknownHost if missing else ClusterUnavailable
            return known_as(
                f"{self.root}: no NameNode answers ({why})",
                hint="Check the address (fs.defaultFS in core-site.xml) and that HDFS is up.",
            )
        kind = UsageError if missing else ClusterUnavailable
        return kind(
            f"{self.root}: {name} was read as a NameNode, and none answers ({why})",
            hint=f"For a path on the cluster's own HDFS write three slashes: hdfs:///{name}/…",
        )

    # --- operations ---

    def _stat_path(self, path: str) -> Stat:
        return _stat_of(path, self._call_client(path, lambda client: client.get_file_info(path)))

    def _list_directory(self, path: str) -> list[Stat]:
        found = self._call_client(path, lambda client: list(client.list_status(path)))
        if len(found) == 1 and found[0].path == path:  # the list of a file is the file itself
            raise NotADirectoryError("not a directory")
        return [_stat_of(item.path, item) for item in found]

    def _open_file(self, path: str) -> tuple[int, Callable[[int, int], bytes]]:
        file = self._call_client(path, lambda client: client.read(path))

        def read(start: int, length: int) -> bytes:  # of DataNodes
            where = self.root + path
            return bytes(
                _within_limit(lambda: file.read_range(start, length), self.timeout_s, where)
            )

        return len(file), read

    def _set_mode(self, path: str, mode: int) -> None:
        self._call_client(path, lambda client: client.set_permission(path, mode))

    def _remove_path(self, path: str, *, recursive: bool) -> None:
        self._call_client(path, lambda client: client.delete(path, recursive))

    def home(self, user: str) -> str:
        parts = urlsplit(self.root)
        return home_directory(parts.scheme, parts.netloc, user, self._conf)

    def _create_file(self, path: str, pieces: Iterable[bytes], mode: int) -> None:
        from hdfs_native import WriteOptions

        writer = self._call_client(
            path,
            lambda client: client.create(
                path, WriteOptions(permission=mode, overwrite=False, create_parent=False)
            ),
        )
        for piece in pieces:
            for start in range(0, len(piece), PIECE):
                self._call_client(path, partial(_write_part, writer, piece[start : start + PIECE]))
        self._call_client(path, lambda _: writer.close())

    def _rename_path(self, source: str, target: str, *, overwrite: bool) -> None:
        self._call_client(target, lambda client: client.rename(source, target, overwrite))

    def _make_directory(self, path: str, mode: int) -> None:
        self._call_client(path, lambda client: client.mkdirs(path, mode, False))


def _is_no_address(error: OSError | ValueError) -> bool:
    """Return whether a connection failed because the address is wrong: there is no such host, the
    port is missing, or the host's name has characters that no host name has.
    """
    if isinstance(error, socket.gaierror):
        return error.errno != socket.EAI_AGAIN
    return isinstance(error, ValueError)


def _with_fallback(table: str, conf: dict[str, str]) -> dict[str, str]:
    """Return a configuration in which the mount table `table` of viewfs has a fallback. hdfs-native
    requires one (`No viewfs fallback mount found`), and Hadoop does not.

    The fallback is an empty location, so that a path outside all mounts does not exist, as in
    Hadoop.
    """
    prefix = f"fs.viewfs.mounttable.{table}.link"
    links = [target for name, target in sorted(conf.items()) if name.startswith(f"{prefix}.")]
    if not links or f"{prefix}Fallback" in conf:
        return conf
    parts = untrusted.url_parts(links[0])
    if not parts.scheme:
        return conf
    return {**conf, f"{prefix}Fallback": f"{parts.scheme}://{parts.netloc}/.no-such-mount"}


def _write_part(writer: Any, part: bytes, _client: Any) -> None:
    writer.write(part)


def _stat_of(path: str, found: Any) -> Stat:
    return Stat(
        path=path,
        size=0 if found.isdir else found.length,
        is_dir=found.isdir,
        mode=found.permission,
        owner=found.owner,
        modified_ms=found.modification_time,
    )
