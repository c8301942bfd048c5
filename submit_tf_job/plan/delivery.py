"""Decide how each file of a job reaches the tasks' working directories.

With a staging directory:
- `bootstrap.zip`, the same for all jobs: once for each version of this package, as
  `STAGING/bootstrap/HASH/bootstrap.zip`, and never removed, because any run may need it.
- A role's files, an inline Hadoop configuration and krb5.conf: small files as one tar, files of all
  roles as a second one, large files each by itself.
- Python packages: as an ARCHIVE, which each node unpacks once.
- The keytab and the lists of sharded inputs: for one run, when it is submitted.

Files and packages are `STAGING/files/JOB/HASH/NAME`, so that equal contents are uploaded once;
keytabs and lists are below `STAGING/keytabs/JOB/` and `STAGING/lists/JOB/`, by run.

Without a staging directory `bootstrap.zip` and a tar of each role's files are inside the service,
as base64 in TEMPLATE files, which YARN writes to `conf/`.

In both cases:
- The task description: a TEMPLATE file.
- A Hadoop configuration archive: an ARCHIVE that is on HDFS already.
- A file of HDFS that `files` names: copied by YARN from there, under a link that the bootstrap
  gives its name.

A tar is a list of pieces, bytes and files of this host, and is never in memory as a whole. Its
bytes depend only on names, modes and contents.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from submit_tf_job.container import contract
from submit_tf_job.errors import Problem
from submit_tf_job.jobspec.job import HostFile, Job, Mount, Packages, ShippedFile
from submit_tf_job.plan.bootstrap_zip import bootstrap_zip
from submit_tf_job.plan.site import Site

# directories of the staging directory: of jobs, and of all
FILES, LISTS, KEYTABS, MEETING = KINDS = ("files", "lists", "keytabs", "rendezvous")
_BOOTSTRAP = "bootstrap"
# A file of at least this size is staged by itself, and not uploaded again when another changes.
LARGE = 16 * 1024**2
# Limit of all roles: each file takes about 350 bytes per role in a service of at most 60 KB.
MOST_LARGE = 80
# Files that all roles have are staged once if they have at least this size.
COMMON = 4 * 1024**2


@dataclass(frozen=True)
class Stage:
    """The directories in the staging directory for all jobs with one name.

    Attributes:
        files: URI of the directory for contents, which are named by their hash.
        lists: URI of the directory for lists of sharded inputs, which are named by their run.
        keytabs: URI of the directory for keytabs, which are named by their run.
        meeting: URI of the directory for the addresses of deciding tasks, which are named by their
            run.
    """

    files: str
    lists: str
    keytabs: str
    meeting: str

    @classmethod
    def of(cls, staging: str | None, job_name: str) -> Stage:
        """Return the directories below a staging directory; without one (None), URIs that nothing
        uses.
        """
        return cls(*(f"{staging or ''}/{kind}/{job_name}" for kind in KINDS))


@dataclass(frozen=True)
class Pack:
    """A tar of files.

    Attributes:
        files: The files by name, each once.
    """

    files: tuple[ShippedFile, ...] = field(repr=False)

    @cached_property
    def pieces(self) -> tuple[bytes | HostFile, ...]:
        """The parts of the tar, in order."""
        return tuple(self._archive_pieces())

    def _archive_pieces(self) -> Iterator[bytes | HostFile]:
        import tarfile  # most jobs ship no files

        written = 0
        for file in self.files:
            info = tarfile.TarInfo(file.name)
            info.size = file.size
            info.mode = 0o755 if file.executable else 0o644
            header = info.tobuf(tarfile.PAX_FORMAT)
            padding = -file.size % tarfile.BLOCKSIZE
            yield header
            yield file.content
            yield b"\0" * padding
            written += len(header) + file.size + padding
        end = 2 * tarfile.BLOCKSIZE
        yield b"\0" * (end + -(written + end) % tarfile.RECORDSIZE)

    @cached_property
    def size(self) -> int:
        """Bytes of the tar."""
        return sum(
            piece.size if isinstance(piece, HostFile) else len(piece) for piece in self.pieces
        )

    @cached_property
    def sha256(self) -> str:
        """Hash of the names, modes and content hashes of the files; no file is read for it."""
        digest = hashlib.sha256()
        for file in self.files:
            digest.update(
                f"{file.name}\0{file.executable:d} {file.size} {file.sha256}\n".encode(
                    "utf-8", "surrogateescape"
                )
            )
        return digest.hexdigest()

    @property
    def is_held(self) -> bool:
        """Whether all content of the tar is in memory, so that it can be sent inside the
        service.
        """
        return not any(isinstance(file.content, HostFile) for file in self.files)

    def tobytes(self) -> bytes:
        """Return the tar, all of which must be in memory (`is_held`)."""
        assert self.is_held
        return b"".join(piece for piece in self.pieces if isinstance(piece, bytes))


def pack(files: Iterable[ShippedFile]) -> Pack | None:
    """Return a tar of files, sorted by name; None for no files."""
    entries = tuple(sorted(files, key=lambda item: item.name))
    return Pack(entries) if entries else None


Content: TypeAlias = bytes | HostFile | Pack


@dataclass(frozen=True)
class Upload:
    """A file that must exist at `uri` before the service is posted.

    Attributes:
        content: The bytes, a file of this host, or a tar.
        secret: Whether the file is the job's keytab, which only its owner can read, is in a
            directory of its own, and is removed with the job.
        shared: Whether other jobs use the file, so that it is not removed with this job.
    """

    uri: str
    content: Content = field(repr=False)
    secret: bool = False
    shared: bool = False

    @property
    def size(self) -> int:
        """Size in bytes."""
        return len(self.content) if isinstance(self.content, bytes) else self.content.size

    @property
    def directory(self) -> str:
        """The URI of the directory that contains only this content. The directory's name is the
        hash of the content; for a keytab, it is the run's name and a hash of its list of keys.
        """
        return self.uri.rpartition("/")[0]


@dataclass(frozen=True)
class File:
    """A file that YARN puts into the working directory of tasks.

    Attributes:
        name: The file's name in the working directory.
        uri: The file's URI: usually one part; two parts for a file of one run, whose name is
            inserted between them; () for a TEMPLATE.
        content: The content to upload to the URI; None for a file that exists already, for a list
            of an input's files, which is written when the job is submitted, and for a TEMPLATE.
        type: STATIC; ARCHIVE for a file that is unpacked; TEMPLATE for a file inside the service.
        text: The content of a TEMPLATE.
        roles: The roles whose tasks get the file; None for all roles.
        secret: Whether the file is a keytab.
        shared: Whether other jobs use the content.
    """

    name: str
    uri: tuple[str, ...] = ()
    content: Content | None = field(default=None, repr=False)
    type: Literal["STATIC", "ARCHIVE", "TEMPLATE"] = "STATIC"
    text: str = field(default="", repr=False)
    roles: tuple[str, ...] | None = None
    secret: bool = False
    shared: bool = False


@dataclass(frozen=True)
class Contribution:
    """What one part of a job, such as its inputs and outputs, contributes to the job's plan.

    Attributes:
        env: Role → variables that YARN sets.
        files: Files that YARN puts into working directories.
        shipped: Files that are sent together with each role's own files.
        mounts: Mounts of every container.
        task: Keys of the task description, which the bootstrap reads.
        problems: Why the job cannot run.
    """

    env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    files: tuple[File, ...] = ()
    shipped: tuple[ShippedFile, ...] = ()
    mounts: tuple[Mount, ...] = ()
    task: Mapping[str, object] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class Delivery:
    """How the bootstrap and the roles' files get to the tasks.

    Attributes:
        files: The files that YARN puts into the working directories.
        task: Role → what the bootstrap has to do with the files: links to create, archives to
            unpack.
        unpacks: The first part of the launch command, in which `%s` stands for the interpreter.
    """

    files: tuple[File, ...]
    task: Mapping[str, Mapping[str, object]]
    unpacks: str = ""

    def command(self, interpreter: str) -> str:
        """Return the launch command.

        The command needs `exec`: YARN appends redirections, so without `exec` bash would stay
        process 1, and the program would never get SIGTERM (hadoop-facts.md#sigterm).
        """
        first = self.unpacks and self.unpacks % interpreter
        return f"{first}exec {interpreter} {contract.BOOTSTRAP_FILE}"


def remote_files(job: Job) -> Contribution:
    """Return the files of HDFS that the job spec's `files` name, which YARN copies to the nodes."""
    roles: dict[tuple[str, str, bool], list[str]] = {}
    for role in job.roles.values():
        for file in role.remote_files:
            wanted = roles.setdefault((file.link, file.uri, file.unpack), [])
            if role.name not in wanted:
                wanted.append(role.name)
    files = []
    for (link, uri, unpack), names in roles.items():
        kind: Literal["ARCHIVE", "STATIC"] = "ARCHIVE" if unpack else "STATIC"
        files.append(File(link, (uri,), type=kind, roles=tuple(names)))
    return Contribution(files=tuple(files))


def packages_contribution(job: Job, site: Site, stage: Stage) -> Contribution:
    """Return the archives of the Python packages of the job or of its roles, which each node
    unpacks once, and what the bootstrap has to do with them.
    """
    own = {role.name: role.python.packages for role in job.roles.values() if role.python}
    shared = tuple(role for role in job.roles if role not in own)
    groups: dict[Packages, tuple[str, ...]] = {}
    for role, packages in [*((role, job.packages) for role in shared), *own.items()]:
        if packages is not None:
            groups[packages] = (*groups.get(packages, ()), role)
    task: dict[str, object] = {}
    if job.packages is not None and shared:
        task["packages"] = _packages_object(job.packages)
    if own:
        task["role_packages"] = {
            role: None if packages is None else _packages_object(packages)
            for role, packages in own.items()
        }
    return Contribution(
        files=tuple(
            _packages_archive(packages, stage, None if len(roles) == len(job.roles) else roles)
            for packages, roles in groups.items()
        ),
        task=task,
        problems=tuple(_packages_problems(job))
        if not site.staging and (job.packages or own)
        else (),
    )


def _packages_object(packages: Packages) -> dict[str, str]:
    return {"kind": packages.kind.value, "version": packages.version}


def _packages_archive(packages: Packages, stage: Stage, roles: tuple[str, ...] | None) -> File:
    # A NodeManager chooses how to unpack by the name's suffix (FSDownload.unpack).
    ends = (".tar.gz", ".tgz", ".tar", ".zip")
    end = next(end for end in ends if packages.archive.path.name.endswith(end))
    uri = f"{stage.files}/{packages.archive.sha256}/packages{end}"
    return File(contract.PACKAGES_LINK, (uri,), packages.archive, "ARCHIVE", roles=roles)


def _packages_problems(job: Job) -> Iterator[Problem]:
    """Yield a problem for each key that asks for packages, of a job without a staging directory."""
    paths = ["python"] if job.packages else []
    paths += [
        f"roles.{role.name}.python"
        for role in job.roles.values()
        if role.python and role.python.packages
    ]
    for path in paths:
        yield job.problem(
            path,
            "packages go to HDFS, and none is configured; set hadoop_conf in the settings, or "
            "staging: hdfs://…",
        )


def delivered(job: Job, shipped: Sequence[ShippedFile], staging: str | None) -> Delivery:
    """Return how a job's bootstrap and files get to its tasks.

    Args:
        job: The job.
        shipped: Files that are sent together with each role's own files.
        staging: The staging directory; None if no file system for it is known.
    """
    files = {role.name: (*role.files, *shipped) for role in job.roles.values()}
    return _staged_delivery(job, files, staging) if staging else _inline_delivery(job, files)


def _staged_delivery(
    job: Job, files: Mapping[str, Sequence[ShippedFile]], staging: str
) -> Delivery:
    content, name = bootstrap_zip(), contract.BOOTSTRAP_FILE
    uri = f"{staging}/{_BOOTSTRAP}/{hashlib.sha256(content).hexdigest()}/{name}"
    sent, stage = shipments(files), Stage.of(staging, job.name)
    own = (
        File(name, (f"{stage.files}/{content.sha256}/{name}",), content, roles=(role,))
        for role, shipment in sent.items()
        for name, content in shipment.contents.items()
    )
    return Delivery((File(name, (uri,), content, shared=True), *own), _task_files(job, sent))


def _inline_delivery(job: Job, files: Mapping[str, Sequence[ShippedFile]]) -> Delivery:
    packed = base64.b64encode(bootstrap_zip()).decode("ascii")
    inside = [File(contract.INLINE_BOOTSTRAP, type="TEMPLATE", text=packed)]
    for role, own in files.items():
        made = pack(own)
        if made:
            text = base64.b64encode(zlib.compress(made.tobytes(), 9)).decode("ascii")
            inside.append(File(contract.INLINE_FILES, type="TEMPLATE", text=text, roles=(role,)))
    unpacks = f"%s -m base64 -d conf/{contract.INLINE_BOOTSTRAP} >{contract.BOOTSTRAP_FILE}; "
    return Delivery(tuple(inside), _task_files(job, {}), unpacks)


def _task_files(job: Job, sent: Mapping[str, Shipment]) -> dict[str, dict[str, object]]:
    roles = {}
    for role in job.roles.values():
        found: dict[str, object] = {}
        links = {file.name: file.link for file in role.remote_files}
        if role.name in sent:
            links.update(sent[role.name].links)
        if links:
            found["links"] = links
        archives = {file.name: file.unpack for file in role.files if file.unpack}
        if archives:
            found["unpack"] = archives
        if found:
            roles[role.name] = found
    return roles


@dataclass(frozen=True)
class Shipment:
    """The staged files of one role.

    Attributes:
        contents: Name in the working directory → a tar, or a file that is staged separately.
        links: Name of a file → the link to which it points.
    """

    contents: Mapping[str, Pack | HostFile]
    links: Mapping[str, str]


def shipments(files: Mapping[str, Sequence[ShippedFile]]) -> dict[str, Shipment]:
    """Return the staged files of each role; `files` has the files of each role."""
    alone = _staged_alone(files)
    rest = {
        role: [file for file in own if not (file.size >= LARGE and file.sha256 in alone)]
        for role, own in files.items()
    }
    common = _common_files(rest)
    return {role: _shipment_of(own, rest[role], common, alone) for role, own in files.items()}


def _staged_alone(files: Mapping[str, Sequence[ShippedFile]]) -> frozenset[str]:
    """Return the hashes of the contents that are staged as separate files: those of the largest
    files.
    """
    sizes = {
        file.sha256: file.size
        for own in files.values()
        for file in own
        if isinstance(file.content, HostFile) and file.size >= LARGE
    }
    return frozenset(
        sorted(sizes, key=lambda sha256: (-sizes[sha256], sha256))[: MOST_LARGE // len(files)]
    )


def _common_files(files: Mapping[str, Sequence[ShippedFile]]) -> frozenset[ShippedFile]:
    first, *others = files.values()
    if all(own == first for own in others):
        return frozenset()  # all roles have the same tar
    shared = frozenset(first).intersection(*others)
    return shared if sum(file.size for file in shared) >= COMMON else frozenset()


def _shipment_of(
    own: Sequence[ShippedFile],
    rest: Sequence[ShippedFile],
    common: frozenset[ShippedFile],
    alone: frozenset[str],
) -> Shipment:
    packs = {
        contract.COMMON_ARCHIVE: pack(file for file in rest if file in common),
        contract.PAYLOAD_ARCHIVE: pack(file for file in rest if file not in common),
    }
    contents: dict[str, Pack | HostFile] = {name: made for name, made in packs.items() if made}
    links = {}
    for file in own:
        if isinstance(file.content, HostFile) and file.size >= LARGE and file.sha256 in alone:
            links[file.name] = f"{contract.LARGE_LINK}{file.sha256[:16]}"
            contents[links[file.name]] = file.content
    return Shipment(contents, links)
