"""Check a container from within, for `doctor --deep`, and print the results as one line of JSON.

Standard library only, Python 3.6 and later: this file travels with the job, and must run in any
image that has a Python.
"""

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
ENV_NAMENODE = "DOCTOR_NAMENODE"  # host:port, if a NameNode is configured
ENV_HOSTNAME = "YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_HOSTNAME"
NAMES_S = 20.0  # a container's name is registered in Registry DNS some seconds after its start
OK, WARNING, FAILURE = "ok", "warning", "failure"


def result(status: str, said: object) -> "dict[str, str]":
    """Build the result of one check."""
    return {"status": status, "said": str(said)[:300]}


def resolver() -> "dict[str, str]":
    """Return which DNS servers the container uses."""
    with open("/etc/resolv.conf") as handle:
        servers = [
            line.split()[1]
            for line in handle
            if line.startswith("nameserver") and len(line.split()) > 1
        ]
    if not servers:
        return result(FAILURE, "/etc/resolv.conf names no server")
    return result(OK, "uses " + ", ".join(servers))


def resolves(name: str) -> "dict[str, str]":
    """Resolve a name, with retries for some seconds."""
    deadline = time.time() + NAMES_S
    while True:
        try:
            return result(OK, "{} is {}".format(name, socket.gethostbyname(name)))
        except OSError as error:
            if time.time() >= deadline:
                return result(
                    FAILURE, "{} does not resolve after {:.0f} s: {}".format(name, NAMES_S, error)
                )
        time.sleep(0.5)


def own_name() -> "dict[str, str]":
    """Resolve this task's own name."""
    return _resolves(os.environ.get(ENV_HOSTNAME, ""))


def _resolves(name: str) -> "dict[str, str]":
    if not name:
        return result(WARNING, "%s is not set" % ENV_HOSTNAME)
    return resolves(name)


def peer_name() -> "dict[str, str]":
    """Resolve the other task's name."""
    task, dot, suffix = os.environ.get(ENV_HOSTNAME, "").partition(".")
    peer = {"probe-0": "probe-1", "probe-1": "probe-0"}.get(task, task)
    return _resolves(peer + dot + suffix)


def hdfs() -> "dict[str, str]":
    """Connect to the NameNode."""
    address = os.environ.get(ENV_NAMENODE, "")
    if not address:
        return result(WARNING, "no NameNode is known here; set hadoop_conf")
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=5):
            return result(OK, "{} accepts connections".format(address))
    except OSError as error:
        return result(FAILURE, "{}: {}".format(address, error))


def tokens() -> "dict[str, str]":
    """Return the owners of the delegation tokens; a cluster without Kerberos gives none."""
    path = os.environ.get("HADOOP_TOKEN_FILE_LOCATION", "")
    if not path or not os.path.isfile(path):
        return result(WARNING, "HADOOP_TOKEN_FILE_LOCATION is {}".format(path or "not set"))
    with open(os.path.join("conf", "tfjob.json")) as handle:
        wanted = "tokens" in json.load(handle)
    if not wanted:
        return result(OK, "{} bytes at {}".format(os.path.getsize(path), path))
    # the modules of the bootstrap that started this program; imported by name, because this file
    # imports nothing outside its folder
    sys.path.insert(0, os.path.join(os.getcwd(), "bootstrap.zip"))
    module = importlib.import_module("submit_tf_job.container.delegation.tokens")
    cache = os.environ.get("KRB5CCNAME", "")
    ticket = ["a ticket in " + cache] if cache and os.path.exists(cache[len("FILE:") :]) else []
    said = [
        sentence[len("delegation token: ") :]
        for sentence in module.Tokens(os.environ).describe(os.environ)
    ] + ticket
    return result(OK if said else WARNING, "; ".join(said) or "none, and HDFS wants one")


def gpu() -> "dict[str, str]":
    """List NVIDIA's devices."""
    devices = sorted(
        name for name in os.listdir("/dev") if name.startswith("nvidia") and name[6:].isdigit()
    )
    tool = shutil.which("nvidia-smi")
    if tool:
        done = subprocess.run(
            [tool, "-L"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20
        )
        if done.returncode == 0:
            return result(OK, done.stdout.decode(errors="replace").strip())
    return result(OK, ", ".join(devices) or "none, and none was requested")


def disk() -> "dict[str, str]":
    """Return the free space of the working directory."""
    free = shutil.disk_usage(os.getcwd()).free
    status = OK if free >= 1024**3 else WARNING
    return result(status, "{:.1f} GiB free in {}".format(free / 1024.0**3, os.getcwd()))


def python() -> "dict[str, str]":
    """Return the version of this Python."""
    return result(
        OK if sys.version_info >= (3, 6) else FAILURE,
        "{} at {}".format(sys.version.split()[0], sys.executable),
    )


def tensorflow() -> "dict[str, str]":
    """Return TensorFlow's version, imported in a process of its own because that may crash."""
    code = "import tensorflow; print(tensorflow.__version__)"
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120
    )
    status, output = OK, done.stdout
    if done.returncode != 0:
        status, output = WARNING, done.stderr
    lines = output.decode(errors="replace").strip().splitlines()
    return result(status, (lines or ["exit status {}".format(done.returncode)])[-1])


def keras() -> "dict[str, str]":
    """Return the versions of Keras, and whether the strategies of several tasks work with them."""
    # imported by name: it is sent along with this file, which imports nothing outside its folder
    installed = importlib.import_module("installed")
    found = installed.versions(sys.executable, os.environ)
    why = installed.misfit("multi-worker", found, installed.uses_legacy(os.environ))
    if why:
        return result(WARNING, why)
    said = ["{} {}".format(name, found[name]) for name in ("keras", "tf_keras") if name in found]
    return result(OK, ", ".join(said) or "none")


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
    "keras": keras,
}


def run_checks(checks: "Mapping[str, Callable[[], dict[str, str]]]") -> "dict[str, dict[str, str]]":
    """Run every check; a check that fails does not stop the others."""
    found = {}
    for name, check in checks.items():
        try:
            found[name] = check()
        except Exception as error:  # noqa: BLE001 - whatever is wrong in an unknown image, the other answers still count
            found[name] = result(WARNING, "{}: {}".format(type(error).__name__, error))
    return found


if __name__ == "__main__":
    print(MARK + json.dumps(run_checks(CHECKS)), flush=True)
