"""How a role's files travel when they are staged: the many small ones as one tar, each large one by itself.

A tar is a list of pieces, bytes and files of this host; nothing holds it as a whole. Its bytes follow from names, modes and contents.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from submit_tf_job import contract
from submit_tf_job.job import HostFile, Job, Packages, ShippedFile

__all__ = ["LARGE", "Pack", "Shipment", "description", "pack", "packages_name", "shipments"]

LARGE = 16 * 1024**2  # a file of that size is staged by itself: it is not sent again when another changes
MOST_LARGE = 80  # of all roles together: each takes some 350 bytes of the service for each role, of which 60 KB may be posted
COMMON = 4 * 1024**2  # what roles have in common is not sent for each of them, where it is that much


@dataclass(frozen=True)
class Pack:
    """A tar of files.

    Attributes:
        files: By name, each once.
    """

    files: tuple[ShippedFile, ...] = field(repr=False)

    @cached_property
    def pieces(self) -> tuple[bytes | HostFile, ...]:
        """What it consists of, one behind the other."""
        return tuple(self._pieces())

    def _pieces(self) -> Iterator[bytes | HostFile]:
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
        return sum(piece.size if isinstance(piece, HostFile) else len(piece) for piece in self.pieces)

    @cached_property
    def id(self) -> str:
        """Name the content without reading it: the hash of its pieces, a file standing for itself by its own hash."""
        digest = hashlib.sha256()
        for file in self.files:
            digest.update(f"{file.name}\0{file.executable:d} {file.size} {file.sha256}\n".encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    @property
    def is_held(self) -> bool:
        """Whether all of it is in memory, so that it can travel inside the service."""
        return not any(isinstance(file.content, HostFile) for file in self.files)

    def tobytes(self) -> bytes:
        """Return the tar, where it is held."""
        assert self.is_held
        return b"".join(piece for piece in self.pieces if isinstance(piece, bytes))


def pack(files: Iterable[ShippedFile]) -> Pack | None:
    """Make a tar of files; None for none."""
    entries = tuple(sorted(files, key=lambda item: item.name))
    return Pack(entries) if entries else None


@dataclass(frozen=True)
class Shipment:
    """What a role's tasks are sent.

    Attributes:
        packs: By the name of the file in the working directory.
        large: Files that are sent by themselves, by the name of the link to them in the working directory.
        links: Name of a file → the link that it is a link to.
    """

    packs: Mapping[str, Pack]
    large: Mapping[str, HostFile]
    links: Mapping[str, str]


def shipments(files: Mapping[str, Sequence[ShippedFile]]) -> dict[str, Shipment]:
    """Decide how the files of each role travel, by role."""
    alone = _alone(files)
    rest = {role: [file for file in own if not (file.size >= LARGE and file.sha256 in alone)] for role, own in files.items()}
    common = _common(rest)
    return {role: _shipment(own, rest[role], common, alone) for role, own in files.items()}


def _alone(files: Mapping[str, Sequence[ShippedFile]]) -> frozenset[str]:
    """Choose the contents that are sent by themselves: the largest ones."""
    sizes = {file.sha256: file.size for own in files.values() for file in own if isinstance(file.content, HostFile) and file.size >= LARGE}
    return frozenset(sorted(sizes, key=lambda sha256: (-sizes[sha256], sha256))[: MOST_LARGE // len(files)])


def _common(files: Mapping[str, Sequence[ShippedFile]]) -> frozenset[ShippedFile]:
    first, *others = files.values()
    if all(own == first for own in others):
        return frozenset()  # one tar is for all, then
    shared = frozenset(first).intersection(*others)
    return frozenset() if sum(file.size for file in shared) < COMMON else shared


def _shipment(own: Sequence[ShippedFile], rest: Sequence[ShippedFile], common: frozenset[ShippedFile], alone: frozenset[str]) -> Shipment:
    named = {
        contract.COMMON_ARCHIVE: pack(file for file in rest if file in common),
        contract.PAYLOAD_ARCHIVE: pack(file for file in rest if file not in common),
    }
    large = {file.name: file for file in own if file.size >= LARGE and file.sha256 in alone}
    links = {name: f"{contract.LARGE_LINK}{file.sha256[:16]}" for name, file in large.items()}
    contents = {links[name]: file.content for name, file in large.items() if isinstance(file.content, HostFile)}
    return Shipment({name: found for name, found in named.items() if found}, contents, links)


def description(job: Job, staged: Mapping[str, Shipment]) -> dict[str, object]:
    """Build what the bootstrap needs to know of files that are more than a tar to unpack; empty where there are none."""
    roles = {}
    for role in job.roles.values():
        links = staged[role.name].links if role.name in staged else {}
        archives = {file.name: file.unpack for file in role.files if file.unpack}
        found = {"links": dict(links), "unpack": archives}
        roles[role.name] = {key: value for key, value in found.items() if value}
    roles = {name: value for name, value in roles.items() if value}
    return {
        **({"roles": roles} if roles else {}),
        **({"packages": {"kind": job.packages.kind.value, "version": job.packages.version}} if job.packages else {}),
    }


def packages_name(packages: Packages) -> str:
    """Name the staged archive; a NodeManager goes by its end (FSDownload.unpack)."""
    name = packages.archive.path.name
    return "packages" + next(suffix for suffix in (".tar.gz", ".tgz", ".tar", ".zip") if name.endswith(suffix))
