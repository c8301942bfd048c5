"""The file systems that the Hadoop configuration of this container declares."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from xml.etree import ElementTree as ET

RPC_PORT = 8020  # HdfsClientConfigKeys.DFS_NAMENODE_RPC_PORT_DEFAULT
WEB_PORTS = {"http": 9870, "https": 9871}
SUBSTITUTIONS = 20  # Configuration.MAX_SUBST
VARIABLE = re.compile(r"\$\{([^{}$\s]+)\}")


def properties(directory: str) -> dict[str, str]:
    """Read core-site.xml and hdfs-site.xml of a directory, with `${name}` expanded.

    Unreadable files are left out.
    """
    found: dict[str, str] = {}
    for name in ("core-site.xml", "hdfs-site.xml"):
        try:
            root = ET.parse(os.path.join(directory, name)).getroot()  # noqa: S314 - the cluster's own configuration
        except (OSError, ET.ParseError):
            continue
        for item in root.iter("property"):
            key, value = (item.findtext(part) or "" for part in ("name", "value"))
            found[key.strip()] = value.strip()
    return {name: _expanded(value, found) for name, value in found.items()}


def _expanded(value: str, values: Mapping[str, str]) -> str:
    for _ in range(SUBSTITUTIONS):
        before = value
        value = VARIABLE.sub(lambda found: values.get(found.group(1), found.group(0)), value)
        if value == before or len(value) > 65536:
            break
    return value


def _ids(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def name_nodes(conf: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the NameNodes' RPC addresses by nameservice.

    The address of a single NameNode has the key "".
    """
    scheme, _, rest = conf.get("fs.defaultFS", "").partition("://")
    host = rest.partition("/")[0]
    found: dict[str, list[str]] = {"": []}
    for service in _ids(conf.get("dfs.nameservices", "")):
        ids = _ids(conf.get("dfs.ha.namenodes." + service, ""))
        keys = [f"dfs.namenode.rpc-address.{service}.{node}" for node in ids]
        found[service] = [conf[key] for key in keys if conf.get(key)]
    if scheme == "hdfs" and host and host not in found:
        found[""] = [host if ":" in host else f"{host}:{RPC_PORT}"]
    return found


def web_addresses(authority: str, conf: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the scheme (`http` or `https`) and web addresses of the NameNodes behind an authority.

    The rules are those of Hadoop's DFSUtil.getInfoServer.
    """
    scheme = "https" if conf.get("dfs.http.policy") == "HTTPS_ONLY" else "http"
    key = f"dfs.namenode.{scheme}-address"
    ids = _ids(conf.get("dfs.ha.namenodes." + authority, ""))
    suffixes = [f".{authority}.{node}" for node in ids]
    found = []
    for suffix in suffixes or [""]:
        host, _, port = conf.get(key + suffix, "").rpartition(":")
        if host in ("", "0.0.0.0"):  # noqa: S104 - "every address" names none
            default = {"": authority}.get(suffix, "")
            host = conf.get("dfs.namenode.rpc-address" + suffix, default).partition(":")[0]
        if host:
            found.append(f"{host}:{port or WEB_PORTS[scheme]}")
    return scheme, found


def resolve_viewfs(authority: str, path: str, conf: Mapping[str, str]) -> str | None:
    """Return the URI behind a viewfs path, or None if no link covers it.

    The rules are those of Hadoop's ConfigUtil and Constants.CONFIG_VIEWFS_LINK.
    """
    table = "fs.viewfs.mounttable.%s.link" % (authority or "default")
    names = [name for name in conf if name.startswith(table + ".")]
    links = {name[len(table) + 1 :]: conf[name] for name in names}
    covers = [link for link in links if path == link or path.startswith(link.rstrip("/") + "/")]
    best = max(covers, key=len, default=None)
    if best is None:
        fallback = conf.get(table + "Fallback")
        return fallback.rstrip("/") + path if fallback else None
    return links[best].split(",")[0].rstrip("/") + path[len(best.rstrip("/")) :]
