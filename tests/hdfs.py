"""HDFS of a cluster, by WebHDFS and, with Kerberos, by hdfs-native: what tests put there, and find."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import requests

from tests.clusters import Cluster
from tests.tool import SUBMIT_S


class Hdfs:
    """HDFS as one user of it."""

    def __init__(self, cluster: Cluster, user: str = "") -> None:
        self._root, self.user = f"{cluster.namenode_url}/webhdfs/v1", user or cluster.user

    def _ask(
        self, method: str, path: str, op: str, data: bytes | None = None, **options: str
    ) -> requests.Response:
        params = {"op": op, "user.name": self.user, **options}
        return requests.request(
            method, f"{self._root}{path}", params=params, data=data, timeout=SUBMIT_S
        )

    def _done(self, method: str, path: str, op: str, **options: str) -> dict[str, Any]:
        answer = self._ask(method, path, op, None, **options)
        assert answer.ok, answer.text
        found: dict[str, Any] = answer.json() if answer.content else {}
        return found

    def exists(self, path: str) -> bool:
        """Say whether something is there."""
        return self._ask("GET", path, "GETFILESTATUS").ok

    def stat(self, path: str) -> dict[str, Any]:
        """Return what the NameNode says of it: length, permission, owner, …."""
        return dict(self._done("GET", path, "GETFILESTATUS")["FileStatus"])

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, in order."""
        found = self._done("GET", path, "LISTSTATUS")["FileStatuses"]["FileStatus"]
        return sorted(row["pathSuffix"] for row in found)

    def read(self, path: str) -> bytes:
        """Return a file's content."""
        answer = self._ask("GET", path, "OPEN")
        assert answer.ok, answer.text
        return answer.content

    def write(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Write a file."""
        options = {"overwrite": "true", "permission": f"{mode:o}"}
        assert self._ask("PUT", path, "CREATE", content, **options).ok

    def mkdirs(self, path: str, mode: int = 0o755) -> None:
        """Make a directory of just these rights."""
        self._done("PUT", path, "MKDIRS")
        self._done("PUT", path, "SETPERMISSION", permission=f"{mode:o}")

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with all in it."""
        self._done("DELETE", path, "DELETE", recursive="true")

    def limit(self, path: str, *, space: int | None = None, names: int | None = None) -> None:
        """Set quotas of a directory, which only the superuser may; -1: none."""
        given = {"storagespacequota": space, "namespacequota": names}
        options = {name: str(value) for name, value in given.items() if value is not None}
        self._done("PUT", path, "SETQUOTA", **options)


def environ_of(cluster: Cluster) -> dict[str, str]:
    """What lets a program reach HDFS: the configuration, and with Kerberos who it is."""
    environ = {"HADOOP_CONF_DIR": str(cluster.client_conf), "PATH": "/usr/bin:/bin"}
    if kerberos := cluster.info["kerberos"]:
        keytab = Path(kerberos["keytabs"]) / f"{kerberos['principal'].partition('@')[0]}.keytab"
        environ |= {
            "KRB5_CONFIG": kerberos["krb5_conf"],
            "KRB5_CLIENT_KTNAME": f"FILE:{keytab}",
            "KRB5CCNAME": "MEMORY:",
        }
    return environ


def by_library(cluster: Cluster, script: str) -> Any:
    """Run lines of Python with hdfs-native's `client`, outside of the tool; return `result`."""
    begin = (
        "import json\nfrom hdfs_native import Client, WriteOptions\nclient, result = Client(), None"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{begin}\n{script}\nprint(json.dumps(result))"],
        env=environ_of(cluster),
        capture_output=True,
        text=True,
        timeout=SUBMIT_S,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def nameservice(cluster: Cluster, directory: Path) -> Path:
    """Write a configuration with a nameservice of two NameNodes, the first of which is dead, and a
    mount table of viewfs over it.
    """
    urls = (cluster.hdfs_uri, cluster.namenode_url)
    rpc, web = (url.partition("://")[2].rstrip("/") for url in urls)
    proxy = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
    values = {
        "fs.defaultFS": "viewfs://all",
        "fs.viewfs.mounttable.all.link./all": "hdfs://ns1/",
        "dfs.nameservices": "ns1",
        "dfs.ha.namenodes.ns1": "dead,live",
        "dfs.namenode.rpc-address.ns1.dead": "localhost:1",
        "dfs.namenode.http-address.ns1.dead": "localhost:1",
        "dfs.namenode.rpc-address.ns1.live": rpc,
        "dfs.namenode.http-address.ns1.live": web,
        "dfs.client.failover.proxy.provider.ns1": proxy,
    }
    rows = (
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in values.items()
    )
    (directory / "core-site.xml").write_text(f"<configuration>{''.join(rows)}</configuration>")
    return directory
