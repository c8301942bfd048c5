"""Measure how often one call of `plan()` returns to a file of the package."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest

from submit_tf_job import plan as package
from submit_tf_job.jobspec.job import (
    AUTO_PORT,
    DockerOptions,
    HadoopConf,
    HostFile,
    Input,
    Job,
    Kerberos,
    Krb5Conf,
    Mount,
    Output,
    PackageKind,
    Packages,
    ShippedFile,
    Strategy,
    TFConfigMode,
)
from submit_tf_job.plan import plan
from submit_tf_job.plan.delivery import LARGE
from tests.golden.fixed import SITE, SPECS, load, make_job, make_role

FOLDER = str(Path(package.__file__).parent)
SECURE = replace(SITE, secure=True, ro_mounts=("/",))


def returns(call: Callable[[], object]) -> int:
    """Return how often `call` returns to a file of the package that it had left.

    A return is a call from one file of the package into another that was entered before: whether
    the earlier function has ended, or is the caller of the caller. Calls within a file, a function
    that returns to its caller and a generator that resumes do not count. Frames of other packages
    are skipped.
    """
    seen: set[str] = set()
    count = 0

    def on_event(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(FOLDER) or frame in resumed:
            return
        if frame.f_code.co_flags & 0x20:  # CO_GENERATOR: only its start is a call
            resumed.append(frame)
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(FOLDER):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename == name:
            return
        count += name in seen
        seen.add(name)

    resumed: list[FrameType] = []
    sys.setprofile(on_event)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count


def rich_job(**values: object) -> Job:
    """Make a job of four roles that uses every part of the planner."""
    files = (
        ShippedFile("train.py", b"print()" * 999),
        ShippedFile("model", HostFile(Path("/nowhere/model"), LARGE, "b" * 64)),
        ShippedFile(".tfjob-archives/x.zip", b"zip", unpack="data"),
    )
    docker = DockerOptions(accounts=True, tmpfs=("/dev/shm",))
    shared = {"files": files, "docker": docker, "mounts": (Mount("/data", "/data"),)}
    return make_job(
        make_role("chief", **shared),
        make_role("worker", instances=4, gpus=2, **shared),
        make_role("ps", instances=2, **shared),
        make_role("tensorboard", ports={"http": 6006, "grpc": AUTO_PORT}, **shared),
        **{
            "strategy": Strategy.PARAMETER_SERVER,
            "hadoop": HadoopConf("inline", "", (ShippedFile("core-site.xml", b"<x/>"),)),
            "kerberos": Kerberos(
                "svc/_HOST@REALM", "hdfs:///svc.keytab", krb5_conf=Krb5Conf("inline", content=b"x")
            ),
            "inputs": (Input("train", "hdfs:///train/*", sharded=True),),
            "outputs": (Output("model", "hdfs:///model", upload=True),),
            "packages": Packages(
                PackageKind.SITE, HostFile(Path("/nowhere/p.tar.gz"), 5, "c" * 64), "3.11"
            ),
            **values,
        },
    )


def without_bootstrap(*, entrypoint: bool) -> Job:
    """Make a job of four roles whose commands start without the bootstrap."""
    roles = (
        make_role(
            name,
            env={"A": "1", "B": "2"},
            docker=DockerOptions(entrypoint=entrypoint, tmpfs=("/x",)),
        )
        for name in ("chief", "worker", "ps", "evaluator")
    )
    return make_job(
        *roles,
        strategy=Strategy.PARAMETER_SERVER,
        bootstrap=False,
        tf_config=TFConfigMode.LITERAL,
        kerberos=Kerberos("svc/_HOST@REALM", "file:///svc.keytab"),
    )


JOBS = {
    **{spec.stem: load(spec) for spec in SPECS},
    "rich": rich_job(),
    "literal": rich_job(tf_config=TFConfigMode.LITERAL),
    "direct": without_bootstrap(entrypoint=False),
    "image-entrypoint": without_bootstrap(entrypoint=True),
}


@pytest.mark.parametrize("name", JOBS)
def test_plan_returns_to_files_fewer_than_eight_times(name: str) -> None:
    planned = plan(JOBS[name], SECURE)
    assert planned.service.components
    assert returns(lambda: plan(JOBS[name], SECURE)) < 8
