"""Logging in against a real KDC: what goes wrong is said before anything is sent, each time with
its own words and a way out.
"""

from __future__ import annotations

import re
import shutil
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.hostile.server import HostileServer, always, raw
from tests.kerberos.conftest import REALM, Client

RM = "http://localhost:1"  # nobody listens: what is said about Kerberos is said before


@dataclass(frozen=True)
class Case:
    """One thing that is wrong.

    Attributes:
        message: What is said, as a regular expression.
        hint: What is advised.
        words: Options of the command.
        settings: Settings as environment variables.
        before: Prepares the shell.
    """

    message: str
    hint: str
    words: tuple[str, ...] = ()
    settings: Callable[[Client], dict[str, str]] = lambda _client: {}
    before: Callable[[Client], None] = lambda _client: None
    status: int = 4


def _keytab(name: str, principal: str | None = None) -> Callable[[Client], dict[str, str]]:
    def settings(client: Client) -> dict[str, str]:
        copied = client.home / "used.keytab"
        shutil.copy(client.kdc.keytab(name), copied)
        copied.chmod(0o600)
        return {
            "SUBMIT_TF_JOB_KERBEROS_KEYTAB": str(copied),
            **({"SUBMIT_TF_JOB_KERBEROS_PRINCIPAL": principal} if principal else {}),
        }

    return settings


def _krb5_conf(change: Callable[[str], str]) -> Callable[[Client], dict[str, str]]:
    def settings(client: Client) -> dict[str, str]:
        other = client.home / "krb5.conf"
        other.write_text(change(client.kdc.krb5_conf.read_text()))
        return {"SUBMIT_TF_JOB_KERBEROS_KRB5_CONF": str(other)}

    return settings


def _stale_keytab(client: Client) -> dict[str, str]:
    kdc = client.kdc
    kdc.admin(
        "addprinc -randkey stale",
        f"ktadd -norandkey -k {kdc.keytab('stale')} stale",
        "cpw -randkey stale",
    )
    return _keytab("stale")(client)


def _ticket(client: Client) -> None:
    client.kdc.kinit("alice", client.cache)


def _expired_ticket(client: Client) -> None:
    client.kdc.kinit("alice", client.cache, "-l", "1s")
    time.sleep(2.1)


def _future_ticket(client: Client) -> None:
    client.kdc.kinit("alice", client.cache, "-s", "1h")


def _bad_keytab(mode: int, content: bytes | None = None) -> Callable[[Client], dict[str, str]]:
    def settings(client: Client) -> dict[str, str]:
        path = client.home / "bad.keytab"
        path.write_bytes(client.kdc.keytab("alice").read_bytes() if content is None else content)
        path.chmod(mode)
        return {
            "SUBMIT_TF_JOB_KERBEROS_KEYTAB": str(path),
            "SUBMIT_TF_JOB_KERBEROS_PRINCIPAL": "alice",
        }

    return settings


def _both(
    first: Callable[[Client], dict[str, str]], second: Callable[[Client], dict[str, str]]
) -> Callable[[Client], dict[str, str]]:
    return lambda client: {**first(client), **second(client)}


CASES = {
    "no ticket": Case("there is no Kerberos ticket", "kinit, or set kerberos.keytab"),
    "ticket that has expired": Case(
        rf"the Kerberos ticket has expired at \d\d\d\d-.*alice@{REALM}",
        "kinit",
        before=_expired_ticket,
    ),
    "ticket that is valid only later": Case("valid only later", "clock", before=_future_ticket),
    "alias of the host": Case(
        "the KDC has no service HTTP/127.0.0.1@KDC.TEST",
        "host name of its principal",
        ("--rm", "http://127.0.0.1:1"),
        before=_ticket,
    ),
    "keytab of somebody else": Case(
        "holds no key of alice", "klist -kt", settings=_keytab("bob", "alice")
    ),
    "keytab whose key was changed": Case(
        "key is not the principal's any more", "new keytab", settings=_stale_keytab
    ),
    "keytab that others read": Case(
        "others can read it", "chmod 600", settings=_bad_keytab(0o644), status=2
    ),
    "keytab that is not there": Case(
        "cannot be read: no such file",
        "",
        settings=lambda _client: {"SUBMIT_TF_JOB_KERBEROS_KEYTAB": "/nowhere/a.keytab"},
        status=2,
    ),
    "keytab of rubbish": Case(
        "the file is not a keytab", "ktadd", settings=_bad_keytab(0o600, b"rubbish")
    ),
    "principal nobody knows": Case(
        "holds no key of mallory", "klist", settings=_keytab("alice", "mallory")
    ),
    "realm without a KDC": Case(
        f"no KDC of the realm {REALM} is known here",
        r"\[realms\]",
        settings=_both(
            _keytab("alice"),
            _krb5_conf(lambda text: text.replace(f" {REALM} = {{", " OTHER.TEST = {")),
        ),
    ),
    "KDC that is down": Case(
        f"no KDC of the realm {REALM} answers",
        "kdc lines of",
        settings=_both(
            _keytab("alice", "alice"),
            _krb5_conf(lambda text: re.sub(r"kdc = .*", f"kdc = 127.0.0.1:{_unused()}", text)),
        ),
    ),
    "no encryption type in common": Case(
        "no encryption type in common",
        "klist -e",
        settings=_both(
            _keytab("alice", "alice"),
            _krb5_conf(
                lambda text: text.replace(
                    "[libdefaults]", "[libdefaults]\n permitted_enctypes = camellia256-cts-cmac"
                )
            ),
        ),
    ),
    "krb5.conf that is broken": Case(
        "cannot be read|no KDC|realm is not known",
        "krb5",
        settings=_krb5_conf(lambda _text: "[realms\n}{"),
    ),
}


def _unused() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_is_said_before_anything_is_sent(client: Client, name: str) -> None:
    case = CASES[name]
    case.before(client)
    words = case.words or ("--rm", RM)
    said = client("list", "--auth", "kerberos", *words, environ=case.settings(client))
    assert (said.status, said.stdout) == (case.status, ""), said
    first, _, rest = said.stderr.partition("\n")
    assert re.search(case.message, first), said.stderr
    assert re.search(case.hint, rest), said.stderr


@pytest.mark.parametrize(
    ("challenge", "message", "hint"),
    [
        ("Negotiate", "does not accept the Kerberos ticket for HTTP/localhost.", "its principal"),
        ("Basic", "does not speak SPNEGO here; it wants Basic.", "--auth basic"),
    ],
)
def test_what_a_server_says_of_the_ticket(
    client: Client, challenge: str, message: str, hint: str
) -> None:
    client.kdc.kinit("alice", client.cache)
    answer = raw(401, b"", "text/html", f"WWW-Authenticate: {challenge}")
    with HostileServer(always(answer)).listening() as server:
        said = client("list", "--auth", "kerberos", "--rm", server.url())
    assert (said.status, said.stdout) == (4, ""), said
    assert message in said.stderr
    assert hint in said.stderr
    assert all("\r\nAuthorization: Negotiate " in asked.head for asked in server.asked)
