"""A simulated YARN, and the command line on it in virtual time: a command that waits moves the clock.

What it imitates is asserted on a real YARN by the same test bodies (contract.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from submit_tf_job.operations.cluster import Cluster
from submit_tf_job.settings import Settings
from tests.builders.command_line import GOOD, Cli, Done
from tests.builders.host import hadoop_xml
from tests.builders.log_files import log, record, reserved, write_tfile
from tests.world.cluster import FakeCluster
from tests.world.transport import Answer
from tests.world.weather import Fault
from tests.world.yarn import App, Yarn

__all__ = ["World", "world_of"]

RM = "http://rm1:8088"
TASKS = ("chief-0", "worker-0", "worker-1")


class World:
    """A cluster, the files of one user, and the commands that the user types.

    Attributes:
        cluster: The simulated YARN: its clock, applications, nodes, faults of its network.
        home: The user's directory.
    """

    def __init__(self, cli: Cli, home: Path, patch: pytest.MonkeyPatch) -> None:
        self.cluster, self.home, self._cli, self._patch = FakeCluster(), home, cli, patch
        self.application = self.name = ""  # of the run that was submitted last
        self.clock_off_s = 0.0  # how far the clock of the user's machine is ahead
        self.cluster.yarn.on_end = self._ended

    def connect(self, settings: Settings, **_ignored: Any) -> Cluster:
        """Return what `operations.cluster.connect` returns, on this cluster."""
        clock = self.cluster.clock
        return self.cluster.connect(
            settings, wall=lambda: clock.epoch_ms() / 1000 + self.clock_off_s
        )

    def __call__(self, *argv: object, stdin: bytes = b"") -> Done:
        """Run a command; one that needs a cluster gets this one's address."""
        words = [str(word) for word in argv]
        return self._cli(*words, "--rm", RM, stdin=stdin)

    def spec(self, name: str = "mnist", **changes: Any) -> Path:
        """Write a job spec of three tasks; return its path."""
        content = {**yaml.safe_load(GOOD), "name": name, **changes}
        path = self.home / f"{name}.yaml"
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        return path

    def submitted(self, name: str = "mnist", **changes: Any) -> str:
        """Submit a job, let its ApplicationMaster start, and return its application id."""
        done = self("submit", self.spec(name, **changes), "--detach", "-o", "json")
        assert done.status == 0, done.err
        self.passes(10)
        self.application, self.name = str(done.json["application_id"]), str(done.json["run"])
        self.cluster.yarn.containers.clear()
        return self.application

    def passes(self, seconds: float) -> None:
        """Let time pass."""
        self.cluster.clock.sleep(seconds)

    def runs(self, *tasks: str) -> dict[str, str]:
        """Give containers to tasks, as a running ApplicationMaster lists them; task → container."""
        prefix = self.application.replace("application", "container")
        found = {task: f"{prefix}_01_{number:06}" for number, task in enumerate(tasks, 2)}
        for task, container in found.items():
            role = task.rpartition("-")[0]
            row = {
                "id": container,
                "component_instance_name": task,
                "bare_host": "node1",
                "state": "READY",
            }
            self.cluster.yarn.containers.setdefault(role, []).append(row)
            self.cluster.node.containers[container] = "RUNNING"
            self.writes(container, "stderr.txt", "")
            self.am_says(
                f"[COMPONENT {role}]: Assigned {container} to component instance {task} and launch "
                f"on host node1:8041 \n"
            )
        return found

    def running(self, *tasks: str, **changes: Any) -> dict[str, str]:
        """Submit a job and let its commands run; return task → container."""
        self.submitted(**changes)
        found = self.runs(*tasks or TASKS)
        self.reports(next(iter(found.values())), "running")
        return found

    @property
    def yarn(self) -> Yarn:
        return self.cluster.yarn

    @property
    def service(self) -> dict[str, Any]:
        """The service that was posted last."""
        stored = list(self.yarn.directories.values())[-1].spec or {}
        return {name: value for name, value in stored.items() if name != "id"}

    def asked(self) -> list[tuple[str, str]]:
        """Return method and path of the requests since the last call."""
        found = [(method, path) for _, method, path in self.cluster.network.log]
        self.cluster.network.log.clear()
        return found

    def fails(self, times: int, method: str, path: str, answer: Answer | str) -> None:
        """Let the next requests that fit meet an answer, or a fault of `Fault`'s kinds."""
        kind, told = (answer, None) if isinstance(answer, str) else ("instead", answer)
        fault = Fault(kind, method, path, told)
        self.cluster.network.faults += [fault] * times

    def writes(self, container: str, file: str, text: str | bytes | dict[str, Any]) -> None:
        """Let a container write more to a file of its log directory; a dict is JSON."""
        data = json.dumps(text).encode() if isinstance(text, dict) else text
        data = data.encode() if isinstance(data, str) else data
        logs = self.cluster.node.logs
        before = b"" if isinstance(text, dict) else logs.get((container, file), b"")
        logs[container, file] = before + data

    def reports(self, container: str, state: str, /, **values: Any) -> None:
        """Let the deciding task write its report of the job."""
        told = {
            "version": 1,
            "run": self.name,
            "state": state,
            "container": container,
            "wanted": 3,
            "arrived": 3,
            "roles": {"chief": {"wanted": 1}, "worker": {"wanted": 2}},
        }
        self.writes(container, "job-report.json", {**told, **values})

    def of_the_live_one(self) -> None:
        """Take the application that lives for that of the next calls."""
        [app] = [app for app in self.yarn.apps.values() if not app.over]
        self.application, self.name = app.id, app.name
        self.yarn.containers.clear()

    def am_says(self, text: str) -> None:
        """Let the ApplicationMaster write to its log."""
        number = self.application.partition("_")[2]
        self.writes(f"container_{number}_01_000001", "serviceam.log", text)

    def hdfs(self, user: str = "alice", **yarn: str) -> None:
        """Give commands a Hadoop configuration, and YARN's copy of the service, on this disk.

        Args:
            user: Whose service it is.
            yarn: More of yarn-site.xml, by the names there.
        """
        conf, stored = self.home / "conf", self.home / f"{user}/.yarn/services/{self.name}"
        conf.mkdir(exist_ok=True)
        stored.mkdir(parents=True, exist_ok=True)
        logs = {"yarn.nodemanager.remote-app-log-dir": (self.home / "logs").as_uri(), **yarn}
        for file, values in {"yarn": logs, "core": {"fs.defaultFS": "file:///"}}.items():
            (conf / f"{file}-site.xml").write_text(hadoop_xml(values))
        spec = {**(self.yarn.directories[user, self.name].spec or {}), "id": self.application}
        (stored / f"{self.name}.json").write_text(json.dumps(spec))
        self._patch.setenv("SUBMIT_TF_JOB_HADOOP_CONF", str(conf))

    def collects(self, status: str | None = "SUCCEEDED") -> None:
        """Collect the logs of the application, and delete those of the NodeManager."""
        node, number = self.cluster.node, self.application.partition("_")[2]
        parts: dict[str, bytes] = {}
        for (container, file), data in node.logs.items():
            if number in container:
                parts[container] = parts.get(container, b"") + log(file, data)
        records = [*reserved(), *(record(owner, data) for owner, data in parts.items())]
        folder = self.home / "logs/alice/bucket-logs-tfile" / number[-4:] / self.application
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "node1_8041").write_bytes(write_tfile([records]))
        node.logs.clear()
        self.yarn.aggregation = status

    def _ended(self, app: App) -> None:
        prefix = app.id.replace("application", "container")
        node = self.cluster.node
        self.yarn.containers.clear()
        node.containers.update({c: "COMPLETE" for c in node.containers if c.startswith(prefix)})
        node.ended |= {container for container, _file in node.logs if container.startswith(prefix)}

    def ends(self, final: str = "SUCCEEDED", state: str = "FINISHED") -> None:
        """End the application that runs."""
        [app] = [app for app in self.cluster.yarn.apps.values() if not app.over]
        self.cluster.yarn.end(app, state, final)


@contextmanager
def world_of(cli: Cli, home: Path) -> Iterator[World]:
    """Let every command of this process meet one simulated cluster."""
    with pytest.MonkeyPatch.context() as patch:
        made = World(cli, home, patch)
        for place in ("operations.cluster", "sdk.client"):
            patch.setattr(f"submit_tf_job.{place}.connect", made.connect)
        expanded = "submit_tf_job.storage.local_files.LocalStorage.home"
        patch.setattr(expanded, lambda _storage, user: str(home / user))
        yield made
