"""What each caller may do: a file with rules for each caller.

    "*": {jobs: 4, gpus: 8, queues: [ml], registries: [registry.example.com/ml]}
    alice: {gpus: 32}
    dashboard: {role: read}
    contractor: {expires: 2026-12-31}

The rules of "*" apply to every caller; a rule of a caller replaces the rule of "*" with the same
name. Jobs and GPUs are counted on the cluster, so gateways need no common state, and jobs that were
not submitted through a gateway count, too.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from submit_tf_job.errors import SettingsError
from submit_tf_job.gateway.callers import ReloadedFile
from submit_tf_job.gateway.problems import RequestRefused
from submit_tf_job.host.located.text_source import read_mapping
from submit_tf_job.host.located.tree import Location, Unreadable
from submit_tf_job.sdk.client import Client, JobState
from submit_tf_job.settings import USER_NAME

if TYPE_CHECKING:
    from submit_tf_job.sdk.client import Job, ListedJob, Plan

_EVERYBODY = "*"
_NO_IMAGE = "none"  # as in a job spec
_ALIVE = (JobState.PENDING, JobState.RUNNING)
_RETRY_AFTER_S = 60  # a job ends, or it does not


@dataclass(frozen=True)
class CallerRules:
    """The rules of one caller; None stands for no limit.

    Attributes:
        jobs: Jobs that wait or run at the same time.
        gpus: GPUs of all these jobs together.
        queues: The queues that jobs may use.
        registries: Registries, or repositories in them, from which images may come; `none` allows
            jobs without an image.
        role: `submit`, or `read` for requests that change nothing.
        expires: The last day, in UTC, on which the caller is served.
    """

    jobs: int | None = None
    gpus: int | None = None
    queues: tuple[str, ...] | None = None
    registries: tuple[str, ...] | None = None
    role: str = "submit"
    expires: date | None = None

    def check_request(self, caller: str, *, changes: bool) -> None:
        """Refuse a request that the caller's `expires` or `role` does not allow.

        Raises:
            RequestRefused: The error's details contain the rule.
        """
        if self.expires is not None and datetime.now(timezone.utc).date() > self.expires:
            _refuse_by_policy("expires", f"{caller} was a caller until {self.expires}")
        if self.role == "read" and changes:
            _refuse_by_policy(
                "role", f"{caller} may read, and neither submit, stop nor delete jobs"
            )

    def check_job(self, job: Job) -> None:
        """Refuse a job that the caller's `queues`, `registries` or `gpus` does not allow, without a
        request to the cluster.

        Raises:
            RequestRefused: The error's details contain the rule.
        """
        queue = job.queue or "default"
        if self.queues is not None and not _is_among(queue, self.queues):
            _refuse_by_policy("queues", f"queue {queue} is not one of {_listed_names(self.queues)}")
        for role in job.roles.values():
            if self.registries is not None and not _is_from(role.image, self.registries):
                image = role.image if role.image == _NO_IMAGE else _full_name(role.image)
                _refuse_by_policy(
                    "registries",
                    f"the image of role {role.name}, {image}, is not from "
                    f"{_listed_names(self.registries)}",
                )
        if self.gpus is not None and _gpus_of(job) > self.gpus:
            _refuse_by_policy(
                "gpus", f"the job asks for {_gpus_of(job)} GPUs; your limit is {self.gpus}"
            )

    def check_cluster(self, client: Client, planned: Plan) -> None:
        """Refuse a job that the caller's `jobs` or `gpus` does not allow, given the caller's other
        waiting and running jobs on the cluster.

        Nothing is refused here if a run of the same job is alive: either it is the run of this
        submission, or this submission will be refused because of it. The same is true if the
        submission has an idempotency key whose run exists: that run is returned.

        Raises:
            RequestRefused: The error's details contain the rule.
        """
        job, gpus = planned.job, _gpus_of(planned.job)
        if self.jobs is None and (self.gpus is None or not gpus):
            return
        found = client.jobs(states=_ALIVE)
        alive = [one for one in found if one.name != job.name]
        # a submission that had its run, which is over, gets it again
        if len(alive) != len(found) or (planned.given_key and client.has_run(planned)):
            return
        if self.jobs is not None and len(alive) >= self.jobs:
            many = f"{len(alive)} {'job' if len(alive) == 1 else 'jobs'}"
            _refuse_by_quota(
                "jobs", f"you have {many} waiting or running; your limit is {self.jobs}"
            )
        if self.gpus is not None and gpus:
            held = sum(_held_gpus(client, one) for one in alive)
            if held + gpus > self.gpus:
                has = f"your waiting and running jobs have {held} GPUs"
                _refuse_by_quota(
                    "gpus", f"{has}, this one asks for {gpus}; your limit is {self.gpus}"
                )


def _refuse_by_policy(rule: str, message: str) -> NoReturn:
    hint = "the gateway's operator sets these rules"
    raise RequestRefused("policy", f"{rule}: {message}", hint=hint, details={"rule": rule})


def _refuse_by_quota(rule: str, message: str) -> NoReturn:
    raise RequestRefused(
        "quota",
        f"{rule}: {message}",
        hint="wait until one is over, or stop one",
        details={"rule": rule},
        headers={"Retry-After": str(_RETRY_AFTER_S)},
    )


def _listed_names(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "those allowed: none is"


def _is_among(queue: str, allowed: tuple[str, ...]) -> bool:
    return queue.removeprefix("root.") in {name.removeprefix("root.") for name in allowed}


def _full_name(image: str) -> str:
    """Return an image's name with its registry; if the name states no registry, this is Docker
    Hub.
    """
    first, slash, _ = image.partition("/")
    if slash and (re.search("[.:]", first) or first == "localhost"):
        return image
    return f"docker.io/{image if slash else f'library/{image}'}"


def _is_from(image: str, allowed: tuple[str, ...]) -> bool:
    if image == _NO_IMAGE:
        return _NO_IMAGE in allowed
    name = _full_name(image)
    return any(_is_below(name, part.rstrip("/")) for part in allowed)


def _is_below(image: str, part: str) -> bool:
    """Return whether an image, named in full, is in `part`: a registry (a host, with its port) or a
    repository.
    """
    if not image.startswith(part) or {"", ".", ".."} & {*image.split("/")}:
        return False
    rest = image[len(part) :]
    # behind a host alone, `:` begins its port, which makes it another registry
    return not rest or rest[0] in ("/:@" if "/" in part else "/")


def _gpus_of(job: Job) -> int:
    return sum(role.instances * role.gpus for role in job.roles.values())


def _held_gpus(client: Client, job: ListedJob) -> int:
    """Return the number of GPUs that a waiting or running job asks for.

    Raises:
        RequestRefused: The number is not known yet.
    """
    held = client.gpus(job.run)
    if held is None:
        _refuse_by_quota("gpus", f"the GPUs of {job.name} cannot be counted before it runs")
    return held


@dataclass
class Policy:
    """The rules of all callers; without a file, none.

    Attributes:
        file: Returns the rules by the caller's name, and those of all other callers as "*"; reads
            the file again when it has changed.
    """

    file: Callable[[], Mapping[str, CallerRules]] = dict
    _turns: defaultdict[str, threading.Lock] = field(
        default_factory=lambda: defaultdict(threading.Lock)
    )

    @classmethod
    def of(cls, path: Path) -> Policy:
        """Return the policy that a file contains.

        Raises:
            SettingsError: The file cannot be read, other users can change it, or it is not valid.
        """
        return cls(ReloadedFile(path, "the policy", lambda text: _parse_rules(path, text)).read)

    def rules(self, caller: str) -> CallerRules:
        """Return the rules of a caller; those of "*" for a caller without own rules, and no limits
        if there are none.

        Raises:
            SettingsError: The file can no longer be read, or is no longer valid.
        """
        found = self.file()
        return found.get(caller) or found.get(_EVERYBODY) or CallerRules()

    @contextmanager
    def admitted(self, client: Client, planned: Plan) -> Iterator[None]:
        """Check a job by the rules of the client's user, then run the block, which submits it. If
        the caller's jobs are counted, submissions of the same caller run one after another.

        Raises:
            RequestRefused: A rule does not allow the job.
            SubmitTFJobError: The policy's file cannot be read, or the caller's jobs cannot be
                counted.
        """
        rules = self.rules(client.settings.user)
        rules.check_job(planned.job)
        if rules.jobs is None and rules.gpus is None:
            yield
            return
        with self._turns[client.settings.user]:
            rules.check_cluster(client, planned)
            yield


# --- the file ---


def _parse_rules(path: Path, text: str) -> dict[str, CallerRules]:
    try:
        content, places = read_mapping(text, str(path))
    except Unreadable as problem:
        raise SettingsError(f"{problem.place}: {problem}") from None

    def fail(where: str, message: str) -> NoReturn:
        raise SettingsError(f"{places.get(where, Location(str(path), 1, 1))}: {where}: {message}")

    rules: dict[str, dict[str, Any]] = {}
    for caller, given in content.items():
        if caller != _EVERYBODY and not re.fullmatch(USER_NAME, str(caller)):
            fail(str(caller), 'not a user name, and not "*"')
        if not isinstance(given, dict):
            fail(caller, "rules are a mapping, such as {jobs: 4}")
        for name, value in given.items():
            where = f"{caller}.{name}"
            if name not in _KINDS:
                fail(where, f"not a rule; the rules are {', '.join(_KINDS)}")
            what, read = _KINDS[name]
            try:
                rules.setdefault(caller, {})[name] = read(value)
            except ValueError:
                fail(where, f"expected {what}")
    common = rules.get(_EVERYBODY, {})
    return {caller: CallerRules(**{**common, **own}) for caller, own in rules.items()}


def _whole_or_none(value: object) -> int | None:
    if value is None or (type(value) is int and value >= 0):
        return value
    raise ValueError


def _names_or_none(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, list) and all(isinstance(item, str) and item for item in value):
        return tuple(value)
    raise ValueError


def _role_text(value: object) -> str:
    if value in ("submit", "read"):
        return str(value)
    raise ValueError


def _day_or_none(value: object) -> date | None:
    return None if value is None else date.fromisoformat(str(value))


_KINDS: dict[str, tuple[str, Callable[[object], Any]]] = {
    "jobs": ("a number of jobs, or null for no limit", _whole_or_none),
    "gpus": ("a number of GPUs, or null for no limit", _whole_or_none),
    "queues": ("a list of queues, or null for all", _names_or_none),
    "registries": (
        "a list such as [registry.example.com/ml, none], or null for all",
        _names_or_none,
    ),
    "role": ("submit or read", _role_text),
    "expires": ("the last day, such as 2026-12-31, or null", _day_or_none),
}
