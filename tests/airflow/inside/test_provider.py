"""The provider as an installed Airflow sees it, without its processes, on a cluster of fakes."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers_manager import ProvidersManager
from airflow.sdk import DAG
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    AirflowTaskTimeout,
    TaskDeferred,
)

from submit_tf_job import errors
from submit_tf_job.airflow import hook as hooks
from submit_tf_job.airflow.hook import SubmitTFJobHook
from submit_tf_job.airflow.operator import SubmitTFJobOperator, task_run
from submit_tf_job.airflow.provider import FIELDS
from submit_tf_job.airflow.sensor import SubmitTFJobSensor
from submit_tf_job.airflow.task_run import TaskRun
from submit_tf_job.airflow.trigger import SubmitTFJobTrigger
from submit_tf_job.operations import cluster, watch_run
from submit_tf_job.plan import Plan
from tests.airflow.inside.conftest import FakeHook
from tests.builders.held_job import HELD, hold
from tests.world.cluster import FakeCluster

JOB: dict[str, Any] = {
    "image": "library/python:3.11",
    "strategy": "single",
    "command": "true",
    "tf_config": "none",
    "roles": {"worker": {"memory": "128Mi"}},
}
RUN = TaskRun("http://airflow", "dag", "train", "run")
MEMORY = {"max": 1, "memory": 2}
START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def planned(hook: FakeHook, run: TaskRun = RUN) -> Plan:
    return hook.plan(JOB, run, base=Path("/"))


def submitted(hook: FakeHook, run: TaskRun = RUN) -> str | None:
    return hook.submit(planned(hook, run), run).application_id


# --- what Airflow is told -------------------------------------------------------------------------


def test_provider_is_registered() -> None:
    manager = ProvidersManager()
    kind = manager.hooks["submit_tf_job"]
    assert kind is not None
    assert (kind.hook_class_name, kind.connection_id_attribute_name) == (
        "submit_tf_job.airflow.hook.SubmitTFJobHook",
        "submit_tf_job_conn_id",
    )
    assert kind.connection_testable
    assert {f"extra__submit_tf_job__{it}" for it in FIELDS} <= set(manager.connection_form_widgets)
    behaviour = manager.field_behaviours["submit_tf_job"]
    assert behaviour["relabeling"]["host"] == "ResourceManagers"
    assert "schema" in behaviour["hidden_fields"]
    links = {name for name in manager.extra_links_class_names if name.startswith("submit_tf_job.")}
    assert {name.rpartition(".")[2] for name in links} == {
        "ApplicationLink",
        "LogsLink",
        "TensorBoardLink",
    }


def test_the_example_is_a_dag_that_airflow_can_store_and_load() -> None:
    serialized = importlib.import_module("airflow.serialization.serialized_objects")
    dag = importlib.import_module("submit_tf_job.airflow.example_dags.digits").dag
    kind = getattr(serialized, "DagSerialization", None) or serialized.SerializedDAG
    stored = json.loads(json.dumps(kind.to_dict(dag)))
    kind.validate_schema(stored)
    loaded = kind.from_dict(stored)
    task = loaded.get_task("train")
    assert {"YARN application", "Logs", "TensorBoard"} <= set(task.extra_links)
    assert set(SubmitTFJobOperator.template_fields) <= set(task.template_fields)


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", errors.TABLE)
def test_as_airflow_follows_the_table(kind: type[errors.SubmitTFJobError]) -> None:
    invalid = errors.JobSpecError([errors.Problem(1, 2, "a", "is wrong")], hint="mend it")
    is_invalid = issubclass(kind, errors.JobSpecError)
    error = invalid if is_invalid else kind("it broke", hint="mend it")
    raised = hooks.as_airflow(error)
    assert isinstance(raised, AirflowFailException) is not errors.TABLE[kind].retryable
    assert isinstance(raised, AirflowException)
    assert str(raised).endswith("\nhint: mend it")
    carried = {"job": None, "error": hooks.error_object(error), "text": ""}
    told = hooks.error_in(json.loads(json.dumps(carried)))
    assert told is not None
    assert (told.message, told.hint) == (error.message, error.hint)
    with pytest.raises(type(raised)):
        operator().execute_complete({}, carried)


def test_a_job_that_would_fail_again_is_not_retried_after_the_trigger_either() -> None:
    told = hooks.error_object(errors.JobFailed("no such program", retryable=False))
    with pytest.raises(AirflowFailException):
        operator().execute_complete({}, {"job": None, "error": told, "text": ""})


def operator(**given: Any) -> SubmitTFJobOperator:
    own = {"task_id": "train", "job": JOB, "retries": 2, "on_finish": "keep"}
    with DAG("dag", start_date=START, schedule=None):
        return SubmitTFJobOperator(**{**own, **given})


def context(**given: Any) -> dict[str, Any]:
    pushed: dict[str, Any] = {}
    ti = {"dag_id": "dag", "task_id": "train", "run_id": "run", "map_index": -1}
    ti |= {"max_tries": 2, "try_number": 1, "start_date": datetime.now(timezone.utc), **given}
    push = lambda key, value: pushed.update({key: value})  # noqa: E731
    return {"ti": SimpleNamespace(**ti, xcom_push=push), "pushed": pushed}


def trigger(name: str, application_id: str | None = None, **given: Any) -> SubmitTFJobTrigger:
    kept = {"application_id": application_id, "submit_tf_job_conn_id": None, **given}
    return SubmitTFJobTrigger(name=name, **kept)


def event_of(one: Any) -> Any:
    """Return what a trigger tells in the end."""

    async def run() -> Any:
        (event,) = [event async for event in one.run()]
        return json.loads(json.dumps(event.payload))

    return asyncio.run(run())


@pytest.fixture
def pauses(fakes: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that triggers wait, which pass on the cluster's clock."""
    slept: list[float] = []

    async def sleep(seconds: float, real: Any = asyncio.sleep) -> None:
        slept.append(seconds)
        fakes.clock.sleep(seconds)
        await real(0)

    monkeypatch.setattr("submit_tf_job.airflow.trigger.asyncio.sleep", sleep)
    return slept


# --- one application, whichever try it is ---------------------------------------------------------


def test_submit_adopts_the_job_of_an_earlier_try(hook: FakeHook, fakes: FakeCluster) -> None:
    fakes.yarn.site.job_s = (60.0, 60.0)
    first = submitted(hook)
    assert submitted(hook) == first, "a worker died, and its job runs"
    for seconds in (30, 120):
        fakes.clock.sleep(seconds)
        assert submitted(hook) == first
    assert fakes.yarn.apps[str(first)].final == "SUCCEEDED"
    assert len(fakes.yarn.apps) == 1


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_submit_runs_a_failed_job_again(hook: FakeHook, fakes: FakeCluster, how: str) -> None:
    first = submitted(hook)
    fakes.clock.sleep(20)
    app = fakes.yarn.apps[str(first)]
    end = fakes.yarn.stop if how == "stopped" else fakes.yarn.kill
    end(app, "alice")
    fakes.clock.sleep(20)
    second = submitted(hook)
    assert second != first
    assert submitted(hook) == second, "and a worker that dies now is forgiven, too"
    assert len(fakes.yarn.apps) == 2


def test_submit_after_a_clear_stops_the_old_job(hook: FakeHook, fakes: FakeCluster) -> None:
    first = submitted(hook)
    fakes.clock.sleep(20)
    other = submitted(hook, TaskRun("http://airflow", "dag", "train", "another-run"))
    again = task_run(context(max_tries=3, try_number=2), retries=2)
    assert again.cleared_at == 1
    again = TaskRun("http://airflow", "dag", "train", "run", cleared_at=1)
    second = submitted(hook, again)
    fakes.clock.sleep(20)
    assert fakes.yarn.apps[str(first)].over
    assert [fakes.yarn.apps[str(app)].over for app in (other, second)] == [False, False]


def test_on_kill_stops_the_job_also_during_submit(hook: FakeHook, fakes: FakeCluster) -> None:
    plan = planned(hook)

    def arrive() -> None:
        fakes.yarn.submit_app("alice", {"name": plan.run})

    fakes.clock.after(3.0, arrive)
    hook.kill(plan.job.name, None)
    fakes.clock.sleep(20)
    (app,) = fakes.yarn.apps.values()
    assert app.over
    hook.kill("never-submitted", None)
    with pytest.raises(errors.SubmitTFJobError):
        hook.submit(plan, RUN).client.attach("never-submitted")


# --- the operator ---------------------------------------------------------------------------------


def test_deferrable_trigger_can_be_recreated(hook: FakeHook) -> None:
    task, seen = operator(deferrable=True, execution_timeout=timedelta(hours=1)), context()
    with pytest.raises(TaskDeferred) as raised:
        task.execute(seen)
    deferred: Any = raised.value
    assert (
        seen["pushed"]["_link_ApplicationLink"]
        == f"http://rm1:8088/cluster/app/{seen['pushed']['application_id']}"
    )
    path, kwargs = deferred.trigger.serialize()
    home, _, name = path.rpartition(".")
    again = getattr(importlib.import_module(home), name)(**json.loads(json.dumps(kwargs)))
    assert isinstance(again, SubmitTFJobTrigger)
    assert again.serialize() == (path, kwargs)
    assert kwargs["own"]
    assert 3500 < kwargs["ends_at"] - time.time() < 3700
    with pytest.raises(AirflowTaskTimeout):
        task.execute_complete(seen, {"timed_out": True, "job": None, "error": None})
    task.on_kill()


def out_of_memory(
    fakes: FakeCluster, application_id: str, resubmission: dict[str, Any] | None = None
) -> dict[str, Any]:
    cause = {"code": "out-of-memory", "sentence": "worker-0 used 130 MB of the 128 MB"}
    cause |= {"task": "worker-0", "status": -104, "facts": {"used": "130 MB"}}  # type: ignore[dict-item]
    job: dict[str, Any] = {"name": RUN.job_name(), "run": fakes.yarn.apps[application_id].name}
    job |= {"application_id": application_id, "state": "FAILED", "resubmission": resubmission}
    error = {"code": "job-failed", "message": "the job failed"}
    return {"job": {**job, "root_cause": cause}, "error": error, "text": ""}


def ended(fakes: FakeCluster) -> str:
    """End the last application; return its id."""
    fakes.clock.sleep(20)
    (app,) = (app for app in fakes.yarn.apps.values() if not app.over)
    fakes.yarn.end(app, "FINISHED", "FAILED")
    fakes.clock.sleep(40)
    return app.id


def test_deferred_task_submits_again_once_with_more_memory_and_defers_again(
    hook: FakeHook, fakes: FakeCluster
) -> None:
    job = {**JOB, "retries": MEMORY}
    task, seen = operator(job=job, deferrable=True), context()
    with pytest.raises(TaskDeferred):
        task.execute(seen)
    first = ended(fakes)
    for _worker in ("the one that died after the POST", "another"):
        with pytest.raises(TaskDeferred) as raised:
            task.execute_complete(seen, out_of_memory(fakes, first))
    following = raised.value.trigger.application_id
    assert [first, following] == [app.id for app in fakes.yarn.apps.values()]
    assert seen["pushed"]["application_id"] == following
    stored = list(fakes.yarn.directories.values())[-1].spec or {}
    (worker,) = (one for one in stored["components"] if one["name"] == "worker")
    assert worker["resource"]["memory"] == "260"
    again = {"number": 1, "former": fakes.yarn.apps[first].name, "memory_mib": {"worker": 260}}
    assert ended(fakes) == following
    for known in (again, None):  # whoever did not see the service does not know the number
        with pytest.raises(AirflowException, match="the job failed"):
            task.execute_complete(seen, out_of_memory(fakes, following, known))
    assert len(fakes.yarn.apps) == 2


def test_execute_in_the_worker_pushes_links_and_result(hook: FakeHook, fakes: FakeCluster) -> None:
    fakes.yarn.site.job_s = (5.0, 5.0)
    seen = context()
    result = operator(deferrable=False).execute(seen)
    assert (result["kind"], result["state"], result["application_id"]) == (
        "Job",
        "SUCCEEDED",
        seen["pushed"]["application_id"],
    )
    json.dumps(result)
    assert ("alice", result["run"]) in fakes.yarn.directories
    again = operator(deferrable=False, on_finish="delete-succeeded").execute(context())
    assert again["application_id"] == result["application_id"]
    assert ("alice", result["run"]) not in fakes.yarn.directories


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"job": {**JOB, "rolse": {}}}, "rolse"),
        ({"job": {**JOB, "command": ""}}, "command"),
        ({"job": "not-there.yaml"}, r"not-there\.yaml: cannot be read: no such file"),
        ({"job": JOB, "overrides": ["nonsense"]}, "nonsense"),
        ({"job": JOB, "overrides": "env.A=1"}, r"write \['env.A=1'\]"),
        ({"job": None}, "job: expected the path of a job spec or a mapping, found None"),
        ({"job": JOB, "name": "x" * 80}, "63"),
    ],
)
def test_invalid_input_submits_nothing(
    hook: FakeHook, fakes: FakeCluster, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(AirflowFailException, match=message):
        operator(**given).execute(context())
    assert fakes.yarn.apps == {}


def test_arguments_that_are_wrong_fail_the_dag() -> None:
    with pytest.raises(ValueError, match="on_finish: 'burn' is not one of keep, delete, "):
        operator(on_finish="burn")


def test_job_file_is_rendered_with_its_directory(hook: FakeHook, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print()")
    (tmp_path / "job.yaml").write_text(
        "name: x\nimage: library/python:3.11\nstrategy: single\ncommand: python3 train.py "
        "{{ day }}\n"
        "files: [train.py]\nroles:\n  worker: {memory: 128Mi}\n"
    )
    task = operator(job=str(tmp_path / "job.yaml"))
    plan = task._make_plan({**context(), "day": "2026-01-01"}, RUN)
    assert "python3 train.py 2026-01-01" in plan.body
    assert plan.job.name == RUN.job_name()


# --- the connection -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("connection", "message"),
    [
        (
            {"extra": {"kerberos_keytap": "x"}},
            "connection broken: kerberos_keytap: unknown setting",
        ),
        (
            {"host": "http://rm:8088", "extra": {"auth": "magic"}},
            "connection broken: auth: must be one of simple, ",
        ),
        (
            {"host": "http://rm:8088/cluster"},
            "connection broken: 'ResourceManagers': .* is one of its pages",
        ),
        (
            {"host": "http://127.0.0.1:9"},
            r"No ResourceManager could be reached: http://127.0.0.1:9 .*\(Check 'ResourceManagers'\.\)$",
        ),
    ],
)
def test_test_connection(
    monkeypatch: pytest.MonkeyPatch, connection: dict[str, Any], message: str
) -> None:
    connection = {"conn_type": "submit_tf_job", **connection}
    monkeypatch.setenv("AIRFLOW_CONN_BROKEN", json.dumps(connection))
    # it is asked twice, however long that takes
    monkeypatch.setattr(hooks, "_REACHED_S", 600)
    request = importlib.import_module("submit_tf_job.yarn.rest").HttpClient.request
    monkeypatch.setitem(request.__kwdefaults__, "rounds", 2)
    good, said = SubmitTFJobHook("broken").test_connection()
    assert not good
    assert re.search(message, said), said
    assert "--" not in said


# --- the triggerer --------------------------------------------------------------------------------


def test_trigger_does_not_block_the_loop(hook: FakeHook, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks of four triggers that end when the loop says so, and the triggers are cancelled then."""
    looks, go_on = [], threading.Event()

    def slow(*_given: Any, **_more: Any) -> Iterator[watch_run.Pause]:
        while True:
            looks.append(go_on)
            assert go_on.wait(60), "the loop waits for a look"
            yield watch_run.Pause(0.01)

    monkeypatch.setattr("submit_tf_job.sdk.handle.follow", slow)
    monkeypatch.setattr(
        "submit_tf_job.sdk.client.find", lambda *_given: cluster.JobRef("x", "a", "x")
    )

    async def follow(one: SubmitTFJobTrigger) -> None:
        async for _event in one.run():
            pass

    async def main() -> None:
        running = [asyncio.create_task(follow(trigger("x", "a"))) for _ in range(4)]
        while len(looks) < 4:
            await asyncio.sleep(0.01)
        for task in running:
            task.cancel()
        go_on.set()
        ends = await asyncio.gather(*running, return_exceptions=True)
        assert all(isinstance(found, asyncio.CancelledError) for found in ends), ends

    asyncio.run(main())


@pytest.mark.usefixtures("pauses")
def test_trigger_reports_the_end_and_stops_its_own_job(hook: FakeHook, fakes: FakeCluster) -> None:
    handle = hook.submit(planned(hook), RUN)
    one = handle.name, handle.application_id
    assert event_of(trigger(*one, own=True, ends_at=time.time() - 1))["timed_out"]
    fakes.clock.sleep(20)
    assert fakes.yarn.apps[str(handle.application_id)].over, "its time was over"
    said = event_of(trigger(*one))
    assert (said["job"]["state"], said["error"]["code"]) == ("STOPPED", "job-stopped")
    assert event_of(trigger("nobody"))["error"]["code"] == "no-such-job"

    fakes.yarn.site.job_s = (3.0, 3.0)
    run = TaskRun("", "d", "t", "r")
    other = hook.submit(planned(hook, run), run)
    theirs = trigger(other.name, other.application_id)
    asyncio.run(theirs.on_kill())
    said = event_of(theirs)
    assert (said["job"]["state"], said["error"], said["timed_out"]) == ("SUCCEEDED", None, False)
    with DAG("dag", start_date=START, schedule=None):
        sensor = SubmitTFJobSensor(task_id="sensed", job=str(other.application_id))
    assert sensor.execute_complete({}, said)["name"] == other.name
    assert sensor.execute({})["name"] == other.name
    # A job that is over is not deferred for: a scheduler that is behind would fail the task.
    sensor.deferrable = True
    assert sensor.execute({})["name"] == other.name


def test_trigger_reports_the_deadline_also_of_a_job_that_it_cannot_stop(
    hook: FakeHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = hook.submit(planned(hook), RUN)

    def unreachable(*_given: object) -> None:
        raise errors.ClusterUnavailable("no ResourceManager could be reached")

    monkeypatch.setattr(hook, "kill", unreachable)
    late = trigger(handle.name, handle.application_id, own=True, ends_at=time.time() - 1)
    with pytest.raises(AirflowTaskTimeout):
        operator(execution_timeout=timedelta(hours=1)).execute_complete({}, event_of(late))


@pytest.mark.usefixtures("pauses")
def test_trigger_finds_the_page_of_a_sidecar_that_starts_late(
    hook: FakeHook, fakes: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes.yarn.site.job_s = (300.0, 300.0)
    handle = hook.submit(planned(hook), RUN)
    app = fakes.yarn.apps[str(handle.application_id)]
    running = {"state": "running", "first_failure": None, "held": None}
    fakes.clock.after(20, lambda: hold(fakes, app, **running))
    begun = fakes.clock()
    pushed: dict[str, str] = {}

    def links_of_running(_handle: object) -> tuple[dict[str, str], bool]:
        served = fakes.clock() - begun > 180
        return ({"page": "http://node1:6006"} if served else {}), served

    monkeypatch.setattr("submit_tf_job.airflow.links.links_of_running", links_of_running)
    one = trigger(handle.name, handle.application_id, own=True)
    one.task_instance = SimpleNamespace(task_id="train")
    monkeypatch.setattr(one, "_push_links", pushed.update)
    event_of(one)
    assert pushed == {"page": "http://node1:6006"}


@pytest.mark.parametrize("given", ["soft_fail", "never_fail"])
def test_sensor_skips_also_a_job_that_has_failed_before(
    hook: FakeHook, fakes: FakeCluster, given: str
) -> None:
    handle = hook.submit(planned(hook), RUN)
    fakes.clock.sleep(20)
    fakes.yarn.stop(fakes.yarn.apps[str(handle.application_id)], "alice")
    fakes.clock.sleep(20)
    own: dict[str, Any] = {"job": handle.name, "deferrable": True, given: True}
    with DAG("dag", start_date=START, schedule=None):
        sensor = SubmitTFJobSensor(task_id="sensed", **own)
    with pytest.raises(AirflowSkipException, match="stopped"):
        sensor.execute({})


def test_sensor_waits_for_a_job_that_is_submitted_later(
    hook: FakeHook, fakes: FakeCluster, pauses: list[float]
) -> None:
    plan = planned(hook)
    with DAG("dag", start_date=START, schedule=None):
        sensor = SubmitTFJobSensor(
            task_id="sensed", job=plan.job.name, deferrable=True, timeout=3600
        )
        mistaken = SubmitTFJobSensor(task_id="mistaken", job="application_1_0001")
    assert not sensor.poke({})
    with pytest.raises(AirflowFailException, match="does not know application_1_0001"):
        mistaken.poke({})
    fakes.yarn.site.job_s = (3.0, 3.0)
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({})
    fakes.clock.after(0.5, lambda: hook.submit(plan, RUN))
    assert sensor.execute_complete({}, event_of(deferred.value.trigger))["state"] == "SUCCEEDED"
    assert len(pauses) > 2
    late = trigger("nobody", ends_at=time.time() - 1)
    with pytest.raises(AirflowSensorTimeout, match="was not over within 3600 s"):
        sensor.execute_complete({}, event_of(late))


# --- a job whose container is held after its failure ----------------------------------------------

HOLDS = {**JOB, "hold_on_failure": "30m"}
FAILED = "failed: worker-1 ended with exit status 7"


def job_fails_and_is_held(fakes: FakeCluster, after_s: float = 20.0) -> float:
    """Let the application that lives then fail, with a container that stays; return the time."""

    def fail() -> None:
        [app] = [app for app in fakes.yarn.apps.values() if not app.over]
        hold(fakes, app)

    fakes.clock.after(after_s, fail)
    return fakes.clock()


@pytest.mark.parametrize("on_finish", ["keep", "delete", "delete-succeeded"])
def test_operator_fails_at_once_with_a_job_that_is_held(
    hook: FakeHook, fakes: FakeCluster, on_finish: str, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = job_fails_and_is_held(fakes)
    task = operator(job=HOLDS, deferrable=False, on_finish=on_finish)
    with pytest.raises(AirflowException, match=FAILED):
        task.execute(context())
    log = capsys.readouterr().out
    assert fakes.clock() - begun < 60
    assert f"held         the container of worker-1 on {HELD['host']} until " in log
    [app] = fakes.yarn.apps.values()
    assert not app.over
    was_not_deleted = "has failed, and the container of worker-1 is held" in log
    assert was_not_deleted is (on_finish == "delete")
    task.on_kill()  # of a task that is over, as Airflow may call it late
    assert not app.over


@pytest.mark.usefixtures("pauses")
def test_deferred_operator_fails_at_once_with_a_job_that_is_held(
    hook: FakeHook, fakes: FakeCluster
) -> None:
    task, seen = operator(job=HOLDS, deferrable=True), context()
    with pytest.raises(TaskDeferred) as deferred:
        task.execute(seen)
    begun = job_fails_and_is_held(fakes)
    event = event_of(deferred.value.trigger)
    assert (event["job"]["state"], event["job"]["held"]) == ("FAILED", HELD)
    assert fakes.clock() - begun < 60
    with pytest.raises(AirflowException, match=FAILED):
        task.execute_complete(seen, event)
    # a worker that died before: the next try finds the failure, and runs the job again
    with pytest.raises(TaskDeferred):
        operator(job=HOLDS, deferrable=True).execute(context(try_number=2))
    first, second = fakes.yarn.apps.values()
    assert (first.over, second.over) == (True, False)
    assert hook.get_conn().attach(first.id).status().state == "FAILED"


@pytest.mark.usefixtures("pauses")
@pytest.mark.parametrize("way", ["poke", "at once", "deferred"])
def test_sensor_fails_at_once_with_a_job_that_is_held(
    hook: FakeHook, fakes: FakeCluster, way: str
) -> None:
    handle = hook.submit(hook.plan(HOLDS, RUN, base=Path("/")), RUN)
    with DAG("dag", start_date=START, schedule=None):
        sensor = SubmitTFJobSensor(
            task_id="sensed", job=handle.name, deferrable=way != "poke", timeout=3600
        )
    begun = job_fails_and_is_held(fakes)
    if way == "deferred":
        with pytest.raises(TaskDeferred) as deferred:
            sensor.execute({})
        event = event_of(deferred.value.trigger)
        with pytest.raises(AirflowException, match=FAILED):
            sensor.execute_complete({}, event)
    else:
        assert not sensor.poke({})
        fakes.clock.sleep(30)
        with pytest.raises(AirflowException, match=FAILED):
            sensor.poke({}) if way == "poke" else sensor.execute({})
    assert fakes.clock() - begun < 60
    assert not next(iter(fakes.yarn.apps.values())).over
