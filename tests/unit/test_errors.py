"""Errors: the one table, and how each interface reports an error."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from contextlib import suppress
from http import HTTPStatus

import pytest

import submit_tf_job
from submit_tf_job import errors
from submit_tf_job.errors import (
    TABLE,
    BadAnswer,
    ClusterUnavailable,
    InternalError,
    JobSpecError,
    Problem,
    SubmitTFJobError,
    error_class,
)


def classes() -> list[type[SubmitTFJobError]]:
    found = [
        value
        for value in vars(errors).values()
        if inspect.isclass(value) and issubclass(value, SubmitTFJobError)
    ]
    return [kind for kind in found if kind is not SubmitTFJobError]


def test_table_covers_every_class() -> None:
    """test_docs.py compares its exit statuses with the documentation's."""
    assert set(TABLE) == set(classes())


def test_codes_are_distinct_and_http_statuses_are_real() -> None:
    codes = [row.code for row in TABLE.values()]
    assert len(set(codes)) == len(codes)
    assert all(HTTPStatus(row.http_status) for row in TABLE.values())


def test_error_class_of_a_class_without_a_row() -> None:
    class Nearer(BadAnswer):
        pass

    class Stray(SubmitTFJobError):
        pass

    assert error_class(Nearer("x")) is TABLE[BadAnswer] is error_class(Nearer)
    assert error_class(Stray("x")) is TABLE[InternalError]
    assert isinstance(Nearer("x"), ClusterUnavailable)


def test_every_error_class_of_the_package_has_a_row() -> None:
    for module in pkgutil.walk_packages(submit_tf_job.__path__, "submit_tf_job."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):  # an extra that is not installed
                importlib.import_module(module.name)

    def below(kind: type[SubmitTFJobError]) -> list[type[SubmitTFJobError]]:
        return [found for child in kind.__subclasses__() for found in (child, *below(child))]

    ours = [kind for kind in below(SubmitTFJobError) if kind.__module__.startswith("submit_tf_job")]
    assert len(ours) > len(TABLE)
    assert [kind for kind in ours if not set(kind.__mro__) & set(TABLE)] == []


def test_docstring_shows_the_class_tree() -> None:
    drawn = [line for line in (errors.__doc__ or "").splitlines() if "──" in line]
    names = [
        line.replace("│", " ").replace("├── ", "").replace("└── ", "").split()[0] for line in drawn
    ]
    assert names == [kind.__name__ for kind in classes()]


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem(3, 5, "roles.ps", "too few", "a.yaml"), "a.yaml:3:5: roles.ps: too few"),
        (Problem(0, 0, "roles.ps", "too few", "a.yaml"), "a.yaml: roles.ps: too few"),
        (Problem(3, 5, "", "not YAML", "a.yaml"), "a.yaml:3:5: not YAML"),
        (Problem(3, 5, "name", "x"), "line 3: name: x"),
        (Problem(0, 0, "", "x"), "x"),
        (Problem(0, 0, "name", "x", "--set"), "--set: name: x"),
    ],
)
def test_problem_as_text(problem: Problem, text: str) -> None:
    assert str(problem) == text


def test_job_spec_error_lists_problems_by_line() -> None:
    problems = [
        Problem(9, 1, "b", "later", "f"),
        Problem(2, 7, "a", "right", "f"),
        Problem(2, 3, "a", "left", "f"),
        Problem(0, 0, "", "whole", "f"),
    ]
    error = JobSpecError(iter(problems), hint="mend it")
    assert str(error) == "f: whole\nf:2:3: a: left\nf:2:7: a: right\nf:9:1: b: later"
    assert error.problems == tuple(sorted(problems))
    assert error.to_json()["hint"] == "mend it"
    assert error.details["problems"] == [
        {"source": "f", "line": p.line, "column": p.column, "path": p.path, "message": p.message}
        for p in error.problems
    ]
