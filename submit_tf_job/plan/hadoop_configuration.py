"""Plan the delivery of the Hadoop configuration to a job's containers."""

from __future__ import annotations

from submit_tf_job.container import contract
from submit_tf_job.jobspec.job import Job, Mount, ShippedFile
from submit_tf_job.plan.delivery import Contribution, File

__all__ = ["contribution"]

DIRECTORY = "hadoop-conf"


def contribution(job: Job) -> Contribution:
    """Return the files, mounts and variables for the Hadoop configuration in containers."""
    conf = job.hadoop
    if conf is None:
        return Contribution(task={"hadoop_conf": None})
    if conf.kind == "node":
        mount = Mount(conf.location, conf.location)
        return Contribution(mounts=(mount,), task={"hadoop_conf": conf.location})
    if conf.kind == "archive":
        name = contract.HADOOP_CONF_LINK
        return Contribution(
            files=(File(name, (conf.location,), type="ARCHIVE"),),
            task={"hadoop_conf": f"archive:{name}"},
        )
    return Contribution(
        shipped=tuple(ShippedFile(f"{DIRECTORY}/{file.name}", file.content) for file in conf.files),
        task={"hadoop_conf": "inline"},
    )
