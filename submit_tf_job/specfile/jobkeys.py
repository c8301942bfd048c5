"""Read the keys of a job that stand alone: name, queue, network, hadoop, kerberos, the durations and the rest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from submit_tf_job.job import HadoopConf, Job, Kerberos, ShippedFile
from submit_tf_job.jobdata import Input, Output
from submit_tf_job.specfile import units
from submit_tf_job.specfile.data import read_inputs, read_outputs
from submit_tf_job.specfile.kerberos import read_kerberos
from submit_tf_job.specfile.nodes import clip
from submit_tf_job.specfile.python import Python, read_python
from submit_tf_job.specfile.roles import LABEL, NO_LABEL
from submit_tf_job.specfile.shipping import HADOOP_FILES, Host, Shipper
from submit_tf_job.specfile.values import Section, Value
from submit_tf_job.specfile.vocabulary import HADOOP

__all__ = ["Settings", "read_settings"]

_NETWORK = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")
_QUEUE = re.compile(r"[^\s,]+")
_CONF_ARCHIVE = re.compile(r"hdfs://\S+\.(zip|tar\.gz|tgz)")
_HADOOP_PATH = re.compile(r"([a-z][a-z0-9+.-]*://|/)\S+")


@dataclass
class Settings:
    """The keys of a job that stand alone."""

    name: str | None
    description: str
    queue: str | None
    network: str | None
    hadoop: HadoopConf | None
    kerberos: Kerberos | None
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    lifetime_s: int | None
    start_timeout_s: int | None
    finish_timeout_s: int | None
    grace_s: int | None
    python: Python | None
    docker_client_config: str | None


def read_settings(section: Section, host: Host, shipper: Shipper) -> Settings:
    """Read them all; None where a value is missing without a default, or wrong."""
    return Settings(
        name=section.required("name", lambda item: item.matching(LABEL, NO_LABEL), "give the job a name, e.g. name: mnist"),
        description=section.optional("description", lambda item: item.text(empty=True)) or "",
        queue=section.optional("queue", lambda item: item.matching(_QUEUE, "is no queue; write its name or path alone, as in root.ml")),
        network=section.read(
            "network",
            lambda item: item.matching(_NETWORK, "is no Docker network; say host, bridge, or the name of an allowed one"),
            Job.network,
        ),
        hadoop=section.optional("hadoop", lambda item: _hadoop(item, host.hadoop_conf)),
        kerberos=section.optional("kerberos", lambda item: read_kerberos(item, host)),
        inputs=section.optional("inputs", read_inputs) or (),
        outputs=section.optional("outputs", read_outputs) or (),
        lifetime_s=section.optional("lifetime", units.duration),
        start_timeout_s=section.read("start_timeout", units.duration, Job.start_timeout_s),
        finish_timeout_s=section.read("finish_timeout", units.duration, Job.finish_timeout_s),
        grace_s=section.read("grace", units.duration, Job.grace_s),
        python=section.read("python", lambda item: read_python(item, shipper), Python()),
        docker_client_config=section.optional(
            "docker_client_config", lambda item: item.matching(_HADOOP_PATH, "is no path; write /path on the default file system, or a URI")
        ),
    )


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
