"""Proving who we are to a real ResourceManager with Kerberos: cookies, tokens, proxy
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

from tests import clusters
from tests.clusters import Cluster
from tests.gateways import Process
from tests.pages import DOCS, blocks
from tests.proxy import Proxy
from tests.tool import SUBMIT_S, Result, Tool, put_twice

pytestmark = pytest.mark.cluster

REALM = "SANDBOX.TEST"
JOB = {
    "image": "library/python:3.11",
    "strategy": "single",
    "command": "true",
    "roles": {"worker": {"memory": "128Mi"}},
}


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
        self.run("kinit", "-c", f"{self.home}/krb5cc", "-kt", self.keytab(user), user)

    def job(self, name: str) -> str:
        """Write a job spec of one small task."""
        (self.home / "job.yaml").write_text(yaml.safe_dump({"name": name, **JOB}))
        return "job.yaml"

    def run(self, *argv: object, timeout: float = SUBMIT_S, **environ: str) -> str:
        """Run another program with the ticket cache of this user."""
        own = {**self.environ, "KRB5_CONFIG": str(self.krb5_conf), **environ}
        words = [str(word) for word in argv]
        done = subprocess.run(
            words, env=own, cwd=self.home, capture_output=True, text=True, timeout=timeout
        )
        assert done.returncode == 0, (done, list(self.home.iterdir()))
        return done.stdout

    def __call__(self, *words: object) -> Result:
        return Tool(self.environ, "secure", self.home)(*words)


@pytest.fixture
def shell(kerberos_cluster: Cluster, tmp_path: Path) -> Shell:
    return Shell(kerberos_cluster, clusters.environment(), tmp_path)


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


def test_put_copies_with_a_login_by_keytab(shell: Shell, tmp_path: Path) -> None:
    shell.settings(**shell.login("alice"))
    put_twice(shell, tmp_path / "data")


def test_a_proxy_user(shell: Shell) -> None:
    shell.settings(**shell.login("gw"))
    spec = shell.job("for-alice")
    submitted = shell("submit", spec, "--as-user", "alice", "--detach", "-o", "json")
    assert submitted.status == 0, submitted
    try:
        jobs = shell("list", "--as-user", "alice", "-o", "json").json["jobs"]
        assert ("for-alice", "alice") in [(job["name"], job["user"]) for job in jobs]
        assert {job["user"] for job in jobs} == {"alice"}
    finally:
        deleted = shell("delete", "for-alice", "--as-user", "alice", "--force")
    assert deleted.status == 0, deleted
    refused = shell("submit", spec, "--as-user", "mallory")
    assert refused.status == 4, refused
    assert "may not submit for mallory" in refused.stderr
    assert "hadoop.proxyuser.gw" in refused.stderr
    shell.settings(**shell.login("alice", user="bob"))
    other = shell("submit", spec)
    assert (other.status, "you are alice, not bob" in other.stderr) == (4, True), other


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
    shell.job("negotiated")
    (shell.home / "job.yaml").rename(shell.home / "train.yaml")
    shell.kinit("alice")
    [recipe] = [
        block.text for block in blocks(DOCS / "schedulers.md") if block.mark == "runs: kerberos"
    ]
    path = f"{programs}:{shell.environ['PATH']}"
    shell.run("bash", "-euc", recipe, PATH=path, RUN="7", RM=shell.cluster.rm_url)
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
        curl = ("curl", "-sS", "--negotiate", "-u", ":")
        body = json.dumps({"name": "by-gateway", **JOB})
        posted = shell.run(*curl, "-H", "Content-Type: application/json", "-d", body, url)
        submission = json.loads(posted)
        assert submission.get("name") == "by-gateway", posted
        assert "principal" not in " ".join(submission["warnings"]), "the default is the caller's"
        made = json.loads(shell.run(*curl, f"{url}/by-gateway"))
        assert made["user"] == "alice", "not the gateway's own user, gw"
        gone = json.loads(shell.run(*curl, "-X", "DELETE", f"{url}/by-gateway?force=true"))
        assert gone["deleted"] is True, gone
    finally:
        gateway.end(signal.SIGTERM)
    assert {entry["caller"] for entry in gateway.entries() if entry["status"] < 300} == {"alice"}


def test_a_delegation_token_opens_the_resource_manager_and_nothing_else(shell: Shell) -> None:
    shell.kinit("alice")
    json_ = ("-H", "Content-Type: application/json", "-d", '{"renewer": "alice"}')
    url = f"{shell.cluster.rm_url}/ws/v1/cluster/delegation-token"
    made = json.loads(shell.run("curl", "-sS", "--negotiate", "-u", ":", *json_, url))
    token = shell.home / "rm.token"
    token.write_text(f"{made['token']}\n")
    token.chmod(0o600)
    shell.settings(
        **shell.site(auth="delegation-token", user="alice", credentials={"file": str(token)})
    )
    assert shell("list").status == 0
    token.write_text("AAAA\n")
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
