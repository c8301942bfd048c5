"""TF_CONFIG as we build it, read by TensorFlow itself: the same cluster, the same task, and no
objection.

Set SUBMIT_TF_JOB_TEST_TENSORFLOW to a virtual environment with TensorFlow (`make test` does).
TensorFlow is started once, for all cases.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from submit_tf_job.container.tfconfig import (
    CLUSTER_ROLES,
    EVALUATOR,
    cluster_counts,
    cluster_spec,
    task_port,
    tf_config,
)
from submit_tf_job.yarn.run_names import host_name

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

COUNTS = st.fixed_dictionaries(
    {},
    optional={
        "chief": st.integers(0, 1),
        "worker": st.integers(0, 4) | st.just(150),
        "ps": st.integers(0, 3),
        "evaluator": st.integers(0, 1),
        "tensorboard": st.integers(1, 2),
    },
)
PORTS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{"mode": "own-address"}, {"mode": "host", "first": 20000, "last": 32767}]
)
LABEL = st.from_regex(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)


@st.composite
def tasks(draw: st.DrawFn) -> dict[str, Any]:
    """Draw one task of one job, its TF_CONFIG, and what TensorFlow must read in it."""
    counts, ports, run = draw(COUNTS), draw(PORTS), draw(LABEL)
    job, user, domain = draw(LABEL), draw(LABEL), draw(st.none() | LABEL)

    def address(role: str, index: int) -> str:
        return f"{host_name(role, index, job, user, domain)}:{task_port(ports, counts, run, role, index)}"

    present = [role for role, count in counts.items() if count]
    role = draw(st.sampled_from(present or ["worker"]))
    index = draw(st.integers(0, max(0, counts.get(role, 0) - 1)))
    legacy = draw(st.booleans())
    return {
        "text": tf_config(counts, CLUSTER_ROLES, role, index, address, legacy),
        "cluster": cluster_spec(counts, CLUSTER_ROLES, address, legacy),
        "type": "master" if legacy and role == "chief" else role,
        "index": index,
        "legacy": legacy,
        "expected": (role in cluster_counts(counts, CLUSTER_ROLES) or role == EVALUATOR)
        and (sum(cluster_counts(counts, CLUSTER_ROLES).values()) > 1 or EVALUATOR in counts),
    }


def collect(size: int) -> list[dict[str, Any]]:
    """Let hypothesis draw cases, to be read by one TensorFlow."""
    found: list[dict[str, Any]] = []

    @settings(
        max_examples=size,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(tasks())
    def draw(task: dict[str, Any]) -> None:
        found.append(task)

    draw()
    return found


def read(texts: list[str]) -> list[dict[str, Any]]:
    command = [str(Path(TENSORFLOW, "bin/python")), "-c", READER]
    env = {"PATH": os.defpath, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        command, input=json.dumps(texts), env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


# TensorFlow's errors for mistakes that ours never makes: they prove that its check ran
# (hadoop-facts.md#tf_config).
MISTAKES = {
    '{"cluster":{"worker":["a:1"]},"task":{"type":"worker","index":1}}': "exceeds the maximum id",
    '{"cluster":{"Worker":["a:1"]},"task":{"type":"Worker","index":0}}': "Disallowed task type",
    '{"cluster":{"worker":["a:1"]},"task":{"type":"chief","index":0}}': "not found in cluster_spec",
    '{"cluster":{"chief":["a:1","b:1"]},"task":{"type":"chief","index":0}}': "at most one",
    "": "JSONDecodeError",
}


@pytest.mark.skipif(
    not TENSORFLOW,
    reason="SUBMIT_TF_JOB_TEST_TENSORFLOW names no virtual environment with TensorFlow",
)
def test_tensorflow_reads_the_intended_cluster() -> None:
    cases = [case for case in collect(400) if case["text"]]
    assert len(cases) > 100
    answers = read([case["text"] for case in cases] + list(MISTAKES))
    for case, answer in zip(cases, answers, strict=False):
        assert (answer.get("cluster"), answer.get("type"), answer.get("index")) == (
            case["cluster"],
            case["type"],
            case["index"],
        ), case
        # Strategies of TensorFlow 2 know no `master`; Estimators, for which it is meant, do not
        # validate.
        assert answer["objection"] is None or (
            case["legacy"] and "Disallowed task type" in answer["objection"]
        ), (case, answer)
    for (text, words), answer in zip(MISTAKES.items(), answers[len(cases) :], strict=True):
        assert words in answer["objection"], text
