"""Servers that die, hang or refuse while a job runs: nothing that was trained is lost, and every
verb says what is true.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import requests

from tests.clusters import Cluster
from tests.hdfs import Hdfs
from tests.tool import SUBMIT_S, Tool, application_master, gone, until

pytestmark = [pytest.mark.cluster, pytest.mark.alone]

SMALL = {"memory": "256Mi"}
MIB = 1 << 20


# --- HDFS at the end of a training ----------------------------------------------------------------


def _data_node(cluster: Cluster, hdfs: Hdfs, place: str) -> Callable[[], object]:
    """Kill the only DataNode in the middle of the upload."""
    until(lambda: any(hdfs.list(f"{place}/{name}") for name in hdfs.list(place)), "an upload")
    cluster.kill("datanode")
    return cluster.heal


def _safe_mode(cluster: Cluster, _hdfs: Hdfs, _place: str) -> Callable[[], object]:
    """Enter safe mode, in which a NameNode changes nothing."""

    def admin(word: str) -> None:
        main = "org.apache.hadoop.hdfs.tools.DFSAdmin"
        cluster.java(cluster.home / "conf", main, "-safemode", word)

    admin("enter")
    return lambda: admin("leave")


def _names(_cluster: Cluster, hdfs: Hdfs, place: str) -> Callable[[], object]:
    """Allow no more names in the directory of the output."""
    hdfs.limit(place, names=1)
    return lambda: hdfs.limit(place, names=-1)


@pytest.mark.parametrize(
    ("fault", "words"),
    [(_data_node, ""), (_safe_mode, "safe mode"), (_names, "quota")],
    ids=["data-node", "safe-mode", "names"],
)
def test_an_output_is_stored_once_hdfs_bears_it(
    tool: Tool,
    real_cluster: Cluster,
    hdfs: Hdfs,
    fault: Callable[[Cluster, Hdfs, str], Callable[[], object]],
    words: str,
) -> None:
    name = f"stores{fault.__name__.replace('_', '-')}"
    place, go = f"/tmp/{name}", tool.cwd / "go"
    hdfs.remove(place)
    hdfs.mkdirs(place)
    spec = tool.spec(
        name,
        strategy="single",
        command=f"until [ -e {go} ]; do sleep 0.1; done; cd $TFJOB_OUTPUT_MODEL; "
        "for part in 1 2 3; do head -c 300M /dev/zero > part-$part; done",
        hadoop={"conf": "inline"},
        outputs={"model": {"uri": f"hdfs://{place}/model", "upload": True}},
        roles={"chief": {"memory": "1Gi"}},
    )
    assert tool("submit", spec, "--detach").status == 0
    tool.until(name, lambda seen: seen["state"] == "RUNNING")
    if fault is _data_node:
        go.touch()
    mend = fault(real_cluster, hdfs, place)
    try:
        go.touch()
        told = tool.until(name, lambda seen: "tried again" in " ".join(seen["warnings"]))
        assert words in " ".join(told["warnings"]).lower(), told["warnings"]
    finally:
        mend()
    done = tool("wait", name, "-o", "json")
    assert (done.status, done.json["state"], done.json["confirmed"]) == (0, "SUCCEEDED", True)
    found = {part: hdfs.stat(f"{place}/model/part-{part}")["length"] for part in (1, 2, 3)}
    assert found == dict.fromkeys((1, 2, 3), 300 * MIB)
    assert hdfs.list(place) == ["model"], "nothing is left beside it"
    hdfs.remove(place)
    gone(name)


# --- YARN while somebody looks --------------------------------------------------------------------


def _frozen_node(cluster: Cluster, _job: str) -> Callable[[], object]:
    """Freeze the node, for less than the 20 s after which the ResourceManager gives it up."""
    pid = cluster.pid_of("nodemanager")
    os.kill(pid, signal.SIGSTOP)
    thaw = threading.Timer(12, os.kill, (pid, signal.SIGCONT))
    thaw.start()
    return thaw.join


def _killed_master(_cluster: Cluster, job: str) -> Callable[[], object]:
    os.kill(application_master(job), signal.SIGKILL)
    return lambda: None


def _restarted_manager(cluster: Cluster, _job: str) -> Callable[[], object]:
    """Return while the new one recovers its state, and knows no application."""
    cluster.kill("resourcemanager")
    healing = threading.Thread(target=cluster.heal)
    healing.start()
    until(lambda: _ha_state(cluster) == "INITIALIZING", within_s=SUBMIT_S, pause_s=0.02)
    return healing.join


def _ha_state(cluster: Cluster) -> str:
    try:
        answer = requests.get(f"{cluster.rm_url}/ws/v1/cluster/info", timeout=5)
        return str(answer.json()["clusterInfo"]["haState"])
    except (OSError, ValueError, KeyError):
        return ""


@pytest.mark.parametrize("fault", [_frozen_node, _killed_master, _restarted_manager])
def test_verbs_bear(
    tool: Tool, real_cluster: Cluster, fault: Callable[[Cluster, str], Callable[[], object]]
) -> None:
    name = f"bears{fault.__name__.replace('_', '-')}"
    end = tool.cwd / "end"
    command = f"echo begins; until [ -e {end} ]; do sleep 0.2; done; echo ends"
    spec = tool.spec(name, strategy="single", command=command, roles={"chief": SMALL})
    sent = tool("submit", spec, "--detach", "-o", "json").json
    tool.until(name, lambda seen: seen["state"] == "RUNNING")
    waiting = tool.start("wait", name, "-o", "json")
    following = tool.start("logs", name, "-f")
    time.sleep(2)
    mend = fault(real_cluster, name)
    looks = {
        words: tool.start(*words)
        for words in (
            ("status", name, "-o", "json"),
            ("status", sent["application_id"], "-o", "json"),
            ("describe", name, "-o", "json"),
            ("logs", sent["application_id"]),
        )
    }
    try:
        for words, process in looks.items():
            out, err = process.communicate(timeout=SUBMIT_S)
            print(words, process.returncode, out, err)
            _is_true(words[0], process.returncode, out, err)
    finally:
        mend()
    end.touch()
    out, err = waiting.communicate(timeout=SUBMIT_S)
    done: dict[str, Any] = json.loads(out)
    assert (waiting.returncode, done["state"], done["confirmed"]) == (0, "SUCCEEDED", True), err
    out, err = following.communicate(timeout=SUBMIT_S)
    assert following.returncode == 0, err
    assert "Traceback" not in err
    assert [line for line in ("begins", "ends") if line in out] == ["begins", "ends"], out + err
    gone(name)


def _is_true(verb: str, status: int, out: str, err: str) -> None:
    """Assert that one look at a job that runs says so, or which server is silent."""
    assert "Traceback" not in err
    if verb == "logs":
        assert (status == 0 and "begins" in out) or (status == 7 and "NodeManager" in err), err
        return
    assert status == 0, err
    seen = json.loads(out)
    why = seen["reason"] or " ".join(cause["code"] for cause in seen["pending"])
    assert seen["state"] == "RUNNING" or (seen["state"] == "STARTING" and why), out
