"""`run_on_yarn` of Criteo's tf-yarn, for estimators: `from submit_tf_job.compat.tf_yarn import
Experiment, TaskSpec, run_on_yarn`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from submit_tf_job.compat import refuse, with_roles
from submit_tf_job.compat.in_task import Experiment, run_experiment
from submit_tf_job.errors import JobFailed as RunFailed
from submit_tf_job.errors import UsageError
from submit_tf_job.sdk.call_spec import as_label
from submit_tf_job.sdk.client import Client
from submit_tf_job.sdk.functions import start_as

__all__ = [
    "Experiment",
    "NodeLabel",
    "RunFailed",
    "TaskSpec",
    "get_safe_experiment_fn",
    "ps_strategy_topology",
    "run_on_yarn",
    "single_server_topology",
]

_LARGEST = 48  # GiB and cores of a task, tf-yarn's own default
_BOARD = "tensorboard"
_ROLES = ("chief", "worker", "ps", "evaluator", _BOARD)


class NodeLabel(Enum):
    """The label of the nodes on which a role's tasks run."""

    CPU = ""
    GPU = "gpu"


@dataclass(frozen=True)
class TaskSpec:
    """The resources of a role.

    Attributes:
        memory: Memory of a task in MiB, or a text such as "2 GiB".
        vcores: Cores of a task.
        instances: Number of tasks.
        nb_proc_per_worker: Only 1 is allowed.
        label: The label of the nodes on which the role's tasks run.
        tb_termination_timeout_seconds: Not allowed: TensorBoard ends with the job.
        tb_model_dir: The directory that TensorBoard shows.
        tb_extra_args: Further arguments of TensorBoard.
    """

    memory: int | str
    vcores: int
    instances: int = 1
    nb_proc_per_worker: int = 1
    label: NodeLabel = NodeLabel.CPU
    tb_termination_timeout_seconds: int = -1
    tb_model_dir: str | None = None
    tb_extra_args: str | None = None


def single_server_topology(
    memory: int | str = _LARGEST * 2**10, vcores: int = _LARGEST
) -> dict[str, TaskSpec]:
    """Return the roles for a training on one machine, a chief and an evaluator; the arguments are
    those of `TaskSpec`. Add a `tensorboard` with `tb_model_dir` for a TensorBoard.
    """
    return {role: TaskSpec(memory, vcores) for role in ("chief", "evaluator")}


def ps_strategy_topology(
    nb_workers: int = 2,
    nb_ps: int = 1,
    memory: int | str = _LARGEST * 2**10,
    vcores: int = _LARGEST,
) -> dict[str, TaskSpec]:
    """Return the roles for a training with parameter servers: chief, evaluator, workers and
    parameter servers, each task with the same resources; `memory` and `vcores` as for `TaskSpec`.
    """
    counts = {"chief": 1, "evaluator": 1, "worker": nb_workers, "ps": nb_ps}
    return {role: TaskSpec(memory, vcores, count) for role, count in counts.items()}


def get_safe_experiment_fn(full_fn_name: str, *args: object) -> Callable[[], Any]:
    """Return a function that imports another one by its name in the task, and calls it.

    Args:
        full_fn_name: The name with its module, which the tasks must have.
        args: The arguments of the call.
    """
    module, _, name = full_fn_name.rpartition(".")

    def experiment_fn() -> Any:
        return getattr(importlib.import_module(module), name)(*args)

    return experiment_fn


def run_on_yarn(
    experiment_fn: Callable[[], Any],
    task_specs: Mapping[str, TaskSpec] | None = None,
    *,
    pyenv_zip_path: str | Mapping[NodeLabel, str] | None = None,
    skein_client: object = None,
    files: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    queue: str = "default",
    acls: object = None,
    file_systems: Sequence[str] | None = None,
    eval_monitor_log_thresholds: object = None,
    nb_retries: int = 0,
    custom_task_module: str | None = None,
    name: str = "RunOnYarn",
    pre_script_hook: str | None = None,
    cuda_runtime_hdfs_path: str | None = None,
    job: Mapping[str, Any] | None = None,
    client: Client | None = None,
) -> None:
    """Train and evaluate the estimator that a function makes, and wait for the end. Arguments of
    tf-yarn that are not described here are refused.

    Args:
        experiment_fn: Called in every task; returns an `Experiment`.
        task_specs: Resources of the roles chief, worker, ps, evaluator and tensorboard; default:
            `single_server_topology()`.
        pyenv_zip_path: An archive with the tasks' Python packages (`python` of the job spec).
        files: Local files, by the name that each file has in the tasks.
        env: Variables of all tasks.
        queue: The queue.
        file_systems: Other file systems that tasks use; without Kerberos, nothing needs to be done
            for them.
        nb_retries: How often the training is started again after a failure (`retries`).
        name: The job's name; characters that YARN's services refuse become hyphens.
        job: Further keys of a job spec, such as `{"image": …}`.
        client: The client; default: one with the settings.

    Raises:
        UsageError: An argument has no meaning here.
        BaseException: The first exception of the function.
        RunFailed: The job failed without a Python exception.
        SubmitTFJobError: Another error of `submit_tf_job.run`.
    """
    refuse(
        "run_on_yarn",
        hint="leave it out, or write a job spec (submit_tf_job help job-spec)",
        skein_client=skein_client,
        acls=acls,
        eval_monitor_log_thresholds=eval_monitor_log_thresholds,
        pre_script_hook=pre_script_hook,
        cuda_runtime_hdfs_path=cuda_runtime_hdfs_path,
    )
    refuse("run_on_yarn", hint=_OF_MODULES, custom_task_module=custom_task_module)
    client = client or Client()
    _check_file_systems(file_systems or (), client)
    if isinstance(pyenv_zip_path, Mapping):
        refuse(
            "run_on_yarn",
            "one archive is that of all roles; job={'roles': {ROLE: {'python': …}}} has one of "
            "its own",
            pyenv_zip_path=pyenv_zip_path,
        )
    keys: dict[str, Any] = {"strategy": "estimator", "queue": queue, "env": dict(env or {})}
    if nb_retries:
        keys["retries"] = {"max": nb_retries, "on": ["any"]}
    if pyenv_zip_path:
        keys["python"] = pyenv_zip_path
    if files:
        keys["files"] = [{"src": src, "dst": dst} for dst, src in files.items()]
    if name != "RunOnYarn":
        keys["name"] = as_label(name)
    specs = single_server_topology() if task_specs is None else task_specs
    made = with_roles(
        job, {role: _role_of_spec(role, spec) for role, spec in specs.items()}, **keys
    )
    start_as(experiment_fn, run_experiment, (experiment_fn,), {}, made, client).result()


_OF_MODULES = (
    "of gloo_allred_task, Horovod: from submit_tf_job.compat.horovod_runner import HorovodRunner; "
    "without it, run_on_yarn trains with the Estimator's own strategy"
)


def _check_file_systems(addresses: Sequence[str], client: Client) -> None:
    """Refuse file systems for which a job on a cluster with Kerberos gets no token."""
    own = client.default_fs.rstrip("/")
    others = [address for address in addresses if address.rstrip("/") != own]
    if others and client.settings.auth in ("kerberos", "delegation-token"):
        raise UsageError(
            f"tasks get a token for {own or 'fs.defaultFS'} alone, not for {others[0]}",
            hint="leave file_systems out; job={'kerberos': {'login': 'always', …}} logs tasks in",
        )


def __getattr__(name: str) -> Any:
    if name == "KerasExperiment":
        raise UsageError(
            "KerasExperiment trains with Horovod (gloo), and run_on_yarn trains estimators here",
            hint="from submit_tf_job.compat.horovod_runner import HorovodRunner; "
            "HorovodRunner(np=N).run(train), where train calls hvd.init() and model.fit",
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _role_of_spec(name: str, spec: TaskSpec) -> dict[str, Any]:
    if name not in _ROLES:
        raise UsageError(f"task_specs has the role {name}", hint=f"the roles: {', '.join(_ROLES)}")
    if spec.nb_proc_per_worker != 1:
        raise UsageError(
            f"nb_proc_per_worker of {name} is {spec.nb_proc_per_worker}, and each task runs one "
            f"process here",
            hint="leave it out, and run more instances",
        )
    if spec.tb_termination_timeout_seconds >= 0:
        raise UsageError(
            f"tb_termination_timeout_seconds of {name} is given, and TensorBoard ends with the "
            f"job here",
            hint="leave it out; a job of its own shows the logs afterwards",
        )
    memory = f"{spec.memory}Mi" if isinstance(spec.memory, int) else spec.memory.replace(" ", "")
    role: dict[str, Any] = {
        "instances": spec.instances,
        "memory": memory.removesuffix("B"),
        "cpus": spec.vcores,
    }
    if spec.label is not NodeLabel.CPU:
        role["placement"] = {"node_label": spec.label.value}
    if name == _BOARD:
        role.update(_tensorboard_role(spec))
    return role


def _tensorboard_role(spec: TaskSpec) -> dict[str, Any]:
    if not spec.tb_model_dir:
        raise UsageError(
            "the TaskSpec of tensorboard has no tb_model_dir",
            hint="tb_model_dir='hdfs:///user/me/model' is what it shows",
        )
    words = f"tensorboard --bind_all --port $TFJOB_PORT_HTTP --logdir {spec.tb_model_dir}"
    return {"command": f"{words} {spec.tb_extra_args or ''}".rstrip(), "ports": {"http": "auto"}}
