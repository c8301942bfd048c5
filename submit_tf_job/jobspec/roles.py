"""Read one role of a job spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from submit_tf_job.host.located.diagnostics import BUILT_IN, Where, closest
from submit_tf_job.host.located.nodes import Location, clip, from_python
from submit_tf_job.jobspec.files import Shipper
from submit_tf_job.jobspec.job import TRAINING_ROLES, Restart
from submit_tf_job.jobspec.keys import ROLE, SHAPE, SHARED
from submit_tf_job.jobspec.kinds import group
from submit_tf_job.jobspec.layers import Layer, read_layer
from submit_tf_job.jobspec.packages import read_python
from submit_tf_job.jobspec.schema import partial_schema
from submit_tf_job.jobspec.validate import typed

__all__ = ["RoleDraft", "Shapes", "read_role"]


@dataclass
class RoleDraft:
    """A role while it is read; some values may be wrong or absent.

    Attributes:
        name: Its name in the job: chief if the user wrote master.
        at: Its path, with the user's name.
        values: Fields of `Role`; a wrong value is None, an absent one is omitted.
    """

    name: str
    at: Where
    layer: Layer
    values: dict[str, Any]

    @property
    def is_training(self) -> bool:
        """Whether the role is one of TensorFlow's."""
        return self.name in TRAINING_ROLES

    @property
    def path(self) -> str:
        """The path as the user wrote it: roles.master for chief."""
        return self.at.path

    @property
    def instances(self) -> int:
        """The number of tasks; 1 if it is absent or wrong."""
        return self.values.get("instances") or 1

    @property
    def restarts(self) -> bool:
        """Whether a failed task is started again."""
        return (self.values.get("restart") or (Restart.NEVER, 0))[0] is Restart.ON_FAILURE

    def fail(self, message: str, key: str = "") -> None:
        """Report a problem of the role, or of one of its keys."""
        self.at.fail(message, key)


@dataclass(frozen=True)
class Shapes:
    """The named resource shapes that the settings define."""

    shapes: Mapping[str, Mapping[str, object]]
    source: str

    def read(self, name: str, at: Where) -> tuple[dict[str, Any], Where] | None:
        """Return the shape that a role names, with its path."""
        if name not in self.shapes:
            return at.fail(self._unknown(name))
        place = Location(f"{self.source}, shape {name}")
        shape, inside = from_python(self.shapes[name], place), Where(f"shapes.{name}", at.notes)
        values = typed(shape, group(SHAPE), partial_schema(SHAPE), inside, place)
        return None if values is None else (values, inside)

    def _unknown(self, name: str) -> str:
        if not self.shapes:
            return (
                f"unknown shape {clip(name)}; the settings define none, so write cpus, memory "
                f"and gpus here"
            )
        near = closest(name, list(self.shapes))
        meant = (
            f"did you mean '{near}'?"
            if near
            else f"the settings define {', '.join(sorted(self.shapes))}"
        )
        return f"unknown shape {clip(name)}; {meant}"


def read_role(
    stated: Mapping[str, Any], name: str, at: Where, shapes: Shapes, shipper: Shipper
) -> RoleDraft:
    """Return one role.

    Args:
        stated: The values that the job spec states, None for a wrong one.
        name: The role's name in the job: chief if the user wrote master.
        at: The role's path.
        shapes: The shapes of the settings.
        shipper: Reads files of this host.
    """
    values = {key: value for key, value in stated.items() if key not in {*SHARED, "shape"}}
    shape = shapes.read(stated["shape"], at.member("shape")) if stated.get("shape") else None
    if shape is not None:
        values = _from_shape(*shape, at) | values
        if "memory_mib" not in values:
            hint = ROLE.rows["memory"].missing
            at.fail(f"missing; its shape has none either; {hint}", "memory")
    if values.get("python") is not None:
        values["python"] = read_python(values["python"], at.member("python"), shipper, "")
    if values.get("instances") is not None:
        values["instances"], values["elastic"] = values["instances"]
    return RoleDraft(name, at, read_layer(stated, at, shipper), values)


def _from_shape(values: dict[str, Any], inside: Where, at: Where) -> dict[str, Any]:
    """Return the resources of a shape, and record where they are stated."""
    places = at.notes.places
    for name in SHAPE.rows:
        found, own = places.get(inside.member(name).path), at.member(name).path
        if found is not None and places.get(own, BUILT_IN) == BUILT_IN:
            places[own] = found
    return values
