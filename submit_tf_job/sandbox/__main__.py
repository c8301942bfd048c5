"""Bring a sandbox up and down from a shell: `python -m submit_tf_job.sandbox up`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox import DAEMONS, Sandbox, SandboxDirs, SandboxOptions


def _say(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m submit_tf_job.sandbox")
    parser.add_argument("command", choices=["up", "down", "status", "logs"])
    parser.add_argument("--name", default="default")
    parser.add_argument("--hadoop")
    parser.add_argument("--hadoop-home", type=Path)
    parser.add_argument("--container-path", type=Path, action="append")
    parser.add_argument("--resolver", choices=["auto", "system", "direct"])
    parser.add_argument("--memory-mib", type=int)
    parser.add_argument("--vcores", type=int)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--daemon", choices=DAEMONS, default="resourcemanager")
    parser.add_argument("--tail", type=int)
    return parser


def _run(arguments: argparse.Namespace) -> None:
    sandbox = Sandbox(arguments.name, SandboxDirs.standard(os.environ))
    if arguments.command == "up":
        path = tuple(arguments.container_path) if arguments.container_path else None
        options = SandboxOptions(arguments.hadoop, arguments.hadoop_home, path, arguments.resolver, arguments.memory_mib, arguments.vcores)
        info = sandbox.up(options, os.environ, _say)
        for name in (
            "profile",
            "hadoop_version",
            "rm_url",
            "nm_url",
            "namenode_url",
            "hdfs_uri",
            "client_conf",
            "resolver",
            "dns_server",
            "started",
        ):
            print(f"{name}: {getattr(info, name)}")  # noqa: T201
        print(f"seconds: {info.seconds:.1f}")  # noqa: T201
    elif arguments.command == "down":
        print("down" if sandbox.down(keep=arguments.keep, progress=_say) else "there was nothing")  # noqa: T201
    elif arguments.command == "logs":
        print(sandbox.logs(arguments.daemon, arguments.tail))  # noqa: T201
    else:
        status = sandbox.status()
        print(status.state)  # noqa: T201
        for row in status.daemons:
            print(f"{row.name:16} pid {row.pid} {'healthy' if row.healthy else row.reason} {','.join(map(str, row.ports))} {row.log}")  # noqa: T201


def main() -> int:
    """Run one command and return its exit status."""
    try:
        _run(_parser().parse_args())
    except SandboxError as error:
        _say(f"error: {error.message}" + (f"\nhint: {error.hint}" if error.hint else ""))
        return error.exit_status
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
