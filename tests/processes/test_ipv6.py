"""`local` on a host whose loopback has no IPv4 address: a network namespace, which root can make."""

from __future__ import annotations

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


@pytest.mark.skipif(
    os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("ip")),
    reason="only root makes network namespaces, with unshare and ip",
)
def test_local_on_a_loopback_without_ipv4(tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text(SPEC)
    done = subprocess.run(
        [
            *("unshare", "-n", "sh", "-c", ALONE, "sh"),
            *(sys.executable, "-m", "submit_tf_job", "local", "train.yaml", "--timeout", "40s"),
        ],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.findall(
        r'\{"cluster":\{"chief":\["\[::1\]:\d+"\],"worker":\["\[::1\]:\d+"\]\}', done.stdout
    )
    assert len(found) == 2, done.stdout
