"""The README's job, on any cluster: digits from HDFS, a model on HDFS."""

from __future__ import annotations

import json
import subprocess

from tests import clusters
from tests.clusters import ROOT, Cluster
from tests.hdfs import environ_of
from tests.tool import SUBMIT_S, Tool, gone

SPECS = ROOT / "specs"


def run(cluster: Cluster, *argv: object) -> str:
    """Run a program with TensorFlow's environment outside of the cluster, with its HDFS."""
    python = clusters.tensorflow() / "bin/python"
    done = subprocess.run(
        [str(python), *map(str, argv)],
        env=environ_of(cluster),
        capture_output=True,
        text=True,
        timeout=SUBMIT_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def accuracy(cluster: Cluster, output: str) -> float:
    """Return what a training left on HDFS; its model must be there, too."""
    program = (
        f"import fsspec; fsspec.open('{output}/model.keras').open(); "
        f"print(fsspec.open('{output}/metrics.json').open().read().decode())"
    )
    return float(json.loads(run(cluster, "-c", program))["val_accuracy"])


def trained(tool: Tool, cluster: Cluster, name: str, *options: object) -> None:
    """Train the digits, as the README does, and read the model."""
    data, output = f"hdfs:///tmp/{name}/digits.npz", f"hdfs:///tmp/{name}/model"
    run(cluster, SPECS / "digits/put_digits.py", data)
    words = ["python", "train.py", "--data", data, "--output", output, "--epochs", "6"]
    command = json.dumps(words)
    tool.jobs.append(name)
    spec = SPECS / "multi-worker.yaml"
    done = tool("submit", spec, "--name", name, "--set", f"command={command}", *options)
    assert done.status == 0, done.stderr + done.stdout
    assert done.stdout.splitlines()[0].startswith(f"{name}  SUCCEEDED after ")
    assert "Confirmed by YARN and by " in done.stdout
    assert accuracy(cluster, output) > 0.8
    progress = tool("wait", name, "-o", "json").json["progress"]
    assert (progress["step"], progress["total"]) == (6, 6)
    gone(name)
