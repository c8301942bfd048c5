"""Logs to the last byte: while a task writes them, and after YARN has collected them."""

from __future__ import annotations

import hashlib
import time

import pytest

from tests.promises.conftest import SMALL
from tests.tool import SUBMIT_S, Tool, gone

pytestmark = pytest.mark.cluster

# 700 kB of lines that no two runs share, escape codes, and a last line without its end.
PROGRAM = """
import hashlib, os, sys, time
out, kept = sys.stdout.buffer, hashlib.sha256()
def write(data):
    kept.update(data)
    out.write(data)
    out.flush()
for part in range(4):
    for line in range(2000):
        write(b"%d.%d %s\\n" % (part, line, os.urandom(40).hex().encode()))
    time.sleep(1)
write(b"\\x1b[31mred\\x1b[0m \\xc3\\xbc no end")
open(sys.argv[1], "w").write(kept.hexdigest())
"""


def test_logs_are_exact_while_followed_and_after_the_end(tool: Tool, unique: str) -> None:
    name = f"exact-logs-{unique}"
    (tool.cwd / "writes.py").write_text(PROGRAM)
    digest = tool.cwd / "digest"
    spec = tool.spec(
        name,
        strategy="single",
        command=["python3", "writes.py", str(digest)],
        files=["writes.py"],
        roles={"worker": SMALL},
    )
    assert tool("submit", spec, "--detach", "-q").status == 0
    followed = tool.start("logs", name, "worker-0", "-f", "--raw", "--file", "stdout.txt")
    live, said = followed.communicate(timeout=SUBMIT_S)
    assert followed.returncode == 0, said
    assert tool("wait", name).status == 0
    gone(name)
    wanted = digest.read_text()
    deadline = time.monotonic() + 120
    while True:  # until the cluster has collected them
        collected = tool("logs", name, "worker-0", "--raw", "--file", "stdout.txt")
        if collected.status == 0 and _digest(collected.stdout) == wanted:
            break
        assert time.monotonic() < deadline, collected.stderr
        time.sleep(2)
    assert _digest(live) == wanted, "what `logs -f` printed"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
