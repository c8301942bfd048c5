"""The few directories that users find in the sandbox's HDFS, made through WebHDFS: no JVM to start."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote, urlencode

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.access import access_of
from submit_tf_job.sandbox.kdc import GATEWAY, USERS
from submit_tf_job.sandbox.state import Layout, State
from submit_tf_job.sandbox.web import NotWell, send

__all__ = ["EXTRA_USERS", "directories", "prepare_hdfs"]

# So that a job can be tried as somebody who is not the HDFS superuser.
EXTRA_USERS = USERS


def directories(state: State, layout: Layout) -> list[tuple[str, str, str | None]]:
    """Return path, mode and owner of every directory to make, parents first.

    Every service AM writes below `<hadoop.tmp.dir>/.yarn/services` *in HDFS*, whatever the job holds. The first user would own that tree,
    and a second user's containers fail without a diagnostic.
    """
    services = layout.run / "tmp" / ".yarn" / "services"
    parents = [(str(parent), "755", None) for parent in reversed(services.parents) if str(parent) not in ("/", "/tmp")]  # noqa: S108 - in HDFS
    users = [(f"/user/{user}", "755", user) for user in dict.fromkeys((state.user, *EXTRA_USERS, *([GATEWAY] if state.secure else [])))]
    return [("/tmp", "1777", None), ("/tmp/logs", "1777", None), ("/user", "755", None), *users, *parents, (str(services), "1777", None)]  # noqa: S108


def prepare_hdfs(state: State, layout: Layout) -> None:
    """Make the directories, and for lines that need it upload the service AM's classes. Repeating it changes nothing.

    Raises:
        SandboxError: when the NameNode refuses.
    """
    for path, mode, owner in directories(state, layout):
        _call(state, "PUT", path, {"op": "MKDIRS", "permission": mode})
        # MKDIRS leaves the mode of a directory that is already there, and applies the umask.
        _call(state, "PUT", path, {"op": "SETPERMISSION", "permission": mode})
        if owner:
            _call(state, "PUT", path, {"op": "SETOWNER", "owner": owner})
    if state.tarball:
        _upload(state, Path(state.tarball), f"/yarn-services/{state.hadoop_version}/service-dep.tar.gz")


def _upload(state: State, source: Path, target: str) -> None:
    """Write the tarball; the services API takes it only if everyone can read it and enter its parents."""
    parent = target.rpartition("/")[0]
    _call(state, "PUT", parent, {"op": "MKDIRS", "permission": "755"})
    answer = _call(state, "PUT", target, {"op": "CREATE", "overwrite": "true", "permission": "755", "noredirect": "true"})
    location = str(json.loads(answer)["Location"])
    try:
        status, body = send("PUT", location, timeout_s=120, body=source)
    except NotWell as error:
        raise SandboxError(f"could not upload {source.name} to HDFS: {error}") from None
    if status != 201:
        raise SandboxError(f"could not upload {source.name} to HDFS: {status} {body[:300].decode(errors='replace')}")


def _call(state: State, method: str, path: str, query: dict[str, str]) -> bytes:
    url = f"{state.namenode_url}/webhdfs/v1{quote(path)}?{urlencode({**query, 'user.name': state.user})}"
    try:
        status, body = send(method, url, timeout_s=30, access=access_of(state))
    except NotWell as error:
        raise SandboxError(f"could not prepare HDFS: {error}") from None
    if status not in (200, 201):
        raise SandboxError(f"could not prepare HDFS: {query['op']} {path}: {status} {body[:300].decode(errors='replace')}")
    return body
