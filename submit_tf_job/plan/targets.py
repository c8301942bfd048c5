"""Refuse outputs whose place holds more than the output: storing one replaces all that is there.

A URI without a path, which is the root or a whole bucket, is refused where it is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from submit_tf_job.errors import Problem
from submit_tf_job.jobspec.job import PATTERN, Job, Output, RoleKind, Uploader
from submit_tf_job.plan.site import Site

__all__ = ["problems", "writers"]

_HADOOP = {
    "/tmp": "everybody's directory for temporary files",  # noqa: S108
    "/user": "the directory of all homes",
    "/user/*": "a home directory",  # dfs.user.home.dir.prefix
}
_DISK = {
    "/tmp": "everybody's directory for temporary files",  # noqa: S108
    "/home": "the directory of all homes",
    "/home/*": "a home directory",
    "/root": "a home directory",
}
_SHARED = {"hdfs": _HADOOP, "viewfs": _HADOOP, "file": _DISK}


class _Place(NamedTuple):
    """Where a URI leads: a kind of file system, a server or bucket, and a path."""

    kind: str
    authority: str
    path: str

    @classmethod
    def of(cls, uri: str) -> _Place:
        scheme, _, rest = uri.partition(":")
        authority, path = "", rest
        if rest.startswith("//"):
            authority, slash, path = rest[2:].partition("/")
            path = slash + path
        kind = {"webhdfs": "hdfs", "swebhdfs": "hdfs", "s3a": "s3", "s3n": "s3"}.get(scheme, scheme)
        if scheme in ("webhdfs", "swebhdfs"):
            authority = ""  # the same server under another port
        return cls(kind, authority, re.sub("/+", "/", path).rstrip("/") or "/")

    def may_be_on(self, other: _Place) -> bool:
        """Whether both are on one file system; without an authority that may be any."""
        named = bool(self.authority and other.authority)
        return self.kind == other.kind and not (named and self.authority != other.authority)

    def holds(self, other: _Place) -> bool:
        """Whether the other is this place, or below it."""
        inside = f"{other.path.rstrip('/')}/".startswith(f"{self.path.rstrip('/')}/")
        return inside and self.may_be_on(other)


def writers(job: Job) -> tuple[str, ...]:
    """Return the roles whose tasks store an output each, with `by: every-task`."""
    return tuple(role.name for role in job.roles.values() if role.kind is RoleKind.TRAINS)


def _targets(job: Job, output: Output) -> list[_Place]:
    """Return the places whose content an upload replaces."""
    if output.by is Uploader.DECIDING_TASK:
        return [_Place.of(output.uri)]
    return [
        _Place.of(f"{output.uri}/{name}-{index}")
        for name in writers(job)
        for index in range(job.roles[name].instances)
    ]


def problems(job: Job, site: Site) -> Iterator[Problem]:
    """Yield a problem for each output that would replace, or hold, what is not its own."""
    for output in job.outputs:
        if not output.upload:
            continue
        targets = _targets(job, output)
        what = next(filter(None, map(_shared, targets)), "") or next(
            (
                f"or holds {words}"
                for words, uri in _held(job, site, output)
                if any(target.holds(_Place.of(uri)) for target in targets)
            ),
            "",
        )
        if what:
            yield job.problem(
                f"outputs.{output.name}",
                f"{output.uri} is {what}, and all that is there would be replaced; name a "
                f"directory of its own, as in {output.uri.rstrip('/')}/{output.name}",
            )


def _shared(target: _Place) -> str:
    """Return the name of a directory that several jobs share, such as a home; "" for another."""
    shared = _SHARED.get(target.kind, {})
    depth = target.path.count("/")
    return next(
        (
            what
            for path, what in shared.items()
            if path.count("/") == depth and fnmatchcase(target.path, path)
        ),
        "",
    )


def _held(job: Job, site: Site, output: Output) -> Iterator[tuple[str, str]]:
    """Yield what must not lie at or below an output: words, and a URI."""
    if site.staging:
        yield "the staging directory", site.staging
    for item in job.inputs:
        uri = item.uri
        pattern = PATTERN.search(uri)
        if pattern:
            uri = uri[: pattern.start()].rpartition("/")[0]
        yield f"the input {item.name}", uri
    for other in job.outputs:
        if other is not output and other.uri != output.uri:
            yield f"the output {other.name}", other.uri
