"""`make demo`: a sandbox, a data set on HDFS, one job, and what came out of it."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
SPEC = HERE.parent / "multi-worker.yaml"
TOOL = [sys.executable, "-m", "submit_tf_job"]
PROFILE = ["--profile", "sandbox"]
DATA = "hdfs:///data/digits.npz"
MODEL = "hdfs:///models/digits"


def run(command, **options):
    return subprocess.run([str(part) for part in command], check=False, **options)


def say(text):
    print(
        f"\n\033[1m{text}\033[0m" if sys.stderr.isatty() else f"\n{text}",
        file=sys.stderr,
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--tensorflow",
        type=Path,
        required=True,
        help="virtual environment with TensorFlow, for the containers",
    )
    tensorflow = parser.parse_args().tensorflow / "bin"

    say("1. A real YARN on this machine (submit_tf_job sandbox up)")
    up = run([*TOOL, "sandbox", "up", "--container-path", tensorflow], stdout=subprocess.DEVNULL)
    if up.returncode:
        return up.returncode
    seen = run([*TOOL, "sandbox", "status", "-o", "json"], stdout=subprocess.PIPE)
    info = json.loads(seen.stdout)["sandbox"]

    say(f"2. Handwritten digits on HDFS ({DATA})")
    hadoop = {"HADOOP_CONF_DIR": info["client_conf"], "PATH": f"{tensorflow}:/usr/bin:/bin"}
    put = run([tensorflow / "python", HERE / "put_digits.py", DATA], env=hadoop)
    if put.returncode:
        return put.returncode

    spec = SPEC.relative_to(Path.cwd()) if SPEC.is_relative_to(Path.cwd()) else SPEC
    say(f"3. One job: submit_tf_job submit {spec}")
    started = time.monotonic()
    job = run([*TOOL, "submit", SPEC, "--timeout", "15m", *PROFILE])
    if job.returncode:
        return job.returncode

    metrics = run(
        [
            tensorflow / "python",
            "-c",
            f"import fsspec; print(fsspec.open('{MODEL}/metrics.json').open().read().decode())",
        ],
        env=hadoop,
        stdout=subprocess.PIPE,
        text=True,
    )
    accuracy = json.loads(metrics.stdout)["val_accuracy"]
    say(
        f"Accuracy on unseen digits: {accuracy:.1%}, {time.monotonic() - started:.0f} s after the submission"
    )
    program = Path(sys.executable).parent / "submit_tf_job"
    tool = program.relative_to(Path.cwd()) if program.is_relative_to(Path.cwd()) else program
    print(
        f"""The model is {MODEL}/model.keras (on the sandbox's HDFS, {info["hdfs_uri"]}).

What to try next:
  {tool} status digits           how it stands, from any process
  {tool} render {spec}    what is posted, byte for byte
  {tool} submit {spec} --set roles.worker.instances=3 --name digits-3
  {tool} sandbox status          what runs here; its ResourceManager is {info["rm_url"]}
  {tool} sandbox down            take all of it away"""
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
