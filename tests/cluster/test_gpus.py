"""GPUs of several kinds on a real cluster, whose devices are told by tools of the test."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cluster.conftest import another
from tests.clusters import Cluster, add_properties

pytestmark = pytest.mark.cluster

# resource -> what a node offers
KINDS = {"yarn.io/gpu": 2, "amd.com/mi300": 4}
NVIDIA = """\
#!/bin/sh
echo 'GPU 0: Tesla T4 (UUID: GPU-1)'
"""
# as rocm-smi of ROCm 6 prints it
ROCM = """\
#!/bin/sh
echo '{"card0": {"Card Series": "AMD Instinct MI300X"}, "card1": {"Card Series": "AMD Instinct MI300X"}}'
"""


def offer(cluster: Cluster) -> None:
    """Let the node offer both kinds, as an administrator does."""
    conf = cluster.home / "conf"
    for name in ("resource-types.xml", "node-resources.xml"):
        (conf / name).write_text("<configuration>\n</configuration>\n")
    add_properties(conf / "resource-types.xml", {"yarn.resource-types": ",".join(KINDS)})
    offers = {f"yarn.nodemanager.resource-type.{name}": str(n) for name, n in KINDS.items()}
    add_properties(conf / "node-resources.xml", offers)
    for daemon in ("resourcemanager", "nodemanager"):
        cluster.kill(daemon)
    cluster.heal()


def on_path(directory: Path, **tools: str) -> dict[str, str]:
    """Write programs; return the environment of a role that finds them."""
    for name, text in tools.items():
        path = directory / name.replace("_", "-")
        path.write_text(text)
        path.chmod(0o755)
    return {"PATH": f"{directory}:{os.environ['PATH']}"}


def test_roles_ask_for_gpus_of_different_kinds(clusters_of_session: None, tmp_path: Path) -> None:
    with another(tmp_path) as (cluster, tool):
        offer(cluster)
        for kind in ("nvidia", "amd"):
            (tmp_path / kind).mkdir()
        nvidia = {
            "memory": "128Mi",
            "gpus": 1,
            "env": on_path(tmp_path / "nvidia", nvidia_smi=NVIDIA),
        }
        amd = {
            "memory": "128Mi",
            "gpus": 2,
            "gpu_resource": "amd.com/mi300",
            "env": on_path(tmp_path / "amd", rocm_smi=ROCM),
        }
        roles = {"chief": nvidia, "worker": {**amd, "instances": 2}}
        spec = tool.spec("kinds", strategy="multi-worker", command="sleep 3", roles=roles)
        done = tool("submit", spec, "-o", "json")
        assert (done.status, done.json["state"]) == (0, "SUCCEEDED"), done.stderr
        tasks = tool("describe", "kinds", "-o", "json").json["task_list"]
        assert {task["task"]: task["gpus"] for task in tasks} == {
            "chief-0": ["Tesla T4"],
            **dict.fromkeys(("worker-0", "worker-1"), ["AMD Instinct MI300X"] * 2),
        }
        found = tool("doctor", "-o", "json").json
        assert "yarn.io/gpu" in json.dumps(found)

        # fewer than asked for, and more than there are
        few = {**roles, "worker": {**amd, "gpus": 3}}
        failed = tool(
            "submit", tool.spec("few", strategy="multi-worker", command="true", roles=few)
        )
        assert failed.status == 1
        assert "asked for 3 GPUs and sees 2 (AMD Instinct MI300X, AMD Instinct MI300X)" in (
            failed.stdout + failed.stderr
        )
        many = {**roles, "worker": {**amd, "instances": 3}}
        refused = tool(
            "submit", tool.spec("many", strategy="multi-worker", command="true", roles=many)
        )
        assert (refused.status, "amd.com/mi300" in refused.stderr) == (9, True), refused.stderr
