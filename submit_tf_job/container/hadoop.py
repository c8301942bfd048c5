"""The file systems that a Hadoop configuration declares; used in containers and on the client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from submit_tf_job.container.hadoop_configuration import (
    HDFS,
    HadoopConfiguration,
    listed,
    read_directory,
)

RPC_PORT = 8020  # HdfsClientConfigKeys.DFS_NAMENODE_RPC_PORT_DEFAULT
WEB_PORTS = {"http": 9870, "https": 9871}


def properties(environ: Mapping[str, str]) -> HadoopConfiguration:
    """Return the properties in core-site.xml, hdfs-site.xml and hdfs-rbf-site.xml of the directory
    that HADOOP_CONF_DIR in `environ` names; none if it names no directory.

    Files that cannot be read are left out; the configuration's `problems` name them.
    """
    directory = environ.get("HADOOP_CONF_DIR", "")
    if not directory:
        return HadoopConfiguration(environ)
    return read_directory(directory, HDFS, environ=environ, lenient=True)


def default_file_system(conf: Mapping[str, str]) -> str:
    """Return the URI of the default file system, "" if none is configured (FileSystem.fixName)."""
    found = conf.get("fs.defaultFS", "")
    if not found or found == "local":
        return ""
    return found if "/" in found else f"hdfs://{found}"


def default_authority(conf: Mapping[str, str], scheme: str) -> str:
    """Return host and port (or the nameservice) of the default file system; "" if it has another
    scheme, or none is configured.
    """
    default, _, rest = default_file_system(conf).partition("://")
    return rest.partition("/")[0] if default == scheme else ""


def _name_node_suffixes(conf: Mapping[str, str], service: str) -> list[str]:
    """Return the suffixes that the keys for a nameservice's NameNodes have
    (DFSUtilClient.addSuffixes).
    """
    ids = listed(conf, f"dfs.ha.namenodes.{service}")
    return [f".{service}.{node}" for node in ids] or [f".{service}"]


def name_nodes(conf: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the NameNodes' RPC addresses by nameservice.

    The key "" has the address of the default file system, if that is a single NameNode.
    """
    host = default_authority(conf, "hdfs")
    services = listed(conf, "dfs.nameservices")
    found = {service: addresses_of(service, conf) for service in services}
    return {"": [_with_port(host)] if host and host not in found else [], **found}


def addresses_of(authority: str, conf: Mapping[str, str]) -> list[str]:
    """Return the RPC addresses that an authority stands for: a nameservice, or one NameNode
    (HAUtilClient).

    For a nameservice without any configured address, the result is empty.
    """
    if authority not in listed(conf, "dfs.nameservices"):
        return [_with_port(authority)]
    keys = [f"dfs.namenode.rpc-address{s}" for s in _name_node_suffixes(conf, authority)]
    return [_with_port(conf[key]) for key in keys if conf.get(key)]


def host_and_port(address: str) -> tuple[str, str]:
    """Return host and port of an address; "" for a part that it lacks. An IPv6 address keeps its
    brackets. If the address is a URI, its scheme and path are left out (NetUtils.createSocketAddr).
    """
    _, scheme, rest = address.partition("://")
    if scheme:
        address = rest.partition("/")[0]
    if address.endswith("]") or ":" not in address:
        return address, ""
    host, _, port = address.rpartition(":")
    return host, port


def _with_port(address: str) -> str:
    host, port = host_and_port(address)
    return f"{host}:{port or RPC_PORT}"


def for_native(conf: Mapping[str, str]) -> dict[str, str]:
    """Return a configuration for hdfs-native: its RPC addresses are host:port, also where Hadoop
    accepts a URI.
    """
    return {
        name: _with_port(value) if value and name.startswith("dfs.namenode.rpc-address.") else value
        for name, value in conf.items()
    }


def addresses_of_webhdfs(scheme: str, authority: str, conf: Mapping[str, str]) -> list[str]:
    """Return the addresses that the authority of a `webhdfs:` or `swebhdfs:` URI stands for: those
    of a nameservice, or itself (WebHdfsFileSystem.initialize).
    """
    if authority not in listed(conf, "dfs.nameservices"):
        return [authority]
    protocol = "https" if scheme == "swebhdfs" else "http"
    return web_addresses(authority, conf, protocol)[1] or [authority]


def web_addresses(
    authority: str, conf: Mapping[str, str], protocol: str = ""
) -> tuple[str, list[str]]:
    """Return the scheme (`http` or `https`) and the web addresses of the NameNodes that an
    authority stands for; of `protocol`, or of the one that HDFS uses.

    An authority is a nameservice, or the RPC address of a NameNode. The rules are those of Hadoop's
    DFSUtil.getInfoServer, which finds the nameservice of an address first, and of
    DFSUtilClient.getHaNnWebHdfsAddresses.
    """
    is_secure = conf.get("dfs.http.policy", "").upper() == "HTTPS_ONLY"
    scheme = protocol or ("https" if is_secure else "http")
    is_service, addresses = authority in listed(conf, "dfs.nameservices"), []
    for suffix in _suffixes_of(authority, conf):
        own = conf.get(f"dfs.namenode.{scheme}-address{suffix}", "")
        if not own and (suffix.count(".") < 2 or not is_service):  # DFSUtil.getSuffixedConf
            own = conf.get(f"dfs.namenode.{scheme}-address", "")
        host, port = host_and_port(own)
        if host in ("", "0.0.0.0"):  # noqa: S104 - "every address" names none
            rpc = conf.get(f"dfs.namenode.rpc-address{suffix}", "") if is_service else authority
            host = host_and_port(rpc)[0]
        if host:
            addresses.append(f"{host}:{port or WEB_PORTS[scheme]}")
    return scheme, addresses


def _suffixes_of(authority: str, conf: Mapping[str, str]) -> list[str]:
    """Return the suffixes of the keys that apply to an authority; "" for keys without a suffix."""
    if authority in listed(conf, "dfs.nameservices"):
        return _name_node_suffixes(conf, authority)
    return [next(_suffixes_of_address(_with_port(authority), conf), "")]


def _suffixes_of_address(address: str, conf: Mapping[str, str]) -> Iterator[str]:
    """Yield the suffix of each NameNode whose RPC address is `address` (DFSUtil.getSuffixIDs)."""
    for service in listed(conf, "dfs.nameservices"):
        for suffix in _name_node_suffixes(conf, service):
            for key in ("dfs.namenode.servicerpc-address", "dfs.namenode.rpc-address"):
                own = conf.get(key + suffix, "")
                if own and _with_port(own).lower() == address.lower():
                    yield suffix


def home_directory(scheme: str, authority: str, user: str, conf: Mapping[str, str]) -> str:
    """Return the path of a user's home (DFSUtilClient.getHomeDirectory,
    ViewFileSystem.getHomeDirectory).
    """
    key = "dfs.user.home.dir.prefix"
    if scheme == "viewfs":
        key = f"fs.viewfs.mounttable.{_mount_table(authority, conf)}.homedir"
    return f"{(conf.get(key) or '/user').rstrip('/')}/{user}"


def _mount_table(authority: str, conf: Mapping[str, str]) -> str:
    return authority or conf.get("fs.viewfs.mounttable.default.name.key", "default")


def resolve_viewfs(authority: str, path: str, conf: Mapping[str, str]) -> str | None:
    """Return the URI to which a viewfs path leads; None if no link of the mount table covers the
    path, and there is no fallback.

    The rules are those of Hadoop's ConfigUtil and Constants.CONFIG_VIEWFS_LINK.
    """
    table = f"fs.viewfs.mounttable.{_mount_table(authority, conf)}.link"
    names = [name for name in conf if name.startswith(table + ".")]
    links = {name[len(table) + 1 :]: conf[name] for name in names}
    covers = [link for link in links if path == link or path.startswith(link.rstrip("/") + "/")]
    best = max(covers, key=len, default=None)
    if best is None:
        fallback = conf.get(table + "Fallback")
        return fallback.rstrip("/") + path if fallback else None
    return links[best].split(",")[0].rstrip("/") + path[len(best.rstrip("/")) :]
