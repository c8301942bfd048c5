"""site_of: what a plan has to know of a cluster, out of the settings and its Hadoop configuration; asks nobody."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from submit_tf_job.settings import Settings

if TYPE_CHECKING:
    from submit_tf_job.plan import Site

__all__ = ["site_of"]


def site_of(settings: Settings) -> Site:
    """Collect the facts of the cluster that a plan depends on."""
    from submit_tf_job.plan import Site

    return Site.from_settings(settings, staging=_staging_root(settings), token_life_s=_token_life_s(settings))


def _token_life_s(settings: Settings) -> int:
    """Read how long HDFS renews a token (DFSConfigKeys.DFS_NAMENODE_DELEGATION_TOKEN_MAX_LIFETIME_KEY), where this host was told."""
    from submit_tf_job.plan.site import TOKEN_LIFE_S

    conf: Path | None = settings["hadoop_conf"]
    if conf is None or settings["auth"] == "simple":
        return TOKEN_LIFE_S
    from submit_tf_job.hadoopconf import read_xml

    told = read_xml(conf / "hdfs-site.xml").get("dfs.namenode.delegation.token.max-lifetime", "")
    return int(told) // 1000 if told.isdigit() else TOKEN_LIFE_S


def _staging_root(settings: Settings) -> str | None:
    if settings["staging"]:
        return str(settings["staging"]).rstrip("/")
    conf: Path | None = settings["hadoop_conf"]
    if conf is None:
        return None
    from submit_tf_job.errors import SettingsError
    from submit_tf_job.storage import default_fs

    try:
        root = default_fs(conf).rstrip("/")
    except SettingsError:
        return None  # there is a yarn-site.xml alone, say: all goes but staging, and `check` says so where that is needed
    # On file:// a path means another place on every node.
    return None if root.startswith("file:") else f"{root}/user/{settings.user}/.submit_tf_job/staging"
