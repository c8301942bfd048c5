"""Create the directories of the sandbox's HDFS through WebHDFS, without starting a JVM."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote, urlencode

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.kdc import GATEWAY, USERS
from submit_tf_job.sandbox.saved_state import Layout, SandboxState
from submit_tf_job.sandbox.web import NotWell, access_of, send

__all__ = ["prepare_hdfs"]


def _directories(state: SandboxState, layout: Layout) -> list[tuple[str, str, str | None]]:
    """Return path, mode and owner of every directory to create, parents first.

    Every service AM writes below `<hadoop.tmp.dir>/.yarn/services` *in HDFS*. Otherwise the first
    user would own that tree, and a second user's containers would fail without a diagnostic.
    """
    services = layout.run / "tmp" / ".yarn" / "services"
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


def prepare_hdfs(state: SandboxState, layout: Layout) -> None:
    """Create the directories, and for Hadoop versions that need it upload the service AM's classes.
    Repeating it changes nothing.

    Raises:
        SandboxError: The NameNode returns an error.
    """
    for path, mode, owner in _directories(state, layout):
        _call(state, "PUT", path, {"op": "MKDIRS", "permission": mode})
        # MKDIRS does not change the mode of an existing directory, and applies the umask.
        _call(state, "PUT", path, {"op": "SETPERMISSION", "permission": mode})
        if owner:
            _call(state, "PUT", path, {"op": "SETOWNER", "owner": owner})
    if state.tarball:
        _upload(
            state, Path(state.tarball), f"/yarn-services/{state.hadoop_version}/service-dep.tar.gz"
        )


def _upload(state: SandboxState, source: Path, target: str) -> None:
    """Write the tarball; the services API accepts it only if everyone can read it and enter its
    parents.
    """
    parent = target.rpartition("/")[0]
    _call(state, "PUT", parent, {"op": "MKDIRS", "permission": "755"})
    answer = _call(
        state,
        "PUT",
        target,
        {"op": "CREATE", "overwrite": "true", "permission": "755", "noredirect": "true"},
    )
    location = str(json.loads(answer)["Location"])
    try:
        status, body = send("PUT", location, timeout_s=120, body=source)
    except NotWell as error:
        raise SandboxError(f"could not upload {source.name} to HDFS: {error}") from None
    if status != 201:
        raise SandboxError(
            f"could not upload {source.name} to HDFS: {status} "
            f"{body[:300].decode(errors='replace')}"
        )


def _call(state: SandboxState, method: str, path: str, query: dict[str, str]) -> bytes:
    url = f"{state.namenode_url}/webhdfs/v1{quote(path)}?{urlencode({**query, 'user.name': state.user})}"  # noqa: E501
    try:
        status, body = send(method, url, timeout_s=30, access=access_of(state))
    except NotWell as error:
        raise SandboxError(f"could not prepare HDFS: {error}") from None
    if status not in (200, 201):
        raise SandboxError(
            f"could not prepare HDFS: {query['op']} {path}: {status} "
            f"{body[:300].decode(errors='replace')}"
        )
    return body
