"""`sandbox up` warns of a machine whose firewall drops what containers on a bridge send one another.

A network namespace of its own stands for that machine: the firewall of this one is left alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BRIDGED = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("iptables") or not BRIDGED.exists(),
    reason="needs root, iptables and br_netfilter",
)

ASK = """
from pathlib import Path
from submit_tf_job.sandbox.engine import Engine, bridge_problem
engine = Engine(Path("/engine"), 0)
print(engine.identity, bridge_problem(engine))
"""


def problem(*commands: str) -> tuple[str, str]:
    """Return the bridge's name, and what is said of a machine on which commands were run."""
    argv = ["unshare", "-n", "sh", "-ec", f'{";".join(commands)}\nexec "$@"', "sh"]
    printed = subprocess.check_output([*argv, sys.executable, "-c", ASK], text=True)
    name, _, said = printed.strip().partition(" ")
    return name, said


def test_bridge_problem_names_a_firewall_that_drops_what_is_forwarded() -> None:
    drop = f"echo 1 > {BRIDGED}; iptables -P FORWARD DROP"
    name, said = problem(drop)
    rule = f"FORWARD -i {name} -o {name} -j ACCEPT"
    assert said.startswith("the policy of iptables' chain FORWARD is DROP")
    assert f"`iptables -I {rule}`" in said
    assert problem(drop, f"iptables -I {rule}") == (name, "")
    assert problem(drop, f"echo 0 > {BRIDGED}") == (name, "")
    assert problem("iptables -P FORWARD ACCEPT") == (name, "")
