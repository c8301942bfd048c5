"""The job: frozen values, and where each of them stands in the user's input."""

from __future__ import annotations

import pytest

from submit_tf_job.errors import Problem
from submit_tf_job.host.located.nodes import Location
from submit_tf_job.jobspec.job import (
    Command,
    Job,
    Role,
    ShippedFile,
    Strategy,
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
