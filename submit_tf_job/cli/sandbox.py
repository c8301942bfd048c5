"""Commands sandbox up, down, status and logs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from submit_tf_job.cli.context import Context
from submit_tf_job.settings import directories, process_environment

if TYPE_CHECKING:
    from submit_tf_job.sandbox import Sandbox, SandboxInfo, SandboxStatus

SandboxName = Annotated[str, typer.Option("--name", metavar="NAME", help="Sandbox name.")]


def _sandbox(name: str) -> Sandbox:
    from submit_tf_job.sandbox import Sandbox, SandboxDirs

    usual = directories()
    return Sandbox(name, SandboxDirs(usual.state / "sandbox", usual.cache, usual.config))


def up(
    context: Context,
    name: SandboxName = "default",
    hadoop: Annotated[
        str | None,
        typer.Option("--hadoop", metavar="VERSION", help="Hadoop version; default 3.4.2."),
    ] = None,
    hadoop_home: Annotated[
        Path | None,
        typer.Option(
            "--hadoop-home",
            metavar="DIR",
            help="Directory of an unpacked Hadoop to use instead of Maven's jars.",
        ),
    ] = None,
    container_path: Annotated[
        list[Path] | None,
        typer.Option(
            "--container-path",
            metavar="DIR",
            help="Put first on the PATH of containers, e.g. a virtual environment's bin.",
        ),
    ] = None,
    resolver: Annotated[
        str | None,
        typer.Option(
            "--resolver",
            metavar="auto|system|direct",
            help="How containers resolve names; system needs root.",
        ),
    ] = None,
    no_dns: Annotated[
        bool,
        typer.Option(
            "--no-dns",
            help="Without Registry DNS, as on most clusters; containers have the host's resolver.",
        ),
    ] = False,
    profile: Annotated[
        list[str] | None,
        typer.Option(
            "--profile",
            metavar="simple|kerberos|ha|tls|docker",
            help="Features of the cluster; may be combined: kerberos,docker or kerberos+ha+tls.",
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(
            "--nodes",
            metavar="N",
            min=1,
            max=8,
            help="Number of NodeManagers, each a node of its own; default 1.",
        ),
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(
            "--gpus",
            metavar="N",
            min=0,
            max=8,
            help="With docker: simulate N GPUs for each node.",
        ),
    ] = None,
    container_executor: Annotated[
        Path | None,
        typer.Option(
            "--container-executor",
            metavar="FILE",
            help="With docker: Hadoop's own program instead of the sandbox's.",
        ),
    ] = None,
    mount: Annotated[
        list[str] | None,
        typer.Option(
            "--mount",
            metavar="DIR[:rw]",
            help="With docker: a directory that jobs may mount, to read or to write.",
        ),
    ] = None,
    default_timeouts: Annotated[
        bool,
        typer.Option(
            "--default-timeouts",
            help="Keep Hadoop's default time-outs, as on most clusters; jobs end slower.",
        ),
    ] = False,
) -> None:
    """Start a real YARN cluster on this machine, or repair the existing one.

    It becomes the settings profile `sandbox` (`sandbox-NAME` for other names), which is used if no
    other cluster is configured.

    \b
    Examples:
      submit_tf_job sandbox up
      submit_tf_job sandbox up --container-path ~/venvs/tensorflow/bin
      submit_tf_job sandbox up --name old --hadoop 3.1.3
      submit_tf_job sandbox up --name secure --profile kerberos+ha+tls
      submit_tf_job sandbox up --name images --profile docker --gpus 2
      submit_tf_job sandbox up --name slow --default-timeouts
      submit_tf_job sandbox up --name three --nodes 3
      submit_tf_job sandbox up --name nameless --no-dns
    """
    from submit_tf_job.errors import UsageError
    from submit_tf_job.sandbox import SandboxOptions, parse_modes

    if resolver not in (None, "auto", "system", "direct"):
        raise UsageError(f"--resolver takes auto, system or direct, not {resolver!r}")
    if no_dns and resolver:
        raise UsageError("--resolver says how containers ask Registry DNS; --no-dns starts none")
    options = SandboxOptions(
        hadoop_version=hadoop,
        hadoop_home=hadoop_home,
        container_path=tuple(path.absolute() for path in container_path)
        if container_path
        else None,
        modes=parse_modes(profile) if profile else None,
        resolver="none" if no_dns else resolver,  # type: ignore[arg-type]  # checked above
        gpus=gpus,
        container_executor=container_executor,
        mounts=tuple(mount) if mount else None,
        default_timeouts=default_timeouts or None,
        nodes=nodes,
    )
    context.interrupted = "The sandbox may be partly up; `submit_tf_job sandbox down` removes it."
    info = _sandbox(name).up(options, process_environment(), context.say)
    context.result(_up_lines(info), lambda: _info_object(info))


def down(
    context: Context,
    name: SandboxName = "default",
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep data and logs for a later `up`.")
    ] = False,
) -> None:
    """Stop a sandbox and remove all that it wrote.

    \b
    Example: submit_tf_job sandbox down
    """
    was_there = _sandbox(name).down(keep=keep, progress=context.say)
    context.result(
        [f"sandbox {name} is down" if was_there else f"there is no sandbox {name}"],
        lambda: {"kind": "Sandbox", "format": 1, "name": name, "was_there": was_there},
    )


def status(context: Context, name: SandboxName = "default") -> int:
    """Show each daemon of a sandbox; the exit status is 1 if one of them does not work.

    \b
    Example: submit_tf_job sandbox status
    """
    found = _sandbox(name).status()
    context.result(_status_lines(found), lambda: _status_object(found))
    return 0 if found.state == "up" else 1


def logs(
    context: Context,
    daemon: Annotated[
        str,
        typer.Argument(
            metavar="DAEMON",
            help="Name of a daemon in `sandbox status`, such as namenode or resourcemanager.",
        ),
    ],
    name: SandboxName = "default",
    tail: Annotated[
        int | None, typer.Option("--tail", metavar="N", help="Only the last N lines.", min=0)
    ] = None,
) -> None:
    """Print the log of one daemon.

    \b
    Example: submit_tf_job sandbox logs resourcemanager --tail 50
    """
    text = _sandbox(name).logs(daemon, tail)
    context.result(
        text.splitlines(),
        lambda: {"kind": "Log", "format": 1, "daemon": daemon, "lines": text.splitlines()},
    )


_DNS_USERS = {
    "system": "{}, used by the containers' resolver",
    "direct": "{}, used by the tasks, directly",
    "none": "none (--no-dns): tasks find one another by `names: rendezvous`",
}


def _up_lines(info: SandboxInfo) -> Iterator[str]:
    did = "was up already"
    if info.started:
        did = f"started {', '.join(info.started)}"
    yield f"sandbox {info.name} is up (Hadoop {info.hadoop_version}, {did}, {info.seconds:.1f} s)"
    yield f"  profile          {info.profile}"
    yield f"  ResourceManager  {', '.join(info.rm_urls)}"
    yield f"  NodeManager      {', '.join(info.nm_urls)}"
    yield f"  NameNode         {info.namenode_url}  {info.hdfs_uri}"
    yield f"  Registry DNS     {_DNS_USERS[info.resolver].format(info.dns_server)}"
    yield f"  client files     {info.client_conf}"
    if info.docker:
        yield f"  Docker Engine    DOCKER_HOST={info.docker.host}"
        yield (
            f"    networks       {', '.join(info.docker.networks)}; {info.docker.address} is "
            f"this machine on bridge"
        )
        executor = (
            info.docker.executor
            or "the sandbox's own: for one user on one machine, and no security boundary"
        )
        yield f"    executor       {executor}"
        if info.docker.gpus:
            yield f"    GPUs           {info.docker.gpus}, simulated"
    if info.kerberos:
        yield (
            f"  Kerberos         realm {info.kerberos.realm}, KDC {info.kerberos.kdc}, you are "
            f"{info.kerberos.principal}"
        )
        yield f"    KRB5_CONFIG    {info.kerberos.krb5_conf}"
        yield f"    keytabs        {info.kerberos.keytabs}"
    if info.ca_file:
        yield f"  CA               {info.ca_file}"


def _info_object(info: SandboxInfo) -> dict[str, object]:
    inner = ("profile_path", "user", "home")
    shown = {key: value for key, value in _plain(info).items() if key not in inner}
    return {"kind": "Sandbox", "format": 1, **shown, "seconds": round(info.seconds, 2)}


def _plain(made: SandboxInfo | SandboxStatus) -> dict[str, object]:
    """Return the fields as JSON values: a path as text."""
    plain: dict[str, object] = json.loads(json.dumps(asdict(made), default=str))
    return plain


# by whether the daemon is alive, and whether it is healthy
_WORDS = {
    (True, True): "ok",
    (False, True): "ok",
    (True, False): "unhealthy",
    (False, False): "dead",
}


def _status_lines(found: SandboxStatus) -> Iterator[str]:
    yield f"sandbox {found.name} is {found.state}"
    for daemon in found.daemons:
        word = _WORDS[daemon.alive, daemon.healthy]
        ports = ",".join(map(str, daemon.ports))
        yield (
            f"  {daemon.name:<16} {word:<9} pid {daemon.pid or '-':<8} ports {ports}  "
            f"{daemon.reason}"
        ).rstrip()
    if found.info and found.info.docker:
        yield f"  DOCKER_HOST={found.info.docker.host}"
    if found.state == "degraded":
        name = "" if found.name == "default" else f" --name {found.name}"
        yield f"  `submit_tf_job sandbox up{name}` repairs it"


def _status_object(found: SandboxStatus) -> dict[str, object]:
    shown = {key: value for key, value in _plain(found).items() if key != "info"}
    sandbox = _info_object(found.info) if found.info else None
    return {"kind": "SandboxStatus", "format": 1, **shown, "sandbox": sandbox}
