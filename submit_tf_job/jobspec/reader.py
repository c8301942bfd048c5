"""Read the native job spec: a located tree of nodes → Job, or every problem in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from submit_tf_job.job import DockerOptions, Job, Place, Role, Strategy, TFConfigMode
from submit_tf_job.specfile import rules
from submit_tf_job.specfile.jobkeys import Settings, read_settings
from submit_tf_job.specfile.layers import Layer, merge_files, merge_mounts, read_layer
from submit_tf_job.specfile.nodes import Node, Table, clip, from_python
from submit_tf_job.specfile.notes import Notes
from submit_tf_job.specfile.overrides import SET
from submit_tf_job.specfile.roles import LABEL, NO_LABEL, RoleDraft, Shapes, read_role
from submit_tf_job.specfile.rules import JobDraft
from submit_tf_job.specfile.shipping import Host, Shipper
from submit_tf_job.specfile.values import Section, Value
from submit_tf_job.specfile.vocabulary import JOB, SITE, STRATEGIES, closest, role_meant

__all__ = ["Defaults", "read_job"]

MAX_ROLES = 100


@dataclass(frozen=True)
class Defaults:
    """What the site's settings say for jobs that are silent.

    Attributes:
        job: A partial job spec: image, queue, network, env, mounts, hadoop, lifetime, …
        shapes: Named resource shapes: {"big": {"cpus": 8, "memory": "32Gi", "gpus": 1}}.
        source: Where they stand, for messages.
    """

    job: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    shapes: Mapping[str, Mapping[str, object]] = field(default_factory=lambda: MappingProxyType({}))
    source: str = "settings"


def read_job(root: Node, notes: Notes, *, host: Host, defaults: Defaults) -> Job:
    """Read a job.

    Args:
        root: The job spec, overrides applied.
        notes: Where problems and places go.
        host: What it may find on this host.
        defaults: What the site says.

    Raises:
        JobSpecError: with every problem found.
    """
    shipper = Shipper(host)
    site_layer, site = _read_site(defaults, notes, shipper)
    whole = Value(root, "", Place(root.place.source, 1, 1), notes)
    own = whole.section(JOB, "keys such as name: and roles:")
    if own is None:
        notes.check()
        raise AssertionError("a root that is no mapping is a problem")
    section = Section(whole, _filled_from(own.table, site), own.meant)
    draft, settings = _read_draft(own, section, Shapes(defaults.shapes, defaults.source), shipper, host)
    if "image" not in draft.layer.states:
        draft.layer.image = site_layer.image
    deciding = rules.decide(draft)
    rules.check(draft, deciding)
    roles = {name: _finish_role(draft, role, site_layer, deciding) for name, role in draft.roles.items()}
    shipper.digests.save()
    notes.check()
    return _build(draft, settings, {name: role for name, role in roles.items() if role}, deciding)


def _read_site(defaults: Defaults, notes: Notes, shipper: Shipper) -> tuple[Layer, Table]:
    """Read what the site says: the layer below the job's, and the table of the keys that stand alone."""
    place = Place(defaults.source)
    section = Value(from_python(dict(defaults.job), place), "", place, notes).section(SITE, "a partial job spec")
    if section is None:
        return Layer(), Table((), place)
    table = Table(tuple(entry for entry in section.table.entries if entry.key in SITE.known), place)
    return read_layer(Section(section.value, table), shipper), table.without("env", "mounts", "image", "docker")


def _filled_from(table: Table, site: Table) -> Table:
    """Add the site's entries for keys about which the job spec is silent."""
    for entry in site.entries:
        if table.find(entry.key) is None:
            table = table.with_entry(entry)
    return table


def _read_draft(own: Section, section: Section, shapes: Shapes, shipper: Shipper, host: Host) -> tuple[JobDraft, Settings]:
    notes = section.notes
    strategy = section.required(
        "strategy", lambda item: item.one_of(Strategy, STRATEGIES), "say how the tasks train together, e.g. strategy: multi-worker"
    )
    settings = read_settings(section, host, shipper)
    roles, roles_read = _read_roles(section, shapes, shipper)
    mode = TFConfigMode.NONE if strategy is Strategy.CUSTOM else TFConfigMode.COUNTS
    draft = JobDraft(
        section,
        notes,
        read_layer(own, shipper),
        roles,
        strategy,
        section.read("tf_config", lambda item: item.one_of(TFConfigMode), mode),
        section.optional("deciding_role", _deciding),
        bool(section.read("legacy_master", Value.flag, False)),
        section.read("bootstrap", Value.flag, True) is not False,
        own.keys,
        roles_read,
    )
    if settings.network == "none" and sum(role.instances or 1 for role in roles.values()) > 1:
        draft.fail("network", "without a network the tasks cannot find one another; say host, bridge, or the name of a network")
    return draft, settings


def _deciding(value: Value) -> str | None:
    name = value.text(expected="the name of a role")
    return "chief" if name == "master" else name


def _read_roles(section: Section, shapes: Shapes, shipper: Shipper) -> tuple[dict[str, RoleDraft], bool]:
    """Read the roles; the second value says whether all of them could be read."""
    value = section.required("roles", lambda item: item, "say which tasks there are, e.g. roles: {chief: {memory: 4Gi}}")
    table = value.table("a mapping of roles, as in {worker: {instances: 2, memory: 8Gi}}") if value else None
    if value is None or table is None:
        return {}, False
    if not 1 <= len(table.entries) <= MAX_ROLES:
        many = f"{len(table.entries)} roles are too many; the most is {MAX_ROLES}"
        value.fail(many if table.entries else "there is no role; add one, as in chief: {memory: 4Gi}")
        return {}, False
    roles: dict[str, RoleDraft] = {}
    for entry in table.entries:
        role = _read_role(value.member(entry), entry.key, table, roles, shapes, shipper)
        if role is not None:
            roles[role.name] = role
    return roles, len(roles) == len(table.entries)


def _read_role(item: Value, name: str, table: Table, others: Mapping[str, RoleDraft], shapes: Shapes, shipper: Shipper) -> RoleDraft | None:
    known_as = "chief" if name == "master" else name
    if _only_set(item):
        return item.fail(_no_such_role(name, [entry.key for entry in table.entries if entry.place.source != SET]))
    role = read_role(item, known_as, shapes, shipper)
    if not LABEL.fullmatch(name):
        return item.fail(_bad_role_name(name))
    if known_as in others:
        return item.fail(f"chief and master are two names of one role; keep {others[known_as].path.removeprefix('roles.')}, drop this")
    return role


def _only_set(value: Value) -> bool:
    """Whether a role is there only because `--set` gave it a value or two, which do not make it complete."""
    states = {entry.key for entry in value.node.entries} if isinstance(value.node, Table) else {"memory"}
    return value.place.source == SET and not states & {"memory", "shape"}


def _no_such_role(name: str, others: list[str]) -> str:
    near = closest(name, others)
    meant = f"did you mean {clip(near)}?" if near else f"it has {', '.join(others)}"
    return f"the job spec has no role {clip(name)}; {meant} (a new role needs memory, too)"


def _bad_role_name(name: str) -> str:
    meant = role_meant(name)
    return f"{clip(name)} is no role of TensorFlow's; did you mean '{meant}'?" if meant else f"{clip(name)} {NO_LABEL}"


def _finish_role(job: JobDraft, role: RoleDraft, site: Layer, deciding: str | None) -> Role | None:
    own, shared = role.layer, job.layer
    image = own.image if "image" in own.states else shared.image
    if "image" not in own.states | shared.states | site.states and "image" not in job.section.meant:
        job.fail("image", "missing; say which Docker image to run, e.g. image: registry.example.com/ml/tf:2.15")
    command = own.command
    if command is None and "command" not in own.states:
        command = shared.command if rules.takes_job_command(job, role, deciding) else None
        rules.check_command(job, role, deciding)
    files = merge_files([shared.files, own.files], job.notes)
    mounts = merge_mounts([site.mounts, shared.mounts, own.mounts])
    if image is None or command is None or role.instances is None or role.memory_mib is None or role.restart is None:
        return None
    _place_merged(role, "files", [found.place for found in files])
    _place_merged(role, "mounts", [found.place for found in mounts])
    return Role(
        name=role.name,
        instances=role.instances,
        command=command,
        image=image,
        memory_mib=role.memory_mib,
        cpus=role.cpus or 1,
        gpus=role.gpus or 0,
        env=MappingProxyType({**site.env, **shared.env, **own.env}),
        files=tuple(found.value for found in files),
        mounts=tuple(found.value for found in mounts),
        placement=role.placement,
        restart=role.restart[0],
        max_restarts=role.restart[1],
        tolerate=role.tolerate or 0,
        ports=role.ports,
        docker=DockerOptions(**{**site.docker, **shared.docker, **own.docker}),
    )


def _place_merged(role: RoleDraft, key: str, places: list[Place]) -> None:
    """Note the places of a role's list as it is after merging: later stages count in that list."""
    for index, place in enumerate(places):
        role.notes.places[f"{role.path}.{key}[{index}]"] = place


def _build(draft: JobDraft, settings: Settings, roles: Mapping[str, Role], deciding: str | None) -> Job:
    if settings.name is None or draft.strategy is None or deciding is None or draft.tf_config is None:
        raise AssertionError("each of these is a problem that has been raised")
    return Job(
        name=settings.name,
        strategy=draft.strategy,
        roles=MappingProxyType(dict(roles)),
        deciding_role=deciding,
        description=settings.description,
        queue=settings.queue,
        network=settings.network or Job.network,
        hadoop=settings.hadoop,
        kerberos=settings.kerberos,
        inputs=settings.inputs,
        outputs=settings.outputs,
        lifetime_s=settings.lifetime_s,
        start_timeout_s=settings.start_timeout_s or Job.start_timeout_s,
        finish_timeout_s=settings.finish_timeout_s or Job.finish_timeout_s,
        grace_s=settings.grace_s or Job.grace_s,
        tf_config=draft.tf_config,
        legacy_master=draft.legacy_master,
        bootstrap=draft.bootstrap,
        python=settings.python.interpreter if settings.python else Job.python,
        packages=settings.python.packages if settings.python else None,
        docker_client_config=settings.docker_client_config,
        places=MappingProxyType(dict(_chief_for_master(draft.notes.places))),
    )


def _chief_for_master(places: Mapping[str, Place]) -> Iterator[tuple[str, Place]]:
    """List every place, those under roles.master also under roles.chief, as the job calls it."""
    for path, place in places.items():
        yield path, place
        if path == "roles.master" or path.startswith("roles.master."):
            yield "roles.chief" + path.removeprefix("roles.master"), place
