"""What a command uses, as the real bootstrap measures it: hogs of a known appetite, each within a
tenth. The programs hold what they use for some seconds; nothing here depends on how fast.
"""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.container import contract
from tests.bootstrap.harness import Cluster, role

MIB = 1 << 20
FILL = """
import os, subprocess, sys, time
def fill(mib):
    held = bytearray(mib << 20)
    held[::4096] = b"1" * len(held[::4096])
    return held
def burn(seconds):
    while time.process_time() < seconds: sum(range(2000))
def run(text): subprocess.run([sys.executable, "-c", "from hog import *\\n" + text], check=True)
"""


# what the program and the children that it waited for have used
COUNTED = "print('CPU_S', sum(os.times()[:4]))"


def usage(job: Cluster) -> dict[str, Any]:
    logs = job.places[job.task["deciding"] + "-0"][1]
    found: dict[str, Any] = json.loads((logs / contract.USAGE_FILE).read_bytes())
    return found


def ran(job: Cluster, text: str, **extra: Any) -> dict[str, Any]:
    """Run a program as a job of one task to its end; return what it used."""
    job.files = {"hog.py": FILL}
    program = f"from hog import *\n{textwrap.dedent(text)}\n{COUNTED}"
    command = [sys.executable, "-c", program]
    job.job({"worker": role(1, "trains", command)}, **extra)
    job.start()
    assert job.wait("worker-0") == 0, job.stderr("worker-0")
    found: dict[str, Any] = usage(job)["tasks"][0]
    return found


# text of a program; MiB that it holds at its peak, how that is known; CPU seconds that it uses
HOGS = {
    "held": ("kept = fill(700); time.sleep(4)", 700, "kernel", None),
    "a moment": ("kept = fill(1200); del kept; time.sleep(3)", 1200, "kernel", None),
    "a child's moment": ("run('kept = fill(1200)')", 1200, "kernel", None),
    "cpu": ("burn(4)", None, "", 4),
    "ended children": ("run('burn(2)'); run('burn(2)'); time.sleep(1)", None, "", 4),
    "ended grandchildren": ("run('run(\"burn(3)\")')", None, "", 3),
    "an orphan": (
        "os.spawnl(os.P_NOWAIT, '/bin/true', 'true'); run('burn(2)'); burn(1)",
        None,
        "",
        3,
    ),
}


@pytest.mark.parametrize("name", HOGS)
def test_sampler_measures_a_hog(job: Cluster, name: str) -> None:
    text, mib, how, cpu_s = HOGS[name]
    use = ran(job, text)
    if mib:
        assert use["memory_bytes"]["peak"] == pytest.approx((mib + 25) * MIB, rel=0.1)
        assert use["peak_by"] == how
    if cpu_s:
        used = use["cpu_cores"]["mean"] * use["for_s"]
        counted = float(job.stdout("worker-0").split("CPU_S ")[1].split()[0])
        assert counted > 0.9 * cpu_s
        assert used == pytest.approx(counted, rel=0.1, abs=0.3)


def test_sampler_counts_a_fork_of_two_hundred_as_the_node_does(job: Cluster) -> None:
    """Each has the pages that all share: Hadoop's ProcfsBasedProcessTree adds them up."""
    text = """
    kept = fill(16)
    if all(os.fork() for _ in range(200)):
        time.sleep(8)
    else:
        time.sleep(7); os._exit(0)
    for _ in range(200): os.wait()
    mine = int(open("/proc/self/status").read().split("VmRSS:")[1].split()[0])
    print("MINE", mine)
    """
    use = ran(job, text)
    mine = int(job.stdout("worker-0").split("MINE ")[1]) * 1024
    # a forked process has touched less of what it maps, such as the interpreter's own pages
    assert 200 * 16 * MIB < use["memory_bytes"]["peak"] < 201 * mine * 1.1


# --- GPUs -----------------------------------------------------------------------------------------
NVIDIA = {
    "told": (
        'i=0; while :; do echo "0, 80, 1000, 4000"; echo "1, 0, 5, 4000"; sleep 0.2; done',
        "",
    ),
    "units": ('while :; do echo "0, 80 %, 1000 MiB, 4000 MiB"; sleep 0.2; done', ""),
    "mig": (
        'while :; do echo "0, [N/A], 1000, 4000"; sleep 0.2; done',
        "nvidia-smi does not tell the utilization",
    ),
    "untold": (
        'echo "0, [GPU requires reset], [Insufficient Permissions], [N/A]"\n'
        'while :; do echo "1, 55 %, 5 MiB, 4000 MiB"; sleep 0.2; done',
        "the utilization of 1 of 2 GPUs",
    ),
    "nothing": ("sleep 100", "nvidia-smi has not answered"),
    "warns, and hangs": ("echo bash: warning; sleep 100", " s; it said: bash: warning"),
    "no text": (r"while :; do printf '\377\376\n'; sleep 0.2; done", "another form: no text"),
    "ends after answers": (
        'echo "0, 80, 1000, 4000"; echo "Unable to determine the device handle"; exit 15',
        "has ended; it said: Unable to determine the device handle",
    ),
    "other columns": (
        'while :; do echo "A100, 80"; sleep 0.2; done',
        "answers in another form: A100, 80",
    ),
    "wrong": ('while :; do echo "0, 180, 9000, 4000"; sleep 0.2; done', "another form"),
    "fails": ("echo Failed to initialize NVML; exit 9", "has ended; it said: Failed to initialize"),
    "floods": ("yes 0, 50, 1000, 4000", ""),
    "none": ("", "no nvidia-smi in the container"),
}


@pytest.mark.parametrize("name", NVIDIA)
def test_sampler_of_gpus(job: Cluster, name: str, tmp_path: Path) -> None:
    script, why = NVIDIA[name]
    tools = tmp_path / "tools"
    tools.mkdir()
    if script:
        listed = "case $1 in -L) echo 'GPU 0: A100 (UUID: GPU-1)'; exit;; esac\n"
        (tools / "nvidia-smi").write_text(
            f"#!/bin/bash\necho $$ >> {tools}/pids\n{listed}{script}\n"
        )
        (tools / "nvidia-smi").chmod(0o755)
    job.files = {"hog.py": FILL}
    command = [sys.executable, "-c", "import time; time.sleep(3)"]
    env = {"CUDA_VISIBLE_DEVICES": "0"} if name == "told" else {}
    wanted = role(1, "trains", command, gpus=1, env={**env, "HIP_VISIBLE_DEVICES": ""})
    job.job({"worker": wanted}, gpus="yarn.io/gpu", still_s=60)
    job.start(env={"PATH": f"{tools}:/usr/bin:/bin"})
    assert job.wait("worker-0") == 0, job.stderr("worker-0")
    found = usage(job)
    use, its = found["tasks"][0], found["roles"]["worker"]
    said, gpus = use.get("gpus_unknown", ""), use.get("gpus", [])
    assert (why in said) if why else not said
    assert its.get("gpus_unknown", "") == said
    if name in ("told", "units", "floods"):
        assert gpus[0]["percent"]["peak"] == (50 if name == "floods" else 80)
        assert gpus[0]["memory_total_bytes"] == 4000 * MIB
    untold = [0] if name in ("mig", "untold") else []
    assert [at for at, gpu in enumerate(gpus) if "percent" not in gpu] == untold
    if script:
        for pid in map(int, (tools / "pids").read_text().split()):
            job.until(lambda pid=pid: not Path(f"/proc/{pid}").exists())  # type: ignore[misc]
