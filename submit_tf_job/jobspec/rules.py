"""Rules about combinations of several keys: what each strategy means for roles, and which
combinations hang or crash.

`RULES` has one row for each strategy.

The rules are measured on small clusters of TensorFlow 2.15.1 (some on 2.21.0, too), or cite its
sources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from submit_tf_job.container import contract
from submit_tf_job.container.installed import LEGACY_KERAS
from submit_tf_job.host.located.tree import Where
from submit_tf_job.host.quoting import clip
from submit_tf_job.jobspec.job import (
    AUTO_PORT,
    SIDECAR_NAMES,
    Ending,
    KerasMode,
    RoleKind,
    Strategy,
    TFConfigMode,
)
from submit_tf_job.jobspec.keys import role_meant
from submit_tf_job.jobspec.roles import Layer, RoleDraft

# MultiWorkerMirroredStrategy: the other workers fail 0.1 to 0.2 s after a worker died, and the
# restarted worker waits indefinitely (measured).
_ALL_OR_NOTHING = "a restarted worker cannot rejoin MultiWorkerMirroredStrategy"
# ParameterServerStrategy: the chief raises UnavailableError 0.1 s after a ps died, even if the ps
# is restarted within 1 s (measured).
_PS_FORGETS = "a restarted ps has lost its variables, and the chief has failed by then"


@dataclass
class JobDraft:
    """A job while it is read; some values may still be wrong or absent.

    Attributes:
        at: The path of the whole job spec.
        values: Fields of `Job`; a wrong value is None, an absent one is omitted.
        roles_read: Whether all roles could be read, so that an absent role is missing.
    """

    at: Where
    layer: Layer
    roles: dict[str, RoleDraft]
    values: dict[str, Any]
    roles_read: bool

    @property
    def strategy(self) -> Strategy | None:
        """The strategy; None if it is absent or invalid."""
        return self.values.get("strategy")

    def fail(self, path: str, message: str) -> None:
        """Report a problem at a path of the job, or at the file if the path is not stated."""
        self.at.fail(message, path)


@dataclass(frozen=True)
class StrategyRules:
    """The rules of a strategy for a job's roles.

    Attributes:
        needs: The roles that the strategy needs, each with the reason.
        refuses: The roles that the strategy cannot have, each with the reason.
        check: Reports other combinations that are not possible; None if there are none.
        kinds: Name of a role → its kind.
        others: The kind of every other role.
        fixed: Whether the kinds of the names in `kinds` are fixed, so that a job spec may not state
            another kind.
        tf_config: The default of `tf_config`.
        ends_with: The default of `ends_with`.
        no_restart: Why no task of a role with this name can be started again.
        all_or_nothing: Why the training fails if a single task of those that train by default is
            lost, so that no such task can be started again; "" if the training can continue.
    """

    needs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    refuses: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    check: Callable[[JobDraft], None] | None = None
    kinds: Mapping[str, RoleKind] = field(default_factory=lambda: MappingProxyType({}))
    others: RoleKind = RoleKind.SIDECAR
    fixed: bool = True
    tf_config: TFConfigMode = TFConfigMode.COUNTS
    ends_with: Ending = Ending.DECIDING_TASK
    no_restart: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    all_or_nothing: str = ""


def default_kind(strategy: Strategy, role: str, deciding: str | None) -> RoleKind:
    """Return the kind of a role if the job spec states none.

    If roles with other names than TensorFlow's train by default, a role is a sidecar if its name,
    or the part of its name after a hyphen, is in `SIDECAR_NAMES` (`tensorboard`,
    `metrics-exporter`).

    Args:
        strategy: The job's strategy.
        role: The role.
        deciding: The deciding role, which trains; None if it is not known.
    """
    rules = RULES[strategy]
    if role == deciding:
        return RoleKind.TRAINS
    if role in rules.kinds:
        return rules.kinds[role]
    if role.rpartition("-")[2] in SIDECAR_NAMES:
        return RoleKind.SIDECAR
    return rules.others


def kind_of(job: JobDraft, role: RoleDraft, deciding: str | None) -> RoleKind:
    """Return the kind of a role: the kind that the job spec states, else the default of the
    strategy; TRAINS if the strategy is not known.

    Args:
        job: The job.
        role: The role.
        deciding: The name of the deciding role; None if it is not known.
    """
    stated: RoleKind | None = role.values.get("kind")
    if stated is not None or job.strategy is None:
        return stated or RoleKind.TRAINS
    return default_kind(job.strategy, role.name, deciding)


def fill_defaults(job: JobDraft) -> None:
    """Set the keys whose default depends on the strategy."""
    for name in ("tf_config", "ends_with"):
        if name not in job.values:
            job.at.notes.default(name)
            if job.strategy is not None:
                job.values[name] = getattr(RULES[job.strategy], name)


def decide(job: JobDraft) -> str | None:
    """Return the role whose task 0 is the deciding task; None if it is not known.

    A stated `deciding_role` counts, which is None if it is invalid. The default is chief, else
    worker, unless its `kind` is not `trains`; else the only role, of whatever kind, or the only
    role that trains; or, if the job ends with all tasks that train, the first role that trains.
    """
    if "deciding_role" in job.values:
        stated: str | None = job.values["deciding_role"]
        return stated
    job.at.notes.default("deciding_role")
    for name in ("chief", "worker"):
        if name in job.roles and job.roles[name].values.get("kind") in (None, RoleKind.TRAINS):
            return name
    roles = list(job.roles.values())
    if len(roles) > 1:
        roles = [role for role in roles if kind_of(job, role, None) is RoleKind.TRAINS]
    if len(roles) == 1 or (roles and job.values.get("ends_with") is Ending.ALL_THAT_TRAIN):
        return roles[0].name
    return None


def takes_job_command(job: JobDraft, role: RoleDraft, deciding: str | None) -> bool:
    """Return whether a role without a command of its own runs the command of the job: the roles
    with names of TensorFlow (chief, worker, ps, evaluator) do, and the roles that train.
    """
    trains = role.name == deciding or kind_of(job, role, deciding) is RoleKind.TRAINS
    return trains or role.is_training


def check_command(job: JobDraft, role: RoleDraft, deciding: str | None) -> None:
    """Report a missing command, for a role that has no command of its own: that of the job if the
    role would run it (`takes_job_command`), else that of the role.
    """
    if takes_job_command(job, role, deciding):
        if "command" not in job.layer.values:
            job.fail("command", "missing; say what the tasks run, e.g. command: python train.py")
    elif job.strategy is not None and not _is_misspelt(job, role):
        why = (
            "missing; a role that does not train runs its own command, e.g. command: "
            "tensorboard --logdir /logs"
        )
        role.at.fail(why, "command")


def check(job: JobDraft, deciding: str | None) -> None:
    """Report each combination of keys that cannot work."""
    _check_role_names(job)
    if job.strategy is not None and job.roles_read:
        _check_roles(job, RULES[job.strategy])
    if job.values.get("network") == "none" and sum(r.instances for r in job.roles.values()) > 1:
        job.fail(
            "network",
            "without a network the tasks cannot find one another; use host, bridge, or the name "
            "of a network",
        )
    for key, rule in _RULES_OF_JOB_KEYS.items():
        if job.values.get(key):
            rule(job)
    if job.roles_read and (why := _cannot_decide(job, deciding)):
        job.fail("deciding_role", why)
    for role in job.roles.values():
        for key, rule_of_role in _RULES_OF_ROLE_KEYS.items():
            if role.values.get(key):
                rule_of_role(job, role, deciding)


def _check_role_names(job: JobDraft) -> None:
    for role in job.roles.values():
        if _is_misspelt(job, role):
            meant = role_meant(role.name)
            role.at.fail(
                f"{clip(role.name)} is not a TensorFlow role, and a sidecar needs a "
                f"command of its own; did you mean '{meant}'?"
            )
        if role.name == contract.WITNESS_ROLE:
            role.at.fail(
                "the name is reserved for the task that tells YARN how a job ended; choose another"
            )
        if role.name in ("chief", "evaluator") and role.instances > 1:
            role.at.fail(
                f"TensorFlow takes at most one {role.name}, not {role.instances}", "instances"
            )


def _is_misspelt(job: JobDraft, role: RoleDraft) -> bool:
    """Return whether a sidecar's name is a misspelling of a training role's name; such a role would
    run without training.
    """
    if job.strategy and RULES[job.strategy].others is RoleKind.TRAINS:
        return False
    own_name = role.is_training or "command" in role.layer.values
    return not own_name and role_meant(role.name) is not None


def _check_kind(job: JobDraft, role: RoleDraft, deciding: str | None) -> None:
    if job.strategy is None:
        return
    stated, rules = role.values["kind"], RULES[job.strategy]
    default = default_kind(job.strategy, role.name, deciding)
    if role.name == deciding and stated is not default:
        role.at.fail(
            f"{clip(role.name)} is the deciding role, which trains; leave kind out, or say "
            f"another deciding_role",
            "kind",
        )
    elif rules.fixed and role.name in rules.kinds and stated is not default:
        role.at.fail(
            f"under strategy {job.strategy.value} the kind of {role.name} is {default.value}; "
            f"leave kind out, or give the role a name of your own",
            "kind",
        )


def _check_roles(job: JobDraft, rules: StrategyRules) -> None:
    for name, why in rules.refuses.items():
        if name in job.roles:
            job.roles[name].at.fail(why)
    # a training role with a misspelt name is reported already
    misspelt = {role_meant(role.name) for role in job.roles.values() if _is_misspelt(job, role)}
    for name, why in rules.needs.items():
        if name not in {*job.roles, *misspelt}:
            job.fail("roles", f"{why}; add {name}: {{memory: 4Gi}}")
    if rules.check is not None:
        rules.check(job)


def _decide_single(job: JobDraft) -> None:
    worker = job.roles.get("worker")
    if worker is None:
        needs = {"chief": "strategy single needs the one task that trains"}
        _check_roles(job, StrategyRules(needs))
    elif "chief" in job.roles:
        worker.at.fail(
            "strategy single has one task; leave out chief or worker, or say strategy: multi-worker"
        )
    elif worker.instances > 1:
        worker.at.fail(
            f"strategy single has one task, not {worker.instances}; say strategy: multi-worker",
            "instances",
        )


def _decide_custom(job: JobDraft) -> None:
    named = {"chief", "worker", "ps"} & set(job.roles)
    if job.values.get("tf_config") is TFConfigMode.COUNTS and not named:
        job.fail(
            "tf_config",
            "there is no chief, worker or ps to stand in TF_CONFIG; leave tf_config out, "
            "or name the roles so",
        )


_TENSORFLOW = {
    "chief": RoleKind.TRAINS,
    "worker": RoleKind.TRAINS,
    "ps": RoleKind.SERVES,
    "evaluator": RoleKind.EVALUATES,
}
_OTHER_STRATEGY = "leave it out, or choose another strategy"
# Roles of any name train, and may say another kind.
_ANY_ROLES = StrategyRules(
    kinds=_TENSORFLOW, others=RoleKind.TRAINS, fixed=False, tf_config=TFConfigMode.NONE
)
RULES = {
    Strategy.SINGLE: StrategyRules(
        refuses={
            name: f"strategy single trains in one task and has no {name}; {_OTHER_STRATEGY}"
            for name in ("ps", "evaluator")
        },
        check=_decide_single,
        kinds=_TENSORFLOW,
    ),
    Strategy.MULTI_WORKER: StrategyRules(
        needs={"worker": "strategy multi-worker needs workers"},
        refuses={
            "ps": "with a ps in the cluster MultiWorkerMirroredStrategy hangs without a message "
            "(TensorFlow 2.15 and 2.21); leave it out, or say strategy: parameter-server"
        },
        kinds=_TENSORFLOW,
        all_or_nothing=_ALL_OR_NOTHING,
    ),
    # The workers join a TensorFlow server and never end by themselves. Without a chief worker 0
    # decides, as in TensorFlow 1's replicated training.
    Strategy.PARAMETER_SERVER: StrategyRules(
        needs={
            name: f"strategy parameter-server needs at least one {name}"
            for name in ("worker", "ps")
        },
        kinds={**_TENSORFLOW, "worker": RoleKind.SERVES},
        no_restart={"ps": _PS_FORGETS},
    ),
    # tensorflow_estimator/python/estimator/run_config.py: "exactly one chief", else ValueError
    Strategy.ESTIMATOR: StrategyRules(
        needs={"chief": "strategy estimator needs exactly one chief"},
        kinds=_TENSORFLOW,
        no_restart={"ps": _PS_FORGETS},
    ),
    Strategy.TORCH: replace(
        _ANY_ROLES,
        refuses={"ps": f"PyTorch's processes are equals, and there is no ps; {_OTHER_STRATEGY}"},
        all_or_nothing="a restarted task cannot rejoin PyTorch's process group",
    ),
    Strategy.JAX: replace(
        _ANY_ROLES,
        refuses={"ps": f"JAX's processes are equals, and there is no ps; {_OTHER_STRATEGY}"},
        all_or_nothing="a restarted task cannot rejoin JAX's coordinator",
    ),
    Strategy.CUSTOM: replace(_ANY_ROLES, check=_decide_custom),
}


def _check_master(job: JobDraft) -> None:
    if job.strategy is None:
        return
    if job.strategy is Strategy.CUSTOM:
        if job.values.get("tf_config") is TFConfigMode.NONE:
            job.fail(
                "legacy_master",
                "under strategy custom there is no TF_CONFIG by itself; say tf_config: counts, "
                "or leave it out",
            )
    elif job.strategy is not Strategy.ESTIMATOR:
        job.fail(
            "legacy_master",
            "TensorFlow 2's strategies refuse a task named master; leave it out, or say "
            "strategy: estimator or custom",
        )
    elif "evaluator" in job.roles:
        job.fail(
            "legacy_master",
            "an Estimator takes no evaluator beside a master (run_config.py); leave out "
            "one of the two",
        )


def _check_ports(_job: JobDraft, role: RoleDraft, _deciding: str | None) -> None:
    """Refuse the same port under two names."""
    seen: set[int] = set()
    for name, number in role.values["ports"].items():
        if number in seen:
            message = f"port {number} has a name already; one port has one name"
            role.at.fail(message, f"ports.{name}")
        seen |= {number} - {AUTO_PORT}


def _check_keras(job: JobDraft) -> None:
    """Refuse a variable that contradicts `keras: legacy`."""
    if job.values.get("keras") is not KerasMode.LEGACY:
        return
    levels: list[JobDraft | RoleDraft] = [job, *job.roles.values()]
    for level in levels:
        if level.layer.mapping("env").get(LEGACY_KERAS, "1") != "1":
            why = 'keras: legacy sets it to "1"; leave one of the two out'
            level.at.fail(why, f"env.{LEGACY_KERAS}")


def _check_retries(job: JobDraft) -> None:
    if job.values.get("network") == "none":
        job.fail("retries", "without a network a lost task is not missed; use host or bridge")


def _check_elastic(job: JobDraft, role: RoleDraft, deciding: str | None) -> None:
    """Report an elastic role that cannot run with fewer tasks, or that also states `tolerate`."""
    if why := _elastic_refusal(job, role, deciding):
        role.at.fail(f"{why} say one number", "instances")
    elif role.values.get("tolerate"):
        role.at.fail(
            "an elastic role goes on without its lost tasks, and takes them back; leave tolerate "
            "out, or say one number of instances",
            "tolerate",
        )


def _elastic_refusal(job: JobDraft, role: RoleDraft, deciding: str | None) -> str | None:
    kind, retries = kind_of(job, role, deciding), job.values.get("retries")
    if kind not in (RoleKind.TRAINS, RoleKind.SERVES) or role.name == "ps":
        what = "holds a part of the variables" if role.name == "ps" else f"is of kind {kind.value}"
        return f"only roles that train together can be elastic, and {clip(role.name)} {what};"
    if job.strategy is Strategy.SINGLE:
        return "strategy single has one task;"
    if not retries:
        return (
            "a change of the number starts all tasks again, as `retries` of the job does; add "
            "retries: 3, or"
        )
    if not {"lost", "any"} & set(retries.on):
        return "an elastic role goes on without its lost tasks; add lost to `on` of retries, or"
    return None


def _cannot_decide(job: JobDraft, deciding: str | None) -> str | None:
    """Return the problem with `deciding_role`: it is missing and needed, is not a role of the job,
    or its end says nothing about the job's end under the job's strategy; None if there is none.

    `deciding` is the name of the role that would decide; None if there is none.
    """
    fixed = job.strategy is None or RULES[job.strategy].fixed
    names = ", ".join(job.roles)
    if "deciding_role" not in job.values:
        if deciding is not None or fixed or len(job.roles) == 1:
            return None
        return (
            f"missing; say which role's end is the job's end, as there is no chief and no worker, "
            f"but {names}; or say ends_with: all-that-train"
        )
    if deciding is not None and deciding not in job.roles:
        return f"the job has no role {clip(deciding)}; its roles are {names}"
    if deciding is None or job.strategy is None or not fixed:
        return None
    if deciding == "ps":
        return "a ps never ends by itself; name chief or worker, or leave deciding_role out"
    if job.strategy is Strategy.PARAMETER_SERVER and deciding == "worker" and "chief" in job.roles:
        return (
            "under strategy parameter-server a worker never ends by itself; name chief, or "
            "leave deciding_role out"
        )
    if deciding == "evaluator":
        return (
            "an evaluator does not know how the training ended; name chief or worker, or "
            "leave deciding_role out"
        )
    if deciding not in ("chief", "worker"):
        return (
            f"{clip(deciding)} is a sidecar, whose end says nothing about the training; name "
            f"chief or worker"
        )
    return None


def _check_after(job: JobDraft, role: RoleDraft, deciding: str | None) -> None:
    if not job.roles_read:
        return
    unknown = [name for name in role.values["after"] if name not in job.roles]
    if unknown:
        names = ", ".join(job.roles)
        role.at.fail(f"the job has no role {clip(unknown[0])}; its roles are {names}", "after")
    elif role.name in _roles_before(job, role.name):
        role.at.fail(f"{role.name} would wait for itself; leave one of the roles out", "after")
    elif job.strategy and RULES[job.strategy].fixed and role.name in RULES[job.strategy].kinds:
        role.at.fail(
            f"under strategy {job.strategy.value} the tasks of {role.name} wait for the others, "
            f"which wait for them; leave after out",
            "after",
        )
    elif job.strategy and (peer := _peer_before(job, job.strategy, role, deciding)):
        role.at.fail(
            f"under strategy {job.strategy.value} {peer} waits for the tasks of {role.name} when "
            f"it starts; leave it out",
            "after",
        )


def _peer_before(
    job: JobDraft, strategy: Strategy, role: RoleDraft, deciding: str | None
) -> str | None:
    """Return a role that comes before a role, although the processes of both meet when they start;
    None if there is none.
    """

    def meets(one: RoleDraft) -> bool:
        kind = one.values.get("kind")
        return bool(_all_or_nothing(strategy, one.name, deciding, kind))

    if not meets(role):
        return None
    before = _roles_before(job, role.name)  # and names of no role, which are reported there
    return next((name for name, one in job.roles.items() if name in before and meets(one)), None)


def _roles_before(job: JobDraft, name: str) -> set[str]:
    """Return all roles that come before a role (`after`), directly or through other roles."""
    found: set[str] = set()
    left = [name]
    while left:
        role = job.roles.get(left.pop())
        for other in (role and role.values.get("after")) or ():
            if other not in found:
                found.add(other)
                left.append(other)
    return found


def _check_restart(job: JobDraft, role: RoleDraft, deciding: str | None) -> None:
    kind = kind_of(job, role, deciding)
    if role.restarts and job.values.get("retries") and kind is not RoleKind.SIDECAR:
        role.at.fail(
            "`retries` of the job starts all tasks again; leave one of the two out", "restart"
        )
    if role.restarts and (why := restart_refusal(job.strategy, role.name, deciding, kind)):
        role.at.fail(f"{why}; remove `restart` and retry the whole job", "restart")


def _check_tolerate(job: JobDraft, role: RoleDraft, deciding: str | None) -> None:
    if why := _tolerate_refusal(job, role, deciding, kind_of(job, role, deciding)):
        role.at.fail(why, "tolerate")


# Key of a job or a role → the rule that joins it with others, evaluated where the key has a value.
_RULES_OF_JOB_KEYS: Mapping[str, Callable[[JobDraft], None]] = {
    "legacy_master": _check_master,
    "keras": _check_keras,
    "retries": _check_retries,
}
_RULES_OF_ROLE_KEYS: Mapping[str, Callable[[JobDraft, RoleDraft, str | None], None]] = {
    "kind": _check_kind,
    "ports": _check_ports,
    "restart": _check_restart,
    "tolerate": _check_tolerate,
    "elastic": _check_elastic,
    "after": _check_after,
}


def restart_refusal(
    strategy: Strategy | None, role: str, deciding: str | None, kind: RoleKind | None = None
) -> str | None:
    """Return why `restart` cannot be set for a role; None if it can.

    Args:
        strategy: The job's strategy; None if it is not known.
        role: The role.
        deciding: The deciding role; None if it is not known.
        kind: The role's kind; None for the default kind.
    """
    if strategy and (why := _all_or_nothing(strategy, role, deciding, kind)):
        return why
    if strategy and role in RULES[strategy].no_restart:
        return RULES[strategy].no_restart[role]
    if role == deciding:
        # YARN would restart it indefinitely: ON_FAILURE has no limit
        return "the end of the deciding role is the job's end"
    return None


def _all_or_nothing(
    strategy: Strategy, role: str, deciding: str | None, kind: RoleKind | None
) -> str:
    """Return why the training needs every task of a role; "" if it can continue without some of
    them.
    """
    default = default_kind(strategy, role, deciding)
    trains = default is RoleKind.TRAINS and kind in (None, RoleKind.TRAINS)
    return RULES[strategy].all_or_nothing if trains else ""


def _tolerate_refusal(
    job: JobDraft, role: RoleDraft, deciding: str | None, kind: RoleKind
) -> str | None:
    if role.name == deciding:
        return "tolerate is not allowed for the deciding role: the job ends when it ends"
    if role.name == "ps":
        return "tolerate is not allowed for a ps: it holds a part of the variables"
    if job.strategy and _all_or_nothing(job.strategy, role.name, deciding, kind):
        return (
            "no task can be missed, all of them hold every step together "
            f"(strategy {job.strategy.value}); leave tolerate out"
        )
    instances, tolerated = role.values.get("instances", 1), role.values["tolerate"]
    if instances is not None and tolerated >= instances:
        return (
            f"{tolerated} tolerated failures of {instances} tasks leave none that must succeed; "
            f"use at most {instances - 1}"
        )
    return None
