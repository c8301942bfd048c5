"""Commands sandbox up, down, status and logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from submit_tf_job.cli.context import Context
from submit_tf_job.json_values import document, plain
from submit_tf_job.settings import directories, process_environment

if TYPE_CHECKING:
    from submit_tf_job.sandbox.lifecycle import Sandbox
    from submit_tf_job.sandbox.state import SandboxState, SandboxStatus, StartedSandbox

SandboxName = Annotated[str, typer.Option("--name", metavar="NAME", help="Sandbox name.")]


def _open_sandbox(context: Context, name: str) -> Sandbox:
    from submit_tf_job.sandbox.lifecycle import Sandbox
    from submit_tf_job.sandbox.state import SandboxDirs

    usual = directories()
    dirs = SandboxDirs(usual.state / "sandbox", usual.cache, usual.config)
    return Sandbox(name, dirs, process_environment(), context.say)


def up(
    context: Context,
    name: SandboxName = "default",
    hadoop: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Hadoop version; default 3.4.2.")
    ] = None,
    hadoop_home: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Directory of an unpacked Hadoop to use instead of Maven's jars."
        ),
    ] = None,
    container_path: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="Put first on the PATH of containers, e.g. a virtual environment's bin.",
        ),
    ] = None,
    resolver: Annotated[
        str | None,
        typer.Option(
            metavar="auto|system|direct", help="How containers resolve names; system needs root."
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
            metavar="simple|kerberos|ha|tls|docker",
            help="Features of the cluster; may be combined: kerberos,docker or kerberos+ha+tls.",
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=8,
            help="Number of NodeManagers, each a node of its own; default 1.",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory that each node offers to jobs, whatever the machine has; default 12Gi.",
        ),
    ] = None,
    cpus: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=1024, help="The same for cores; default 16."),
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, max=8, help="With docker: simulate N GPUs for each node."),
    ] = None,
    container_executor: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With docker: Hadoop's own program instead of the sandbox's."
        ),
    ] = None,
    mount: Annotated[
        list[str] | None,
        typer.Option(
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
      submit_tf_job sandbox up --name three --nodes 3 --memory 64Gi
      submit_tf_job sandbox up --name nameless --no-dns
    """
    from submit_tf_job.errors import UsageError
    from submit_tf_job.sandbox.state import SandboxOptions, parse_modes

    if resolver not in (None, "auto", "system", "direct"):
        raise UsageError(f"--resolver takes auto, system or direct, not {resolver!r}")
    if no_dns and resolver:
        raise UsageError("--resolver says how containers ask Registry DNS; --no-dns starts none")
    options = SandboxOptions(
        hadoop_version=hadoop,
        hadoop_home=hadoop_home,
        container_path=tuple(container_path) if container_path else None,
        modes=parse_modes(profile) if profile else None,
        resolver="none" if no_dns else resolver,  # type: ignore[arg-type]  # checked above
        gpus=gpus,
        executor=container_executor,
        mounts=tuple(mount) if mount else None,
        default_timeouts=default_timeouts or None,
        nodes=nodes,
        memory_mib=None if memory is None else _memory_mib(memory),
        cpus=cpus,
    )
    named = "" if name == "default" else f" --name {name}"
    context.interrupted = (
        f"The sandbox may be partly up; `submit_tf_job sandbox down{named}` removes it."
    )
    done = _open_sandbox(context, name).up(options)
    context.result(
        _up_lines(done), lambda: _sandbox_object(done.sandbox, done.started, done.seconds)
    )


def _memory_mib(memory: str) -> int:
    from submit_tf_job.errors import UsageError
    from submit_tf_job.host import units

    try:
        mib = units.memory(memory)
    except ValueError as error:
        raise UsageError(f"--memory: {error}") from None
    if mib >= 2**31:  # yarn.nodemanager.resource.memory-mb is an int of Java
        raise UsageError("--memory: a node offers less than 2048Ti")
    return mib


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
    was_there = _open_sandbox(context, name).down(keep=keep)
    context.result(
        [f"sandbox {name} is down" if was_there else f"there is no sandbox {name}"],
        lambda: document("Sandbox", name=name, was_there=was_there),
    )


def status(context: Context, name: SandboxName = "default") -> int:
    """Show each daemon of a sandbox; the exit status is 1 if one of them does not work.

    \b
    Example: submit_tf_job sandbox status
    """
    found = _open_sandbox(context, name).status()
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
        int | None, typer.Option(metavar="N", help="Only the last N lines.", min=0)
    ] = None,
) -> None:
    """Print the log of one daemon.

    \b
    Example: submit_tf_job sandbox logs resourcemanager --tail 50
    """
    text = _open_sandbox(context, name).logs(daemon, tail)
    context.result(
        text.splitlines(), lambda: document("Log", daemon=daemon, lines=text.splitlines())
    )


_DNS_USERS = {
    "system": "{}, used by the containers' resolver",
    "direct": "{}, used by the tasks, directly",
    "none": "none (--no-dns): tasks find one another by `names: rendezvous`",
}


def _up_lines(done: StartedSandbox) -> Iterator[str]:
    sandbox = done.sandbox
    did = f"started {', '.join(done.started)}" if done.started else "was up already"
    version = sandbox.hadoop_version
    yield f"sandbox {sandbox.name} is up (Hadoop {version}, {did}, {done.seconds:.1f} s)"
    yield f"  profile          {sandbox.profile}"
    yield f"  ResourceManager  {', '.join(sandbox.rm_urls)}"
    yield f"  NodeManager      {', '.join(sandbox.nm_urls)}"
    yield f"  NameNode         {sandbox.namenode_url}  {sandbox.hdfs_uri}"
    yield f"  Registry DNS     {_DNS_USERS[sandbox.resolver].format(sandbox.dns_server)}"
    yield f"  client files     {sandbox.layout.client_conf}"
    if docker := _docker_object(sandbox):
        yield f"  Docker Engine    DOCKER_HOST={docker['host']}"
        yield (
            f"    networks       {', '.join(docker['networks'])}; {docker['address']} is "
            f"this machine on bridge"
        )
        own = "the sandbox's own: for one user on one machine, and no security boundary"
        yield f"    executor       {docker['executor'] or own}"
        if docker["gpus"]:
            yield f"    GPUs           {docker['gpus']}, simulated"
    if kerberos := _kerberos_object(sandbox):
        yield (
            f"  Kerberos         realm {kerberos['realm']}, KDC {kerberos['kdc']}, you are "
            f"{kerberos['principal']}"
        )
        yield f"    KRB5_CONFIG    {kerberos['krb5_conf']}"
        yield f"    keytabs        {kerberos['keytabs']}"
    if sandbox.tls:
        yield f"  CA               {sandbox.layout.ca_file}"


def _sandbox_object(
    sandbox: SandboxState, started: Iterable[str] = (), seconds: float = 0.0
) -> dict[str, object]:
    return document(
        "Sandbox",
        name=sandbox.name,
        profile=sandbox.profile,
        hadoop_version=sandbox.hadoop_version,
        modes=list(sandbox.modes),
        rm_url=sandbox.rm_urls[0],
        rm_urls=list(sandbox.rm_urls),
        nm_url=sandbox.nm_urls[0],
        nm_urls=list(sandbox.nm_urls),
        namenode_url=sandbox.namenode_url,
        hdfs_uri=sandbox.hdfs_uri,
        dns_server=sandbox.dns_server,
        resolver=sandbox.resolver,
        client_conf=str(sandbox.layout.client_conf),
        ca_file=str(sandbox.layout.ca_file) if sandbox.tls else None,
        kerberos=_kerberos_object(sandbox),
        docker=_docker_object(sandbox),
        ports=dict(sandbox.ports),
        started=list(started),
        seconds=round(seconds, 2),
    )


def _docker_object(sandbox: SandboxState) -> dict[str, Any] | None:
    from submit_tf_job.sandbox.docker import NETWORKS

    if not sandbox.docker:
        return None
    return {
        "host": sandbox.engine.host,
        "address": sandbox.engine.address,
        "networks": list(NETWORKS),
        "executor": sandbox.executor,
        "gpus": sandbox.gpus,
    }


def _kerberos_object(sandbox: SandboxState) -> dict[str, str] | None:
    from submit_tf_job.sandbox.hardening import principal_of
    from submit_tf_job.sandbox.state import REALM

    if not sandbox.secure:
        return None
    return {
        "realm": REALM,
        "kdc": sandbox.kdc_address,
        "krb5_conf": str(sandbox.layout.krb5_conf),
        "keytabs": str(sandbox.layout.keytabs),
        "principal": principal_of(sandbox.submitter),
    }


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
    if found.sandbox and found.sandbox.docker:
        yield f"  DOCKER_HOST={found.sandbox.engine.host}"
    if found.state == "degraded":
        name = "" if found.name == "default" else f" --name {found.name}"
        yield f"  `submit_tf_job sandbox up{name}` repairs it"


def _status_object(found: SandboxStatus) -> dict[str, object]:
    return document(
        "SandboxStatus",
        name=found.name,
        state=found.state,
        daemons=list(map(plain, found.daemons)),
        sandbox=_sandbox_object(found.sandbox) if found.sandbox else None,
    )
