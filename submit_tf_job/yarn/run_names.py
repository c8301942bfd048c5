"""The names of runs: a run is one execution of one submission, and a YARN service of its own.

YARN keeps everything of a service by its name: one stored definition, one registry path, one set of
DNS names. What ends or is removed with one run must not affect another run, so each run has a name
of its own: `digits-4k3f7qa2` is a run of the job `digits`. The suffix is a hash of user, job,
idempotency key and number: submissions with the same key are the same submission, and the number
counts how often that key has been run. So every client computes the same name for the same
submission, without a request.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from submit_tf_job.jobspec.job import Job

SUFFIX = len("-4k3f7qa2")
# The digit tells a run from a job's own name that ends in a word, such as `mnist-evaluate`.
_RUN = re.compile(r"(?P<head>[a-z][a-z0-9-]*)-[0-9][a-z2-7]{7}")
_SHORT = 5  # characters of a job's name that a shortened one keeps


def run_name(job: str, user: str, key: str, number: int, *, name_limit: int = 63) -> str:
    """Return the name of one run.

    Args:
        job: The job's name.
        user: The user who submits the job.
        key: The idempotency key: two submissions with the same key are the same submission.
        number: How often a run with that key was started before.
        name_limit: The largest number of characters that the name may have.
    """
    digest = hashlib.sha256(f"{user}\n{job}\n{key}\n{number}".encode()).digest()
    letters = base64.b32encode(digest[1:6])[:7].decode().lower()
    return f"{head_of(job, name_limit)}-{digest[0] % 10}{letters}"


def head_of(job: str, name_limit: int) -> str:
    """Return the readable part (head) of a run's name: the job's name, shortened if there is not
    enough room for it.
    """
    return job if len(job) + SUFFIX <= name_limit else short_head(job)


def short_head(job: str) -> str:
    """Return the short form of a job's name: its beginning, and a hash of the whole name.

    The short form depends only on the job's name, so the runs of a job can be found without knowing
    its roles.
    """
    letters = base64.b32encode(hashlib.sha256(job.encode()).digest()).decode().lower()[:3]
    return f"{job[:_SHORT].rstrip('-')}{letters}"


def may_be_short(head: str) -> bool:
    """Return whether the readable part of a run's name may be a short form."""
    return re.fullmatch(r"[a-z][a-z0-9-]{0,4}[a-z2-7]{3}", head) is not None


def is_run(service: str) -> bool:
    """Return whether the name of a service is the name of a run."""
    return _RUN.fullmatch(service) is not None


def job_of(service: str) -> str:
    """Return the name of a run's job, or its short form if the run's name has that (`short_head`);
    for a service of another tool, return the service's name.
    """
    found = _RUN.fullmatch(service)
    return found["head"] if found else service


def is_run_of(service: str | None, job: str) -> bool:
    """Return whether a service is a run of a job, or a service of another tool with the job's
    name.
    """
    found = _RUN.fullmatch(service or "")
    return service == job or (found is not None and found["head"] in (job, short_head(job)))


def means_run(name: str, service: str | None) -> bool:
    """Return whether `name`, which a user has given for a job or a run, refers to the run
    `service`.
    """
    return service == name or (not is_run(name) and is_run_of(service, name))


class Again(str, Enum):
    """Whether a submission whose idempotency key has a run that has ended starts another run."""

    ALWAYS = "always"
    AFTER_FAILURE = "after-failure"  # a run that succeeded is reported
    NEVER = "never"  # its run is reported, however it ended


def host_name(role: str, index: int, service: str, user: str, domain: str | None) -> str:
    """Return the host name that Registry DNS gives a component instance.

    The host name is in lower case (BaseServiceRecordProcessor).
    """
    name = f"{role}-{index}.{service}.{user}"
    return (f"{name}.{domain}" if domain else name).lower()


def registry_user(user: str) -> str:
    """Map a user name as Hadoop's registry does (RegistryUtils.registryUser).

    Realm and host are removed, letters become lower case, and `_` becomes `-`.
    """
    return user.split("@")[0].split("/")[0].lower().replace("_", "-")


# --- the key of a submission without an id of its own ---------------------------------------------


def content_key(job: Job) -> str:
    """Return a hash of a job and its files, 16 hexadecimal digits. It is the idempotency key of a
    submission without an id of its own.

    Only values that differ from the defaults count, so that a new version of this program, which
    knows more keys, finds what an older version has submitted. Files count by their content, not by
    their path.
    """
    text = json.dumps(_normal_form(job), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _normal_form(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return {
            one.name: _normal_form(getattr(value, one.name))
            for one in fields(value)
            if one.compare and not _is_default(one, getattr(value, one.name))
        }
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _normal_form(one) for key, one in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    if isinstance(value, (tuple, list)):
        return [_normal_form(one) for one in value]
    return value


def _is_default(one: Field[object], value: object) -> bool:
    if one.default_factory is not MISSING:
        return bool(value == one.default_factory())
    return one.default is not MISSING and bool(value == one.default)
