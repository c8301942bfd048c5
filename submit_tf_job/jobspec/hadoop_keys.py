"""Read `hadoop`: the source of the tasks' Hadoop configuration."""

from __future__ import annotations

import re
from pathlib import Path

from submit_tf_job.jobspec.files import HADOOP_FILES
from submit_tf_job.jobspec.job import HadoopConf, ShippedFile
from submit_tf_job.jobspec.keys import HADOOP
from submit_tf_job.jobspec.nodes import clip
from submit_tf_job.jobspec.sections import Section
from submit_tf_job.jobspec.values import Value

__all__ = ["read_hadoop"]

_CONF_ARCHIVE = re.compile(r"hdfs://\S+\.(zip|tar\.gz|tgz)")


def read_hadoop(value: Value, directory: Path | None) -> HadoopConf | None:
    """Read the mapping.

    Args:
        value: The mapping.
        directory: The Hadoop configuration directory of this host, for `conf: inline`.
    """
    section = Section.of(value, HADOOP)
    if section is None:
        return None
    conf: HadoopConf | None = section.read("conf", lambda item: _conf(item, directory))
    return conf


def _conf(value: Value, directory: Path | None) -> HadoopConf | None:
    text = value.text(expected="inline, an archive on HDFS, or a directory of the nodes")
    if text is None:
        return None
    if text == "inline":
        files = _inline_files(value, directory)
        return None if files is None else HadoopConf("inline", files=files)
    if _CONF_ARCHIVE.fullmatch(text):
        return HadoopConf("archive", text)
    if (
        text.startswith("/")
        and ".." not in text.split("/")
        and not any(char in text for char in ":, \t\n")
    ):
        return HadoopConf("node", text)
    return value.fail(
        f"{clip(text)} is none of inline, hdfs://….zip (or .tar.gz, .tgz), /directory/on/the/nodes"
    )


def _inline_files(value: Value, directory: Path | None) -> tuple[ShippedFile, ...] | None:
    if directory is None:
        return value.fail(
            "inline needs a Hadoop configuration on this host, and none is known; "
            "set HADOOP_CONF_DIR, or name an archive on HDFS or a directory of the nodes"
        )
    try:
        found = tuple(
            ShippedFile(name, (directory / name).read_bytes())
            for name in HADOOP_FILES
            if (directory / name).is_file()
        )
    except OSError as error:
        return value.fail(f"{error.filename} cannot be read: {error.strerror}")
    if not found:
        return value.fail(
            f"{directory} holds none of {', '.join(HADOOP_FILES)}; point HADOOP_CONF_DIR "
            f"to the directory that does"
        )
    return found
