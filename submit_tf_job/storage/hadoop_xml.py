"""Parse a Hadoop configuration directory for the settings of a storage."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from submit_tf_job.errors import SettingsError
from submit_tf_job.host.hadoopconf import expanded, read_xml

NAMENODE_RPC_PORT = 8020  # HdfsClientConfigKeys.DFS_NAMENODE_RPC_PORT_DEFAULT


def properties(hadoop_conf: Path | None) -> dict[str, str]:
    """Parse core-site.xml and hdfs-site.xml; later files take precedence, `${name}` is expanded.

    Raises:
        SettingsError: The directory does not exist, or a file cannot be read.
    """
    if hadoop_conf is None:
        return {}
    if not hadoop_conf.is_dir():
        raise SettingsError(
            f"{hadoop_conf}: no such directory", hint="Name the directory that holds core-site.xml."
        )
    merged: dict[str, str] = {}
    for file in ("core-site.xml", "hdfs-site.xml"):
        merged.update(read_xml(hadoop_conf / file))
    return {name: expanded(value, merged) for name, value in merged.items()}


def default_fs(hadoop_conf: Path) -> str:
    """Return `fs.defaultFS` of a Hadoop configuration directory, without Java.

    Raises:
        SettingsError: core-site.xml does not set it, or cannot be read.

    Example:
        >>> default_fs(Path("/etc/hadoop/conf"))  # doctest: +SKIP
        'hdfs://nameservice1'
    """
    values = properties(hadoop_conf)
    found = values.get("fs.defaultFS") or values.get("fs.default.name")  # the name before Hadoop 2
    if not found:
        raise SettingsError(
            f"{hadoop_conf / 'core-site.xml'}: fs.defaultFS is not set",
            hint="Name the storage itself, such as hdfs://namenode:8020.",
        )
    if urlsplit(found).netloc:
        return found.rstrip("/")
    return found


def is_own_hdfs(uri: str, hadoop_conf: Path | None) -> bool:
    """Return whether a URI refers to an HDFS in the Hadoop configuration.

    Example:
        >>> is_own_hdfs("hdfs:///data", None)
        True
    """
    parts = urlsplit(uri)
    if parts.scheme not in ("hdfs", "viewfs"):
        return False
    if not parts.netloc:
        return True
    if hadoop_conf is None:
        return False
    values = properties(hadoop_conf)
    services = {name.strip() for name in values.get("dfs.nameservices", "").split(",")}
    return (
        parts.netloc == urlsplit(values.get("fs.defaultFS", "")).netloc or parts.netloc in services
    )


def is_secure(conf: Mapping[str, str]) -> bool:
    """Return whether HDFS requires Kerberos (UserGroupInformation.isSecurityEnabled)."""
    return conf.get("hadoop.security.authentication", "simple").lower() == "kerberos"


def web_address(authority: str, conf: Mapping[str, str]) -> tuple[str, str]:
    """Return scheme and authority of WebHDFS for a NameNode's RPC address (DFSUtil.getInfoServer);
    for a nameservice, those of its first NameNode.
    """
    scheme, key, default = "webhdfs", "dfs.namenode.http-address", "9870"
    if conf.get("dfs.http.policy", "HTTP_ONLY") == "HTTPS_ONLY":
        scheme, key, default = "swebhdfs", "dfs.namenode.https-address", "9871"
    for first in _name_node_ids(authority, conf)[:1]:
        key += f".{authority}.{first}"
    host, _, port = conf.get(key, "").rpartition(":")
    if host in ("", "0.0.0.0"):  # noqa: S104 - a wildcard address, not a host
        host = name_nodes(authority, conf)[0].partition(":")[0]
    return scheme, f"{host}:{port or default}"


def _name_node_ids(nameservice: str, conf: Mapping[str, str]) -> list[str]:
    names = conf.get(f"dfs.ha.namenodes.{nameservice}", "").split(",")
    return [name.strip() for name in names if name.strip()]


def name_nodes(authority: str, conf: Mapping[str, str]) -> list[str]:
    """Return the RPC addresses of an authority: one host, or all NameNodes of a nameservice
    (HAUtilClient).
    """
    if ":" in authority:
        return [authority]
    ids = _name_node_ids(authority, conf)
    found = [conf.get(f"dfs.namenode.rpc-address.{authority}.{name_node}", "") for name_node in ids]
    return [address for address in found if address] or [f"{authority}:{NAMENODE_RPC_PORT}"]
