"""Return the facts of a cluster for a plan, from the settings and the Hadoop configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from submit_tf_job.errors import SettingsError
from submit_tf_job.settings import Settings

if TYPE_CHECKING:
    from submit_tf_job.plan import Site
    from submit_tf_job.plan.site import WebStaging

__all__ = ["site_of", "staging_root"]


def site_of(settings: Settings) -> Site:
    """Return the facts of the cluster that a plan depends on; sends no request."""
    from submit_tf_job.plan import Site

    staging = staging_root(settings)
    return Site.from_settings(
        settings,
        staging=staging,
        token_life_s=_token_life_s(settings),
        web_hdfs=_web_hdfs(settings, staging),
    )


def _web_hdfs(settings: Settings, staging: str | None) -> WebStaging | None:
    """Return the staging directory over HTTP.

    Raises:
        SettingsError: Tasks are to meet there, and its addresses cannot be read.
    """
    if staging is None:
        return None
    try:
        return _read_web_hdfs(settings, staging)
    except SettingsError:
        if settings.names != "dns":
            raise
        return None


def _read_web_hdfs(settings: Settings, staging: str) -> WebStaging | None:
    from submit_tf_job.container.hadoop import resolve_viewfs, web_addresses
    from submit_tf_job.plan.site import WebStaging
    from submit_tf_job.storage.hadoop_xml import properties

    conf = properties(settings.hadoop_conf)
    parts = urlsplit(staging)
    if not parts.netloc:
        parts = urlsplit(conf.get("fs.defaultFS", ""))._replace(path=parts.path)
    if parts.scheme == "viewfs":
        parts = urlsplit(resolve_viewfs(parts.netloc, parts.path, conf) or "")
    if parts.scheme != "hdfs":
        return None
    protocol, addresses = web_addresses(parts.netloc, conf)
    return WebStaging(protocol, tuple(addresses), parts.path) if addresses else None


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


def staging_root(settings: Settings) -> str | None:
    """Return the staging directory; None without one that the nodes reach, too."""
    if settings.staging:
        return settings.staging.rstrip("/")
    conf = settings.hadoop_conf
    if conf is None:
        return None
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
