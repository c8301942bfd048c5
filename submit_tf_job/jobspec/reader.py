"""Read a located tree as a `Job`, or report every problem in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from submit_tf_job.container import contract
from submit_tf_job.container.frameworks.installed import LEGACY_KERAS
from submit_tf_job.jobspec import rules
from submit_tf_job.jobspec.diagnostics import Diagnostics, closest
from submit_tf_job.jobspec.files import Host, Shipper
from submit_tf_job.jobspec.hadoop_keys import read_hadoop
from submit_tf_job.jobspec.job import (
    Command,
    DockerOptions,
    Job,
    KerasMode,
    Location,
    Placement,
    Python,
    RemoteFile,
    Restart,
    Role,
    RoleKind,
    ShippedFile,
)
from submit_tf_job.jobspec.kerberos_keys import read_kerberos
from submit_tf_job.jobspec.keys import JOB, MAX_ROLES, ROLES, SHARED, SITE, role_meant
from submit_tf_job.jobspec.kinds import LABEL, NO_LABEL
from submit_tf_job.jobspec.layers import Layer, merge_files, merge_mounts, read_layer
from submit_tf_job.jobspec.nodes import Node, Table, clip, from_python
from submit_tf_job.jobspec.overrides import SET
from submit_tf_job.jobspec.packages import read_python
from submit_tf_job.jobspec.roles import RoleDraft, Shapes, read_role
from submit_tf_job.jobspec.rules import JobDraft
from submit_tf_job.jobspec.sections import Section
from submit_tf_job.jobspec.values import Value

__all__ = ["WITNESS_MIB", "Defaults", "read_job"]

WITNESS_MIB = 256


@dataclass(frozen=True)
class Defaults:
    """The site's settings for keys that a job spec does not state.

    Attributes:
        job: A partial job spec: image, queue, network, env, mounts, hadoop, lifetime, …
        shapes: Named resource shapes: {"big": {"cpus": 8, "memory": "32Gi", "gpus": 1}}.
        source: Their name in messages.
        task_memory: The memory of a task for which a file of another system states none, as
            "4Gi"; None to ask for it.
    """

    job: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    shapes: Mapping[str, Mapping[str, object]] = field(default_factory=lambda: MappingProxyType({}))
    source: str = "settings"
    task_memory: str | None = None


def read_job(root: Node, notes: Diagnostics, *, host: Host, defaults: Defaults) -> Job:
    """Return the job of a located tree.

    Args:
        root: The job spec, overrides applied.
        notes: Collects problems and locations.
        host: The files of this host that it may use.
        defaults: The site's settings.

    Raises:
        JobSpecError: The job spec is not valid; the error has every problem.
    """
    shipper = Shipper(host)
    site_layer, site = _read_site(defaults, notes, shipper)
    whole = Value(root, "", Location(root.place.source, 1, 1), notes)
    own = Section.of(whole, JOB)
    if own is None:
        notes.check()
        raise AssertionError("a root that is not a mapping is a problem")
    section = Section(whole, JOB, _filled_from(own.table, site), own.meant)
    shapes = Shapes(defaults.shapes, defaults.source)
    draft = _read_draft(own, section, shapes, shipper, host)
    if "image" not in draft.layer.states:
        draft.layer.image = site_layer.image
    deciding = rules.decide(draft)
    rules.check(draft, deciding)
    roles = {
        name: _finish_role(draft, role, site_layer, deciding) for name, role in draft.roles.items()
    }
    shipper.digests.save()
    notes.check()
    return _build(draft, {name: role for name, role in roles.items() if role}, deciding)


def _read_site(defaults: Defaults, notes: Diagnostics, shipper: Shipper) -> tuple[Layer, Table]:
    """Return the site's layer of the shared keys, and the mapping of its other keys."""
    place = Location(defaults.source)
    section = Section.of(Value(from_python(dict(defaults.job), place), "", place, notes), SITE)
    if section is None:
        return Layer(), Table((), place)
    table = Table(tuple(entry for entry in section.table.entries if entry.key in SITE.rows), place)
    return read_layer(Section(section.value, JOB, table), shipper), table.without(
        "env", "mounts", "image", "docker"
    )


def _filled_from(table: Table, site: Table) -> Table:
    """Return the job spec with the site's entries for keys that it does not state."""
    for entry in site.entries:
        if table.find(entry.key) is None:
            table = table.with_entry(entry)
    return table


def _read_draft(
    own: Section, section: Section, shapes: Shapes, shipper: Shipper, host: Host
) -> JobDraft:
    readers = {
        "hadoop": lambda item: read_hadoop(item, host.hadoop_conf),
        "kerberos": lambda item: read_kerberos(item, host),
        "python": lambda item: read_python(item, shipper),
    }
    names = [name for name in JOB.rows if name not in SHARED and name != "roles"]
    values = section.read_all(names, readers)
    rules.fill_defaults(section, values)
    roles, roles_read = _read_roles(section, shapes, shipper)
    layer = read_layer(own, shipper)
    draft = JobDraft(section, section.notes, layer, roles, values, own.stated, roles_read)
    if values.get("network") == "none" and sum(role.instances for role in roles.values()) > 1:
        draft.fail(
            "network",
            "without a network the tasks cannot find one another; use host, bridge, or "
            "the name of a network",
        )
    return draft


def _read_roles(
    section: Section, shapes: Shapes, shipper: Shipper
) -> tuple[dict[str, RoleDraft], bool]:
    """Return the roles, and whether all of them are valid."""
    value: Value | None = section.read("roles", lambda item: item)
    table = value.table(ROLES.expected) if value else None
    if value is None or table is None:
        return {}, False
    if not 1 <= len(table.entries) <= MAX_ROLES:
        many = f"{len(table.entries)} roles are too many; the most is {MAX_ROLES}"
        value.fail(
            many if table.entries else "there is no role; add one, as in chief: {memory: 4Gi}"
        )
        return {}, False
    roles: dict[str, RoleDraft] = {}
    for entry in table.entries:
        role = _read_role(value.member(entry), entry.key, table, roles, shapes, shipper)
        if role is not None:
            roles[role.name] = role
    return roles, len(roles) == len(table.entries)


def _read_role(
    item: Value,
    name: str,
    table: Table,
    others: Mapping[str, RoleDraft],
    shapes: Shapes,
    shipper: Shipper,
) -> RoleDraft | None:
    known_as = "chief" if name == "master" else name
    if _only_set(item):
        return item.fail(
            _no_such_role(name, [entry.key for entry in table.entries if entry.place.source != SET])
        )
    role = read_role(item, known_as, shapes, shipper)
    if not LABEL.fullmatch(name):
        return item.fail(_bad_role_name(name))
    if known_as in others:
        return item.fail(
            f"chief and master are two names of one role; keep "
            f"{others[known_as].path.removeprefix('roles.')}, drop this"
        )
    return role


def _only_set(value: Value) -> bool:
    """Return whether only `--set` adds a role, without the memory that the role needs."""
    states = (
        {entry.key for entry in value.node.entries} if isinstance(value.node, Table) else {"memory"}
    )
    return value.place.source == SET and not states & {"memory", "shape"}


def _no_such_role(name: str, others: list[str]) -> str:
    near = closest(name, others)
    meant = f"did you mean {clip(near)}?" if near else f"it has {', '.join(others)}"
    return f"the job spec has no role {clip(name)}; {meant} (a new role needs memory, too)"


def _bad_role_name(name: str) -> str:
    meant = role_meant(name)
    return (
        f"{clip(name)} is not a TensorFlow role; did you mean '{meant}'?"
        if meant
        else f"{clip(name)} {NO_LABEL}"
    )


def _finish_role(job: JobDraft, role: RoleDraft, site: Layer, deciding: str | None) -> Role | None:
    own, shared = role.layer, job.layer
    image = own.image if "image" in own.states else shared.image
    if "image" not in own.states | shared.states | site.states and "image" not in job.section.meant:
        job.fail(
            "image",
            "missing; say which Docker image to run, e.g. image: registry.example.com/ml/tf:2.15",
        )
    command = own.command
    if command is None and "command" not in own.states:
        command = shared.command if rules.takes_job_command(job, role, deciding) else None
        rules.check_command(job, role, deciding)
    files = merge_files([shared.files, own.files], job.notes)
    mounts = merge_mounts([site.mounts, shared.mounts, own.mounts])
    _place_merged(role, "files", [found.place for found in files])
    _place_merged(role, "mounts", [found.place for found in mounts])
    if job.notes.problems or image is None or command is None:
        return None  # after a problem no job is built
    restart, max_restarts = role.values.pop("restart", (Restart.NEVER, 0))
    return Role(
        name=role.name,
        command=command,
        image=image,
        env=MappingProxyType({**_keras(job), **site.env, **shared.env, **own.env}),
        files=tuple(found.value for found in files if isinstance(found.value, ShippedFile)),
        remote_files=tuple(found.value for found in files if isinstance(found.value, RemoteFile)),
        mounts=tuple(found.value for found in mounts),
        restart=restart,
        max_restarts=max_restarts,
        docker=DockerOptions(**{**site.docker, **shared.docker, **own.docker}),
        workdir=own.workdir or shared.workdir,
        **{"instances": 1, **role.values, "kind": rules.kind_of(job, role, deciding)},
    )


def _keras(job: JobDraft) -> dict[str, str]:
    """Return the variable by which TensorFlow takes tf_keras for tf.keras."""
    legacy = job.values.get("keras") is KerasMode.LEGACY
    return {LEGACY_KERAS: "1"} if legacy else {}


def _place_merged(role: RoleDraft, key: str, places: list[Location]) -> None:
    """Record the locations of a role's merged list: later stages use its indices."""
    for index, place in enumerate(places):
        role.value.notes.places[f"{role.path}.{key}[{index}]"] = place


def _build(draft: JobDraft, roles: Mapping[str, Role], deciding: str | None) -> Job:
    values = draft.values
    python = values.pop("python", Python())
    # of a deciding role with several tasks YARN awaits every end: docs/internals/endings.md
    several = deciding is not None and roles[deciding].instances > 1
    if deciding and values.get("bootstrap", True) and (values.get("retries") or several):
        interpreter = (roles[deciding].python or python).interpreter or python.interpreter
        roles = {**roles, contract.WITNESS_ROLE: _witness(roles[deciding], interpreter)}
    return Job(
        **{
            **values,
            "roles": MappingProxyType(dict(roles)),
            "deciding_role": deciding,
            "python": python.interpreter,
            "packages": python.packages,
            "places": MappingProxyType(dict(_chief_for_master(draft.notes.places))),
        }
    )


def _witness(deciding: Role, interpreter: str) -> Role:
    """Return the sidecar whose end is the application's end, with its exit status."""
    where = deciding.placement
    return Role(
        name=contract.WITNESS_ROLE,
        kind=RoleKind.SIDECAR,
        instances=1,
        command=Command(argv=(interpreter, "-c", "import signal; signal.pause()")),
        image=deciding.image,
        memory_mib=WITNESS_MIB,
        placement=Placement(partition=where.partition) if where and where.partition else None,
        docker=replace(deciding.docker, publish=()),
        mounts=deciding.mounts,
        python=deciding.python,
    )


def _chief_for_master(places: Mapping[str, Location]) -> Iterator[tuple[str, Location]]:
    """Yield every location; those under roles.master also under roles.chief, the job's name."""
    for path, place in places.items():
        yield path, place
        if path == "roles.master" or path.startswith("roles.master."):
            yield "roles.chief" + path.removeprefix("roles.master"), place
