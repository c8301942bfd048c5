"""Storages on the real HDFS of a sandbox: the same verbs as in tests/unit, and what only HDFS
has.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from submit_tf_job.errors import AuthError, ClusterUnavailable, Refused
from submit_tf_job.plan import Upload
from submit_tf_job.storage import PathExists, Storage, open_storage
from submit_tf_job.storage.staging import stage
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


def test_users_side_by_side_are_not_mixed_up(
    real_cluster: Cluster, storage: Storage, base: str
) -> None:
    storage.chmod(base, 0o777)
    problems: list[BaseException] = []

    def work(user: str) -> None:
        try:
            for number in range(5):
                open_as("hdfs", real_cluster, user).write(f"{base}/{user}-{number}", b"x" * 100_000)
        except BaseException as error:
            problems.append(error)
            raise

    threads = [threading.Thread(target=work, args=(user,)) for user in ("alice", "bob", "carol")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert problems == []
    assert all(item.name.startswith(f"{item.owner}-") for item in storage.list_dir(base))
    assert len(storage.list_dir(base)) == 15


def test_a_space_quota_is_no_room(real_cluster: Cluster, storage: Storage, base: str) -> None:
    Hdfs(real_cluster).limit(base, space=1 << 20)
    with pytest.raises(Refused, match="quota"):
        storage.write(f"{base}/big", b"x" * 2_000_000)
    assert storage.list_dir(base) == []


def test_nobody_listens(kind: str) -> None:
    with pytest.raises(ClusterUnavailable, match=r"localhost:1|port=1"):
        open_storage(f"{kind}://localhost:1", timeout_s=5).stat("/")


def test_the_default_file_system_and_a_host_without_path(real_cluster: Cluster) -> None:
    storage = open_storage("hdfs:///anything", hadoop_conf=real_cluster.client_conf)
    assert storage.root == real_cluster.hdfs_uri
    assert storage.stat("/").is_dir


def test_hadoop_conf_dir_of_the_environment_is_not_looked_at(
    real_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "core-site.xml").write_text("this is no XML, and hdfs-native would say so")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert open_storage(real_cluster.hdfs_uri).stat("/").is_dir


def test_many_submitters_of_one_content(
    kind: str, real_cluster: Cluster, storage: Storage, base: str
) -> None:
    one = Upload(f"{real_cluster.hdfs_uri}{base}/s/files/job/0123/job.tar", b"payload" * 300_000)
    results: list[int] = []

    def submit() -> None:
        results.append(stage([one], open_as(kind, real_cluster, real_cluster.user))[0].sent)

    threads = [threading.Thread(target=submit) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(results) == 5
    assert [item.name for item in storage.list_dir(one.directory)] == ["job.tar"]
    assert storage.read(one.uri) == one.content


def test_a_file_is_not_replaced_by_a_loser(storage: Storage, base: str) -> None:
    storage.write(f"{base}/f", b"first")
    before = storage.stat(f"{base}/f")
    with pytest.raises(PathExists):
        storage.write(f"{base}/f", b"second", overwrite=False)
    assert storage.stat(f"{base}/f") == before


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
