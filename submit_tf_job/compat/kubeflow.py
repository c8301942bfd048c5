"""`TrainingClient` of Kubeflow's training SDK 1.x: `from submit_tf_job.compat.kubeflow import
TrainingClient`.

A job that the client returns has `metadata.name` and `status.conditions`, because programs read
these.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

from submit_tf_job.compat import refuse, with_roles
from submit_tf_job.errors import DeadlinePassed, SubmitTFJobError, UsageError
from submit_tf_job.sdk.client import Client, JobState, Status
from submit_tf_job.sdk.functions import start

_log = logging.getLogger(__name__)

_KINDS = ("TFJob", "PyTorchJob")
_CONDITIONS = frozenset({"Created", "Running", "Restarting", "Succeeded", "Failed"})
_ENDED = {JobState.SUCCEEDED: "Succeeded", JobState.FAILED: "Failed", JobState.STOPPED: "Failed"}
_RAN = frozenset({JobState.RUNNING, JobState.SUCCEEDED})
# of the replica types in Kubeflow's labels, in lower case
_ROLES = {"master": "chief"}


@dataclass(frozen=True)
class JobCondition:
    """A condition of a job, in the form that Kubernetes has.

    Attributes:
        type: Created, Running, Succeeded or Failed.
        status: "True", or "False" for a condition that no longer holds.
        reason: The job's state.
        message: The verdict's reason.
        last_transition_time: When the condition was read.
    """

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: datetime


@dataclass(frozen=True)
class TrainingJob:
    """A job as the methods of `TrainingClient` return it.

    Attributes:
        metadata: An object with the job's `name`.
        status: An object with the job's `conditions`.
    """

    metadata: SimpleNamespace
    status: SimpleNamespace


class TrainingClient:
    """Creates, follows and deletes jobs by the calls of Kubeflow's client.

    Args:
        config_file: Not allowed: the cluster comes from the settings.
        context: Not allowed.
        client_configuration: Not allowed.
        namespace: Has no meaning on YARN; a warning says so.
        job_kind: PyTorchJob, as in Kubeflow's client, or TFJob: how the tasks of a function train
            together.
        job: Job spec keys for functions, such as `{"roles": {"worker": {"memory": "8Gi"}}}`.
        client: The client; default: one with the settings.

    Raises:
        ValueError: There is no such `job_kind`.
        UsageError: An argument that is not allowed was given.
    """

    def __init__(
        self,
        config_file: str | None = None,
        context: str | None = None,
        client_configuration: object = None,
        namespace: str | None = None,
        job_kind: str = "PyTorchJob",
        *,
        job: Mapping[str, Any] | None = None,
        client: Client | None = None,
    ) -> None:
        refuse(
            "TrainingClient",
            "choose the cluster by client=Client('PROFILE')",
            config_file=config_file,
            context=context,
            client_configuration=client_configuration,
        )
        self.job_kind = job_kind
        self._check_arguments(namespace, None)
        self._job = job
        self._client = client or Client()

    def create_job(
        self,
        job: object = None,
        name: str | None = None,
        namespace: str | None = None,
        job_kind: str | None = None,
        base_image: str | None = None,
        train_func: Callable[..., Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        num_workers: int | None = None,
        num_procs_per_worker: int | None = None,
        resources_per_worker: Mapping[str, Any] | None = None,
        packages_to_install: object = None,
        pip_index_url: object = None,
        env_vars: Mapping[str, str] | None = None,
        *,
        num_worker_replicas: int | None = None,
        num_chief_replicas: int | None = None,
        num_ps_replicas: int | None = None,
    ) -> None:
        """Submit a TFJob, or a function that every task calls.

        Args:
            job: A TFJob: a mapping, or an object of Kubeflow's client. No other argument but
                `namespace` may be given with it.
            name: The job's name, needed with `train_func`.
            namespace: Has no meaning on YARN; a warning says so.
            job_kind: PyTorchJob or TFJob; default: that of the client.
            train_func: The function.
            parameters: The function's argument.
            base_image: The image of the tasks.
            num_workers: Number of workers (`num_worker_replicas` of older versions); default: 1.
            num_procs_per_worker: Only 1 or "auto".
            resources_per_worker: `cpu`, `memory` and `nvidia.com/gpu` of a worker.
            packages_to_install: Not allowed: the image, or the job spec's `python`, has the
                packages.
            pip_index_url: Not allowed.
            env_vars: Environment variables of all tasks.
            num_chief_replicas: Number of chiefs; default: none.
            num_ps_replicas: Number of parameter servers; default: none.

        Raises:
            UsageError: An argument has no meaning here, or `job` of the client has another role.
            ValueError: The arguments do not fit together, or there is no such `job_kind`.
            RuntimeError: The job could not be submitted; its cause says why.
            TimeoutError: `timeouts.submit` of the settings passed.
        """
        given = [name for name, value in locals().items() if value is not None]
        refuse(
            "create_job",
            "use an image that has the packages, or the job spec's python",
            packages_to_install=packages_to_install,
            pip_index_url=pip_index_url,
        )
        if num_procs_per_worker not in (None, 1, "auto"):
            refuse("create_job", "num_workers", num_procs_per_worker=num_procs_per_worker)
        self._check_arguments(namespace, None)
        if job is not None:
            if others := [name for name in given if name not in ("self", "job", "namespace")]:
                raise ValueError(f"If `job` is set, {others[0]} must be None; put it into the job")
            with _as_kubeflow("create", "job"):
                self._client.submit(_job_mapping(job))
            return
        if train_func is None or not name:
            raise ValueError(
                "create_job needs `job`, or `train_func` and `name`; for an image's own program "
                "write a TFJob or a job spec, with its `command`"
            )
        workers = num_workers or num_worker_replicas or 1
        counts = {"chief": num_chief_replicas, "ps": num_ps_replicas, "worker": workers}
        roles: dict[str, Any] = {name: {"instances": n} for name, n in counts.items() if n}
        roles["worker"] |= _role_resources(resources_per_worker)
        keys = {"name": name, "env": dict(env_vars or {})}
        if base_image:
            keys["image"] = base_image
        kind = self._check_arguments(None, job_kind)
        made = with_roles(self._job, roles, strategy=_strategy_of_kind(kind, roles), **keys)
        arguments = () if parameters is None else (dict(parameters),)
        with _as_kubeflow("create", name):
            start(train_func, arguments, job=made, client=self._client, keep=True)

    def get_job(
        self,
        name: str,
        namespace: str | None = None,
        job_kind: str | None = None,
        timeout: float = 120,
    ) -> TrainingJob:
        """Return a job with its conditions.

        Args:
            name: The job's name.
            timeout: Not used: the settings have `timeouts`.

        Raises:
            ValueError: There is no such `job_kind`.
            RuntimeError: There is no such job, or the cluster does not answer.
        """
        self._check_arguments(namespace, job_kind)
        with _as_kubeflow("get", name):
            return _training_job(self._client.attach(name).status())

    def list_jobs(
        self, namespace: str | None = None, job_kind: str | None = None, timeout: float = 120
    ) -> list[TrainingJob]:
        """Return the user's jobs, newest first; the messages of their conditions are empty.

        Raises:
            ValueError: There is no such `job_kind`.
            RuntimeError: The cluster does not answer.
        """
        self._check_arguments(namespace, job_kind)
        with _as_kubeflow("list", "jobs"):
            return [_make_job(listed.name, listed.state, "") for listed in self._client.jobs()]

    def get_job_conditions(
        self,
        name: str | None = None,
        namespace: str | None = None,
        job_kind: str | None = None,
        job: TrainingJob | None = None,
        timeout: float = 120,
    ) -> list[JobCondition]:
        """Return the conditions of a job, which is given by its name or as an object that `get_job`
        returned.

        Raises:
            ValueError: Neither was given, or there is no such `job_kind`.
            RuntimeError: The job cannot be read.
        """
        if job is None and not name:
            raise ValueError("Job name must be set")
        found = job or self.get_job(name or "", namespace, job_kind, timeout)
        conditions: list[JobCondition] = found.status.conditions
        return conditions

    def is_job_created(self, *args: Any, **kwargs: Any) -> bool:
        """Return True for a job that exists; arguments and errors are those of
        `get_job_conditions`, which raises RuntimeError if there is no such job.
        """
        return self._condition_holds("Created", *args, **kwargs)

    def is_job_running(self, *args: Any, **kwargs: Any) -> bool:
        """Return whether a job runs; arguments and errors are those of `get_job_conditions`."""
        return self._condition_holds("Running", *args, **kwargs)

    def is_job_restarting(self, *args: Any, **kwargs: Any) -> bool:
        """Return False, because YARN restarts single tasks, which `describe` shows. The job is read
        all the same; arguments and errors are those of `get_job_conditions`.
        """
        return self._condition_holds("Restarting", *args, **kwargs)

    def is_job_succeeded(self, *args: Any, **kwargs: Any) -> bool:
        """Return whether a job succeeded; arguments and errors are those of
        `get_job_conditions`.
        """
        return self._condition_holds("Succeeded", *args, **kwargs)

    def is_job_failed(self, *args: Any, **kwargs: Any) -> bool:
        """Return whether a job failed or was stopped; arguments and errors are those of
        `get_job_conditions`.
        """
        return self._condition_holds("Failed", *args, **kwargs)

    def wait_for_job_conditions(
        self,
        name: str,
        namespace: str | None = None,
        job_kind: str | None = None,
        expected_conditions: Collection[str] = frozenset({"Succeeded"}),
        wait_timeout: float = 600,
        polling_interval: float = 15,
        callback: Callable[[TrainingJob], Any] | None = None,
        timeout: float = 120,
    ) -> TrainingJob:
        """Wait until one of the given conditions is true, and return the job.

        Args:
            name: The job's name.
            expected_conditions: The conditions.
            wait_timeout: Seconds to wait.
            polling_interval: Not used: the settings have `poll`.
            callback: Called with the job when its state, reason or progress has changed.

        Raises:
            ValueError: There is no such condition or `job_kind`.
            TimeoutError: `wait_timeout` passed.
            RuntimeError: The job ended without any of these conditions, or cannot be read.
        """
        self._check_arguments(namespace, job_kind)
        if unknown := set(expected_conditions) - _CONDITIONS:
            raise ValueError(f"{sorted(unknown)} must be of {sorted(_CONDITIONS)}")

        def reached(seen: Status) -> bool:
            return bool(
                _true_conditions(_training_job(seen).status.conditions) & set(expected_conditions)
            )

        def changed(seen: Status) -> None:
            if callback is not None:
                callback(_training_job(seen))

        with _as_kubeflow("wait for", name):
            handle = self._client.attach(name)
            end = handle.wait(wait_timeout, until=reached, on_change=changed)
        if not reached(end):
            raise RuntimeError(f"{name} is {end.state.value}: {end.reason}")
        return _training_job(end)

    def get_job_pod_names(
        self,
        name: str,
        namespace: str | None = None,
        is_master: bool = False,
        replica_type: str | None = None,
        replica_index: int | None = None,
        timeout: float = 120,
    ) -> list[str]:
        """Return the names of a job's tasks, which stand for pods.

        Args:
            name: The job's name.
            is_master: Only the deciding task; the first task if it is not known which one that is.
            replica_type: Only tasks of this role.
            replica_index: Only tasks with this number in their role.

        Raises:
            RuntimeError: The job cannot be read.
        """
        self._check_arguments(namespace, None)
        with _as_kubeflow("get", name):
            handle = self._client.attach(name)
            found = handle.describe()
        names = [task.name for task in found.tasks]
        if is_master:
            names = [name for name in names if name == _deciding_task(found)] or names[:1]
        role = _ROLES.get((replica_type or "").lower(), (replica_type or "").lower())
        return [
            task
            for task in names
            if (not role or task.rpartition("-")[0] == role)
            and (replica_index is None or task.rpartition("-")[2] == str(replica_index))
        ]

    def get_job_logs(
        self,
        name: str,
        namespace: str | None = None,
        job_kind: str | None = None,
        is_master: bool = True,
        replica_type: str | None = None,
        replica_index: int | None = None,
        follow: bool = False,
        timeout: float = 120,
    ) -> tuple[dict[str, str], dict[str, list[str]]]:
        """Return the output of the tasks, by the tasks' names; no events are returned, as in
        version 1.9.

        Args:
            name: The job's name.
            is_master: Only the deciding task, if no role is given.
            replica_type: Only tasks of this role.
            replica_index: Only the task with this number.
            follow: Print the lines as they come, until the job is over.

        Raises:
            ValueError: There is no such `job_kind`.
            RuntimeError: The job or its logs cannot be read.
        """
        self._check_arguments(None, job_kind)
        only_first = is_master and replica_type is None and replica_index is None
        tasks = self.get_job_pod_names(name, namespace, only_first, replica_type, replica_index)
        found: dict[str, list[str]] = {task: [] for task in tasks}
        if not tasks:
            return {}, {}
        with _as_kubeflow("read the logs of", name):
            task = tasks[0] if len(tasks) == 1 else None
            for line in self._client.attach(name).logs(task, follow=follow):
                if line.task not in found:
                    continue
                found[line.task].append(f"{line.text}\n")
                if follow:
                    sys.stdout.write(f"[Pod {line.task}]: {line.text}\n")
        return {task: "".join(lines) for task, lines in found.items()}, {}

    def update_job(self, *_args: Any, **_options: Any) -> None:
        """Refuse: the spec of a YARN service cannot be changed.

        Raises:
            UsageError: Always.
        """
        raise UsageError(
            "update_job has no equal here",
            hint="submit_tf_job scale NAME ROLE=N, or submit another job",
        )

    def delete_job(
        self,
        name: str,
        namespace: str | None = None,
        job_kind: str | None = None,
        delete_options: object = None,
    ) -> None:
        """Delete a job with all its runs, even while it runs.

        Raises:
            ValueError: There is no such `job_kind`.
            UsageError: `delete_options` were given.
            RuntimeError: There is no such job, or it cannot be deleted.
            TimeoutError: YARN has not ended the job within two minutes.
        """
        self._check_arguments(namespace, job_kind)
        refuse("delete_job", delete_options=delete_options)
        with _as_kubeflow("delete", name):
            self._client.delete(name, force=True)

    def _check_arguments(self, namespace: str | None, job_kind: str | None) -> str:
        """Return the kind of job: `job_kind`, or else that of the client; warn of a namespace,
        which has no meaning here.

        Raises:
            ValueError: There is no such kind.
        """
        if namespace:
            _log.warning(
                "namespace %s has no meaning on YARN; jobs belong to their user and a queue",
                namespace,
            )
        kind = job_kind or self.job_kind
        if kind not in _KINDS:
            raise ValueError(f"Job kind must be one of these: {list(_KINDS)}")
        return kind

    def _condition_holds(self, condition: str, *args: Any, **kwargs: Any) -> bool:
        return condition in _true_conditions(self.get_job_conditions(*args, **kwargs))


@contextlib.contextmanager
def _as_kubeflow(what: str, name: str) -> Iterator[None]:
    """Convert errors to RuntimeError and TimeoutError, which programs for Kubeflow's client
    catch.
    """
    try:
        yield
    except DeadlinePassed as error:
        raise TimeoutError(f"Timeout to {what} {name}: {error}") from error
    except SubmitTFJobError as error:
        raise RuntimeError(f"Failed to {what} {name}: {error}") from error


def _strategy_of_kind(kind: str, roles: Collection[str]) -> str:
    if kind == "PyTorchJob":
        return "torch"
    return "parameter-server" if "ps" in roles else "multi-worker"


def _role_resources(stated: Mapping[str, Any] | None) -> dict[str, Any]:
    names = {"cpu": "cpus", "memory": "memory", "gpu": "gpus", "nvidia.com/gpu": "gpus"}
    if unknown := sorted(set(stated or {}) - set(names)):
        raise ValueError(f"resources_per_worker has {unknown[0]}; it may have {sorted(names)}")
    return {names[key]: value for key, value in (stated or {}).items()}


def _job_mapping(job: object) -> Mapping[str, Any]:
    """Return a job as plain JSON values; for an object of a Kubernetes client, with the names that
    its fields have in JSON.
    """
    plain = _plain_values(job)
    if not isinstance(plain, Mapping):
        raise ValueError(f"job is a {type(job).__name__}; a TFJob or a mapping is needed")
    return plain


def _plain_values(value: Any) -> Any:
    if names := getattr(value, "attribute_map", None):
        pairs = ((names[field], getattr(value, field)) for field in names)
        return {name: _plain_values(item) for name, item in pairs if item is not None}
    if isinstance(value, Mapping):
        return {key: _plain_values(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain_values(item) for item in value]
    return value


def _training_job(job: Status) -> TrainingJob:
    return _make_job(job.name, job.state, job.reason)


def _deciding_task(job: Status) -> str | None:
    report = job.job.report
    return (report and report.deciding) or job.job.deciding_task


def _make_job(name: str, state: JobState, reason: str) -> TrainingJob:
    now = datetime.fromtimestamp(time.time(), timezone.utc)
    held = {"Created": True}
    if state in _RAN:
        held["Running"] = state is JobState.RUNNING
    if state in _ENDED:
        held[_ENDED[state]] = True
    found = [
        JobCondition(kind, str(status), state.value, reason, now) for kind, status in held.items()
    ]
    return TrainingJob(SimpleNamespace(name=name), SimpleNamespace(conditions=found))


def _true_conditions(conditions: Collection[JobCondition]) -> set[str]:
    return {found.type for found in conditions if found.status == "True"}
