"""Delegation tokens in a container: summaries, and aliases for clients."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submit_tf_job.container import tokens
from submit_tf_job.container.tokens import Reader, Token, Tokens
from tests.builders.tokens import PASSWORD, hdfs_token, identifier, token_file

KMS = Token(b"kms", identifier(until=4.1e9), PASSWORD, b"kms-dt", b"10.0.0.1:9600")
OTHER = Token(b"x", b"\x0a\x05hello", PASSWORD, b"YARN_AM_RM_TOKEN", b"")
CORE = (
    "<configuration><property><name>fs.defaultFS</name><value>{}</value></property></configuration>"
)


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    directory = tmp_path / "conf"
    directory.mkdir()
    (directory / "core-site.xml").write_text(CORE.format("hdfs://namenode.example.com:9000"))
    return directory


def container(directory: Path, content: bytes) -> dict[str, str]:
    (directory / "container_tokens").write_bytes(content)
    return {
        tokens.ENV_FILE: str(directory / "container_tokens"),
        "HADOOP_CONF_DIR": str(directory / "conf"),
    }


# --- the file -------------------------------------------------------------------------------------


def test_write_and_parse_round_trip(tmp_path: Path) -> None:
    content = token_file(hdfs_token(), KMS, secrets={"a": b"b"})
    path = tmp_path / "out"
    tokens.write(str(path), *tokens.parse(content))
    assert path.read_bytes() == content
    assert path.stat().st_mode & 0o7777 == 0o600


def test_numbers_as_java_writes_them() -> None:
    """WritableUtils.writeVLong: by hand from its source."""
    java = {0: "00", 127: "7f", -112: "90", 128: "8f80", 255: "8fff", 256: "8e0100"}
    java |= {-113: "8770", -300: "86012b", 1795280509000: "8a01a1ff0e9848"}
    assert [Reader(bytes.fromhex(written)).number() for written in java.values()] == list(java)


@given(st.binary(max_size=80))
def test_parse_refuses_other_bytes(content: bytes) -> None:
    whole = token_file(hdfs_token())
    for text in (*(content, b"HDTS\0" + content, b"HDTS\1" + content, whole[:-1] + content),):
        with contextlib.suppress(ValueError):  # and nothing else
            tokens.parse(text)


def test_tokens_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError,
        match=r"the delegation tokens in .*container_tokens cannot be read: it is cut off",
    ):
        Tokens(container(tmp_path, token_file(hdfs_token())[:40]))
    assert Tokens({}).summaries == []
    assert Tokens({tokens.ENV_FILE: str(tmp_path / "none")}).summaries == []


# --- whose it is ----------------------------------------------------------------------------------


def test_summary_of_a_token(tmp_path: Path, conf: Path) -> None:
    found = Tokens(container(tmp_path, token_file(hdfs_token(), KMS, OTHER)))
    assert found.describe({"HADOOP_CONF_DIR": str(conf)}) == [
        "delegation token: HDFS_DELEGATION_TOKEN for 127.0.0.1:9000, here also as "
        "namenode.example.com:9000; "
        "it is alice's, renewed by rm, at most until 2096-10-02 07:06:40 UTC",
        "delegation token: kms-dt for 10.0.0.1:9600; it is alice's, renewed by rm, at "
        "most until 2099-12-03 16:53:20 UTC",
        "delegation token: YARN_AM_RM_TOKEN for any service",
    ]
    of_hdfs = {"kind": "HDFS_DELEGATION_TOKEN", "service": "127.0.0.1:9000", "owner": "alice"}
    of_hdfs |= {"renewer": "rm", "real_user": "rm/localhost@R"}
    assert found.summaries[0] == {**of_hdfs, "issued": 4e9 - 604800, "until": 4e9}


def test_describe_shows_no_password_and_no_identifier(tmp_path: Path) -> None:
    found = Tokens(container(tmp_path, token_file(hdfs_token(), OTHER, secrets={"a": b"hunter2"})))
    shown = repr(found.summaries) + repr(found.describe({})) + repr(found.tokens)
    assert not any(secret in shown for secret in ("password", "hunter2", "hello"))


def test_summary_line_of_expired_and_unprintable(tmp_path: Path) -> None:
    over, odd = hdfs_token(until=1e9, renewer=""), hdfs_token("a:1", owner="eve\x1b[2J\nx")
    found = Tokens(container(tmp_path, token_file(over, odd)))
    assert found.describe({}) == [
        "delegation token: HDFS_DELEGATION_TOKEN for 127.0.0.1:9000; it is alice's, until "
        "2001-09-09 01:46:40 UTC (it is over)",
        "delegation token: HDFS_DELEGATION_TOKEN for a:1; it is eve[2Jx's, renewed by rm, "
        "at most until 2096-10-02 07:06:40 UTC",
    ]


# --- under every name -----------------------------------------------------------------------------


def test_install_adds_the_name_node_of_the_url(tmp_path: Path, conf: Path) -> None:
    """hdfs-native compares host:port of the URL with the token's service, letter by letter."""
    env = container(tmp_path, token_file(hdfs_token(), KMS, secrets={"a": b"b"}))
    original = env[tokens.ENV_FILE]
    Tokens(env).install(env, str(tmp_path), own_login=False)
    assert env[tokens.ENV_FILE] == str(tmp_path / "tfjob-tokens")
    assert Path(env[tokens.ENV_FILE]).stat().st_mode & 0o7777 == 0o600
    given = Tokens(env)
    assert [(token.alias, token.service) for token in given.tokens] == [
        (b"127.0.0.1:9000", b"127.0.0.1:9000"),
        (b"kms", b"10.0.0.1:9600"),
        (b"namenode.example.com:9000", b"namenode.example.com:9000"),
    ]
    assert given.tokens[2].password == PASSWORD
    assert given.secrets == [(b"a", b"b")]
    assert Path(original).read_bytes() == token_file(hdfs_token(), KMS, secrets={"a": b"b"})


def test_install_with_own_login_drops_hdfs_tokens(tmp_path: Path, conf: Path) -> None:
    """A client that finds a token uses it, also when it has run out, and never looks at the
    ticket.
    """
    env = container(tmp_path, token_file(hdfs_token(), KMS))
    Tokens(env).install(env, str(tmp_path), own_login=True)
    assert [token.kind for token in Tokens(env).tokens] == [b"kms-dt"]


HA = {
    "fs.defaultFS": "hdfs://ns1",
    "dfs.nameservices": "ns1, ns2",
    "dfs.ha.namenodes.ns1": "nn1,nn2",
    "dfs.namenode.rpc-address.ns1.nn1": "a.example.com:8020",
    "dfs.namenode.rpc-address.ns1.nn2": "b.example.com:8020",
    "dfs.ha.namenodes.ns2": "nn1",
    "dfs.namenode.rpc-address.ns2.nn1": "c.example.com:8020",
}
LOCAL = {"fs.defaultFS": "hdfs://localhost:9000"}


@pytest.mark.parametrize(
    ("services", "conf", "expected"),
    [
        # the port that RPC has by default
        (["127.0.0.1:8020"], {"fs.defaultFS": "hdfs://nn"}, ["nn:8020"]),
        (["127.0.0.1:8020"], {"fs.defaultFS": "hdfs://nn:9000/"}, []),  # another NameNode
        (["127.0.0.1:8020"], {"fs.defaultFS": "s3a://bucket"}, []),
        (["127.0.0.1:8020"], {}, []),
        (["ha-hdfs:ns1"], HA, ["a.example.com:8020", "b.example.com:8020"]),
        (["127.0.0.1:9000", "127.0.0.2:9000"], LOCAL, ["localhost:9000"]),
        (["10.1.1.1:9000", "127.0.0.2:9000"], LOCAL, []),
    ],
)
def test_missing_matches_tokens_to_addresses(
    services: list[str], conf: dict[str, str], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostbyname", {"localhost": "127.0.0.1"}.__getitem__)
    found = tokens.missing([hdfs_token(service) for service in services], conf)
    assert [address for _, address in found] == expected
    assert all(token.service == services[0].encode() for token, _ in found)
