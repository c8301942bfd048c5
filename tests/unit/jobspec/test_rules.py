"""Rules that join several keys: kinds of roles, and what ends the job."""

from __future__ import annotations

import pytest

from submit_tf_job.jobspec import loads
from submit_tf_job.jobspec.job import (
    Elastic,
    Job,
)


def job(strategy: str, roles: str, more: str = "") -> Job:
    text = f"name: t\nimage: a/b:1\ncommand: x\nstrategy: {strategy}\nroles: {roles}\n{more}"
    return loads(text, source="train.yaml", base=None)


def kinds(found: Job) -> dict[str, str]:
    return {role.name: role.kind.value for role in found.roles.values()}


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("custom", {"main": "trains", "member": "trains", "exporter-worker": "trains"}),
        ("custom", {"main": "trains", "tensorboard": "sidecar", "metrics-exporter": "sidecar"}),
        ("custom", {"main": "trains", "worker": "trains", "ps": "serves"}),
        ("custom", {"tensorboard": "trains"}),
        ("multi-worker", {"chief": "trains", "worker": "trains", "member": "sidecar"}),
        ("multi-worker", {"chief": "trains", "worker": "trains", "evaluator": "evaluates"}),
        ("parameter-server", {"chief": "trains", "worker": "serves", "ps": "serves"}),
        ("estimator", {"chief": "trains", "worker": "trains", "ps": "serves"}),
        ("single", {"worker": "trains", "board": "sidecar"}),
        ("torch", {"chief": "trains", "worker": "trains", "main": "trains"}),
    ],
)
def test_kinds_that_strategy_and_name_give(strategy: str, expected: dict[str, str]) -> None:
    roles = ", ".join(f"{name}: {{memory: 1Gi, command: y}}" for name in expected)
    deciding = f"deciding_role: {next(iter(expected))}\n" if strategy == "custom" else ""
    assert kinds(job(strategy, f"{{{roles}}}", deciding)) == expected


def test_stated_kinds_replace_defaults() -> None:
    found = job(
        "custom",
        "{driver: {memory: 1Gi}, worker: {memory: 1Gi, kind: serves}, "
        "web: {memory: 1Gi, kind: trains}, log: {memory: 1Gi, command: y, kind: sidecar}}",
        "deciding_role: driver\n",
    )
    assert kinds(found) == {
        "driver": "trains", "worker": "serves", "web": "trains", "log": "sidecar",
    }  # fmt: skip


def test_an_own_role_may_serve_under_a_tensorflow_strategy() -> None:
    found = job("single", "{chief: {memory: 1Gi}, reader: {memory: 1Gi, command: y, kind: serves}}")
    assert kinds(found) == {"chief": "trains", "reader": "serves"}


@pytest.mark.parametrize(
    ("roles", "more", "deciding"),
    [
        ("{worker: {memory: 1Gi, kind: serves}, driver: {memory: 1Gi}}", "", "driver"),
        ("{notebook: {memory: 1Gi}}", "", "notebook"),
        ("{trainer: {memory: 1Gi}, tensorboard: {memory: 1Gi, command: y}}", "", "trainer"),
        ("{a: {memory: 1Gi}, b: {memory: 1Gi}}", "ends_with: all-that-train\n", "a"),
        ("{a: {memory: 1Gi}, chief: {memory: 1Gi}}", "ends_with: all-that-train\n", "chief"),
    ],
)
def test_deciding_role_is_one_that_trains(roles: str, more: str, deciding: str) -> None:
    assert job("custom", roles, more).deciding_role == deciding


@pytest.mark.parametrize("word", ["deciding-task", "deciding-role", "all-that-train"])
def test_ends_with(word: str) -> None:
    roles = "{worker: {memory: 1Gi, instances: 2}}"
    assert job("multi-worker", roles, f"ends_with: {word}\n").ends_with == word


def test_failures_of_own_roles_follow_their_kind() -> None:
    body = "memory: 1Gi, instances: 3, command: y, restart: on-failure, tolerate: 2"
    for kind in ("trains", "serves", "evaluates"):
        roles = f"{{main: {{memory: 1Gi}}, own: {{{body}, kind: {kind}}}}}"
        own = job("custom", roles, "deciding_role: main\n").roles["own"]
        assert (own.max_restarts, own.tolerate, own.kind.value) == (3, 2, kind)


def test_factor_of_memory_is_read() -> None:
    found = job("single", "{worker: {memory: 1Gi}}", "retries: {memory: 1.5}\n")
    assert found.retries is not None
    assert (found.retries.max, found.retries.memory) == (3, 1.5)


RETRIED = "retries: 3\n"
TRAINERS = "{chief: {memory: 1Gi}, worker: {memory: 1Gi, instances: {min: 2, max: 4}}}"


def test_elastic_role() -> None:
    worker = job("multi-worker", TRAINERS, RETRIED).roles["worker"]
    assert (worker.instances, worker.least, worker.elastic) == (4, 2, Elastic(2, 300))
    stated = TRAINERS.replace("max: 4", "max: 4, grow_after: 90s")
    assert job("multi-worker", stated, RETRIED).roles["worker"].elastic == Elastic(2, 90)
    # nothing can come or go, so that it needs no `retries`
    fixed = job("multi-worker", TRAINERS.replace("min: 2", "min: 4")).roles["worker"]
    assert (fixed.instances, fixed.least, fixed.elastic) == (4, 4, None)
