"""Read one role of a job spec."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from submit_tf_job.job import TRAINING_ROLES, Place, Placement, Restart
from submit_tf_job.specfile import units
from submit_tf_job.specfile.layers import Layer, read_layer
from submit_tf_job.specfile.nodes import clip, from_python
from submit_tf_job.specfile.notes import Notes
from submit_tf_job.specfile.shipping import Shipper
from submit_tf_job.specfile.values import Section, Value
from submit_tf_job.specfile.vocabulary import PLACEMENT, RESTART, RESTARTS, ROLE, SCOPES, SHAPE, closest

__all__ = ["DEFAULT_RESTARTS", "LABEL", "NO_LABEL", "RoleDraft", "Shapes", "read_role"]

DEFAULT_RESTARTS = 3
MAX_INSTANCES = 100_000
MAX_CPUS = 10_000
MAX_GPUS = 1_000
MAX_RESTARTS = 1_000
LABEL = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")
NO_LABEL = "is no DNS label; use a-z, 0-9 and '-', begin with a letter, end with a letter or digit, at most 63 characters"
_MEMORY_MISSING = "say how much memory one task gets, e.g. memory: 4Gi"
_SCOPES = ["node", "rack"]
_NO_BLANKS = re.compile(r"[^\s,]+")


@dataclass
class RoleDraft:
    """A role as far as it could be read; None where the value is missing or wrong."""

    name: str
    path: str  # as the user spells it: roles.master for chief
    place: Place
    notes: Notes
    section: Section
    layer: Layer
    instances: int | None = 1
    cpus: int | None = 1
    gpus: int | None = 0
    memory_mib: int | None = None
    placement: Placement | None = None
    restart: tuple[Restart, int] | None = (Restart.NEVER, 0)
    tolerate: int | None = 0
    ports: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def is_training(self) -> bool:
        """Whether TensorFlow knows of the role."""
        return self.name in TRAINING_ROLES

    def fail(self, message: str, key: str = "") -> None:
        """Note a problem at the role, or at one of its keys."""
        path = f"{self.path}.{key}" if key else self.path
        self.notes.problem(self.notes.places[path] if key and self.section.has(key) else self.place, path, message)


@dataclass(frozen=True)
class Shapes:
    """The named resource shapes that the settings define."""

    shapes: Mapping[str, Mapping[str, object]]
    source: str

    def read(self, value: Value) -> Section | None:
        """Look up the shape that a role names."""
        name = value.text(expected="the name of a resource shape")
        if name is None:
            return None
        if name not in self.shapes:
            return value.fail(self._unknown(name))
        place = Place(f"{self.source}, shape {name}")
        shape = Value(from_python(self.shapes[name], place), f"shapes.{name}", place, value.notes)
        return shape.section(SHAPE, "a mapping such as {cpus: 8, memory: 32Gi, gpus: 1}")

    def _unknown(self, name: str) -> str:
        if not self.shapes:
            return f"unknown shape {clip(name)}; the settings define none, so write cpus, memory and gpus here"
        near = closest(name, list(self.shapes))
        meant = f"did you mean '{near}'?" if near else f"the settings define {', '.join(sorted(self.shapes))}"
        return f"unknown shape {clip(name)}; {meant}"


def read_role(value: Value, name: str, shapes: Shapes, shipper: Shipper) -> RoleDraft | None:
    """Read one role; `name` is the job's word for it (chief, where the user wrote master)."""
    section = value.section(ROLE, "a mapping such as {instances: 2, memory: 8Gi}")
    if section is None:
        return None
    draft = RoleDraft(name, value.path, value.place, value.notes, section, read_layer(section, shipper))
    draft.instances = section.read("instances", _instances, 1)
    _read_resources(draft, section, shapes)
    draft.placement = section.optional("placement", _placement)
    draft.restart = section.read("restart", _restart, (Restart.NEVER, 0))
    draft.tolerate = section.read("tolerate", lambda item: item.whole(0, MAX_INSTANCES), 0)
    draft.ports = section.optional("ports", _ports) or draft.ports
    return draft


def _instances(value: Value) -> int | None:
    return value.whole(1, MAX_INSTANCES, "leave the role out, or ask for at least 1")


def _read_resources(draft: RoleDraft, own: Section, shapes: Shapes) -> None:
    """Read cpus, memory and gpus: the role's own word, else its shape's."""
    shape = own.optional("shape", shapes.read)

    def stated_by(key: str) -> Section:
        return shape if shape is not None and not own.has(key) and shape.has(key) else own

    draft.cpus = stated_by("cpus").read("cpus", lambda item: item.whole(1, MAX_CPUS), 1)
    draft.gpus = stated_by("gpus").read("gpus", lambda item: item.whole(0, MAX_GPUS), 0)
    memory = stated_by("memory").get("memory", _MEMORY_MISSING)
    draft.memory_mib = None if memory is None else units.memory(memory)
    for key in ("cpus", "gpus", "memory"):
        if stated_by(key) is not own:
            own.notes.places[own.path(key)] = own.notes.places[stated_by(key).path(key)]
    if (own.has("shape") and shape is None) or "memory" in own.meant:
        return  # the shape is the problem, and may have held the memory
    if not stated_by("memory").has("memory"):
        why = "missing; its shape has none either; " if shape is not None else "missing; "
        draft.notes.problem(draft.place, f"{draft.path}.memory", why + _MEMORY_MISSING)


def _placement(value: Value) -> Placement | None:
    section = value.section(PLACEMENT, "a mapping such as {spread: node}")
    if section is None:
        return None
    spread = section.optional("spread", lambda item: item.word(_SCOPES, SCOPES))
    together = section.optional("together", lambda item: item.word(_SCOPES, SCOPES))
    if spread and together and (spread, together) != ("node", "rack"):
        value.fail(f"spread: {spread} and together: {together} contradict each other; only spread: node within together: rack can be met")
    partition = section.optional("node_label", lambda item: item.matching(_NO_BLANKS, "is no node label; write its name alone"))
    attributes = section.get("node_attributes")
    found: dict[str, tuple[str, ...]] = {}
    for name, item in attributes.members("a mapping such as {gpu_model: [a100, h100]}") if attributes else ():
        found[name] = tuple(text for text in map(_attribute, item.items("a list") if item.is_list else [item]) if text)
        if item.is_list and not found[name]:
            item.fail("the list of accepted values is empty; name at least one")
    return Placement(spread, together, partition, MappingProxyType(found))


def _attribute(value: Value) -> str | None:
    text = value.exact_text()
    if text is not None and not _NO_BLANKS.fullmatch(text):
        return value.fail(f"{clip(text)} is no value of a node attribute; write it without blanks and commas")
    return text


def _restart(value: Value) -> tuple[Restart, int] | None:
    if not value.is_mapping:
        policy = value.one_of(Restart, RESTARTS)
        return None if policy is None else (policy, DEFAULT_RESTARTS if policy is Restart.ON_FAILURE else 0)
    section = value.section(RESTART, "a mapping such as {policy: on-failure, max: 3}")
    if section is None:
        return None
    policy = section.required("policy", lambda item: item.one_of(Restart, RESTARTS), "say never or on-failure")
    most = section.read("max", lambda item: item.whole(1, MAX_RESTARTS, "say policy: never, or allow at least 1"), DEFAULT_RESTARTS)
    if policy is Restart.NEVER and section.has("max"):
        return value.fail("policy never has no max; leave max out, or say policy: on-failure")
    if policy is None or most is None:
        return None
    return policy, most if policy is Restart.ON_FAILURE else 0


def _ports(value: Value) -> Mapping[str, int]:
    ports: dict[str, int] = {}
    for name, item in value.members("a mapping of names to port numbers, as in {http: 6006}"):
        if not LABEL.fullmatch(name):
            item.fail(f"{clip(name)} {NO_LABEL}")
        number = item.number()
        if number is None:
            continue
        if not 1 <= number <= 65535:
            item.fail(f"{number} is no port; use 1 to 65535")
        if number in ports.values():
            item.fail(f"port {number} has a name already; one port has one name")
        ports[name] = number
    return MappingProxyType(ports)
