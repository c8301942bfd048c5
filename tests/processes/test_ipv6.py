"""`local` on a host whose loopback has no IPv4 address: a network namespace, which root can make."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SPEC = """\
name: six
image: library/tf:2
strategy: multi-worker
command: echo $TF_CONFIG
roles:
  chief: {memory: 256Mi}
  worker: {memory: 256Mi}
"""
ALONE = 'ip link set lo up && { ip addr del 127.0.0.1/8 dev lo 2>/dev/null; exec "$@"; }'


pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("ip")),
    reason="only root makes network namespaces, with unshare and ip",
)


def local(home: Path, spec: str) -> str:
    """Run a job in a network namespace whose loopback has no IPv4 address; return its output."""
    (home / "train.yaml").write_text(spec)
    done = subprocess.run(
        [
            *("unshare", "-n", "sh", "-c", ALONE, "sh"),
            *(sys.executable, "-m", "submit_tf_job", "local", "train.yaml", "--timeout", "9m"),
        ],
        cwd=home,
        env={"HOME": str(home), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


MULTI = "strategy: multi-worker"


def test_local_on_a_loopback_without_ipv4(tmp_path: Path) -> None:
    printed = local(tmp_path, SPEC)
    here = r'\["\[::1\]:\d+"\]'
    found = re.findall(rf'\{{"cluster":\{{"chief":{here},"worker":{here}\}}', printed)
    assert len(found) == 2, printed


@pytest.mark.parametrize(
    ("key", "host", "address"),
    [
        # torch's TCPStore and Horovod's store look a host up; an endpoint has brackets
        ("strategy: torch", "MASTER_ADDR", "PET_RDZV_ENDPOINT"),
        ("strategy: jax", "", "JAX_COORDINATOR_ADDRESS"),
        ("strategy: jax", "", "KERAS_DISTRIBUTION_JOB_ADDRESSES"),
        (f"{MULTI}\nvariables: horovod", "HOROVOD_GLOO_RENDEZVOUS_ADDR", "TFJOB_ADDRESS"),
    ],
)
def test_brackets_of_an_ipv6_address(tmp_path: Path, key: str, host: str, address: str) -> None:
    script = f'echo "host=${host or "HOME"} address=${address}"'
    spec = SPEC.replace("echo $TF_CONFIG", json.dumps(script))
    printed = local(tmp_path, spec.replace(MULTI, key))
    found = re.findall(r"host=(\S+) address=\[::1\]:\d+$", printed, re.MULTILINE)
    assert len(found) == 2, printed
    assert not host or set(found) == {"::1"}
