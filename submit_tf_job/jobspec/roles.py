"""Read one role of a job spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from submit_tf_job.jobspec.diagnostics import closest
from submit_tf_job.jobspec.files import Shipper
from submit_tf_job.jobspec.job import TRAINING_ROLES, Location, Restart
from submit_tf_job.jobspec.keys import ROLE, SHAPE, SHARED
from submit_tf_job.jobspec.layers import Layer, read_layer
from submit_tf_job.jobspec.nodes import clip, from_python
from submit_tf_job.jobspec.packages import read_python
from submit_tf_job.jobspec.sections import Section
from submit_tf_job.jobspec.values import Value

__all__ = ["RoleDraft", "Shapes", "read_role"]


@dataclass
class RoleDraft:
    """A role while it is read; some values may be wrong or absent.

    Attributes:
        name: Its name in the job: chief if the user wrote master.
        value: The mapping; its path has the user's name.
        values: Fields of `Role`; a wrong value is None, an absent one is omitted.
    """

    name: str
    value: Value
    section: Section
    layer: Layer
    values: dict[str, Any]

    @property
    def is_training(self) -> bool:
        """Whether the role is one of TensorFlow's."""
        return self.name in TRAINING_ROLES

    @property
    def path(self) -> str:
        """The path as the user wrote it: roles.master for chief."""
        return self.value.path

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
        if not key:
            self.value.fail(message)
            return
        path, places = f"{self.path}.{key}", self.value.notes.places
        place = places[path] if self.section.has(key) else self.value.place
        self.value.notes.problem(place, path, message)


@dataclass(frozen=True)
class Shapes:
    """The named resource shapes that the settings define."""

    shapes: Mapping[str, Mapping[str, object]]
    source: str

    def read(self, value: Value) -> Section | None:
        """Return the shape that a role names."""
        name = value.text(expected="the name of a resource shape")
        if name is None:
            return None
        if name not in self.shapes:
            return value.fail(self._unknown(name))
        place = Location(f"{self.source}, shape {name}")
        shape = Value(from_python(self.shapes[name], place), f"shapes.{name}", place, value.notes)
        return Section.of(shape, SHAPE)

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


def read_role(value: Value, name: str, shapes: Shapes, shipper: Shipper) -> RoleDraft | None:
    """Return one role; `name` is its name in the job (chief if the user wrote master)."""
    section = Section.of(value, ROLE)
    if section is None:
        return None
    own = [key for key in ROLE.rows if key not in SHARED and key not in (*SHAPE.rows, "shape")]
    readers = {"python": lambda item: read_python(item, shipper, "")}
    values = section.read_all(own, readers) | _read_resources(section, shapes)
    if values.get("instances") is not None:
        values["instances"], values["elastic"] = values["instances"]
    return RoleDraft(name, value, section, read_layer(section, shipper), values)


def _read_resources(own: Section, shapes: Shapes) -> dict[str, Any]:
    """Return cpus, memory, gpus and gpu_resource: the role's own value, else its shape's."""
    shape = own.read("shape", shapes.read)
    values: dict[str, Any] = {}
    for name in SHAPE.rows:
        if shape is not None and shape.has(name) and not own.has(name):
            values |= shape.read_all([name])
            own.notes.places[own.path(name)] = own.notes.places[shape.path(name)]
        elif own.has(name) or name != "memory":
            values |= own.read_all([name])
        elif (shape is not None or not own.has("shape")) and name not in own.meant:
            why = "missing; its shape has none either; " if shape else "missing; "
            own.notes.problem(own.value.place, own.path(name), why + own.rows[name].missing)
    return values
