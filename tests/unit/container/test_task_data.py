"""Inputs and outputs of a task: shares, downloads, uploads, and their errors."""

from __future__ import annotations

import base64
import errno
import gc
import io
import json
import os
import socket
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFile
from fsspec.spec import AbstractBufferedFile

from submit_tf_job.container import contract, hadoop, tokens
from submit_tf_job.container.data import store, stores, transfer, webhdfs_client
from submit_tf_job.container.data.task_data import Data
from submit_tf_job.container.info import BootstrapProblem, Info
from tests.unit.container.descriptions import description
from tests.unit.container.descriptions import role as role_of

ROLES = {"chief": "trains", "worker": "trains", "ps": "serves", "evaluator": "evaluates"}


def data_of(
    cwd: Path, role: str = "worker", index: int = 0, workers: int = 1, **what: Any
) -> tuple[Data, dict[str, str]]:
    roles = {name: role_of(1, kind) for name, kind in ROLES.items()}
    roles["worker"]["count"] = workers
    data = {"readers": ["chief", "worker"], "onlookers": ["evaluator"], "inputs": {}, "outputs": {}}
    task = description(roles, data={**data, **what}, finish_timeout_s=60)
    env = {contract.ENV_INSTANCE: f"{role}-{index}", "PATH": os.environ["PATH"]}
    made = dict(env)
    return Data(Info(task, env, str(cwd)), made, lambda: False, lambda *_: None), made


def lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def given_list(cwd: Path, files: list[str]) -> None:
    (cwd / "tfjob-input-d.txt").write_text("".join(f"{file}\n" for file in files))


# --- shares ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("files", "workers"), [(4, 3), (11, 3), (100, 7), (1, 0)])
def test_shares_are_complete_disjoint_and_even(tmp_path: Path, files: int, workers: int) -> None:
    names = [f"hdfs://nn/d/{number} ü" for number in range(files)]
    given_list(tmp_path, names)
    inputs = {"d": {"uri": "hdfs:///d", "shard": True, "download": False}}
    readers = ["chief", "worker"][: 1 + bool(workers)]

    def share(role: str, index: int = 0) -> list[str] | None:
        of = {"inputs": inputs, "readers": readers}
        data, env = data_of(tmp_path, role, index, max(workers, 1), **of)
        data.prepare()
        assert env["TFJOB_INPUT_D"] == "hdfs:///d"
        return lines(env["TFJOB_FILES_D"]) if "TFJOB_FILES_D" in env else None

    shares = [share("chief") or [], *(share("worker", n) or [] for n in range(workers))]
    assert sorted(name for each in shares for name in each) == sorted(names)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    assert (share("evaluator"), share("ps")) == (names, None)


# --- down, as the program finds it ----------------------------------------------------------------


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source dir"
    (root / "deep").mkdir(parents=True)
    for name in ("a.rec", "b.rec", "deep/c.rec", "_SUCCESS", ".crc"):
        (root / name).write_text(f"content of {name}")
    (root / "empty.rec").touch()
    return root


@pytest.mark.parametrize(
    ("path", "share", "where", "found"),
    [
        ("a.rec", None, "a.rec", ["a.rec"]),
        ("", None, "", ["a.rec", "b.rec", "deep/c.rec", "empty.rec"]),
        ("*.rec", None, "", ["a.rec", "b.rec", "empty.rec"]),
        ("*/c.*", None, "", ["deep/c.rec"]),
        ("*.rec", ["b.rec"], "", ["b.rec"]),
        ("*.rec", [], "", []),
    ],
)
def test_prepare_downloads_inputs(
    tmp_path: Path, source: Path, path: str, share: list[str] | None, where: str, found: list[str]
) -> None:
    cwd = tmp_path / "work"
    cwd.mkdir()
    uri = f"file://{source}/{path}".rstrip("/")
    if share is not None:
        given_list(cwd, [f"file://{source}/{name}" for name in share])
    inputs = {"d": {"uri": uri, "shard": share is not None, "download": True}}
    data, env = data_of(cwd, "chief", readers=["chief"], inputs=inputs)
    data.prepare()
    assert env["TFJOB_INPUT_D"] == str(cwd / "tfjob-inputs/d" / where).rstrip("/")
    assert lines(env["TFJOB_FILES_D"]) == [str(cwd / "tfjob-inputs/d" / name) for name in found]
    for name in found:
        assert (cwd / "tfjob-inputs/d" / name).read_bytes() == (source / name).read_bytes()


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("file:///no/such/file", "/no/such/file: no such file or directory"),
        ("file:///no/such/*.rec", "/no/such/*.rec: no file matches"),
        (
            "hdfs:///d",
            "the URI names no NameNode, and this container has no Hadoop "
            "configuration; write hadoop: {conf: inline}, or hdfs://host:port/…",
        ),
        (
            "s3://bucket/d",
            "the image has nothing that reads s3:// (Install s3fs to access S3); install "
            "fsspec, and its package for that, in the image",
        ),
        ("viewfs:///d", "no mount table of the Hadoop configuration in this container leads there"),
    ],
)
def test_prepare_fails_for_a_missing_input(tmp_path: Path, uri: str, why: str) -> None:
    data, _ = data_of(tmp_path, inputs={"d": {"uri": uri, "shard": False, "download": True}})
    with pytest.raises(BootstrapProblem) as caught:
        data.prepare()
    assert (caught.value.status, caught.value.reason) == (97, "input-failed")
    assert caught.value.message == f"the input d cannot be fetched from {uri}: {why}"


def test_prepare_follows_a_viewfs_link_to_another_file_system(tmp_path: Path, source: Path) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    link = f"<name>fs.viewfs.mounttable.all.link./d</name><value>file://{source}</value>"
    text = f"<configuration><property>{link}</property></configuration>"
    (conf / "core-site.xml").write_text(text)
    inputs = {"d": {"uri": "viewfs://all/d/a.rec", "shard": False, "download": True}}
    data, env = data_of(tmp_path, inputs=inputs)
    env["HADOOP_CONF_DIR"] = str(conf)
    data.prepare()
    assert Path(env["TFJOB_INPUT_D"]).read_text() == "content of a.rec"


@pytest.mark.parametrize("end", ["\n", "\r", "\x0c", "\u2028"])
def test_prepare_refuses_names_that_are_two_lines_of_a_list(
    tmp_path: Path, source: Path, end: str
) -> None:
    (source / f"x{end}y").touch()
    inputs = {"d": {"uri": f"file://{source}", "shard": False, "download": True}}
    data, _ = data_of(tmp_path, inputs=inputs)
    with pytest.raises(BootstrapProblem, match=r"holds a line break; rename it$"):
        data.prepare()


def test_prepare_ignores_what_python_prints_at_its_start(tmp_path: Path, source: Path) -> None:
    """The image's `sitecustomize` runs before the copying process has its stdout for itself."""
    printed = r"ready\n5\n\n\xff\n{\n"
    (tmp_path / "sitecustomize.py").write_text(f"import os; os.write(1, b'{printed}')")
    uri = f"file://{source}/a.rec"
    data, env = data_of(tmp_path, inputs={"d": {"uri": uri, "shard": False, "download": True}})
    env["PYTHONPATH"] = str(tmp_path)
    data.prepare()
    assert Path(env["TFJOB_INPUT_D"]).read_text() == "content of a.rec"


# --- object stores (all else about uploads: tests/bootstrap/test_outputs.py) ----------------------


class Told(list[dict[str, Any]]):
    def __call__(self, **what: Any) -> None:
        self.append(what)


def test_objects_by_fsspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    monkeypatch.setattr(
        transfer,
        "open_store",
        lambda uri, _env: (
            stores.ByFsspec(memory, "/bucket"),
            "/" + uri.partition("://")[2].partition("/")[2],
        ),
    )
    local = tmp_path / "local"
    (local / "deep").mkdir(parents=True)
    (local / "deep/x").write_text("new")
    memory.pipe_file("/bucket/m/old", b"old")
    told = Told()
    step: dict[str, Any] = {"do": "upload", "name": "m", "uri": "s3://bucket/m", "mark": "x"}
    step.update({"from": str(local), "overwrite": False, "run": "0123", "task": "chief-0"})

    def run(step: dict[str, Any]) -> int:
        return transfer.run({"steps": [step], "patience_s": 0}, told)

    assert run(step) == 1
    assert told[-1]["why"] == (
        "/m: exists already; set overwrite: true to replace it; the output is at /m.failed-0123"
    )
    aside = ["/bucket/m.failed-0123/.submit_tf_job", "/bucket/m.failed-0123/deep/x"]
    assert sorted(memory.find("/bucket")) == [*aside, "/bucket/m/old"]
    with monkeypatch.context() as broken:
        broken.setattr(memory, "open", lambda *_given, **_more: 1 / 0)
        assert run({**step, "overwrite": True}) == 1
    assert memory.cat_file("/bucket/m/old") == b"old"  # until all of the new one is there
    assert run({**step, "overwrite": True}) == 0
    new = ["/bucket/m/.submit_tf_job", "/bucket/m/deep/x"]
    assert sorted(memory.find("/bucket")) == [*aside, *new]
    down = {"do": "download", "name": "d", "uri": "s3://bucket/m", "to": str(tmp_path / "down")}
    assert run({**down, "file": str(tmp_path / "list"), "share": None}) == 0
    assert (tmp_path / "down/deep/x").read_text() == "new"
    assert told[-1] == {"t": "done", "files": 1, "bytes": 3}
    memory.store.clear()


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    opened = stores.ByFsspec(memory, "/bucket"), "/m"
    monkeypatch.setattr(transfer, "open_store", lambda _uri, _env: opened)
    (tmp_path / "m").mkdir()
    yield Bucket(memory, tmp_path / "m")
    memory.store.clear()


class Bucket:
    """A bucket, and a directory that is uploaded to `m` in it."""

    def __init__(self, memory: Any, folder: Path) -> None:
        self.memory, self.folder, self.told = memory, folder, Told()

    def upload(self) -> int:
        step: dict[str, Any] = {"do": "upload", "name": "m", "uri": "s3://bucket/m", "mark": "x"}
        step |= {"from": str(self.folder), "overwrite": True, "run": "0123", "task": "chief-0"}
        return transfer.run({"steps": [step], "patience_s": 0}, self.told)

    def objects(self) -> set[str]:
        return {path.removeprefix("/bucket/") for path in self.memory.find("/bucket")}


def test_names_of_objects_are_no_patterns(bucket: Bucket) -> None:
    bucket.memory.pipe_file("/bucket/m/x[1].csv", b"old")
    (bucket.folder / "x1.csv").write_text("new")
    assert bucket.upload() == 0
    assert bucket.objects() == {"m/.submit_tf_job", "m/x1.csv"}


def test_objects_are_stored_by_who_may_remove_none(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: str) -> None:
        raise PermissionError(errno.EACCES, "storage.objects.delete")

    monkeypatch.setattr(bucket.memory, "rm_file", refuse)
    (bucket.folder / "x").write_text("new")
    assert bucket.upload() == 0, bucket.told
    assert bucket.objects() == {"m/.submit_tf_job", "m/x"}


def test_objects_are_removed_by_a_library_without_rm_file(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of fsspec with adlfs 2023.1 to 2025.8."""

    def refuse(_path: str) -> None:
        raise NotImplementedError

    remove = bucket.memory.rm_file
    monkeypatch.setattr(bucket.memory, "rm_file", refuse)
    monkeypatch.setattr(
        bucket.memory, "rm", lambda path: [*map(remove, bucket.memory.expand_path(path))]
    )
    bucket.memory.pipe_file("/bucket/m/x[1].csv", b"old")
    (bucket.folder / "x1.csv").write_text("new")
    assert bucket.upload() == 0, bucket.told
    assert bucket.upload() == 0, bucket.told
    assert bucket.objects() == {"m/.submit_tf_job", "m/x1.csv"}


def test_an_object_that_shows_a_directory_is_no_file(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.memory.pipe_file("/bucket/m/x", b"x")
    ls = bucket.memory.ls

    def with_marker(path: str, detail: bool = True) -> list[dict[str, Any]]:
        return [{"name": f"{path}/", "type": "file", "size": 0}, *ls(path, detail=detail)]

    monkeypatch.setattr(bucket.memory, "ls", with_marker)
    step: dict[str, Any] = {"do": "download", "name": "d", "uri": "s3://bucket/m", "share": None}
    step |= {"to": str(tmp_path / "down"), "file": str(tmp_path / "list")}
    assert transfer.run({"steps": [step], "patience_s": 0}, bucket.told) == 0, bucket.told
    assert lines(str(tmp_path / "list")) == [f"{tmp_path}/down/x"]


def test_an_object_of_the_name_of_an_output_is_kept(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.memory.pipe_file("/bucket/m", b"a model")
    (bucket.folder / "x").write_text("new")
    with monkeypatch.context() as broken:
        broken.setattr(bucket.memory, "open", lambda *_given, **_more: 1 / 0)
        assert bucket.upload() == 1
    assert bucket.memory.cat_file("/bucket/m.replaced-0123") == b"a model"
    assert bucket.upload() == 0
    assert bucket.objects() == {"m.replaced-0123", "m/.submit_tf_job", "m/x"}
    notes = [message["text"] for message in bucket.told if message["t"] == "note"]
    assert notes == ["the output m: what stood at /m before is now at /m.replaced-0123"]


def test_where_the_rest_of_an_object_upload_is(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "xy":
        (bucket.folder / name).write_text("new")
    make = bucket.memory.open

    def refuse(path: str, *given: Any, **more: Any) -> Any:
        if path.endswith("/x"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return make(path, *given, **more)

    monkeypatch.setattr(bucket.memory, "open", refuse)
    assert bucket.upload() == 1
    assert bucket.objects() == {"m/.submit_tf_job", "m/y"}
    assert bucket.told[-1]["why"] == "m/x is refused: Permission denied; the rest is at /m"


class WrittenObject(AbstractBufferedFile):  # type: ignore[misc]  # which has no types
    """An object that becomes visible with its last piece, as those of s3fs, gcsfs and adlfs."""

    def _initiate_upload(self) -> None:
        self.pieces: list[bytes] = []

    def _upload_chunk(self, final: bool = False) -> bool:
        self.pieces.append(self.buffer.getvalue())
        if final:
            self.fs.store[self.path] = MemoryFile(self.fs, self.path, b"".join(self.pieces))
        return True


def test_half_an_object_is_never_visible(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, make = bucket.memory, bucket.memory.open
    by_mode = {"rb": make, "wb": partial(WrittenObject, memory)}
    monkeypatch.setattr(memory, "open", lambda path, mode: by_mode[mode](path, mode=mode))
    (bucket.folder / "x").write_text("new")

    def break_off(*_: object) -> Iterator[bytes]:
        yield b"n"
        raise OSError(errno.EIO, "the disk is broken")

    with monkeypatch.context() as broken:
        broken.setattr(sys.modules["submit_tf_job.container.data.upload"], "pieces", break_off)
        assert bucket.upload() == 1
        gc.collect()
        assert bucket.objects() == set()
    assert bucket.upload() == 0
    assert memory.cat_file("/bucket/m/x") == b"new"


def test_many_small_steps_of_an_upload_are_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever hears nothing for five minutes takes the process for one that hangs."""
    monkeypatch.setattr(store, "TELL_S", 0)
    for number in range(30):
        (tmp_path / f"m/{number}").mkdir(parents=True)
    (tmp_path / "m/x").touch()
    told = Told()
    step: dict[str, Any] = {
        "do": "upload",
        "name": "m",
        "uri": f"file://{tmp_path}/out",
        "mark": "",
    }
    step |= {"from": f"{tmp_path}/m", "overwrite": False, "run": "0123", "task": "chief-0"}
    assert transfer.run({"steps": [step], "patience_s": 0}, told) == 0
    found = sum(message["t"] == "copied" for message in told)
    assert found > 2 * 30, found  # as it is found, and as it is made


# --- Hadoop's configuration -----------------------------------------------------------------------

CONF = {
    "fs.defaultFS": "viewfs://all",
    "dfs.nameservices": "ns1",
    "dfs.ha.namenodes.ns1": "a, b",
    "dfs.namenode.rpc-address.ns1.a": "one:8020",
    "dfs.namenode.rpc-address.ns1.b": "two:8020",
    "dfs.namenode.http-address.ns1.a": "0.0.0.0:50070",
    "fs.viewfs.mounttable.all.link./data": "hdfs://ns1/warehouse",
    "fs.viewfs.mounttable.all.link./data/hot": "hdfs://fast:9000/",
    "fs.viewfs.mounttable.all.linkFallback": "hdfs://ns1/rest",
}


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("/data", "hdfs://ns1/warehouse"),
        ("/data/x/y", "hdfs://ns1/warehouse/x/y"),
        ("/data/hot/z", "hdfs://fast:9000/z"),
        ("/database", "hdfs://ns1/rest/database"),
    ],
)
def test_resolve_viewfs(path: str, uri: str) -> None:
    assert hadoop.resolve_viewfs("all", path, CONF) == uri


def test_name_nodes_and_web_addresses(tmp_path: Path) -> None:
    assert hadoop.web_addresses("ns1", CONF) == ("http", ["one:50070", "two:9870"])
    assert hadoop.web_addresses("host:8020", {"dfs.http.policy": "HTTPS_ONLY"}) == (
        "https",
        ["host:9871"],
    )
    assert hadoop.web_addresses("nn:9000", {"dfs.namenode.http-address": "web:1234"}) == (
        "http",
        ["web:1234"],
    )
    plain = {"dfs.namenode.http-address": "web"}  # without a port
    assert hadoop.web_addresses("nn:9000", plain) == ("http", ["web:9870"])
    assert hadoop.web_addresses("[::1]:9000", {}) == ("http", ["[::1]:9870"])
    assert hadoop.addresses_of("[::1]", {}) == ["[::1]:8020"]
    lines = {"dfs.nameservices": "ns1\n  ns2,ns1", "dfs.namenode.rpc-address.ns2": "two"}
    assert hadoop.name_nodes(lines) == {"": [], "ns1": [], "ns2": ["two:8020"]}
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>h</name><value>nn</value></property>"
        "<property><name>fs.defaultFS</name><value>hdfs://${h}:9000</value></property></configuration>"
    )
    assert hadoop.name_nodes(hadoop.properties({"HADOOP_CONF_DIR": str(tmp_path)})) == {
        "": ["nn:9000"]
    }


def test_a_namenode_that_is_away_is_noticed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """hdfs-native would try for minutes, and the job's warnings would not say why it waits."""
    monkeypatch.setattr(stores, "import_module", lambda _name: None)
    monkeypatch.setattr(stores, "Native", lambda uri, _conf: uri)
    there: list[tuple[str, int]] = []

    def connect(address: tuple[str, int], timeout: float) -> io.BytesIO:
        if address not in there or timeout > 60:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        return io.BytesIO()

    monkeypatch.setattr(socket, "create_connection", connect)
    nodes = {"dfs.nameservices": "ns", "dfs.ha.namenodes.ns": "a,b"}
    nodes |= {f"dfs.namenode.rpc-address.ns.{node}": f"{node}:9000" for node in "ab"}
    entries = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in nodes.items()
    )
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{entries}</configuration>")
    env = {"HADOOP_CONF_DIR": str(tmp_path)}
    for uri, tried in [
        ("hdfs://ns/x", "(a:9000: Connection refused; b:9000: Connection refused)"),
        ("hdfs://nn/x", "(nn:8020: Connection refused)"),
    ]:
        with pytest.raises(store.StoreError) as away:
            stores.open_store(uri, env)
        assert str(away.value) == f"no NameNode answers {tried}"
        assert away.value.transient
    there += [("b", 9000), ("nn", 8020)]
    opened = [tuple(map(str, stores.open_store(f"hdfs://{to}/x", env))) for to in ("ns", "nn")]
    assert opened == [("hdfs://ns", "/x"), ("hdfs://nn:8020", "/x")]


def test_store_errors_message() -> None:
    with (
        pytest.raises(store.StoreError, match=r"^/p: Permission denied: user=bob$") as caught,
        store.store_errors("/p"),
    ):
        raise RuntimeError(
            'RPCError("org.apache.hadoop.security.AccessControlException", "Permission '
            'denied: user=bob\\n\\tat x")'
        )
    assert not caught.value.transient
    with (
        pytest.raises(store.NotFound, match=r"^/p: no such file or directory$"),
        store.store_errors("/p"),
    ):
        raise RuntimeError('RPCError("java.io.FileNotFoundException", "File does not exist: /p")')
    with pytest.raises(store.StoreError) as transient, store.store_errors("/p"):
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
    assert transient.value.transient
    assert json.dumps(str(transient.value)) == '"/p: Connection reset by peer"'


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (
            'RPCError("java.io.FileNotFoundException", "rename source /p is not found.\\n\\tat x")',
            True,
        ),
        ('FileNotFound("/p")', True),
        ('GSSAPIError("Server hdfs/nn2@R not found in Kerberos database")', False),
        ('IOError(Os { code: 2, kind: NotFound, message: "No such file or directory" })', False),
        ("File /etc/key.json was not found.", False),
        (
            'RPCError("java.io.IOException", "lost\\n\\tat x\\nCaused by: FileNotFoundException")',
            False,
        ),
    ],
)
def test_what_is_a_missing_file(text: str, missing: bool) -> None:
    """The others may pass, and say nothing of the file."""
    with pytest.raises(store.StoreError) as caught, store.store_errors("/p"):
        raise RuntimeError(text)
    assert isinstance(caught.value, store.NotFound) is missing
    assert caught.value.transient is not missing


# --- WebHDFS by the standard library (on the real one: tests/cluster/test_data.py) ----------------


@pytest.mark.parametrize("where", ["t", "none"])  # the second: a program that logs in itself
def test_webhdfs_sends_the_delegation_token(tmp_path: Path, where: str) -> None:
    token = tokens.Token(b"a", b"identifier", b"password", tokens.HDFS, b"127.0.0.1:8020")
    tokens.write(str(tmp_path / "t"), [token], [])
    packed = b"\x0aidentifier\x08password\x15HDFS_DELEGATION_TOKEN\x0e127.0.0.1:8020"
    tokens.write(str(tmp_path / "none"), [], [])
    own = {"HADOOP_USER_NAME": "alice", "HADOOP_TOKEN_FILE_LOCATION": str(tmp_path / where)}
    env = {**own, "TFJOB_GIVEN_TOKENS": str(tmp_path / "t")}
    web = webhdfs_client.WebHdfs("http", ["nn:9870"], env)
    said = web.identity["delegation"]
    assert (list(web.identity), base64.urlsafe_b64decode(said + "=" * (-len(said) % 4))) == (
        ["delegation"],
        packed,
    )
