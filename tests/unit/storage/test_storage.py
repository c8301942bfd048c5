"""Opening storages, Hadoop's configuration, and the errors of the libraries."""

from __future__ import annotations

import os
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests

from submit_tf_job.container.hadoop import addresses_of, for_native
from submit_tf_job.errors import (
    AuthError,
    BadAnswer,
    ClusterUnavailable,
    Refused,
    SettingsError,
    SubmitTFJobError,
    UsageError,
)
from submit_tf_job.storage import (
    NoSuchPath,
    PathExists,
    default_fs,
    hadoop_properties,
    open_storage,
)
from submit_tf_job.storage.base import failure
from submit_tf_job.storage.hdfs import HdfsStorage

HA = {
    "fs.defaultFS": "hdfs://ns1",
    "dfs.nameservices": "ns1",
    "dfs.ha.namenodes.ns1": "nn1, nn2",
    "dfs.namenode.rpc-address.ns1.nn1": "one.example.com:8020",
    "dfs.namenode.rpc-address.ns1.nn2": "two.example.com:8020",
}


def write_conf(directory: Path, **files: dict[str, str]) -> Path:
    for file, values in files.items():
        items = "".join(
            f"<property><name>{name}</name><value>{value}</value></property>"
            for name, value in values.items()
        )
        (directory / f"{file}-site.xml").write_text(f"<configuration>{items}</configuration>")
    return directory


# --- Hadoop's configuration ---


@pytest.mark.parametrize(
    ("core", "found"),
    [
        ({"fs.defaultFS": "hdfs://${h}:8020/", "h": "namenode"}, "hdfs://namenode:8020"),
        ({"fs.default.name": "hdfs://old:8020"}, "hdfs://old:8020"),  # before Hadoop 2
        ({}, "core-site.xml: fs.defaultFS is not set"),
        ({"fs.defaultFS": "hdfs://[::1]:8020"}, "hdfs://[::1]:8020"),
        ({"fs.defaultFS": "\n hdfs://host\n"}, "hdfs://host"),
        *(
            ({"fs.defaultFS": written}, "which is not the address of a file system")
            for written in (
                "hdfs:// namenode:8020",
                "hdfs://one:8020,hdfs://two:8020",
                "hdfs://{{ namenode }}:8020",
                "hdfs://namenode:8020\u00a0",  # Java's trim leaves a no-break space
                "hdfs://$NAMENODE:8020",
                "/namenode",
                "hdfs://[zz]:8020",
            )
        ),
        ("<configuration>", "core-site.xml: cannot be read"),
        (None, "no such directory"),
    ],
)
def test_the_default_file_system(tmp_path: Path, core: Any, found: str) -> None:
    if isinstance(core, str):
        (tmp_path / "core-site.xml").write_text(core)
    elif core is not None:
        write_conf(tmp_path, core=core)
    if found.startswith("hdfs:"):
        assert default_fs(tmp_path) == found, core
    else:
        with pytest.raises(SettingsError, match=found):
            default_fs(tmp_path if core is not None else tmp_path / "none")


def test_hdfs_site_outranks_core_site_and_names_expand(tmp_path: Path) -> None:
    write_conf(tmp_path, core={"a": "1", "b": "${a}${a}", "loop": "${loop}"}, hdfs={"a": "2"})
    found = hadoop_properties(tmp_path)
    assert (found["a"], found["b"], found["loop"]) == ("2", "22", "${loop}")
    assert hadoop_properties(None) == {}


def test_addresses_behind_an_authority() -> None:
    assert addresses_of("ns1", HA) == ["one.example.com:8020", "two.example.com:8020"]
    assert addresses_of("host:9000", HA) == ["host:9000"]
    by_uri = {"dfs.nameservices": "x", "dfs.namenode.rpc-address.x": "hdfs://one:9000/"}
    assert addresses_of("x", by_uri) == ["one:9000"]
    assert for_native(by_uri)["dfs.namenode.rpc-address.x"] == "one:9000"
    assert addresses_of("host", {}) == ["host:8020"]


# --- opening ---


def test_hdfs_without_a_host_means_the_default(tmp_path: Path) -> None:
    conf = write_conf(tmp_path, core=HA)
    assert open_storage("hdfs:///user/alice", hadoop_conf=conf).root == "hdfs://ns1"
    assert open_storage(hadoop_conf=conf).url("/x//y/") == "hdfs://ns1/x/y"
    with pytest.raises(UsageError, match="names no host"):
        open_storage("hdfs:///user/alice")
    with pytest.raises(UsageError, match="names no host"):
        open_storage("webhdfs:///user/alice", hadoop_conf=conf)


def test_homes(tmp_path: Path) -> None:
    assert open_storage("hdfs://nn:1").home("alice") == "/user/alice"
    conf = write_conf(tmp_path, hdfs={"dfs.user.home.dir.prefix": "/home/"})
    for uri in ("hdfs://nn:1", "webhdfs://nn:9870"):
        assert open_storage(uri, hadoop_conf=conf).home("alice") == "/home/alice"
    assert open_storage("/").home("root").startswith("/")
    with pytest.raises(UsageError, match="no home of nobody-here"):
        open_storage("/").home("nobody-here")


def test_webhdfs_gives_yarn_the_hdfs_uri(tmp_path: Path) -> None:
    conf = write_conf(tmp_path, core={"fs.defaultFS": "hdfs://nn:8020"})
    assert open_storage("webhdfs://nn:9870", hadoop_conf=conf).url("/x") == "hdfs://nn:8020/x"
    assert open_storage("webhdfs://nn:9870", hadoop_conf=conf).path("hdfs://nn:8020/x") == "/x"
    assert open_storage("webhdfs://nn:9870").url("/x") == "webhdfs://nn:9870/x"


def test_proxied_hdfs_keeps_its_uri(tmp_path: Path) -> None:
    pytest.importorskip("requests_kerberos")
    secure = {"hadoop.security.authentication": "kerberos"}
    web = {"dfs.nameservices": "ns2", "dfs.namenode.http-address.ns2": "two:1"}
    conf = write_conf(tmp_path, core={"fs.defaultFS": "hdfs://nn:8020", **secure}, hdfs=web)
    for uri in ("hdfs://ns2", "hdfs://nn:8020", "hdfs://other:9000"):
        storage = open_storage(uri, hadoop_conf=conf, user="alice", as_proxy=True)
        assert (storage.url("/x"), storage.path(f"{uri}/x")) == (f"{uri}/x", "/x")


def test_a_package_that_is_not_there() -> None:
    pytest.importorskip("fsspec")
    if find_spec("s3fs"):
        pytest.skip("s3fs is there")
    with pytest.raises(SettingsError, match=r"^s3a://bucket: ") as caught:
        open_storage("s3a://bucket/x")
    with pytest.raises(SettingsError, match=r"^github://x: .* missing "):
        open_storage("github://x")
    assert caught.value.hint == "pip install s3fs"


@pytest.mark.parametrize("path", ["relative", "", "/a/../b", "file:relative"])
def test_paths_that_are_none(path: str) -> None:
    with pytest.raises(UsageError, match="not an absolute path"):
        open_storage("/").path(path)


@pytest.mark.parametrize(
    ("uri", "words"), [("nonsense://x", "^nonsense://x: "), (None, "no storage is named")]
)
def test_what_is_no_storage(uri: str | None, words: str) -> None:
    with pytest.raises((SettingsError, UsageError), match=words):
        open_storage(uri)


# --- errors ---


def rpc(kind: str, words: str) -> RuntimeError:
    """Return what hdfs-native raises for an exception of a NameNode."""
    return RuntimeError(f'RPCError("org.apache.hadoop.{kind}", "{words}")')


DENIED = 'Permission denied: user=bob, access=WRITE, inode="/user/alice":alice:group:drwx------'
STACK = DENIED.replace('"', '\\"') + "\\n\\tat org.apache.hadoop.X.y(X.java:1)\\n"
GONE = 'IOError(Custom { kind: ConnectionAborted, error: "RPC listener disconnected" })'


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (rpc("AccessControlException", STACK), AuthError, f"AccessControlException: {DENIED}"),
        (PermissionError("Permission denied: user=bob"), AuthError, "Permission denied: user=bob"),
        (FileNotFoundError("/x"), NoSuchPath, "no such file or directory"),
        (FileExistsError("/x"), PathExists, "is there already"),
        (rpc("DSQuotaExceededException", "quota of /q"), Refused, "DSQuotaExceededException: quo"),
        (RuntimeError("The NameSpace quota of directory /q is exceeded"), Refused, "The NameSpace"),
        (rpc("IOException", "could only be written to 0 of"), Refused, "IOException: could only "),
        (OSError(28, "No space left on device"), Refused, "No space left on device"),
        (rpc("SafeModeException", "in safe mode."), ClusterUnavailable, "SafeModeException: in s"),
        (rpc("StandbyException", "Operation"), ClusterUnavailable, "StandbyException: Operation"),
        (RuntimeError('GSSAPIError(X(x), 0, "No Kerberos")'), AuthError, "GSSAPIError"),
        (RuntimeError("NoSASLMechanism"), AuthError, "NoSASLMechanism"),
        (RuntimeError('FatalRPCError("x.RpcServerException", "bad")'), BadAnswer, "RpcServerExcep"),
        (OSError("connection closed"), ClusterUnavailable, "connection closed"),
        (RuntimeError(GONE), ClusterUnavailable, "IOError"),
        (NotImplementedError("File encryption"), Refused, "File encryption"),
        (rpc("PathIsNotEmptyDirectoryException", "`/x is non empty"), UsageError, "`/x is non em"),
        (ValueError(""), BadAnswer, "ValueError"),
        (requests.ConnectionError("Connection refused"), ClusterUnavailable, "refused"),
        (requests.ReadTimeout("Read timed out."), ClusterUnavailable, "timed out"),
    ],
)
def test_failures_become_ours(error: Exception, kind: type[SubmitTFJobError], words: str) -> None:
    found = failure(error, "hdfs://nn:1/x")
    assert type(found) is kind
    assert found.message.startswith("hdfs://nn:1/x: ")
    assert words in found.message
    assert "\n" not in found.message


# --- hdfs-native's surroundings ---


def test_no_name_node_is_told_by_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(address: tuple[str, int], timeout: float) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr("socket.create_connection", refuse)
    with pytest.raises(ClusterUnavailable) as caught:
        HdfsStorage("hdfs", "ns1", conf=HA, user=None, timeout_s=1).stat("/")
    assert caught.value.message == (
        "hdfs://ns1: no NameNode answers (one.example.com:8020: Connection refused; "
        "two.example.com:8020: Connection refused)"
    )


class Native:
    """hdfs-native, as far as it sees the environment and the configuration."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str | None]] = []
        self.conf: dict[str, str] = {}
        self.panics = False

    def client(self, url: str, conf: dict[str, str], _directory: str) -> Native:
        self.conf = conf
        return self

    def get_file_info(self, path: str) -> SimpleNamespace:
        if self.panics:
            raise BaseException("index out of bounds")
        before = os.environ.get("HADOOP_USER_NAME")
        time.sleep(0.0002)
        assert os.environ.get("HADOOP_USER_NAME") == before
        self.seen.append((path, before))
        times = {"modification_time": 0, "permission": 0o644, "length": 1, "isdir": False}
        return SimpleNamespace(owner="alice", **times)


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> Native:
    made = Native()
    monkeypatch.setitem(sys.modules, "hdfs_native", SimpleNamespace(Client=made.client))
    return made


def viewfs(directory: Path, **more: str) -> Path:
    links = {
        "fs.viewfs.mounttable.all.link./b": "hdfs://ns2/x",
        "fs.viewfs.mounttable.all.link./a": "hdfs://ns1/y",
    }
    return write_conf(directory, core={**links, **more})


def test_users_take_turns_in_the_environment(
    native: Native, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "before")
    conf = viewfs(tmp_path)

    def work(user: str) -> None:
        storage = open_storage("viewfs://all", hadoop_conf=conf, user=user)
        for _ in range(25):
            storage.stat(f"/{user}")

    names = ("alice", "bob", "alice", "carol")
    threads = [threading.Thread(target=work, args=(user,)) for user in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(native.seen) == 100
    assert {(path, user) for path, user in native.seen} == {(f"/{name}", name) for name in names}
    assert os.environ["HADOOP_USER_NAME"] == "before"


def test_a_panic_of_the_library_is_an_error(native: Native, tmp_path: Path) -> None:
    native.panics = True
    storage = open_storage("viewfs://all", hadoop_conf=viewfs(tmp_path), user="alice")
    with pytest.raises(BadAnswer, match="hdfs-native gave up: index out of bounds"):
        storage.stat("/x")
    assert "HADOOP_USER_NAME" not in os.environ


def test_a_mount_table_gets_a_fallback_that_leads_nowhere(native: Native, tmp_path: Path) -> None:
    fallback = "fs.viewfs.mounttable.all.linkFallback"
    for given, used in (({}, "hdfs://ns1/.no-such-mount"), ({fallback: "hdfs://n/"}, "hdfs://n/")):
        conf = viewfs(tmp_path, **given)
        open_storage("viewfs://all", hadoop_conf=conf, user="alice").stat("/x")
        assert native.conf[fallback] == used
