"""Which roles go together: what each way of training needs, and what is known to hang or to crash.

Measured on small real clusters of TensorFlow 2.15.1 (in part 2.21.0), and read in its sources; each rule says which.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from submit_tf_job.job import Restart, Strategy, TFConfigMode
from submit_tf_job.specfile.layers import Layer
from submit_tf_job.specfile.nodes import clip
from submit_tf_job.specfile.notes import Notes
from submit_tf_job.specfile.roles import RoleDraft
from submit_tf_job.specfile.values import Section
from submit_tf_job.specfile.vocabulary import role_meant

__all__ = ["JobDraft", "check", "check_command", "decide", "takes_job_command"]

# MultiWorkerMirroredStrategy: a survivor fails 0.1 to 0.2 s after a worker died, and the worker that came back waits for ever (measured).
_ALL_OR_NOTHING = "a worker that comes back alone waits for ever, as the others have failed by then (MultiWorkerMirroredStrategy, measured)"
# ParameterServerStrategy: the chief raises UnavailableError 0.1 s after a ps died, also where the ps is back 1 s later (measured).
_PS_FORGETS = "a ps that comes back has lost its variables, and the chief has failed by then (measured)"
_NO_BOOTSTRAP = "only the bootstrap heeds this, and bootstrap is false; leave one of the two out"
_WITHOUT_BOOTSTRAP = ("start_timeout", "finish_timeout", "grace", "python", "inputs", "outputs")


@dataclass
class JobDraft:
    """A job as far as it could be read; None where a value is missing or wrong."""

    section: Section
    notes: Notes
    layer: Layer
    roles: dict[str, RoleDraft]
    strategy: Strategy | None
    tf_config: TFConfigMode | None
    deciding_role: str | None
    legacy_master: bool
    bootstrap: bool
    stated: frozenset[str]  # the keys in the job spec itself, without those that only the settings say
    roles_read: bool  # whether each role could be read, so that a role that is not there is really missing

    @property
    def misspelt(self) -> set[str | None]:
        """The training roles that are there under a wrong name, which is a problem already."""
        return {role_meant(role.name) for role in self.roles.values() if _is_misspelt(self, role)}

    def fail(self, path: str, message: str) -> None:
        """Note a problem at a path of the job, or at the file where the path is not stated."""
        place = self.notes.places.get(path)
        self.notes.problem(place if place and place.source != "default" else self.section.value.place, path, message)


def decide(job: JobDraft) -> str | None:
    """Return the role whose task 0 decides the job: chief, else worker, else the only one."""
    if job.section.has("deciding_role"):
        return job.deciding_role
    job.notes.default("deciding_role")
    for name in ("chief", "worker"):
        if name in job.roles:
            return name
    return next(iter(job.roles)) if len(job.roles) == 1 else None


def takes_job_command(job: JobDraft, role: RoleDraft, deciding: str | None) -> bool:
    """Whether a role without a command of its own runs the job's: TensorFlow's roles, and the one that decides a custom job."""
    return role.is_training or (job.strategy is Strategy.CUSTOM and role.name == deciding)


def check_command(job: JobDraft, role: RoleDraft, deciding: str | None) -> None:
    """Note that a role has no command, neither its own nor, where that holds for it, the job's."""
    if takes_job_command(job, role, deciding):
        if "command" not in job.layer.states and "command" not in {*job.section.meant, *role.section.meant}:
            job.fail("command", "missing; say what the tasks run, e.g. command: python train.py")
    elif job.strategy is not None and not _is_misspelt(job, role):
        why = "missing; a role that is not TensorFlow's runs its own command, e.g. command: tensorboard --logdir /logs"
        job.notes.problem(role.place, f"{role.path}.command", why)


def check(job: JobDraft, deciding: str | None) -> None:
    """Note each combination that cannot work."""
    for role in job.roles.values():
        if _is_misspelt(job, role):
            meant = role_meant(role.name)
            role.fail(f"{clip(role.name)} is no role of TensorFlow's, and a sidecar needs a command of its own; did you mean '{meant}'?")
        if role.name in ("chief", "evaluator") and (role.instances or 1) > 1:
            role.fail(f"TensorFlow takes at most one {role.name}, not {role.instances}", "instances")
    if job.strategy is not None and job.roles_read:
        _STRATEGIES[job.strategy](job)
    _check_master(job)
    _check_tf_config(job)
    _check_bootstrap(job)
    _check_deciding(job, deciding)
    for role in job.roles.values():
        _check_failures(job, role, deciding)


def _is_misspelt(job: JobDraft, role: RoleDraft) -> bool:
    """Whether a sidecar looks like a training role: it would run beside the job, and not train."""
    own_name = role.is_training or job.strategy is Strategy.CUSTOM or "command" in role.layer.states
    return not own_name and role_meant(role.name) is not None


def _absent(job: JobDraft, name: str, why: str) -> None:
    if name in job.roles:
        job.roles[name].fail(why)


def _present(job: JobDraft, name: str, why: str) -> None:
    if name not in job.roles and name not in job.misspelt:
        job.fail("roles", f"{why}; add {name}: {{memory: 4Gi}}")


def _single(job: JobDraft) -> None:
    for name in ("ps", "evaluator"):
        _absent(job, name, f"strategy single trains in one task and has no {name}; leave it out, or choose another strategy")
    worker = job.roles.get("worker")
    if worker is None:
        _present(job, "chief", "strategy single needs the one task that trains")
    elif "chief" in job.roles:
        worker.fail("strategy single has one task; leave out chief or worker, or say strategy: multi-worker")
    elif (worker.instances or 1) > 1:
        worker.fail(f"strategy single has one task, not {worker.instances}; say strategy: multi-worker", "instances")


def _multi_worker(job: JobDraft) -> None:
    _present(job, "worker", "strategy multi-worker needs workers")
    _absent(
        job,
        "ps",
        "with a ps in the cluster MultiWorkerMirroredStrategy hangs without a word (measured, TensorFlow 2.15 and 2.21); "
        "leave it out, or say strategy: parameter-server",
    )


def _parameter_server(job: JobDraft) -> None:
    _present(job, "chief", "strategy parameter-server needs the chief that coordinates")
    _present(job, "worker", "strategy parameter-server needs at least one worker")
    _present(job, "ps", "strategy parameter-server needs at least one ps")


def _estimator(job: JobDraft) -> None:
    # tensorflow_estimator/python/estimator/run_config.py: "exactly one chief", else ValueError
    _present(job, "chief", "strategy estimator needs exactly one chief")


def _custom(job: JobDraft) -> None:
    if job.tf_config in (TFConfigMode.COUNTS, TFConfigMode.LITERAL) and not {"chief", "worker", "ps"} & set(job.roles):
        job.fail("tf_config", "there is no chief, worker or ps to stand in TF_CONFIG; leave tf_config out, or name the roles so")


_STRATEGIES = {
    Strategy.SINGLE: _single,
    Strategy.MULTI_WORKER: _multi_worker,
    Strategy.PARAMETER_SERVER: _parameter_server,
    Strategy.ESTIMATOR: _estimator,
    Strategy.CUSTOM: _custom,
}


def _check_master(job: JobDraft) -> None:
    if not job.legacy_master or job.strategy is None:
        return
    if job.strategy is not Strategy.ESTIMATOR:
        job.fail("legacy_master", "TensorFlow 2's strategies refuse a task named master; leave it out, or say strategy: estimator")
    elif "evaluator" in job.roles:
        job.fail("legacy_master", "an Estimator takes no evaluator beside a master (run_config.py); leave out one of the two")


def _check_tf_config(job: JobDraft) -> None:
    if not job.bootstrap and job.tf_config is TFConfigMode.COUNTS:
        job.fail("bootstrap", "without it nobody builds TF_CONFIG in the container; say tf_config: literal or none, or leave bootstrap on")


def _check_bootstrap(job: JobDraft) -> None:
    if job.bootstrap:
        return
    for path, layer in [("", job.layer), *((role.path + ".", role.layer) for role in job.roles.values())]:
        if layer.files:
            job.fail(f"{path}files", "without the bootstrap nobody unpacks files in the container; put them into the image")
    for role in job.roles.values():
        if role.tolerate:
            role.fail(_NO_BOOTSTRAP, "tolerate")
        if role.restart is not None and role.restart[0] is Restart.ON_FAILURE:
            role.fail(_NO_BOOTSTRAP, "restart")
    for key in _WITHOUT_BOOTSTRAP:
        if key in job.stated:
            job.fail(key, _NO_BOOTSTRAP)


def _check_deciding(job: JobDraft, deciding: str | None) -> None:
    stated = job.section.has("deciding_role")
    if deciding is None:
        if not stated and job.strategy is Strategy.CUSTOM and len(job.roles) > 1 and job.roles_read:
            names = ", ".join(job.roles)
            job.fail("deciding_role", f"missing; say which role's end is the job's end, as there is no chief and no worker, but {names}")
        return
    if not stated or not job.roles_read:
        return
    if deciding not in job.roles:
        job.fail("deciding_role", f"the job has no role {clip(deciding)}; its roles are {', '.join(job.roles)}")
    elif why := _never_decides(job, deciding):
        job.fail("deciding_role", why)


def _never_decides(job: JobDraft, deciding: str) -> str | None:
    """Say why a role cannot decide the job, going by who ends under each strategy (measured)."""
    if job.strategy in (None, Strategy.CUSTOM):
        return None
    if deciding == "ps":
        return "a ps never ends by itself; name chief or worker, or leave deciding_role out"
    if job.strategy is Strategy.PARAMETER_SERVER and deciding == "worker":
        return "under strategy parameter-server a worker never ends by itself; name chief, or leave deciding_role out"
    if deciding == "evaluator":
        return "an evaluator does not know how the training ended; name chief or worker, or leave deciding_role out"
    if deciding not in ("chief", "worker"):
        return f"{clip(deciding)} is a sidecar, whose end says nothing about the training; name chief or worker"
    return None


def _check_failures(job: JobDraft, role: RoleDraft, deciding: str | None) -> None:
    restarts = role.restart is not None and role.restart[0] is Restart.ON_FAILURE
    if restarts and (why := _never_restarts(job, role, deciding)):
        role.fail(f"{why}; leave it out, and let the scheduler submit the job again", "restart")
    if role.tolerate:
        for why in _cannot_be_missed(job, role, deciding):
            role.fail(why, "tolerate")
            break


def _never_restarts(job: JobDraft, role: RoleDraft, deciding: str | None) -> str | None:
    if job.strategy is Strategy.MULTI_WORKER and role.name in ("chief", "worker"):
        return _ALL_OR_NOTHING
    if job.strategy in (Strategy.PARAMETER_SERVER, Strategy.ESTIMATOR) and role.name == "ps":
        return _PS_FORGETS
    if role.name == deciding:
        return "the end of the deciding role is the job's end"  # YARN would start it again for ever: ON_FAILURE knows no last time
    return None


def _cannot_be_missed(job: JobDraft, role: RoleDraft, deciding: str | None) -> Iterator[str]:
    if role.name == deciding:
        yield "the deciding role cannot be missed, its end is the job's end; leave tolerate out"
    if role.name == "ps":
        yield "a ps cannot be missed, it holds a part of the variables; leave tolerate out"
    if job.strategy is Strategy.MULTI_WORKER and role.name in ("chief", "worker"):
        yield "no task can be missed, all of them hold every step together (MultiWorkerMirroredStrategy); leave tolerate out"
    if role.instances is not None and role.tolerate is not None and role.tolerate >= role.instances:
        yield f"{role.tolerate} of {role.instances} may fail, so that none need succeed; at most {role.instances - 1}"
