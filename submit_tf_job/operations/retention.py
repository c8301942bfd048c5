"""Which runs of a job have ended; delete ended runs, and keep as many as the settings say."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from submit_tf_job.errors import NameTaken, SubmitTFJobError
from submit_tf_job.operations.cluster import Cluster, staging_root, storage_of
from submit_tf_job.operations.stored_services import stored_services
from submit_tf_job.yarn import service_properties
from submit_tf_job.yarn.observed import GOING_ON
from submit_tf_job.yarn.run_names import is_run, is_run_of, job_of

if TYPE_CHECKING:
    from submit_tf_job.operations.stored_services import StoredServices
    from submit_tf_job.storage import Stat
    from submit_tf_job.yarn.submission_steps import StoredRun

_LOG = logging.getLogger(__name__)
_RETIRED_AT_ONCE, _LOOKED_AT = 3, 10  # one submission is not delayed by more
# a scheduler asks again for what it submitted within this time (docs/schedulers.md)
KEY_KEPT_S = 7 * 86400.0


def ended_runs(cluster: Cluster, job: str) -> tuple[str, ...]:
    """Return the names of a job's runs that are stored and have ended, the newest first; without
    HDFS, of those that the ResourceManager lists.

    Raises:
        NameTaken: Another client may be submitting a run at this moment.
    """
    stored = stored_services(cluster)
    if stored is None:
        apps = cluster.client.apps(user=cluster.settings.user)
        ended = {app.name: None for app in apps if app.ended and is_run_of(app.name, job)}
        return tuple(name for name in ended if name)
    return tuple(
        item.name
        for item in stored.listed()
        if is_run_of(item.name, job)
        and _stored_end_ms(cluster, item.name, stored.copy_of(item.name)) is not None
    )


def _stored_end_ms(cluster: Cluster, run: str, found: StoredRun | None) -> int | None:
    """Return when a stored run ended, 0 if the time is not known; None if nothing is stored of it
    (`found` is None), while an application of the run is alive or may still start, or while a
    restarted ResourceManager may not list it yet.

    Raises:
        NameTaken: Another client may be submitting the run at this moment.
    """
    from submit_tf_job.yarn.submission_steps import IN_FLIGHT_S

    if found is None:
        return None
    if found.app_id is None:
        live = cluster.client.apps(
            user=cluster.settings.user, states=GOING_ON, tags=(f"name: {run}",)
        )
        if not live and found.age_s < IN_FLIGHT_S:
            raise NameTaken(
                f"{run} may be being submitted at this moment",
                hint=f"try again in {IN_FLIGHT_S - found.age_s:.0f} s",
            )
        return None if live else 0
    app = cluster.client.app(found.app_id)
    if app is None:
        return None if is_recovering(cluster) else 0
    return app.finished_ms or 0 if app.ended else None


def is_recovering(cluster: Cluster) -> bool:
    """Return whether the ResourceManager may have started just now, so that it does not list all
    applications yet. True if that is not known.

    Raises:
        ClusterUnavailable: No ResourceManager answered.
    """
    from submit_tf_job.yarn.submission_steps import RECOVERS_S

    return cluster.client.cluster_info().is_recovering(RECOVERS_S) is not False


def stored_texts(cluster: Cluster, runs: Iterable[str]) -> tuple[str, int]:
    """Return the stored services of runs, as far as they can be read, and the time when YARN stored
    the newest of them, in milliseconds by the clock of HDFS; "" and 0 if none can be read.
    """
    stored = stored_services(cluster)
    found: list[str] = []
    posted_ms = 0
    if stored is None:
        return "", posted_ms
    for run in runs:
        with suppress(SubmitTFJobError):
            found.append(json.dumps(stored.content(run)))
            posted_ms = max(posted_ms, stored.written_ms(run))
    return "\n".join(found), posted_ms


def retire(cluster: Cluster, stored: StoredServices, job: str, newest: str) -> None:
    """Delete a few of a job's oldest ended runs beyond `keep_runs` of the settings, after a
    submission of the run `newest`, and remove the jars of the run before it if that has ended. The
    newest ended run is always kept; errors are only logged.
    """
    try:
        retention, keep = _Retention(cluster, stored), cluster.settings.keep_runs
        earlier = _newest_first(
            cluster,
            [item for item in stored.listed() if is_run_of(item.name, job) and item.name != newest],
        )
        retention.remove_jars(earlier[:1])
        # never the newest that has ended; the run that was just submitted counts, too
        retention.delete(job, earlier[max(keep - 1, 1) :], _RETIRED_AT_ONCE)
    except SubmitTFJobError as error:
        _LOG.info("earlier runs of %s: %s", job, error.message)


def retire_all(cluster: Cluster, *, dry_run: bool) -> tuple[str, ...]:
    """Delete the ended runs of all jobs beyond `keep_runs` of the settings, and the jars of the
    ended runs that are kept. Return the names of the deleted runs, or in a dry run of those that
    would be deleted; () without HDFS.

    Raises:
        SubmitTFJobError: HDFS or the ResourceManager does not answer, or refuses.
    """
    stored = stored_services(cluster)
    if stored is None:
        return ()
    jobs: dict[str, list[Stat]] = {}
    for item in stored.listed():
        if is_run(item.name):
            jobs.setdefault(job_of(item.name), []).append(item)
    before, retention = stored.names(), _Retention(cluster, stored)
    would: list[str] = []
    for job, items in jobs.items():
        newest_first = _newest_first(cluster, items)
        ended = (at for at, item in enumerate(newest_first) if retention.has_ended(item.name))
        beyond = newest_first[max(cluster.settings.keep_runs, next(ended, 0) + 1) :]
        if dry_run:
            would += retention.deletable(beyond, len(items))
            continue
        retention.remove_jars(newest_first)
        retention.delete(job, beyond, len(items))
    return tuple(sorted(would if dry_run else before - stored.names()))


class _Retention:
    """Decides which stored runs have ended and may be deleted; each run is read once."""

    def __init__(self, cluster: Cluster, stored: StoredServices) -> None:
        self._cluster, self._stored = cluster, stored
        self._read: dict[str, tuple[StoredRun, int] | None] = {}

    def remove_jars(self, items: Sequence[Stat]) -> None:
        """Remove the ApplicationMaster's libraries that YARN stored for those of the runs that have
        ended.
        """
        for item in items:
            if self.has_ended(item.name):
                self._stored.remove_jars(item.name)

    def delete(self, job: str, beyond: Sequence[Stat], most: int) -> None:
        """Delete the oldest ended runs of `beyond`, which are the runs beyond `keep_runs` from new
        to old; `most` of them at most.
        """
        gone = 0
        for run in self.deletable(beyond, most):
            forget_run(self._cluster, job, run)  # first: what is not stored is not found again
            gone += self._cluster.client.delete_service(run)
            if gone == most:
                return

    def deletable(self, beyond: Sequence[Stat], most: int) -> Iterator[str]:
        """Yield the oldest ended runs of `beyond` that need not be kept (`_is_kept`). Only the
        `most` oldest ones are examined, but at least ten.
        """
        for item in tuple(reversed(beyond))[: max(most, _LOOKED_AT)]:
            ended = self._ended_run(item.name)
            if ended and not self._is_kept(item, *ended):
                yield item.name

    def has_ended(self, run: str) -> bool:
        """Return whether a stored run has ended."""
        return self._ended_run(run) is not None

    def _ended_run(self, run: str) -> tuple[StoredRun, int] | None:
        """Return a run that has ended, and when it ended; None for a run that has not."""
        if run not in self._read:
            found, self._read[run] = self._stored.copy_of(run), None
            with suppress(NameTaken):
                end_ms = _stored_end_ms(self._cluster, run, found)
                if found is not None and end_ms is not None:
                    self._read[run] = found, end_ms
        return self._read[run]

    def _is_kept(self, item: Stat, found: StoredRun, end_ms: int) -> bool:
        """Return whether an ended run must stay. It must stay if its idempotency key is not always
        run again (`Again`) and it ended less than a week ago: its stored service then refuses a
        second run. It must also stay while it is so new that a late POST of it may still arrive,
        which would run it again.
        """
        from submit_tf_job.yarn.submission_steps import IN_FLIGHT_S

        now_ms = self._cluster.client.now_ms()
        if now_ms is None or now_ms - item.modified_ms < IN_FLIGHT_S * 1000:
            return True
        if now_ms - max(item.modified_ms, end_ms) >= KEY_KEPT_S * 1000:
            return False
        return service_properties.AGAIN in found.properties


def _newest_first(cluster: Cluster, items: Sequence[Stat]) -> Sequence[Stat]:
    """Sort stored runs by the start of their applications, the newest first. The time of a run's
    directory is not used first, because it also changes when something is removed there.

    The ResourceManager has forgotten the oldest runs, and knows nothing of runs whose POST failed;
    these are sorted by the time of the directory.
    """
    tags = [f"name: {item.name}" for item in items]
    apps = cluster.client.apps(user=cluster.settings.user, tags=tags) if items else ()
    started = {app.name: app.started_ms or 0 for app in apps}
    return sorted(
        items, key=lambda item: (started.get(item.name, 0), item.modified_ms), reverse=True
    )


def forget_run(cluster: Cluster, job: str, run: str) -> None:
    """Remove the staged files of one run: its keytab, the lists of its sharded inputs, and the
    directory in which its tasks found one another. Do nothing without a staging directory.

    Raises:
        SubmitTFJobError: HDFS cannot be reached, or the removal failed.
    """
    from submit_tf_job.plan.delivery import Stage
    from submit_tf_job.storage import NoSuchPath

    root = staging_root(cluster.settings)
    if root is None:
        return
    stage = Stage.of(root, job)
    storage = storage_of(cluster.settings, stage.files)
    for directory in (stage.keytabs, stage.lists, stage.meeting):
        with suppress(NoSuchPath):
            for item in storage.list_dir(directory):
                if item.name == run or item.name.startswith(f"{run}-"):
                    storage.remove(item.path, recursive=True)
