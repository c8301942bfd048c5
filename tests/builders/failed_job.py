"""A job that has failed, and what real clusters and the programs of the corpus wrote of failures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from submit_tf_job.container import contract
from tests.failures import cases as corpus
from tests.world import World

RECORDED = Path(__file__).parents[1] / "data/causes"
FAILURES = corpus.recorded()
C2, C3 = "container_1795273005846_0008_01_000002", "container_1795273005846_0008_01_000003"
TF = "tensorflow.python.framework.errors_impl"

# The log of a services AM of Hadoop 3.4.2, shortened.
PMEM = f"""\
2026-11-21 14:57:14,466 [Component  dispatcher] INFO  component.Component - [COMPONENT worker]: Assigned {C3} to component instance worker-0 \
and launch on host node7.example.com:10871{" "}
2026-11-21 14:57:20,258 [Component  dispatcher] INFO  instance.ComponentInstance - [COMPINSTANCE worker-0 : {C3}] failed without retry, \
exitStatus=ContainerStatus: [ContainerId: {C3}, ExecutionType: GUARANTEED, State: COMPLETE, Capability: <memory:256, vCores:1>, \
Diagnostics: [2026-11-21 14:57:19.576]Container [pid=8623,containerID={C3}] is running 287830016B beyond the 'PHYSICAL' memory limit. \
Current usage: 530.5 MB of 256 MB physical memory used; 710.7 MB of 537.6 MB virtual memory used. Killing container.
Dump of the process-tree for {C3} :
\t|- PID PPID PGRPID SESSID CMD_NAME USER_MODE_TIME(MILLIS) SYSTEM_TIME(MILLIS) VMEM_USAGE(BYTES) RSSMEM_USAGE(PAGES) FULL_CMD_LINE
\t|- 8623 8621 8623 8623 (python3) 9 3 100970496 4950 python3 bootstrap.zip{" "}

[2026-11-21 14:57:19.681]Container killed on request. Exit code is 143
[2026-11-21 14:57:19.683]Container exited with a non-zero exit code 143.{" "}
, ExitStatus: -104, IP: [127.0.0.1], Host: vm, ExposedPorts: , ContainerSubState: DONE]
2026-11-21 14:57:20,258 [Component  dispatcher] INFO  instance.ComponentInstance - [COMPINSTANCE worker-0 : {C3}] Transitioned from READY to INIT \
on STOP event
"""
TOLD_TO_END = f"""\
2026-11-21 14:57:25,275 [Component  dispatcher] INFO  instance.ComponentInstance - [COMPINSTANCE chief-0 : {C2}] failed without retry, \
exitStatus=ContainerStatus: [ContainerId: {C2}, ExecutionType: GUARANTEED, State: COMPLETE, Capability: <memory:256, vCores:1>, \
Diagnostics: [2026-11-21 14:57:24.713]Exception from container-launch.
Container id: {C2}
Exit code: 93
Exception message: bash: warning: setlocale: LC_ALL: cannot change locale (en_US.UTF-8)

[2026-11-21 14:57:24.717]Container exited with a non-zero exit code 93. Error file: prelaunch.err.
Last 4096 bytes of stderr.txt :
[submit_tf_job] worker-0 is here, on localhost

, ExitStatus: 93, IP: [127.0.0.1], Host: vm, ExposedPorts: , ContainerSubState: DONE]
2026-11-21 14:57:25,275 [Component  dispatcher] INFO  service.ServiceScheduler - Dominate component chief finished, exiting Service Master... , \
final status=Failed
"""
NEVER_LAUNCHED = f"""\
2026-11-21 14:57:12,503 [pool-6-thread-1] ERROR containerlaunch.ContainerLaunchService - [COMPINSTANCE worker-0 : {C3}]: Failed to launch container.
org.apache.hadoop.security.AccessControlException: Permission denied: user=bob, access=WRITE, inode="/tmp/.yarn/services":alice:supergroup:drwxr-xr-x
\tat org.apache.hadoop.hdfs.server.namenode.FSPermissionChecker.check(FSPermissionChecker.java:661)
2026-11-21 14:57:12,512 [Component  dispatcher] INFO  instance.ComponentInstance - [COMPINSTANCE worker-0 : {C3}] failed without retry, exitStatus=null
"""
AGAIN = f"""\
2026-11-21 14:57:12,512 [Component  dispatcher] ERROR instance.ComponentInstance - [COMPINSTANCE worker-1 : {C3}]: {C3} completed. \
Reinsert back to pending list and requested a new container.
 exitStatus=7, diagnostics=[2026-11-21 14:57:12.001]Exception from container-launch.
Shell error output: Unable to find image 'local/nope:1' locally
2026-11-21 14:57:12,600 [main] INFO  anything.Else - not of it
"""

ASSIGNED = f"""\
2026-11-21 14:57:10,466 [Component  dispatcher] INFO  component.Component - [COMPONENT chief]: Assigned {C2} to component instance chief-0 \
and launch on host node1:10871
"""


class Failing:
    """A job that failed, and what its tasks and containers left."""

    def __init__(
        self, world: World, *, over: bool = True, name: str = "mnist", **changes: Any
    ) -> None:
        self.world, self.name = world, name
        world.submitted(name, **changes)
        self.containers = world.runs("chief-0", "worker-0", "worker-1")
        world.hdfs()
        if over:
            world.ends("FAILED")
        self.node, self.failing = world.cluster.node, "worker-0"
        self.master = self.containers["chief-0"][:-6] + "000001"

    def final(self, status: str, diagnostics: str = "", state: str = "FINISHED") -> None:
        """Set what the ResourceManager says of its end."""
        [app] = self.world.cluster.yarn.apps.values()
        app.final, app.words, app.state = status, diagnostics, state

    def _own(self, text: str) -> str:
        """Put this job's containers into the place of the recorded ones."""
        return text.replace(C2, self.containers["chief-0"]).replace(C3, self.containers["worker-0"])

    def left(self, am: str = "", files: Mapping[str, str] | None = None, **report: Any) -> None:
        """Let YARN collect the logs of the ApplicationMaster and of one container, and a report."""
        logs: dict[tuple[str, str], bytes] = {}
        self.node.logs = logs
        logs[self.master, "serviceam.log"] = self._own(ASSIGNED + am).encode()
        for container in self.containers.values():
            script = f"exec python3 {contract.BOOTSTRAP_FILE}\n"
            logs[container, "launch_container.sh"] = script.encode()
        failing = self.containers[self.failing]
        own = {(failing, name): text.encode() for name, text in (files or {}).items()}
        logs |= own
        if report:
            self.world.reports(self.containers["chief-0"], report.pop("state", "failed"), **report)
        self.world.collects()
        self.node.logs |= own  # the NodeManager still has them

    def first(self, task: str, status: int | None, reason: str = "exited", **more: Any) -> Any:
        """Return how a task failed, as a report has it."""
        found = {"task": task, "status": status, "reason": reason, "host": "node1"}
        message = f"{task} exited with status {status}"
        container = self.containers.get(task, "")
        return {**found, "message": message, "container": container, "last_lines": [], **more}

    def why(
        self,
        first: Mapping[str, Any] | None = None,
        *later: Mapping[str, Any],
        am: str = "",
        stderr: str = "",
        stdout: str = "",
        **report: Any,
    ) -> dict[str, Any]:
        """Return the root cause that `status` tells; without a report where none is given."""
        if first or later or report:
            report = {"first_failure": first, "later_failures": list(later), **report}
        self.left(am, {"stderr.txt": stderr, "stdout.txt": stdout}, **report)
        return self.asked()

    def asked(self) -> dict[str, Any]:
        done = self.world("status", self.name, "-o", "json")
        assert done.status == 0, done.err
        return done.json["root_cause"] or {"code": None}


def recorded(name: str) -> list[tuple[str, Any]]:
    found = yaml.safe_load((RECORDED / f"{name}.yaml").read_text("utf-8"))
    return [(code, text) for code, texts in found.items() for text in texts]


def ended(status: int | None, diagnostics: str, **texts: str) -> str:
    """Return the log of an ApplicationMaster of a container that ended so."""
    words = f"Exception from container-launch.\nExit code: {status}\nShell error output: {diagnostics}\n"
    begin, end = PMEM.index("Container [pid"), PMEM.index(", ExitStatus")
    return (PMEM[:begin] + (words if diagnostics else "") + PMEM[end:]).replace("-104", str(status))
