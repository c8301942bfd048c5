"""Rules that join several keys: kinds of roles, and what ends the job."""

from __future__ import annotations

import pytest

from submit_tf_job.errors import JobSpecError
from submit_tf_job.jobspec import loads
from submit_tf_job.jobspec.job import (
    SIDECAR_NAMES,
    TRAINING_ROLES,
    Elastic,
    Ending,
    Job,
    RoleKind,
    Strategy,
)
from submit_tf_job.jobspec.rules import RULES, default_kind, restart_refusal

TENSORFLOWS = [strategy for strategy in Strategy if RULES[strategy].fixed]


def job(strategy: str, roles: str, more: str = "") -> Job:
    text = f"name: t\nimage: a/b:1\ncommand: x\nstrategy: {strategy}\nroles: {roles}\n{more}"
    return loads(text, source="train.yaml", base=None)


def kinds(found: Job) -> dict[str, str]:
    return {role.name: role.kind.value for role in found.roles.values()}


def test_rules_have_a_row_for_every_strategy() -> None:
    assert list(RULES) == list(Strategy)


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("name", [*SIDECAR_NAMES, "metrics-exporter"])
def test_default_kind_of_known_sidecars(strategy: Strategy, name: str) -> None:
    assert default_kind(strategy, name, "chief") is RoleKind.SIDECAR
    assert default_kind(strategy, name, name) is RoleKind.TRAINS


@pytest.mark.parametrize("name", ["member", "main", "exporter-worker", "monitors"])
def test_default_kind_of_own_names(name: str) -> None:
    assert default_kind(Strategy.CUSTOM, name, "chief") is RoleKind.TRAINS
    for strategy in TENSORFLOWS:
        assert default_kind(strategy, name, "chief") is RoleKind.SIDECAR


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("name", TRAINING_ROLES)
def test_default_kind_of_tensorflow_roles_is_never_sidecar(strategy: Strategy, name: str) -> None:
    expected = {"ps": RoleKind.SERVES, "evaluator": RoleKind.EVALUATES}.get(name, RoleKind.TRAINS)
    if (strategy, name) == (Strategy.PARAMETER_SERVER, "worker"):
        expected = RoleKind.SERVES
    assert default_kind(strategy, name, "main") is expected
    assert default_kind(strategy, name, name) is RoleKind.TRAINS


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


def test_roles_that_train_take_the_jobs_command() -> None:
    found = job("custom", "{head: {memory: 1Gi}, member: {memory: 1Gi}}", "deciding_role: head\n")
    assert [str(role.command) for role in found.roles.values()] == ["x", "x"]


@pytest.mark.parametrize("strategy", Strategy)
def test_ends_with_defaults_to_the_deciding_task(strategy: Strategy) -> None:
    assert RULES[strategy].ends_with is Ending.DECIDING_TASK


@pytest.mark.parametrize("word", Ending)
def test_ends_with(word: Ending) -> None:
    roles = "{worker: {memory: 1Gi, instances: 2}}"
    assert job("multi-worker", roles, f"ends_with: {word.value}\n").ends_with is word


def test_failures_of_own_roles_follow_their_kind() -> None:
    body = "memory: 1Gi, instances: 3, command: y, restart: on-failure, tolerate: 2"
    for kind in ("trains", "serves", "evaluates"):
        roles = f"{{main: {{memory: 1Gi}}, own: {{{body}, kind: {kind}}}}}"
        own = job("custom", roles, "deciding_role: main\n").roles["own"]
        assert (own.max_restarts, own.tolerate, own.kind.value) == (3, 2, kind)


def test_restart_refusal_follows_the_kind_of_a_role() -> None:
    multi = Strategy.MULTI_WORKER
    assert restart_refusal(multi, "worker", "chief")
    assert restart_refusal(multi, "reader", "chief", RoleKind.TRAINS) is None


def test_tolerate_is_refused_where_all_tasks_hold_a_step_together() -> None:
    with pytest.raises(JobSpecError, match=r"hold every step together \(strategy multi-worker\)"):
        job(
            "multi-worker",
            "{chief: {memory: 1Gi}, worker: {memory: 1Gi, instances: 2, tolerate: 1}}",
        )


@pytest.mark.parametrize(
    ("strategy", "roles", "said"),
    [
        (
            "custom",
            "{main: {after: dta}, data: {}}",
            "roles.main.after: the job has no role 'dta'; its roles are main, data",
        ),
        (
            "custom",
            "{main: {after: data}, data: {after: [main]}}",
            "roles.main.after: main would wait for itself; leave one of the roles out",
        ),
        (
            "multi-worker",
            "{chief: {}, worker: {after: chief}}",
            "roles.worker.after: under strategy multi-worker the tasks of worker wait for the "
            "others, which wait for them; leave after out",
        ),
    ],
)
def test_after_names_roles_that_can_come_first(strategy: str, roles: str, said: str) -> None:
    text = (
        f"name: t\nimage: i\ncommand: c\nstrategy: {strategy}\n"
        f"roles: {roles.replace('{}', '{memory: 1Gi}').replace('{after', '{memory: 1Gi, after')}\n"
    )
    if strategy == "custom":
        text += "deciding_role: main\n"
    with pytest.raises(JobSpecError) as error:
        loads(text, source="x", base=None)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("retries", "words"),
    [
        ("{memory: 1}", "must be more than 1 and at most 10, not 1"),
        ("{memory: 11}", "must be more than 1 and at most 10, not 11"),
        ("{memory: '1.5'}", "expected a number such as 1.5, found"),
        ("{memory: 1e1}", "expected a number such as 1.5, found"),
        ("{memory: 4Gi}", "expected a number such as 1.5, found"),
        ("{max: 0, memory: 1.5}", "say max: 1 or more"),
    ],
)
def test_factor_of_memory_that_makes_no_sense_is_refused(retries: str, words: str) -> None:
    with pytest.raises(JobSpecError) as caught:
        job("single", "{worker: {memory: 1Gi}}", f"retries: {retries}\n")
    assert words in str(caught.value.problems[0])


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


@pytest.mark.parametrize(
    ("strategy", "roles", "more", "message"),
    [
        (
            "multi-worker",
            TRAINERS,
            "",
            "roles.worker.instances: a change of the number starts all tasks again, as `retries` "
            "of the job does; add retries: 3, or say one number",
        ),
        (
            "single",
            "{worker: {memory: 1Gi, instances: {min: 1, max: 2}}}",
            RETRIED,
            "roles.worker.instances: strategy single has one task; say one number",
        ),
        (
            "parameter-server",
            "{chief: {memory: 1Gi}, worker: {memory: 1Gi}, "
            "ps: {memory: 1Gi, instances: {min: 1, max: 2}}}",
            RETRIED,
            "roles.ps.instances: only roles that train together can be elastic, and 'ps' holds a "
            "part of the variables; say one number",
        ),
        (
            "multi-worker",
            "{chief: {memory: 1Gi}, worker: {memory: 1Gi}, "
            "tensorboard: {memory: 1Gi, command: x, instances: {min: 1, max: 2}}}",
            RETRIED,
            "roles.tensorboard.instances: only roles that train together can be elastic, and "
            "'tensorboard' is of kind sidecar; say one number",
        ),
        (
            "multi-worker",
            TRAINERS,
            "retries: {max: 3, on: [137]}",
            "roles.worker.instances: an elastic role goes on without its lost tasks; add lost to "
            "`on` of retries, or say one number",
        ),
        (
            "custom",
            TRAINERS.replace("max: 4}", "max: 4}, tolerate: 2"),
            RETRIED,
            "roles.worker.tolerate: an elastic role goes on without its lost tasks, and takes them "
            "back; leave tolerate out, or say one number of instances",
        ),
        (
            "multi-worker",
            TRAINERS,
            RETRIED + "tf_config: literal\n",
            "roles.worker.instances: tf_config: literal is written before the tasks are counted; "
            "say tf_config: counts",
        ),
        (
            "multi-worker",
            TRAINERS.replace("min: 2", "min: 5"),
            RETRIED,
            "roles.worker.instances: min is 5, and max 4; say a larger max, or a smaller min",
        ),
        (
            "multi-worker",
            TRAINERS.replace("min: 2, ", ""),
            RETRIED,
            "roles.worker.instances.min: missing; say how few tasks suffice",
        ),
        (
            "multi-worker",
            TRAINERS.replace(", max: 4", ""),
            RETRIED,
            "roles.worker.instances.max: missing; say how many tasks YARN is asked for",
        ),
        (
            "multi-worker",
            TRAINERS.replace("min: 2", "grow_after: 1m"),
            RETRIED,
            "roles.worker.instances.min: missing; say how few tasks suffice",
        ),
        (
            "multi-worker",
            TRAINERS.replace("min: 2", "min: 0"),
            RETRIED,
            "roles.worker.instances.min: must be at least 1, not 0",
        ),
    ],
)
def test_elastic_roles_that_are_refused(strategy: str, roles: str, more: str, message: str) -> None:
    with pytest.raises(JobSpecError) as caught:
        job(strategy, roles, more)
    assert [problem for problem in str(caught.value).splitlines() if message in problem], (
        caught.value
    )
