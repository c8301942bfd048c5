"""Send HTTP requests to the daemons, without a proxy, and with TLS and Kerberos if required; make
the directories on HDFS.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import ssl
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, urlencode, urlsplit

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.hardening import GATEWAY, USERS, principal_of
from submit_tf_job.sandbox.state import SandboxState


class NotWell(Exception):
    """A daemon did not respond, or is not healthy; the message gives the reason."""


# --- Kerberos ---


def require_gssapi() -> None:
    """Check that the Kerberos library is installed.

    Raises:
        SandboxError: The library is not installed; the hint is the command that installs it.
    """
    try:
        import gssapi  # noqa: F401
    except (ImportError, OSError) as error:
        raise SandboxError(
            f"a sandbox with Kerberos needs the extra `kerberos` of this package ({error})",
            hint="pip install 'requests-kerberos>=0.15' (Debian, Ubuntu: first apt-get install "
            "gcc python3-dev libkrb5-dev)",
        ) from None


def _negotiate_header(state: SandboxState, host: str) -> str:
    """Return the value of the `Authorization` header (Negotiate) for a request of the sandbox's
    user, who may do everything. The host is part of the server's principal, and must be written as
    in the URL.

    Raises:
        NotWell: The Kerberos library is not installed, or there is no ticket.
    """
    try:
        import gssapi
        from gssapi.raw import GSSError
    except (ImportError, OSError) as error:
        raise NotWell(f"the extra `kerberos` is not installed: {error}") from None
    os.environ["KRB5_CONFIG"] = str(state.layout.krb5_conf)
    keytab = state.layout.keytab(principal_of(state.user))
    # In memory; a recreated sandbox has the same ports but different keys.
    cache = f"MEMORY:submit_tf_job-{zlib.crc32(keytab.read_bytes())}"
    try:
        name = gssapi.Name(principal_of(state.user), gssapi.NameType.kerberos_principal)
        store: dict[bytes | str, bytes | str] = {
            "client_keytab": f"FILE:{keytab}",
            "ccache": cache,
        }
        credentials = gssapi.Credentials(name=name, usage="initiate", store=store)
        service = gssapi.Name(f"HTTP@{host}", gssapi.NameType.hostbased_service)
        context = gssapi.SecurityContext(name=service, creds=credentials, usage="initiate")
        return f"Negotiate {base64.b64encode(context.step() or b'').decode()}"
    except GSSError as error:
        # MIT's message without GSS-API's general one around it
        raise NotWell(f"Kerberos: {str(error).rpartition('): ')[2] or error}") from None


# --- HTTP ---


def send(
    method: str,
    url: str,
    state: SandboxState | None = None,
    timeout_s: float = 15.0,
    body: IO[bytes] | None = None,
) -> tuple[int, bytes]:
    """Send one request to a daemon of the sandbox and return status and body.

    Redirects are not followed: a standby ResourceManager redirects, and a ticket is valid only for
    one host.

    Args:
        method: HTTP method.
        url: Address, always on this machine.
        state: The sandbox whose user sends the request; None for an address that needs no
            authentication.
        timeout_s: The largest number of seconds without data.
        body: File to send.

    Raises:
        NotWell: The daemon did not respond, or Kerberos issued no ticket.
    """
    place = urlsplit(url)
    headers = {"Accept": "application/json"}
    connection = http.client.HTTPConnection(place.netloc, timeout=timeout_s)
    try:
        if state is not None and place.scheme == "https":
            context = ssl.create_default_context(cafile=str(state.layout.ca_file))
            connection = http.client.HTTPSConnection(
                place.netloc, timeout=timeout_s, context=context
            )
        if state is not None and state.secure:
            headers["Authorization"] = _negotiate_header(state, place.hostname or "")
        if body is not None:
            headers["Content-Type"] = "application/octet-stream"
            headers["Content-Length"] = str(os.fstat(body.fileno()).st_size)
        with contextlib.closing(connection):
            connection.request(method, url.partition(place.netloc)[2], body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise NotWell(f"{url.split('?')[0]} does not answer: {error}") from None


def get_json(url: str, state: SandboxState) -> Mapping[str, Any]:
    """Return the JSON object at a URL.

    Raises:
        NotWell: The request failed, or the response is not a JSON object.
    """
    status, body = send("GET", url, state)
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    if status != 200 or not isinstance(value, dict):
        raise NotWell(
            f"{url.split('?')[0]} answers {status}: {body[:200].decode(errors='replace')}"
        )
    return value


# --- the directories of HDFS, made at the first start through WebHDFS, which needs no JVM ---


def _directories_to_make(state: SandboxState) -> list[tuple[str, str, str | None]]:
    """Return path, mode and owner of every directory to create, parents first.

    Every service AM writes below `<hadoop.tmp.dir>/.yarn/services` *in HDFS*. Otherwise the first
    user would own that tree, and a second user's containers would fail without a diagnostic.
    """
    services = state.layout.run / "tmp" / ".yarn" / "services"
    parents = [
        (str(parent), "755", None)
        for parent in reversed(services.parents)
        if str(parent) not in ("/", "/tmp")  # noqa: S108
    ]
    names = [state.user, state.submitter, *USERS]
    if state.secure:
        names.append(GATEWAY)
    users = [(f"/user/{user}", "755", user) for user in dict.fromkeys(names)]
    return [
        ("/tmp", "1777", None),  # noqa: S108
        ("/tmp/logs", "1777", None),  # noqa: S108
        ("/user", "755", None),
        *users,
        *parents,
        (str(services), "1777", None),
    ]


def prepare_hdfs(state: SandboxState) -> None:
    """Create the directories on HDFS, and, for Hadoop versions that need it, upload the classes of
    the service AM. A second call changes nothing.

    Raises:
        SandboxError: The NameNode or the DataNode does not respond, or returns an error.
    """
    for path, mode, owner in _directories_to_make(state):
        _hdfs_put(state, path, {"op": "MKDIRS", "permission": mode})
        # MKDIRS does not change the mode of an existing directory, and applies the umask.
        _hdfs_put(state, path, {"op": "SETPERMISSION", "permission": mode})
        if owner:
            _hdfs_put(state, path, {"op": "SETOWNER", "owner": owner})
    if state.tarball:
        _upload_tarball(
            state, Path(state.tarball), f"/yarn-services/{state.hadoop_version}/service-dep.tar.gz"
        )


def _upload_tarball(state: SandboxState, source: Path, target: str) -> None:
    """Upload the tarball; the services API accepts it only if everyone can read it and enter its
    parent directories.
    """
    parent = target.rpartition("/")[0]
    _hdfs_put(state, parent, {"op": "MKDIRS", "permission": "755"})
    query = {"op": "CREATE", "overwrite": "true", "permission": "755", "noredirect": "true"}
    location = str(json.loads(_hdfs_put(state, target, query))["Location"])
    try:
        with source.open("rb") as tarball:
            status, body = send("PUT", location, timeout_s=120, body=tarball)
    except NotWell as error:
        raise SandboxError(f"could not upload {source.name} to HDFS: {error}") from None
    if status != 201:
        said = body[:300].decode(errors="replace")
        raise SandboxError(f"could not upload {source.name} to HDFS: {status} {said}")


def _hdfs_put(state: SandboxState, path: str, query: dict[str, str]) -> bytes:
    url = f"{state.namenode_url}/webhdfs/v1{quote(path)}?{urlencode({**query, 'user.name': state.user})}"  # noqa: E501
    try:
        status, body = send("PUT", url, state, timeout_s=30)
    except NotWell as error:
        raise SandboxError(f"could not prepare HDFS: {error}") from None
    if status not in (200, 201):
        raise SandboxError(
            f"could not prepare HDFS: {query['op']} {path}: {status} "
            f"{body[:300].decode(errors='replace')}"
        )
    return body
