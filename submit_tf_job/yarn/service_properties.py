"""Properties of YARN services and components that this package sets in a submission, and reads
later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from submit_tf_job.jobspec.job import Job

SUBMISSION = "submit_tf_job.submission-id"
# of a submission that is not run again after each end: "never" or "after-failure"
AGAIN = "submit_tf_job.again"
# of a run that follows one that ran out of memory: "2 worker=1536", how often, and with how much
RESUBMISSION = "submit_tf_job.resubmission"
# of a job with `retries.memory`: how often it may be submitted again
RESUBMISSIONS_MAX = "submit_tf_job.resubmissions-max"
# the hash of the job and its files, for a submission whose key is another one
CONTENT = "submit_tf_job.content"
# of a component: only where it is not the kind that strategy and name give the role
KIND = "submit_tf_job.kind"
PORTS = "submit_tf_job.ports"  # of a component: "http=6006,grpc=auto"
INSTANCES = "submit_tf_job.instances"  # of an elastic role's component: "2-8"
DECIDES = "yarn.service.container-state-report-as-service-state"  # YARN-8489, Hadoop 3.3.0
# of a component: its ApplicationMaster ends without unregistering when so many percent of the
# containers have not been ready for so long (ComponentHealthThresholdMonitor)
_HEALTH = "yarn.service.container-health-threshold."
# Else a container is ready when its NodeManager reports an address, which a task has whose image
# has arrived; without it, when the NodeManager has accepted it (ComponentInstance.ping).
_NEEDS_ADDRESS = "yarn.service.default-readiness-check.enabled"

_WRITTEN = re.compile(r"(?P<number>\d{1,4}) (?P<former>[a-z][a-z0-9-]*)(?P<sizes>( [^ ]+=\d+)+)")


@dataclass(frozen=True)
class Resubmission:
    """How often a job was submitted again by `retries.memory`, and with how much memory.

    Attributes:
        number: 1 for the first time; 0 for a job that was not submitted again.
        former: The run that ran out of memory before this one.
        memory: Role -> MiB, of the roles that have more than the job spec says.
    """

    number: int = 0
    former: str = ""
    memory: Mapping[str, int] = field(default_factory=dict, metadata={"json": "memory_mib"})

    @property
    def text(self) -> str:
        """The resubmission as the text of a property of the service."""
        sizes = (f"{role}={mib}" for role, mib in sorted(self.memory.items()))
        return " ".join([str(self.number), self.former, *sizes])

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Resubmission:
        """Read a resubmission from a service's properties; its number is 0 if they have none."""
        found = _WRITTEN.fullmatch(properties.get(RESUBMISSION, ""))
        if found is None:
            return cls()
        sizes = (size.rpartition("=") for size in found["sizes"].split())
        return cls(
            int(found["number"]), found["former"], {role: int(mib) for role, _, mib in sizes}
        )


# --- keys of the job spec ---

JOB = "submit_tf_job.job"  # the job's name; a run's may show only its beginning
DECIDING = "submit_tf_job.deciding-task"
STRATEGY = "submit_tf_job.strategy"
START_TIMEOUT = "submit_tf_job.start-timeout"  # in seconds
STOP_GRACE = "submit_tf_job.stop-grace"  # in seconds; only where the job spec states it


def ended_without(seconds: int) -> dict[str, str]:
    """Return properties for a component with one task. If the task has no container for this number
    of seconds, the ApplicationMaster ends, and YARN starts its next attempt, up to the maximum
    number.
    """
    return {
        _HEALTH + "percent": "100",
        _HEALTH + "window-secs": str(seconds),
        _HEALTH + "init-delay-secs": "0",
        _NEEDS_ADDRESS: "false",
    }


def of_job(job: Job) -> dict[str, str]:
    """Return the properties from which clients that do not have the job spec learn some of the
    job's keys.
    """
    from submit_tf_job.jobspec.job import DEFAULT_STOP_GRACE_S

    properties = {
        JOB: job.name,
        DECIDING: job.deciding_task,
        STRATEGY: job.strategy.value,
        START_TIMEOUT: str(job.start_timeout_s),
    }
    if job.stop_grace_s != DEFAULT_STOP_GRACE_S:
        properties[STOP_GRACE] = str(job.stop_grace_s)
    return properties
