"""The job: frozen values, and where each of them stands in the user's input."""

from __future__ import annotations

import dataclasses

import pytest

from submit_tf_job.errors import Problem
from submit_tf_job.jobspec import job as module
from submit_tf_job.jobspec.job import (
    Command,
    HadoopConf,
    Job,
    Location,
    Mount,
    Placement,
    Restart,
    Role,
    ShippedFile,
    Strategy,
    TFConfigMode,
)


def role(name: str = "worker", instances: int = 1) -> Role:
    return Role(name, instances, Command(argv=("python", "train.py")), "library/python:3.11", 512)


def job(**places: Location) -> Job:
    written = {path.replace("__", "."): place for path, place in places.items()}
    return Job(
        "mnist",
        Strategy.MULTI_WORKER,
        {"chief": role("chief"), "worker": role("worker", 3)},
        "chief",
        places=written,
    )


def test_command_is_either_a_list_or_text() -> None:
    argv, script = Command(argv=("python", "a b.py", "$x")), Command(script="echo 'a' | cat")
    assert (argv.to_json(), str(argv)) == (["python", "a b.py", "$x"], "python 'a b.py' '$x'")
    assert (script.to_json(), str(script)) == ("echo 'a' | cat", "echo 'a' | cat")
    for wrong in ({}, {"argv": ("a",), "script": "a"}):
        with pytest.raises(ValueError) as error:
            Command(**wrong)  # type: ignore[arg-type]
        assert str(error.value) == "a command is either a list of arguments or a string for bash"


def test_command_may_be_an_empty_list() -> None:
    assert (Command(argv=()).to_json(), Command(script="").to_json()) == ([], "")


def test_mount_is_read_only_by_default() -> None:
    assert (str(Mount("/a", "/b")), str(Mount("/a", "/b", read_only=False))) == (
        "/a:/b:ro",
        "/a:/b:rw",
    )


def test_job_counts_and_deciding_task() -> None:
    assert (job().counts, job().deciding_task) == ({"chief": 1, "worker": 3}, "chief-0")


@pytest.mark.parametrize(
    "value",
    [
        role(),
        job(),
        Command(script=""),
        Mount("/a", "/b"),
        ShippedFile("a", b""),
        Placement(),
        HadoopConf("inline"),
        Location("f"),
    ],
)
def test_values_are_frozen(value: object) -> None:
    assert dataclasses.is_dataclass(value)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, dataclasses.fields(value)[0].name, "other")


def test_jobs_compare_equal_whatever_their_locations() -> None:
    assert job(name=Location("a.yaml", 1, 1)) == job(name=Location("b.yaml", 7, 7)) == job()


def test_repr_omits_contents_of_files() -> None:
    assert "secret" not in repr(ShippedFile("a", b"secret"))


FILE = Location("train.yaml", 12, 5)
JOB = Location("train.yaml", 3, 8)
DEFAULT = Location("default")


@pytest.mark.parametrize(
    ("places", "path", "problem"),
    [
        ({}, "roles.ps.image", Problem(0, 0, "roles.ps.image", "x", "")),
        (
            {"roles__ps__image": FILE},
            "roles.ps.image",
            Problem(12, 5, "roles.ps.image", "x", "train.yaml"),
        ),
        (
            {"roles__ps": FILE},
            "roles.ps.image",
            Problem(12, 5, "roles.ps.image", "x", "train.yaml"),
        ),
        ({"roles": FILE}, "roles.ps.image", Problem(12, 5, "roles.ps.image", "x", "train.yaml")),
        (
            {"roles": FILE, "image": JOB},
            "roles.ps.image",
            Problem(3, 8, "image", "x", "train.yaml"),
        ),
        (
            {"roles__ps__image": FILE, "image": JOB},
            "roles.ps.image",
            Problem(12, 5, "roles.ps.image", "x", "train.yaml"),
        ),
        (
            {"roles__ps": FILE, "env.A": JOB},
            "roles.ps.env.A",
            Problem(3, 8, "env.A", "x", "train.yaml"),
        ),
        (
            {"roles__ps": FILE, "env": JOB},
            "roles.ps.env.A",
            Problem(12, 5, "roles.ps.env.A", "x", "train.yaml"),
        ),
        (
            {"roles__ps": FILE, "mounts[1]": JOB},
            "roles.ps.mounts[1]",
            Problem(3, 8, "mounts[1]", "x", "train.yaml"),
        ),
        (
            {"roles__ps": FILE, "mounts[1]": JOB},
            "roles.ps.mounts[0]",
            Problem(12, 5, "roles.ps.mounts[0]", "x", "train.yaml"),
        ),
        (
            {"roles__ps": FILE, "memory": JOB},
            "roles.ps.memory",
            Problem(12, 5, "roles.ps.memory", "x", "train.yaml"),
        ),
        (
            {"roles": FILE, "roles__ps__cpus": DEFAULT},
            "roles.ps.cpus",
            Problem(12, 5, "roles.ps.cpus", "x", "train.yaml"),
        ),
        ({"network": DEFAULT}, "network", Problem(0, 0, "network", "x", "default")),
        ({"name": Location("--name")}, "name", Problem(0, 0, "name", "x", "--name")),
    ],
)
def test_problem_has_the_location_of_its_value(
    places: dict[str, Location], path: str, problem: Problem
) -> None:
    found = job(**places).problem(path, "x")
    assert (found, found.source) == (problem, problem.source)


def test_enums_have_the_words_of_job_specs() -> None:
    assert [item.value for item in Strategy] == [
        "single",
        "multi-worker",
        "parameter-server",
        "estimator",
        "torch",
        "jax",
        "custom",
    ]
    assert [item.value for item in TFConfigMode] == ["counts", "literal", "none"]
    assert [item.value for item in Restart] == ["never", "on-failure"]


def test_public_names() -> None:
    for name in module.__all__:
        assert hasattr(module, name)
