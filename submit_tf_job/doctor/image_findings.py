"""Convert an image's probe results to findings for YARN, Kerberos, HDFS, GPUs and TensorFlow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from submit_tf_job.container import installed
from submit_tf_job.diagnose.amounts import clause
from submit_tf_job.doctor.findings import Check, Subject

# Called by YARN's launch script: hadoop-facts.md#what-an-image-needs
TOOLS = ("ls", "find", "cp", "chmod", "mkdir", "ln")
LARGE_BYTES = 10 * 10**9
# NVIDIA's own table of the oldest driver for each major version of CUDA.
_OLDEST_DRIVER = {"11": "450.80", "12": "525.60", "13": "580.65"}
_CUDART = {
    "10": "libcudart.so.10.1",
    "11": "libcudart.so.11.0",
    "12": "libcudart.so.12",
    "13": "libcudart.so.13",
}
_INITS = re.compile(r"(^|/)(tini|dumb-init|docker-init|catatonit)(-static)?$")


@dataclass(frozen=True)
class EntryPointSeen:
    """How the ENTRYPOINT of an image behaves when it gets a command as arguments.

    Attributes:
        ran: Whether the command was run.
        is_first: Whether the command replaced the ENTRYPOINT, as process 1.
        status: Exit status of the container; None if it did not end in time.
    """

    ran: bool
    is_first: bool
    status: int | None


@dataclass(frozen=True)
class ImageSeen:
    """Data collected about an image.

    Attributes:
        name: The image's name, as in a job spec.
        inspected: The output of `docker image inspect`.
        programs: The path in the image of each program; "" if it is missing, or not every user can
            run it.
        shell: The shell that ran the probe; "" if the image has none.
        python: The interpreter's name.
        python_said: The version of the interpreter, or its error.
        probe: Output of the probe in Python; None if the probe could not run.
        entry_point: Behaviour of the ENTRYPOINT; None if the image has no ENTRYPOINT, or no shell
            to test it with.
        driver: Version of this machine's NVIDIA driver; "" if there is none.
        trusted: Registries that the site trusts; None if unknown.
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

    @property
    def config(self) -> Mapping[str, Any]:
        """The image's run configuration."""
        return self.inspected.get("Config") or {}


def judge_image(seen: ImageSeen) -> tuple[Check, ...]:
    """Check the data about an image and return the findings; findings about YARN come first."""
    found = [
        *_check_name(seen),
        _check_size(seen),
        _check_bash(seen),
        _check_tools(seen),
        _check_python(seen),
        _entry_point(seen),
        _stop_signal(seen),
        _check_user(seen),
    ]
    found += _check_environment(seen)
    if seen.probe is not None:
        found += [
            _check_tmp(seen.probe),
            _check_locale(seen.probe),
            _check_certificates(seen.probe),
            _check_hdfs(seen.probe),
            _check_kerberos(seen.probe),
        ]
        found += [
            _check_tensorflow(seen.probe),
            *_check_keras(seen.probe),
            *_check_gpu(seen.probe, seen.driver),
        ]
    return tuple(found)


# --- what YARN needs ------------------------------------------------------------------------------


def _check_name(seen: ImageSeen) -> Iterator[Check]:
    from submit_tf_job.plan.docker import is_trusted

    if seen.trusted is None:
        return
    about = Subject("image-trust", trusted_registries=list(seen.trusted))
    if is_trusted(seen.name, seen.trusted):
        yield about.ok(f"{seen.name} is from a registry that this site trusts")
        return
    yield about.failure(
        f"{seen.name} is from none of the registries that this site trusts: "
        f"{', '.join(seen.trusted)}",
        "every container: YARN drops its mounts, and with them the launch script (status 127)",
        "push it to a trusted registry, or have its registry added to docker.trusted.registries",
    )


def _check_size(seen: ImageSeen) -> Check:
    size = int(seen.inspected.get("Size") or 0)
    system = f"{seen.inspected.get('Os', '?')}/{seen.inspected.get('Architecture', '?')}"
    digests = list(seen.inspected.get("RepoDigests") or ())
    about = Subject(
        "image-size", bytes=size, platform=system, id=seen.inspected.get("Id"), digests=digests
    )
    said = f"{size / 1e6:,.0f} MB, {system}"
    if size > LARGE_BYTES:
        return about.warning(
            said, "fast starts: each node pulls it once", "leave out compilers, caches and data"
        )
    return about.ok(said)


def _check_bash(seen: ImageSeen) -> Check:
    about = Subject("image-bash", shell=seen.shell)
    what = "there is no bash"
    if bash := seen.programs.get("bash"):
        what = f"bash is {bash}"
        if seen.programs.get("/bin/bash"):
            return about.ok(what)
        what += ", and there is no /bin/bash"
    breaks = "every container: YARN starts tasks by `bash launch_container.sh` (status 7)"
    return about.failure(what, breaks, "install bash in the image (Alpine: apk add bash)")


def _check_tools(seen: ImageSeen) -> Check:
    missing = [tool for tool in TOOLS if not seen.programs.get(tool)]
    if not missing:
        return Subject("image-tools").ok(f"it has {', '.join(TOOLS)}")
    said = f"missing: {', '.join(missing)}"
    breaks = "every container: YARN's launch script calls them (status 127)"
    about = Subject("image-tools", missing=missing)
    return about.failure(said, breaks, "install coreutils and findutils")


def _check_python(seen: ImageSeen) -> Check:
    version = re.fullmatch(r"(\d+)\.(\d+)\.\d+", seen.python_said)
    about = Subject("image-python", python=seen.python, version=version and version[0])
    way_out = "install Python 3.6 or later for all users, or set `python`"
    if not version:
        said = f"there is no {seen.python}"
        if seen.python_said:
            said = f"{seen.python} cannot be run by any user: {seen.python_said}"
        return about.failure(said, "the bootstrap, which starts every task", way_out)
    said = f"{seen.python} is Python {seen.python_said}"
    if (int(version[1]), int(version[2])) < (3, 6):
        return about.failure(said, "the bootstrap, which needs 3.6", way_out)
    modules = (seen.probe or {}).get("modules") or {}
    broken = sorted(name for name, why in modules.items() if why)
    if broken:
        judge = about.failure if "zlib" in broken else about.warning
        fix = "build Python with all of its own modules"
        return judge(f"{said} without {', '.join(broken)}", "programs that need them", fix)
    return about.ok(said)


def _entry_point(seen: ImageSeen) -> Check:
    words = seen.config.get("Entrypoint") or []
    about = Subject("image-entrypoint", entrypoint=list(words))
    if not words:
        return about.ok("there is no ENTRYPOINT")
    said = f"ENTRYPOINT {' '.join(words)}"[:200]
    mend = 'end its script with exec "$@"'
    if seen.entry_point is None:
        return about.warning(
            f"{said}: not tested, as there is no shell", "checking whether it runs a task"
        )
    if not seen.entry_point.ran:
        status = seen.entry_point.status
        how = "did not end" if status is None else f"exited with status {status}"
        breaks = "every task: none runs"
        if status == 0:  # hadoop-facts.md#what-an-image-needs
            breaks += ", and YARN reports the job as SUCCEEDED"
        return about.failure(f"{said} does not run its arguments; it {how}", breaks, mend)
    if not seen.entry_point.is_first and not _INITS.search(str(words[0])):
        return about.warning(
            f"{said} runs its arguments as a child", "SIGTERM, which does not reach the task", mend
        )
    return about.ok(f"{said} runs its arguments")


def _stop_signal(seen: ImageSeen) -> Check:
    signal = seen.config.get("StopSignal") or ""
    about = Subject("image-stopsignal", stop_signal=signal or None)
    if not signal:
        return about.ok("there is no STOPSIGNAL")
    if re.fullmatch("[A-Z]+", signal):
        return about.ok(f"STOPSIGNAL {signal}")
    # container-executor refuses the signal, and the container runs for ever:
    # hadoop-facts.md#stop-signals
    return about.failure(
        f"STOPSIGNAL {signal}",
        "stopping: YARN accepts capital letters only, and never ends such a container",
        "remove STOPSIGNAL, or set SIGTERM",
    )


def _check_user(seen: ImageSeen) -> Check:
    user = seen.config.get("User") or ""
    said = f"USER {user}" if user else "there is no USER"
    return Subject("image-user", user=user or None).ok(
        f"{said}; YARN runs tasks as the job's user, who needs no entry in the image"
    )


def _check_environment(seen: ImageSeen) -> Iterator[Check]:
    from submit_tf_job.plan.check import secrets_in

    about = Subject("image-environment")
    env = dict(str(item).partition("=")[::2] for item in seen.config.get("Env") or ())
    for name in secrets_in(env):
        yield about.failure(
            f"{name} in the image's environment looks like a secret",
            "the secret: everyone with the image has it",
            "take it out of the image, and change it",
        )
    if env.get("NVIDIA_VISIBLE_DEVICES", "") not in ("", "none", "void"):
        yield about.warning(
            f"NVIDIA_VISIBLE_DEVICES={env['NVIDIA_VISIBLE_DEVICES']}",
            "roles without gpus: where nvidia is a node's default runtime they see all of its GPUs",
            "leave it out of the image: YARN sets it for tasks with GPUs",
        )
    if "TF_CONFIG" in env:
        yield about.warning(
            "TF_CONFIG is set", "jobs with `tf_config: none`", "leave it out of the image"
        )


# --- what programs need ---------------------------------------------------------------------------


def _check_tmp(probe: Mapping[str, Any]) -> Check:
    about = Subject("image-tmp")
    mode = int(probe.get("tmp_mode") or 0)
    if mode >= 0 and mode & 0o002:
        return about.ok("every user may write to /tmp")
    said = "there is no /tmp" if mode < 0 else f"the mode of /tmp is {mode:o}"
    return about.warning(
        said,
        "programs that need a temporary file, and HOME",
        "RUN mkdir -p /tmp && chmod 1777 /tmp",
    )


def _check_locale(probe: Mapping[str, Any]) -> Check:
    if not probe.get("locale_error"):
        return Subject("image-locale").ok("it has the locale en_US.UTF-8")
    breaks = "bash warns twice in each task's prelaunch.err, as YARN sets this locale"
    return Subject("image-locale", locale=False).ok(f"there is no locale en_US.UTF-8: {breaks}")


def _check_certificates(probe: Mapping[str, Any]) -> Check:
    about = Subject("image-ca-certs")
    if probe.get("certificates"):
        return about.ok("it has CA certificates")
    return about.warning(
        "there are no CA certificates", "https from Python", "install ca-certificates"
    )


def _check_hdfs(probe: Mapping[str, Any]) -> Check:
    seen = probe.get("hadoop") or {}
    native, error, library = (
        str(seen.get(key) or "") for key in ("hdfs_native", "hdfs_native_error", "libhdfs")
    )
    about = Subject(
        "image-hdfs",
        hdfs_native=native or None,
        libhdfs=library or None,
        hadoop_home=seen.get("home") or None,
    )
    if native and not error:
        return about.ok(f"hdfs-native {native}{clause(', {}', library)}")
    if native:
        said = f"hdfs-native {native} cannot be imported: {error}"
        fix = "pip install --force-reinstall hdfs-native"
        return about.warning(said, "HDFS through hdfs-native", fix)
    if library and (java := seen.get("java")):
        return about.ok(f"{library}, JAVA_HOME {java}")
    if library:
        said = f"{library} without JAVA_HOME"
        return about.warning(said, "libhdfs, which loads Java", "ENV JAVA_HOME=…")
    said = "it has neither hdfs-native nor Hadoop's libhdfs"
    fix = "pip install hdfs-native fsspec"
    return about.warning(said, "programs that read or write hdfs://", fix)


def _check_kerberos(probe: Mapping[str, Any]) -> Check:
    about = Subject("image-kerberos")
    if probe.get("krb5"):
        return about.ok("it has libgssapi_krb5.so.2")
    said = "there is no libgssapi_krb5.so.2"
    breaks = "HDFS with Kerberos, and logins of tasks from a keytab"
    return about.warning(said, breaks, "install libgssapi-krb5-2 (Red Hat: krb5-libs)")


def _check_tensorflow(probe: Mapping[str, Any]) -> Check:
    seen = probe.get("tensorflow") or {}
    about = Subject("image-tensorflow", **seen)
    if seen:
        return about.ok(f"TensorFlow {seen.get('version') or 'of no known version'}")
    said = "there is no TensorFlow for this Python"
    return about.warning(said, "programs that import it", "pip install tensorflow")


def _check_keras(probe: Mapping[str, Any]) -> Iterator[Check]:
    seen = probe.get("tensorflow") or {}
    keras, legacy = str(seen.get("keras") or ""), str(seen.get("tf_keras") or "")
    about = Subject("image-keras", keras=keras, tf_keras=legacy or None)
    version = str(seen.get("version") or "")
    said = f"tf.keras is Keras {keras}"
    if keras and not installed.has_keras_3({"tensorflow": version, "keras": keras}):
        yield about.ok(said)
    elif legacy:
        yield about.ok(f"{said}; `keras: legacy` makes it tf_keras {legacy}")
    elif keras:
        yield about.warning(
            f"{said}, and there is no tf_keras",
            "model.fit under the strategies multi-worker and parameter-server",
            "pip install tf_keras, and say `keras: legacy`; other ways: "
            "submit_tf_job help frameworks",
        )


def _check_gpu(probe: Mapping[str, Any], driver: str) -> Iterator[Check]:
    seen = probe.get("tensorflow") or {}
    if not seen:
        return
    if seen.get("is_cuda_build") != "True":
        said = "TensorFlow without GPU support: roles with `gpus` would use the CPU"
        yield Subject("image-gpu").ok(said)
        return
    cuda, cudnn = str(seen.get("cuda_version") or ""), str(seen.get("cudnn_version") or "")
    major = cuda.partition(".")[0]
    needed = (_CUDART.get(major), clause("libcudnn.so.{}", cudnn.partition(".")[0]))
    there = probe.get("cuda") or {}
    missing = [name for name in needed if name and not there.get(name)]
    oldest = _OLDEST_DRIVER.get(major, "")
    about = Subject(
        "image-gpu",
        cuda=cuda,
        cudnn=cudnn,
        missing=missing,
        oldest_driver=oldest or None,
        driver=driver or None,
    )
    built = f"TensorFlow is built for CUDA {cuda} and cuDNN {cudnn}"
    if missing:
        breaks = "GPUs: TensorFlow uses the CPU instead, without an error"
        fix = "pip install 'tensorflow[and-cuda]', or use NVIDIA's image of that version as base"
        yield about.warning(f"{built}, but {' and '.join(missing)} is missing", breaks, fix)
    elif driver and oldest and _version_numbers(driver) < _version_numbers(oldest):
        said = f"{built}; this machine's NVIDIA driver is {driver}"
        fix = f"nodes need driver {oldest} or later, or an image with an older CUDA"
        yield about.failure(said, "GPUs", fix)
    else:
        needs = clause("; nodes need NVIDIA's driver {} or later", oldest)
        yield about.ok(f"{built}, which it has{needs}")


def _version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
