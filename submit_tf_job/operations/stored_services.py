"""YARN's own copies of a user's services on HDFS: `~/.yarn/services/RUN/RUN.json` (CoreFileSystem).

The services API returns a service's properties only while its ApplicationMaster runs
(hadoop-facts.md#properties-of-a-service); the copies on HDFS have the properties until the run is
deleted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from submit_tf_job.errors import ClusterUnavailable, SubmitTFJobError
from submit_tf_job.operations.cluster import Cluster, storage_of
from submit_tf_job.yarn import service_properties
from submit_tf_job.yarn.observed import ObservedService

if TYPE_CHECKING:
    from submit_tf_job.observation import JobStatus
    from submit_tf_job.storage import Stat, Storage
    from submit_tf_job.yarn.submission_steps import StoredRun


class StoredServices(NamedTuple):
    """The stored copies of one user's services.

    Attributes:
        open: Opens the file system of YARN's copies; called when a copy is needed.
        user: The user whose services they are.
    """

    open: Callable[[], Storage]
    user: str

    def listed(self) -> tuple[Stat, ...]:
        """Return the directory of each stored service, the last changed first; () if the user has
        none.

        Raises:
            SubmitTFJobError: The directories cannot be read.
        """
        from submit_tf_job.storage import NoSuchPath

        storage = self.open()
        try:
            found = storage.list_dir(self._services_directory(storage))
        except NoSuchPath:
            return ()
        return tuple(sorted(found, key=lambda item: item.modified_ms, reverse=True))

    def names(self) -> frozenset[str]:
        """Return the names of all stored services.

        Raises:
            SubmitTFJobError: The names cannot be read.
        """
        return frozenset(item.name for item in self.listed())

    def copy_of(self, run: str) -> StoredRun | None:
        """Return the stored copy of one run's service; None if there is no copy. A copy that is cut
        off is returned with `torn` set.

        Raises:
            SubmitTFJobError: The copy cannot be read.
        """
        from submit_tf_job.storage import NoSuchPath
        from submit_tf_job.yarn.submission_steps import StoredRun

        storage = self.open()
        path = self._copy_path(storage, run)
        try:
            written_ms = storage.stat(path).modified_ms
            content = _parse_copy(storage.read(path))
        except NoSuchPath:
            return None
        app_id = str(content.get("id") or "") or None
        age_s = 0.0
        if app_id is None:
            with suppress(SubmitTFJobError):
                age_s = (storage.now_ms(path.rpartition("/")[0]) - written_ms) / 1000
        properties = properties_of(content)
        key = properties.get(service_properties.SUBMISSION, "")
        return StoredRun(key, app_id, age_s, torn=not content, properties=properties)

    def content(self, run: str) -> Mapping[str, Any]:
        """Return the stored service of a run.

        Raises:
            SubmitTFJobError: The stored service does not exist, cannot be read, or is being
                written.
        """
        storage = self.open()
        path = self._copy_path(storage, run)
        content = _parse_copy(storage.read(path))
        if not content:
            raise ClusterUnavailable(f"{storage.url(path)}: describes no service")
        return content

    def written_ms(self, run: str) -> int:
        """Return when YARN wrote the stored service of a run, in milliseconds by the clock of HDFS.

        Raises:
            SubmitTFJobError: The stored service does not exist, or HDFS does not answer.
        """
        storage = self.open()
        return storage.stat(self._copy_path(storage, run)).modified_ms

    def properties(self, run: str) -> dict[str, str]:
        """Return the properties of a stored service; raises the same errors as `content`."""
        return properties_of(self.content(run))

    def deciding_task(self, run: str, app_id: str) -> str | None:
        """Return the deciding task of the job that a stored service describes; None if another tool
        made the service, or it now belongs to another application. Raises the same errors as
        `content`.
        """
        content = self.content(run)
        if content.get("id") != app_id:
            return None
        return properties_of(content).get(service_properties.DECIDING)

    def remove_jars(self, run: str) -> None:
        """Remove the ApplicationMaster's libraries that YARN stored for a run that has ended: 0.6
        MB; on a cluster where they are not provided as a tarball, more than 100 MB. Do nothing if
        they are gone.

        Raises:
            SubmitTFJobError: The libraries cannot be removed.
        """
        from submit_tf_job.storage import NoSuchPath

        storage = self.open()
        with suppress(NoSuchPath):
            storage.remove(f"{self._services_directory(storage)}/{run}/lib", recursive=True)

    def _services_directory(self, storage: Storage) -> str:
        return f"{storage.home(self.user)}/.yarn/services"

    def _copy_path(self, storage: Storage, run: str) -> str:
        return f"{self._services_directory(storage)}/{run}/{run}.json"


def stored_services(cluster: Cluster) -> StoredServices | None:
    """Return YARN's stored copies of the user's services; None if `hadoop_conf` is not set, or
    names no default file system. If the file system cannot be opened, the methods that read raise
    the error.
    """
    from submit_tf_job.storage import NoDefaultFileSystem

    settings = cluster.settings
    if settings.hadoop_conf is None:
        return None
    opened = cache(lambda: storage_of(settings))
    try:
        opened()
    except NoDefaultFileSystem:
        return None
    except SubmitTFJobError:
        pass  # who reads a copy is told
    return StoredServices(opened, settings.user)


def properties_of(service: Mapping[str, Any]) -> dict[str, str]:
    """Return the properties in the JSON of a service; {} if it has none."""
    configuration = service.get("configuration")
    properties = configuration.get("properties") if isinstance(configuration, dict) else None
    if not isinstance(properties, dict):
        return {}
    return {str(key): str(value) for key, value in properties.items()}


def _parse_copy(content: bytes) -> Mapping[str, Any]:
    """Return the JSON object in a copy; an empty object if the copy is cut off."""
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def service_of(cluster: Cluster, status: JobStatus) -> ObservedService | None:
    """Return YARN's service of a run: that of the status; or, if it lists no components, YARN's
    copy on HDFS. The status's own, which may be None, is also returned for a run of another user,
    and if there is no copy that can be read.
    """
    if status.components or status.of_other_user:
        return status.service
    stored = stored_services(cluster)
    with suppress(SubmitTFJobError):
        return ObservedService.from_json(stored.content(status.run)) if stored else status.service
    return status.service
