"""Which changes of a job are refused; tests/cluster makes the changes on a real cluster."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job import operations
from submit_tf_job.container import contract
from submit_tf_job.errors import (
    AuthError,
    DeadlinePassed,
    JobSpecError,
    NameTaken,
    NoSuchJob,
    Refused,
    UsageError,
)
from submit_tf_job.jobspec import loads
from submit_tf_job.operations import change
from submit_tf_job.sdk.client import Client, JobHandle
from submit_tf_job.settings import CapSettings
from submit_tf_job.yarn.errors import ServiceUnreadable
from submit_tf_job.yarn.observed import AppTimeout, ComponentState, ObservedComponent
from tests.fakes.running_job import Stage
from tests.fakes.transport import Answer, Fault

CALLS = [
    lambda cluster, job: operations.start(cluster, job),
    lambda cluster, job: operations.scale(cluster, job, "web", 2),
    lambda cluster, job: operations.restart(cluster, job, "web-0"),
    lambda cluster, job: operations.set_priority(cluster, job, 3),
    lambda cluster, job: operations.move(cluster, job, "ml"),
    lambda cluster, job: operations.extend(cluster, job, 600),
]


@pytest.mark.parametrize("call", CALLS)
def test_change_refuses_another_users_job(call: Any) -> None:
    stage = Stage()
    with pytest.raises(AuthError, match="is a job of alice, and you are bob"):
        call(stage.bob, stage.id)


@pytest.mark.parametrize("call", CALLS)
def test_change_of_a_missing_job(call: Any) -> None:
    stage = Stage()
    with pytest.raises(NoSuchJob):
        call(stage.alice, "other")
    with pytest.raises(NoSuchJob):
        call(stage.alice, "application_1700000000000_0099")


@pytest.mark.parametrize("call", CALLS[1:])
def test_change_refuses_a_job_that_is_over(call: Any) -> None:
    stage = Stage()
    stage.alice.client.stop_service("mnist")
    stage.fake.clock.sleep(10)
    with pytest.raises(Refused, match=r"mnist is over \(STOPPED\)"):
        call(stage.alice, "mnist")


@pytest.mark.parametrize("version", [(3, 4, 2), (3, 1, 3)], ids=["3.4.2", "3.1.3"])
def test_start_of_a_waiting_job_changes_nothing(version: tuple[int, ...]) -> None:
    stage = Stage()
    stage.fake.yarn.version, stage.fake.yarn.hold_accepted = version, True
    stage.alice.client.stop_service("mnist")
    stage.fake.clock.sleep(10)
    waiting = operations.start(stage.alice, "mnist")
    assert waiting.changed
    found = operations.start(stage.alice, "mnist")
    assert (found.changed, found.ref.application_id) == (False, waiting.ref.application_id)
    with pytest.raises(
        NameTaken, match=f"^mnist is still running as {waiting.ref.application_id}$"
    ):
        operations.delete(stage.alice, "mnist")


def test_start_of_a_running_job_changes_nothing() -> None:
    stage = Stage()
    found = operations.start(stage.alice, "mnist")
    assert (found.changed, found.ref.application_id) == (False, stage.id)
    stage.alice.client.stop_service("mnist")
    stage.fake.clock.sleep(10)
    again = operations.start(stage.alice, "mnist")
    assert again.changed
    assert again.ref.application_id != stage.id
    assert len(stage.fake.yarn.apps) == 2


def test_scale_sends_the_new_count() -> None:
    stage = Stage(**{"submit_tf_job.strategy": "multi-worker"})
    names = [item["name"] for item in stage.fake.yarn.services["alice", "mnist"].spec["components"]]
    with pytest.raises(UsageError, match="has no role 'wrker'") as caught:
        operations.scale(stage.alice, "mnist", "wrker", 2)
    assert names[0] in caught.value.hint
    with pytest.raises(UsageError, match="fewer than 0"):
        operations.scale(stage.alice, "mnist", names[0], -1)


@pytest.mark.parametrize("role", ["chief", "worker", "ps", "evaluator"])
def test_scale_refuses_roles_of_tensorflow(role: str) -> None:
    stage = Stage(**{"submit_tf_job.strategy": "multi-worker"})
    stage.fake.yarn.services["alice", "mnist"].spec["components"][0]["name"] = role
    with pytest.raises(
        UsageError,
        match=f"{role} cannot be scaled while the job runs: strategy multi-worker reads its "
        f"members",
    ):
        operations.scale(stage.alice, "mnist", role, 3)


def test_scale_to_the_present_count_changes_nothing() -> None:
    stage = Stage(**{"submit_tf_job.strategy": "multi-worker"})
    component = stage.fake.yarn.services["alice", "mnist"].spec["components"][0]
    component["name"] = "board"
    assert operations.scale(stage.alice, "mnist", "board", 3, wait=False).changed
    assert component["number_of_containers"] == 3
    assert not operations.scale(stage.alice, "mnist", "board", 3).changed


def test_scale_and_extend_keep_to_the_caps_of_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage(**{"submit_tf_job.strategy": "multi-worker"})
    stage.fake.yarn.services["alice", "mnist"].spec["components"][0]["name"] = "board"
    known = stage.alice.settings
    capped = replace(
        stage.alice,
        settings=replace(
            known,
            caps=CapSettings(tasks=2, lifetime_s=600.0),
            origins={**known.origins, "caps.tasks": "x.yaml:1:1", "caps.lifetime": "x.yaml:2:1"},
        ),
    )
    with pytest.raises(Refused, match=r"3 tasks, and caps.tasks allows 2 tasks \(set by x.yaml:1"):
        operations.scale(capped, "mnist", "board", 3)
    assert operations.scale(capped, "mnist", "board", 2, wait=False).changed
    app = stage.alice.client.app(stage.id)
    assert app is not None
    limited = replace(app, timeouts=(AppTimeout("LIFETIME", None, 60),))
    monkeypatch.setattr(capped.client, "app", lambda _id: limited)
    with pytest.raises(Refused, match=r"caps.lifetime allows 10m \(set by x.yaml:2:1\)"):
        operations.extend(capped, "mnist", 7200)


def test_scale_keeps_to_the_memory_cap_and_always_allows_fewer_tasks() -> None:
    stage = Stage(**{"submit_tf_job.strategy": "multi-worker"})
    component = stage.fake.yarn.services["alice", "mnist"].spec["components"][0]
    component.update(name="board", number_of_containers=1, resource={"cpus": 1, "memory": "1024"})
    origins = {
        **stage.alice.settings.origins,
        "caps.memory": "x.yaml:1:1",
        "caps.tasks": "x.yaml:2:1",
    }
    caps = CapSettings(memory=5 * 1024**3, tasks=6)
    capped = replace(
        stage.alice, settings=replace(stage.alice.settings, caps=caps, origins=origins)
    )
    with pytest.raises(Refused, match=r"6Gi, and caps.memory allows 5Gi \(set by x.yaml:1:1\)"):
        operations.scale(capped, "mnist", "board", 6)
    component["number_of_containers"] = 8
    assert operations.scale(capped, "mnist", "board", 7, wait=False).changed


def test_scale_keeps_to_the_cap_of_gpus() -> None:
    stage = Stage(**{"submit_tf_job.strategy": "multi-worker"})
    component = stage.fake.yarn.services["alice", "mnist"].spec["components"][0]
    gpu = {"yarn.io/gpu": {"value": 2, "unit": ""}}
    resource = {"cpus": 1, "memory": "1024", "additional": gpu}
    component.update(name="board", number_of_containers=1, resource=resource)
    origins = {**stage.alice.settings.origins, "caps.gpus": "x.yaml:1:1"}
    settings = replace(stage.alice.settings, caps=CapSettings(gpus=5), origins=origins)
    with pytest.raises(Refused, match=r"6 GPUs, and caps.gpus allows 5 GPUs"):
        operations.scale(replace(stage.alice, settings=settings), "mnist", "board", 3)


@pytest.mark.parametrize("force", [False, True])
def test_delete_refuses_the_application_of_an_earlier_run(force: bool) -> None:
    stage = Stage()
    stage.alice.client.stop_service("mnist")
    stage.fake.clock.sleep(10)
    again = operations.start(stage.alice, "mnist").ref.application_id
    with pytest.raises(
        NoSuchJob, match=f"is an earlier run of mnist, whose name belongs to {again} now"
    ):
        operations.delete(stage.alice, stage.id, force=force)
    with pytest.raises(AuthError, match="YARN lets only the owner free its name"):
        operations.delete(stage.bob, stage.id, force=force)
    assert operations.delete(stage.alice, again or "", force=True)
    assert operations.delete(stage.alice, "mnist") is False


def test_set_priority_refused_by_the_cluster_is_an_error() -> None:
    stage = Stage()
    with pytest.raises(
        Refused, match=r"priority 3 exceeds the cluster maximum of 0; unchanged"
    ) as caught:
        operations.set_priority(stage.alice, "mnist", 3)
    assert caught.value.details == {"priority": 0}
    assert caught.value.exit_status == 9


PRIORITY = """
name: ranker
image: tf:2
strategy: single
command: python train.py
priority: 5
roles: {chief: {memory: 1Gi}}
"""


def submitted(stage: Stage) -> operations.Submission:
    planned = operations.make_plan(
        loads(PRIORITY, source="t.yaml", base=None), stage.alice.settings
    )
    return operations.submit(planned, stage.alice)


def test_submit_sets_the_priority_of_the_job_spec_also_when_it_finds_its_job_again() -> None:
    stage = Stage()
    stage.fake.yarn.most_priority = 10
    done = submitted(stage)
    app = stage.fake.yarn.apps[done.ref.application_id or ""]
    assert (done.adopted, done.warnings, app.priority) == (False, (), 5)
    app.priority = 0  # its client died after the POST
    again = submitted(stage)
    assert (again.adopted, again.warnings, app.priority) == (True, (), 5)
    stage.fake.yarn.kill(app)
    stage.fake.clock.sleep(10)
    assert change.apply_priority(stage.alice, again.ref, 7) == ""
    assert app.priority == 5  # it is over


def test_submit_warns_where_the_cluster_does_not_set_the_priority() -> None:
    stage = Stage()
    done = submitted(stage)
    assert stage.fake.yarn.apps[done.ref.application_id or ""].state != "FAILED"
    assert done.warnings == (
        "priority 5 was not set, and ranker runs without it: priority 5 exceeds the cluster "
        "maximum of 0; unchanged; to set it later: submit_tf_job priority ranker 5",
    )


@pytest.mark.parametrize(
    ("strategy", "role", "hint"),
    [
        (
            "multi-worker",
            "worker",
            "tasks of worker cannot be restarted under strategy multi-worker: stop the "
            "job and submit it again",
        ),
        ("multi-worker", "chief", "tasks of chief cannot be restarted under strategy multi-worker"),
        (
            "parameter-server",
            "ps",
            "tasks of ps cannot be restarted under strategy parameter-server",
        ),
        ("parameter-server", "worker", "--set roles.worker.restart=on-failure"),
        ("multi-worker", "board", "--set roles.board.restart=on-failure"),
        (None, "worker", "--set roles.worker.restart=on-failure"),
    ],
)
def test_restart_hints_only_at_what_validate_accepts(
    strategy: str | None, role: str, hint: str, tmp_path: Path
) -> None:
    from submit_tf_job.operations.change import _instead_of_restart

    component = ObservedComponent(role, ComponentState.STABLE, 2)
    found = _instead_of_restart(component, {"submit_tf_job.strategy": strategy} if strategy else {})
    assert hint in found
    if strategy:  # a policy in the hint is accepted, any other is refused
        roles = {
            "chief": "{memory: 1Gi}",
            "ps": "{memory: 1Gi}",
            "worker": "{memory: 1Gi, instances: 2}",
            "board": "{memory: 1Gi, command: a}",
        }
        spec = f"name: a\nimage: a/b:1\nstrategy: {strategy}\ncommand: [a]\nroles:\n" + "".join(
            f"  {name}: {body}\n"
            for name, body in roles.items()
            if name != "ps" or strategy == "parameter-server"
        )
        accepted = (
            contextlib.nullcontext()
            if "--set" in found
            else pytest.raises(JobSpecError, match=f"roles.{role}.restart: ")
        )
        with accepted:
            loads(
                spec, source="a.yaml", base=tmp_path, overrides=[f"roles.{role}.restart=on-failure"]
            )


def elastic_stage() -> tuple[Stage, str]:
    """A job whose first role has 1 to 3 tasks, and the role's name."""
    stage = Stage(**{"submit_tf_job.strategy": "multi-worker"})
    component = stage.fake.yarn.services["alice", "mnist"].spec["components"][0]
    component["configuration"] = {"properties": {contract.PROPERTY_INSTANCES: "1-3"}}
    return stage, component["name"]


def test_elastic_role_is_scaled_between_its_bounds() -> None:
    stage, role = elastic_stage()
    found = operations.scale(stage.alice, "mnist", role, 3, wait=False)
    assert found.changed


def test_scale_of_a_job_that_ends_meanwhile_says_so() -> None:
    stage, role = elastic_stage()
    flex = stage.alice.client.flex

    def ends(name: str, component: str, count: int, **_named: Any) -> None:
        flex(name, component, count)
        stage.alice.client.stop_service("mnist")
        stage.fake.clock.sleep(10)

    stage.alice.client.flex = ends  # type: ignore[method-assign]
    with pytest.raises(Refused, match=r"mnist is over \(STOPPED\)"):
        operations.scale(stage.alice, "mnist", role, 3)


@pytest.mark.parametrize("count", [0, 4])
def test_elastic_role_is_not_scaled_beyond_its_bounds(count: int) -> None:
    stage, role = elastic_stage()
    with pytest.raises(UsageError) as caught:
        operations.scale(stage.alice, "mnist", role, count)
    assert str(caught.value).startswith(f"{role}={count}: the role is elastic, with 1 to 3 tasks")
    assert "other `instances`" in caught.value.hint


def retried_stage(**of_first: str) -> Stage:
    """A job with `retries`: YARN starts each of its tasks again, but for the witness."""
    stage = Stage(**{"submit_tf_job.strategy": "custom", "submit_tf_job.deciding-task": "worker-0"})
    spec = stage.fake.yarn.services["alice", "mnist"].spec
    first = spec["components"][0]
    first |= {"restart_policy": "ON_FAILURE", **of_first}
    witness = {"properties": {contract.PROPERTY_KIND: contract.KIND_SIDECAR}}
    spec["components"].append(
        {**first, "name": "witness", "restart_policy": "NEVER", "configuration": witness}
    )
    return stage


@pytest.mark.parametrize("count", [0, 2])
def test_scale_refuses_the_witness_of_retries(count: int) -> None:
    stage = retried_stage()
    with pytest.raises(UsageError, match="witness cannot be scaled: by its exit status YARN"):
        operations.scale(stage.alice, "mnist", "witness", count)


def test_restart_of_a_job_with_retries_says_that_all_tasks_start_again() -> None:
    stage = retried_stage()
    with pytest.raises(UsageError, match="worker-0 cannot start again alone: by `retries`"):
        operations.restart(stage.alice, "mnist", "worker-0")


@pytest.mark.parametrize(
    ("role", "strategy", "why", "hint"),
    [
        ("chief", "multi-worker", "reads its members from TF_CONFIG", "a job has one chief"),
        ("worker", "multi-worker", "reads its members from TF_CONFIG", "--set roles.worker.inst"),
        ("worker", "custom", "the job waits for each of its tasks", "instances: {min, max}"),
    ],
)
def test_scale_of_a_fixed_role_says_why_and_what_helps(
    role: str, strategy: str, why: str, hint: str
) -> None:
    stage = Stage(**{"submit_tf_job.strategy": strategy})
    stage.fake.yarn.services["alice", "mnist"].spec["components"][0]["name"] = role
    with pytest.raises(UsageError) as caught:
        operations.scale(stage.alice, "mnist", role, 3)
    assert why in str(caught.value)
    assert hint in caught.value.hint


def test_scale_of_an_elastic_role_that_trains_says_when_its_tasks_start_again() -> None:
    stage, role = elastic_stage()
    more = operations.scale(stage.alice, "mnist", role, 3, wait=False).message
    fewer = operations.scale(stage.alice, "mnist", role, 1, wait=False).message
    assert more.startswith(f"Scaled {role} from 1 to 3 tasks; the new ones join when")
    assert fewer == f"Scaled {role} from 3 to 1 tasks; all tasks start again without the others"


def test_scale_ends_where_another_command_scales_the_role_meanwhile() -> None:
    stage, role = elastic_stage()
    flex = stage.alice.client.flex

    def overtaken(name: str, component: str, count: int, **_named: Any) -> None:
        flex(name, component, count)
        flex(name, component, 2)

    stage.alice.client.flex = overtaken  # type: ignore[method-assign]
    begun = stage.fake.clock()
    with pytest.raises(Refused, match=f"another command has scaled {role} to 2 tasks") as caught:
        operations.scale(stage.alice, "mnist", role, 3)
    assert stage.fake.clock() - begun < 10
    assert caught.value.hint.endswith(f"submit_tf_job scale mnist {role}=3")


def test_change_at_the_same_moment_as_another_is_sent_again() -> None:
    stage, role = elastic_stage()
    stage.fake.network.faults += [overwritten()] * 3
    assert operations.scale(stage.alice, "mnist", role, 3, wait=False).changed
    assert not stage.fake.network.faults


def test_change_among_many_others_does_not_claim_that_the_job_is_missing() -> None:
    stage, role = elastic_stage()
    stage.fake.network.faults += [overwritten()] * 99
    with pytest.raises(ServiceUnreadable, match=r"^Other commands are changing mnist"):
        operations.scale(stage.alice, "mnist", role, 3, wait=False)


def test_scale_looks_again_while_another_command_writes_the_service() -> None:
    stage, role = elastic_stage()
    torn = Answer.json({"diagnostics": "No content to map due to end-of-input"}, 500)
    fault = Fault("instead", "GET", "/app/v1/services/mnist$", torn)
    flex = stage.alice.client.flex

    def and_torn(*args: Any, **named: Any) -> None:
        flex(*args, **named)
        stage.fake.network.faults += [fault] * 3

    stage.alice.client.flex = and_torn  # type: ignore[method-assign]
    stage.fake.network.faults += [fault] * 3
    with pytest.raises(DeadlinePassed, match="does not have 3 running tasks yet"):
        operations.scale(stage.alice, "mnist", role, 3)  # the fake starts no containers
    assert not stage.fake.network.faults


def test_handle_scales_as_the_command_does() -> None:
    stage, role = elastic_stage()
    handle = JobHandle(Client(settings=stage.alice.settings), "mnist")
    handle.client.cluster = stage.alice
    assert handle.scale(role, 3, wait=False).value == 3
    with pytest.raises(UsageError, match="a time to save is 0 seconds or more"):
        handle.stop(grace_s=-1)


def overwritten() -> Fault:
    """What the slower of two changes gets that write the stored service at the same moment."""
    path = "/user/alice/.yarn/services/mnist/mnist.json"
    words = (
        f"File does not exist: {path} (inode 16533) Holder DFSClient_NONMAPREDUCE_4657_33 does "
        f"not have any open files.\n\tat org.apache.hadoop.hdfs.server.namenode"
    )
    return Fault("instead", "PUT", answer=Answer.json({"diagnostics": words}, 500))
