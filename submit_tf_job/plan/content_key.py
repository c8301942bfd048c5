"""The key of a submission without an id of its own: a hash of the job and of its files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from pathlib import Path

from submit_tf_job.jobspec.job import Job

__all__ = ["content_key"]


def content_key(job: Job) -> str:
    """Return 16 hexadecimal digits that are the same for the same job with the same files.

    Only what differs from the defaults counts, so that a new version of this program, which knows
    more keys, finds what an older one submitted. Files count by their content, not by their path.
    """
    text = json.dumps(_normal(job), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _normal(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        found = {
            one.name: getattr(value, one.name)
            for one in fields(value)
            if one.compare and not _is_default(one, getattr(value, one.name))
        }
        return {name: _normal(one) for name, one in found.items()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _normal(one) for key, one in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    if isinstance(value, (tuple, list)):
        return [_normal(one) for one in value]
    return value


def _is_default(one: Field[object], value: object) -> bool:
    if one.default_factory is not MISSING:
        return bool(value == one.default_factory())
    return one.default is not MISSING and bool(value == one.default)
