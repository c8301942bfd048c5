"""Secrets of this test's own, planted wherever secrets live, and looked for in all that a run
leaves behind.
"""

from __future__ import annotations

import base64
import mmap
import secrets
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests import clusters
from tests.clusters import Cluster
from tests.proxy import Proxy
from tests.tool import Result, Tool

pytestmark = pytest.mark.cluster

KEY_BYTES = 16  # the last bytes of an entry are its key, or its key and a version number of 32 bits
# within which HDFS has removed what was deleted, and a NodeManager what it localised
COLLECTED_S = 60.0


@dataclass
class Planted:
    """Secrets by what they are, and everything that was printed while they were in use."""

    secrets: dict[str, bytes] = field(default_factory=dict)
    printed: list[tuple[str, str]] = field(default_factory=list)

    def secret(self, what: str) -> str:
        """Make one."""
        made = f"canary-{secrets.token_hex(12)}"
        self.secrets[what] = made.encode()
        return made

    def run(self, tool: Tool, *arguments: object, **environ: str) -> Result:
        """Run a command, verbose, and keep what it printed."""
        done = tool.given(**environ)(*arguments, "-v")
        self.printed.append((" ".join(map(str, arguments)), done.stdout + done.stderr))
        return done

    def found(self, *roots: Path, but: tuple[Path, ...] = ()) -> list[str]:
        """Say where any of them is."""
        told = [
            f"{what} in the output of {command}"
            for command, text in self.printed
            for what in self._in(text.encode())
        ]
        kept = [
            f"{what} in {path}" for path in _files(roots, but) for what in self._in(_content(path))
        ]
        return told + kept

    def _in(self, content: bytes | mmap.mmap) -> Iterator[str]:
        return (what for what, secret in self.secrets.items() if content.find(secret) >= 0)


def _files(roots: tuple[Path, ...], but: tuple[Path, ...]) -> Iterator[Path]:
    for root in roots:
        for path in root.rglob("*"):
            if (
                path.is_file()
                and not path.is_symlink()
                and not any(path.is_relative_to(place) for place in but)
            ):
                yield path


def _content(path: Path) -> bytes | mmap.mmap:
    try:
        with path.open("rb") as file:
            return (
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""
            )
    except FileNotFoundError:
        return b""  # removed meanwhile


def entries(keytab: bytes) -> Iterator[bytes]:
    """Yield the entries of a keytab of MIT's format, version 2."""
    at = 2
    while at < len(keytab):
        size = int.from_bytes(keytab[at : at + 4], "big", signed=True)
        if size > 0:
            yield keytab[at + 4 : at + 4 + size]
        at += 4 + abs(size)


def _kept(path: Path, content: str) -> Path:
    path.write_text(content)
    path.chmod(0o600)
    return path


def test_what_opens_a_gateway_is_nowhere_else(
    tool: Tool, real_cluster: Cluster, tmp_path: Path
) -> None:
    planted, vault, user = Planted(), tmp_path / "vault", real_cluster.user
    vault.mkdir(mode=0o700)

    def file(what: str, before: str = "") -> dict[str, str]:
        text = planted.secret(what)
        planted.secrets[f"{what}, encoded"] = base64.b64encode((before + text).encode())
        return {"SUBMIT_TF_JOB_CREDENTIALS_FILE": str(_kept(vault / what, text))}

    bearer, basic, bogus = file("token"), file("password", f"{user}:"), file("delegation")
    command = {"SUBMIT_TF_JOB_CREDENTIALS_COMMAND": shlex.join(["cat", str(vault / "token")])}
    open_word = f"mark-{secrets.token_hex(8)}"  # no secret: it shows that what is there is found
    spec = tool.spec(
        "canary",
        strategy="single",
        command=f"echo {open_word}; sleep 3600",
        roles={"worker": {"memory": "256Mi"}},
    )
    with Proxy(real_cluster.rm_url, user=user).listening() as proxy:
        by_token = ("--auth", "bearer", "--rm", proxy.url)
        by_password = ("--auth", "basic", "--rm", proxy.url)
        assert planted.run(tool, "submit", spec, "--detach", *by_token, **bearer).status == 0
        tool.until("canary", lambda seen: seen["state"] == "RUNNING")
        assert planted.run(tool, "status", "canary", *by_password, **basic).status == 0
        assert open_word in planted.run(tool, "logs", "canary", *by_token, **command).stdout
        assert planted.run(tool, "describe", "canary", *by_token, **command).status == 0
        assert planted.run(tool, "stop", "canary", *by_password, **basic).status == 0
    away = planted.run(
        tool, "status", "canary", *by_token, **bearer, SUBMIT_TF_JOB_TIMEOUTS_FAILOVER="1s"
    )
    assert away.status == 7
    unknown = planted.run(tool, "status", "canary", "--auth", "delegation-token", **bogus)
    assert unknown.status in (0, 4)
    (vault / "token").chmod(0o644)
    assert planted.run(tool, "list", *by_token, **bearer).status == 2
    assert planted.found(real_cluster.home, tmp_path, but=(vault,)) == []
    planted.secrets = {"the word": open_word.encode()}
    places = " ".join(planted.found(real_cluster.home))
    logs = ("output of logs", "resourcemanager.log", "serviceam.log", "stdout.txt")
    missing = [part for part in (*logs, "/nm-local/", "/dn/") if part not in places]
    assert not missing, "\n".join(places.split(" the word "))


def test_a_keytab_is_gone_with_its_job(kerberos_cluster: Cluster, tmp_path: Path) -> None:
    info, keytabs = kerberos_cluster, Path(kerberos_cluster.info["kerberos"]["keytabs"])
    own = (keytabs / f"{info.user}.localhost.keytab").read_bytes()
    vault = tmp_path / "vault"
    vault.mkdir(mode=0o700)
    (vault / "job.keytab").write_bytes(own)
    (vault / "job.keytab").chmod(0o600)
    planted = Planted()
    for number, entry in enumerate(entries(own)):
        planted.secrets[f"key {number} of the keytab"] = entry[-4 - KEY_BYTES : -4]
    # other tests of the session put it on HDFS, too
    before = [Path(line.partition(" in ")[2]) for line in planted.found(info.home)]
    principal = f"{info.user}/localhost@SANDBOX.TEST"
    tool = Tool(clusters.environment(), info.profile, tmp_path)
    kerberos = {"principal": principal, "keytab": str(vault / "job.keytab")}
    roles = {"worker": {"memory": "256Mi"}}
    spec = tool.spec(
        "keyed", strategy="single", command="echo up; sleep 3600", roles=roles, kerberos=kerberos
    )
    try:
        assert planted.run(tool, "submit", spec, "--detach").status == 0
        tool.until("keyed", lambda seen: seen["state"] == "RUNNING")
        assert "up" in planted.run(tool, "logs", "keyed").stdout
        assert planted.run(tool, "status", "keyed", "-o", "json").status == 0
        rendered = planted.run(tool, "render", spec)
        assert rendered.status == 0
        assert "hadoop.auth" not in "".join(text for _, text in planted.printed), (
            "a cookie was printed"
        )
        assert planted.run(tool, "stop", "keyed").status == 0
    finally:
        assert planted.run(tool, "delete", "keyed", "--force").status == 0
    # where the test and the sandbox itself keep their keys
    known = (vault, keytabs, info.home / "kdc")
    # the sandbox keeps a container's directory for ten minutes, YARN by default for none
    local = info.home / "run/nm-local"
    deadline = time.monotonic() + COLLECTED_S
    while left := planted.found(info.home, tmp_path, but=(local, *known, *before)):
        assert time.monotonic() < deadline, "\n".join(left)
        time.sleep(2)
    copies = [Path(line.partition(" in ")[2]) for line in planted.found(local)]
    assert copies, "the container had no keytab"
    assert {path.stat().st_mode & 0o077 for path in copies} == {0}, copies
