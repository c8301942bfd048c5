"""A real KDC for each test session: MIT's, on a port of its own, without any file of the system."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.gateways import unused_port
from tests.tool import Result, Tool, until

REALM = "KDC.TEST"
PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


@dataclass
class Kdc:
    """One realm; `alice` and `bob` are users, `HTTP/localhost` and `HTTP/other` services.

    Attributes:
        directory: Database, configuration, keytabs.
        port: Where it listens.
    """

    directory: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def krb5_conf(self) -> Path:
        return self.directory / "krb5.conf"

    def keytab(self, name: str) -> Path:
        return self.directory / f"{name.replace('/', '.')}.keytab"

    @property
    def environ(self) -> dict[str, str]:
        own = {
            "KRB5_CONFIG": str(self.krb5_conf),
            "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf"),
            "PATH": PATH,
        }
        return {**os.environ, **own}

    def run(self, *argv: str, orders: str = "", environ: Mapping[str, str] | None = None) -> str:
        """Run one program of MIT Kerberos in this realm."""
        done = subprocess.run(
            argv,
            env={**self.environ, **(environ or {})},
            input=orders,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, (argv, done.stdout, done.stderr)
        return done.stdout

    def make(self) -> None:
        """Write the configuration and make the database."""
        (self.directory / "krb5.conf").write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n rdns = "
            f"false\n dns_canonicalize_hostname = false\n"
            f" udp_preference_limit = 1\n[realms]\n {REALM} = {{\n  kdc = "
            f"127.0.0.1:{self.port}\n }}\n"
            f"[domain_realm]\n localhost = {REALM}\n"
            f" 127.0.0.1 = {REALM}\n"
        )
        (self.directory / "kdc.conf").write_text(
            f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{self.port}\n kdc_tcp_listen = "
            f"127.0.0.1:{self.port}\n[realms]\n {REALM} = {{\n"
            f"  database_name = {self.directory}/principal\n  key_stash_file = "
            f"{self.directory}/stash\n  max_life = 1d\n"
            "  supported_enctypes = aes256-cts-hmac-sha1-96:normal "
            "aes128-cts-hmac-sha1-96:normal\n }\n[logging]\n kdc = STDERR\n"
        )
        self.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        for name in ("alice", "bob", "HTTP/localhost", "HTTP/other"):
            path = self.keytab(name)
            self.admin(f"addprinc -randkey {name}", f"ktadd -norandkey -k {path} {name}")

    def admin(self, *orders: str) -> None:
        """Give kadmin.local some orders."""
        self.run("kadmin.local", "-r", REALM, orders="".join(f"{order}\n" for order in orders))

    def start(self) -> None:
        """Start it, and wait until it listens."""
        argv = ["krb5kdc", "-n", "-r", REALM, "-P", str(self.directory / "pid")]
        self.process = subprocess.Popen(
            argv, env=self.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until(self.listens, "krb5kdc listens")

    def listens(self) -> bool:
        """Say whether it takes connections."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            self.process = None

    def kinit(
        self, name: str, cache: Path, *options: str, environ: Mapping[str, str] | None = None
    ) -> None:
        """Get a ticket for a user into a cache."""
        words = ("kinit", *options, "-c", str(cache), "-kt", str(self.keytab(name)), name)
        self.run(*words, environ=environ)


@pytest.fixture(scope="session")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    """Start a KDC, and end it."""
    if shutil.which("krb5kdc", path=PATH) is None:
        pytest.fail(
            "krb5kdc is not installed; run `make test`, or apt-get install krb5-kdc "
            "krb5-admin-server krb5-user"
        )
    made = Kdc(tmp_path_factory.mktemp("kdc"), unused_port())
    made.make()
    made.start()
    yield made
    made.stop()


class Client:
    """submit_tf_job as a process, with a ticket cache of its own."""

    def __init__(self, kdc: Kdc, home: Path) -> None:
        self.kdc, self.home, self.cache = kdc, home, home / "krb5cc"
        others = ("SUBMIT_TF_JOB", "HADOOP")
        kept = {name: text for name, text in kdc.environ.items() if not name.startswith(others)}
        own = {"HOME": str(home), "KRB5CCNAME": f"FILE:{self.cache}"}
        self._tool = Tool({**kept, **own}, "", home)

    def __call__(self, *words: str, environ: Mapping[str, str] | None = None) -> Result:
        return self._tool.given(**(environ or {}))(*words)


@pytest.fixture
def client(kdc: Kdc, tmp_path: Path) -> Client:
    """A user's shell without a ticket."""
    return Client(kdc, tmp_path)
