"""What `doctor --deep` runs in two containers: it looks around and prints what it sees as one line of JSON.

Standard library only, Python 3.7 and later: this very file travels with the job, and must run in any image that has a Python.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

MARK = "submit_tf_job-doctor "
ENV_NAMENODE = "DOCTOR_NAMENODE"  # host:port, where there is one
ENV_HOSTNAME = "YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_HOSTNAME"
NAMES_S = 20.0  # a container's name comes to Registry DNS some seconds after its start
OK, WARNING, FAILURE = "ok", "warning", "failure"


def answer(status: str, said: object) -> dict[str, str]:
    """Make the answer to one question."""
    return {"status": status, "said": str(said)[:300]}


def resolver() -> dict[str, str]:
    """Tell which servers the container asks."""
    with open("/etc/resolv.conf") as handle:
        servers = [line.split()[1] for line in handle if line.startswith("nameserver") and len(line.split()) > 1]
    return answer(OK if servers else FAILURE, "asks " + ", ".join(servers) if servers else "/etc/resolv.conf names no server")


def resolves(name: str) -> dict[str, str]:
    """Look a name up until it is there or the time is over."""
    deadline = time.time() + NAMES_S
    while True:
        try:
            return answer(OK, "{} is {}".format(name, socket.gethostbyname(name)))
        except OSError as error:
            if time.time() >= deadline:
                return answer(FAILURE, "{} does not resolve after {:.0f} s: {}".format(name, NAMES_S, error))
        time.sleep(0.5)


def own_name() -> dict[str, str]:
    """Look this task's own name up."""
    name = os.environ.get(ENV_HOSTNAME)
    return resolves(name) if name else answer(WARNING, "the container has not been told its name")


def peer_name() -> dict[str, str]:
    """Look the other task's name up."""
    name = os.environ.get(ENV_HOSTNAME, "")
    peer = name.replace("probe-0.", "probe-1.") if name.startswith("probe-0.") else name.replace("probe-1.", "probe-0.")
    return resolves(peer) if name else answer(WARNING, "the container has not been told its name")


def hdfs() -> dict[str, str]:
    """Connect to the NameNode."""
    address = os.environ.get(ENV_NAMENODE, "")
    if not address:
        return answer(WARNING, "no NameNode is known here; set hadoop_conf")
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=5):
            return answer(OK, "{} accepts connections".format(address))
    except OSError as error:
        return answer(FAILURE, "{}: {}".format(address, error))


def tokens() -> dict[str, str]:
    """Tell whose delegation tokens there are; a cluster that believes everybody's name gives none."""
    path = os.environ.get("HADOOP_TOKEN_FILE_LOCATION", "")
    if not path or not os.path.isfile(path):
        return answer(WARNING, "HADOOP_TOKEN_FILE_LOCATION is {}".format(path or "not set"))
    sys.path.insert(0, os.path.join(os.getcwd(), ".tfjob-bootstrap"))  # the bootstrap that started this lies there
    try:  # by name: it is there only in containers of clusters with tokens, and `api`, which ships this file, knows no bootstrap
        module = importlib.import_module("submit_tf_job.bootstrap.tokens")
    except ImportError:
        return answer(OK, "{} bytes at {}".format(os.path.getsize(path), path))
    cache = os.environ.get("KRB5CCNAME", "")
    ticket = ["a ticket in " + cache] if cache and os.path.exists(cache[len("FILE:") :]) else []
    said = [sentence[len("delegation token: ") :] for sentence in module.Tokens(os.environ).sentences(os.environ)] + ticket
    return answer(OK if said else WARNING, "; ".join(said) or "none, and HDFS wants one")


def gpu() -> dict[str, str]:
    """Look for NVIDIA's devices."""
    devices = sorted(name for name in os.listdir("/dev") if name.startswith("nvidia") and name[6:].isdigit())
    tool = shutil.which("nvidia-smi")
    if tool:
        done = subprocess.run([tool, "-L"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20)
        if done.returncode == 0:
            return answer(OK, done.stdout.decode(errors="replace").strip())
    return answer(OK, ", ".join(devices) if devices else "none, and none was asked for")


def disk() -> dict[str, str]:
    """Tell how much room the working directory has."""
    free = shutil.disk_usage(os.getcwd()).free
    return answer(OK if free >= 1024**3 else WARNING, "{:.1f} GiB free in {}".format(free / 1024.0**3, os.getcwd()))


def python() -> dict[str, str]:
    """Tell which Python this is."""
    return answer(OK if sys.version_info >= (3, 7) else FAILURE, "{} at {}".format(sys.version.split()[0], sys.executable))


def tensorflow() -> dict[str, str]:
    """Tell which TensorFlow there is, in a process of its own: importing it may crash."""
    code = "import tensorflow; print(tensorflow.__version__)"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    lines = (done.stdout if done.returncode == 0 else done.stderr).decode(errors="replace").strip().splitlines()
    said = lines[-1] if lines else "exit status {}".format(done.returncode)
    return answer(OK if done.returncode == 0 else WARNING, said)


CHECKS = {
    "resolver": resolver,
    "own-name": own_name,
    "peer-name": peer_name,
    "hdfs": hdfs,
    "tokens": tokens,
    "gpu": gpu,
    "disk": disk,
    "python": python,
    "tensorflow": tensorflow,
}


def look_at(checks: Mapping[str, Callable[[], dict[str, str]]]) -> dict[str, dict[str, str]]:
    """Answer every question; one that fails never stops the others."""
    found = {}
    for name, check in checks.items():
        try:
            found[name] = check()
        except Exception as error:  # noqa: BLE001 - whatever is wrong in an unknown image, the other answers still count
            found[name] = answer(WARNING, "{}: {}".format(type(error).__name__, error))
    return found


if __name__ == "__main__":
    print(MARK + json.dumps(look_at(CHECKS)), flush=True)
