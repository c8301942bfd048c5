"""Docker in a plan: YARN's variables, and what the site would refuse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from submit_tf_job.errors import JobSpecError, Refused
from submit_tf_job.jobspec import loads
from submit_tf_job.jobspec.job import DockerOptions, HadoopConf, Mount, Placement
from submit_tf_job.plan import plan
from submit_tf_job.plan.limits import check_version
from tests.golden.fixed import SITE, make_job, make_role

PREFIX = "YARN_CONTAINER_RUNTIME_DOCKER_"
STRICT = replace(
    SITE,
    trusted_registries=("registry.example.com/ml", "library"),
    networks=("host", "bridge"),
    ro_mounts=("/data", "/etc/passwd", "/etc/group"),
    rw_mounts=("/scratch/",),
    runtimes=("runc",),
)


def variables(**values: Any) -> dict[str, str]:
    """Return YARN's Docker variables of a role, without their prefix."""
    job = {"network": values.pop("network", "bridge"), "hadoop": values.pop("hadoop", None)}
    role = make_role("chief", **values)
    (component,) = plan(make_job(role, **job), SITE).service.components
    assert component.configuration is not None
    return {
        name.removeprefix(PREFIX): value
        for name, value in component.configuration.env.items()
        if name.startswith(PREFIX)
    }


def problems(site: Any = STRICT, **values: Any) -> list[str]:
    job = {key: values.pop(key) for key in ("network", "hadoop") if key in values}
    try:
        plan(make_job(make_role("chief", **{"image": "tf:2", **values}), **job), site)
    except JobSpecError as error:
        return [problem.message for problem in error.problems]
    return []


def test_variables_of_a_plain_role() -> None:
    assert variables(network="host") == {"CONTAINER_NETWORK": "host"}


def test_variables_of_all_options() -> None:
    docker = DockerOptions(
        accounts=True, tmpfs=("/dev/shm", "/x"), publish=(":80", "18080:8080"), runtime="nvidia"
    )
    assert variables(
        docker=docker, mounts=(Mount("/a", "/b"),), hadoop=HadoopConf("node", "/etc/hadoop")
    ) == {
        "CONTAINER_NETWORK": "bridge",
        "MOUNTS": "/a:/b:ro,/etc/hadoop:/etc/hadoop:ro,/etc/passwd:/etc/passwd:ro,/etc/group:/etc/group:ro",
        "TMPFS_MOUNTS": "/dev/shm,/x",
        "PORTS_MAPPING": ":80,18080:8080",
        "RUNTIME": "nvidia",
    }


@pytest.mark.parametrize(
    ("mount", "refused"),
    [
        (Mount("/data", "/x"), False),
        (Mount("/data/a//b", "/x"), False),
        (Mount("/database", "/x"), True),
        (Mount("/scratch/a", "/x"), False),  # a writable path may be mounted read-only
        (Mount("/scratch", "/x", read_only=False), False),
        (Mount("/data", "/x", read_only=False), True),
        (Mount("/", "/x"), True),
    ],
)
def test_mounts_allowed_by_site(mount: Mount, refused: bool) -> None:
    found = problems(mounts=(mount,))
    assert [
        text.startswith(f"this site does not allow mounting {mount.source!r}") for text in found
    ] == [True] * refused


def test_unrestricted_site_refuses_nothing() -> None:
    mounts = (Mount("/secret", "/x"), Mount("/w", "/y", read_only=False))
    assert (
        problems(
            SITE,
            image="anywhere.example.com/x:1",
            mounts=mounts,
            network="overlay",
            docker=DockerOptions(runtime="runsc"),
        )
        == []
    )
    # The list of read-only mounts is not known, and may hold /w.
    assert len(problems(replace(SITE, ro_mounts=("/data",)), mounts=mounts)) == 0
    assert len(problems(replace(SITE, rw_mounts=()), mounts=mounts)) == 1


def test_added_mounts_must_be_allowed() -> None:
    site = replace(STRICT, ro_mounts=("/data",))
    assert len(problems(site, docker=DockerOptions(accounts=True))) == 2
    assert problems(hadoop=HadoopConf("node", "/etc/hadoop")) == [
        "this site does not allow mounting '/etc/hadoop' read-only; it allows /data, "
        "/etc/passwd, /etc/group, /scratch/"
    ]


@pytest.mark.parametrize(
    ("image", "trusted"),
    [
        ("registry.example.com/ml/tf:2", True),
        ("registry.example.com/mlx/tf:2", False),
        ("tf:2", True),  # library: without any /
        ("library/tf:2", True),
        ("other/tf:2", False),
    ],
)
def test_trusted_registries(image: str, trusted: bool) -> None:
    assert bool(problems(image=image)) is not trusted


def test_networks_and_runtimes() -> None:
    assert problems(network="overlay") == [
        "this site does not allow the network 'overlay'; it allows host, bridge"
    ]
    assert problems(docker=DockerOptions(runtime="nvidia")) == [
        "this site does not allow the runtime 'nvidia'; it allows runc"
    ]


def test_published_ports() -> None:
    fixed = DockerOptions(publish=("8080:80",))
    assert "takes one port of a node" in problems(instances=2, docker=fixed, network="bridge")[0]
    assert (
        problems(instances=2, docker=fixed, network="bridge", placement=Placement(spread="node"))
        == []
    )
    assert problems(instances=2, docker=DockerOptions(publish=(":80",)), network="bridge") == []
    assert "no port can be published" in problems(docker=fixed, network="host")[0]


def test_tmpfs_at_a_mount_target() -> None:
    assert (
        "is the target of a mount, too"
        in problems(docker=DockerOptions(tmpfs=("/x/",)), mounts=(Mount("/data", "/x"),))[0]
    )


def test_versions() -> None:
    body = plan(
        make_job(make_role("chief", docker=DockerOptions(tmpfs=("/x",), runtime="nvidia"))), SITE
    ).body
    check_version(body, "3.4.2")
    for version in ("3.2.4", "3.1.1"):
        with pytest.raises(Refused, match="does not support docker"):
            check_version(body, version)


def test_docker_keys_of_role_override_job() -> None:
    text = (
        "name: t\nimage: i\ncommand: c\nstrategy: parameter-server\ndocker: {tmpfs: [/a], "
        "accounts: true}\n"
        "roles:\n  chief: {memory: 1Gi}\n  worker: {memory: 1Gi, docker: {accounts: "
        "false, runtime: r}}\n"
        "  ps: {memory: 1Gi, docker: {tmpfs: []}}\n"
    )
    roles = loads(text, source="x", base=None).roles
    assert roles["chief"].docker == DockerOptions(accounts=True, tmpfs=("/a",))
    assert roles["worker"].docker == DockerOptions(tmpfs=("/a",), runtime="r")
    assert roles["ps"].docker == DockerOptions(accounts=True)
