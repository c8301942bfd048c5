"""Calls of other systems' Python interfaces: the jobs that they make, and what they refuse.

Tasks that run them are in tests/promises/test_python.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import submit_tf_job
from submit_tf_job.compat import horovod_runner, in_task, kubeflow, tensorflowonspark, tf_yarn
from tests.world import RM, World

SIZED = {"image": "tf:2.15", "roles": {"worker": {"memory": "2Gi"}}}
SPEC = tf_yarn.TaskSpec
TFJOB = yaml.safe_load("""
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: mnist}
spec:
  tfReplicaSpecs:
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: tensorflow, image: i, command: [c], resources: {limits: {memory: 2Gi}}}]}}
""")


class Model:
    """An object as Kubernetes' Python clients have them."""

    attribute_map = {name: name for name in ("apiVersion", "kind", "metadata", "spec", "status")}  # noqa: RUF012
    status = None

    def __init__(self) -> None:
        vars(self).update(TFJOB)


class Sent(Exception):
    """The job that a call was about to submit."""


class Recorder(submit_tf_job.Client):
    """A client that loads the job that it is to submit, and ends there."""

    def submit(self, spec: Any, **_options: Any) -> Any:
        raise Sent(self.load(spec))


def recorder() -> Recorder:
    return Recorder(resource_managers=[RM], user="alice")


def main() -> None: ...


def cluster(executors: int, ps: int, **options: Any) -> Any:
    found: Any = {"job": SIZED, "client": recorder(), **options}
    return tensorflowonspark.TFCluster.run(None, main, {}, executors, ps, **found)


def yarn(role: str = "chief", /, spec: Any = None, **options: Any) -> None:
    found = {"job": {"image": "tf:2.15"}, "client": recorder(), **options}
    tf_yarn.run_on_yarn(main, {role: spec or SPEC(512, 1)}, **found)


def training(**options: Any) -> kubeflow.TrainingClient:
    return kubeflow.TrainingClient(client=recorder(), **options)


def kerberos() -> submit_tf_job.Client:
    return submit_tf_job.Client(resource_managers=[RM], user="alice", auth="kerberos")


def function(**options: Any) -> None:
    resources = {"cpu": 2, "memory": "4Gi"}
    found = {"num_workers": 2, "resources_per_worker": resources, "base_image": "i", **options}
    training().create_job(name="own", train_func=main, **found)


ROLES = {role: {"memory": "1Gi"} for role in ("ps", "chief", "worker", "evaluator")}
BOARD = SPEC(512, 1, tb_model_dir="hdfs:///model", tb_extra_args="--reload_interval 5")


def horovod() -> None:
    horovod_runner.HorovodRunner(np=4, job=SIZED, client=recorder()).run(main)


def executors() -> None:
    job = {"image": "tf:2.15", "roles": ROLES}
    cluster(6, 2, master_node="master", eval_node=True, reservation_timeout=90, job=job)


def parallel() -> None:
    tensorflowonspark.TFParallel.run(None, main, {}, 3, job=SIZED, client=recorder())


def estimator() -> None:
    gpu = SPEC("1 GiB", 4, 2, label=tf_yarn.NodeLabel.GPU)
    specs = {"chief": SPEC(2 * 2**10, 1), "worker": gpu, "tensorboard": BOARD}
    job = {"image": "tf:2.15"}
    own: Any = {"queue": "ml", "name": "Wine quality", "file_systems": ["viewfs://root"]}
    tf_yarn.run_on_yarn(main, specs, env={"A": "b"}, job=job, client=recorder(), **own)


def estimator_by_default() -> None:
    found = tf_yarn.get_safe_experiment_fn("os.path.join", "a", "b")
    assert found() == "a/b"
    tf_yarn.run_on_yarn(found, nb_retries=2, job={"image": "i"}, client=recorder())


def estimator_with_ps() -> None:
    specs = tf_yarn.ps_strategy_topology(nb_workers=3, nb_ps=2, memory="1 GiB", vcores=1)
    tf_yarn.run_on_yarn(main, specs, job={"image": "i"}, client=recorder())


def of_tensorflow() -> None:
    job = {"image": "i", "roles": {"ps": {"memory": "1Gi"}, "worker": {"memory": "1Gi"}}}
    client = kubeflow.TrainingClient(job_kind="TFJob", job=job, client=recorder())
    client.create_job(name="own", train_func=main, num_workers=2, num_ps_replicas=1)


@pytest.mark.parametrize(
    ("call", "roles", "values"),
    [
        (horovod, {"worker": (4, 2048)}, {"strategy": "custom", "variables": ("horovod",)}),
        (
            executors,
            {"ps": (2, 1024), "evaluator": (1, 1024), "chief": (1, 1024), "worker": (2, 1024)},
            {"strategy": "custom", "deciding_task": "chief-0", "start_timeout_s": 90},
        ),
        (parallel, {"worker": (3, 2048)}, {"ends_with": "all-that-train"}),
        (
            estimator,
            {"chief": (1, 2048), "worker": (2, 1024), "tensorboard": (1, 512)},
            {"strategy": "estimator", "queue": "ml", "name": "wine-quality"},
        ),
        (
            estimator_by_default,
            {"chief": (1, 49152), "evaluator": (1, 49152)},
            {"strategy": "estimator"},
        ),
        (
            estimator_with_ps,
            {"chief": (1, 1024), "evaluator": (1, 1024), "worker": (3, 1024), "ps": (2, 1024)},
            {"strategy": "estimator"},
        ),
        (function, {"worker": (2, 4096)}, {"strategy": "torch", "name": "own"}),
        (of_tensorflow, {"ps": (1, 1024), "worker": (2, 1024)}, {"strategy": "parameter-server"}),
        (lambda: training().create_job(TFJOB), {"worker": (2, 2048)}, {"name": "mnist"}),
        (lambda: training().create_job(Model()), {"worker": (2, 2048)}, {"name": "mnist"}),
    ],
)
def test_call_makes_a_job(
    home: Path, call: Callable[[], Any], roles: dict[str, tuple[int, int]], values: dict[str, Any]
) -> None:
    with pytest.raises(Sent) as sent:
        call()
    job = sent.value.args[0]
    found = {name: (role.instances, role.memory_mib) for name, role in job.roles.items()}
    found.pop("witness", None)
    assert found == roles
    assert {name: getattr(job, name) for name in values} == values


def test_roles_of_run_on_yarn_have_their_resources_label_and_command(home: Path) -> None:
    with pytest.raises(Sent) as sent:
        estimator()
    worker, board = (sent.value.args[0].roles[name] for name in ("worker", "tensorboard"))
    assert (worker.cpus, worker.placement.partition, worker.env) == (4, "gpu", {"A": "b"})
    assert "--logdir hdfs:///model --reload_interval 5" in board.command.script


def test_namespace_has_no_meaning(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    training(namespace="team")
    assert "namespace team has no meaning" in caplog.text


def test_calls_need_no_job_where_the_settings_have_image_and_memory(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Callable[[Any], object]] = [
        lambda client: horovod_runner.HorovodRunner(np=2, client=client).run(main),
        lambda client: cluster(2, 1, job=None, client=client),
        lambda client: kubeflow.TrainingClient(client=client).create_job(
            name="mnist", train_func=main, num_workers=2
        ),
        lambda client: submit_tf_job.start(main, job={}, client=client),
    ]
    for call in calls:
        errors = (submit_tf_job.SubmitTFJobError, RuntimeError)  # Kubeflow's client has the latter
        with pytest.raises(errors, match=r"the memory of .*worker\b.* is not known") as refused:
            call(Recorder(resource_managers=[RM], user="alice", job={"image": "none"}))
        cause = refused.value.__cause__ or refused.value
        assert "task_memory: 4Gi in the settings" in str(getattr(cause, "hint", ""))
        settings: Any = {"job": {"image": "none"}, "task_memory": "512Mi"}
        with pytest.raises(Sent) as sent:
            call(Recorder(resource_managers=[RM], user="alice", **settings))
        roles = sent.value.args[0].roles.values()
        assert {role.memory_mib for role in roles if role.name != "witness"} == {512}


def test_retries_of_tf_yarn_are_those_of_the_training(home: Path) -> None:
    with pytest.raises(Sent) as sent:
        estimator_by_default()
    retries = sent.value.args[0].retries
    assert (retries.max, retries.on) == (2, ("any",))


def test_a_call_on_this_machine_needs_nothing(home: Path) -> None:
    assert horovod_runner.HorovodRunner(np=-2).run(pow, base=2, exp=5) == 32


# --- what is refused ------------------------------------------------------------------------------

REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: horovod_runner.HorovodRunner(np=0), "np=0"),
    (lambda: horovod_runner.HorovodRunner(np=2, driver_log_verbosity="most"), "driver_log_verb"),
    (lambda: horovod_runner.HorovodRunner(np=2, job={"roles": {"boss": {}}}), "no role boss"),
    (lambda: cluster(2, 0, input_mode=1), "there is no Spark here"),
    (lambda: cluster(2, 0, tensorboard=True, log_dir="hdfs:///logs"), "takes no tensorboard here"),
    (lambda: cluster(2, 0, driver_ps_nodes=True, queues=["input"]), "driver_ps_nodes and no queu"),
    (lambda: cluster(2, 0, release_port=False), "release_port"),
    (lambda: cluster(2, 0, master_node="boss"), "master_node"),
    (lambda: cluster(2, 0, job={"roles": {"chief": {}}}), "the call has no role chief"),
    (lambda: cluster(2, 2), "num_executors is 2"),
    (lambda: tensorflowonspark.TFCluster(None).train([1]), "feeds data from Spark"),  # type: ignore[arg-type]
    (lambda: tensorflowonspark.TFCluster(None).inference([1]), "feeds data from Spark"),  # type: ignore[arg-type]
    (lambda: tensorflowonspark.TFCluster(None).shutdown(ssc=main), "ssc"),  # type: ignore[arg-type]
    (lambda: yarn(skein_client=main), "skein_client"),
    (lambda: yarn(acls=main), "acls"),
    (lambda: yarn(eval_monitor_log_thresholds={"x": (1, 2)}), "eval_monitor_log_thresholds"),
    (lambda: yarn(cuda_runtime_hdfs_path="hdfs:///cuda"), "cuda_runtime_hdfs_path"),
    (lambda: yarn(pyenv_zip_path={tf_yarn.NodeLabel.GPU: "gpu.zip"}), "pyenv_zip_path"),
    (lambda: yarn(acls="x", pre_script_hook="ls"), "acls and no pre_script"),
    (
        lambda: yarn(custom_task_module="tf_yarn.tensorflow.tasks.gloo_allred_task"),
        "no custom_task_",
    ),
    (lambda: yarn("boss"), "boss"),
    (lambda: yarn(spec=SPEC(512, 1, nb_proc_per_worker=2)), "nb_proc_per_worker"),
    (lambda: yarn("tensorboard"), "tb_model_dir"),
    (lambda: yarn(spec=SPEC(512, 1, tb_termination_timeout_seconds=3)), "tb_termination_timeout_s"),
    (lambda: yarn(client=kerberos(), file_systems=["viewfs://x"]), "alone, not for viewfs://x"),
    (lambda: training(config_file="~/.kube/config"), "config_file"),
    (lambda: training(context="x"), "context"),
    (lambda: training(client_configuration=main), "client_configuration"),
    (lambda: training().update_job({}, "mnist"), "update_job"),
    (lambda: function(packages_to_install=["x"]), "packages_to_install"),
    (lambda: function(num_procs_per_worker=4), "num_procs_per_worker"),
]


@pytest.mark.parametrize(("call", "word"), REFUSED, ids=[word for _, word in REFUSED])
def test_meaningless_argument_is_refused(home: Path, call: Callable[[], object], word: str) -> None:
    with pytest.raises(submit_tf_job.UsageError, match=word):
        call()


INVALID: list[Callable[[], object]] = [
    lambda: training().create_job(),
    lambda: training().create_job(train_func=main),
    lambda: training().create_job(name="a", base_image="tf:2.15"),
    lambda: training().create_job(TFJOB, name="other"),
    lambda: training().create_job(TFJOB, parameters={"lr": 1}),
    lambda: training().create_job(TFJOB, num_ps_replicas=1),
    lambda: training().create_job("a text"),
    lambda: function(resources_per_worker={"disk": 1}),
    lambda: training(job_kind="MPIJob"),
    lambda: function(job_kind="MPIJob"),
    lambda: training().get_job("mnist", job_kind="MPIJob"),
    lambda: training().get_job_logs("mnist", job_kind="MPIJob"),
    lambda: training().list_jobs(job_kind="MPIJob"),
    lambda: training().delete_job("mnist", job_kind="MPIJob"),
    lambda: training().get_job_conditions(),
    lambda: training().wait_for_job_conditions("mnist", expected_conditions={"Done"}),
]


@pytest.mark.parametrize("call", INVALID, ids=range(len(INVALID)))
def test_training_client_raises_what_kubeflow_does(home: Path, call: Callable[[], object]) -> None:
    with pytest.raises(ValueError):
        call()


# --- jobs of Kubeflow's calls ---------------------------------------------------------------------


def test_conditions_follow_the_state(world: World) -> None:
    client = kubeflow.TrainingClient(client=submit_tf_job.Client(resource_managers=[RM]))

    def true(kind: str = "mnist") -> set[str]:
        words = ("created", "running", "restarting", "succeeded", "failed")
        return {word for word in words if getattr(client, f"is_job_{word}")(kind)}

    with pytest.raises(RuntimeError, match="mnist"):
        client.delete_job("mnist")
    world.submitted()
    assert true() == {"created"}
    world.reports(next(iter(world.runs("chief-0").values())), "running")
    assert true() == {"created", "running"}
    with pytest.raises(TimeoutError):
        client.wait_for_job_conditions("mnist", wait_timeout=5)
    world.ends("FAILED")
    assert true() == {"created", "failed"}
    with pytest.raises(RuntimeError, match="mnist is FAILED"):
        client.wait_for_job_conditions("mnist")
    [listed] = client.list_jobs()
    assert (listed.metadata.name, client.is_job_failed(job=listed)) == ("mnist", True)
    client.create_job(yaml.safe_load(world.spec().read_text()))
    world.passes(10)
    world.ends("KILLED", "KILLED")
    assert true() == {"created", "failed"}, "it was stopped"


def test_delete_job_removes_all_runs_of_the_job_also_a_live_one(world: World) -> None:
    client = kubeflow.TrainingClient(client=submit_tf_job.Client(resource_managers=[RM]))
    for state in ("FAILED", "SUCCEEDED"):
        world.submitted()
        world.ends(state)
        world.passes(60)
    world.submitted()
    assert len(world.yarn.directories) == 3
    client.delete_job("mnist")
    assert not world.yarn.directories
    assert all(app.over for app in world.yarn.apps.values())


@pytest.mark.parametrize("reported", [False, True])
def test_master_of_a_job_is_its_deciding_task(world: World, reported: bool) -> None:
    client = kubeflow.TrainingClient(client=submit_tf_job.Client(resource_managers=[RM]))
    sized = {"memory": "1Gi"}
    world.submitted(
        strategy="parameter-server",
        roles={"ps": sized, "worker": {**sized, "instances": 2}},
    )
    containers = world.runs("ps-0", "worker-0", "worker-1")
    if reported:
        counts = {"ps": {"wanted": 1}, "worker": {"wanted": 2}}
        world.reports(containers["worker-0"], "running", deciding="worker-0", roles=counts)
    for task, container in containers.items():
        world.writes(container, "stdout.txt", f"from {task}\n")
    assert client.get_job_pod_names("mnist", is_master=True) == ["worker-0"]
    assert client.get_job_logs("mnist") == ({"worker-0": "from worker-0\n"}, {})
    world.asked()
    assert client.get_job_logs("mnist", replica_type="evaluator") == ({}, {})
    assert not [path for _, path in world.asked() if path.endswith("stdout.txt")]
    assert {"ps-0", "worker-0", "worker-1"} <= set(client.get_job_pod_names("mnist"))


def test_context_of_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"ROLE": "worker", "INDEX": "1", "HOSTS_PS": "a:1", "HOSTS_WORKER": "b:1,c:1"}
    for name, value in own.items():
        monkeypatch.setenv(f"TFJOB_{name}", value)
    counts = [("ps", 1), ("chief", 1), ("worker", 2)]
    args, ctx = in_task.call_with_context(lambda *both: both, {"x": 1}, counts, "hdfs://nn:8020")
    assert (args, ctx.executor_id, ctx.job_name, ctx.task_index) == ({"x": 1}, 3, "worker", 1)
    assert (ctx.num_workers, ctx.cluster_spec) == (3, {"ps": ["a:1"], "worker": ["b:1", "c:1"]})
    assert ctx.absolute_path("/data") == "hdfs://nn:8020/data"
    assert ctx.absolute_path("model").endswith("/model")
    assert ctx.absolute_path("s3://b/x") == "s3://b/x"
    for refused in (ctx.get_data_feed, ctx.start_cluster_server):
        with pytest.raises(NotImplementedError):
            refused(True)
