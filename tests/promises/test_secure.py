"""Kerberos, TLS, two ResourceManagers, and Docker, all at once: the same jobs, and nothing leaks."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace

import pytest
import yaml

from tests import clusters
from tests.clusters import Cluster
from tests.json_page import check
from tests.promises.conftest import SMALL
from tests.promises.training import trained
from tests.tool import SUBMIT_S, Tool, held, release

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a Docker Engine"),
]

IMAGE = "submit_tf_job/base:1"


@pytest.fixture(scope="module")
def docked(secure: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tool]:
    """The tool on the secure cluster; TensorFlow is mounted into its containers."""
    environ = clusters.environment()
    profile = secure.profile_file
    packages = next((clusters.tensorflow() / "lib").glob("python3.*/site-packages"))
    settings = yaml.safe_load(profile.read_text())
    mounted = {"mounts": [f"{packages}:/opt/tensorflow"], "env": {"PYTHONPATH": "/opt/tensorflow"}}
    settings["job"] = {**settings.get("job", {}), **mounted, "network": "bridge"}
    profile.with_name("secure-tensorflow.yaml").write_text(yaml.safe_dump(settings))
    made = Tool(environ, "secure-tensorflow", tmp_path_factory.mktemp("user"))
    yield made
    made.tidy()


def test_digits_are_trained_in_docker_by_delegation_tokens(
    docked: Tool, secure: Cluster, unique: str
) -> None:
    trained(docked, secure, f"digits-{unique}", "--set", f"image={IMAGE}")


def test_json_of_a_sandbox_has_the_documented_fields(docked: Tool) -> None:
    status = docked("sandbox", "status", "--name", "secure", "-o", "json").json
    check("SandboxStatus", {**status, "sandbox": None})
    check("Sandbox", status["sandbox"])
    check("Log", docked("sandbox", "logs", "namenode", "--name", "secure", "-o", "json").json)


INSIDE = """
import json, os, pathlib
secret = ("KEYTAB", "KTNAME", "KRB5CCNAME", "PASSWORD")
kept = [name for name in os.environ if any(word in name for word in secret)]
gpus = os.environ.get("NVIDIA_VISIBLE_DEVICES", "")
print("SAID", json.dumps({
    "docker": os.path.exists("/.dockerenv"), "uid": os.getuid(), "kept": kept, "gpus": gpus,
    "files": [str(p) for p in pathlib.Path(".").rglob("*.keytab")]}), flush=True)
"""


def test_container_has_its_gpu_and_no_credential_of_the_submitter(
    docked: Tool, unique: str
) -> None:
    name = f"inside-{unique}"
    (docked.cwd / "inside.py").write_text(INSIDE)
    spec = docked.spec(
        name,
        image=IMAGE,
        strategy="single",
        command=["python3", "inside.py"],
        files=["inside.py"],
        lifetime="1h",  # within that of the delegation tokens: no login of its own
        roles={"worker": {**SMALL, "gpus": 1}},
    )
    done = docked("submit", spec)
    assert done.status == 0, done.stderr
    docked.collected(name)
    line = next(line for line in docked("logs", name).stdout.splitlines() if "SAID " in line)
    said = json.loads(line.partition("SAID ")[2])
    assert (said["docker"], said["kept"], said["files"]) == (True, [], [])
    assert said["uid"] != 0
    assert said["gpus"] in ("0", "1") or said["gpus"].startswith("GPU-"), said


@pytest.mark.alone
def test_active_resource_manager_dies_while_a_job_is_followed(
    docked: Tool, secure: Cluster, unique: str
) -> None:
    """The one that leads is killed; the verdict is the other one's, and there is one application."""
    name = f"failover-{unique}"
    spec = docked.spec(
        name,
        image=IMAGE,
        strategy="single",
        command=f"{held(name)}; echo trained",
        roles={"worker": SMALL},
    )
    following = docked.start("submit", spec, "-o", "json")
    seen = docked.until(name, lambda status: status["state"] == "RUNNING")
    secure.kill(secure.active_by_ticket(docked.cwd / "tickets"))
    release(name)
    stdout, stderr = following.communicate(timeout=SUBMIT_S)
    assert following.returncode == 0, stderr
    told = json.loads(stdout)
    assert (told["state"], told["confirmed"], told["application_id"]) == (
        "SUCCEEDED",
        True,
        seen["application_id"],
    )


def test_without_a_ticket_it_is_refused_with_the_way_on(
    docked: Tool, secure: Cluster, unique: str
) -> None:
    kerberos = secure.info["kerberos"]
    environ = clusters.environment()
    profile = secure.profile_file.with_name("secure-tensorflow.yaml")
    settings = yaml.safe_load(profile.read_text())
    settings.pop("kerberos", None)
    profile.with_name("secure-stranger.yaml").write_text(yaml.safe_dump(settings))
    environ |= {"KRB5_CONFIG": kerberos["krb5_conf"], "KRB5CCNAME": f"FILE:{docked.cwd}/none"}
    stranger = replace(docked, environ=environ, profile="secure-stranger", jobs=[])
    spec = stranger.spec(
        f"stranger-{unique}", strategy="single", command="true", roles={"worker": SMALL}
    )
    refused = stranger("submit", spec)
    assert refused.status == 4, refused
    assert "kinit" in refused.stderr
