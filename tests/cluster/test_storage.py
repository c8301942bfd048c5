"""Storages on the real HDFS of a sandbox: the same verbs as in tests/unit, and what only HDFS
has.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from submit_tf_job.errors import AuthError, Refused
from submit_tf_job.storage import Storage, open_storage
from tests.clusters import Cluster
from tests.hdfs import Hdfs, nameservice
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


def test_what_others_may_not_read_is_an_auth_error(
    kind: str, real_cluster: Cluster, storage: Storage, base: str
) -> None:
    storage.mkdirs(f"{base}/mine", 0o700)
    storage.write(f"{base}/mine/f", b"x")
    stranger = open_as(kind, real_cluster, "bob")
    for call in (stranger.stat, stranger.read):
        with pytest.raises(AuthError, match="Permission denied: user=bob") as caught:
            call(f"{base}/mine/f")
        assert f"{base}/mine/f: " in caught.value.message
    with pytest.raises(AuthError, match="Permission denied: user=bob"):
        stranger.write(f"{base}/mine/g", b"x")
    with pytest.raises(AuthError, match="Permission denied: user=bob"):
        stranger.mkdirs(f"{base}/mine/d")


def test_a_space_quota_is_no_room(real_cluster: Cluster, storage: Storage, base: str) -> None:
    Hdfs(real_cluster).limit(base, space=1 << 20)
    with pytest.raises(Refused, match="quota"):
        storage.write(f"{base}/big", b"x" * 2_000_000)
    assert storage.list_dir(base) == []


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
