"""Storages on the real HDFS of a sandbox: the same verbs as in tests/unit, and what only HDFS
has.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from submit_tf_job.storage import Storage, open_storage
from tests.clusters import Cluster
from tests.hdfs import Hdfs, nameservice
from tests.tool import Tool, put_twice
from tests.unit.storage.storage_verbs import StorageVerbs

pytestmark = pytest.mark.cluster


def web_uri(sandbox: Cluster) -> str:
    return sandbox.namenode_url.replace("http://", "webhdfs://").rstrip("/")


def open_as(kind: str, sandbox: Cluster, user: str | None) -> Storage:
    uri = sandbox.hdfs_uri if kind == "hdfs" else web_uri(sandbox)
    return open_storage(uri, hadoop_conf=sandbox.client_conf, user=user, timeout_s=30)


@pytest.fixture(params=["hdfs", "webhdfs"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def storage(kind: str, real_cluster: Cluster) -> Storage:
    return open_as(kind, real_cluster, real_cluster.user)


@pytest.fixture
def base(storage: Storage) -> Iterator[str]:
    path = f"/tmp/storage-{secrets.token_hex(6)}"
    storage.mkdirs(path, 0o777)
    yield path
    storage.remove(path, recursive=True)


class TestVerbs(StorageVerbs):
    pass


def test_the_user_is_who_was_asked_for(
    kind: str, real_cluster: Cluster, storage: Storage, base: str
) -> None:
    storage.chmod(base, 0o777)
    for user in ("alice", "bob"):
        open_as(kind, real_cluster, user).write(f"{base}/{user}", b"x")
    assert [(item.name, item.owner) for item in storage.list_dir(base)] == [
        ("alice", "alice"),
        ("bob", "bob"),
    ]


@pytest.mark.parametrize("scheme", ["hdfs://ns1", "viewfs://all/all"])
def test_nameservices_and_viewfs(real_cluster: Cluster, tmp_path: Path, scheme: str) -> None:
    place = f"/tmp/named-{secrets.token_hex(6)}"
    hdfs = Hdfs(real_cluster)
    hdfs.write(f"{place}/part 1.txt", b"row 1\n")
    conf = nameservice(real_cluster, tmp_path)
    storage = open_storage(scheme, hadoop_conf=conf, user=real_cluster.user)
    root = scheme.removeprefix("hdfs://ns1").removeprefix("viewfs://all") + place
    assert [item.name for item in storage.list_dir(root)] == ["part 1.txt"]
    assert storage.read(f"{root}/part 1.txt") == b"row 1\n"
    storage.write(f"{root}/written", b"x")
    assert hdfs.read(f"{place}/written") == b"x"
    hdfs.remove(place)


def test_put_copies_a_directory_to_hdfs(tool: Tool, tmp_path: Path) -> None:
    put_twice(tool, tmp_path / "data")
