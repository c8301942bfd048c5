"""What known hogs use, as `usage` tells it on real clusters: their containers are processes, or
Docker's, each of which has a control group of its own.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests import clusters
from tests.cluster.conftest import DockerCluster
from tests.clusters import Cluster
from tests.tool import SUBMIT_S, Tool, release, until

pytestmark = [pytest.mark.cluster, pytest.mark.long]

MIB = 1 << 20
HOG = """
import os, subprocess, sys, time
LASTS_S = 40
began, mine = time.time(), os.getpid()
def fill(mib):
    held = bytearray(mib << 20)
    held[::4096] = b"1" * len(held[::4096])
    return held
def burn(cores):  # so much of the time on a core
    while time.time() < began + LASTS_S:
        until = time.time() + 0.2
        while time.time() < until - 0.2 * (1 - cores): sum(range(2000))
        time.sleep(max(0.0, until - time.time()))
def wait_for(name):  # until `release` of the test
    subprocess.run([sys.executable, "-c", "import time; time.sleep(3600)", "held-" + name])
def resident():
    return int(open("/proc/self/status").read().split("VmRSS:")[1].split()[0]) << 10
base = resident()
what = sys.argv[1]
if what == "cores":
    if os.fork():
        burn(1.0); os.wait()
    else:
        burn(0.5); os._exit(0)
elif what == "held":
    kept = fill(700)
elif what == "moment":
    time.sleep(11.5)
    kept = fill(1200); time.sleep(1); del kept
elif what == "children":
    for _ in range(3):
        subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 3: sum(range(2000))"])
elif what == "forks":
    (told, tells), (begun, begins), kept, children = os.pipe(), os.pipe(), fill(8), []
    for _ in range(200):
        child = os.fork()
        if not child: os.close(tells); os.write(begins, b"1"); os.read(told, 1); os._exit(0)
        children.append(child)
        os.read(begun, 1)  # from here on it has all its pages
    pages = sum(int(open(f"/proc/{pid}/statm").read().split()[1]) for pid in (mine, *children))
    print("RESIDENT", pages * os.sysconf("SC_PAGE_SIZE"), flush=True)
    wait_for("forks")
    os.close(tells)
    for _ in children: os.wait()
elif what == "main":
    wait_for("main")
print("BASE", base, "CPU_MS", int(1000 * sum(os.times()[:4])), flush=True)
time.sleep(max(0.0, began + LASTS_S - time.time()) if what != "main" else 0.0)
"""
ROLES = {
    "main": "256Mi",
    "cores": "256Mi",
    "held": "1Gi",
    "moment": "2Gi",
    "children": "256Mi",
    "forks": "5Gi",
}


def hogs(tool: Tool, name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Run all hogs as one job; return the roles of `usage`, and what each printed."""
    (tool.cwd / "hog.py").write_text(HOG)
    roles = {
        role: {"memory": memory, "command": ["python3", "hog.py", role]}
        for role, memory in ROLES.items()
    }
    spec = tool.spec(name, strategy="custom", deciding_role="main", files=["hog.py"], roles=roles)
    submitting = tool.start("submit", spec)
    tool.printed(name, "forks", "RESIDENT")
    resident = told({"forks": tool.output(name, "forks")}, "forks", "RESIDENT")
    until(lambda: peak(used(tool, name), "forks") > 0.9 * resident, "it is measured", SUBMIT_S, 1)
    release("forks")
    for role in ROLES.keys() - {"main"}:
        tool.printed(name, role, "CPU_MS")
    release("main")
    out, err = submitting.communicate(timeout=SUBMIT_S)
    assert submitting.returncode == 0, out + err
    tool.collected(name)
    return used(tool, name), {role: tool("logs", name, role).stdout for role in ROLES}


def used(tool: Tool, name: str) -> dict[str, Any]:
    return dict(tool("usage", name, "-o", "json").json["roles"])


def peak(used: dict[str, Any], role: str) -> float:
    memory = used.get(role, {}).get("memory_bytes")  # not before it is measured
    return float(memory["peak"]["most"]) if memory else 0.0


def told(printed: dict[str, str], role: str, word: str) -> int:
    return int(printed[role].split(f"{word} ")[1].split()[0])


def check_hogs(used: dict[str, Any], printed: dict[str, str]) -> None:
    def cpu_s(role: str) -> float:
        return float(used[role]["cpu_cores"]["mean"]["most"] * used[role]["for_s"])

    for role, mib in (("held", 700), ("moment", 1200)):
        assert peak(used, role) == pytest.approx(
            told(printed, role, "BASE") + mib * MIB, rel=0.1
        ), role
    for role in ("cores", "children"):  # a machine that is busy gives less
        assert cpu_s(role) == pytest.approx(told(printed, role, "CPU_MS") / 1000, rel=0.1), role
    # what the NodeManager adds up; a control group counts a page once
    assert peak(used, "forks") == pytest.approx(told(printed, "forks", "RESIDENT"), rel=0.1)
    assert {used[role]["peak_by"] for role in ("held", "moment")} == {"kernel"}


def test_usage_of_hogs_that_are_processes(tool: Tool, real_cluster: Cluster) -> None:
    check_hogs(*hogs(tool, "hogs"))


def test_usage_of_hogs_in_docker(docker_cluster: DockerCluster, tmp_path: Any) -> None:
    tool = Tool(clusters.environment(), docker_cluster.profiles["host"], tmp_path)
    check_hogs(*hogs(tool, "hogs"))
