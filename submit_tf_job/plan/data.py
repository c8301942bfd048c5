"""Which tasks read what, where the lists of sharded inputs lie, and what the bootstrap is told of inputs and outputs.

The list of a sharded input is made once, when the job is submitted, and lies in the staging directory: all tasks count in the same list
whenever they start, and neither the service nor the NameNode's work grows with tasks times files.
"""

from __future__ import annotations

from collections.abc import Iterator

from submit_tf_job import contract
from submit_tf_job.errors import Problem
from submit_tf_job.job import Job, Role, Strategy
from submit_tf_job.jobdata import Input, Output, Uploader
from submit_tf_job.plan.site import Site
from submit_tf_job.yarn.records import ConfigFile

__all__ = ["LISTS", "check", "config_files", "description", "list_uri", "lists_of", "needs_lists", "readers", "shares"]

LISTS = "lists"  # below the staging directory, beside the keytabs


def readers(job: Job) -> tuple[str, ...]:
    """Name the roles among whose tasks the files of an input are shared: those that train, else the one that decides."""
    if job.strategy is Strategy.PARAMETER_SERVER:
        return ("worker",)
    return tuple(name for name in ("chief", "worker") if name in job.roles) or (job.deciding_role,)


def shares(job: Job) -> int:
    """Count the tasks among which the files are shared."""
    return sum(job.roles[name].instances for name in readers(job))


def _onlookers(job: Job) -> tuple[str, ...]:
    """Name the roles whose tasks see all files: an evaluator, and the chief that builds the workers' data sets."""
    found = ["evaluator", "chief"] if job.strategy is Strategy.PARAMETER_SERVER else ["evaluator"]
    return tuple(name for name in found if name in job.roles and name not in readers(job))


def needs_lists(job: Job) -> bool:
    """Say whether a list has to be made when the job is submitted."""
    return any(item.sharded for item in job.inputs)


def lists_of(staging: str, job_name: str) -> str:
    """Return the directory of the lists that were made for jobs of a name: a name is one job's at a time."""
    return f"{staging}/{LISTS}/{job_name}"


def list_uri(job: Job, site: Site, submission: str, name: str) -> str:
    """Return where the list of an input lies."""
    return f"{lists_of(site.staging or '', job.name)}/{submission}/{contract.INPUT_LIST % name}"


def config_files(job: Job, role: Role, site: Site, submission: str) -> list[ConfigFile]:
    """List what YARN puts into the working directory of a role's tasks: the lists of sharded inputs."""
    if role.name not in (*readers(job), *_onlookers(job)):
        return []
    found = [item.name for item in job.inputs if item.sharded]
    return [ConfigFile("STATIC", contract.INPUT_LIST % name, list_uri(job, site, submission, name)) for name in found]


def description(job: Job) -> dict[str, object] | None:
    """Build what the bootstrap needs to know, None for a job that says nothing of what it reads and writes."""
    if not job.inputs and not job.outputs:
        return None
    return {
        "readers": list(readers(job)),
        "onlookers": list(_onlookers(job)),
        "inputs": {item.name: _input(item) for item in job.inputs},
        "outputs": {item.name: _output(item) for item in job.outputs},
    }


def _input(item: Input) -> dict[str, object]:
    return {"uri": item.uri, "shard": item.sharded, "download": item.download}


def _output(item: Output) -> dict[str, object]:
    if not item.upload:
        return {"uri": item.uri, "upload": None}
    return {"uri": item.uri, "upload": item.by.value, "on_failure": item.on_failure.value, "overwrite": item.overwrite}


def check(job: Job, site: Site) -> Iterator[Problem]:
    """Find what cannot be done whatever lies there."""
    servers = job.strategy is Strategy.PARAMETER_SERVER
    for item in job.inputs:
        path = f"inputs.{item.name}"
        if item.sharded and not site.staging:
            yield job.problem(
                f"{path}.shard", "the list of files is put on HDFS for the tasks, and none is known; set hadoop_conf (or staging)"
            )
        if servers and item.sharded and item.download:
            yield job.problem(
                f"{path}.download",
                "under parameter-server the chief builds the data sets of all workers, whose disks hold different files; "
                "leave out shard or download, and let the workers read from the file system",
            )
    for output in job.outputs:
        if servers and output.upload and output.by is Uploader.EVERY_TASK:
            yield job.problem(
                f"outputs.{output.name}.by",
                "under parameter-server only the chief's command ends by itself; say deciding-task, or leave by out",
            )
    yield from _twice(job)


def _twice(job: Job) -> Iterator[Problem]:
    """Find outputs that would replace one another."""
    first: dict[str, Output] = {}
    for output in job.outputs:
        other = first.setdefault(output.uri, output)
        if other is not output:
            yield job.problem(f"outputs.{output.name}", f"{output.uri} is the output {other.name} already; write to another place")
