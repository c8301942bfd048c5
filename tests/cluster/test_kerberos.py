"""Proving who we are to a real ResourceManager with Kerberos: tickets, cookies, tokens, proxy
users, and each refusal in words.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from tests.clusters import Cluster
from tests.gateway.conftest import Process
from tests.pages import DOCS, blocks
from tests.proxy import Proxy
from tests.tool import (
    Result,
    Tool,
)

pytestmark = pytest.mark.cluster

REALM = "SANDBOX.TEST"


class Shell:
    """The tool as one of the sandbox's users, who has settings and a ticket cache of their own."""

    def __init__(self, cluster: Cluster, environ: Mapping[str, str], home: Path) -> None:
        self.cluster = cluster
        self.home = home
        self.krb5_conf = cluster.info["kerberos"]["krb5_conf"]
        self.keytabs = Path(cluster.info["kerberos"]["keytabs"])
        kept = {name: value for name, value in environ.items() if not name.startswith("KRB5")}
        self.environ = {**kept, "HOME": str(home), "KRB5CCNAME": f"FILE:{home}/krb5cc"}

    def keytab(self, user: str) -> Path:
        return self.keytabs / f"{user}.keytab"

    def site(self, **more: object) -> dict[str, object]:
        return {
            "resource_managers": [self.cluster.rm_url],
            "auth": "kerberos",
            "hadoop_conf": str(self.cluster.client_conf),
            "dns": {"domain": "sandbox.test"},
            "job": {"image_policy": "warn"},  # its containers are processes
            **more,
        }

    def settings(self, **content: object) -> None:
        path = self.home / ".config/submit_tf_job/settings.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump({"profiles": {"secure": content}}))

    def login(self, who: str, **more: object) -> dict[str, object]:
        """Settings of somebody who logs in with a keytab."""
        return self.site(
            kerberos={
                "principal": f"{who}@{REALM}",
                "keytab": str(self.keytab(who)),
                "krb5_conf": str(self.krb5_conf),
            },
            **more,
        )

    def kinit(self, user: str) -> None:
        argv = ["kinit", "-c", f"{self.home}/krb5cc", "-kt", str(self.keytab(user)), user]
        subprocess.run(
            argv, env={**self.environ, "KRB5_CONFIG": str(self.krb5_conf)}, check=True, timeout=30
        )

    def __call__(self, *words: object, prefix: tuple[str, ...] = ()) -> Result:
        tool = Tool(self.environ, "secure", self.home)
        if not prefix:
            return tool(*words)
        done = subprocess.run(
            [*prefix, *tool.argv(*words)],
            env=self.environ,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Result(done.returncode, done.stdout, done.stderr, 0.0)


@pytest.fixture
def shell(kerberos_cluster: Cluster, session_environ: dict[str, str], tmp_path: Path) -> Shell:
    return Shell(kerberos_cluster, session_environ, tmp_path)


@pytest.fixture
def proxy(kerberos_cluster: Cluster) -> Iterator[Proxy]:
    with Proxy(kerberos_cluster.rm_url).listening() as made:
        yield made


def failures(shell: Shell, proxy: Proxy) -> list[str]:
    found = shell("doctor", "--rm", proxy.url, "-o", "json").json["findings"]
    return [finding["id"] for finding in found if finding["status"] == "failure"]


def test_one_exchange_and_then_a_cookie(shell: Shell, proxy: Proxy) -> None:
    shell.settings(**shell.login("alice"))
    assert failures(shell, proxy) == []
    first, *others = proxy.proofs
    assert (first, set(others)) == ((True, False), {(False, True)})


def test_a_ticket_of_kinit_and_no_ticket(shell: Shell) -> None:
    shell.settings(**shell.site(kerberos={"krb5_conf": str(shell.krb5_conf)}))
    without = shell("list")
    assert (without.status, without.stdout) == (4, ""), without
    assert "there is no Kerberos ticket" in without.stderr
    shell.kinit("alice")
    assert shell("list").status == 0
    shown = shell("config", "show", "-o", "json").json
    assert "alice" in json.dumps(shown)
    examined = shell("doctor", "-o", "json").json
    found = {finding["id"]: finding for finding in examined["findings"]}
    assert found["authentication"]["status"] == "ok", found["authentication"]
    assert found["hdfs"]["status"] == "ok", found["hdfs"]


def test_who_is_not_believed(shell: Shell) -> None:
    """Simple authentication, a name that is not the ticket's, an address that Kerberos does not
    know, and a clock that is wrong.
    """
    shell.settings(**shell.site(auth="simple", user="alice"))
    simple = shell("list")
    assert (simple.status, "--auth kerberos" in simple.stderr) == (4, True), simple
    shell.settings(**shell.login("alice", user="bob"))
    (shell.home / "job.yaml").write_text(
        yaml.safe_dump(
            {
                "name": "imposter",
                "image": "a/b",
                "strategy": "single",
                "command": "true",
                "roles": {"worker": {"memory": "128Mi"}},
            }
        )
    )
    other = shell("submit", "job.yaml")
    assert (other.status, "you are alice, not bob" in other.stderr) == (4, True), other
    number = shell("list", "--rm", shell.cluster.rm_url.replace("localhost", "127.0.0.1"))
    assert (number.status, "has no service HTTP/127.0.0.1" in number.stderr) == (4, True), number
    shell.settings(**shell.site(kerberos={"krb5_conf": str(shell.krb5_conf)}))
    shell.kinit("alice")
    early = shell("list", prefix=("faketime", "-f", "+600s"))
    assert early.status == 4, early
    assert re.search(
        r"clock is 60\d s ahead of the server's|clock and the KDC's are too far apart", early.stderr
    ), early


def test_a_proxy_user(shell: Shell) -> None:
    shell.settings(**shell.login("gw"))
    (shell.home / "job.yaml").write_text(
        yaml.safe_dump(
            {
                "name": "for-alice",
                "image": "library/python:3.11",
                "strategy": "single",
                "command": "true",
                "roles": {"worker": {"memory": "128Mi"}},
            }
        )
    )
    submitted = shell("submit", "job.yaml", "--as-user", "alice", "--detach", "-o", "json")
    assert submitted.status == 0, submitted
    try:
        jobs = shell("list", "--as-user", "alice", "-o", "json").json["jobs"]
        assert [(job["name"], job["user"]) for job in jobs] == [("for-alice", "alice")]
    finally:
        deleted = shell("delete", "for-alice", "--as-user", "alice", "--force")
    assert deleted.status == 0, deleted
    refused = shell("submit", "job.yaml", "--as-user", "mallory")
    assert (
        refused.status,
        "may not submit for mallory" in refused.stderr,
        "hadoop.proxyuser.gw" in refused.stderr,
    ) == (4, True, True), refused
    shell.settings(**shell.login("alice"))
    nobody = shell("list", "--as-user", "bob")
    assert (nobody.status, "may not submit for bob" in nobody.stderr) == (4, True), nobody


def test_curl_negotiates_with_the_resource_manager_and_with_the_gateway(shell: Shell) -> None:
    """The recipe of docs/schedulers.md as it stands; and a gateway that takes alice's ticket, and
    acts as alice by its own.
    """
    programs = shell.home / "bin"
    programs.mkdir()
    (programs / "submit_tf_job").write_text(
        f'#!/bin/sh\nexec {sys.executable} -m submit_tf_job "$@" --profile secure\n'
    )
    (programs / "submit_tf_job").chmod(0o755)
    # without hadoop_conf, as the page says: all files travel inside the service
    kerberos = shell.site(kerberos={"krb5_conf": str(shell.krb5_conf)}, user="alice")
    shell.settings(**{name: value for name, value in kerberos.items() if name != "hadoop_conf"})
    job = {
        "image": "library/python:3.11",
        "strategy": "single",
        "command": "true",
        "roles": {"worker": {"memory": "128Mi"}},
    }
    (shell.home / "train.yaml").write_text(yaml.safe_dump({"name": "negotiated", **job}))
    shell.kinit("alice")
    path = f"{programs}:{shell.environ['PATH']}"
    environ = {
        **shell.environ,
        "PATH": path,
        "RUN": "7",
        "RM": shell.cluster.rm_url,
        "KRB5_CONFIG": str(shell.krb5_conf),
    }
    [recipe] = [
        block.text for block in blocks(DOCS / "schedulers.md") if block.mark == "runs: kerberos"
    ]
    argv = ["bash", "-eu", "-o", "pipefail", "-c", recipe]
    done = subprocess.run(
        argv, cwd=shell.home, env=environ, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, (done, (shell.home / "answer").read_text())
    [application] = re.findall(r"application_\d+_\d+", (shell.home / "answer").read_text())
    seen = shell("status", "negotiated", "-o", "json").json
    assert (seen["application_id"], seen["user"]) == (application, "alice")
    assert shell("delete", "negotiated", "--force").status == 0

    principal = {
        "principal": f"{{user}}/localhost@{REALM}",
        "keytab": f"file://{shell.keytabs}/{{user}}.localhost.keytab",
    }
    shell.settings(**shell.login("gw", job={"kerberos": principal, "image_policy": "warn"}))
    other = shell("gateway", "serve", "--no-auth", "--port", "0", "--user", "etl")
    assert (other.status, "you are gw, not etl" in other.stderr) == (4, True), other.stderr
    gateway = Process(
        shell.home,
        "--profile",
        "secure",
        "--negotiate",
        str(shell.keytabs / "HTTP.localhost.keytab"),
        "--host",
        "localhost",
        environ=shell.environ,
    )
    try:
        url = f"http://localhost:{gateway.port}/v1/jobs"
        curl = ["curl", "-sS", "--negotiate", "-u", ":"]
        body = json.dumps({"name": "by-gateway", **job})
        told = subprocess.run(
            [*curl, "-H", "Content-Type: application/json", "-d", body, url],
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
        )
        submission = json.loads(told.stdout)
        assert submission.get("name") == "by-gateway", told
        assert "principal" not in " ".join(submission["warnings"]), "the default is the caller's"
        made = json.loads(
            subprocess.run(
                [*curl, f"{url}/by-gateway"],
                env=environ,
                capture_output=True,
                text=True,
                timeout=60,
            ).stdout
        )
        assert made["user"] == "alice", "not the gateway's own user, gw"
        gone = subprocess.run(
            [*curl, "-X", "DELETE", f"{url}/by-gateway?force=true"],
            env=environ,
            capture_output=True,
            text=True,
            timeout=90,
        )
        assert json.loads(gone.stdout)["deleted"] is True, gone
    finally:
        gateway.end(signal.SIGTERM)
    assert {entry["caller"] for entry in gateway.entries() if entry["status"] < 300} == {"alice"}


def test_a_delegation_token_opens_the_resource_manager_and_nothing_else(shell: Shell) -> None:
    shell.kinit("alice")
    curl = ["curl", "-sS", "--negotiate", "-u", ":", "-H", "Content-Type: application/json"]
    url = f"{shell.cluster.rm_url}/ws/v1/cluster/delegation-token"
    environ = {**shell.environ, "KRB5_CONFIG": str(shell.krb5_conf)}
    said = subprocess.run(
        [*curl, "-d", '{"renewer": "alice"}', url], env=environ, capture_output=True, timeout=60
    )
    made = json.loads(said.stdout)
    token = shell.home / "rm.token"
    token.write_text(f"{made['token']}\n")
    token.chmod(0o600)
    shell.settings(
        **shell.site(auth="delegation-token", user="alice", credentials={"file": str(token)})
    )
    assert shell("list").status == 0
    token.chmod(0o644)
    readable = shell("list")
    assert (readable.status, "chmod 600" in readable.stderr) == (2, True), readable
    token.write_text("AAAA\n")
    token.chmod(0o600)
    refused = shell("list")
    assert (refused.status, "does not accept the delegation token" in refused.stderr) == (
        4,
        True,
    ), refused
    assert str(made["token"]) not in refused.stderr


def test_without_the_package_the_command_that_installs_it_is_named(shell: Shell) -> None:
    shell.settings(**shell.login("alice"))
    blocked = shell.home / "blocked"
    blocked.mkdir()
    for name in ("gssapi", "krb5", "requests_kerberos"):
        (blocked / f"{name}.py").write_text("raise ModuleNotFoundError(__name__)\n")
    shell.environ["PYTHONPATH"] = str(blocked)
    said = shell("list")
    assert (said.status, said.stdout) == (2, ""), said
    assert "pip install 'requests-kerberos>=0.15'" in said.stderr
    shutil.rmtree(blocked)
