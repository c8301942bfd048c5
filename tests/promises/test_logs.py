"""Logs to the last byte: while a task writes them, and after YARN has collected them."""

from __future__ import annotations

import pytest

from tests.promises.conftest import SMALL
from tests.tool import SUBMIT_S, Tool, gone

pytestmark = pytest.mark.cluster

# 700 kB of lines that no two runs share; the last one has colours, and no end. The rest comes when the first is seen.
PROGRAM = """
import os, sys, time
out, kept, seen = sys.stdout.buffer, open(sys.argv[1], "wb"), sys.argv[2]
for part in range(4):
    for line in range(2000):
        text = b"%d.%d %s\\n" % (part, line, os.urandom(40).hex().encode())
        out.write(text)
        kept.write(text)
    out.flush()
    while not os.path.exists(seen):
        time.sleep(0.1)
out.write(b"\\x1b[31mred\\x1b[0m \\xc3\\xbc no end")
kept.write(b"red \\xc3\\xbc no end")
"""
ONE = ("worker-0", "--raw", "--no-prefix", "--file", "stdout.txt")


def test_logs_are_exact_while_followed_and_after_the_end(tool: Tool, unique: str) -> None:
    name = f"exact-logs-{unique}"
    (tool.cwd / "writes.py").write_text(PROGRAM)
    written, seen = tool.cwd / "written", tool.cwd / "seen"
    spec = tool.spec(
        name,
        strategy="single",
        command=["python3", "writes.py", str(written), str(seen)],
        files=["writes.py"],
        roles={"worker": SMALL},
    )
    assert tool("submit", spec, "--detach", "-q").status == 0
    followed = tool.start("logs", name, *ONE, "-f")
    assert followed.stdout is not None
    assert followed.stderr is not None
    with followed:  # closes its pipes
        first = followed.stdout.readline()
        seen.touch()
        live = followed.stdout.read()  # `communicate` would lose what `readline` has read ahead
        assert followed.wait(SUBMIT_S) == 0, followed.stderr.read()
    assert tool("wait", name).status == 0
    gone(name)
    wanted = written.read_text().splitlines()
    assert len(wanted) == 8001
    assert (first + live).splitlines() == wanted, "what `logs -f` printed"
    tool.collected(name)
    stored = tool("logs", name, *ONE)
    assert stored.stdout.splitlines() == wanted, stored.stderr
