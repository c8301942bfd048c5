"""Files, packages, inputs and outputs: to the tasks and back, byte for byte, on the real HDFS."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from typing import Any

import pytest

from tests.clusters import Cluster
from tests.hdfs import by_library
from tests.promises.conftest import SMALL
from tests.tool import Tool, gone

pytestmark = pytest.mark.cluster

MIB = 1024 * 1024
HDFS = {"hadoop": {"conf": "inline"}}


def test_inputs_are_shared_out_and_output_is_stored(
    tool: Tool, simple: Cluster, unique: str
) -> None:
    place = f"/tmp/promises-{unique}"
    by_library(
        simple,
        f"client.mkdirs('{place}/in', 0o777, True)\n"
        "for n in range(3):\n"
        f"    with client.create(f'{place}/in/part {{n}}.txt') as out:\n"
        "        out.write(f'row {n}\\n'.encode())\n",
    )
    command = (
        "xargs -d '\\n' cat < $TFJOB_FILES_ROWS > $TFJOB_OUTPUT_KEPT/$TFJOB_INSTANCE.txt; "
        "exit ${STATUS:-0}"
    )
    content: dict[str, Any] = {
        **HDFS,
        "strategy": "multi-worker",
        "command": command,
        "roles": {"worker": {**SMALL, "instances": 2}},
        "inputs": {
            "rows": {"uri": f"hdfs://{place}/in", "shard": "files", "download": True},
        },
        "outputs": {
            "kept": {"uri": f"hdfs://{place}/kept", "upload": True, "by": "every-task"},
        },
    }
    done = tool("submit", tool.spec(f"data-{unique}", **content))
    assert done.status == 0, done.stderr
    assert f"output       kept  hdfs://{place}/kept  (of 2 tasks)" in done.stdout
    stored = by_library(
        simple,
        f"result = {{s.path: client.read(s.path).read().decode() for s in "
        f"client.list_status('{place}/kept', recursive=True) if not s.isdir and not s.path.endswith('/.submit_tf_job')}}",
    )
    assert sorted(path.removeprefix(f"{place}/kept/") for path in stored) == [
        "worker-0/worker-0.txt",
        "worker-1/worker-1.txt",
    ]
    assert sorted("".join(stored.values()).splitlines()) == ["row 0", "row 1", "row 2"]

    taken = tool("submit", tool.spec(f"again-{unique}", **content))
    assert taken.status == 2, taken
    assert f"hdfs://{place}/kept/worker-0 is there already" in taken.stderr
    kept = {**content["outputs"]["kept"], "uri": f"hdfs://{place}/failed"}
    failing = {**content, "env": {"STATUS": "3"}, "outputs": {"kept": kept}}
    failed = tool("submit", tool.spec(f"fails-{unique}", **failing))
    assert failed.status == 1
    names = by_library(simple, f"result = [s.path for s in client.list_status('{place}')]")
    assert sorted(names) == [f"{place}/in", f"{place}/kept"], "nothing of a failed task"


PROGRAM = """
import hashlib, json, os, one
print("FOUND", json.dumps({
    "text": open("tree/a b/\\u00fc \\u65e5\\u672c.txt").read(),
    "mode": os.stat("tree/run.sh").st_mode & 0o777,
    "large": hashlib.sha256(open("large.bin", "rb").read()).hexdigest(),
    "tool": os.popen("tool-of-one").read().strip()}), flush=True)
"""


def test_files_and_packages_reach_every_task(tool: Tool, unique: str) -> None:
    here = tool.cwd
    (here / "tree" / "a b").mkdir(parents=True)
    (here / "tree" / "a b" / "ü 日本.txt").write_text("sehr schön")
    (here / "tree" / "run.sh").write_text("#!/bin/sh\n")
    (here / "tree" / "run.sh").chmod(0o755)
    large = os.urandom(5 * MIB)
    (here / "large.bin").write_bytes(large)
    (here / "program.py").write_text(PROGRAM)
    with zipfile.ZipFile(here / "one-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("one.py", "")
        wheel.writestr("one-1.0.data/scripts/tool-of-one", "#!/bin/sh\necho of one\n")
    name = f"files-{unique}"
    spec = tool.spec(
        name,
        strategy="multi-worker",
        command=["python3", "program.py"],
        files=["program.py", "tree", "large.bin"],
        python={"wheels": ["one-*.whl"]},
        roles={"worker": {**SMALL, "instances": 2}},
    )
    done = tool("submit", spec)
    assert done.status == 0, done.stderr
    tool.collected(name)
    lines = tool("logs", name).stdout.splitlines()
    found = [json.loads(line.partition("FOUND ")[2]) for line in lines if "FOUND " in line]
    assert (
        found
        == [
            {
                "text": "sehr schön",
                "mode": 0o755,
                "large": hashlib.sha256(large).hexdigest(),
                "tool": "of one",
            }
        ]
        * 2
    )
    gone(name)
