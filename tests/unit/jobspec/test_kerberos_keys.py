"""`kerberos`: the check of a keytab of this host, and krb5.conf of this host."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.errors import JobSpecError
from submit_tf_job.jobspec import Defaults, loads
from submit_tf_job.jobspec.files import Host
from submit_tf_job.jobspec.job import Job
from tests.builders.keytabs import RECORDED, keytab

PRINCIPAL = "svc/_HOST@EXAMPLE.COM"
SECRET = "Sixteen-Byte-Key"


def job(base: Path | None, kerberos: dict[str, str], krb5_conf: Sequence[Path] = ()) -> Job:
    spec = {
        "name": "t",
        "image": "i",
        "command": "c",
        "strategy": "single",
        "roles": {"chief": {"memory": "1Gi"}},
        "kerberos": kerberos,
    }
    host = Host(base, krb5_conf=tuple(krb5_conf))
    return loads(json.dumps(spec), source="train.json", base=base, host=host)


def refused(base: Path | None, path: str, principal: str = PRINCIPAL) -> str:
    with pytest.raises(JobSpecError) as caught:
        job(base, {"principal": principal, "keytab": path})
    return str(caught.value).partition("kerberos.keytab: ")[2].replace(str(base), "<dir>")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "svc.keytab"
    path.write_bytes(RECORDED)
    path.chmod(0o400)
    return path


def test_keytab_may_be_relative_or_absolute(mine: Path) -> None:
    for base, keytab_path in ((mine.parent, mine.name), (Path("/"), str(mine))):
        read = job(base, {"principal": PRINCIPAL, "keytab": keytab_path}).kerberos
        assert read
        assert (read.principal, read.keytab, read.secret) == (PRINCIPAL, keytab_path, RECORDED)


def test_keytab_bytes_are_not_in_repr(mine: Path) -> None:
    mine.chmod(0o600)
    mine.write_bytes(keytab("svc/a@R", key=SECRET.encode()))
    read = job(mine.parent, {"principal": "svc/_HOST@R", "keytab": mine.name})
    assert SECRET not in repr(read) + repr(read.kerberos)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o604, 0o620])
def test_keytab_is_refused_if_others_can_read_or_write_it(mine: Path, mode: int) -> None:
    mine.chmod(mode)
    assert refused(mine.parent, mine.name) == (
        f"'svc.keytab': others can read or change it (mode {mode:04o}), and every reader "
        "can log in as its principal; "
        "chmod 600 <dir>/svc.keytab"
    )


NOT_MIT = "it is not a keytab of MIT's format (it does not begin with 05 02)"
OF_ALICE = "alice@EXAMPLE.COM"
OF_SVC = "svc/node1.example.com@EXAMPLE.COM"
DES = keytab(OF_SVC, kind=3) + keytab(OF_SVC, kind=16)[2:] + keytab(OF_ALICE)[2:]


@pytest.mark.parametrize(
    ("content", "principal", "why"),
    [
        (b"PK\x03\x04", OF_SVC, NOT_MIT),
        (b"", OF_SVC, NOT_MIT),
        (RECORDED[:-3], OF_SVC, "it is a keytab that is cut off or damaged"),
        (RECORDED[:2], OF_SVC, f"it holds no key of {OF_SVC}: it is empty"),
        (RECORDED, "bob/_HOST@EXAMPLE.COM", f"it holds no key of bob/_HOST@EXAMPLE.COM, only of {OF_ALICE}, {OF_SVC}"),
        (RECORDED, "svc/_HOST@OTHER.COM", f"it holds no key of svc/_HOST@OTHER.COM, only of {OF_ALICE}, {OF_SVC}"),
        (RECORDED, "sv/_HOST@EXAMPLE.COM", f"it holds no key of sv/_HOST@EXAMPLE.COM, only of {OF_ALICE}, {OF_SVC}"),
        (RECORDED, "svc/node2.example.com@EXAMPLE.COM", f"it holds no key of svc/node2.example.com@EXAMPLE.COM, only of {OF_ALICE}, {OF_SVC}"),
        (keytab("svc@EXAMPLE.COM"), "svc/_HOST@EXAMPLE.COM", "it holds no key of svc/_HOST@EXAMPLE.COM, only of svc@EXAMPLE.COM"),
        (DES, OF_SVC, f"its keys of {OF_SVC} are of types that Kerberos no longer supports: des-cbc-md5, des3-cbc-sha1"),
    ],
    ids=range(10),
)  # fmt: skip
def test_keytab_is_refused_without_a_key_of_the_principal(
    mine: Path, content: bytes, principal: str, why: str
) -> None:
    mine.chmod(0o600)
    mine.write_bytes(content)
    assert refused(mine.parent, mine.name, principal) == f"'svc.keytab' cannot be used: {why}"


@pytest.mark.parametrize("principal", [OF_SVC, "svc/_HOST@EXAMPLE.COM"])
def test_keytab_holds_a_key_of_the_principal(mine: Path, principal: str) -> None:
    job(mine.parent, {"principal": principal, "keytab": mine.name})


def test_keytab_is_a_file_of_a_keytab_s_size(tmp_path: Path) -> None:
    assert refused(tmp_path, ".") == "'.': cannot be read: is a directory; name a file in it"
    (tmp_path / "huge").write_bytes(RECORDED[:2] + bytes(1 << 20))
    (tmp_path / "huge").chmod(0o600)
    assert refused(tmp_path, "huge") == "'huge': larger than 1024 KiB; no keytab is"


def test_kerberos_without_base_reads_no_file_of_this_host() -> None:
    assert (
        refused(None, "/etc/krb5.keytab")
        == "keytabs of this host are not read here; put it on HDFS, or on every node"
    )
    read = job(None, {"principal": PRINCIPAL, "keytab": "hdfs:///k"}, krb5_conf=[Path("/etc/krb5")])
    assert read.kerberos
    assert (read.kerberos.keytab, read.kerberos.secret) == ("hdfs:///k", None)
    assert read.kerberos.krb5_conf.content == b""


def test_kerberos_may_come_from_the_settings(mine: Path) -> None:
    own = {"principal": PRINCIPAL, "keytab": str(mine), "login": "never"}
    defaults = Defaults({"kerberos": own})
    text = "name: t\nimage: i\ncommand: c\nstrategy: single\nroles: {chief: {memory: 1Gi}}\n"
    read = loads(text, source="t.yaml", base=Path("/"), defaults=defaults)
    assert read.kerberos is not None
    assert read.kerberos.login == "never"
    assert (read.kerberos.principal, read.kerberos.keytab) == (PRINCIPAL, str(mine))


# --- krb5.conf ------------------------------------------------------------------------------------


def krb5_conf(base: Path, files: list[Path], **asked: str) -> Any:
    read = job(base, {"principal": PRINCIPAL, "keytab": "hdfs:///k", **asked}, krb5_conf=files)
    assert read.kerberos is not None
    return read.kerberos.krb5_conf


@pytest.mark.parametrize(
    ("asked", "here", "found"),
    [
        ("", True, ("inline", "", b"[libdefaults]\ndefault_realm = R\n")),
        ("inline", True, ("inline", "", b"[libdefaults]\ndefault_realm = R\n")),
        ("", False, ("image", "", b"")),
        ("none", True, ("image", "", b"")),
        ("/etc/krb5.conf", True, ("node", "/etc/krb5.conf", b"")),
    ],
)
def test_krb5_conf_is_inline_a_node_file_or_the_images(
    tmp_path: Path, asked: str, here: bool, found: tuple[str, str, bytes]
) -> None:
    (tmp_path / "krb5.conf").write_text("[libdefaults]\n default_realm = R\n")
    said = {"krb5_conf": asked} if asked else {}
    conf = krb5_conf(tmp_path, [tmp_path / "krb5.conf"] * here, **said)
    assert (conf.kind, conf.location, conf.content) == found


def test_inline_krb5_conf_has_what_it_includes(tmp_path: Path) -> None:
    parts = tmp_path / "krb5.conf.d"
    parts.mkdir()
    (parts / "realms").write_text("# ours\n[realms]\n R = {\n  kdc = k\n }\n")
    (parts / "crypto.conf").write_text("[libdefaults]\n permitted_enctypes = aes256-cts\n")
    (parts / "old.rpmsave").write_text("[libdefaults]\n default_realm = WRONG\n")
    (parts / ".hidden.conf").write_text("[libdefaults]\n default_realm = WRONG\n")
    (tmp_path / "krb5.conf").write_text(
        f"; comment\nincludedir {parts}\n\n[libdefaults]\n default_realm = R\n include "
        f"{parts / 'realms'}\n rdns = false\n"
    )
    (tmp_path / "second").write_text("[libdefaults]\n dns_lookup_kdc = false\n")
    sent = krb5_conf(tmp_path, [tmp_path / "krb5.conf", tmp_path / "second"])
    assert sent.content.decode().splitlines() == [
        *("[libdefaults]", "permitted_enctypes = aes256-cts"),
        *("[realms]", "R = {", "kdc = k", "}"),
        *("[libdefaults]", "default_realm = R"),
        *("[realms]", "R = {", "kdc = k", "}"),
        *("[libdefaults]", "rdns = false"),  # the section continues after the included file
        *("[libdefaults]", "dns_lookup_kdc = false"),
    ]


def test_krb5_conf_is_limited_in_size_and_depth(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(f"include {tmp_path / 'a'}\n")
    with pytest.raises(JobSpecError, match="is included more than 10 levels deep"):
        krb5_conf(tmp_path, [tmp_path / "a"])
    (tmp_path / "b").write_text("x = y\n" * 20_000)
    with pytest.raises(JobSpecError, match="the most is 65536"):
        krb5_conf(tmp_path, [tmp_path / "b"])
