"""Plan a job's inputs and outputs: the roles that read each input, and lists of sharded inputs.

The list of a sharded input is made once, when the job is submitted, and is staged: all tasks use
the same list whenever they start, and neither the service nor the load of the NameNode grows with
tasks times files.
"""

from __future__ import annotations

from collections.abc import Iterator

from submit_tf_job.container import contract
from submit_tf_job.errors import Problem
from submit_tf_job.jobspec.job import Input, Job, Output, RoleKind, Strategy, Uploader
from submit_tf_job.plan import targets
from submit_tf_job.plan.delivery import Contribution, File, Stage
from submit_tf_job.plan.site import Site

__all__ = ["contribution", "readers", "shares"]


def readers(job: Job) -> tuple[str, ...]:
    """Return the roles that share the files of an input: training roles, else the deciding one."""
    if job.strategy is Strategy.PARAMETER_SERVER:
        return ("worker",)
    trains = {role.name for role in job.roles.values() if role.kind is RoleKind.TRAINS}
    return tuple(name for name in ("chief", "worker") if name in trains) or (job.deciding_role,)


def shares(job: Job) -> int:
    """Return the number of tasks that share the files."""
    return sum(job.roles[name].instances for name in readers(job))


def _onlookers(job: Job) -> tuple[str, ...]:
    """Return the roles whose tasks get all files: an evaluator, and the chief of a parameter-server
    job, which builds the data sets of the workers.
    """
    found = ["evaluator", "chief"] if job.strategy is Strategy.PARAMETER_SERVER else ["evaluator"]
    return tuple(name for name in found if name in job.roles and name not in readers(job))


def contribution(job: Job, site: Site, stage: Stage) -> Contribution:
    """Return the lists of sharded inputs, and the bootstrap's work on inputs and outputs."""
    if not job.inputs and not job.outputs:
        return Contribution()
    roles = (*readers(job), *_onlookers(job))
    names = [contract.INPUT_LIST % item.name for item in job.inputs if item.sharded]
    return Contribution(
        files=tuple(File(name, (f"{stage.lists}/", f"/{name}"), roles=roles) for name in names),
        task={
            "data": {
                "readers": list(readers(job)),
                "onlookers": list(_onlookers(job)),
                "inputs": {item.name: _input(item) for item in job.inputs},
                "outputs": {item.name: _output(item) for item in job.outputs},
            }
        },
        problems=tuple(_problems(job, site)),
    )


def _input(item: Input) -> dict[str, object]:
    return {"uri": item.uri, "shard": item.sharded, "download": item.download}


def _output(item: Output) -> dict[str, object]:
    if not item.upload:
        return {"uri": item.uri, "upload": None}
    return {
        "uri": item.uri,
        "upload": item.by.value,
        "on_failure": item.on_failure.value,
        "on_retry": item.on_retry.value,
        "overwrite": item.overwrite,
    }


def _problems(job: Job, site: Site) -> Iterator[Problem]:
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
            yield from _ended(job, output)
    yield from _twice(job)
    yield from targets.problems(job, site)


def _ended(job: Job, output: Output) -> Iterator[Problem]:
    """Yield a problem if the job ends a task that would have to store an output."""
    for name in ("chief", "worker"):
        role = job.roles.get(name)
        if role and role.kind is not RoleKind.TRAINS:
            yield job.problem(
                f"outputs.{output.name}.by",
                f"every task is to store an output, and {name} has the kind {role.kind.value}: the "
                "job ends it, and its output is lost; leave by out, have the program write to a "
                "URI itself, or give the role kind: trains",
            )


def _twice(job: Job) -> Iterator[Problem]:
    """Yield outputs that would replace one another."""
    first: dict[str, Output] = {}
    for output in job.outputs:
        other = first.setdefault(output.uri, output)
        if other is not output:
            yield job.problem(
                f"outputs.{output.name}",
                f"{output.uri} is the output {other.name} already; use another URI",
            )
