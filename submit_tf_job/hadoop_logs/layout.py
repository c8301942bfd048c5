"""Directories and names of aggregated logs, for every Hadoop since 2.x."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from submit_tf_job.hadoop_logs.interfaces import DirectoryEntry, LogStore

_APP_ID = re.compile(r"application_\d+_(\d+)")
_NODE_FILE = re.compile(r"(?P<host>.+)_(?P<port>\d{1,5})(?:_(?P<uploaded>\d{12,14}))?")


@dataclass(frozen=True)
class LogSettings:
    """A cluster's configuration of log aggregation.

    Attributes:
        root: Directory or URI, `yarn.nodemanager.remote-app-log-dir`; without a scheme it lies on
            the default file system.
        enabled: Whether logs are aggregated; None where unknown.
        retain_s: Seconds after which the history server deletes them, None for never.
        every_container: Whether the NodeManagers collect the logs of every container.
    """

    root: str = "/tmp/logs"  # noqa: S108 - YarnConfiguration.DEFAULT_NM_REMOTE_APP_LOG_DIR
    other_roots: tuple[str, ...] = ()
    enabled: bool | None = None
    retain_s: int | None = None
    every_container: bool = True

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> LogSettings:
        """Read the properties of yarn-site.xml or of the ResourceManager's `/conf`; ignore invalid
        values.
        """
        default = cls()
        root = properties.get("yarn.nodemanager.remote-app-log-dir") or default.root
        own = (
            value
            for name, value in properties.items()
            if re.fullmatch(r"yarn\.log-aggregation\.[^.]+\.remote-app-log-dir", name) and value
        )
        enabled = properties.get("yarn.log-aggregation-enable", "").strip().lower()
        retain = properties.get("yarn.log-aggregation.retain-seconds", "").strip()
        policy = properties.get("yarn.nodemanager.log-aggregation.policy.class", "").strip()
        return cls(
            root=root,
            other_roots=tuple(sorted({value for value in own if value != root})),
            enabled={"true": True, "false": False}.get(enabled),
            retain_s=int(retain) if re.fullmatch(r"[1-9]\d{0,11}", retain) else None,
            every_container=not policy or policy.endswith(".AllContainerLogAggregationPolicy"),
        )


@dataclass(frozen=True)
class AppDirectory:
    """One directory that holds node files of the application."""

    path: str
    entries: tuple[DirectoryEntry, ...]


def node_file(name: str) -> tuple[str, int] | None:
    """Parse the name of a node file: the NodeId with `_` for `:`, and under rolling aggregation the
    time in milliseconds, else 0 (LogAggregationUtils.getNodeString).
    """
    found = _NODE_FILE.fullmatch(name)
    if found is None:
        return None
    return f"{found['host']}:{found['port']}", int(found["uploaded"] or 0)


def find_directories(store: LogStore, root: str, user: str, app_id: str) -> list[AppDirectory]:
    """Return the application's directories under one root, with any suffix and format.

    Searches each directory of the user: `bucket-<suffix>-<format>/<NNNN>/<application>` (Hadoop
    3.3 and later), `<suffix>-<format>/<application>` (3.1.4, 3.2) and `<suffix>/<application>`
    (before).
    """
    found = []
    for directory in _list(store, f"{root.rstrip('/')}/{user}"):
        if directory.is_dir:
            path = _application_path(
                f"{root.rstrip('/')}/{user}/{directory.name}", directory.name, app_id
            )
            entries = _list(store, path)
            if entries:
                found.append(AppDirectory(path, tuple(entries)))
    return found


def _list(store: LogStore, path: str) -> Sequence[DirectoryEntry]:
    try:
        return store.list_dir(path)
    except FileNotFoundError:
        return ()


def _application_path(path: str, name: str, app_id: str) -> str:
    number = _APP_ID.fullmatch(app_id)
    if name.startswith("bucket-") and number:
        # LogAggregationUtils.getRemoteBucketDir
        return f"{path}/{int(number[1]) % 10000:04d}/{app_id}"
    return f"{path}/{app_id}"
