"""Read `hadoop`: the source of the tasks' Hadoop configuration."""

from __future__ import annotations

from pathlib import Path

from submit_tf_job.host.located.diagnostics import Where
from submit_tf_job.jobspec.files import HADOOP_FILES
from submit_tf_job.jobspec.job import HadoopConf, ShippedFile
from submit_tf_job.jobspec.path_kinds import CONF_ARCHIVE

__all__ = ["read_hadoop"]


def read_hadoop(conf: str, at: Where, directory: Path | None) -> HadoopConf | None:
    """Return the configuration that the key `conf` names; read that of this host.

    Args:
        conf: The value of the key.
        at: Its path.
        directory: The Hadoop configuration directory of this host, for `conf: inline`.
    """
    if conf == "inline":
        files = _inline_files(at, directory)
        return None if files is None else HadoopConf("inline", files=files)
    return HadoopConf("archive" if CONF_ARCHIVE.fullmatch(conf) else "node", conf)


def _inline_files(at: Where, directory: Path | None) -> tuple[ShippedFile, ...] | None:
    if directory is None:
        return at.fail(
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
        return at.fail(f"{error.filename} cannot be read: {error.strerror}")
    if not found:
        return at.fail(
            f"{directory} holds none of {', '.join(HADOOP_FILES)}; point HADOOP_CONF_DIR "
            f"to the directory that does"
        )
    return found
