"""Read a job spec, or a file of another format (docs/dialects.md), as a `Job`, or report every
problem in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from submit_tf_job import dialects
from submit_tf_job.container import contract
from submit_tf_job.container.installed import LEGACY_KERAS
from submit_tf_job.errors import JobSpecError, Problem
from submit_tf_job.host.located.text_source import MAX_BYTES, decode
from submit_tf_job.host.located.tree import (
    Diagnostics,
    Location,
    Node,
    Pair,
    Scalar,
    ScalarKind,
    Table,
    Unreadable,
    Where,
    closest,
)
from submit_tf_job.host.quoting import clip
from submit_tf_job.host.user_files import read_input, reason
from submit_tf_job.jobspec import rules
from submit_tf_job.jobspec.files import Host, Shipper
from submit_tf_job.jobspec.host_keys import read_hadoop, read_kerberos, read_python
from submit_tf_job.jobspec.job import (
    Command,
    DockerOptions,
    Job,
    KerasMode,
    Placement,
    Python,
    RemoteFile,
    Restart,
    Role,
    RoleKind,
    ShippedFile,
)
from submit_tf_job.jobspec.keys import JOB, SHARED, SITE
from submit_tf_job.jobspec.overrides import SET, apply
from submit_tf_job.jobspec.reading_budget import TooMuch
from submit_tf_job.jobspec.roles import (
    Defaults,
    Layer,
    RoleDraft,
    merge_files,
    merge_mounts,
    read_layer,
    read_role,
)
from submit_tf_job.jobspec.rules import JobDraft
from submit_tf_job.jobspec.validate import typed

if TYPE_CHECKING:
    from submit_tf_job.dialects.translation import Translation

WITNESS_MIB = 256
_NO_DEFAULTS = Defaults()


@dataclass(frozen=True)
class ReadJob:
    """A job that was read.

    Attributes:
        job: The job.
        tree: The tree of the job spec, with the overrides applied.
        source: The name of the job spec in messages.
        text: The text of the file; None if overrides or another name changed it, if it has another
            format, or for a command line.
        translation: The translation from another format; None if the file was a job spec.
    """

    job: Job
    tree: Table
    source: str
    text: str | None
    translation: Translation | None


def read_file(path: Path) -> bytes:
    """Return the content of a job spec file; only the beginning if the file is too large.

    Raises:
        JobSpecError: The file cannot be read.
    """
    try:
        return read_input(path, MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise JobSpecError(
            [Problem(0, 0, "", f"cannot be read: {reason(error)}", str(path))]
        ) from None


def loads(text: str | bytes, *, source: str, base: Path | None, **more: Any) -> Job:
    """Read a job spec from text.

    Args:
        text: The job spec, YAML or (by the suffix of its source, or by its content) JSON.
        source: The name of the text in messages.
        base: The directory from which relative paths start; None if no file of this host may be
            read.
        more: The other arguments of `read`; `host` may be given for more than `base`.

    Raises:
        JobSpecError: The text is not a valid job spec; the error has every problem found.
        UsageError: As `ReadingBudget.check`, if `host` has a budget with limits.

    Example:
        >>> loads(text, source="train.yaml", base=Path(), overrides=["roles.worker.instances=8"])
    """
    return read(text, source=source, **{"host": Host(base), **more}).job


def read(
    content: str | bytes | Sequence[str],
    *,
    source: str,
    host: Host,
    defaults: Defaults = _NO_DEFAULTS,
    overrides: Sequence[str] = (),
    name: str | None = None,
    dialect: str | None = None,
) -> ReadJob:
    """Read a file, or a command line of another system.

    Args:
        content: The file; or the words of a command line, with the program.
        source: The name of the file or command line in messages.
        host: The files of this host that the job may use.
        defaults: The site's settings for keys that the job spec does not state.
        overrides: `path=value`, as `--set` takes them; a later override replaces an earlier one.
        name: The job's name instead of the file's.
        dialect: The file's format; "jobspec" for a job spec of this package; None to recognise the
            format.

    Raises:
        JobSpecError: The content is not a valid job; the error has every problem found.
        UsageError: As `ReadingBudget.check`.
    """
    notes = Diagnostics(source)
    text: str | None = None
    try:
        if isinstance(content, (str, bytes)):
            text = decode(content, source)
            root, reading = dialects.read(text, notes, dialect)
        else:
            root, reading = dialects.read_command(content, notes, host.base or Path(), dialect)
    except Unreadable as error:
        notes.problem(error.place, error.path, str(error))
        raise JobSpecError(notes.problems) from None
    if isinstance(root, Table):
        # Editors of JSON find the schema by this key.
        root = root.without("$schema")
        root = apply(root, overrides, notes) if overrides else root
    if isinstance(root, Table) and name is not None:
        place = Location("--name")
        root = root.with_entry(Pair("name", place, Scalar(ScalarKind.TEXT, name, place)))
    if reading is not None and isinstance(root, Table):
        root = reading.complete(root, defaults.job, defaults.task_memory)
    stated = root
    if overrides and isinstance(root, Table):
        stated = _without_set_roles(root, notes)
    job = _read_job(stated, notes, host, defaults)
    assert isinstance(root, Table)  # any other is refused
    if reading is not None:
        job = replace(job, remarks=(*reading.remarks, *job.remarks))
    if reading is not None or overrides or name is not None:
        text = None
    return ReadJob(job, root, source, text, reading)


def _read_job(root: Node, notes: Diagnostics, host: Host, defaults: Defaults) -> Job:
    """Return the job of a located tree in which the overrides are already applied.

    Files that the job names are read, downloaded, or built with pip.

    Raises:
        JobSpecError: The tree is not a valid job; the error has every problem found.
        UsageError: As `ReadingBudget.check`.
    """
    shipper, at = Shipper(host), Where("", notes)
    site: dict[str, Any] = {}
    if defaults.job:
        stated = defaults.located("job", defaults.job)
        site = typed(stated, SITE, at, stated.place) or {}
    site_layer = read_layer(site, at, shipper)
    own = typed(root, JOB, at, Location(root.place.source, line=1, column=1))
    if own is None:
        notes.check()
        raise AssertionError("a root that is not a mapping is a problem")
    draft = _read_draft(own, site, at, defaults, shipper)
    files = sum(len(draft.layer.files) + len(role.layer.files) for role in draft.roles.values())
    try:
        host.budget.check_role_files(files)
    except TooMuch as error:
        at.fail(str(error), "files")
        notes.check()
    deciding = rules.decide(draft)
    rules.check(draft, deciding)
    roles = {
        name: _finish_role(draft, role, site_layer, deciding) for name, role in draft.roles.items()
    }
    shipper.save()
    notes.check()
    job = _build_job(draft, {name: role for name, role in roles.items() if role}, deciding)
    return replace(job, remarks=tuple(shipper.remarks))


def _read_draft(
    own: dict[str, Any], site: dict[str, Any], at: Where, defaults: Defaults, shipper: Shipper
) -> JobDraft:
    values = {key: value for key, value in (site | own).items() if key not in {*SHARED, "roles"}}
    stated = own.get("roles") or {}
    roles = _read_roles(stated, at.member("roles"), defaults, shipper)
    roles_read = 0 < len(roles) == len(stated)
    draft = JobDraft(at, read_layer(own, at, shipper), roles, values, roles_read)
    rules.fill_defaults(draft)
    _read_of_host(draft, shipper)
    return draft


def _read_of_host(draft: JobDraft, shipper: Shipper) -> None:
    """Read the files of this host that are named by keys of the job."""
    at, values, host = draft.at, draft.values, shipper.host
    if values.get("hadoop"):
        conf = at.member("hadoop").member("conf")
        asked = values["hadoop"]["conf"]
        values["hadoop"] = read_hadoop(asked, conf, host) if asked else None
    if values.get("kerberos"):
        values["kerberos"] = read_kerberos(values["kerberos"], at.member("kerberos"), host)
    if values.get("python") is not None:
        values["python"] = read_python(values["python"], at.member("python"), shipper)


def _read_roles(
    stated: Mapping[str, dict[str, Any] | None], at: Where, defaults: Defaults, shipper: Shipper
) -> dict[str, RoleDraft]:
    roles: dict[str, RoleDraft] = {}
    for name, values in stated.items():
        inside, known_as = at.member(name), "chief" if name == "master" else name
        if known_as in roles:
            first = roles[known_as].at.path.removeprefix("roles.")
            inside.fail(f"chief and master are two names of one role; keep {first}, drop this")
        elif values is not None:
            roles[known_as] = read_role(values, known_as, inside, defaults, shipper)
    return roles


def _without_set_roles(root: Table, notes: Diagnostics) -> Table:
    """Return the tree without roles that exist only because of `--set` and that state no memory;
    report each of these roles.
    """
    entry = root.find("roles")
    if entry is None or not isinstance(entry.value, Table):
        return root
    table = entry.value
    for role in table.entries:
        states = {key.key for key in role.value.entries} if isinstance(role.value, Table) else None
        if role.place.source == SET and states is not None and not states & {"memory", "shape"}:
            others = [other.key for other in table.entries if other.place.source != SET]
            message = _no_such_role(role.key, others)
            notes.problem(role.place, f"roles.{role.key}", message)
            table = table.without(role.key)
    return root.with_entry(Pair("roles", entry.place, table))


def _no_such_role(name: str, others: list[str]) -> str:
    near = closest(name, others)
    meant = f"did you mean {clip(near)}?" if near else f"it has {', '.join(others)}"
    return f"the job spec has no role {clip(name)}; {meant} (a new role needs memory, too)"


def _finish_role(job: JobDraft, role: RoleDraft, site: Layer, deciding: str | None) -> Role | None:
    layers = (site, job.layer, role.layer)
    stated = next((layer for layer in reversed(layers) if "image" in layer.values), None)
    image = stated.values["image"] if stated else None
    if stated is None:
        job.fail(
            "image",
            "missing; say which Docker image to run, e.g. image: registry.example.com/ml/tf:2.15",
        )
    command = role.layer.values.get("command")
    if "command" not in role.layer.values:
        if rules.takes_job_command(job, role, deciding):
            command = job.layer.values.get("command")
        rules.check_command(job, role, deciding)
    files = merge_files([job.layer.files, role.layer.files])
    mounts = merge_mounts([layer.mounts for layer in layers])
    _place_merged(role, "files", [at.place for _, at in files])
    _place_merged(role, "mounts", [place for _, place in mounts])
    if job.at.notes.problems or image is None or command is None:
        return None  # after a problem no job is built
    restart, max_restarts = role.values.pop("restart", (Restart.NEVER, 0))
    env = {LEGACY_KERAS: "1"} if job.values.get("keras") is KerasMode.LEGACY else {}
    docker: dict[str, Any] = {}
    for layer in layers:
        env |= layer.mapping("env")
        docker |= layer.mapping("docker")
    return Role(
        name=role.name,
        command=command,
        image=image,
        env=MappingProxyType(env),
        files=tuple(file for file, _ in files if isinstance(file, ShippedFile)),
        remote_files=tuple(file for file, _ in files if isinstance(file, RemoteFile)),
        mounts=tuple(mount for mount, _ in mounts),
        restart=restart,
        max_restarts=max_restarts,
        docker=DockerOptions(**docker),
        workdir=role.layer.values.get("workdir") or job.layer.values.get("workdir") or "",
        **{"instances": 1, **role.values, "kind": rules.kind_of(job, role, deciding)},
    )


def _place_merged(role: RoleDraft, key: str, places: list[Location]) -> None:
    """Record the locations of the entries in a role's merged list, because later stages refer to
    entries by index.
    """
    for index, place in enumerate(places):
        role.at.notes.places[f"{role.at.path}.{key}[{index}]"] = place


def _build_job(draft: JobDraft, roles: Mapping[str, Role], deciding: str | None) -> Job:
    values = draft.values
    python = values.pop("python", Python())
    # of a deciding role with several tasks YARN awaits every end: docs/internals/endings.md
    several = deciding is not None and roles[deciding].instances > 1
    if deciding and (values.get("retries") or several):
        interpreter = (roles[deciding].python or python).interpreter or python.interpreter
        roles = {**roles, contract.WITNESS_ROLE: _witness_role(roles[deciding], interpreter)}
    return Job(
        **{
            **values,
            "roles": MappingProxyType(dict(roles)),
            "deciding_role": deciding,
            "python": python.interpreter,
            "packages": python.packages,
            "places": MappingProxyType(dict(_chief_for_master(draft.at.notes.places))),
        }
    )


def _witness_role(deciding: Role, interpreter: str) -> Role:
    """Return the witness: a sidecar that ends, with the exit status of the job, once the job has
    ended; its end is also the end of the YARN application.
    """
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
    """Yield path and location of every value. A value under roles.master is also yielded under
    roles.chief, which is the role's name in the job.
    """
    for path, place in places.items():
        yield path, place
        if path == "roles.master" or path.startswith("roles.master."):
            yield "roles.chief" + path.removeprefix("roles.master"), place
