"""Read the native job spec: a located tree of nodes → Job, or every problem in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from submit_tf_job.job import HadoopConf, Job, KerberosPrincipal, Place, Role, ShippedFile, Strategy, TFConfigMode
from submit_tf_job.specfile import rules, units
from submit_tf_job.specfile.layers import Layer, merge_files, merge_mounts, read_layer
from submit_tf_job.specfile.nodes import Node, Table, clip, from_python
from submit_tf_job.specfile.notes import Notes
from submit_tf_job.specfile.roles import LABEL, NO_LABEL, RoleDraft, Shapes, read_role
from submit_tf_job.specfile.rules import JobDraft
from submit_tf_job.specfile.shipping import HADOOP_FILES, Shipper
from submit_tf_job.specfile.values import Section, Value
from submit_tf_job.specfile.vocabulary import HADOOP, JOB, KERBEROS, SITE, role_meant

__all__ = ["Defaults", "read_job"]

_NETWORK = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")
_QUEUE = re.compile(r"[^\s,]+")
_PYTHON = re.compile(r"[A-Za-z0-9_./+-]+")
_PRINCIPAL = re.compile(r"[^\s/@]+/[^\s/@]+(@[^\s/@]+)?")
_KEYTAB = re.compile(r"(hdfs://|file:///)\S+")
_CONF_ARCHIVE = re.compile(r"hdfs://\S+\.(zip|tar\.gz|tgz)")
_HADOOP_PATH = re.compile(r"([a-z][a-z0-9+.-]*://|/)\S+")


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


def read_job(root: Node, notes: Notes, *, base: Path | None, defaults: Defaults, hadoop_conf: Path | None) -> Job:
    """Read a job.

    Args:
        root: The job spec, overrides applied.
        notes: Where problems and places go.
        base: Directory that `files` start from; None where no file of this host may be read.
        defaults: What the site says.
        hadoop_conf: Directory on this host for `hadoop.conf: inline`.

    Raises:
        JobSpecError: with every problem found.
    """
    shipper = Shipper(base)
    site_layer, site = _read_site(defaults, notes, shipper)
    whole = Value(root, "", Place(root.place.source, 1, 1), notes)
    own = whole.section(JOB, "keys such as name: and roles:")
    if own is None:
        notes.check()
        raise AssertionError("a root that is no mapping is a problem")
    section = Section(whole, _filled_from(own.table, site), own.meant)
    draft, settings = _read_draft(own, section, Shapes(defaults.shapes, defaults.source), shipper, hadoop_conf)
    if "image" not in draft.layer.states:
        draft.layer.image = site_layer.image
    deciding = rules.decide(draft)
    rules.check(draft, deciding)
    roles = {name: _finish_role(draft, role, site_layer, deciding) for name, role in draft.roles.items()}
    notes.check()
    return _build(draft, settings, {name: role for name, role in roles.items() if role}, deciding)


def _read_site(defaults: Defaults, notes: Notes, shipper: Shipper) -> tuple[Layer, Table]:
    """Read what the site says: the layer below the job's, and the table of the keys that stand alone."""
    place = Place(defaults.source)
    section = Value(from_python(dict(defaults.job), place), "", place, notes).section(SITE, "a partial job spec")
    if section is None:
        return Layer(), Table((), place)
    table = Table(tuple(entry for entry in section.table.entries if entry.key in SITE.known), place)
    return read_layer(Section(section.value, table), shipper), table.without("env", "mounts", "image")


def _filled_from(table: Table, site: Table) -> Table:
    """Add the site's entries for keys about which the job spec is silent."""
    for entry in site.entries:
        if table.find(entry.key) is None:
            table = table.with_entry(entry)
    return table


@dataclass
class _Settings:
    """The keys of a job that stand alone."""

    name: str | None
    description: str
    queue: str | None
    network: str | None
    hadoop: HadoopConf | None
    kerberos: KerberosPrincipal | None
    lifetime_s: int | None
    start_timeout_s: int | None
    finish_timeout_s: int | None
    grace_s: int | None
    python: str | None
    docker_client_config: str | None


def _read_draft(own: Section, section: Section, shapes: Shapes, shipper: Shipper, hadoop_conf: Path | None) -> tuple[JobDraft, _Settings]:
    notes = section.notes
    strategy = section.required(
        "strategy", lambda item: item.one_of(Strategy), "say how the tasks train together, e.g. strategy: multi-worker"
    )
    settings = _read_settings(section, hadoop_conf)
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


def _read_settings(section: Section, hadoop_conf: Path | None) -> _Settings:
    return _Settings(
        name=section.required("name", lambda item: item.matching(LABEL, NO_LABEL), "give the job a name, e.g. name: mnist"),
        description=section.optional("description", lambda item: item.text(empty=True)) or "",
        queue=section.optional("queue", lambda item: item.matching(_QUEUE, "is no queue; write its name or path alone, as in root.ml")),
        network=section.read(
            "network",
            lambda item: item.matching(_NETWORK, "is no Docker network; say host, bridge, or the name of an allowed one"),
            Job.network,
        ),
        hadoop=section.optional("hadoop", lambda item: _hadoop(item, hadoop_conf)),
        kerberos=section.optional("kerberos", _kerberos),
        lifetime_s=section.optional("lifetime", units.duration),
        start_timeout_s=section.read("start_timeout", units.duration, Job.start_timeout_s),
        finish_timeout_s=section.read("finish_timeout", units.duration, Job.finish_timeout_s),
        grace_s=section.read("grace", units.duration, Job.grace_s),
        python=section.read(
            "python", lambda item: item.matching(_PYTHON, "is no interpreter; write its name or path, as in python3"), Job.python
        ),
        docker_client_config=section.optional(
            "docker_client_config", lambda item: item.matching(_HADOOP_PATH, "is no path; write /path on the default file system, or a URI")
        ),
    )


def _deciding(value: Value) -> str | None:
    name = value.text(expected="the name of a role")
    return "chief" if name == "master" else name


def _read_roles(section: Section, shapes: Shapes, shipper: Shipper) -> tuple[dict[str, RoleDraft], bool]:
    """Read the roles; the second value says whether all of them could be read."""
    value = section.required("roles", lambda item: item, "say which tasks there are, e.g. roles: {chief: {memory: 4Gi}}")
    roles: dict[str, RoleDraft] = {}
    whole = value is not None and value.is_mapping
    for name, item in value.members("a mapping of roles, as in {worker: {instances: 2, memory: 8Gi}}") if value else ():
        known_as = "chief" if name == "master" else name
        if not LABEL.fullmatch(name):
            item.fail(_bad_role_name(name))
        if known_as in roles:
            item.fail(f"chief and master are two names of one role; keep {clip(roles[known_as].path.removeprefix('roles.'))}, drop this")
            continue
        role = read_role(item, known_as, shapes, shipper)
        whole = whole and role is not None and LABEL.fullmatch(name) is not None
        if role is not None:
            roles[known_as] = role
    if value is not None and value.is_mapping and not roles and whole:
        value.fail("there is no role; add one, as in chief: {memory: 4Gi}")
        whole = False
    return roles, whole


def _bad_role_name(name: str) -> str:
    meant = role_meant(name)
    return f"{clip(name)} is no role of TensorFlow's; did you mean '{meant}'?" if meant else f"{clip(name)} {NO_LABEL}"


def _hadoop(value: Value, directory: Path | None) -> HadoopConf | None:
    section = value.section(HADOOP, "a mapping such as {conf: inline}")
    if section is None:
        return None
    missing = "say where the configuration comes from, e.g. conf: inline"
    return section.required("conf", lambda item: _hadoop_conf(item, directory), missing)


def _hadoop_conf(value: Value, directory: Path | None) -> HadoopConf | None:
    text = value.text(expected="inline, an archive on HDFS, or a directory of the nodes")
    if text is None:
        return None
    if text == "inline":
        files = _inline_files(value, directory)
        return None if files is None else HadoopConf("inline", files=files)
    if _CONF_ARCHIVE.fullmatch(text):
        return HadoopConf("archive", text)
    if text.startswith("/") and ".." not in text.split("/") and not any(char in text for char in ":, \t\n"):
        return HadoopConf("node", text)
    return value.fail(f"{clip(text)} is none of inline, hdfs://….zip (or .tar.gz, .tgz), /directory/on/the/nodes")


def _inline_files(value: Value, directory: Path | None) -> tuple[ShippedFile, ...] | None:
    if directory is None:
        return value.fail(
            "inline needs a Hadoop configuration on this host, and none is known; "
            "set HADOOP_CONF_DIR, or name an archive on HDFS or a directory of the nodes"
        )
    try:
        found = tuple(ShippedFile(name, (directory / name).read_bytes()) for name in HADOOP_FILES if (directory / name).is_file())
    except OSError as error:
        return value.fail(f"{error.filename} cannot be read: {error.strerror}")
    if not found:
        return value.fail(f"{directory} holds none of {', '.join(HADOOP_FILES)}; point HADOOP_CONF_DIR to the directory that does")
    return found


def _kerberos(value: Value) -> KerberosPrincipal | None:
    section = value.section(KERBEROS, "a mapping such as {principal: svc/_HOST@EXAMPLE.COM, keytab: hdfs:///user/svc/svc.keytab}")
    if section is None:
        return None
    principal = section.required(
        "principal",
        # ServiceApiUtil.validateKerberosPrincipal: must hold a '/'
        lambda item: item.matching(_PRINCIPAL, "is no service principal; YARN wants name/host@REALM, as in svc/_HOST@EXAMPLE.COM"),
        "say principal: svc/_HOST@EXAMPLE.COM",
    )
    keytab = section.required(
        "keytab",
        lambda item: item.matching(_KEYTAB, "is no keytab that YARN can fetch; write hdfs:///path, or file:///path for one on every node"),
        "say keytab: hdfs:///user/svc/svc.keytab",
    )
    return KerberosPrincipal(principal, keytab) if principal and keytab else None


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
    )


def _place_merged(role: RoleDraft, key: str, places: list[Place]) -> None:
    """Note the places of a role's list as it is after merging: later stages count in that list."""
    for index, place in enumerate(places):
        role.notes.places[f"{role.path}.{key}[{index}]"] = place


def _build(draft: JobDraft, settings: _Settings, roles: Mapping[str, Role], deciding: str | None) -> Job:
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
        lifetime_s=settings.lifetime_s,
        start_timeout_s=settings.start_timeout_s or Job.start_timeout_s,
        finish_timeout_s=settings.finish_timeout_s or Job.finish_timeout_s,
        grace_s=settings.grace_s or Job.grace_s,
        tf_config=draft.tf_config,
        legacy_master=draft.legacy_master,
        bootstrap=draft.bootstrap,
        python=settings.python or Job.python,
        docker_client_config=settings.docker_client_config,
        places=MappingProxyType(dict(_chief_for_master(draft.notes.places))),
    )


def _chief_for_master(places: Mapping[str, Place]) -> Iterator[tuple[str, Place]]:
    """List every place, those under roles.master also under roles.chief, as the job calls it."""
    for path, place in places.items():
        yield path, place
        if path == "roles.master" or path.startswith("roles.master."):
            yield "roles.chief" + path.removeprefix("roles.master"), place
