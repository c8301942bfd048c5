"""image check: run an image of this machine as YARN would, and report missing requirements."""

from __future__ import annotations

import json
import re
import secrets
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submit_tf_job.doctor import imageprobe
from submit_tf_job.errors import Refused, SettingsError, UsageError
from submit_tf_job.host.dockercli import Answer, Docker, refusal
from submit_tf_job.settings import Settings, process_environment

if TYPE_CHECKING:
    from submit_tf_job.doctor.findings import Examination
    from submit_tf_job.doctor.image_findings import EntryPointSeen

PROBE_S = 180.0
ENTRY_POINT_S = 20.0
# A user without an entry in any image: YARN's users are those of the nodes.
STRANGER = "54321:54321"
_BOUNDS = (
    "--rm --network none --cap-drop ALL --security-opt no-new-privileges "
    "--workdir / --env HOME=/tmp"
)
MARK = "submit_tf_job-ran"
DRIVER_FILE = Path("/proc/driver/nvidia/version")
_BIN = ("bin", "usr/bin", "usr/local/bin", "sbin", "usr/sbin", "opt/python/bin", "opt/conda/bin")

# POSIX, so that it runs in images without bash, too. $1 is the interpreter, $2 the probe, the rest
# the programs to find.
_SHELL_PROBE = """
python=$1; probe=$2; shift 2
for program in "$@"; do
  case $program in /*) [ -x "$program" ] && found=$program || found= ;; *) found=$(command -v "$program") || found= ;; esac
  echo "program $program $found"
done
version=$("$python" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>&1)
echo "python $version"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 6))' 2>/dev/null && "$python" -c "$probe"
exit 0
"""  # noqa: E501


def docker_of(settings: Settings) -> Docker:
    """Return a client for the Docker Engine that the settings name; by default, that of the
    environment.
    """
    return Docker(process_environment(), settings.docker.host or "")


def check_image(settings: Settings, name: str, *, python: str = "python3") -> Examination:
    """Check a local image against the requirements of YARN, Kerberos, HDFS, GPUs and TensorFlow.

    The image is run at most twice, for some seconds, without a network, as a user without a passwd
    entry.

    Args:
        settings: The settings.
        name: The image, as a job spec would name it.
        python: The interpreter that runs the bootstrap.

    Raises:
        UsageError: YARN does not accept this name of an image.
        Refused: This machine does not have the image, or has another kind of processor than the
            image is for.
        SettingsError: Docker does not respond.
        AuthError: This user may not use Docker's socket.

    Example:
        >>> [finding.fix for finding in check_image(load_settings(), "ml/tf:2.15").findings if finding.fix]  # doctest: +SKIP
    """  # noqa: E501
    from submit_tf_job.doctor.findings import Examination
    from submit_tf_job.doctor.image_findings import TOOLS, ImageSeen, judge_image
    from submit_tf_job.plan.docker import image_problem

    problem = image_problem(name)
    if problem:
        raise UsageError(problem)
    docker = docker_of(settings)
    inspected = docker.image(name)
    if inspected is None:
        raise Refused(
            f"this machine has no image {name}",
            hint=f"docker pull {name}, or correct the name; `docker images` lists them",
        )
    programs = ("bash", "/bin/bash", *TOOLS)
    shell, lines = _run_probe(docker, name, python, programs)
    found = _parse_probe(lines) if shell else _list_programs(docker, name, programs, python)
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
        _driver_version(),
        settings.docker.registries,
    )
    if seen.probe is None:
        return Examination(judge_image(seen), ("image-hdfs", "image-kerberos", "image-tensorflow"))
    return Examination(judge_image(seen))


def _run_probe(
    docker: Docker, image: str, python: str, programs: tuple[str, ...]
) -> tuple[str, list[str]]:
    """Run the probe with bash or sh; return the shell ("" if the image has none) and the output."""
    source = Path(imageprobe.__file__).read_text("utf-8")
    for shell in ("bash", "sh"):
        start = ("--read-only", "--entrypoint", shell, image, "-c", _SHELL_PROBE, shell)
        answer = _run_container(docker, *start, python, source, *programs, timeout_s=PROBE_S)
        if answer.status == 0:
            return shell, answer.out.splitlines()
        if "exec format error" in answer.err:
            raise Refused(
                f"image {image} is for another kind of processor than this machine's",
                hint="check it where it is to run",
            )
        if not re.search(r"executable file not found|no such file or directory", answer.err):
            raise refusal(answer, f"image {image}")
    return "", []


def _run_container(docker: Docker, *words: str, timeout_s: float) -> Answer:
    with _new_container(docker) as container:
        options = (*_BOUNDS.split(), "--name", container, "--user", STRANGER)
        return docker.call("run", *options, *words, timeout_s=timeout_s)


@contextmanager
def _new_container(docker: Docker) -> Iterator[str]:
    """Yield a new container name, and remove the container afterwards."""
    name = f"submit_tf_job-image-{secrets.token_hex(6)}"
    try:
        yield name
    finally:
        docker.call("rm", "--force", "--volumes", name)


def _parse_probe(lines: list[str]) -> dict[str, Any]:
    """Parse the probe's output."""
    found: dict[str, Any] = {"programs": {}, "python": "", "probe": None}
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "program":
            name, _, path = rest.partition(" ")
            found["programs"][name] = path
        elif word == "python" and not found["python"]:
            found["python"] = "" if "not found" in rest else rest.strip()[:200]
        elif line.startswith(imageprobe.MARK):
            found["probe"] = json.loads(line[len(imageprobe.MARK) :])
    return found


def _list_programs(
    docker: Docker, image: str, programs: tuple[str, ...], python: str
) -> dict[str, Any]:
    """Return the programs of an image without a shell, found by the names of the files in the
    image.
    """
    with _new_container(docker) as container:
        docker.ask("create", "--name", container, "--entrypoint", "none", image)
        names = _file_names(docker, container)
    found = {
        program: next(
            (f"/{place}/{program}" for place in _BIN if f"{place}/{program}" in names), ""
        )
        for program in programs
    }
    found["/bin/bash"] = "/bin/bash" if "bin/bash" in names else ""
    has_python = any(f"{place}/{python}" in names for place in _BIN)
    return {
        "programs": found,
        "python": "there is no shell to start it from" if has_python else "",
        "probe": None,
    }


def _file_names(docker: Docker, container: str) -> frozenset[str]:
    import subprocess

    argv = docker.argv("export", container)
    process = subprocess.Popen(argv, env=dict(docker.variables), stdout=subprocess.PIPE)
    with process, tarfile.open(fileobj=process.stdout, mode="r|") as tar:
        return frozenset(member.name.removeprefix("./") for member in tar)


def _entry_point(docker: Docker, image: str, shell: str) -> EntryPointSeen:
    """Run a command with the image's ENTRYPOINT, as YARN does, and return its behaviour."""
    from submit_tf_job.doctor.image_findings import EntryPointSeen

    try:
        answer = _run_container(
            docker, image, shell, "-c", f"echo {MARK} $$", timeout_s=ENTRY_POINT_S
        )
    except SettingsError:
        return EntryPointSeen(ran=False, is_first=False, status=None)
    process = re.search(rf"^{MARK} (\d+)$", answer.out, re.MULTILINE)
    return EntryPointSeen(
        process is not None, process is not None and process[1] == "1", answer.status
    )


def _driver_version() -> str:
    try:
        found = re.findall(r"Kernel Module\D*(\d+\.\d+(?:\.\d+)?)", DRIVER_FILE.read_text())
    except OSError:
        return ""
    return next(iter(found), "")
