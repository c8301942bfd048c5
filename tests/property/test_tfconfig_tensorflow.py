"""TF_CONFIG, as `render --task` prints it, read by TensorFlow itself: the same cluster, the same
task, and no objection. TensorFlow is started once, for all tasks of all examples.

Set SUBMIT_TF_JOB_TEST_TENSORFLOW to a virtual environment with TensorFlow (`make test` does).
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders.command_line import Cli

TENSORFLOW = os.environ.get("SUBMIT_TF_JOB_TEST_TENSORFLOW", "")
# What MultiWorkerMirroredStrategy and ParameterServerStrategy run on every TF_CONFIG, with the
# resolver that they use.
READER = """
import json, os, sys
from tensorflow.python.distribute.cluster_resolver.tfconfig_cluster_resolver import TFConfigClusterResolver
from tensorflow.python.distribute.multi_worker_util import _validate_cluster_spec

def read(text):
    os.environ["TF_CONFIG"] = text
    try:
        resolver = TFConfigClusterResolver()
        spec = resolver.cluster_spec()
        answer = {"cluster": spec.as_dict(), "type": resolver.task_type, "index": resolver.task_id, "objection": None}
        try:
            _validate_cluster_spec(spec, resolver.task_type, resolver.task_id)
        except ValueError as error:
            answer["objection"] = str(error)
        return answer
    except Exception as error:
        return {"objection": repr(error)}

json.dump([read(text) for text in json.load(sys.stdin)], sys.stdout)
"""
ROLES: list[tuple[str, dict[str, int]]] = [
    ("multi-worker", {"worker": 3}),
    ("multi-worker", {"chief": 1, "worker": 150}),
    ("multi-worker", {"worker": 2, "evaluator": 1}),
    ("parameter-server", {"chief": 1, "worker": 2, "ps": 3}),
    ("parameter-server", {"worker": 2, "ps": 1, "evaluator": 1}),
    ("estimator", {"chief": 1, "worker": 1, "evaluator": 1}),
    ("custom", {"chief": 1, "worker": 4, "ps": 2}),
]
# TensorFlow's errors for mistakes that ours never makes: they prove that its check ran
# (hadoop-facts.md#tf_config).
MISTAKES = {
    '{"cluster":{"worker":["a:1"]},"task":{"type":"worker","index":1}}': "exceeds the maximum id",
    '{"cluster":{"Worker":["a:1"]},"task":{"type":"Worker","index":0}}': "Disallowed task type",
    '{"cluster":{"worker":["a:1"]},"task":{"type":"chief","index":0}}': "not found in cluster_spec",
    '{"cluster":{"chief":["a:1","b:1"]},"task":{"type":"chief","index":0}}': "at most one",
    "": "JSONDecodeError",
}


def tf_config(cli: Cli, task: str) -> str:
    done = cli("render", "train.yaml", "--task", task)
    assert done.status == 0, done.err
    lines = [line for line in done.out.splitlines() if line.startswith("TF_CONFIG=")]
    assert lines, f"{task} has no TF_CONFIG"
    [line] = lines
    return shlex.split(line.partition("=")[2])[0]


@pytest.mark.skipif(
    not TENSORFLOW,
    reason="SUBMIT_TF_JOB_TEST_TENSORFLOW names no virtual environment with TensorFlow",
)
def test_tensorflow_reads_the_intended_cluster(cli: Cli, home: Path) -> None:
    tasks: list[tuple[str, int, dict[str, int], str]] = []
    for strategy, counts in ROLES:
        roles = {role: {"memory": "1Gi", "instances": n} for role, n in counts.items()}
        spec = {"name": "t", "image": "i", "command": "c", "strategy": strategy, "roles": roles}
        spec |= {"tf_config": "counts"}
        (home / "train.yaml").write_text(yaml.safe_dump(spec))
        for role, count in counts.items():
            tasks.append((role, count - 1, counts, tf_config(cli, f"{role}-{count - 1}")))
    texts = [text for *_, text in tasks]
    env = {"PATH": os.defpath, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [Path(TENSORFLOW, "bin/python"), "-c", READER],
        input=json.dumps([*texts, *MISTAKES]),
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    for (role, index, counts, _), answer in zip(tasks, answers, strict=False):
        assert (answer["objection"], answer["type"], answer["index"]) == (None, role, index)
        cluster = {name: n for name, n in counts.items() if name in ("chief", "worker", "ps")}
        assert {name: len(hosts) for name, hosts in answer["cluster"].items()} == cluster
        for name, hosts in answer["cluster"].items():
            begins = [f"{name}-{number}.t-" for number in range(len(hosts))]
            assert all(host.startswith(begin) for host, begin in zip(hosts, begins, strict=True))
    for (text, words), answer in zip(MISTAKES.items(), answers[len(tasks) :], strict=True):
        assert words in answer["objection"], text
