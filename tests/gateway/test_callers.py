"""Callers who come by Kerberos (a real KDC, curl), beside those with a token, over real TLS."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.errors import SettingsError
from submit_tf_job.gateway.callers import Negotiator
from tests.gateway.conftest import JOB, TOKEN, Process
from tests.kerberos.conftest import Kdc, kdc
from tests.world.served import Served

__all__ = ["kdc"]


class Curl:
    """curl, as somebody who has nothing else."""

    def __init__(self, environ: dict[str, str], *always: str) -> None:
        self._environ, self._always = environ, always

    def __call__(self, url: str, *words: str) -> tuple[int, dict[str, Any], str]:
        argv = ["curl", "-sS", "-m", "120", "-D", "-", *self._always, *words, url]
        done = subprocess.run(argv, env=self._environ, capture_output=True, text=True, timeout=240)
        if done.returncode:
            return 0, {}, done.stderr
        *heads, body = done.stdout.split("\n\n")
        return int(heads[-1].split()[1]), json.loads(body) if body else {}, "\n".join(heads).lower()


@pytest.fixture
def gateway(
    kdc: Kdc, certificates: Path, cluster: Served, options: list[str], tmp_path: Path
) -> Iterator[Process]:
    tls = ("--cert", str(certificates / "server.crt"), "--key", str(certificates / "server.key"))
    ticket = ("--negotiate", str(kdc.keytab("HTTP/localhost")))
    made = Process(tmp_path, *options, *tls, *ticket, environ={"KRB5_CONFIG": str(kdc.krb5_conf)})
    yield made
    made.end(signal.SIGKILL)


def test_ticket_or_token(gateway: Process, kdc: Kdc, certificates: Path, tmp_path: Path) -> None:
    url = f"https://localhost:{gateway.port}/v1/jobs"
    trusting = ("--cacert", str(certificates / "ca.crt"))
    bare = Curl({**kdc.environ, "KRB5CCNAME": str(tmp_path / "none")}, *trusting)
    status, problem, heads = bare(url)
    assert (status, problem["code"]) == (401, "not-authenticated")
    assert "\nwww-authenticate: bearer" in heads
    assert "\nwww-authenticate: negotiate" in heads

    # Kerberos
    cache = tmp_path / "cache"
    kdc.kinit("alice", cache)
    curl = Curl({**kdc.environ, "KRB5CCNAME": str(cache)}, *trusting, "--negotiate", "-u", ":")
    job = json.dumps({**JOB, "name": "by-ticket"})
    status, made, heads = curl(url, "-H", "Content-Type: application/json", "-d", job)
    assert (status, made["kind"]) == (201, "Submission"), made
    own = heads.rpartition("http/1.1")[2]
    assert "www-authenticate: negotiate " in own, "it proves itself, too"
    other = url.replace("localhost", "127.0.0.1")
    assert curl(other, "-k")[0] == 401, "no ticket is for that name"
    for token in ("YWJj", "not base64!", "TlRMTVNTUAABAAAA", ""):
        status, problem, _ = bare(url, "-H", f"Authorization: Negotiate {token}")
        assert (status, problem["code"]) == (401, "not-authenticated"), token
    # a browser sends tickets for any page
    status, problem, _ = curl(url, "-H", "Origin: https://evil.example")
    assert (status, problem["code"]) == (403, "forbidden-origin")

    # a token
    status, jobs, _ = bare(url, "-H", f"Authorization: Bearer {TOKEN}")
    assert (status, "by-ticket" in [job["name"] for job in jobs["jobs"]]) == (200, True)
    assert bare(url, "-H", "Authorization: Bearer wrong")[0] == 401
    assert {entry["caller"] for entry in gateway.entries() if entry["status"] < 300} == {"alice"}
    assert TOKEN not in gateway.log.read_text()


def test_what_is_no_keytab_for_callers(kdc: Kdc, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no key of HTTP"):
        Negotiator(kdc.keytab("alice"))
    shutil.copy(kdc.keytab("HTTP/localhost"), tmp_path / "open")
    (tmp_path / "open").chmod(0o644)
    with pytest.raises(SettingsError, match="others can read"):
        Negotiator(tmp_path / "open")
    (tmp_path / "text").write_text("no keytab")
    (tmp_path / "text").chmod(0o600)
    with pytest.raises(SettingsError, match="cannot be read"):
        Negotiator(tmp_path / "text")


def test_whose_a_principal_is(kdc: Kdc) -> None:
    ours = Negotiator(kdc.keytab("HTTP/localhost"))
    assert ours._user_of("alice@KDC.TEST") == "alice"
    assert ours._user_of("airflow/host.example.com@KDC.TEST") == "airflow"
    for stranger in ("alice@OTHER.TEST", "alice", "a b@KDC.TEST", "@KDC.TEST", "alice@kdc.test"):
        with pytest.raises(Exception, match="is not a caller"):
            ours._user_of(stranger)
