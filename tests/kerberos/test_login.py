"""Logging in against a real KDC: what goes wrong is said before anything is sent, each time with
its own words and a way out.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.hostile.server import HostileServer, always, raw
from tests.kerberos.conftest import REALM, Client

RM = "http://localhost:1"  # nobody listens: what is said about Kerberos is said before


Settings = Callable[[Client], dict[str, str]]


@dataclass(frozen=True)
class Case:
    """One thing that is wrong.

    Attributes:
        message: What is said, as a regular expression.
        hint: What is advised.
        settings: Settings as environment variables; later ones add to those before.
        before: Prepares the shell.
        rm: The ResourceManager that is asked.
    """

    message: str
    hint: str
    settings: tuple[Settings, ...] = ()
    before: Callable[[Client], None] = lambda _client: None
    rm: str = RM
    status: int = 4


def _keytab(
    name: str, principal: str = "", mode: int = 0o600, content: bytes | None = None
) -> Settings:
    def settings(client: Client) -> dict[str, str]:
        path = client.home / "used.keytab"
        path.write_bytes(client.kdc.keytab(name).read_bytes() if content is None else content)
        path.chmod(mode)
        found = {"KEYTAB": str(path), **({"PRINCIPAL": principal} if principal else {})}
        return {f"SUBMIT_TF_JOB_KERBEROS_{key}": value for key, value in found.items()}

    return settings


def _krb5_conf(change: Callable[[str], str]) -> Settings:
    def settings(client: Client) -> dict[str, str]:
        other = client.home / "krb5.conf"
        other.write_text(change(client.kdc.krb5_conf.read_text()))
        return {"SUBMIT_TF_JOB_KERBEROS_KRB5_CONF": str(other)}

    return settings


def _stale_keytab(client: Client) -> dict[str, str]:
    kdc, add = client.kdc, "addprinc -randkey stale"
    kdc.admin(add, f"ktadd -norandkey -k {kdc.keytab('stale')} stale", "cpw -randkey stale")
    return _keytab("stale")(client)


def _ticket(*options: str, wait_s: float = 0.0) -> Callable[[Client], None]:
    def get(client: Client) -> None:
        client.kdc.kinit("alice", client.cache, *options)
        time.sleep(wait_s)

    return get


def _down(text: str) -> str:
    return re.sub(r"kdc = .*", "kdc = 127.0.0.1:1", text)


ALICE = _keytab("alice", "alice")
NOWHERE = {"SUBMIT_TF_JOB_KERBEROS_KEYTAB": "/nowhere/a.keytab"}
CAMELLIA = "[libdefaults]\n permitted_enctypes = camellia256-cts-cmac"
UNKNOWN = _krb5_conf(lambda text: text.replace(f" {REALM} = {{", " OTHER.TEST = {"))
OTHER_TYPE = _krb5_conf(lambda text: text.replace("[libdefaults]", CAMELLIA))
BROKEN = _krb5_conf(lambda _text: "[realms\n}{")
NO_KDC = f"no KDC of the realm {REALM}"
NO_SERVICE = "the KDC has no service HTTP/127.0.0.1@KDC.TEST"
EXPIRED = rf"the Kerberos ticket has expired at \d\d\d\d-.*alice@{REALM}"
CASES = {
    "no ticket": Case("there is no Kerberos ticket", "kinit, or set kerberos.keytab"),
    "ticket that has expired": Case(EXPIRED, "kinit", before=_ticket("-l", "1s", wait_s=2.1)),
    "ticket of tomorrow": Case("valid only later", "clock", before=_ticket("-s", "1h")),
    "alias of the host": Case(
        NO_SERVICE, "host name of its principal", before=_ticket(), rm="http://127.0.0.1:1"
    ),
    "keytab of another": Case("holds no key of alice", "klist -kt", (_keytab("bob", "alice"),)),
    "keytab whose key was changed": Case(
        "key is not the principal's any more", "new keytab", (_stale_keytab,)
    ),
    "keytab that others read": Case(
        "others can read it", "chmod 600", (_keytab("alice", "alice", 0o644),), status=2
    ),
    "keytab missing": Case("cannot be read: no such", "", (lambda _client: NOWHERE,), status=2),
    "keytab of rubbish": Case(
        "the file is not a keytab", "ktadd", (_keytab("", "alice", content=b"rubbish"),)
    ),
    "unknown principal": Case("holds no key of mallory", "klist", (_keytab("alice", "mallory"),)),
    "no KDC of a realm": Case(
        f"{NO_KDC} is known here", r"\[realms\]", (_keytab("alice"), UNKNOWN)
    ),
    "KDC that is down": Case(f"{NO_KDC} answers", "kdc lines of", (ALICE, _krb5_conf(_down))),
    "other encryption types": Case("no encryption type in common", "klist -e", (ALICE, OTHER_TYPE)),
    "krb5.conf that is broken": Case("cannot be read|no KDC|realm is not known", "krb5", (BROKEN,)),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_is_said_before_anything_is_sent(client: Client, name: str) -> None:
    case = CASES[name]
    case.before(client)
    given = {name: text for found in case.settings for name, text in found(client).items()}
    said = client("list", "--auth", "kerberos", "--rm", case.rm, environ=given)
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
def test_refused_ticket(client: Client, challenge: str, message: str, hint: str) -> None:
    client.kdc.kinit("alice", client.cache)
    answer = raw(401, b"", "text/html", f"WWW-Authenticate: {challenge}")
    with HostileServer(always(answer)).listening() as server:
        said = client("list", "--auth", "kerberos", "--rm", server.url())
    assert (said.status, said.stdout) == (4, ""), said
    assert message in said.stderr
    assert hint in said.stderr
    assert all("\r\nAuthorization: Negotiate " in asked.head for asked in server.asked)
