"""doctor: check from this machine everything that a job needs; each check has a time limit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from submit_tf_job.doctor import cluster_checks, machine_checks
from submit_tf_job.doctor.findings import Check, Examination, Examined, Found, Subject
from submit_tf_job.errors import SubmitTFJobError, UsageError
from submit_tf_job.settings import Settings

if TYPE_CHECKING:
    from submit_tf_job.yarn.resource_manager import ResourceManager

CHECK_S = 15.0  # limit of one check

# name, check, whether it needs a cluster that answers
_CHECKS: tuple[tuple[str, Callable[[Examined], Found], bool], ...] = (
    ("settings", machine_checks.check_settings, False),
    ("dns", machine_checks.check_dns, False),
    ("resource-manager", cluster_checks.check_resource_managers, False),
    ("services-api", cluster_checks.check_services_api, True),
    ("authentication", cluster_checks.check_authentication, True),
    ("queue", cluster_checks.check_queue, True),
    ("nodes", cluster_checks.check_nodes, True),
    ("limits", cluster_checks.check_limits, True),
    ("docker", cluster_checks.check_docker, True),
    ("log-aggregation", cluster_checks.check_log_aggregation, True),
    ("placement", cluster_checks.check_placement, True),
    ("dns-domain", machine_checks.check_domain, True),
    ("registry-dns", machine_checks.check_registry_dns, False),
    ("hdfs", machine_checks.check_hdfs, False),
    ("services-directory", machine_checks.check_services_directory, False),
)
# What does not work when a check itself fails.
_BREAKS = {
    "services-api": "submitting, and finding a job by its name",
    "queue": "checking whether a job is accepted",
    "nodes": "checking the cluster's resources",
    "limits": "submitting: every job is compared with them",
    "hdfs": "every job: YARN keeps services there",
}


def doctor(
    settings: Settings,
    *,
    queue: str | None = None,
    only: Collection[str] | None = None,
    client: ResourceManager | None = None,
) -> Examination:
    """Check everything that a job needs.

    Args:
        settings: The settings.
        queue: The queue to check; by default the queue of `job` in the settings, or `default`.
        only: Names of the checks to do; default: all.
        client: A client for ResourceManagers that answer, if `only` leaves out their check; without
            it, checks that need a cluster are skipped.

    Returns:
        The findings; a check that fails does not stop the others.

    Raises:
        UsageError: `only` contains a name for which there is no check.

    Example:
        >>> [finding.checked for finding in doctor(load_settings()).findings if finding.status == "failure"]  # doctest: +SKIP
    """  # noqa: E501
    known = [name for name, _, _ in _CHECKS]
    for name in only or ():
        if name not in known:
            raise UsageError(f"there is no check {name!r}", hint=f"there are {', '.join(known)}")
    queue = queue or str(settings.job.get("queue") or "default")
    examined = Examined(settings, queue, client)
    found: list[Check] = []
    skipped: list[str] = []
    for name, check, needs_cluster in _CHECKS:
        if only is not None and name not in only:
            continue
        if needs_cluster and examined.client is None:
            skipped.append(name)
            continue
        found += _run_bounded(name, check, examined)
    return Examination(tuple(found), tuple(skipped))


def _run_bounded(name: str, check: Callable[[Examined], Found], examined: Examined) -> list[Check]:
    """Call one check; an error becomes a finding, and so does a check that takes longer than
    `CHECK_S`, which is not waited for any longer.
    """
    found: list[Check] = []
    about, breaks = Subject(name), _BREAKS.get(name, "what needs it")

    def call() -> None:
        try:
            seen = check(examined)
            found.extend([seen] if isinstance(seen, Check) else seen)
        except SubmitTFJobError as error:
            found.append(about.failure(error.message, breaks, error.hint))
        except Exception as error:  # noqa: BLE001 - a defect in one check must not hide other findings
            found.append(about.warning(f"could not be checked: {type(error).__name__}: {error}"))

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(CHECK_S)
    if not thread.is_alive():
        return found
    said, fix = f"no answer within {CHECK_S:g} s", "check whether it is slow, or behind a firewall"
    return [*found, about.failure(said, breaks, fix)]
