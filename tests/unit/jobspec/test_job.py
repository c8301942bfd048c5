"""The job: frozen values, and where each of them stands in the user's input."""

from __future__ import annotations

import dataclasses

import pytest

from submit_tf_job import job as module
from submit_tf_job.errors import Problem
from submit_tf_job.job import Command, HadoopConf, Job, Mount, Place, Placement, Restart, Role, ShippedFile, Strategy, TFConfigMode


def role(name: str = "worker", instances: int = 1) -> Role:
    return Role(name, instances, Command(argv=("python", "train.py")), "library/python:3.11", 512)


def job(**places: Place) -> Job:
    written = {path.replace("__", "."): place for path, place in places.items()}
    return Job("mnist", Strategy.MULTI_WORKER, {"chief": role("chief"), "worker": role("worker", 3)}, "chief", places=written)


def test_a_command_is_one_of_two_things() -> None:
    argv, script = Command(argv=("python", "a b.py", "$x")), Command(script="echo 'a' | cat")
    assert (argv.to_json(), str(argv)) == (["python", "a b.py", "$x"], "python 'a b.py' '$x'")
    assert (script.to_json(), str(script)) == ("echo 'a' | cat", "echo 'a' | cat")
    for wrong in ({}, {"argv": ("a",), "script": "a"}):
        with pytest.raises(ValueError) as error:
            Command(**wrong)  # type: ignore[arg-type]
        assert str(error.value) == "a command is either a list of arguments or a string for bash"


def test_an_empty_command_is_not_none() -> None:
    assert (Command(argv=()).to_json(), Command(script="").to_json()) == ([], "")


def test_a_mount_is_read_only_unless_asked() -> None:
    assert (str(Mount("/a", "/b")), str(Mount("/a", "/b", read_only=False))) == ("/a:/b:ro", "/a:/b:rw")


def test_counts_and_the_deciding_task() -> None:
    assert (job().counts, job().deciding_task) == ({"chief": 1, "worker": 3}, "chief-0")


@pytest.mark.parametrize(
    ("name", "sidecar"), [("chief", False), ("worker", False), ("ps", False), ("evaluator", False), ("tensorboard", True), ("main", True)]
)
def test_what_a_sidecar_is(name: str, sidecar: bool) -> None:
    assert role(name).is_sidecar is sidecar


@pytest.mark.parametrize(
    "value", [role(), job(), Command(script=""), Mount("/a", "/b"), ShippedFile("a", b""), Placement(), HadoopConf("inline"), Place("f")]
)
def test_values_do_not_change(value: object) -> None:
    assert dataclasses.is_dataclass(value)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, dataclasses.fields(value)[0].name, "other")


def test_places_do_not_make_two_jobs_different() -> None:
    assert job(name=Place("a.yaml", 1, 1)) == job(name=Place("b.yaml", 7, 7)) == job()


def test_contents_of_files_are_not_printed() -> None:
    assert "secret" not in repr(ShippedFile("a", b"secret"))


FILE = Place("train.yaml", 12, 5)
JOB = Place("train.yaml", 3, 8)
DEFAULT = Place("default")


@pytest.mark.parametrize(
    ("places", "path", "problem"),
    [
        ({}, "roles.ps.image", Problem(0, 0, "roles.ps.image", "x", "")),
        ({"roles__ps__image": FILE}, "roles.ps.image", Problem(12, 5, "roles.ps.image", "x", "train.yaml")),
        ({"roles__ps": FILE}, "roles.ps.image", Problem(12, 5, "roles.ps.image", "x", "train.yaml")),
        ({"roles": FILE}, "roles.ps.image", Problem(12, 5, "roles.ps.image", "x", "train.yaml")),
        ({"roles": FILE, "image": JOB}, "roles.ps.image", Problem(3, 8, "image", "x", "train.yaml")),
        ({"roles__ps__image": FILE, "image": JOB}, "roles.ps.image", Problem(12, 5, "roles.ps.image", "x", "train.yaml")),
        ({"roles__ps": FILE, "env.A": JOB}, "roles.ps.env.A", Problem(3, 8, "env.A", "x", "train.yaml")),
        ({"roles__ps": FILE, "env": JOB}, "roles.ps.env.A", Problem(12, 5, "roles.ps.env.A", "x", "train.yaml")),
        ({"roles__ps": FILE, "mounts[1]": JOB}, "roles.ps.mounts[1]", Problem(3, 8, "mounts[1]", "x", "train.yaml")),
        ({"roles__ps": FILE, "mounts[1]": JOB}, "roles.ps.mounts[0]", Problem(12, 5, "roles.ps.mounts[0]", "x", "train.yaml")),
        ({"roles__ps": FILE, "memory": JOB}, "roles.ps.memory", Problem(12, 5, "roles.ps.memory", "x", "train.yaml")),
        ({"roles": FILE, "roles__ps__cpus": DEFAULT}, "roles.ps.cpus", Problem(12, 5, "roles.ps.cpus", "x", "train.yaml")),
        ({"network": DEFAULT}, "network", Problem(0, 0, "network", "x", "default")),
        ({"name": Place("--name")}, "name", Problem(0, 0, "name", "x", "--name")),
    ],
)
def test_a_problem_stands_where_its_value_comes_from(places: dict[str, Place], path: str, problem: Problem) -> None:
    found = job(**places).problem(path, "x")
    assert (found, found.source) == (problem, problem.source)


def test_enums_are_what_the_job_spec_writes() -> None:
    assert [item.value for item in Strategy] == ["single", "multi-worker", "parameter-server", "estimator", "custom"]
    assert [item.value for item in TFConfigMode] == ["counts", "literal", "none"]
    assert [item.value for item in Restart] == ["never", "on-failure"]


def test_public_names() -> None:
    for name in module.__all__:
        assert hasattr(module, name)
