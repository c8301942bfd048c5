"""A job's own Kerberos on a real secure cluster: HDFS without Java, by a token and after it;
keytabs of every kind, good and bad.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import clusters
from tests.builders.keytabs import keytab
from tests.cluster.conftest import SPECS, bare_python, with_hadoop
from tests.clusters import Cluster
from tests.hdfs import by_library, environ_of
from tests.tool import Tool

pytestmark = pytest.mark.cluster

HEAD = {"strategy": "single", "hadoop": {"conf": "inline"}, "roles": {"chief": {"memory": "512Mi"}}}
STAGED = "/user/{}/.submit_tf_job/staging/keytabs"
TOKEN_S, RENEW_S = 80, 40  # the first must last until the program runs
# Where tokens are over, YARN cannot collect logs: what the chief left is read on its node, as long
# as the job has another container.
IGNORES_SIGTERM = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(3600)"
MONITOR = {"memory": "256Mi", "command": ["python", "-c", IGNORES_SIGTERM]}

# What runs in the container: 3 MB to HDFS and back, without Java; then Hadoop's own client, where
# its jars are named.
PROGRAM = """
import glob, json, os, subprocess, sys, time
sys.path.insert(0, "bootstrap.zip")
from hdfs_native import Client
from submit_tf_job.container.tokens import Tokens

[token] = Tokens({"HADOOP_TOKEN_FILE_LOCATION": "container_tokens"}).summaries
if "--late" in sys.argv:
    time.sleep(max(0.0, token["until"] - time.time()) + 2)
path = "/user/%s/%s" % (token["owner"], os.environ["TFJOB_NAME"])
with Client().create(path) as file:
    file.write(b"x" * 3_000_000)
found = Client().get_file_info(path)
said = {"owner": found.owner, "bytes": len(Client().read(path).read()), "over": time.time() > token["until"]}
said["services"] = [item["service"] for item in Tokens(os.environ).summaries]
if os.environ.get("JARS"):
    java = ["java", *os.environ["HADOOP_OPTS"].split(), "-cp", os.environ["HADOOP_CONF_DIR"] + ":" + os.environ["JARS"] + "/*"]
    done = subprocess.run([*java, "org.apache.hadoop.fs.FsShell", "-ls", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said["java"] = [done.returncode, path in done.stdout.decode(), done.stderr.decode()[-500:] if done.returncode else ""]
print("SAID " + json.dumps(said))
"""


class Shell(Tool):
    """The tool on the secure cluster, with HDFS beside it."""

    cluster: Cluster

    def hdfs(self, script: str) -> Any:
        """Run Python lines with `client`, as the user of the profile; return `result`."""
        return by_library(self.cluster, script)

    def tree(self, path: str) -> dict[str, str]:
        """Return what lies below a directory of HDFS: path to rights and owner."""
        listed = f"client.list_status({path!r}, recursive=True)"
        found = f"result = {{s.path: f'{{s.permission:o}} {{s.owner}}' for s in {listed}}}"
        return dict(self.hdfs(found))

    def principal(self, user: str) -> str:
        return f"{user}/_HOST@SANDBOX.TEST"

    def own_keytab(self, name: str, user: str, mode: int = 0o600) -> Path:
        """Copy a keytab of the sandbox's beside the job specs."""
        path = self.cwd / name
        keytabs = Path(self.cluster.info["kerberos"]["keytabs"])
        shutil.copy(keytabs / f"{user}.localhost.keytab", path)
        path.chmod(mode)
        return path

    def job(self, name: str, *options: str, keytab: str = "", **kerberos: str) -> Path:
        """Write a job spec that runs PROGRAM."""
        (self.cwd / "program.py").write_text(PROGRAM)
        kerberos = {"principal": self.principal(self.user), "keytab": keytab, **kerberos}
        own = {**HEAD, "files": ["program.py"], **({"kerberos": kerberos} if keytab else {})}
        if "--late" in options:
            own |= {"roles": {"chief": {"memory": "512Mi"}, "monitor": MONITOR}, "grace": "60s"}
        return self.spec(name, **own, command=["python", "program.py", *options])

    @property
    def user(self) -> str:
        return self.cluster.user

    def said(self, name: str) -> tuple[dict[str, Any], str]:
        """Return what the program printed, and what the bootstrap said."""
        self.collected(name)
        logs = self("logs", name).stdout
        line = next(line for line in logs.splitlines() if "SAID " in line)
        found: dict[str, Any] = json.loads(line.partition("SAID ")[2])
        return found, logs


@pytest.fixture
def shell(kerberos_cluster: Cluster, tmp_path: Path) -> Iterator[Shell]:
    made = Shell(clusters.environment(), kerberos_cluster.profile, tmp_path)
    made.cluster = kerberos_cluster
    yield made
    made.tidy()


def test_keytabs_of_every_kind(shell: Shell) -> None:
    """On the node (the profile's), on HDFS, and on this host; with a token, with a ticket, and with
    Hadoop's own client, too.
    """
    mine = shell.own_keytab("mine.keytab", shell.user)
    on_hdfs = f"/user/{shell.user}/kj.keytab"
    content = mine.read_bytes().hex()
    shell.hdfs(
        f"with client.create({on_hdfs!r}, WriteOptions(permission=0o400, overwrite=True)) "
        f"as f: f.write(bytes.fromhex({content!r}))"
    )
    jars = shell.cluster.state()["jars"]
    hdfs_native = ["--set", "lifetime=1h", "--detach"]
    java = ["--set", f"env.JARS={jars}", "--detach"]
    assert shell("submit", shell.job("kj-node"), *hdfs_native, *java[:2]).status == 0
    with_hdfs = shell.job("kj-hdfs", keytab=f"hdfs://{on_hdfs}", login="always")
    assert shell("submit", with_hdfs, *java).status == 0
    # fetched and stored with the token alone: this Python has no library
    rows = f"/user/{shell.user}/rows.txt"
    shell.hdfs(f"with client.create({rows!r}, WriteOptions(overwrite=True)) as f: f.write(b'rows')")
    inputs = {"rows": {"uri": f"hdfs://{rows}", "shard": "files", "download": True}}
    outputs = {"copy": {"uri": f"hdfs://{rows}.copy", "upload": True}}
    copying = {**HEAD, "python": str(bare_python(shell.cwd)), "inputs": inputs, "outputs": outputs}
    copy = shell.spec(
        "kj-data", **copying, command="xargs -I{} cp {} $TFJOB_OUTPUT_COPY < $TFJOB_FILES_ROWS"
    )
    assert shell("submit", copy, "--detach").status == 0
    local = shell("submit", shell.job("kj-local", keytab="mine.keytab"), "--detach")
    assert (local.status, "warning" in local.stderr) == (0, False), local

    own = f"{STAGED.format(shell.user)}/kj-local"  # others' tests have jobs, too
    staged = {
        path: mode
        for path, mode in shell.tree(STAGED.format(shell.user)).items()
        if path.startswith(own)
    }
    [path] = [path for path in staged if path.endswith(".keytab")]
    above = {str(Path(path).parents[n]): f"700 {shell.user}" for n in (0, 1)}
    assert staged == {**above, path: f"400 {shell.user}"}
    for name in ("kj-node", "kj-hdfs", "kj-local", "kj-data"):
        waited = shell("wait", name)
        confirmed = "Confirmed by YARN and by " in waited.stdout
        assert (waited.status, confirmed) == (0, True), waited.stdout + waited.stderr

    assert shell.tree(f"{rows}.copy")[f"{rows}.copy/rows.txt"].endswith(f" {shell.user}")

    host = shell.cluster.hdfs_uri.removeprefix("hdfs://")
    said, logs = shell.said("kj-node")
    assert said == {
        "owner": shell.user,
        "bytes": 3_000_000,
        "over": False,
        "services": [f"127.0.0.1:{host.split(':')[1]}", host],
    } | {"java": [0, True, ""]}
    assert (
        f"HDFS_DELEGATION_TOKEN for 127.0.0.1:{host.split(':')[1]}, here also as {host}; "
        f"it is {shell.user}'s, renewed by rm" in logs
    )
    for name in ("kj-hdfs", "kj-local"):
        said, logs = shell.said(name)
        expected = {"owner": shell.user, "bytes": 3_000_000, "over": False, "services": []}
        assert {key: value for key, value in said.items() if key != "java"} == expected
        assert said.get("java", [0, True, ""]) == [0, True, ""]
        assert f"{shell.user}/localhost@SANDBOX.TEST is logged in from its keytab until" in logs

    assert shell("delete", "kj-local").status == 0
    left = shell.tree(STAGED.format(shell.user))
    assert not [path for path in left if path.startswith(f"{own}/")]


@pytest.mark.long
def test_tensorflow_itself_uses_hdfs_by_the_job_s_tokens(
    shell: Shell, tensorflow: Path, hadoop_home: Path
) -> None:
    """specs/tensorflow-io.yaml, whose program knows nothing of Kerberos."""
    shell.jobs.append("tensorflow-io")
    data = f"hdfs:///user/{shell.user}/digits"
    subprocess.run(
        [tensorflow / "bin/python", SPECS / "tfrecord/put_records.py", data],
        env=environ_of(shell.cluster),
        check=True,
    )
    options = ("--set", f"inputs.data={data}", "--set", "lifetime=1h")
    done = shell("submit", SPECS / "tensorflow-io.yaml", *with_hadoop(hadoop_home), *options)
    assert done.status == 0, done.stderr
    events = shell.tree("/models/digits-io/events")
    assert set(events.values()) <= {f"755 {shell.user}", f"644 {shell.user}"}
    assert any("tfevents" in path for path in events)
    assert "here also as" in shell("logs", "tensorflow-io", "worker-0").stdout  # its token


def test_keytabs_of_hdfs_that_are_refused_before_anything_is_posted(shell: Shell) -> None:
    open_one = f"/user/{shell.user}/open.keytab"
    content = shell.own_keytab("open.keytab", shell.user).read_bytes().hex()
    shell.hdfs(
        f"with client.create({open_one!r}, WriteOptions(permission=0o644, overwrite=True)) "
        f"as f: f.write(bytes.fromhex({content!r}))"
        f"\nclient.set_permission({open_one!r}, 0o644)"
    )
    everybody = f"can be read by everybody (mode 644); hdfs dfs -chmod 400 {open_one}"
    told = {"hdfs:///none.keytab": "is not there (as", f"hdfs://{open_one}": everybody}
    for keytab_, message in told.items():
        done = shell("submit", shell.job("kj-refused", keytab=keytab_))
        assert (done.status, "kj-refused.yaml:" in done.stderr) == (2, True), done
        assert message in done.stderr
    jobs = shell("list", "-o", "json").json["jobs"]  # others' tests have some, too
    assert "kj-refused" not in [job["name"] for job in jobs]


def test_an_application_master_that_cannot_be_who_it_should(shell: Shell) -> None:
    """Somebody else's principal, of which there is a warning; and keys that have been changed,
    which only the KDC knows.
    """
    shell.own_keytab("bob.keytab", "bob")
    (shell.cwd / "old.keytab").write_bytes(keytab(f"{shell.user}/localhost@SANDBOX.TEST"))
    (shell.cwd / "old.keytab").chmod(0o600)
    job = shell.job("kj-bob", keytab="bob.keytab", principal=shell.principal("bob"))
    bob = shell("submit", job, "--detach")
    assert f"warning: the principal {shell.principal('bob')} is bob to Hadoop" in bob.stderr
    assert shell("submit", shell.job("kj-old", keytab="old.keytab"), "--detach").status == 0
    for name in ("kj-bob", "kj-old"):
        shell("wait", name)
    causes = {name: shell.root_cause(name) for name in ("kj-bob", "kj-old")}
    bob_is_not = (
        f"the ApplicationMaster logged in as bob, who may not read /user/{shell.user}/.yarn: the "
        f"principal of `kerberos` is not {shell.user}'s"
    )
    old = (
        f"the ApplicationMaster could not log in as {shell.user}/localhost@SANDBOX.TEST: Checksum "
        "failed"
    )
    assert {name: (cause["code"], cause["sentence"]) for name, cause in causes.items()} == {
        "kj-bob": ("kerberos-somebody-else", bob_is_not),
        "kj-old": ("kerberos-login", old),
    }


@contextlib.contextmanager
def short_lived_tokens(cluster: Cluster) -> Iterator[None]:
    """Start the NameNode again with tokens that live for seconds, and at the end as it was."""
    file = cluster.home / "conf" / "hdfs-site.xml"
    before = file.read_text()
    name = "dfs.namenode.delegation.token"
    values = {f"{name}.max-lifetime": TOKEN_S * 1000, f"{name}.renew-interval": RENEW_S * 1000}
    more = "".join(
        f"<property><name>{key}</name><value>{value}</value></property>"
        for key, value in values.items()
    )
    try:
        for text in (before.replace("</configuration>", f"{more}</configuration>"), before):
            file.write_text(text)
            cluster.kill("namenode")
            cluster.heal()
            if text != before:
                yield
    finally:
        file.write_text(before)


@pytest.mark.alone
def test_a_job_that_outlives_its_tokens(shell: Shell) -> None:
    """The very same program, after the end of its token: with a login of its own it goes on,
    without one it is told why it cannot.
    """
    shell.own_keytab("mine.keytab", shell.user)
    with short_lived_tokens(shell.cluster):
        for name, login in (("kj-login", "auto"), ("kj-token", "never")):
            job = shell.job(name, "--late", keytab="mine.keytab", login=login)
            assert shell("submit", job, "--detach").status == 0
        own, token = shell("wait", "kj-login"), shell("wait", "kj-token", "-o", "json").json
    confirmed = "Confirmed by YARN and by " in own.stdout
    assert (own.status, confirmed) == (0, True), own.stdout + own.stderr
    file = f"/user/{shell.user}/kj-login"
    size = f"found = client.get_file_info({file!r}); result = [found.length, found.owner]"
    assert shell.hdfs(size) == [3_000_000, shell.user]
    cause = shell.root_cause("kj-token")
    assert (token["state"], cause["code"]) == ("FAILED", "hdfs-credentials"), token
    assert "No Kerberos credentials available" in cause["exception"]
    assert "kerberos.login" in cause["hint"]
