"""HDFS over HTTP with the standard library: for the bootstrap itself, and for images without
hdfs-native.
"""

from __future__ import annotations

import base64
import contextlib
import getpass
import http.client
import json
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from unicodedata import normalize
from urllib.parse import quote, unquote, urlencode

from submit_tf_job.container import untrusted
from submit_tf_job.container.data.store import (
    PIECE,
    Entry,
    FileStore,
    NotFound,
    StoreError,
    Version,
    may_pass,
    store_errors,
)
from submit_tf_job.container.tokens import ENV_FILE, HDFS, Tokens, number

PREFIX = "/webhdfs/v1"
TIMEOUT_S = 60.0
# YARN's own token file: a program with a login of its own gets another one
GIVEN_TOKENS = "TFJOB_GIVEN_TOKENS"
FAILOVER = ("StandbyException", "RetriableException", "SafeModeException")


class _Inactive(StoreError):
    """A NameNode that is not active, or not ready yet."""


class WebHdfs(FileStore):
    """One HDFS, given by the web addresses of its NameNodes.

    The requests are authenticated with the delegation token that YARN gave the container, even if
    the program has a ticket: to use a ticket needs SPNEGO, which the standard library lacks.
    Without a token the requests contain the user name, which HDFS accepts unless it uses Kerberos.
    """

    def __init__(self, protocol: str, addresses: list[str], env: Mapping[str, str]) -> None:
        """Start with the first address, without sending a request.

        Args:
            protocol: `http` or `https`.
            addresses: host:port of each NameNode's web server.
            env: Names the token file, and the user if there is no token (`HADOOP_USER_NAME`).
        """
        self.protocol, self.addresses = protocol, list(addresses)
        self.date = ""  # the NameNode's time of the last answer
        token = _encoded_token(env.get(ENV_FILE, "")) or _encoded_token(env.get(GIVEN_TOKENS, ""))
        self.identity = {"delegation": token}
        if not token:
            self.identity = {"user.name": env.get("HADOOP_USER_NAME") or _login_name()}

    # --- requests ---
    def _send_to_active(self, method: str, path: str, operation: str, **options: str) -> Any:
        """Send one operation to the active NameNode; return the JSON of the response, or the
        address to which it redirects.

        Raises:
            StoreError: The operation failed, or no NameNode is active; `NotFound` if the path is
                missing.
        """
        with store_errors(path):  # which may not be UTF-8, as HDFS' names are
            query = urlencode({"op": operation, **self.identity, **options})
            target = f"{PREFIX}{quote(path)}?{query}"
        problem = StoreError(f"{path}: no NameNode")
        for address in list(self.addresses):
            try:
                with store_errors(f"{path} ({address})"):
                    connection = _connect(self.protocol, address)
                    connection.request(method, target)
                    answer = connection.getresponse()
                    body = answer.read(64 << 20)
                    self.date = answer.headers.get("Date") or ""
                    connection.close()
            except StoreError as err:
                problem = StoreError(str(err), transient=True)
            else:
                if answer.status in (301, 302, 303, 307, 308):
                    return answer.headers["Location"]
                try:
                    return _value_of_response(path, answer, body)
                except _Inactive as err:
                    problem = err
            # the other NameNode may be the active one
            self.addresses = self.addresses[1:] + self.addresses[:1]
        raise problem

    def _connect_to_target(
        self, location: Any, path: str
    ) -> tuple[http.client.HTTPConnection, str]:
        parts = untrusted.url_parts(str(location or ""))
        if not parts.netloc:
            raise StoreError(f"{path}: the NameNode named no DataNode")
        target = parts.path
        # java.net.URI composes letters (NFC), and another file would be written
        if normalize("NFC", unquote(target)) == normalize("NFC", PREFIX + path):
            target = PREFIX + quote(path)
        return _connect(parts.scheme, parts.netloc), f"{target}?{parts.query}"

    # --- operations ---
    def stat(self, path: str) -> Entry:
        with _form_errors(path):
            found = self._send_to_active("GET", path, "GETFILESTATUS")["FileStatus"]
            return path, found["type"] == "DIRECTORY", found["length"]

    def list(self, path: str) -> list[Entry]:
        with _form_errors(path):
            found = self._send_to_active("GET", path, "LISTSTATUS")["FileStatuses"]["FileStatus"]
            return [
                (posixpath.join(path, it["pathSuffix"]), it["type"] == "DIRECTORY", it["length"])
                for it in found
            ]

    def read(self, path: str) -> Iterator[bytes]:
        location = self._send_to_active("GET", path, "OPEN")
        with store_errors(path):
            connection, target = self._connect_to_target(location, path)
            connection.request("GET", target)
            answer = connection.getresponse()
            if answer.status != 200:
                _value_of_response(path, answer, answer.read(65536))
            yield from iter(lambda: answer.read(PIECE), b"")
            connection.close()

    def write(self, path: str, content: Iterable[bytes], size: int) -> None:
        location = self._send_to_active("PUT", path, "CREATE", overwrite="false")
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        with store_errors(path):
            connection, target = self._connect_to_target(location, path)
            try:
                connection.request("PUT", target, body=content, headers=headers)
            except (BrokenPipeError, ConnectionResetError) as broken:
                # a DataNode answers why it reads no further (a quota), and closes the connection
                try:
                    answer = connection.getresponse()
                except (OSError, http.client.HTTPException):
                    raise broken from None
            else:
                answer = connection.getresponse()
            body = answer.read(65536)
            connection.close()
        if answer.status != 201:
            _value_of_response(path, answer, body)

    def mkdirs(self, path: str, permission: str = "") -> None:
        options = {"permission": permission} if permission else {}
        self._send_to_active("PUT", path, "MKDIRS", **options)

    def rename(self, source: str, target: str) -> None:
        """Rename; `renameoptions` makes HDFS fail instead of returning false
        (RenameOptionSetParam).
        """
        self._send_to_active("PUT", source, "RENAME", destination=target, renameoptions="NONE")

    def version(self, path: str) -> Version | None:
        """Return the time of the last change, and the inode."""
        with contextlib.suppress(NotFound), _form_errors(path):
            found = self._send_to_active("GET", path, "GETFILESTATUS")["FileStatus"]
            return [found["modificationTime"], found.get("fileId", 0)]
        return None

    def trash(self, path: str) -> str:
        """Return the user's trash; an encryption zone has a trash of its own."""
        with _form_errors(path):
            return str(self._send_to_active("GET", path, "GETTRASHROOT")["Path"])

    def remove(self, path: str) -> None:
        self._send_to_active("DELETE", path, "DELETE", recursive="true")


@contextlib.contextmanager
def _form_errors(path: str) -> Iterator[None]:
    """Turn the errors of reading a response of another form into `StoreError`: it comes from a
    login page, a proxy, or another server at the NameNode's address.
    """
    try:
        yield
    except (KeyError, TypeError, AttributeError) as err:
        raise StoreError(f"{path}: what answers is not WebHDFS", transient=True) from err


def _connect(protocol: str, address: str) -> http.client.HTTPConnection:
    make = http.client.HTTPSConnection if protocol == "https" else http.client.HTTPConnection
    return make(address, timeout=TIMEOUT_S)


def _value_of_response(path: str, answer: http.client.HTTPResponse, body: bytes) -> Any:
    """Return the JSON of a NameNode's response, or raise the error that the response contains."""
    try:
        value = json.loads(body.decode("utf-8")) if body else {}
    except (ValueError, RecursionError):
        value = {}
    if 200 <= answer.status < 300:
        return value
    if answer.status == 401:
        why = "%s: HDFS wants Kerberos, and takes no delegation token of this task (a ticket of "
        why += "its own needs hdfs-native in the image)"
        raise StoreError(why % path)
    remote = isinstance(value, dict) and value.get("RemoteException")
    if not isinstance(remote, dict):
        kind_of = _Inactive if answer.status >= 500 else StoreError
        why = f"{path}: HTTP {answer.status} {answer.reason}"
        raise kind_of(why, transient=answer.status >= 500)
    kind, message = str(remote.get("exception")), str(remote.get("message") or "").strip()
    first = (message or kind).splitlines()[0][:500]
    if kind == "FileNotFoundException":
        raise NotFound(f"{path}: no such file or directory")
    if any(word in kind + message for word in FAILOVER):
        raise _Inactive(f"{path}: {first}", transient=True)
    raise StoreError(f"{path}: {first}", transient=may_pass(kind + message))


def _encoded_token(path: str) -> str:
    """Return the HDFS delegation token in a token file in the encoding of WebHDFS; "" if there is
    none.

    The encoding is identifier, password, kind and service, in URL-safe base64.
    """
    try:
        given = Tokens({ENV_FILE: path}).tokens
    except ValueError:
        return ""
    for token in given:
        if token.kind == HDFS:
            packed = b"".join(number(len(part)) + part for part in token[1:])  # without the alias
            return base64.urlsafe_b64encode(packed).decode("ascii").rstrip("=")
    return ""


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        return "dr.who"
