"""The files of the records of runs, in the staging directory: `records/JOB/RUN.json`, `RUN.report`
and `RUN.usage`. `run_records` describes what they contain.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from submit_tf_job.container import contract
from submit_tf_job.errors import SettingsError
from submit_tf_job.operations.cluster import Cluster, staging_root, storage_of
from submit_tf_job.yarn.run_names import job_of, short_head

if TYPE_CHECKING:
    from submit_tf_job.storage import Stat, Storage

_LOG = logging.getLogger(__name__)
REPORT, USAGE = contract.RECORD_REPORT, contract.RECORD_USAGE
TEMPORARY = ".tmp"  # of a file that is being written, or whose writer was killed
LIFETIME = "lifetime_s"  # from the time of the file on; the deciding task reads it
_CLOCKS_DIFFER_S = 300  # of the ResourceManager, in a record, and of the NameNode, at its file


class RecordFiles(NamedTuple):
    """The directory of records, opened once for several reads and writes.

    Attributes:
        storage: The storage of the staging directory.
        top: The path of the directory of records.
    """

    storage: Storage
    top: str

    @classmethod
    def if_any(cls, cluster: Cluster) -> RecordFiles | None:
        """Open the directory of records; None without a staging directory."""
        root = staging_root(cluster.settings)
        if root is None:
            return None
        storage = storage_of(cluster.settings, root)
        return cls(storage, storage.path(f"{root}/records"))

    @classmethod
    def of(cls, cluster: Cluster) -> RecordFiles:
        """Open the directory of records.

        Raises:
            SettingsError: There is no staging directory, and so no history.
        """
        found = cls.if_any(cluster)
        if found is None:
            raise SettingsError(
                "no staging directory is known, and so no history is kept",
                hint="set hadoop_conf, or staging: hdfs://… in the settings",
            )
        return found

    def path_of(self, run: str, ending: str = ".json") -> str:
        """Return the path of the record of a run, or of a file beside it."""
        return f"{self.top}/{job_of(run)}/{run}{ending}"

    def jobs(self) -> list[str]:
        """Return the heads of all runs that have records. A run's head is the first part of its
        name: the job's name, or a short form of it.
        """
        return [item.name for item in self._list_directory(self.top)]

    def of_run_heads(self, *heads: str) -> list[Stat]:
        """Return the records of all runs with the given heads (see `jobs`)."""
        return [
            item
            for head in heads
            for item in self.files_of_head(head)
            if not item.name.endswith((REPORT, USAGE, TEMPORARY))
        ]

    def files_of_head(self, head: str) -> list[Stat]:
        """Return all files of the runs with one head (see `jobs`): records, reports, use, and
        temporary files.
        """
        return self._list_directory(f"{self.top}/{head}")

    def of_job(self, job: str | None) -> list[Stat]:
        """Return the records of a job, or of all jobs. The names of the job's runs may have a short
        form of the job's name, so both forms are searched; the short form may also be that of
        another job.
        """
        return self.of_run_heads(*(dict.fromkeys([job, short_head(job)]) if job else self.jobs()))

    def read(self, path: str) -> dict[str, Any] | None:
        """Return the record in a file; None if the file is not a valid record, which is logged.

        Raises:
            NoSuchPath: The file does not exist.
        """
        return _parse_record(self.storage.read(path)) or warn_of_unreadable(path)

    def newest(
        self, found: Iterable[Stat], limit: int, is_meant: Callable[[dict[str, Any]], bool]
    ) -> list[dict[str, Any]]:
        """Return the records that are wanted, by the time of submission, the newest first.

        Args:
            found: The files of records.
            limit: The largest number of records.
            is_meant: Returns whether a record is wanted.
        """
        chosen: list[dict[str, Any]] = []
        for item in sorted(found, key=lambda item: item.modified_ms, reverse=True):
            # a file changes when the run ends: no run was submitted later than its file was written
            written_s = item.modified_ms / 1000 + _CLOCKS_DIFFER_S
            if len(chosen) >= limit and chosen[limit - 1]["submission"]["at"] >= written_s:
                break
            record = self.read(item.path)
            if record is not None and is_meant(record):
                chosen.append(record)
                chosen.sort(key=lambda record: -int(record["submission"]["at"]))
        return chosen[:limit]

    def make_directory(self, head: str) -> None:
        """Make the directory for the records of all runs with one head (see `jobs`)."""
        self.storage.mkdirs(f"{self.top}/{head}", 0o700)

    def write(self, record: Mapping[str, Any]) -> None:
        """Write the record of a run. This also restarts the lifetime that the record holds
        (`LIFETIME`).
        """
        text = json.dumps(record, sort_keys=True, ensure_ascii=False, indent=1)
        # half of a surrogate pair, which UTF-8 has not, is escaped; and its backslash, for JSON
        text = re.sub("[\ud800-\udfff]", lambda half: f"\\\\u{ord(half.group()):04x}", text)
        self.storage.write(self.path_of(record["run"]), text.encode(), mode=0o600)

    def remove(self, item: Stat) -> None:
        """Remove a record; remove the files beside it (report and use) before the record itself."""
        for ending in (REPORT, USAGE, ".json"):
            self.storage.remove(f"{item.path.removesuffix('.json')}{ending}")

    def _list_directory(self, path: str) -> list[Stat]:
        """Return the entries of a directory; [] if there is no directory with that path."""
        from submit_tf_job.storage import NoSuchPath

        with suppress(NoSuchPath):
            return self.storage.list_dir(path)
        return []


@cache
def warn_of_unreadable(path: str) -> None:
    """Log, once for each file, that a file of the records cannot be read."""
    _LOG.warning("%s cannot be read: it is damaged, or a newer version wrote it", path)


def _parse_record(content: bytes) -> dict[str, Any] | None:
    """Parse a record; return None if the content is not a record. The content is not trusted,
    because the job's containers can write it, too.
    """
    with suppress(ValueError, RecursionError):
        found = json.loads(content)
        if not isinstance(found, dict) or found.get("kind") != "RunRecord":
            return None
        found.pop(LIFETIME, None)  # what is left of it is YARN's to say
        named = all(isinstance(found.get(key), str) for key in ("name", "run", "application_id"))
        began, end = found.get("submission"), found.get("end")
        if named and isinstance(began, dict) and isinstance(end, (dict, type(None))):
            known = isinstance(began.get("key"), str) and type(began.get("at")) is int
            return found if known else None
    return None
