"""How a job's files reach its tasks: inside the service, as tars, by themselves, as packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from submit_tf_job.errors import JobSpecError
from submit_tf_job.jobspec.job import HostFile, PackageKind, Packages, ShippedFile
from submit_tf_job.plan import plan
from tests.golden.fixed import SITE, SITE_WITHOUT_STAGING, make_job, make_role

LARGE_BYTES = 16 * 1024**2  # such files travel by themselves
SMALL = HostFile(Path("/nowhere/a"), 1000, "a" * 64)
PACKAGES = Packages(
    PackageKind.SITE, HostFile(Path("/nowhere/some packages.tar.gz"), 5, "c" * 64), "3.11"
)


def test_plan_with_most_large_files_fits() -> None:
    files = tuple(
        ShippedFile(f"{n}", HostFile(Path("/x"), LARGE_BYTES + n, f"{n:02x}" + "0" * 62))
        for n in range(100)
    )
    roles = [
        make_role("chief", files=files),
        *(make_role(name, files=files) for name in ("worker", "ps", "evaluator", "board")),
    ]
    planned = plan(make_job(*roles, name="mnist"), SITE)
    assert len(planned.body) < 60_000


def test_plan_refuses_files_without_staging() -> None:
    files = make_job(make_role(files=(ShippedFile("a", SMALL),)))
    with pytest.raises(JobSpecError, match="they have 1000 bytes, which go to HDFS"):
        plan(files, SITE_WITHOUT_STAGING)
    with pytest.raises(JobSpecError, match="packages go to HDFS, and none is configured"):
        plan(make_job(packages=PACKAGES), SITE_WITHOUT_STAGING)
