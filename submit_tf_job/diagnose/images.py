"""What an image has, and what YARN, Kerberos, HDFS, GPUs or TensorFlow will miss in it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from submit_tf_job.diagnose.findings import FAILURE, OK, WARNING, Finding

__all__ = ["TOOLS", "EntryPointSeen", "ImageSeen", "judge_image"]

# Called by YARN's launch script, whose debugging part runs under `set -e` (seen: without find the job ends with 127).
TOOLS = ("ls", "find", "cp", "chmod", "mkdir", "ln")
LARGE_BYTES = 10 * 10**9
# NVIDIA's own table of the oldest driver for each major version of CUDA.
_OLDEST_DRIVER = {"11": "450.80", "12": "525.60", "13": "580.65"}
_CUDART = {"10": "libcudart.so.10.1", "11": "libcudart.so.11.0", "12": "libcudart.so.12", "13": "libcudart.so.13"}
_INITS = re.compile(r"(^|/)(tini|dumb-init|docker-init|catatonit)(-static)?$")


@dataclass(frozen=True)
class EntryPointSeen:
    """What an image's ENTRYPOINT did with a command behind it.

    Attributes:
        ran: Whether the command was run.
        is_first: Whether it took the ENTRYPOINT's place, as process 1.
        status: Exit status of the container; None where it had not ended in time.
    """

    ran: bool
    is_first: bool
    status: int | None


@dataclass(frozen=True)
class ImageSeen:
    """What was seen of an image.

    Attributes:
        name: As the job spec would write it.
        inspected: `docker image inspect`.
        programs: Program → its path in the image, "" where it is not there for everybody.
        shell: What the probe ran under; "" where there is no shell.
        python: The interpreter's name.
        python_said: Its version, or why it does not run.
        probe: What the probe saw from inside Python; None where it could not run.
        entry_point: What the ENTRYPOINT did; None where the image has none, or no shell to try it with.
        driver: Version of this machine's NVIDIA driver, "" where it has none.
        trusted: Registries that the site trusts; None where that is not known.
        secrets: What in the image's environment looks like a secret.
    """

    name: str
    inspected: Mapping[str, Any]
    programs: Mapping[str, str]
    shell: str
    python: str
    python_said: str = ""
    probe: Mapping[str, Any] | None = None
    entry_point: EntryPointSeen | None = None
    driver: str = ""
    trusted: tuple[str, ...] | None = None
    secrets: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        """Keep what the image says of how to run it at hand."""
        object.__setattr__(self, "config", self.inspected.get("Config") or {})


def judge_image(seen: ImageSeen) -> tuple[Finding, ...]:
    """Judge an image; what matters most to YARN comes first."""
    found = [*_name(seen), _size(seen), _bash(seen), _tools(seen), _python(seen), _entry_point(seen), _stop_signal(seen), _user(seen)]
    found += _environment(seen)
    if seen.probe is not None:
        found += [_tmp(seen.probe), _locale(seen.probe), _certificates(seen.probe), _hdfs(seen.probe), _kerberos(seen.probe)]
        found += [_tensorflow(seen.probe), *_gpu(seen.probe, seen.driver)]
    return tuple(found)


# --- what YARN needs ------------------------------------------------------------------------------------------------------


def _name(seen: ImageSeen) -> Iterator[Finding]:
    from submit_tf_job.plan.docker import is_trusted

    if seen.trusted is None:
        return
    facts = {"trusted_registries": list(seen.trusted)}
    if is_trusted(seen.name, seen.trusted):
        yield Finding("image-trust", OK, f"{seen.name} comes from a registry that this site trusts", facts=facts)
        return
    yield Finding(
        "image-trust",
        FAILURE,
        f"{seen.name} comes from none of the registries that this site trusts: {', '.join(seen.trusted)}",
        "every container: YARN takes its mounts away, and with them the task itself (status 127)",
        "push it to a trusted registry, or have its registry added to docker.trusted.registries",
        facts,
    )


def _size(seen: ImageSeen) -> Finding:
    size = int(seen.inspected.get("Size") or 0)
    system = f"{seen.inspected.get('Os', '?')}/{seen.inspected.get('Architecture', '?')}"
    facts = {"bytes": size, "platform": system, "id": seen.inspected.get("Id"), "digests": list(seen.inspected.get("RepoDigests") or ())}
    said = f"{size / 1e6:,.0f} MB, {system}"
    if size > LARGE_BYTES:
        return Finding("image-size", WARNING, said, "fast starts: each node pulls it once", "leave out compilers, caches and data", facts)
    return Finding("image-size", OK, said, facts=facts)


def _bash(seen: ImageSeen) -> Finding:
    if seen.programs.get("bash") and seen.programs.get("/bin/bash"):
        return Finding("image-bash", OK, f"bash is {seen.programs['bash']}", facts={"shell": seen.shell})
    what = "there is no bash" if not seen.programs.get("bash") else f"bash is {seen.programs['bash']}, and there is no /bin/bash"
    breaks = "every container: YARN starts tasks by `bash launch_container.sh` (status 7)"
    return Finding("image-bash", FAILURE, what, breaks, "install bash in the image (Alpine: apk add bash)", {"shell": seen.shell})


def _tools(seen: ImageSeen) -> Finding:
    missing = [tool for tool in TOOLS if not seen.programs.get(tool)]
    if not missing:
        return Finding("image-tools", OK, f"{', '.join(TOOLS)} are there")
    breaks = "every container: YARN's launch script calls them (status 127)"
    return Finding(
        "image-tools", FAILURE, f"not there: {', '.join(missing)}", breaks, "install coreutils and findutils", {"missing": missing}
    )


def _python(seen: ImageSeen) -> Finding:
    version = re.fullmatch(r"(\d+)\.(\d+)\.\d+", seen.python_said)
    facts = {"python": seen.python, "version": seen.python_said if version else None}
    way_out = "install Python 3.7 or later for everybody, name it by `python`, or say `bootstrap: false` with `tf_config: literal`"
    if not version:
        said = f"{seen.python} cannot be run by any user: {seen.python_said}" if seen.python_said else f"there is no {seen.python}"
        return Finding("image-python", FAILURE, said, "the bootstrap, which starts every task", way_out, facts)
    if (int(version[1]), int(version[2])) < (3, 7):
        return Finding(
            "image-python", FAILURE, f"{seen.python} is Python {seen.python_said}", "the bootstrap, which needs 3.7", way_out, facts
        )
    broken = {name: why for name, why in ((seen.probe or {}).get("modules") or {}).items() if why}
    if broken:
        said = f"{seen.python} is Python {seen.python_said} without {', '.join(sorted(broken))}"
        status = FAILURE if "zlib" in broken else WARNING
        return Finding("image-python", status, said, "programs that need them", "build Python with all of its own modules", facts)
    return Finding("image-python", OK, f"{seen.python} is Python {seen.python_said}", facts=facts)


def _entry_point(seen: ImageSeen) -> Finding:
    words = seen.config.get("Entrypoint") or []
    facts = {"entrypoint": list(words)}
    if not words:
        return Finding("image-entrypoint", OK, "there is no ENTRYPOINT", facts=facts)
    said = f"ENTRYPOINT {' '.join(words)}"[:200]
    mend = 'end its script with exec "$@"'
    if seen.entry_point is None:
        return Finding("image-entrypoint", WARNING, f"{said}: not tried, as there is no shell", "knowing whether it runs a task", "", facts)
    if not seen.entry_point.ran:
        status = seen.entry_point.status
        how = "did not end" if status is None else f"ended with status {status}"
        # 0 is the worst: YARN calls such a job SUCCEEDED (verified-docker 6).
        breaks = "every task: none runs" + (", and YARN calls the job SUCCEEDED" if status == 0 else "")
        return Finding("image-entrypoint", FAILURE, f"{said} does not run its arguments; it {how}", breaks, mend, facts)
    if not seen.entry_point.is_first and not _INITS.search(str(words[0])):
        return Finding(
            "image-entrypoint", WARNING, f"{said} runs its arguments as a child", "a task's notice that it is to end", mend, facts
        )
    return Finding("image-entrypoint", OK, f"{said} runs its arguments", facts=facts)


def _stop_signal(seen: ImageSeen) -> Finding:
    signal = seen.config.get("StopSignal") or ""
    facts = {"stop_signal": signal or None}
    if not signal or re.fullmatch("[A-Z]+", signal):
        return Finding("image-stopsignal", OK, f"STOPSIGNAL {signal}" if signal else "there is no STOPSIGNAL", facts=facts)
    # container-executor: `Value for signal contains non-uppercase characters` (seen); the container then runs for ever.
    return Finding(
        "image-stopsignal",
        FAILURE,
        f"STOPSIGNAL {signal}",
        "stopping: YARN takes capital letters only, and never ends such a container",
        "leave STOPSIGNAL out, or say SIGTERM",
        facts,
    )


def _user(seen: ImageSeen) -> Finding:
    user = seen.config.get("User") or ""
    said = f"USER {user}" if user else "there is no USER"
    return Finding(
        "image-user", OK, f"{said}; YARN runs tasks as the job's user, whom the image need not know", facts={"user": user or None}
    )


def _environment(seen: ImageSeen) -> Iterator[Finding]:
    env = dict(str(item).partition("=")[::2] for item in seen.config.get("Env") or ())
    for what in seen.secrets:
        yield Finding(
            "image-environment", FAILURE, what, "the secret: who has the image has it, too", "take it out of the image, and change it"
        )
    if env.get("NVIDIA_VISIBLE_DEVICES", "") not in ("", "none", "void"):
        yield Finding(
            "image-environment",
            WARNING,
            f"NVIDIA_VISIBLE_DEVICES={env['NVIDIA_VISIBLE_DEVICES']}",
            "roles without gpus: where nvidia is a node's default runtime they see all of its GPUs",
            "leave it out of the image: YARN sets it for tasks with GPUs",
        )
    if "TF_CONFIG" in env:
        yield Finding("image-environment", WARNING, "TF_CONFIG is set", "jobs with `tf_config: none`", "leave it out of the image")


# --- what programs need ---------------------------------------------------------------------------------------------------


def _tmp(probe: Mapping[str, Any]) -> Finding:
    mode = int(probe.get("tmp_mode") or 0)
    if mode >= 0 and mode & 0o002:
        return Finding("image-tmp", OK, "everybody may write to /tmp")
    said = "there is no /tmp" if mode < 0 else f"the mode of /tmp is {mode:o}"
    return Finding("image-tmp", WARNING, said, "programs that need a temporary file, and HOME", "RUN mkdir -p /tmp && chmod 1777 /tmp")


def _locale(probe: Mapping[str, Any]) -> Finding:
    if not probe.get("locale_error"):
        return Finding("image-locale", OK, "en_US.UTF-8 is there")
    breaks = "nothing; bash complains twice in each task's prelaunch.err, as YARN sets this locale"
    return Finding("image-locale", OK, f"there is no locale en_US.UTF-8: {breaks}", facts={"locale": False})


def _certificates(probe: Mapping[str, Any]) -> Finding:
    if probe.get("certificates"):
        return Finding("image-ca-certs", OK, "CA certificates are there")
    return Finding("image-ca-certs", WARNING, "there are no CA certificates", "https from Python", "install ca-certificates")


def _hdfs(probe: Mapping[str, Any]) -> Finding:
    seen = probe.get("hadoop") or {}
    native, error, library = (str(seen.get(key) or "") for key in ("hdfs_native", "hdfs_native_error", "libhdfs"))
    facts = {"hdfs_native": native or None, "libhdfs": library or None, "hadoop_home": seen.get("home") or None}
    if native and not error:
        return Finding("image-hdfs", OK, f"hdfs-native {native}{f', {library}' if library else ''}", facts=facts)
    if native:
        said = f"hdfs-native {native} cannot be imported: {error}"
        return Finding("image-hdfs", WARNING, said, "HDFS through hdfs-native", "pip install --force-reinstall hdfs-native", facts)
    if library:
        java = seen.get("java")
        if java:
            return Finding("image-hdfs", OK, f"{library}, JAVA_HOME {java}", facts=facts)
        return Finding("image-hdfs", WARNING, f"{library} without JAVA_HOME", "libhdfs, which loads Java", "ENV JAVA_HOME=…", facts)
    said = "neither hdfs-native nor Hadoop's libhdfs is there"
    return Finding("image-hdfs", WARNING, said, "programs that read or write hdfs://", "pip install hdfs-native fsspec", facts)


def _kerberos(probe: Mapping[str, Any]) -> Finding:
    if probe.get("krb5"):
        return Finding("image-kerberos", OK, "libgssapi_krb5.so.2 is there")
    said = "there is no libgssapi_krb5.so.2"
    breaks = "HDFS with Kerberos, and logins of tasks from a keytab"
    return Finding("image-kerberos", WARNING, said, breaks, "install libgssapi-krb5-2 (Red Hat: krb5-libs)")


def _tensorflow(probe: Mapping[str, Any]) -> Finding:
    seen = probe.get("tensorflow") or {}
    if seen:
        return Finding("image-tensorflow", OK, f"TensorFlow {seen.get('version') or 'of no known version'}", facts=dict(seen))
    return Finding(
        "image-tensorflow", WARNING, "there is no TensorFlow for this Python", "programs that import it", "pip install tensorflow"
    )


def _gpu(probe: Mapping[str, Any], driver: str) -> Iterator[Finding]:
    seen = probe.get("tensorflow") or {}
    if not seen:
        return
    if seen.get("is_cuda_build") != "True":
        yield Finding("image-gpu", OK, "TensorFlow without GPUs: roles with `gpus` would compute on the CPU")
        return
    cuda, cudnn = str(seen.get("cuda_version") or ""), str(seen.get("cudnn_version") or "")
    major = cuda.partition(".")[0]
    needed = [name for name in (_CUDART.get(major), f"libcudnn.so.{cudnn.partition('.')[0]}" if cudnn else None) if name]
    missing = [name for name in needed if not (probe.get("cuda") or {}).get(name)]
    oldest = _OLDEST_DRIVER.get(major, "")
    facts = {"cuda": cuda, "cudnn": cudnn, "missing": missing, "oldest_driver": oldest or None, "driver": driver or None}
    built = f"TensorFlow is built for CUDA {cuda} and cuDNN {cudnn}"
    if missing:
        breaks = "GPUs: TensorFlow computes on the CPU, without failing; without GPUs it is fine"
        fix = "pip install 'tensorflow[and-cuda]', or begin from NVIDIA's image of that version"
        yield Finding("image-gpu", WARNING, f"{built}, and {' and '.join(missing)} is not there", breaks, fix, facts)
    elif driver and oldest and _numbers(driver) < _numbers(oldest):
        said = f"{built}; this machine's NVIDIA driver is {driver}"
        yield Finding("image-gpu", FAILURE, said, "GPUs", f"nodes need driver {oldest} or later, or an image with an older CUDA", facts)
    else:
        needs = f"; nodes need NVIDIA's driver {oldest} or later" if oldest else ""
        yield Finding("image-gpu", OK, f"{built}, which are there{needs}", facts=facts)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
