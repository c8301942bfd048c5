"""How a job's files reach its tasks: inside the service, as tars, by themselves, as packages."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.errors import JobSpecError
from submit_tf_job.jobspec.job import HostFile, PackageKind, Packages, ShippedFile
from submit_tf_job.plan import Plan, plan
from tests.golden.fixed import SITE, SITE_WITHOUT_STAGING, make_job, make_role

LARGE_BYTES = 16 * 1024**2  # such files travel by themselves
STAGED = f"{SITE.staging}/files/mnist"


def on_disk(letter: str, size: int) -> HostFile:
    return HostFile(Path(f"/nowhere/{letter}"), size, letter * 64)


SMALL, LARGE = on_disk("a", 1000), on_disk("b", LARGE_BYTES)
PACKAGES = Packages(
    PackageKind.SITE, HostFile(Path("/nowhere/some packages.tar.gz"), 5, "c" * 64), "3.11"
)


def files_of(planned: Plan) -> tuple[Any, ...]:
    configuration = planned.service.with_files().components[0].configuration
    assert configuration
    return configuration.files


def task_of(planned: Plan) -> dict[str, object]:
    [file] = [file for file in files_of(planned) if file.dest_file == "tfjob.json"]
    found: dict[str, object] = json.loads(file.properties["content"])
    return found


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


def test_plan_with_files_and_packages() -> None:
    files = (
        ShippedFile("a", SMALL),
        ShippedFile("model", LARGE),
        ShippedFile(".tfjob-archives/x.zip", b"zip", unpack="data"),
    )
    planned = plan(make_job(make_role("chief", files=files), name="mnist", packages=PACKAGES), SITE)
    small = next(
        upload.uri.split("/")[-2]
        for upload in planned.uploads
        if upload.uri.endswith("/tfjob-files.tar")
    )
    sizes = {upload.uri: upload.size for upload in planned.uploads}
    assert sizes[f"{STAGED}/{'b' * 64}/tfjob-large-{'b' * 16}"] == LARGE_BYTES
    assert sizes[f"{STAGED}/{'c' * 64}/packages.tar.gz"] == 5
    assert f"{STAGED}/{small}/tfjob-files.tar" in sizes
    listed = [(file.type, file.dest_file, file.src_file) for file in files_of(planned)]
    assert ("ARCHIVE", "tfjob-python", f"{STAGED}/{'c' * 64}/packages.tar.gz") in listed
    assert (
        "STATIC",
        f"tfjob-large-{'b' * 16}",
        f"{STAGED}/{'b' * 64}/tfjob-large-{'b' * 16}",
    ) in listed
    assert task_of(planned)["files"] == {
        "roles": {
            "chief": {
                "links": {"model": f"tfjob-large-{'b' * 16}"},
                "unpack": {".tfjob-archives/x.zip": "data"},
            }
        },
        "packages": {"kind": "site", "version": "3.11"},
    }


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (
            lambda: plan(
                make_job(make_role(files=(ShippedFile("a", SMALL),))), SITE_WITHOUT_STAGING
            ),
            "they have 1000 bytes, which go to HDFS",
        ),
        (
            lambda: plan(make_job(packages=PACKAGES), SITE_WITHOUT_STAGING),
            "packages go to HDFS, and none is configured",
        ),
    ],
)
def test_plan_refuses_files_without_staging(refused: Callable[[], Plan], why: str) -> None:
    with pytest.raises(JobSpecError, match=why):
        refused()
