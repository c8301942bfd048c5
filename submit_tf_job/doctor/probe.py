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
from typing import Any

MARK = "submit_tf_job-doctor "
ENV_NAMENODE = "DOCTOR_NAMENODE"  # host:port, if a NameNode is configured
ENV_MOUNTS = "DOCTOR_MOUNTS"  # JSON: [[path of the node, path in the container, "ro" or "rw"]]
ENV_HOSTNAME = "YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_HOSTNAME"
MOUNT_S = 20.0  # an NFS server that is gone blocks whatever opens its files
NAMES_S = 20.0  # a container's name is registered in Registry DNS some seconds after its start
OK, WARNING, FAILURE = "ok", "warning", "failure"


def result(status: str, said: object) -> "dict[str, str]":
    """Build the result of one check."""
    return {"status": status, "said": str(said)[:300]}


def resolver() -> "dict[str, str]":
    """Check that the container has DNS servers, and return which."""
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
    """Check that a name resolves, with retries for some seconds."""
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
    """Check that this task's own name resolves."""
    return _resolves_if_set(os.environ.get(ENV_HOSTNAME, ""))


def _resolves_if_set(name: str) -> "dict[str, str]":
    if not name:
        return result(WARNING, "%s is not set" % ENV_HOSTNAME)
    return resolves(name)


def peer_name() -> "dict[str, str]":
    """Check that the other task's name resolves."""
    task, dot, suffix = os.environ.get(ENV_HOSTNAME, "").partition(".")
    peer = {"probe-0": "probe-1", "probe-1": "probe-0"}.get(task, task)
    return _resolves_if_set(peer + dot + suffix)


def hdfs() -> "dict[str, str]":
    """Check that the NameNode accepts connections."""
    address = os.environ.get(ENV_NAMENODE, "")
    if not address:
        return result(WARNING, "no NameNode is known here; set hadoop_conf")
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=5):
            return result(OK, "{} accepts connections".format(address))
    except OSError as error:
        return result(FAILURE, "{}: {}".format(address, error))


def _of_bootstrap(name: str) -> "Any":
    """Import a module of the bootstrap that started this program. The import is by name, because
    this file has no import statements for modules outside its folder.
    """
    sys.path.insert(0, os.path.join(os.getcwd(), "bootstrap.zip"))
    return importlib.import_module("submit_tf_job.container." + name)


def tokens() -> "dict[str, str]":
    """Check that the task has delegation tokens or a Kerberos ticket, and describe them. For a job
    that gets no tokens, only the token file is described.
    """
    path = os.environ.get("HADOOP_TOKEN_FILE_LOCATION", "")
    if not path or not os.path.isfile(path):
        return result(WARNING, "HADOOP_TOKEN_FILE_LOCATION is {}".format(path or "not set"))
    with open(os.path.join("conf", "tfjob.json")) as handle:
        wanted = "tokens" in json.load(handle)
    if not wanted:
        return result(OK, "{} bytes at {}".format(os.path.getsize(path), path))
    module = _of_bootstrap("tokens")
    cache = os.environ.get("KRB5CCNAME", "")
    ticket = ["a ticket in " + cache] if cache and os.path.exists(cache[len("FILE:") :]) else []
    said = [
        sentence[len("delegation token: ") :]
        for sentence in module.Tokens(os.environ).describe(os.environ)
    ] + ticket
    return result(OK if said else WARNING, "; ".join(said) or "none, and HDFS wants one")


def gpu() -> "dict[str, str]":
    """List the NVIDIA GPUs that the task sees; the result is `ok` even if there are none.

    Raises:
        subprocess.TimeoutExpired: nvidia-smi did not end within 20 s.
    """
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
    """Check that at least 1 GiB is free in the working directory."""
    free = shutil.disk_usage(os.getcwd()).free
    status = OK if free >= 1024**3 else WARNING
    return result(status, "{:.1f} GiB free in {}".format(free / 1024.0**3, os.getcwd()))


def python() -> "dict[str, str]":
    """Check that this Python has version 3.6 or later."""
    return result(
        OK if sys.version_info >= (3, 6) else FAILURE,
        "{} at {}".format(sys.version.split()[0], sys.executable),
    )


def tensorflow() -> "dict[str, str]":
    """Check that TensorFlow can be imported, and return its version. It is imported in a separate
    process, because the import may crash.
    """
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
    """Check that the strategy multi-worker works with the installed Keras, and return the
    versions.
    """
    installed = _of_bootstrap("installed")
    found = installed.versions(sys.executable, os.environ)
    why = installed.misfit("multi-worker", found, installed.uses_legacy(os.environ))
    if why:
        return result(WARNING, why)
    said = ["{} {}".format(name, found[name]) for name in ("keras", "tf_keras") if name in found]
    return result(OK, ", ".join(said) or "none")


# Run in a process of its own, so that a file system that does not answer can be given up.
_OPEN = """
import os, sys
path, mode = sys.argv[1:]
os.listdir(path) if os.path.isdir(path) else open(path, "rb").close()
if mode == "rw" and not os.access(path, os.W_OK):
    raise PermissionError("user {} cannot write there".format(os.geteuid()))
print("file" if os.path.isfile(path) else os.path.realpath(path))
"""
_OVER_NETWORK = ("9p", "afs", "beegfs", "ceph", "cifs", "gpfs", "lustre", "nfs", "smb", "virtiofs")


def mounts() -> "dict[str, object]":
    """Return `{node, paths}`: this node as `host:port`; and for the source of each mount of a job
    what is at its path, as `mount` returns it: a file system that is mounted on the node, a
    directory or file of the node itself, or an error.
    """
    node = "{}:{}".format(os.environ.get("NM_HOST", ""), os.environ.get("NM_PORT", ""))
    wanted = json.loads(os.environ[ENV_MOUNTS])
    # without Docker nothing is mounted into a container: the node's own path is there
    return {
        "node": node,
        "paths": {
            source: mount(target if os.path.exists(target) else source, mode)
            for source, target, mode in wanted
        },
    }


def mount(path: str, mode: str) -> "dict[str, str]":
    """Return the kind of a path (`mount`, `directory`, `file` or `error`), and a sentence about it,
    as `{kind, said}`. `mode` is "rw" if the task must be able to write there.
    """
    argv = [sys.executable, "-c", _OPEN, path, mode]
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=MOUNT_S)
    except subprocess.TimeoutExpired:
        return {"kind": "error", "said": "it does not answer within {:.0f} s".format(MOUNT_S)}
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        said = (lines or ["exit status {}".format(done.returncode)])[-1]
        return {"kind": "error", "said": said[:300]}
    found = done.stdout.decode(errors="replace").rstrip("\n")
    if found == "file":
        return {"kind": "file", "said": "a file"}
    with open("/proc/self/mountinfo", errors="replace") as handle:
        return file_system(found, handle.read())


def file_system(path: str, mountinfo: str) -> "dict[str, str]":
    """Return the file system of a directory, from the text of /proc/self/mountinfo (proc(5)).

    For a bind mount, which Docker makes, the file shows the directory's path within its file
    system: that is `/` if a file system is mounted exactly at the node's path.
    """
    point = root = kind = source = ""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        inside, at = before.split()[3:5]
        at = at.replace("\\040", " ")
        if (path + "/").startswith(at.rstrip("/") + "/") and len(at) >= len(point):
            point, root, kind, source = [at, inside, *after.split()[:2]]
    network = kind.startswith((*_OVER_NETWORK, "fuse.")) or ":/" in source
    if network or (point == path and root == "/"):
        return {"kind": "mount", "said": "{} of {}".format(kind, source)}
    return {"kind": "directory", "said": "a directory of the node itself ({})".format(kind)}


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


def run_checks(checks: "Mapping[str, Callable[[], Mapping[str, object]]]") -> "dict[str, object]":
    """Run every check; a check that fails does not stop the others."""
    found = {}  # type: dict[str, object]
    for name, check in checks.items():
        try:
            found[name] = check()
        except Exception as error:  # noqa: BLE001 - whatever is wrong in an unknown image, the other answers still count
            found[name] = result(WARNING, "{}: {}".format(type(error).__name__, error))
    return found


if __name__ == "__main__":
    found = run_checks(CHECKS)
    if os.environ.get(ENV_MOUNTS):
        found.update(run_checks({"mounts": mounts}))
    print(MARK + json.dumps(found), flush=True)
