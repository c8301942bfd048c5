"""Jobs that a cluster's version or limits do not allow."""

from __future__ import annotations

from typing import Any

import pytest

from submit_tf_job.diagnose.fit import check_largest
from submit_tf_job.errors import Refused
from submit_tf_job.host.located.nodes import Location
from submit_tf_job.yarn.observed import MaximumResources
from tests.golden.fixed import SITE, make_job, make_role

CLUSTER = MaximumResources(8192, 4, {"yarn.io/gpu": 2})
MOST = "roles.worker.{}: {} is more than the {} one container may have here"
MEMORY, CORES = MOST.format("memory", "9000Mi", "8Gi"), MOST.format("cpus", 5, "4 cores")
GPUS = MOST.format("gpus", 3, "2 yarn.io/gpu")
NO_GPU = "roles.worker.gpus: this cluster offers no yarn.io/gpu"
OTHER_GPU = MaximumResources(8192, 4, {"yarn.io/gpu": 0, "nvidia.com/gpu": 8})
LIMITS: list[tuple[dict[str, Any], MaximumResources, str]] = [
    ({"memory_mib": 8192, "cpus": 4, "gpus": 2}, CLUSTER, ""),
    ({"memory_mib": 10**9, "cpus": 999}, MaximumResources(None, None), ""),
    ({"memory_mib": 9000, "cpus": 5, "gpus": 3}, CLUSTER, f"{MEMORY}\n{CORES}\n{GPUS}"),
    ({"gpus": 1}, MaximumResources(8192, 4), f"{NO_GPU}; leave gpus out, or set gpu_resource"),
    ({"gpus": 1}, OTHER_GPU, f"{NO_GPU}, but nvidia.com/gpu; set gpu_resource"),
]


@pytest.mark.parametrize(("role", "maximum", "message"), LIMITS)
def test_check_limits_of_containers(
    role: dict[str, Any], maximum: MaximumResources, message: str
) -> None:
    job = make_job(make_role("chief"), make_role("worker", **role))
    if message:
        with pytest.raises(Refused) as error:
            check_largest(job, SITE, maximum)
        assert error.value.message == message
    else:
        check_largest(job, SITE, maximum)


def test_check_limits_reports_all_roles() -> None:
    places = {
        "roles.chief.memory": Location("t.yaml", 3, 5),
        "roles.worker": Location("t.yaml", 7, 1),
    }
    job = make_job(
        make_role("chief", memory_mib=9000), make_role("worker", memory_mib=9001), places=places
    )
    with pytest.raises(Refused) as error:
        check_largest(job, SITE, CLUSTER)
    assert error.value.message == (
        "t.yaml:3:5: roles.chief.memory: 9000Mi is more than the 8Gi one container "
        "may have here\n"
        "t.yaml:7:1: roles.worker.memory: 9001Mi is more than the 8Gi one "
        "container may have here"
    )
