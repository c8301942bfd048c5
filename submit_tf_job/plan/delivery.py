"""Decide how each file of a job reaches the tasks' working directories.

- `bootstrap.py`: in the service, as a TEMPLATE file, which YARN writes to `conf/`; staged as a
  STATIC file if the service would be too large.
- A role's files, an inline Hadoop configuration and krb5.conf: as a tar inside `bootstrap.py`;
  staged if the service would be too large or a file is read from disk: small files as one tar,
  files of all roles as a second one, large files each by itself.
- Python packages: staged as an ARCHIVE, which each node unpacks once.
- A Hadoop configuration archive: an ARCHIVE that is on HDFS already.
- A file of HDFS that `files` names: copied by YARN from there, under a link that the bootstrap
  gives its name.
- The keytab: a file of HDFS or of the nodes, or staged for one run.
- The lists of sharded inputs: staged for one run, when it is submitted.

A staged file is `STAGING/files/JOB/HASH/NAME`, so that equal contents are uploaded once; keytabs
and lists are below `STAGING/keytabs/JOB/` and `STAGING/lists/JOB/`, by run.

A tar is a list of pieces, bytes and files of this host, and is never in memory as a whole. Its
bytes depend only on names, modes and contents.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, TypeAlias

from submit_tf_job.container import contract
from submit_tf_job.errors import Problem
from submit_tf_job.jobspec.job import HostFile, Job, Mount, ShippedFile

__all__ = [
    "FILES",
    "KEYTABS",
    "KINDS",
    "LARGE",
    "LISTS",
    "MEETING",
    "Content",
    "Contribution",
    "Delivery",
    "File",
    "Pack",
    "Shipment",
    "Stage",
    "Upload",
    "deliveries",
    "pack",
    "remote_files",
    "shipments",
]

# directories of the staging directory
FILES, LISTS, KEYTABS, MEETING = KINDS = ("files", "lists", "keytabs", "rendezvous")
# A file of at least this size is staged by itself, and not uploaded again when another changes.
LARGE = 16 * 1024**2
# Limit of all roles: each file takes about 350 bytes per role in a service of at most 60 KB.
MOST_LARGE = 80
# Files that all roles have are staged once if they have at least this size.
COMMON = 4 * 1024**2


@dataclass(frozen=True)
class Stage:
    """The directories for jobs of one name; YARN runs one job of a name at a time.

    Attributes:
        files: URI of the directory for contents, by their hash.
        lists: URI of the directory for lists of sharded inputs, by run.
        keytabs: URI of the directory for keytabs, by run.
        meeting: URI of the directory for the deciding task's address, by run.
    """

    files: str
    lists: str
    keytabs: str
    meeting: str

    @classmethod
    def of(cls, staging: str | None, job_name: str) -> Stage:
        """Return the directories below a staging directory."""
        return cls(*(f"{staging or ''}/{kind}/{job_name}" for kind in KINDS))


@dataclass(frozen=True)
class Pack:
    """A tar of files.

    Attributes:
        files: By name, each once.
    """

    files: tuple[ShippedFile, ...] = field(repr=False)

    @cached_property
    def pieces(self) -> tuple[bytes | HostFile, ...]:
        """The parts of the tar, in order."""
        return tuple(self._pieces())

    def _pieces(self) -> Iterator[bytes | HostFile]:
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
        """Hash of the files' names, modes and hashes; no file is read for it."""
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
        """Whether the whole tar is in memory, so that it can be sent inside the service."""
        return not any(isinstance(file.content, HostFile) for file in self.files)

    def tobytes(self) -> bytes:
        """Return the tar, if it is in memory."""
        assert self.is_held
        return b"".join(piece for piece in self.pieces if isinstance(piece, bytes))


def pack(files: Iterable[ShippedFile]) -> Pack | None:
    """Return a tar of files; None for no files."""
    entries = tuple(sorted(files, key=lambda item: item.name))
    return Pack(entries) if entries else None


Content: TypeAlias = bytes | HostFile | Pack


@dataclass(frozen=True)
class Upload:
    """A file that must exist at `uri` before the service is posted.

    Attributes:
        secret: Whether it is the job's keytab: readable by its owner alone, in a directory of its
            own, and removed with the job.
    """

    uri: str
    content: Content = field(repr=False)
    secret: bool = False

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.content) if isinstance(self.content, bytes) else self.content.size

    @property
    def directory(self) -> str:
        """The URI of its directory, which contains only this file and is named by its hash; a
        keytab's is named by the run.
        """
        return self.uri.rpartition("/")[0]


@dataclass(frozen=True)
class File:
    """A file that YARN puts into the working directory of tasks.

    Attributes:
        name: Its name in that directory.
        uri: The parts of its URI; the submission's id belongs between them.
        content: The content to upload to the URI; None for an existing file.
        type: STATIC, ARCHIVE for one that is unpacked, TEMPLATE for one inside the service.
        text: The content of a TEMPLATE.
        roles: The roles whose tasks get it; None for all.
        secret: Whether it is a keytab.
    """

    name: str
    uri: tuple[str, ...] = ()
    content: Content | None = field(default=None, repr=False)
    type: Literal["STATIC", "ARCHIVE", "TEMPLATE"] = "STATIC"
    text: str = field(default="", repr=False)
    roles: tuple[str, ...] | None = None
    secret: bool = False


@dataclass(frozen=True)
class Contribution:
    """The contribution of one part of a job to its plan.

    Attributes:
        env: Role → variables that YARN sets.
        files: Files that YARN puts into working directories.
        shipped: Files that are sent with each role's own.
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
    """One way to deliver the roles' files to the tasks.

    Attributes:
        tars: Role → the tar inside its `bootstrap.py`.
        files: The files that are staged instead.
        task: Role → the bootstrap's work on the files: links to create, archives to unpack.
        bootstrap_staged: Whether `bootstrap.py` is staged, too.
    """

    tars: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    files: tuple[File, ...] = ()
    task: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    bootstrap_staged: bool = False


def remote_files(job: Job) -> Contribution:
    """Return the files of HDFS that YARN copies to the nodes."""
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


def deliveries(
    job: Job, shipped: Sequence[ShippedFile], stage: Stage | None
) -> tuple[Delivery, ...]:
    """Return the possible deliveries of a job's files, the largest service first.

    Args:
        job: The job.
        shipped: Files that are sent with each role's own.
        stage: The staging directories; None without a staging file system.
    """
    if not job.bootstrap:
        return (Delivery(),)
    files = {role.name: (*role.files, *shipped) for role in job.roles.values()}
    packs = {role: made for role, own in files.items() if (made := pack(own))}
    inside = []
    if all(made.is_held for made in packs.values()):
        tars = {role: made.tobytes() for role, made in packs.items()}
        inside.append(Delivery(tars, task=_task(job, {})))
    if stage is None:
        return tuple(inside)
    sent = shipments(files)
    staged = Delivery(
        files=tuple(
            File(name, (f"{stage.files}/{content.sha256}/{name}",), content, roles=(role,))
            for role, shipment in sent.items()
            for name, content in shipment.contents.items()
        ),
        task=_task(job, sent),
    )
    return (*inside, staged, replace(staged, bootstrap_staged=True))


def _task(job: Job, sent: Mapping[str, Shipment]) -> dict[str, dict[str, object]]:
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
        packs: Name in the working directory → tar.
        large: Name of the link in the working directory → file that is staged by itself.
        links: Name of a file → the link to which it points.
    """

    packs: Mapping[str, Pack]
    large: Mapping[str, HostFile]
    links: Mapping[str, str]

    @property
    def contents(self) -> dict[str, Pack | HostFile]:
        """Name in the working directory → staged content."""
        return {**self.packs, **self.large}


def shipments(files: Mapping[str, Sequence[ShippedFile]]) -> dict[str, Shipment]:
    """Return the staged files of each role."""
    alone = _alone(files)
    rest = {
        role: [file for file in own if not (file.size >= LARGE and file.sha256 in alone)]
        for role, own in files.items()
    }
    common = _common(rest)
    return {role: _shipment(own, rest[role], common, alone) for role, own in files.items()}


def _alone(files: Mapping[str, Sequence[ShippedFile]]) -> frozenset[str]:
    """Return the hashes of the contents that are staged as separate files: the largest ones."""
    sizes = {
        file.sha256: file.size
        for own in files.values()
        for file in own
        if isinstance(file.content, HostFile) and file.size >= LARGE
    }
    return frozenset(
        sorted(sizes, key=lambda sha256: (-sizes[sha256], sha256))[: MOST_LARGE // len(files)]
    )


def _common(files: Mapping[str, Sequence[ShippedFile]]) -> frozenset[ShippedFile]:
    first, *others = files.values()
    if all(own == first for own in others):
        return frozenset()  # all roles have the same tar
    shared = frozenset(first).intersection(*others)
    return shared if sum(file.size for file in shared) >= COMMON else frozenset()


def _shipment(
    own: Sequence[ShippedFile],
    rest: Sequence[ShippedFile],
    common: frozenset[ShippedFile],
    alone: frozenset[str],
) -> Shipment:
    packs = {
        contract.COMMON_ARCHIVE: pack(file for file in rest if file in common),
        contract.PAYLOAD_ARCHIVE: pack(file for file in rest if file not in common),
    }
    large, links = {}, {}
    for file in own:
        if isinstance(file.content, HostFile) and file.size >= LARGE and file.sha256 in alone:
            links[file.name] = f"{contract.LARGE_LINK}{file.sha256[:16]}"
            large[links[file.name]] = file.content
    return Shipment({name: made for name, made in packs.items() if made}, large, links)
