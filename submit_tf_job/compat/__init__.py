"""The calls of other systems' Python interfaces, made with the SDK: a program changes its import,
and keeps its calls.

Each module covers one system. A feature that YARN lacks is refused with its name, and never
ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from submit_tf_job.errors import UsageError

__all__ = ["refuse", "with_roles"]


def refuse(call: str, hint: str = "leave it out", **arguments: object) -> None:
    """Refuse arguments that have no meaning here.

    Args:
        call: The call, as the users of that system write it.
        hint: What to do instead.
        arguments: The value of each such argument; an empty value means that it was not given.

    Raises:
        UsageError: One of these arguments was given.
    """
    given = [name for name, value in arguments.items() if value not in (None, False, "", 0, {}, [])]
    if given:
        raise UsageError(f"{call} takes no {' and no '.join(given)} here", hint=hint)


def with_roles(
    job: Mapping[str, Any] | None, roles: Mapping[str, Mapping[str, Any]], **keys: Any
) -> dict[str, Any]:
    """Return a job spec made of what a call states and of the caller's `job`, which takes
    precedence.

    Args:
        job: Keys of a job spec; the keys of its `roles` are added to those of the call's roles.
        roles: The keys of each role, as the call states them.
        keys: The keys of the job, as the call states them.

    Raises:
        UsageError: `job` has a role that the call does not have.
    """
    stated = dict(job or {})
    more = stated.pop("roles", {})
    if unknown := sorted(set(more) - set(roles)):
        way = "; master_node='chief' makes the first task the chief" * (unknown[0] == "chief")
        raise UsageError(
            f"the call has no role {unknown[0]}", hint=f"its roles are {', '.join(roles)}{way}"
        )
    merged = {name: {**role, **more.get(name, {})} for name, role in roles.items()}
    return {**keys, **stated, "roles": merged}
