"""image check: look into an image of this machine, as YARN would start it."""

from __future__ import annotations

import json
import re
import secrets
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submit_tf_job.dockercli import Answer, Docker, refusal
from submit_tf_job.errors import ClusterUnavailable, Refused, UsageError
from submit_tf_job.settings import Settings, process_environment

if TYPE_CHECKING:
    from submit_tf_job.diagnose.findings import Examination
    from submit_tf_job.diagnose.images import EntryPointSeen

__all__ = ["check_image", "docker_of"]

PROBE_S = 180.0
ENTRY_POINT_S = 20.0
# Nobody that any image knows: YARN's users are those of the nodes.
STRANGER = "54321:54321"
MARK = "submit_tf_job-ran"
DRIVER_FILE = Path("/proc/driver/nvidia/version")
_BIN = ("bin", "usr/bin", "usr/local/bin", "sbin", "usr/sbin", "opt/python/bin", "opt/conda/bin")

# POSIX, so that it runs in images without bash, too. $1 is the interpreter, $2 the probe, the rest the programs to look for.
_SHELL_PROBE = """
python=$1; probe=$2; shift 2
for program in "$@"; do
  case $program in /*) [ -x "$program" ] && found=$program || found= ;; *) found=$(command -v "$program") || found= ;; esac
  echo "program $program $found"
done
version=$("$python" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>&1)
echo "python $version"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 7))' 2>/dev/null && "$python" -c "$probe"
exit 0
"""


def docker_of(settings: Settings) -> Docker:
    """Return the Docker Engine that the settings name."""
    return Docker(process_environment(), settings["docker.host"] or "")


def check_image(settings: Settings, name: str, *, python: str = "python3") -> Examination:
    """Look into an image of this machine: what YARN, Kerberos, HDFS, GPUs or TensorFlow will miss in it.

    It is run twice at most, for seconds, without a network, as a user whom it does not know.

    Args:
        settings: The settings.
        name: The image, as a job spec would name it.
        python: The interpreter that is to run the bootstrap.

    Raises:
        UsageError: YARN takes no image of that name.
        Refused: This machine has no such image.
        ClusterUnavailable: Docker does not answer.
        AuthError: Docker's socket may not be used.

    Example:
        >>> [finding.fix for finding in check_image(load_settings(), "ml/tf:2.15").findings if finding.fix]  # doctest: +SKIP
    """
    from submit_tf_job.diagnose.findings import Examination
    from submit_tf_job.diagnose.images import TOOLS, ImageSeen, judge_image
    from submit_tf_job.plan.docker import image_problem

    problem = image_problem(name)
    if problem:
        raise UsageError(problem)
    docker = docker_of(settings)
    inspected = docker.image(name)
    if inspected is None:
        raise Refused(f"this machine has no image {name}", hint=f"docker pull {name}, or correct the name; `docker images` lists them")
    programs = ("bash", "/bin/bash", *TOOLS)
    shell, lines = _probe(docker, name, python, programs)
    found = _read(lines) if shell else _listed(docker, name, programs, python)
    config = inspected.get("Config") or {}
    seen = ImageSeen(
        name,
        inspected,
        found.get("programs", {}),
        shell,
        python,
        found.get("python", ""),
        found.get("probe"),
        _entry_point(docker, name, shell) if config.get("Entrypoint") and shell else None,
        _driver(),
        settings["docker.registries"],
        tuple(_secrets(config)),
    )
    return Examination(judge_image(seen), () if seen.probe is not None else ("image-hdfs", "image-kerberos", "image-tensorflow"))


def _probe(docker: Docker, image: str, python: str, programs: tuple[str, ...]) -> tuple[str, list[str]]:
    """Run the probe under the best shell that there is; "" where there is none."""
    from importlib.resources import files

    source = files("submit_tf_job").joinpath("imageprobe.py").read_text("utf-8")
    for shell in ("bash", "sh"):
        words = ("--read-only", "--entrypoint", shell, image, "-c", _SHELL_PROBE, shell, python, source, *programs)
        answer = _run(docker, *words, timeout_s=PROBE_S)
        if answer.status == 0:
            return shell, answer.out.splitlines()
        if "exec format error" in answer.err:
            raise Refused(f"image {image} is for another kind of processor than this machine's", hint="check it where it is to run")
        if not re.search(r"executable file not found|no such file or directory", answer.err):
            raise refusal(answer, f"image {image}")
    return "", []


def _run(docker: Docker, *words: str, timeout_s: float) -> Answer:
    with _named(docker) as container:
        options = ("--rm", "--name", container, "--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
        return docker.call("run", *options, "--user", STRANGER, "--workdir", "/", "--env", "HOME=/tmp", *words, timeout_s=timeout_s)


@contextmanager
def _named(docker: Docker) -> Iterator[str]:
    """Give a name for a container, and remove it whatever happens."""
    name = f"submit_tf_job-image-{secrets.token_hex(6)}"
    try:
        yield name
    finally:
        docker.call("rm", "--force", "--volumes", name)


def _read(lines: list[str]) -> dict[str, Any]:
    """Read what the probe printed."""
    from submit_tf_job.imageprobe import MARK as JSON_MARK

    found: dict[str, Any] = {"programs": {}, "python": "", "probe": None}
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "program":
            name, _, path = rest.partition(" ")
            found["programs"][name] = path
        elif word == "python" and not found["python"]:
            found["python"] = "" if "not found" in rest else rest.strip()[:200]
        elif line.startswith(JSON_MARK):
            found["probe"] = json.loads(line[len(JSON_MARK) :])
    return found


def _listed(docker: Docker, image: str, programs: tuple[str, ...], python: str) -> dict[str, Any]:
    """Look at the names of an image's files, where nothing in it can list them."""
    with _named(docker) as container:
        docker.ask("create", "--name", container, "--entrypoint", "none", image)
        names = _file_names(docker, container)
    found = {program: next((f"/{place}/{program}" for place in _BIN if f"{place}/{program}" in names), "") for program in programs}
    found["/bin/bash"] = "/bin/bash" if "bin/bash" in names else ""
    has_python = any(f"{place}/{python}" in names for place in _BIN)
    return {"programs": found, "python": "there is no shell to start it from" if has_python else "", "probe": None}


def _file_names(docker: Docker, container: str) -> frozenset[str]:
    import subprocess

    argv = docker.argv("export", container)
    process = subprocess.Popen(argv, env=dict(docker.variables), stdout=subprocess.PIPE)
    with process, tarfile.open(fileobj=process.stdout, mode="r|") as tar:
        return frozenset(member.name.removeprefix("./") for member in tar)


def _entry_point(docker: Docker, image: str, shell: str) -> EntryPointSeen:
    """Run the image as YARN does, with its ENTRYPOINT in front of a command."""
    from submit_tf_job.diagnose.images import EntryPointSeen

    try:
        answer = _run(docker, image, shell, "-c", f"echo {MARK} $$", timeout_s=ENTRY_POINT_S)
    except ClusterUnavailable:
        return EntryPointSeen(ran=False, is_first=False, status=None)
    process = re.search(rf"^{MARK} (\d+)$", answer.out, re.MULTILINE)
    return EntryPointSeen(process is not None, process is not None and process[1] == "1", answer.status)


def _driver() -> str:
    try:
        found = re.search(r"Kernel Module\D*(\d+\.\d+(\.\d+)?)", DRIVER_FILE.read_text())
    except OSError:
        return ""
    return found[1] if found else ""


def _secrets(config: Mapping[str, Any]) -> Iterator[str]:
    """Find what looks like a secret in the image's environment, by the rules that hold for job specs."""
    from submit_tf_job.plan.secrets import in_environment

    env = dict(str(item).partition("=")[::2] for item in config.get("Env") or ())
    for name in in_environment(env):
        yield f"{name} in the image's environment looks like a secret"
