"""Return the facts of a cluster for a plan, from the settings and the Hadoop configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from submit_tf_job.settings import Settings

if TYPE_CHECKING:
    from submit_tf_job.plan import Site

__all__ = ["site_of"]


def site_of(settings: Settings) -> Site:
    """Return the facts of the cluster that a plan depends on; sends no request."""
    from submit_tf_job.plan import Site

    return Site.from_settings(
        settings, staging=_staging_root(settings), token_life_s=_token_life_s(settings)
    )


def _token_life_s(settings: Settings) -> int:
    """Return how long HDFS renews a token
    (DFSConfigKeys.DFS_NAMENODE_DELEGATION_TOKEN_MAX_LIFETIME_KEY), if this host's configuration
    contains it.
    """
    from submit_tf_job.plan.site import TOKEN_LIFE_S

    conf = settings.hadoop_conf
    if conf is None or settings.auth == "simple":
        return TOKEN_LIFE_S
    from submit_tf_job.host.hadoopconf import read_xml

    told = read_xml(conf / "hdfs-site.xml").get("dfs.namenode.delegation.token.max-lifetime", "")
    return int(told) // 1000 if told.isdigit() else TOKEN_LIFE_S


def _staging_root(settings: Settings) -> str | None:
    if settings.staging:
        return settings.staging.rstrip("/")
    conf = settings.hadoop_conf
    if conf is None:
        return None
    from submit_tf_job.errors import SettingsError
    from submit_tf_job.storage import default_fs

    try:
        root = default_fs(conf).rstrip("/")
    except SettingsError:
        # for instance only yarn-site.xml exists: everything but staging works, and `check` reports
        # a job that needs staging
        return None
    # On file:// a path is another file on every node.
    if root.startswith("file:"):
        return None
    return f"{root}/user/{settings.user}/.submit_tf_job/staging"
