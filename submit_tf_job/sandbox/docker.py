"""What Docker adds to a sandbox: LinuxContainerExecutor with the Docker runtime, an executor for it, GPUs that are not there.

The keys came up as they stand here on Hadoop 3.4.2 (facts: verified-docker 3, 10, 11; verified-executor).
"""

from __future__ import annotations

import grp
import json
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox import engine, executor
from submit_tf_job.sandbox.model import DockerInfo, SandboxOptions
from submit_tf_job.sandbox.state import Layout, State
from submit_tf_job.sandbox.versions import DEFAULT_VERSION

__all__ = [
    "NETWORK",
    "NETWORKS",
    "RUN_AS",
    "allowed_mounts",
    "check_options",
    "docker_info",
    "dockerd_options",
    "exposed",
    "nodemanager",
    "resource_files",
    "runtimes",
    "write_programs",
]

# A user network beside Docker's own, so that jobs on one can be tried.
NETWORK = "jobs"
NETWORKS = ("host", "bridge", "none", NETWORK)
# Who containers run as, whoever submitted the job: as on a cluster without Kerberos.
RUN_AS = "nobody"
# Images whose name begins so are treated as those of a registry that the nodes do not trust.
UNTRUSTED = "untrusted"
GPU = "yarn.io/gpu"

_DEVICES = Path("/sys/fs/cgroup/devices")
_DEFAULT_SOCKET = Path("/var/run/docker.sock")
_CLI = "/usr/bin/docker"
_DOCKER = "yarn.nodemanager.runtime.linux.docker"
_LINUX = "yarn.nodemanager.linux-container-executor"
_CAPABILITIES = "CHOWN,DAC_OVERRIDE,FSETID,FOWNER,MKNOD,NET_RAW,SETGID,SETUID,SETFCAP,SETPCAP,NET_BIND_SERVICE,SYS_CHROOT,KILL,AUDIT_WRITE"


# --- what is asked for ---


def check_options(options: SandboxOptions, environ: Mapping[str, str]) -> None:
    """Refuse what cannot be had, before anything is made.

    Raises:
        SandboxError: saying what to change.
    """
    if "docker" not in (options.modes or ()):
        asked = {"gpus": options.gpus, "a container-executor": options.container_executor, "mounts": options.mounts}
        for what, value in asked.items():
            if value:
                raise SandboxError(f"{what} can be had with Docker only", hint="add --profile docker")
        return
    engine.find_programs(environ)
    if options.container_path:
        raise SandboxError(
            "with Docker the containers' PATH is their image's", hint="leave --container-path out; --mount lets jobs mount a directory"
        )
    if options.resolver == "direct":
        raise SandboxError("with Docker names are found by the containers' own resolver", hint="leave --resolver out")
    if (options.hadoop_version or DEFAULT_VERSION) != DEFAULT_VERSION and options.hadoop_home is None:
        raise SandboxError(f"a sandbox with Docker is had of Hadoop {DEFAULT_VERSION} only", hint="leave --hadoop out")
    if options.gpus and not _DEVICES.is_dir():
        raise SandboxError(
            "this machine has no control groups of version 1, with which Hadoop keeps GPUs apart",
            hint="leave --gpus out, or boot with them",
        )
    for mount in options.mounts or ():
        _check_mount(mount)
    if options.container_executor is not None:
        _check_executor(options.container_executor)


def _check_mount(mount: str) -> None:
    source, _, mode = mount.partition(":")
    if not source.startswith("/") or mode not in ("", "ro", "rw") or "," in source:
        raise SandboxError(f"{mount!r} is nothing to mount", hint="say /directory, which jobs may read, or /directory:rw")
    if not Path(source).exists():
        raise SandboxError(f"{source}, which jobs are to mount, does not exist")


def _check_executor(path: Path) -> None:
    """Look at Hadoop's container-executor, which wants Docker in its usual place (facts: verified-docker 1, 3)."""
    if not path.is_file():
        raise SandboxError(f"there is no container-executor at {path}")
    if not Path(_CLI).exists():
        raise SandboxError(f"Hadoop's container-executor calls {_CLI}, which does not exist", hint="install docker.io")
    if _DEFAULT_SOCKET.exists():
        raise SandboxError(
            f"Hadoop's container-executor talks to {_DEFAULT_SOCKET} only, and another Docker Engine has it",
            hint="stop that one, or leave --container-executor out: the sandbox's own needs no such place",
        )


def dockerd_options(state: State, environ: Mapping[str, str]) -> list[str]:
    """Return what dockerd is told beyond what every engine is."""
    options = ["-H", f"unix://{_DEFAULT_SOCKET}"] if state.executor else []
    if state.gpus:
        # The GPUs are not there: what NVIDIA's runtime would do with its variables is not done.
        options += ["--add-runtime", f"nvidia={shutil.which('runc', path=engine.dockerd_path(environ))}"]
    return options


def docker_info(state: State) -> DockerInfo:
    """Say how the engine is reached."""
    return DockerInfo(state.engine.host, state.engine.address, NETWORKS, Path(state.executor) if state.executor else None, state.gpus)


def runtimes(state: State) -> list[str]:
    """Return the OCI runtimes that jobs may ask for."""
    return ["runc", *(["nvidia"] if state.gpus else [])]


def exposed(layout: Layout) -> dict[str, Path]:
    """Return the directories of the sandbox that containers see, by the name under which they do."""
    return {"nm-local": layout.nm_local, "nm-log": layout.nm_log, "conf": layout.conf}


# --- Hadoop's configuration ---


def nodemanager(state: State, layout: Layout) -> dict[str, str]:
    """Return yarn-site.xml's part."""
    if not state.docker:
        return {}
    conf = layout.exposed / "conf"
    return {
        "yarn.nodemanager.local-dirs": str(layout.exposed / "nm-local"),
        "yarn.nodemanager.log-dirs": str(layout.exposed / "nm-log"),
        "yarn.nodemanager.container-executor.class": "org.apache.hadoop.yarn.server.nodemanager.LinuxContainerExecutor",
        f"{_LINUX}.path": state.executor or str(layout.executor),
        f"{_LINUX}.group": _group(state),
        f"{_LINUX}.nonsecure-mode.limit-users": "true",
        f"{_LINUX}.nonsecure-mode.local-user": RUN_AS,
        "yarn.nodemanager.runtime.linux.allowed-runtimes": "default,docker",
        f"{_DOCKER}.allowed-container-networks": ",".join(NETWORKS),
        f"{_DOCKER}.default-container-network": "bridge",
        # The daemons' HADOOP_CONF_DIR reaches every container: it shall be there as well.
        f"{_DOCKER}.default-ro-mounts": f"{conf}:{conf}",
        f"{_DOCKER}.delayed-removal.allowed": "true",
        # The localizer of the ApplicationMaster is a JVM of its own.
        "yarn.nodemanager.container-localizer.java.opts": "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto",
        **(_gpus(state) if state.gpus else {}),
    }


def _gpus(state: State) -> dict[str, str]:
    return {
        "yarn.nodemanager.resource-plugins": GPU,
        "yarn.nodemanager.resource-plugins.gpu.path-to-discovery-executables": str(Layout(Path(state.home)).programs / "nvidia-smi"),
        # Version 1, the default, asks a plug-in of Docker's that nobody has any more: Connection refused.
        "yarn.nodemanager.resource-plugins.gpu.docker-plugin": "nvidia-docker-v2",
        f"{_DOCKER}.allowed-container-runtimes": ",".join(runtimes(state)),
        f"{_LINUX}.cgroups.mount": "false",
        f"{_LINUX}.cgroups.hierarchy": f"/{state.engine.identity}-yarn",
    }


def resource_files(state: State) -> dict[str, dict[str, str]]:
    """Return the file that makes GPUs known to the scheduler."""
    return {"resource-types.xml": {"yarn.resource-types": GPU}} if state.gpus else {}


def _group(state: State) -> str:
    """Return the group of the container-executor: Hadoop's own is checked to be of it."""
    number = Path(state.executor).stat().st_gid if state.executor else os.getegid()
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


# --- programs ---


def write_programs(state: State, layout: Layout, environ: Mapping[str, str]) -> None:
    """Write the executor with its settings, container-executor.cfg for Hadoop's, and the discovery of GPUs.

    Raises:
        SandboxError: when the executor is not ready to be used.
    """
    layout.programs.mkdir(exist_ok=True)
    (layout.conf / "container-executor.cfg").write_text(_configuration(state, layout))
    if state.executor:
        _check_setup(state, layout)
    else:
        layout.executor.write_text(f"#!{Path(sys.executable).resolve()} -IS\n{Path(executor.__file__).read_text()}")
        layout.executor.chmod(0o755)
        layout.executor.with_name("container-executor.json").write_text(json.dumps(_settings(state, layout, environ), indent=1))
    if state.gpus:
        (layout.programs / "gpus.xml").write_text(_discovered(state.gpus))
        (layout.programs / "nvidia-smi").write_text(f"#!/bin/sh\nexec cat {layout.programs / 'gpus.xml'}\n")
        (layout.programs / "nvidia-smi").chmod(0o755)


def _settings(state: State, layout: Layout, environ: Mapping[str, str]) -> dict[str, object]:
    setpriv = shutil.which("setpriv", path=engine.dockerd_path(environ))
    if setpriv is None:
        raise SandboxError("setpriv was not found; containers run as another user by it", hint="install util-linux")
    # Of the engine's version where there is a choice: a newer CLI elsewhere on PATH might speak too new a language.
    cli = _CLI if Path(_CLI).exists() else engine.find_programs(environ).docker
    read_only, writable = allowed_mounts(state, layout)
    return {
        "docker": [cli, "-H", state.engine.host, "--config", str(layout.programs / "cli")],
        "setpriv": setpriv,
        "group": os.getegid(),
        "roots": [str(layout.exposed / "nm-local"), str(layout.exposed / "nm-log")],
        "read_only": read_only,
        "writable": writable,
        "untrusted": [UNTRUSTED],
        "gpus": state.gpus > 0,
    }


def allowed_mounts(state: State, layout: Layout) -> tuple[list[str], list[str]]:
    """Return what containers may mount to read, and to write."""
    asked = [mount.partition(":") for mount in state.mounts]
    local, logs, conf = (str(layout.exposed / name) for name in exposed(layout))
    system = [path for path in ("/etc/passwd", "/etc/group") if Path(path).exists()]
    read_only = [local, conf, *system, *(str(Path(source).resolve()) for source, _, mode in asked if mode != "rw")]
    return read_only, [local, logs, *(str(Path(source).resolve()) for source, _, mode in asked if mode == "rw")]


def _configuration(state: State, layout: Layout) -> str:
    """Write container-executor.cfg; Hadoop's container-executor reads it from the directory that was compiled into it."""
    read_only, writable = allowed_mounts(state, layout)
    # With the default of 10 an end is seen 30 s late; with 0 every failure becomes a success (facts: verified-docker 3).
    text = f"""yarn.nodemanager.linux-container-executor.group={_group(state)}
min.user.id=1000
banned.users=hdfs,yarn,mapred,bin
allowed.system.users={RUN_AS}
feature.tc.enabled=false
feature.yarn.sysfs.enabled=true
[docker]
module.enabled=true
docker.binary={_CLI}
docker.allowed.networks={",".join(NETWORKS)}
docker.allowed.ro-mounts={",".join(read_only)}
docker.allowed.rw-mounts={",".join(writable)}
docker.allowed.capabilities={_CAPABILITIES}
docker.allowed.runtimes={",".join(runtimes(state))}
docker.trusted.registries=local,library,submit_tf_job,tensorflow
docker.privileged-containers.enabled=false
docker.inspect.max.retries=1
"""
    if state.gpus:
        text += f"[gpu]\nmodule.enabled=true\n[cgroups]\nroot=/sys/fs/cgroup\nyarn-hierarchy={state.engine.identity}-yarn\n"
    return text


def _check_setup(state: State, layout: Layout) -> None:
    """Ask Hadoop's container-executor whether it would work.

    Raises:
        SandboxError: with its own words.
    """
    try:
        done = subprocess.run([str(state.executor), "--checksetup"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxError(f"{state.executor} could not be run: {error}") from None
    if done.returncode != 0:
        words = " ".join(f"{done.stdout} {done.stderr}".split()) or "without a word"
        raise SandboxError(
            f"{state.executor} --checksetup ended with {done.returncode}: {words}",
            hint=f"it wants to be root's with mode 6050, and a copy of {layout.conf / 'container-executor.cfg'} (root's, mode 0400, in "
            "directories that only root may write to) where it was built to look for it",
        )
    _check_reach(state)


def _check_reach(state: State) -> None:
    """Hadoop's container-executor starts the ApplicationMaster as somebody who may not pass a directory of root's alone."""
    uid = pwd.getpwnam(RUN_AS).pw_uid
    for path in (Path(state.jars), Path(state.java_home)):
        closed = [parent for parent in (path, *path.parents) if not parent.stat().st_mode & 0o001 and parent.stat().st_uid != uid]
        if closed:
            raise SandboxError(
                f"{RUN_AS}, whom Hadoop's container-executor starts processes as, cannot enter {closed[-1]}",
                hint="set XDG_CACHE_HOME to a directory that everybody may enter, or take another Java",
            )


def _discovered(count: int) -> str:
    """Say what nvidia-smi would of so many GPUs; Hadoop reads these fields and no others."""
    rows = "".join(
        f'  <gpu id="0000:0{number}:00.0">\n'
        "    <product_name>Sandbox</product_name>\n"
        f"    <uuid>GPU-00000000-0000-0000-0000-00000000000{number}</uuid>\n"
        f"    <minor_number>{number}</minor_number>\n"
        "    <fb_memory_usage><total>16384 MiB</total><used>0 MiB</used><free>16384 MiB</free></fb_memory_usage>\n"
        "    <utilization><gpu_util>0 %</gpu_util><memory_util>0 %</memory_util></utilization>\n"
        "    <temperature><gpu_temp>30 C</gpu_temp><gpu_temp_max_threshold>90 C</gpu_temp_max_threshold>"
        "<gpu_temp_slow_threshold>85 C</gpu_temp_slow_threshold></temperature>\n"
        "  </gpu>\n"
        for number in range(count)
    )
    return f'<?xml version="1.0" ?>\n<nvidia_smi_log>\n  <attached_gpus>{count}</attached_gpus>\n{rows}</nvidia_smi_log>\n'
