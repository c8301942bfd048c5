"""Plan a job's inputs and outputs: the roles that read each input, and lists of sharded inputs.

The list of a sharded input is made once, when the job is submitted, and is staged. So all tasks use
the same list, whenever they start; and neither the size of the service nor the load of the NameNode
grows with the product of tasks and files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from submit_tf_job.container import contract
from submit_tf_job.errors import Problem
from submit_tf_job.jobspec.job import PATTERN, Input, Job, Output, RoleKind, Strategy, Uploader
from submit_tf_job.plan.delivery import Contribution, File, Stage
from submit_tf_job.plan.site import Site


def readers(job: Job) -> tuple[str, ...]:
    """Return the roles between whose tasks the files of a sharded input are divided: under
    parameter-server `worker`; else those of `chief` and `worker` that train, or, if there are none,
    the deciding role.
    """
    if job.strategy is Strategy.PARAMETER_SERVER:
        return ("worker",)
    trains = {role.name for role in job.roles.values() if role.kind is RoleKind.TRAINS}
    return tuple(name for name in ("chief", "worker") if name in trains) or (job.deciding_role,)


def shares(job: Job) -> int:
    """Return the number of tasks between which the files of a sharded input are divided."""
    return sum(job.roles[name].instances for name in readers(job))


def _roles_with_all_files(job: Job) -> tuple[str, ...]:
    """Return the roles whose tasks get all files of a sharded input: an evaluator, and the chief of
    a parameter-server job, which builds the data sets of the workers.
    """
    found = ["evaluator", "chief"] if job.strategy is Strategy.PARAMETER_SERVER else ["evaluator"]
    return tuple(name for name in found if name in job.roles and name not in readers(job))


def contribution(job: Job, site: Site, stage: Stage) -> Contribution:
    """Return the lists of sharded inputs, what the bootstrap has to do with inputs and outputs, and
    their problems; an empty contribution if the job has neither.
    """
    if not job.inputs and not job.outputs:
        return Contribution()
    roles = (*readers(job), *_roles_with_all_files(job))
    names = [contract.INPUT_LIST % item.name for item in job.inputs if item.sharded]
    return Contribution(
        files=tuple(File(name, (f"{stage.lists}/", f"/{name}"), roles=roles) for name in names),
        task={
            "data": {
                "readers": list(readers(job)),
                "onlookers": list(_roles_with_all_files(job)),
                "inputs": {item.name: _input_object(item) for item in job.inputs},
                "outputs": {item.name: _output_object(item) for item in job.outputs},
            }
        },
        problems=tuple(_data_problems(job, site)),
    )


def _input_object(item: Input) -> dict[str, object]:
    return {"uri": item.uri, "shard": item.sharded, "download": item.download}


def _output_object(item: Output) -> dict[str, object]:
    if not item.upload:
        return {"uri": item.uri, "upload": None}
    return {
        "uri": item.uri,
        "upload": item.by.value,
        "on_failure": item.on_failure.value,
        "on_retry": item.on_retry.value,
        "overwrite": item.overwrite,
        **({"collect": list(item.collect)} if item.collect else {}),
    }


def _data_problems(job: Job, site: Site) -> Iterator[Problem]:
    servers = job.strategy is Strategy.PARAMETER_SERVER
    for item in job.inputs:
        path = f"inputs.{item.name}"
        if item.sharded and not site.staging:
            yield job.problem(
                f"{path}.shard",
                "the list of files is put on HDFS for the tasks, and none is configured; set "
                "hadoop_conf (or staging)",
            )
        elastic = [name for name in readers(job) if job.roles[name].elastic]
        if item.sharded and elastic:
            yield job.problem(
                f"{path}.shard",
                f"the files are dealt out before the tasks are counted, and {elastic[0]} is "
                "elastic; leave out shard, and let the program choose by TFJOB_RANK",
            )
        if servers and item.sharded and item.download:
            yield job.problem(
                f"{path}.download",
                "under parameter-server the chief builds the data sets of all workers, "
                "whose disks hold different files; "
                "leave out shard or download, and let the workers read from the file system",
            )
    for output in job.outputs:
        if servers and output.upload and output.by is not Uploader.DECIDING_TASK:
            yield job.problem(
                f"outputs.{output.name}.by",
                "under parameter-server only the chief's command ends by itself; "
                "use deciding-task, or leave by out",
            )
        elif output.upload and output.by is not Uploader.DECIDING_TASK:
            yield from _output_end_problems(job, output)
    yield from _overlap_problems(job)
    yield from _targets_problems(job, site)


def _output_end_problems(job: Job, output: Output) -> Iterator[Problem]:
    """Yield a problem if the job ends a task before that task could store its output."""
    for name in ("chief", "worker"):
        role = job.roles.get(name)
        if role and role.kind is not RoleKind.TRAINS:
            yield job.problem(
                f"outputs.{output.name}.by",
                f"every task is to store an output, and {name} has the kind {role.kind.value}: the "
                "job ends it, and its output is lost; leave by out, have the program write to a "
                "URI itself, or give the role kind: trains",
            )


def _overlap_problems(job: Job) -> Iterator[Problem]:
    """Yield a problem for outputs that would replace one another."""
    first: dict[str, Output] = {}
    for output in job.outputs:
        other = first.setdefault(output.uri, output)
        if other is not output:
            yield job.problem(
                f"outputs.{output.name}",
                f"{output.uri} is the output {other.name} already; use another URI",
            )


# --- what an output would replace ---

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
    """The target of a URI: a kind of file system, a server or bucket, and a path."""

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
        """Whether both places may be on the same file system: a URI without an authority may mean
        any server.
        """
        named = bool(self.authority and other.authority)
        return self.kind == other.kind and not (named and self.authority != other.authority)

    def holds(self, other: _Place) -> bool:
        """Whether the other place is this place, or below it."""
        inside = f"{other.path.rstrip('/')}/".startswith(f"{self.path.rstrip('/')}/")
        return inside and self.may_be_on(other)


def writers(job: Job) -> tuple[str, ...]:
    """Return the roles that train: each of their tasks stores an output with `by: every-task`, and
    may store one with `by: all-that-write`.
    """
    return tuple(role.name for role in job.roles.values() if role.kind is RoleKind.TRAINS)


def _replaced_places(job: Job, output: Output) -> list[_Place]:
    """Return the places whose content an upload replaces."""
    if output.by is Uploader.DECIDING_TASK:
        return [_Place.of(output.uri)]
    return [
        _Place.of(f"{output.uri}/{name}-{index}")
        for name in writers(job)
        for index in range(job.roles[name].instances)
    ]


def _targets_problems(job: Job, site: Site) -> Iterator[Problem]:
    """Yield a problem for each output that would replace, or contain, data that do not belong to
    it: storing an output replaces everything at its URI.

    A URI without a path, which means the root or a whole bucket, is refused already when the job
    spec is read.
    """
    for output in job.outputs:
        if not output.upload:
            continue
        targets = _replaced_places(job, output)
        what = next(filter(None, map(_shared_directory, targets)), "") or next(
            (
                f"or holds {words}"
                for words, uri in _protected_uris(job, site, output)
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


def _shared_directory(target: _Place) -> str:
    """Return a description, for messages, of a directory that several jobs share ("a home
    directory"); "" for any other directory.
    """
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


def _protected_uris(job: Job, site: Site, output: Output) -> Iterator[tuple[str, str]]:
    """Yield description and URI of each place that must not be at, or below, the URI of an
    output.
    """
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
