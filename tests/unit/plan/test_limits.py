"""Jobs that a cluster's version or limits do not allow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from submit_tf_job.diagnose.fit import check_largest
from submit_tf_job.errors import JobSpecError, Refused
from submit_tf_job.host.located.nodes import Location
from submit_tf_job.jobspec.job import Retries
from submit_tf_job.plan import plan
from submit_tf_job.plan.check import check_endings, check_size, check_version
from submit_tf_job.yarn.observed import MaximumResources
from tests.golden.fixed import SITE, SITE_WITHOUT_STAGING, make_job, make_role

SMALL = "{}"
DIGEST = plan(make_job(make_role(image="library/python@sha256:" + "0" * 64)), SITE).body
TOO_OLD = "Hadoop {} does not support restart_policy (YARN-8080), and would start finished tasks again without end"
NO_DIGEST = (
    "Hadoop {} does not support images by digest (3.2.5 and 3.3.5 are the first), and every "
    "container would fail"
)


def refusal(body: str, version: str) -> tuple[str, str]:
    try:
        check_version(body, version)
    except Refused as error:
        return error.message, error.hint
    return "", ""


@pytest.mark.parametrize(
    ("version", "lifetime_s", "refused"),
    [("3.1.3", None, True), ("3.2.4", None, True), ("3.1.3", 60, False), ("3.3.0", None, False)],
)
def test_retries_need_a_lifetime_where_yarn_does_not_end_a_job(
    version: str, lifetime_s: int | None, refused: bool
) -> None:
    job = replace(make_job(make_role()), retries=Retries(max=1), lifetime_s=lifetime_s)
    if refused:
        with pytest.raises(JobSpecError, match="a job with `retries` needs a `lifetime` on Hadoop"):
            check_endings(job, version)
    else:
        check_endings(job, version)


@pytest.mark.parametrize(
    ("versions", "body", "message"),
    [
        ("2.10.2 3.0.3 3.1.0", SMALL, TOO_OLD),
        ("3.1.1 3.1.1.7.1.9.0-387 3.4.2", SMALL, ""),
        ("3.1.4 3.2.4 3.3.0 3.3.4", DIGEST, NO_DIGEST),
        ("3.2.5 3.3.5 3.4.0 unknown", DIGEST, ""),
        ("3.1.4", plan(make_job(make_role(env={"IMAGE": "x@sha256:" + "0" * 64})), SITE).body, ""),
    ],
)
def test_versions(versions: str, body: str, message: str) -> None:
    for version in versions.split():
        assert refusal(body, version)[0] == message.format(version)


def test_check_version_hints() -> None:
    assert refusal(DIGEST, "3.3.4")[1] == "name the image by a tag"
    assert refusal(SMALL, "3.0.0")[1] == ""


LONG = make_job(
    make_role("chief", env={"A": "x" * 25_000}), make_role("worker", env={"B": "x" * 9})
)


@pytest.mark.parametrize("version", ["3.1.4", "3.2.4", "3.1.1.7.1.9.0-387"])
def test_old_hadoop_cannot_read_a_large_service_again(version: str) -> None:
    """It stores what all roles have once more for each of them."""
    staged, inside = plan(LONG, SITE), plan(make_job(), SITE_WITHOUT_STAGING)
    assert len(staged.body) < 60_000
    for planned, message, hint in (
        (staged, "the service has", "put long commands into scripts, and long values into files"),
        (
            inside,
            f"Hadoop {version} cannot read back a service of more than 60000 bytes, and without a "
            "staging directory the bootstrap is inside it",
            "set hadoop_conf, or staging: hdfs://…, in the settings",
        ),
    ):
        with pytest.raises(Refused) as told:
            check_size(planned.service, planned.site, version)
        assert told.value.message.startswith(message)
        assert told.value.hint == hint
    check_size(plan(make_job(), SITE).service, SITE, version)
    for other in ("3.3.0", "3.4.2", "3.5.0-SNAPSHOT", "10.0.0", "", "unknown"):
        check_size(inside.service, inside.site, other)


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
