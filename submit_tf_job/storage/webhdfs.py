"""HDFS over HTTP (`webhdfs://`, `swebhdfs://`, HttpFS), based on fsspec's WebHDFS.

fsspec's session, authentication and errors are used, but not its file objects: they read megabytes
ahead, return an error page as file content (`_fetch_range` does not check the status) and need two
more requests to write. Source of the operations: WebHDFS REST API, `NamenodeWebHdfsMethods`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fsspec.implementations.webhdfs import WebHDFS
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

from submit_tf_job.container.hadoop import default_authority, home_directory, host_and_port
from submit_tf_job.errors import BadAnswer, UsageError
from submit_tf_job.host.authorities import system_authorities
from submit_tf_job.host.kerberos import library
from submit_tf_job.storage.base import Stat, Storage, join, translated

DEFAULT_PORTS = {"webhdfs": 9870, "swebhdfs": 9871}  # DFS_NAMENODE_HTTP(S)_PORT_DEFAULT
CONNECT_TIMEOUT_S = 10.0
CHECK_ADDRESS = "Check host and port of the NameNode's web server."


class _Client(WebHDFS):  # type: ignore[misc]  # fsspec has no types
    """fsspec's client, with timeouts added; it ignores proxies and .netrc, which the environment
    may name.
    """

    cachable = False

    def __init__(self, timeout_s: float, **options: Any) -> None:
        self.timeout_s = timeout_s
        super().__init__(**options)

    def _connect(self) -> None:
        super()._connect()
        self.session.trust_env = False
        self.session.verify = system_authorities()
        send = self.session.send
        timeout = (min(CONNECT_TIMEOUT_S, self.timeout_s), self.timeout_s)
        self.session.send = lambda request, **options: send(
            request, **{**options, "timeout": timeout}
        )

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path  # never escaped here; fsspec's version would cut at `?`


class WebHdfsStorage(Storage):
    """HDFS over HTTP, through WebHDFS or HttpFS.

    Args:
        scheme: `webhdfs` or `swebhdfs` (TLS).
        authority: `host:port` of the NameNode's web server or of an HttpFS gateway; or a
            nameservice.
        addresses: What the authority stands for: `host:port` of each NameNode's web server. The
            first that is active is used.
        root: The same file system's URI of `hdfs:`, if it is known; `url` returns URIs on it for
            YARN. If it is None, it is the default file system of the configuration.
        user: The user for simple authentication, or the user to impersonate as a proxy user.
        kerberos: Whether to authenticate by SPNEGO (needs requests-kerberos); the ticket then
            determines the user.
        proxied: Whether to impersonate `user` (doas).
        conf: The Hadoop configuration.
        timeout_s: The largest number of seconds without data, for each request.
    """

    def __init__(
        self,
        scheme: str,
        authority: str,
        addresses: Sequence[str],
        *,
        root: str | None,
        user: str | None,
        kerberos: bool,
        proxied: bool,
        conf: Mapping[str, str],
        timeout_s: float,
    ) -> None:
        super().__init__(f"{scheme}://{authority}")
        self._conf = conf
        if root is None and (default := default_authority(conf, "hdfs")):
            root = f"hdfs://{default}"
        self._hdfs_root = root
        options: dict[str, Any] = {"user": user}
        if kerberos:
            options = {"kerberos": True, "kerb_kwargs": _spnego_options()}
        if proxied:
            options["proxy_to"] = user
        with translated(self.root):
            self._clients = [
                _Client(
                    timeout_s,
                    host=host,
                    port=port or DEFAULT_PORTS[scheme],
                    use_https=scheme == "swebhdfs",
                    **options,
                )
                for host, port in map(host_and_port, addresses)
            ]

    def _send_operation(
        self, operation: str, path: str, method: str = "get", **options: Any
    ) -> Any:
        """Send one WebHDFS operation to the active NameNode and return fsspec's response."""
        for _ in self._clients[1:]:
            try:
                return self._clients[0]._call(operation, method, path, **options)
            except Exception as error:  # noqa: PERF203 - mostly one address
                if not _was_not_served(error):
                    raise
                self._clients = self._clients[1:] + self._clients[:1]
        # every request of fsspec
        return self._clients[0]._call(operation, method, path, **options)

    def _request_json(
        self, operation: str, path: str, method: str = "get", **options: Any
    ) -> Mapping[str, Any]:
        answer = self._send_operation(operation, path, method, **options)
        try:
            found = answer.json()
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise BadAnswer(
                f"{self.root}{path}: {operation} was not answered by WebHDFS", hint=CHECK_ADDRESS
            )
        return found

    def _is_me(self, scheme: str, authority: str) -> bool:
        return f"{scheme}://{authority}" == self._hdfs_root

    def url(self, path: str) -> str:
        """Return the complete URI of a path, with `hdfs://` if that address is known."""
        return (self._hdfs_root or self.root) + self.path(path)

    def _stat_path(self, path: str) -> Stat:
        return _stat_of(path, self._request_json("GETFILESTATUS", path)["FileStatus"])

    def _list_directory(self, path: str) -> list[Stat]:
        found = self._request_json("LISTSTATUS", path)["FileStatuses"]["FileStatus"]
        if len(found) == 1 and not found[0]["pathSuffix"]:
            raise NotADirectoryError("not a directory")
        return [_stat_of(join(path, item["pathSuffix"]), item) for item in found]

    def _read_range(self, path: str, start: int, length: int) -> bytes:
        return bytes(self._send_operation("OPEN", path, offset=start, length=length).content)

    def _set_mode(self, path: str, mode: int) -> None:
        self._send_operation("SETPERMISSION", path, "put", permission=f"{mode:o}")

    def _remove_path(self, path: str, *, recursive: bool) -> None:
        self._send_operation("DELETE", path, "delete", recursive=str(recursive).lower())

    def home(self, user: str) -> str:
        return home_directory("hdfs", "", user, self._conf)

    def _create_file(self, path: str, pieces: Iterable[bytes], mode: int) -> None:
        first = self._send_operation(
            "CREATE",
            path,
            "put",
            redirect=False,
            permission=f"{mode:o}",
            overwrite="false",
            createparent="false",
        )
        where = first.headers.get("Location")
        if not where:
            raise BadAnswer(f"{self.root}{path}: CREATE named no DataNode", hint=CHECK_ADDRESS)
        broken: list[Exception] = []
        answer = self._clients[0].session.put(
            where,
            data=_pieces_to_the_end(pieces, broken),
            headers={"Content-Type": "application/octet-stream"},
        )
        if not answer.ok:
            raise RuntimeError(_remote_words(answer))
        if broken:
            raise broken[0]

    def _rename_path(self, source: str, target: str, *, overwrite: bool) -> None:
        # `renameoptions` selects rename2, as in hdfs://, which fails instead of returning false
        # (RenameOptionSetParam)
        how = "OVERWRITE" if overwrite else "NONE"
        self._send_operation("RENAME", source, "put", destination=target, renameoptions=how)

    def _make_directory(self, path: str, mode: int) -> None:
        if not self._request_json("MKDIRS", path, "put", permission=f"{mode:o}").get("boolean"):
            raise UsageError(f"{self.root}{path}: the directory could not be made")


def _was_not_served(error: Exception) -> bool:
    """Return whether a NameNode has carried out nothing, because it is not active or cannot be
    reached: then another one may be asked.
    """
    reason = getattr(error.args[0] if error.args else None, "reason", None)  # of requests' errors
    if isinstance(reason, (ConnectTimeoutError, NewConnectionError)):
        return True
    return bool(re.search("in state (standby|observer)|in startup mode", str(error)))


def _spnego_options() -> dict[str, Any]:
    """Return the arguments for SPNEGO. The ticket is sent at once, which raises an error with the
    reason if there is no ticket; and the server's authentication is verified in each response that
    contains it.
    """
    requests_kerberos = library("requests_kerberos")
    # this logger writes the Authorization header
    logging.getLogger("requests_kerberos").setLevel(logging.CRITICAL + 1)
    return {
        "force_preemptive": True,
        "mutual_authentication": requests_kerberos.OPTIONAL,
        "send_cbt": False,
    }


def _pieces_to_the_end(pieces: Iterable[bytes], broken: list[Exception]) -> Iterator[bytes]:
    """Yield the pieces of an upload. If reading them raises an error, add the error to `broken`,
    and end the upload as if it were complete.

    If the upload were aborted, the DataNode would create the file after the caller has removed it.
    """
    try:
        yield from pieces
    except Exception as error:  # noqa: BLE001 - raised again by the caller
        broken.append(error)


def _remote_words(answer: Any) -> str:
    try:
        remote = answer.json()["RemoteException"]
        return f"{remote['exception']}: {remote['message']}"
    except (ValueError, KeyError, TypeError):
        return f"HTTP {answer.status_code}"


def _stat_of(path: str, found: Mapping[str, Any]) -> Stat:
    is_dir = found["type"].upper() == "DIRECTORY"
    return Stat(
        path=path,
        size=0 if is_dir else found["length"],
        is_dir=is_dir,
        mode=int(found["permission"], 8),
        owner=found["owner"],
        modified_ms=found["modificationTime"],
    )
