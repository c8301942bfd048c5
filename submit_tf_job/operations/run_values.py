"""What a run was given, as its record keeps it: the keys of its job spec, and for each role the
command, variables, files, packages and image. Pure functions of a job, or of a job spec's text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from submit_tf_job.errors import SubmitTFJobError
from submit_tf_job.host.units import memory_text

if TYPE_CHECKING:
    from submit_tf_job.jobspec.job import Job, Role

HASH_DIGITS = 12
_MOST_BYTES = 256 * 1024
_PROGRAMS, _PROGRAM_BYTES = (".py", ".sh"), 16 * 1024  # of all programs of a run together
_MOST_FILES = 1000  # of a role; of more, the directories at the top are told
_OF_ROLES = ("command", "variables", "files", "packages", "image")
# fields that are no key, or are kept beside the keys
_NO_KEYS = {"name", "places", "remarks", "given", "docker_client_config", "legacy_master"}
_NO_KEYS |= {"roles", "deciding_role", "ends_with", "hadoop", "python", "packages", "kind"}
_NO_KEYS |= {"command", "env", "files", "remote_files", "image"}
_OTHER_NAMES = {"partition": "node_label"}


def values_of_job(job: Job) -> dict[str, Any] | None:
    """Return what a run's record keeps of a job; None if it is too large for a record.

    Keys of the job spec that have their default value are left out, so that keys which a later
    version adds do not count as a difference.
    """
    keys, programs = dict(_keys_of(job, "")), dict(_small_programs(job))
    if job.hadoop:
        of_files = {file.name: file.sha256 for file in job.hadoop.files}
        keys["hadoop.conf"] = job.hadoop.location or f"{job.hadoop.kind} {_hash_of(of_files)}"
    roles = {}
    for role in job.stated_roles:
        keys |= _keys_of(role, f"roles.{role.name}.")
        roles[role.name] = _values_of_role(job, role)
    found = {"keys": keys, "roles": roles, "programs": programs}
    return found if len(json.dumps(found)) <= _MOST_BYTES else None


def _small_programs(job: Job) -> Iterator[tuple[str, str]]:
    """Yield name and text of the programs that are sent with the job, as long as they fit into 16
    KiB together: programs often contain parameters.
    """
    left = _PROGRAM_BYTES
    files = {file.name: file for role in job.roles.values() for file in role.files}
    for name, file in files.items():
        content = file.content
        if name.endswith(_PROGRAMS) and isinstance(content, bytes) and len(content) <= left:
            left -= len(content)
            yield name, content.decode("utf-8", "replace")


def _values_of_role(job: Job, role: Role) -> dict[str, Any]:
    files = {file.name: file.sha256[:HASH_DIGITS] for file in role.files}
    files |= {file.name: file.uri for file in role.remote_files}
    values = {
        "command": role.command.to_json(),
        "variables": dict(role.env),
        "files": _fewer_files(files),
        "image": role.image,
    }
    python = job.python_of(role)
    packages = {"interpreter": python.interpreter}
    if python.packages is not None:
        archive = python.packages.archive
        packages |= {archive.path.name: archive.sha256[:HASH_DIGITS], **python.packages.versions}
    return {**values, "packages": packages}


def _fewer_files(files: Mapping[str, str]) -> dict[str, str]:
    if len(files) <= _MOST_FILES:
        return dict(files)
    tops: dict[str, dict[str, str]] = {}
    for name, value in files.items():
        tops.setdefault(name.partition("/")[0], {})[name] = value
    return {f"{top}/": _hash_of(inside) for top, inside in list(tops.items())[:_MOST_FILES]}


def _hash_of(files: Mapping[str, str]) -> str:
    content = json.dumps(files, sort_keys=True).encode()
    return hashlib.sha256(content).hexdigest()[:HASH_DIGITS]


def _keys_of(made: Any, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield path and text of each field of a job, a role or another dataclass whose value is not
    the default. The path consists of the names that the job spec has for the fields.
    """
    for item in fields(made):
        value = getattr(made, item.name)
        if item.name in _NO_KEYS or _is_default(value, item):
            continue
        name, value = _named_as_key(item.name, value)
        yield from _texts_of(f"{prefix}{name}", value)


def _is_default(value: Any, item: Any) -> bool:
    default = item.default_factory() if item.default_factory is not MISSING else item.default
    return value is None or (default is not MISSING and value == default)


def _named_as_key(name: str, value: Any) -> tuple[str, Any]:
    if name.endswith("_mib"):
        return name.removesuffix("_mib"), memory_text(value)
    if name.endswith("_s"):
        return name.removesuffix("_s"), _exact_duration(value)
    return _OTHER_NAMES.get(name, name), value


def _exact_duration(seconds: int) -> str:
    units = {"d": 86_400, "h": 3600, "m": 60}
    unit = next((unit for unit, size in units.items() if seconds and seconds % size == 0), "s")
    return f"{seconds // units.get(unit, 1)}{unit}"


def _texts_of(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield path and text of each simple value in the value of a key, which may be a dataclass, a
    mapping or a list; bytes are left out.
    """
    if hasattr(value, "to_json"):  # a command
        value = value.to_json()
    if is_dataclass(value):
        yield from _keys_of(value, f"{path}.")
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _texts_of(f"{path}.{name}", inner)
    elif (
        isinstance(value, (tuple, list))
        and any(map(is_dataclass, value))
        and hasattr(value[0], "name")
    ):
        for one in value:  # inputs and outputs
            yield from _texts_of(f"{path}.{one.name}", one)
    elif isinstance(value, (tuple, list)):
        yield path, ", ".join(map(_text_of, value))
    elif not isinstance(value, bytes):
        yield path, _text_of(value)


def _text_of(value: Any) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- of a record of an earlier version, which has only the job spec's text ---


def values_of_record(record: Mapping[str, Any], *, written: bool = False) -> dict[str, Any] | None:
    """Return what the run of a record was given; None if the record does not tell, or is damaged.

    Args:
        record: A run's record.
        written: Return the values as they are written in the job spec, without hashes of files. For
            the record of an earlier version this is always so.
    """
    submission = record.get("submission") or {}
    found = submission.get("values")
    if found and not written:
        return found if _is_sound(found) else None
    with suppress(SubmitTFJobError, RecursionError, ValueError):
        overrides = [one for one in submission.get("overrides") or () if isinstance(one, str)]
        return _values_of_text(str(submission.get("spec") or ""), overrides)
    return None


def has_values(record: Mapping[str, Any]) -> bool:
    """Return whether a record has the run's values themselves, and not only its job spec."""
    return bool((record.get("submission") or {}).get("values"))


def _is_sound(found: Any) -> bool:
    """Return whether recorded values have the expected shape; a job's containers can write the
    record, too.
    """
    if not isinstance(found, Mapping) or not isinstance(found.get("keys"), Mapping):
        return False
    roles = found.get("roles")
    return isinstance(roles, Mapping) and all(
        isinstance(role, Mapping)
        and set(_OF_ROLES) <= set(role)
        and isinstance(role["command"], (str, list))
        and all(isinstance(role[name], Mapping) for name in ("variables", "files", "packages"))
        for role in roles.values()
    )


def _values_of_text(text: str, overrides: Sequence[str]) -> dict[str, Any] | None:
    from submit_tf_job import dialects
    from submit_tf_job.host.located.tree import Diagnostics, Table, Unreadable, to_python
    from submit_tf_job.jobspec.overrides import apply

    notes = Diagnostics("")
    try:
        root, _translation = dialects.read(text, notes, None)
    except Unreadable:
        return None
    if not isinstance(root, Table):
        return None
    job = to_python(apply(root, overrides, notes))
    stated = job.pop("roles", None)
    roles = {
        name: role if isinstance(role, Mapping) else {}
        for name, role in (stated.items() if isinstance(stated, Mapping) else ())
    }
    shared = ("command", "env", "files", "image", "python")
    keys = dict(_flat_texts("", {k: v for k, v in job.items() if k not in (*shared, "name")}))
    for name, role in roles.items():
        own = {key: value for key, value in role.items() if key not in shared}
        keys |= _flat_texts(f"roles.{name}", own)
    return {
        "keys": keys,
        "roles": {name: _written_values(job, role) for name, role in roles.items()},
    }


def _written_values(job: Mapping[str, Any], role: Mapping[str, Any]) -> dict[str, Any]:
    command = role.get("command", job.get("command")) or ""
    env = [one for layer in (job, role) if isinstance(one := layer.get("env"), Mapping)]
    entries = [one for layer in (job, role) for one in _listed_values(layer.get("files"))]
    python = role.get("python", job.get("python"))
    return {
        "command": list(map(str, command)) if isinstance(command, list) else str(command),
        "variables": {name: _text_of(value) for layer in env for name, value in layer.items()},
        "files": {_source_of(one): "sent" for one in entries},
        "packages": dict(_flat_texts("python", python)) if python else {},
        "image": str(role.get("image", job.get("image")) or ""),
    }


def _listed_values(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else ()


def _source_of(entry: Any) -> str:
    if isinstance(entry, Mapping):
        return str(entry.get("src") or entry.get("project") or entry.get("wheels") or entry)
    return str(entry)


def _flat_texts(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flat_texts(f"{path}.{name}".removeprefix("."), inner)
    elif isinstance(value, list) and not any(isinstance(one, (Mapping, list)) for one in value):
        yield path, ", ".join(map(_text_of, value))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _flat_texts(f"{path}[{index}]", inner)
    elif value is not None:
        yield path, _text_of(value)
