"""`retries`: a training goes on after the loss of containers, with nobody at the keyboard."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests import clusters
from tests.cluster.conftest import SPECS, DockerCluster, another
from tests.tool import SUBMIT_S, Tool, bootstrap_of, gone, held, kill, release, until

pytestmark = pytest.mark.cluster

STEPS = 40
SMALL = {"memory": "256Mi"}
# Every task does step after step; the chief writes each to its checkpoint, and continues from it.
# With the last step done they wait until they may end: a busy machine sees each generation run.
PROGRAM = """
import os, sys, time
checkpoint, role = sys.argv[1], os.environ["TFJOB_ROLE"]
step = int(open(checkpoint).read()) if os.path.exists(checkpoint) else 0
print("generation", os.environ["TFJOB_GENERATION"], "from step", step, flush=True)
while step < STEPS:
    time.sleep(0.25)
    step += 1
    print('TFJOB_PROGRESS {"step": %d, "total": STEPS}' % step, flush=True)
    if role == "chief":
        with open(checkpoint + ".new", "w") as out:
            out.write(str(step))
        os.rename(checkpoint + ".new", checkpoint)
while not os.path.exists(checkpoint + ".end"):
    time.sleep(0.1)
"""


def reaches(tool: Tool, job: str, wanted: int) -> dict[str, Any]:
    """Wait until the commands of a generation run."""
    return tool.until(
        job,
        lambda seen: seen["state"] == "RUNNING" and (seen["retries"] or {}).get("used") == wanted,
    )


def training(
    tool: Tool, name: str, retries: object, roles: dict[str, Any], steps: int = STEPS
) -> Path:
    """Submit a job that runs `PROGRAM`; return the path of its checkpoint."""
    program, checkpoint = tool.cwd / "train.py", tool.cwd / "checkpoint"
    program.write_text(PROGRAM.replace("STEPS", str(steps)))
    spec = tool.spec(
        name,
        strategy="multi-worker",
        files=[str(program)],
        command=f"python3 train.py {checkpoint}",
        prepare=f"echo once >> {tool.cwd / 'prepared'}",
        stop_grace="2s",
        retries=retries,
        lifetime="1h",  # required on Hadoop 3.1 and 3.2
        roles=roles,
    )
    assert tool("submit", spec, "--detach").status == 0
    reaches(tool, name, 0)
    return checkpoint


def may_end(checkpoint: Path) -> None:
    """Let the job that `training` submitted end after its last step."""
    checkpoint.with_name("checkpoint.end").touch()


@pytest.mark.long
def test_training_survives_a_node(clusters_of_session: None, tmp_path: Path) -> None:
    with another(tmp_path, "--nodes", "3") as (cluster, tool):
        spread = {"memory": "256Mi", "placement": {"spread": "node"}}
        roles = {"chief": {"memory": "256Mi"}, "worker": {**spread, "instances": 2}}
        checkpoint = training(tool, "node-lost", 5, roles)
        pid = bootstrap_of("node-lost", "worker-1")
        environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        local = next(item for item in environ if item.startswith(b"LOCAL_DIRS="))
        node = re.search(rb"/nm-local(\d?)", local)
        assert node
        cluster.kill("nodemanager" + node.group(1).decode())
        for entry in Path("/proc").glob("[0-9]*"):  # its containers outlive it
            with contextlib.suppress(OSError):
                if local in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)
        may_end(checkpoint)
        done = tool("wait", "node-lost", "-o", "json", timeout=500)
        assert done.status == 0, done.stdout + done.stderr
        assert checkpoint.read_text() == str(STEPS)
        assert done.json["retries"]["used"] >= 1


@pytest.mark.long
@pytest.mark.parametrize("victim", ["ps-0", "worker-0", "chief-0"])
def test_parameter_servers_continue_from_a_checkpoint(
    tool: Tool, tmp_path: Path, victim: str
) -> None:
    name = "ps-again-" + victim
    spec = tool.spec(
        name,
        strategy="parameter-server",
        command=["python", "parameter_server.py"],
        files=[{"src": str(SPECS / "programs/parameter_server.py"), "dst": "parameter_server.py"}],
        env={"CHECKPOINTS": str(tmp_path / "saved"), "STEPS": "3000", "TF_CPP_MIN_LOG_LEVEL": "1"},
        retries=3,
        roles={
            "chief": {"memory": "1Gi"},
            "worker": {"memory": "1Gi", "instances": 2},
            "ps": {"memory": "1Gi"},
        },
    )
    assert tool("submit", spec, "--detach").status == 0
    tool.until(name, lambda seen: ((seen["progress"] or {}).get("step") or 0) >= 100)
    kill(name, victim)
    done = tool("wait", name, "-o", "json", timeout=500)
    assert done.status == 0, done.stdout + done.stderr
    lost = [entry["task"] for entry in done.json["retries"]["generations"]]
    assert lost == [victim]
    said = tool.output(name, "chief-0")
    assert "step 3000: loss" in said
    steps = [int(number) for number in re.findall(r"from step (\d+)", said)]
    assert steps[0] == 0, steps
    assert steps[-1] >= 100, steps
    gone(name)


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a Docker Engine")
@pytest.mark.parametrize("network", ["bridge", "host"])
def test_training_survives_in_docker(
    docker_cluster: DockerCluster, tmp_path: Path, network: str
) -> None:
    """A new container has another address on the bridge, which the others find by its name."""
    tool = Tool(clusters.environment(), docker_cluster.profiles[network], tmp_path)
    spec = tool.spec(
        "docked",
        image="submit_tf_job/base:1",
        strategy="multi-worker",
        command=f"echo generation $TFJOB_GENERATION; {held('docked')}",
        retries=3,
        roles={"chief": SMALL, "worker": {**SMALL, "instances": 2}},
    )
    try:
        assert tool("submit", spec, "--detach").status == 0
        for used, victim in enumerate(("worker-1", "chief-0")):
            reaches(tool, "docked", used)
            tasks = tool("describe", "docked", "-o", "json").json["task_list"]
            container = next(task["container_id"] for task in tasks if task["task"] == victim)
            docker_cluster.docker("kill", container)
        reaches(tool, "docked", 2)
        release("docked", tasks=3)
        done = tool("wait", "docked", "-o", "json")
        assert (done.status, done.json["state"], done.json["confirmed"]) == (0, "SUCCEEDED", True)
        lost = [entry["task"] for entry in done.json["retries"]["generations"]]
        assert lost == ["worker-1", "chief-0"]
    finally:
        tool.tidy()


@pytest.mark.long
def test_a_node_on_which_a_task_was_lost_is_left_out(
    clusters_of_session: None, tmp_path: Path
) -> None:
    with another(tmp_path, "--nodes", "3") as (_cluster, tool):
        retries = {"max": 5, "node_losses": 1}
        checkpoint = training(tool, "left-out", retries, {"chief": SMALL, "worker": SMALL})
        hosts = []
        for used in (1, 2):
            tasks = tool("describe", "left-out", "-o", "json").json["task_list"]
            hosts.append(next(task["host"] for task in tasks if task["task"] == "worker-0"))
            kill("left-out", "worker-0")
            seen = reaches(tool, "left-out", used)
        tasks = tool("describe", "left-out", "-o", "json").json["task_list"]
        hosts.append(next(task["host"] for task in tasks if task["task"] == "worker-0"))
        assert len(set(hosts)) == 3, hosts
        said = [text for text in seen["warnings"] if "starts no more of its containers" in text]
        assert [text.split(" on ")[1].split()[0] for text in said] == hosts[:2]
        may_end(checkpoint)
        assert tool("wait", "left-out").status == 0


@pytest.mark.long
def test_job_that_ran_out_of_memory_is_submitted_again_with_more(tool: Tool) -> None:
    first, marker = tool.cwd / "first", tool.cwd / "held"
    program = (  # the first run holds its memory until it is ended for it
        "import os, time; held = bytearray(500 << 20); "
        f"again = os.path.exists({str(first)!r}); open({str(first)!r}, 'w').close(); "
        f"time.sleep(20 if again else 600); open({str(marker)!r}, 'w').close()"
    )
    spec = tool.spec(
        "grows",
        strategy="single",
        command=["python3", "-c", program],
        retries={"max": 1, "memory": 2},
        roles={"worker": {"memory": "256Mi"}},
    )
    other = tool.start("submit", spec)
    until(lambda: tool("status", "grows").status == 0, within_s=SUBMIT_S)
    waiter = tool.start("wait", "grows")
    done = tool("submit", spec, timeout=SUBMIT_S)
    said, waited = other.communicate(timeout=SUBMIT_S), waiter.communicate(timeout=SUBMIT_S)
    assert (done.status, other.returncode, waiter.returncode) == (0, 0, 0), (done, said, waited)
    assert "submitted again as application_" in waited[1], waited
    assert "for worker (`retries.memory`, 1 of 1)" in done.stderr + said[1]
    assert marker.exists()
    runs = [job for job in tool("list", "-o", "json").json["jobs"] if job["name"] == "grows"]
    assert [job["runs"] for job in runs] == [2], runs
    again = tool("submit", spec)
    assert again.status == 0, again
