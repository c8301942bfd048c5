"""Containers on a bridge of the sandbox's engine, and a machine whose firewall drops what they send
one another.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox import engine as engines
from submit_tf_job.sandbox.bridge import bridge_problem


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[engines.Engine]:
    """An engine's bridge, without dockerd."""
    try:
        engines.find_programs(os.environ)
    except SandboxError as error:
        if os.environ.get("SUBMIT_TF_JOB_TEST_DOCKER") == "required":
            pytest.fail(f"Docker is required here: {error}")
        pytest.skip(str(error))
    (tmp_path / "engine").mkdir()
    made = engines.make_bridge(tmp_path / "engine")
    try:
        yield made
    finally:
        subprocess.run(["ip", "link", "delete", made.identity], check=True)


def test_bridge_problem_names_a_firewall_that_drops_what_is_forwarded(
    engine: engines.Engine,
) -> None:
    assert bridge_problem(engine) == ""
    # Of this bridge alone: the policy of the whole chain would reach every other engine of the
    # machine.
    rule = ["FORWARD", "-i", engine.identity, "-o", engine.identity, "-j", "DROP"]
    subprocess.run(["iptables", "-I", *rule], check=True)
    try:
        problem = bridge_problem(engine)
    finally:
        subprocess.run(["iptables", "-D", *rule], check=True)
    assert problem.startswith("this machine's firewall drops what one sends to another")
    assert f"iptables -I FORWARD -i {engine.identity} -o {engine.identity} -j ACCEPT" in problem
    assert bridge_problem(engine) == ""


def test_bridge_problem_leaves_nothing_behind(engine: engines.Engine) -> None:
    assert bridge_problem(engine) == ""
    listed = subprocess.run(
        ["ip", "netns", "list"], stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    assert engine.identity not in listed
    links = {
        path.name
        for path in Path("/sys/class/net").iterdir()
        if path.name.startswith(engine.identity)
    }
    assert links == {engine.identity}
