"""Calls of other systems' Python interfaces: the jobs that they make, and what they refuse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from submit_tf_job.compat import kubeflow, refuse, with_roles
from submit_tf_job.compat.horovod_runner import HorovodRunner
from submit_tf_job.compat.in_task import call_with_context
from submit_tf_job.compat.kubeflow import TrainingClient
from submit_tf_job.compat.tensorflowonspark import InputMode, TFCluster, TFParallel
from submit_tf_job.compat.tf_yarn import NodeLabel, TaskSpec, run_on_yarn
from submit_tf_job.errors import DeadlinePassed, NoSuchJob, UsageError
from submit_tf_job.jobspec.job import Job
from submit_tf_job.observation import JobState, JobStatus, Verdict
from submit_tf_job.operations.cluster import JobRef
from submit_tf_job.sdk.client import Client, JobHandle, Status
from submit_tf_job.settings import load_settings

SIZED = {"image": "tf:2.15", "roles": {"worker": {"memory": "2Gi"}}}


class Recorder(Client):
    """A client that loads the jobs that it is to submit, and sends nothing."""

    def __init__(self) -> None:
        arguments = {"resource_managers": ["http://rm:8088"], "user": "alice"}
        super().__init__(
            settings=load_settings(arguments=arguments, environ={"HOME": "/nowhere"}, cwd=Path("/"))
        )
        self.jobs_made: list[Job] = []

    def submit(self, spec: Any, **_options: Any) -> JobHandle:
        self.jobs_made.append(self.load(spec))
        name = self.jobs_made[-1].name
        return JobHandle(self, JobRef(name, "application_1_0001", f"{name}-4k3f7qa2"))


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    monkeypatch.setattr("submit_tf_job.sdk.functions.Call.result", lambda *_: "the result")
    return Recorder()


def main(**kwargs: Any) -> Any:
    return kwargs


def job_of(client: Recorder) -> Job:
    [made] = client.jobs_made
    return made


# --- HorovodRunner --------------------------------------------------------------------------------
def test_horovod_runner_makes_a_job_of_np_workers(client: Recorder) -> None:
    assert HorovodRunner(np=4, job=SIZED, client=client).run(main, epochs=3) == "the result"
    job = job_of(client)
    assert (job.strategy.value, job.roles["worker"].instances) == ("custom", 4)
    assert [word.value for word in job.variables] == ["horovod"]


@pytest.mark.parametrize(
    ("options", "word"),
    [({"np": 0}, "np=0"), ({"np": 2, "driver_log_verbosity": "most"}, "driver_log_verbosity")],
)
def test_horovod_runner_refuses_what_only_spark_has(options: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        HorovodRunner(**options)


# --- TensorFlowOnSpark ----------------------------------------------------------------------------
def test_tfcluster_run_makes_the_roles_of_its_executors(client: Recorder) -> None:
    spec = {
        "image": "tf:2.15",
        "roles": {role: {"memory": "1Gi"} for role in ("ps", "chief", "worker", "evaluator")},
    }
    cluster = TFCluster.run(
        None,
        main,
        {},
        6,
        2,
        master_node="master",
        eval_node=True,
        reservation_timeout=90,
        job=spec,
        client=client,
    )
    job = job_of(client)
    assert {name: role.instances for name, role in job.roles.items()} == {
        "ps": 2,
        "evaluator": 1,
        "chief": 1,
        "worker": 2,
    }
    assert (job.deciding_task, job.start_timeout_s) == ("chief-0", 90)
    cluster.shutdown(grace_secs=0)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"input_mode": InputMode.SPARK}, "there is no Spark here"),
        ({"tensorboard": True, "log_dir": "hdfs:///logs"}, "takes no tensorboard here"),
        ({"driver_ps_nodes": True}, "driver_ps_nodes"),
        ({"queues": ["input"]}, "queues"),
        ({"release_port": False}, "release_port"),
        ({"master_node": "boss"}, "master_node"),
    ],
)
def test_tfcluster_run_refuses_what_has_no_equal(
    client: Recorder, options: dict[str, Any], word: str
) -> None:
    with pytest.raises(UsageError, match=word):
        TFCluster.run(None, main, {}, 2, 0, job=SIZED, client=client, **options)
    assert client.jobs_made == []


def test_tfcluster_refuses_too_few_executors_and_feeding(client: Recorder) -> None:
    with pytest.raises(UsageError, match="num_executors is 2"):
        TFCluster.run(None, main, {}, 2, 2, job=SIZED, client=client)
    cluster = TFCluster.run(None, main, {}, 2, 0, job=SIZED, client=client)
    for feed in (cluster.train, cluster.inference):
        with pytest.raises(UsageError, match="feeds data from Spark"):
            feed([1, 2])
    with pytest.raises(UsageError, match="ssc"):
        cluster.shutdown(ssc=object())
    assert cluster.tensorboard_url() is None


def test_tfparallel_ends_with_the_last_task(client: Recorder) -> None:
    TFParallel.run(None, main, {}, 3, job=SIZED, client=client)
    job = job_of(client)
    assert (job.roles["worker"].instances, job.ends_with.value) == (3, "all-that-train")


def test_context_of_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "TFJOB_ROLE": "worker",
        "TFJOB_INDEX": "1",
        "TFJOB_HOSTS_PS": "a:1",
        "TFJOB_HOSTS_WORKER": "b:1,c:1",
    }.items():
        monkeypatch.setenv(name, value)
    args, context = call_with_context(
        lambda *both: both, {"x": 1}, [("ps", 1), ("chief", 1), ("worker", 2)], "hdfs://nn:8020"
    )
    assert args == {"x": 1}
    assert (context.executor_id, context.job_name, context.task_index, context.num_workers) == (
        3,
        "worker",
        1,
        3,
    )
    assert context.cluster_spec == {"ps": ["a:1"], "worker": ["b:1", "c:1"]}
    assert context.absolute_path("/data") == "hdfs://nn:8020/data"
    assert context.absolute_path("model").endswith("/model")
    assert context.absolute_path("s3://b/x") == "s3://b/x"
    context.release_port()
    for refused in (context.get_data_feed, context.start_cluster_server):
        with pytest.raises(NotImplementedError):
            refused(True)


# --- tf-yarn --------------------------------------------------------------------------------------
def test_run_on_yarn_makes_an_estimator_job(client: Recorder, tmp_path: Path) -> None:
    (tmp_path / "wine.py").write_text("")
    specs = {
        "chief": TaskSpec(memory=2 * 2**10, vcores=4),
        "worker": TaskSpec(memory="1 GiB", vcores=1, instances=2, label=NodeLabel.GPU),
        "tensorboard": TaskSpec(
            memory=512, vcores=1, tb_model_dir="hdfs:///model", tb_extra_args="--reload_interval 5"
        ),
    }
    files = {"wine.py": str(tmp_path / "wine.py")}
    run_on_yarn(
        main,
        specs,
        files=files,
        env={"A": "b"},
        queue="ml",
        name="Wine quality",
        job={"image": "tf:2.15"},
        client=client,
    )
    job = job_of(client)
    assert (job.name, job.queue, job.strategy.value) == ("wine-quality", "ml", "estimator")
    assert (
        job.roles["chief"].memory_mib,
        job.roles["worker"].memory_mib,
        job.roles["chief"].cpus,
    ) == (2048, 1024, 4)
    assert (placed := job.roles["worker"].placement) is not None
    assert placed.partition == "gpu"
    assert "--logdir hdfs:///model --reload_interval 5" in str(job.roles["tensorboard"].command)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"skein_client": object()}, "skein_client"),
        ({"acls": object()}, "acls"),
        ({"eval_monitor_log_thresholds": {"x": (1, 2)}}, "eval_monitor_log_thresholds"),
        ({"nb_retries": 2}, "nb_retries"),
        ({"cuda_runtime_hdfs_path": "hdfs:///cuda"}, "cuda_runtime_hdfs_path"),
        ({"pyenv_zip_path": {NodeLabel.GPU: "gpu.zip"}}, "pyenv_zip_path"),
        (
            {"custom_task_module": "my.task", "pre_script_hook": "ls"},
            "custom_task_module and no pre_script_hook",
        ),
    ],
)
def test_run_on_yarn_refuses_what_has_no_equal(
    client: Recorder, options: dict[str, Any], word: str
) -> None:
    with pytest.raises(UsageError, match=word):
        run_on_yarn(main, {"chief": TaskSpec(512, 1)}, client=client, **options)


@pytest.mark.parametrize(
    ("role", "spec", "word"),
    [
        ("boss", TaskSpec(512, 1), "boss"),
        ("chief", TaskSpec(512, 1, nb_proc_per_worker=2), "nb_proc_per_worker"),
        ("tensorboard", TaskSpec(512, 1), "tb_model_dir"),
        (
            "chief",
            TaskSpec(512, 1, tb_termination_timeout_seconds=30),
            "tb_termination_timeout_seconds",
        ),
    ],
)
def test_run_on_yarn_refuses_roles_that_it_cannot_run(
    client: Recorder, role: str, spec: TaskSpec, word: str
) -> None:
    with pytest.raises(UsageError, match=word):
        run_on_yarn(main, {role: spec}, client=client)


def test_run_on_yarn_takes_file_systems_for_which_nothing_is_needed(client: Recorder) -> None:
    run_on_yarn(
        main,
        {"chief": TaskSpec(512, 1)},
        file_systems=["viewfs://root"],
        job={"image": "tf:2.15"},
        client=client,
    )
    assert job_of(client).strategy.value == "estimator"
    kerberos = Client(settings=replace(client.settings, auth="kerberos"))
    with pytest.raises(UsageError, match="alone, not for viewfs://root"):
        run_on_yarn(
            main, {"chief": TaskSpec(512, 1)}, file_systems=["viewfs://root"], client=kerberos
        )


# --- Kubeflow -------------------------------------------------------------------------------------
TFJOB = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "TFJob",
    "metadata": {"name": "mnist"},
    "spec": {
        "tfReplicaSpecs": {
            "Worker": {
                "replicas": 2,
                "template": {
                    "spec": {
                        "containers": [
                            {
                                "name": "tensorflow",
                                "image": "tf:2.15",
                                "command": ["python", "t.py"],
                                "resources": {"limits": {"memory": "2Gi"}},
                            }
                        ]
                    }
                },
            }
        }
    },
}


class Model:
    """An object as Kubernetes' Python clients have them."""

    attribute_map: ClassVar[dict[str, str]] = {
        "api_version": "apiVersion",
        "kind": "kind",
        "metadata": "metadata",
        "spec": "spec",
        "status": "status",
    }

    def __init__(self) -> None:
        self.api_version, self.kind, self.status = "kubeflow.org/v1", "TFJob", None
        self.metadata, self.spec = TFJOB["metadata"], TFJOB["spec"]


@pytest.mark.parametrize("job", [TFJOB, Model()], ids=["mapping", "object"])
def test_create_job_submits_a_tfjob(client: Recorder, job: object) -> None:
    TrainingClient(client=client).create_job(job)
    assert (job_of(client).name, job_of(client).roles["worker"].instances) == ("mnist", 2)


def test_create_job_of_a_function(client: Recorder, caplog: pytest.LogCaptureFixture) -> None:
    TrainingClient(namespace="team", job_kind="TFJob", client=client).create_job(
        name="own",
        train_func=main,
        parameters={"lr": 0.1},
        base_image="tf:2.15",
        num_workers=3,
        resources_per_worker={"cpu": 2, "memory": "4Gi"},
        env_vars={"A": "b"},
    )
    job = job_of(client)
    assert (job.name, job.strategy.value, job.roles["worker"].instances) == (
        "own",
        "multi-worker",
        3,
    )
    assert (job.roles["worker"].memory_mib, job.roles["worker"].cpus) == (4096, 2)
    assert "namespace team has no meaning" in caplog.text


def test_create_job_of_a_function_is_a_pytorchjob_as_in_kubeflow(client: Recorder) -> None:
    TrainingClient(client=client).create_job(
        name="own",
        train_func=main,
        base_image="torch:2.4",
        num_workers=2,
        resources_per_worker={"memory": "4Gi"},
    )
    assert job_of(client).strategy.value == "torch"


@pytest.mark.parametrize(
    "verb", ["get_job", "delete_job", "get_job_logs", "wait_for_job_conditions", "list_jobs"]
)
def test_training_client_refuses_another_kind(client: Recorder, verb: str) -> None:
    with pytest.raises(ValueError, match="Job kind must be one of"):
        getattr(TrainingClient(client=client), verb)(
            **({} if verb == "list_jobs" else {"name": "mnist"}), job_kind="MPIJob"
        )


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, ValueError),
        ({"train_func": main}, ValueError),
        ({"job": TFJOB, "name": "other"}, ValueError),
        ({"job": TFJOB, "parameters": {"lr": 1}}, ValueError),
        ({"job": TFJOB, "env_vars": {"A": "b"}}, ValueError),
        ({"job": TFJOB, "num_ps_replicas": 1}, ValueError),
        ({"name": "a", "base_image": "tf:2.15"}, ValueError),
        ({"job": "a text"}, ValueError),
        ({"name": "a", "train_func": main, "resources_per_worker": {"disk": 1}}, ValueError),
        ({"name": "a", "train_func": main, "job_kind": "MPIJob"}, ValueError),
        ({"name": "a", "train_func": main, "packages_to_install": ["x"]}, UsageError),
        ({"name": "a", "train_func": main, "num_procs_per_worker": 4}, UsageError),
        ({"name": "a", "train_func": main}, RuntimeError),  # no memory: JobSpecError is its cause
    ],
)
def test_create_job_refuses(
    client: Recorder, arguments: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        TrainingClient(client=client).create_job(**arguments)


@pytest.mark.parametrize(
    "options",
    [{"config_file": "~/.kube/config"}, {"context": "x"}, {"client_configuration": object()}],
)
def test_training_client_refuses_clusters_of_kubernetes(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        TrainingClient(**options)


def status_of(state: JobState, reason: str = "") -> Status:
    return Status(JobStatus("mnist", "application_1_1", None, given_verdict=Verdict(state, reason)))


@pytest.mark.parametrize(
    ("state", "true"),
    [
        (JobState.PENDING, {"created"}),
        (JobState.RUNNING, {"created", "running"}),
        (JobState.SUCCEEDED, {"created", "succeeded"}),
        (JobState.FAILED, {"created", "failed"}),
        (JobState.STOPPED, {"created", "failed"}),
        (JobState.UNKNOWN, {"created"}),
    ],
)
def test_conditions_follow_the_state(client: Recorder, state: JobState, true: set[str]) -> None:
    made = kubeflow._made("mnist", state, "why")
    training = TrainingClient(client=client)
    words = ("created", "running", "restarting", "succeeded", "failed")
    assert {word for word in words if getattr(training, f"is_job_{word}")(job=made)} == true
    assert made.metadata.name == "mnist"


def test_errors_are_those_that_kubeflows_programs_catch(
    client: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attach(error: Exception) -> None:
        def fail(*_args: Any) -> None:
            raise error

        monkeypatch.setattr(client, "attach", fail)

    training = TrainingClient(client=client)
    attach(NoSuchJob("no job mnist"))
    for call in (
        training.get_job,
        training.delete_job,
        training.get_job_logs,
        training.wait_for_job_conditions,
    ):
        with pytest.raises(RuntimeError, match="no job mnist"):
            call("mnist")
    attach(DeadlinePassed("the deadline passed"))
    with pytest.raises(TimeoutError):
        training.wait_for_job_conditions("mnist")
    with pytest.raises(ValueError, match="Done"):
        training.wait_for_job_conditions("mnist", expected_conditions={"Done"})
    with pytest.raises(UsageError, match="update_job"):
        training.update_job({}, "mnist")
    with pytest.raises(ValueError, match="must be set"):
        training.get_job_conditions()


# --- common ---------------------------------------------------------------------------------------
def test_refuse_names_every_argument_that_was_given() -> None:
    refuse("call", a=None, b=0, c="", d=False)
    with pytest.raises(UsageError, match="call takes no a and no b here"):
        refuse("call", a=1, b="x", c=None)


@pytest.mark.parametrize(("role", "way"), [("boss", "worker"), ("chief", "master_node='chief'")])
def test_with_roles_refuses_a_role_that_the_call_does_not_have(role: str, way: str) -> None:
    with pytest.raises(UsageError, match=f"no role {role}") as caught:
        with_roles({"roles": {role: {}}}, {"worker": {}})
    assert way in caught.value.hint
