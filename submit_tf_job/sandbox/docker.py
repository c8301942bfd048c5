"""Configure Docker in a sandbox: LinuxContainerExecutor with the Docker runtime, the executor that
it calls, and simulated GPUs.

Tested with Hadoop 3.4.2 (hadoop-facts.md#container-executor,
hadoop-facts.md#gpus-in-a-sandbox).
"""

from __future__ import annotations

import grp
import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox import engine, executor
from submit_tf_job.sandbox.jars import DEFAULT_VERSION
from submit_tf_job.sandbox.processes import find_program, path_with_sbin, run
from submit_tf_job.sandbox.state import RUN_AS, SandboxOptions, SandboxState

# A user network beside Docker's own, to test jobs on such a network.
NETWORK = "jobs"
NETWORKS = ("host", "bridge", "none", NETWORK)
# Images with this prefix are treated as those of a registry that the nodes do not trust.
UNTRUSTED = "untrusted"
GPU = "yarn.io/gpu"

_DEVICES = Path("/sys/fs/cgroup/devices")
_DEFAULT_SOCKET = Path("/var/run/docker.sock")
_CLI = "/usr/bin/docker"
_DOCKER = "yarn.nodemanager.runtime.linux.docker"
_LINUX = "yarn.nodemanager.linux-container-executor"
_CAPABILITIES = "CHOWN,DAC_OVERRIDE,FSETID,FOWNER,MKNOD,NET_RAW,SETGID,SETUID,SETFCAP,SETPCAP,NET_BIND_SERVICE,SYS_CHROOT,KILL,AUDIT_WRITE"  # noqa: E501


# --- options ---


def check_options(options: SandboxOptions, environ: Mapping[str, str]) -> None:
    """Refuse unsupported options before anything is created.

    Raises:
        SandboxError: An option is not supported, or a program that Docker needs is missing; the
            message names it.
    """
    asked = {
        "gpus": options.gpus,
        "a container-executor": options.executor,
        "mounts": options.mounts,
    }
    if "docker" not in (options.modes or ()):
        for what in (what for what, value in asked.items() if value):
            raise SandboxError(f"{what}: with Docker only", hint="add --profile docker")
        return
    engine.find_programs(environ)
    if options.container_path:
        raise SandboxError(
            "with Docker the containers' PATH is their image's",
            hint="leave --container-path out; --mount lets jobs mount a directory",
        )
    if options.resolver == "direct":
        raise SandboxError(
            "with Docker names are found by the containers' own resolver",
            hint="leave --resolver out",
        )
    if options.hadoop_version not in (None, DEFAULT_VERSION) and options.hadoop_home is None:
        raise SandboxError(
            f"a sandbox with Docker exists only with Hadoop {DEFAULT_VERSION}",
            hint="leave --hadoop out",
        )
    if options.gpus and not _DEVICES.is_dir():
        raise SandboxError(
            "this machine has no control groups of version 1, with which Hadoop keeps GPUs apart",
            hint="leave --gpus out, or boot with them",
        )
    for mount in options.mounts or ():
        _check_mount(mount)
    if options.executor is not None:
        _check_executor(options.executor)


def _check_mount(mount: str) -> None:
    source, _, mode = mount.partition(":")
    if not source.startswith("/") or mode not in ("", "ro", "rw") or "," in source:
        raise SandboxError(
            f"{mount!r} is nothing to mount",
            hint="say /directory, which jobs may read, or /directory:rw",
        )
    if not Path(source).exists():
        raise SandboxError(f"{source}, which jobs are to mount, does not exist")


def _check_executor(path: Path) -> None:
    """Check Hadoop's container-executor, which needs Docker's default path and socket
    (hadoop-facts.md#dockers-path-and-socket).
    """
    if not path.is_file():
        raise SandboxError(f"there is no container-executor at {path}")
    if _DEFAULT_SOCKET.exists():
        raise SandboxError(
            f"Hadoop's container-executor talks to {_DEFAULT_SOCKET} only, and another "
            f"Docker Engine has it",
            hint="stop that one, or leave --container-executor out: the sandbox's own needs no "
            "such place",
        )


def dockerd_options(state: SandboxState) -> list[str]:
    """Return the options of dockerd for this sandbox, in addition to those of every engine."""
    options = []
    if state.executor:
        options += ["-H", f"unix://{_DEFAULT_SOCKET}"]
    if state.gpus:
        # The GPUs are simulated, by a runtime that gives containers what NVIDIA's does.
        programs = state.layout.programs
        options += ["--add-runtime", f"nvidia={programs / 'nvidia-runtime'}"]
    return options


def runtimes(state: SandboxState) -> list[str]:
    """Return the names of the OCI runtimes that jobs may request."""
    if state.gpus:
        return ["runc", "nvidia"]
    return ["runc"]


def exposed(state: SandboxState) -> dict[str, Path]:
    """Return the directories of the sandbox that containers can access, by the names that they have
    in containers.
    """
    layout = state.layout
    found = {}
    for node in state.nodemanagers.values():
        for name in ("nm-local", "nm-log", "conf"):
            found[layout.of_node(node, name, exposed=True).name] = layout.of_node(node, name)
    if layout.job_keytabs.exists():
        found["keytabs"] = layout.job_keytabs
    return found


# --- Hadoop's configuration ---


def nodemanager(state: SandboxState, node: int = 1) -> dict[str, str]:
    """Return the properties of yarn-site.xml for Docker on one node; {} without Docker."""
    layout = state.layout
    if not state.docker:
        return {}
    conf = layout.of_node(node, "conf", exposed=True)
    return {
        "yarn.nodemanager.local-dirs": str(layout.of_node(node, "nm-local", exposed=True)),
        "yarn.nodemanager.log-dirs": str(layout.of_node(node, "nm-log", exposed=True)),
        "yarn.nodemanager.container-executor.class": "org.apache.hadoop.yarn.server.nodemanager.LinuxContainerExecutor",  # noqa: E501
        f"{_LINUX}.path": state.executor or str(layout.executor),
        f"{_LINUX}.group": _executor_group(state),
        f"{_LINUX}.nonsecure-mode.limit-users": "true",
        f"{_LINUX}.nonsecure-mode.local-user": RUN_AS,
        "yarn.nodemanager.runtime.linux.allowed-runtimes": "default,docker",
        f"{_DOCKER}.allowed-container-networks": ",".join(NETWORKS),
        f"{_DOCKER}.default-container-network": "bridge",
        # The daemons' HADOOP_CONF_DIR is set in every container, so it must exist there.
        f"{_DOCKER}.default-ro-mounts": f"{conf}:{conf}",
        f"{_DOCKER}.delayed-removal.allowed": "true",
        # The localizer of the ApplicationMaster is a separate JVM.
        "yarn.nodemanager.container-localizer.java.opts": "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto",  # noqa: E501
        **_gpu_properties(state),
    }


def _gpu_properties(state: SandboxState) -> dict[str, str]:
    if not state.gpus:
        return {}
    return {
        "yarn.nodemanager.resource-plugins": GPU,
        "yarn.nodemanager.resource-plugins.gpu.path-to-discovery-executables": str(
            state.layout.programs / "gpu/nvidia-smi"
        ),
        # Version 1, the default, calls a plug-in of Docker's that no longer exists: Connection
        # refused.
        "yarn.nodemanager.resource-plugins.gpu.docker-plugin": "nvidia-docker-v2",
        f"{_DOCKER}.allowed-container-runtimes": ",".join(runtimes(state)),
        f"{_LINUX}.cgroups.mount": "false",
        f"{_LINUX}.cgroups.hierarchy": f"/{state.engine.identity}-yarn",
    }


def resource_files(state: SandboxState) -> dict[str, dict[str, str]]:
    """Return the properties by file that declare GPUs to the scheduler; {} without GPUs."""
    return {"resource-types.xml": {"yarn.resource-types": GPU}} if state.gpus else {}


def _executor_group(state: SandboxState) -> str:
    """Return the group of the container-executor; Hadoop's own container-executor requires that its
    binary has this group.
    """
    number = Path(state.executor).stat().st_gid if state.executor else os.getegid()
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


# --- programs ---


def write_programs(state: SandboxState, environ: Mapping[str, str]) -> None:
    """Write container-executor.cfg. If Hadoop's container-executor is used, run its self-test;
    otherwise write the sandbox's own executor and its settings. With GPUs, also write simulations
    of nvidia-smi and of NVIDIA's runtime.

    Raises:
        SandboxError: The executor cannot be used, or a program that it needs is missing.
    """
    layout = state.layout
    layout.programs.mkdir(exist_ok=True)
    (layout.conf / "container-executor.cfg").write_text(_executor_configuration(state))
    if state.executor:
        _check_setup(state, environ)
    else:
        layout.executor.write_text(
            f"#!{Path(sys.executable).resolve()} -IS\n{Path(executor.__file__).read_text()}"
        )
        layout.executor.chmod(0o755)
        layout.executor.with_name("container-executor.json").write_text(
            json.dumps(_executor_settings(state, environ), indent=1)
        )
    if state.gpus:
        runc = shutil.which("runc", path=path_with_sbin(environ))
        smi, runtime = layout.programs / "gpu/nvidia-smi", layout.programs / "nvidia-runtime"
        smi.parent.mkdir(exist_ok=True)
        smi.write_text(
            _SMI.format(xml=_nvidia_output(state.gpus), all=",".join(map(str, range(state.gpus))))
        )
        runtime.write_text(
            f"#!{Path(sys.executable).resolve()} -IS\n{_RUNTIME.format(runc=runc, smi=str(smi))}"
        )
        for program in (smi, runtime):
            program.chmod(0o755)


def _executor_settings(state: SandboxState, environ: Mapping[str, str]) -> dict[str, object]:
    why = "containers run as another user by it"
    setpriv = find_program("setpriv", environ, why, "install util-linux")
    # Prefer the CLI at Docker's default path: another one on PATH may use an API version that is
    # too new for the engine.
    cli = _CLI if Path(_CLI).exists() else engine.find_programs(environ)
    return {
        "docker": [cli, "-H", state.engine.host, "--config", str(state.layout.programs / "cli")],
        "setpriv": setpriv,
        "group": os.getegid(),
        "roots": _written_directories(state),
        "configuration": str(state.layout.conf / "container-executor.cfg"),
        "untrusted": [UNTRUSTED],
        "gpus": state.gpus > 0,
    }


def _written_directories(state: SandboxState) -> list[str]:
    """Return the directories to which NodeManagers write, as containers see them."""
    return [
        str(state.layout.of_node(node, name, exposed=True))
        for node in state.nodemanagers.values()
        for name in ("nm-local", "nm-log")
    ]


def allowed_mounts(state: SandboxState) -> tuple[list[str], list[str]]:
    """Return the paths that containers may mount read-only, and the paths that they may mount
    writable.
    """
    outputs = {state.layout.of_node(node, "nm-log") for node in state.nodemanagers.values()}
    read_only = [
        str(state.layout.exposed / name)
        for name, directory in exposed(state).items()
        if directory not in outputs
    ]
    read_only += [path for path in ("/etc/passwd", "/etc/group") if Path(path).exists()]
    writable = _written_directories(state)
    for mount in state.mounts:
        source, _, mode = mount.partition(":")
        target = writable if mode == "rw" else read_only
        target.append(str(Path(source).resolve()))
    return read_only, writable


def _executor_configuration(state: SandboxState) -> str:
    """Return the content of container-executor.cfg, which Hadoop's container-executor reads from a
    directory whose path was compiled into it.
    """
    read_only, writable = allowed_mounts(state)
    # With the default of 10 the end of a container is reported 30 s late; with 0 every failure
    # becomes a success: hadoop-facts.md#retries-of-docker-inspect
    text = f"""yarn.nodemanager.linux-container-executor.group={_executor_group(state)}
min.user.id=1000
banned.users=hdfs,yarn,mapred,bin
allowed.system.users={RUN_AS}
feature.tc.enabled=false
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
        text += f"[gpu]\nmodule.enabled=true\n[cgroups]\nroot=/sys/fs/cgroup\nyarn-hierarchy={state.engine.identity}-yarn\n"  # noqa: E501
    return text


def _check_setup(state: SandboxState, environ: Mapping[str, str]) -> None:
    """Run the self-test of Hadoop's container-executor.

    Raises:
        SandboxError: The self-test failed; the message has its output.
    """
    done = run([str(state.executor), "--checksetup"], environ)
    if done.returncode != 0:
        words = " ".join(f"{done.stdout} {done.stderr}".split()) or "without a word"
        raise SandboxError(
            f"{state.executor} --checksetup ended with {done.returncode}: {words}",
            hint=f"it wants to be root's with mode 6050, and a copy of "
            f"{state.layout.conf / 'container-executor.cfg'} (root's, mode 0400, in "
            "directories that only root may write to) where it was built to look for it",
        )


# what is asked by Hadoop (-x -q), and by tasks (-L)
_SMI = """\
#!/bin/sh
if [ "$1" != -L ]; then
cat <<'END'
{xml}END
exit
fi
for number in $(echo "${{NVIDIA_VISIBLE_DEVICES-{all}}}" | tr , ' '); do
  echo "GPU $number: Sandbox (UUID: GPU-00000000-0000-0000-0000-00000000000$number)"
done
"""
# NVIDIA's runtime in small: it adds the device files of NVIDIA_VISIBLE_DEVICES, and nvidia-smi
_RUNTIME = """\
import json, os, sys

words = sys.argv[1:]
if "create" in words and "--bundle" in words:
    path = os.path.join(words[words.index("--bundle") + 1], "config.json")
    with open(path) as file:
        config = json.load(file)
    env = dict(entry.partition("=")[::2] for entry in config["process"]["env"])
    numbers = [n for n in env.get("NVIDIA_VISIBLE_DEVICES", "").split(",") if n.isdigit()]
    for number in numbers:
        device = {{"type": "c", "major": 195, "minor": int(number)}}
        config["linux"].setdefault("devices", []).append(
            {{**device, "path": "/dev/nvidia" + number, "fileMode": 0o666}})
        config["linux"]["resources"]["devices"].append({{**device, "allow": True, "access": "rw"}})
    if numbers:
        config["mounts"].append({{"destination": "/usr/bin/nvidia-smi", "type": "bind",
                                 "source": {smi!r}, "options": ["rbind", "ro"]}})
    with open(path, "w") as file:
        json.dump(config, file)
os.execv({runc!r}, [{runc!r}, *words])
"""


def _nvidia_output(count: int) -> str:
    """Return the output that nvidia-smi would print for `count` GPUs, with the fields that Hadoop
    reads.
    """
    rows = "".join(
        f"""  <gpu id="0000:0{number}:00.0">
    <product_name>Sandbox</product_name>
    <uuid>GPU-00000000-0000-0000-0000-00000000000{number}</uuid>
    <minor_number>{number}</minor_number>
    <fb_memory_usage>
      <total>16384 MiB</total><used>0 MiB</used><free>16384 MiB</free>
    </fb_memory_usage>
    <utilization><gpu_util>0 %</gpu_util><memory_util>0 %</memory_util></utilization>
    <temperature>
      <gpu_temp>30 C</gpu_temp>
      <gpu_temp_max_threshold>90 C</gpu_temp_max_threshold>
      <gpu_temp_slow_threshold>85 C</gpu_temp_slow_threshold>
    </temperature>
  </gpu>
"""
        for number in range(count)
    )
    return (
        f'<?xml version="1.0" ?>\n<nvidia_smi_log>\n  '
        f"<attached_gpus>{count}</attached_gpus>\n{rows}</nvidia_smi_log>\n"
    )
