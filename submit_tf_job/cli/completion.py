"""Completion: the values that a shell offers for an argument or option."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from submit_tf_job.cli.pages import topics
from submit_tf_job.settings import AUTH_METHODS, Settings, known_profiles

if TYPE_CHECKING:
    from submit_tf_job.operations.cluster import Cluster
    from submit_tf_job.yarn.observed import ObservedService

ANSWER_S = 0.8  # time limit for the cluster: the user waits at the prompt
_JOBS = 200


@dataclass(frozen=True)
class _CommandLine:
    """The words that come before the value that is being completed.

    Attributes:
        params: The options and arguments, by name.
        settings: Reads the settings, with the options of this command line applied.
    """

    params: Mapping[str, Any]
    settings: Callable[[], Settings]


def values(
    kind: str, params: Mapping[str, Any], incomplete: str, settings: Callable[[], Settings]
) -> list[str]:
    """Return the values of one kind that start with `incomplete`; [] if they cannot be determined.

    Args:
        kind: A key of `_SOURCES`.
        params: The options and arguments before it, by name.
        incomplete: The text that the user has typed.
        settings: Reads the settings, with these options applied.
    """
    from threading import Thread

    line, found = _CommandLine(params, settings), list[str]()

    def collect() -> None:
        # an error message would appear inside the user's command line
        with suppress(Exception):
            found.extend(
                dict.fromkeys(
                    value for value in _SOURCES[kind](line) if value.startswith(incomplete)
                )
            )

    # a KDC, a proxy or a name server may not respond either
    thread = Thread(target=collect, daemon=True)
    thread.start()
    thread.join(ANSWER_S + 0.2)
    return list(found)


def _connect_briefly(line: _CommandLine) -> Cluster:
    from submit_tf_job.operations.cluster import connect

    settings = line.settings()
    if settings.credentials.command is not None:
        raise PermissionError("a command that may ask for a password is not run for a completion")
    timeouts = replace(settings.timeouts, connect_s=ANSWER_S, read_s=ANSWER_S, failover_s=ANSWER_S)
    return connect(replace(settings, timeouts=timeouts))


def _names_of_jobs(line: _CommandLine) -> Iterable[str]:
    from submit_tf_job.operations.listing import JobSelection, list_jobs

    cluster = _connect_briefly(line)
    listed = list_jobs(
        cluster, JobSelection(user=cluster.settings.user, limit=_JOBS), answer_s=ANSWER_S
    )
    return [job.name for job in listed if job.name]


def _service_of_job(line: _CommandLine) -> ObservedService:
    from submit_tf_job.operations.runs import find

    cluster = _connect_briefly(line)
    return cluster.client.get_service(find(cluster, str(line.params["job"])).run)


def _instances_by_role(line: _CommandLine) -> Mapping[str, int]:
    components = _service_of_job(line).components
    return {component.name: component.number_of_containers or 0 for component in components}


def _tasks_of(components: Mapping[str, int]) -> Iterator[str]:
    for role, count in components.items():
        yield from (f"{role}-{index}" for index in range(count))


def _roles_and_tasks(line: _CommandLine) -> Iterable[str]:
    found = _instances_by_role(line)
    return [*found, *_tasks_of(found), "am"]


def _scalable_roles(line: _CommandLine) -> Iterable[str]:
    from submit_tf_job.operations.change import scalable_roles

    return [f"{role}=" for role in scalable_roles(_service_of_job(line))]


def _job_states(_line: _CommandLine) -> Iterable[str]:
    from submit_tf_job.operations.listing import LISTED_STATES

    return [*(state.value.lower() for state in LISTED_STATES), "active"]


def _strategy_names(_line: _CommandLine) -> Iterable[str]:
    from submit_tf_job.jobspec.job import Strategy

    return [strategy.value for strategy in Strategy]


_SOURCES: Mapping[str, Callable[[_CommandLine], Iterable[str]]] = {
    "auth": lambda _line: AUTH_METHODS,
    "for": lambda _line: ("ready", "done"),
    "job": _names_of_jobs,
    "output": lambda _line: ("text", "json"),
    "output-csv": lambda _line: ("text", "json", "csv"),
    "profile": lambda _line: known_profiles(),
    "role-or-task": _roles_and_tasks,
    "role=": _scalable_roles,
    "role": _instances_by_role,
    "state": _job_states,
    "strategy": _strategy_names,
    "task": lambda line: _tasks_of(_instances_by_role(line)),
    "topic": lambda _line: topics(),
}
