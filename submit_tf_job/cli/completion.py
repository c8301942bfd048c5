"""Completion: the options --install-completion and --show-completion, and the values themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from submit_tf_job.cli.context import Context, guard, requested_output
from submit_tf_job.cli.manual import topics
from submit_tf_job.errors import SettingsError, UsageError
from submit_tf_job.host.inputfile import reason
from submit_tf_job.settings import AUTH_METHODS, directories, known_profiles

if TYPE_CHECKING:
    from submit_tf_job.operations.cluster import Cluster

SHELLS = ("bash", "zsh", "fish")
_NAME, _VARIABLE = "submit_tf_job", "_SUBMIT_TF_JOB_COMPLETE"


def run(arguments: Sequence[str]) -> int:
    """Install or print the completion script of one shell, and return the exit status."""
    context = Context(output=requested_output(arguments))
    return guard(
        context,
        lambda: _run(arguments[0], [word for word in arguments[1:] if not word.startswith("-")]),
    )


def _run(option: str, words: list[str]) -> None:
    scripts = import_module("typer.completion")
    shell = words[0] if words else _running_shell()
    if shell not in SHELLS:
        raise UsageError(
            f"{option} takes {', '.join(SHELLS)}, not {shell!r}",
            hint=f"submit_tf_job {option} bash",
        )
    if option == "--show-completion":
        print(scripts.get_completion_script(prog_name=_NAME, complete_var=_VARIABLE, shell=shell))
        return
    directories()  # raises an error if HOME is a file
    try:
        _, path = scripts.install(shell=shell, prog_name=_NAME, complete_var=_VARIABLE)
    except OSError as error:
        raise SettingsError(
            f"the completion cannot be installed: {error.filename}: {reason(error)}"
        ) from None
    print(f"{shell} completion installed in {path}; it works in new shells")


def _running_shell() -> str:
    shellingham = import_module("shellingham")  # a dependency of typer
    try:
        return str(shellingham.detect_shell()[0])
    except shellingham.ShellDetectionFailure:
        raise UsageError(
            "the running shell cannot be determined", hint="submit_tf_job --install-completion bash"
        ) from None


# --- values ---------------------------------------------------------------------------------------

ANSWER_S = 0.8  # time limit for the cluster: the user waits at the prompt
_JOBS = 200


def values(kind: str, params: Mapping[str, Any], incomplete: str) -> list[str]:
    """Return the values of one kind that start with `incomplete`; [] if they cannot be determined.

    Args:
        kind: A key of `_SOURCES`.
        params: The options and arguments before it, by name.
        incomplete: The text that the user has typed.
    """
    from threading import Thread

    found: list[str] = []

    def collect() -> None:
        # an error message would appear inside the user's command line
        with suppress(Exception):
            found.extend(
                dict.fromkeys(
                    value for value in _SOURCES[kind](params) if value.startswith(incomplete)
                )
            )

    # a KDC, a proxy or a name server may not respond either
    thread = Thread(target=collect, daemon=True)
    thread.start()
    thread.join(ANSWER_S + 0.2)
    return list(found)


def _cluster(params: Mapping[str, Any]) -> Cluster:
    from submit_tf_job.operations.cluster import connect

    context = Context(params.get("profile"), params.get("rm"))
    context.user, context.auth, context.as_user = map(params.get, ("user", "auth", "as_user"))
    settings = context.settings()
    if settings.credentials.command is not None:
        raise PermissionError("a command that may ask for a password is not run for a completion")
    timeouts = replace(settings.timeouts, connect_s=ANSWER_S, read_s=ANSWER_S, failover_s=ANSWER_S)
    return connect(replace(settings, timeouts=timeouts))


def _jobs(params: Mapping[str, Any]) -> Iterable[str]:
    from submit_tf_job.operations.listing import JobSelection, list_jobs

    cluster = _cluster(params)
    listed = list_jobs(
        cluster, JobSelection(user=cluster.settings.user, limit=_JOBS), answer_s=ANSWER_S
    )
    return [job.name for job in listed if job.name]


def _components(params: Mapping[str, Any]) -> Mapping[str, int]:
    from submit_tf_job.operations.runs import find

    cluster = _cluster(params)
    service = cluster.client.get_service(find(cluster, str(params["job"])).run)
    return {component.name: component.number_of_containers or 0 for component in service.components}


def _tasks_of(components: Mapping[str, int]) -> Iterator[str]:
    for role, count in components.items():
        yield from (f"{role}-{index}" for index in range(count))


def _roles_and_tasks(params: Mapping[str, Any]) -> Iterable[str]:
    found = _components(params)
    return [*found, *_tasks_of(found), "am"]


def _scalable(params: Mapping[str, Any]) -> Iterable[str]:
    from submit_tf_job.jobspec.job import TRAINING_ROLES

    return [f"{role}=" for role in _components(params) if role not in TRAINING_ROLES]


def _states(_params: Mapping[str, Any]) -> Iterable[str]:
    from submit_tf_job.operations.listing import LISTED_STATES

    return [*(state.value.lower() for state in LISTED_STATES), "active"]


def _strategies(_params: Mapping[str, Any]) -> Iterable[str]:
    from submit_tf_job.jobspec.job import Strategy

    return [strategy.value for strategy in Strategy]


_SOURCES: Mapping[str, Callable[[Mapping[str, Any]], Iterable[str]]] = {
    "auth": lambda _params: AUTH_METHODS,
    "for": lambda _params: ("ready", "done"),
    "job": _jobs,
    "output": lambda _params: ("text", "json"),
    "profile": lambda _params: known_profiles(),
    "role-or-task": _roles_and_tasks,
    "role=": _scalable,
    "role": _components,
    "state": _states,
    "strategy": _strategies,
    "task": lambda params: _tasks_of(_components(params)),
    "topic": lambda _params: topics(),
}
