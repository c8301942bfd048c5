"""A NameNode that responds after the caller gave up: the process exits with its own status."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.world.name_node import late_name_node

# Python takes two seconds for its end, so that the answer comes while it is at it.
GIVES_UP = """
import sys, time
class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(2)
slow = Slow()
from submit_tf_job.errors import ClusterUnavailable
from submit_tf_job.storage import open_storage
from submit_tf_job.storage.hdfs import calls_under_way
try:
    open_storage("hdfs://" + sys.argv.pop(), user="alice", timeout_s=0.3).stat("/")
except ClusterUnavailable as error:
    print(error.message.partition(": ")[2])
assert calls_under_way()
"""
AS_COMMAND = """
from submit_tf_job.cli import main
sys.exit(main())
"""


def run(code: str, address: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *words, address], capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("answer_s", [1.0, 1.5])
def test_program_exits_with_its_status_after_an_abandoned_call(answer_s: float) -> None:
    with late_name_node(answer_s) as address:
        done = run(GIVES_UP + "sys.exit(3)", address)
    assert (done.returncode, done.stdout, done.stderr) == (3, "no answer within 0.3 s\n", "")


def test_command_exits_with_its_status_after_an_abandoned_call() -> None:
    """It does not wait for the answer, which would come far too late for this test."""
    with late_name_node(3600) as address:
        done = run(GIVES_UP + AS_COMMAND, address, "version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("no answer within 0.3 s\nsubmit_tf_job "), "its output"
