"""Storages on the real HDFS of a sandbox: the same verbs as in tests/unit, and what only HDFS
has.
"""

from __future__ import annotations

import secrets
import subprocess
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from submit_tf_job.errors import AuthError, ClusterUnavailable, Refused
from submit_tf_job.plan import Upload
from submit_tf_job.sandbox import SandboxInfo
from submit_tf_job.sandbox.saved_state import Layout, load_state
from submit_tf_job.storage import PathExists, Storage, open_storage
from submit_tf_job.storage.staging import forget, stage, sweep
from tests.unit.storage.storage_verbs import StorageVerbs

pytestmark = pytest.mark.cluster


def web_uri(sandbox: SandboxInfo) -> str:
    return sandbox.namenode_url.replace("http://", "webhdfs://").rstrip("/")


def open_as(kind: str, sandbox: SandboxInfo, user: str | None) -> Storage:
    uri = sandbox.hdfs_uri if kind == "hdfs" else web_uri(sandbox)
    return open_storage(uri, hadoop_conf=sandbox.client_conf, user=user, timeout_s=30)


@pytest.fixture(params=["hdfs", "webhdfs"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def storage(kind: str, real_cluster: SandboxInfo) -> Storage:
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
    kind: str, real_cluster: SandboxInfo, storage: Storage, base: str
) -> None:
    storage.chmod(base, 0o777)
    for user in ("alice", "bob"):
        open_as(kind, real_cluster, user).write(f"{base}/{user}", b"x")
    assert [(item.name, item.owner) for item in storage.list_dir(base)] == [
        ("alice", "alice"),
        ("bob", "bob"),
    ]


def test_what_others_may_not_read_is_an_auth_error(
    kind: str, real_cluster: SandboxInfo, storage: Storage, base: str
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
    real_cluster: SandboxInfo, storage: Storage, base: str
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


def test_a_space_quota_is_no_room(real_cluster: SandboxInfo, storage: Storage, base: str) -> None:
    jars = load_state(Layout(real_cluster.home)).jars  # type: ignore[union-attr]
    admin = [
        "java",
        "-cp",
        f"{real_cluster.client_conf}:{jars}/*",
        "org.apache.hadoop.hdfs.tools.DFSAdmin",
    ]
    subprocess.run(
        [*admin, "-setSpaceQuota", "1m", base], check=True, timeout=60, capture_output=True
    )
    with pytest.raises(Refused, match="quota"):
        storage.write(f"{base}/big", b"x" * 2_000_000)
    assert storage.list_dir(base) == []


def test_nobody_listens(kind: str) -> None:
    with pytest.raises(ClusterUnavailable, match=r"localhost:1|port=1"):
        open_storage(f"{kind}://localhost:1", timeout_s=5).stat("/")


def test_the_default_file_system_and_a_host_without_path(real_cluster: SandboxInfo) -> None:
    storage = open_storage("hdfs:///anything", hadoop_conf=real_cluster.client_conf)
    assert storage.root == real_cluster.hdfs_uri
    assert storage.stat("/").is_dir


def test_hadoop_conf_dir_of_the_environment_is_not_looked_at(
    real_cluster: SandboxInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "core-site.xml").write_text("this is no XML, and hdfs-native would say so")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert open_storage(real_cluster.hdfs_uri).stat("/").is_dir


def test_staging_is_once_private_and_swept(
    kind: str, real_cluster: SandboxInfo, storage: Storage, base: str
) -> None:
    one = Upload(
        f"{real_cluster.hdfs_uri}{base}/staging/files/job/0123/job.tar", b"payload" * 500_000
    )
    found = [stage([one], storage, user=real_cluster.user)[0] for _ in range(2)]
    assert [(file.uri, file.sent) for file in found] == [(one.uri, 3_500_000), (one.uri, 0)]
    assert storage.read(one.uri) == one.content
    above = one.directory.removesuffix("/0123")
    assert [
        storage.stat(path).mode for path in (f"{base}/staging", above, one.directory, one.uri)
    ] == [0o700, 0o700, 0o700, 0o600]
    later = datetime.now(timezone.utc) + timedelta(days=9)
    swept = list(sweep(storage, f"{base}/staging", older_than=timedelta(days=7), now=later))
    assert [(item.name, item.size) for item in swept] == [("job", 3_500_000)]
    with pytest.raises(AuthError, match="Permission denied: user=bob"):
        stage([one], open_as(kind, real_cluster, "bob"), user="bob")
    forget(storage, one.directory)
    assert not storage.exists(above)


def test_many_submitters_of_one_content(
    kind: str, real_cluster: SandboxInfo, storage: Storage, base: str
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
