"""Aggregated logs: recorded from clusters, and any files in their layout."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from submit_tf_job.errors import AuthError
from submit_tf_job.hadoop_logs.node_files import LogSettings
from submit_tf_job.logs.collected import AggregatedLogs, WhatYarnSays
from submit_tf_job.storage import NoSuchPath
from submit_tf_job.storage.local_files import LocalStorage

DATA = Path(__file__).parents[1] / "data" / "logs"


class Counting(LocalStorage):
    """Counts what is asked of it, and has lost or forbids some of its files."""

    def __init__(self, forbidden: str = "", vanished: str = "") -> None:
        super().__init__()
        self.listings = self.requests = self.bytes = 0
        self.forbidden, self.vanished = forbidden, vanished

    def list_dir(self, path: str) -> Any:
        self.listings += 1
        if self.forbidden and self.forbidden in path:
            raise AuthError(f"{path}: Permission denied: user=bob")
        return super().list_dir(path)

    def open(self, path: str) -> Any:
        self.requests += 1
        if self.vanished and path.endswith(self.vanished):
            raise NoSuchPath(f"{path}: no such file or directory")
        file = super().open(path)
        read = file.read_range

        def counted(start: int, length: int) -> bytes:
            self.bytes += length
            return read(start, length)

        object.__setattr__(file, "read_range", counted)
        return file


def recording(name: str) -> tuple[str, list[tuple[str, str, str, int, str]]]:
    found = json.loads((DATA / name / "java.json").read_text())
    return found["app_id"], [tuple(row) for row in found["logs"]]


def recorded(name: str, **more: Any) -> AggregatedLogs:
    return reader(DATA / name, {}, more.pop("app_id", "") or recording(name)[0], **more)


def reader(
    root: Path, files: dict[str, bytes], app_id: str, *, said: Any = None, **known: Any
) -> AggregatedLogs:
    """Write files below a root; return what reads them there by a `store`, or below `others`."""
    store, others = known.pop("store", None) or LocalStorage(), known.pop("others", ())
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    found = LogSettings(root="/nowhere" if others else str(root), other_roots=others)
    settings = replace(found, **known)
    return AggregatedLogs(store, app_id, "alice", settings, said or WhatYarnSays())


def container(app_id: str, number: int) -> str:
    return f"{app_id.replace('application', 'container')}_01_{number:06}"
