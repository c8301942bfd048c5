"""The services API inside one ResourceManager's process, step by step.

Each method is the Hadoop method of its name as a generator: between two steps the process may die,
stand still, or others may act. From 3.3.5, and where said from 3.1.3:

- ServiceClient.actionCreate: validateAndResolveService, verifyNoLiveAppInRM,
  checkAppNotExistOnHdfs (NAME.json alone), createDirAndPersistApp (mkdirs, then JsonSerDeser.save:
  create with overwrite, then write), submitApp, writeAppDefinition (again create and write, which
  makes the directory anew where it was deleted meanwhile). Nothing locks the name but the lease of
  HDFS: who creates the file anew takes it from whoever is writing (FSNamesystem.checkLease), so of
  several POSTs at the same moment one goes on. Only a server that stands still between its check
  and its create, until another POST has closed the file, would go on, too.
- A YarnException of submitApp calls actionDestroy (3.3.1 and later, YARN-10437); an IOException
  and everything in 3.1 leaves the stored service behind.
- ApiServer.deleteService is actionStop(name, wait) whose exceptions are swallowed, then
  actionDestroy: verifyNoLiveAppInRM, delete the directory, remove the registry's path. It deletes
  what has the name at that moment.
- ServiceClient.getStatus: the id from NAME.json, then the application's report, then the AM; each
  from another moment. Before 3.2 it shows the id only where the AM answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.histories.hadoop import App, Cluster, Directory, Key, Server, key_of
from tests.histories.kernel import Steps

__all__ = ["Services"]

TORN = (
    "No content to map due to end-of-input\n at [Source: "
    "(org.apache.hadoop.hdfs.client.HdfsDataInputStream); line: 1, column: 0]"
)
FORGIVEN_S = 180.0  # as long a POST may take (docs/verdict.md)
PRE_RUNNING = ("NEW_SAVING", "SUBMITTED", "ACCEPTED")
Answer = tuple[int, dict[str, Any]]


class YarnException(Exception):
    """What Hadoop throws when YARN refuses."""


class Services:
    """One request to the services API.

    Args:
        cluster: The cluster.
        server: The process that works on it.
        key: The user and the service's name.
        by: The command that sent it.
        sent_at: When.
        slow: Returns seconds by which a step takes longer, by the step's name.
    """

    def __init__(
        self,
        cluster: Cluster,
        server: Server,
        key: Key,
        by: str,
        sent_at: float,
        slow: Callable[[str], float],
    ) -> None:
        self.cluster, self.server, self.key, self.by, self.slow = cluster, server, key, by, slow
        self.rng, self.sent_at = cluster.rng, sent_at

    def _log(self, words: str) -> None:
        self.cluster.kernel.log(self.server.address, f"[{self.by}] {words}")

    def _io(self, step: str) -> Steps:
        extra = self.slow(step)
        if extra:
            self._log(f"takes {extra:.1f} s before: {step}")
        yield self.rng.uniform(0.003, 0.03) + extra

    # --- ApiServer ---

    def create(self, spec: dict[str, Any]) -> Steps:
        """POST /services."""
        try:
            app_id = yield from self._action_create(spec)
        except YarnException as error:
            words = str(error)
            if "already exists" in words:
                words = f"Service name {self.key[1]} is already taken."
            return 500, {"diagnostics": words}
        except FileNotFoundError as error:
            return 500, {"diagnostics": str(error)}
        said = {"uri": f"/v1/services/{self.key[1]}", "state": "ACCEPTED"}
        return 202, {**said, "diagnostics": f"Application ID: {app_id}"}

    def get(self) -> Steps:
        """GET /services/NAME."""
        try:
            shown = yield from self._get_status()
        except FileNotFoundError:
            return 404, {"diagnostics": f"Service {self.key[1]} not found", "code": 404004}
        except (YarnException, OSError) as error:
            return 500, {"diagnostics": str(error)}
        return 200, shown

    def delete(self) -> Steps:
        """DELETE /services/NAME."""
        name = self.key[1]
        try:
            yield from self._action_stop(wait=True)
        except (YarnException, OSError) as error:
            self._log(f"DELETE could not stop: {str(error)[:60]}")
        try:
            found = yield from self._action_destroy()
        except YarnException as error:
            return 400, {"diagnostics": str(error)}
        if not found:
            return 400, {"diagnostics": f"Service {name} doesn't exist"}
        return 200, {"diagnostics": f"Successfully destroyed service {name}"}

    def stop(self) -> Steps:
        """PUT /services/NAME with the state STOPPED."""
        try:
            stopped = yield from self._action_stop(wait=False)
        except FileNotFoundError as error:
            return 404, {"diagnostics": str(error)}
        except (YarnException, OSError) as error:
            return 500, {"diagnostics": str(error)}
        if not stopped:
            return 400, {"diagnostics": f"Service {self.key[1]} is already stopped"}
        return 200, {"diagnostics": f"Successfully stopped service {self.key[1]}"}

    # --- ServiceClient ---

    def _action_create(self, spec: dict[str, Any]) -> Steps:
        yield from self._io("validate")
        yield from self._verify_no_live_app("create")
        yield from self._io("checkAppNotExistOnHdfs")
        where = self.cluster.directories.get(self.key)
        if where is not None and where.has_file:
            raise YarnException("Service Instance dir already exists")
        yield self.rng.uniform(0.001, 0.005)  # mkdirs
        self._directory()
        yield from self._save(spec)
        try:
            app_id = yield from self._submit_app(spec)
        except YarnException:
            if self.cluster.site.version >= (3, 3, 1):
                yield from self._action_destroy()
            raise
        yield from self._save({**spec, "id": app_id})
        return app_id

    def _directory(self) -> Directory:
        kernel = self.cluster.kernel
        made = Directory(kernel.now, changed_ms=kernel.epoch_ms())
        return self.cluster.directories.setdefault(self.key, made)

    def _save(self, spec: dict[str, Any]) -> Steps:
        """JsonSerDeser.save: create with overwrite, then write."""
        epoch_ms = self.cluster.kernel.epoch_ms
        if "id" in spec:
            yield from self._io("create file")
        where = self._directory()
        if "id" not in spec and where.spec is not None:
            self._log(f"writes over what {where.by} has stored since the name was looked at")
            self.cluster.raced.add(self.key[1])
        lease = object()
        where.spec, where.text, where.writer, where.by = None, None, lease, self.by
        where.written_ms = where.changed_ms = epoch_ms()
        yield 0.005
        yield from self._io("write file")
        here = self.cluster.directories.get(self.key)
        if here is None or here.writer is not lease:
            name = self.key[1]
            raise FileNotFoundError(
                f"File does not exist: /user/{self.key[0]}/.yarn/services/{name}/{name}.json "
                f"(inode 16501) Holder DFSClient_NONMAPREDUCE_-1_93 does not have any open files."
            )
        where.spec, where.text, where.writer, where.by = spec, None, None, self.by
        where.written_ms = epoch_ms()
        self._log(f"stores {self.key[1]} of {key_of(spec)} with id {spec.get('id')}")

    def _submit_app(self, spec: dict[str, Any]) -> Steps:
        yield from self.cluster.leader()
        app_id, stored_at = self.cluster.new_id(), self.cluster.kernel.now
        yield from self._io("upload jars")
        yield self.rng.uniform(*self.cluster.site.jars_s)
        self._directory().jars = True
        yield from self._io("submitApplication")
        yield from self.cluster.leader()
        if key_of(spec) in self.cluster.refused:
            raise YarnException(
                f"Failed to submit {app_id} to YARN : Application {app_id} submitted by "
                f"user {self.key[0]} to unknown queue: nowhere"
            )
        if self.cluster.kernel.now - stored_at > FORGIVEN_S:
            self.cluster.slow.add(app_id)
        self.cluster.accept(app_id, self.key, spec, self.by, self.sent_at)
        while True:  # YarnClientImpl.submitApplication
            yield self.rng.uniform(0.1, 0.2)
            yield from self.cluster.leader()
            app = self.cluster.apps.get(app_id)
            if app is None:
                self._log(f"submits {app_id} again")
                self.cluster.accept(app_id, self.key, spec, self.by, self.sent_at)
            elif app.state in ("FAILED", "KILLED"):
                raise YarnException(f"Failed to submit {app_id} to YARN : {app.words}")
            elif app.state not in ("NEW_SAVING", "SUBMITTED"):
                break
        yield from self._io("after submitApplication")
        return app_id

    def _verify_no_live_app(self, action: str) -> Steps:
        yield from self._io("verifyNoLiveAppInRM")
        yield from self.cluster.leader()
        if self.cluster.live(self.key):
            if action == "destroy":
                raise YarnException(
                    f"Failed to destroy service {self.key[1]}, because it is still running."
                )
            raise YarnException(f"Failed to {action} service, because it already exists.")

    def _load(self) -> dict[str, Any]:
        where = self.cluster.directories.get(self.key)
        if where is None or not where.has_file:
            name = self.key[1]
            raise FileNotFoundError(
                f"File does not exist: /user/{self.key[0]}/.yarn/services/{name}/{name}.json"
            )
        if where.spec is None:
            raise OSError(TORN)
        return where.spec

    def _action_stop(self, *, wait: bool) -> Steps:
        yield from self._io("getAppId")
        app_id = self._load().get("id")
        name = f"the stop of {self.by}"
        if not app_id:
            self.cluster.wipe(self.key, name)
            return False
        yield from self._io("getApplicationReport")
        yield from self.cluster.leader()
        app = self.cluster.app(app_id)
        if app is None:
            raise YarnException(f"Application with id '{app_id}' doesn't exist in RM.")
        state = self.cluster.seen(app)
        if app.over:
            self.cluster.wipe(self.key, name)
            return False
        yield from self._io("stop")
        self._log(f"stops {app_id}")
        if state in PRE_RUNNING:
            yield from self._kill(app)
            self.cluster.wipe(self.key, name, app.id)
            return True
        self.cluster.ended_by(app, self.by)
        self.cluster.stop(app, self.by)
        if wait:
            yield from self._until_over(app)
        self.cluster.wipe(self.key, name, app.id)
        return True

    def _kill(self, app: App) -> Steps:
        self.cluster.ended_by(app, self.by)
        self.cluster.kill(app, self.by)
        while not app.over:
            yield 0.2

    def _until_over(self, app: App) -> Steps:
        begun = self.cluster.kernel.now
        while True:
            yield 2.0
            yield from self.cluster.leader()
            if app.over:
                return
            if self.cluster.kernel.now - begun > 10:
                yield from self._kill(app)
                return

    def _action_destroy(self) -> Steps:
        yield from self._verify_no_live_app("destroy")
        yield from self._io("delete directory")
        where = self.cluster.directories.pop(self.key, None)
        if where is not None:
            self.cluster.destroyed(self.key, self.by)
        yield from self._io("clean up registry")
        self.cluster.wipe(self.key, f"the DELETE of {self.by}")
        return where is not None

    def _get_status(self) -> Steps:
        yield from self._io("read file")
        spec, name = self._load(), self.key[1]
        shown: dict[str, Any] = {
            "name": name,
            "state": "STOPPED",
            "components": [],
            "configuration": {"properties": {}, "env": {}, "files": []},
        }
        app_id = spec.get("id")
        if not app_id:
            return shown
        old = self.cluster.site.version < (3, 2)
        if not old:
            shown["id"] = app_id
        yield from self._io("getApplicationReport")
        yield from self.cluster.leader()
        app = self.cluster.apps.get(app_id)
        if app is None or not self.cluster.knows(app):
            if old:
                raise YarnException(f"Application with id '{app_id}' doesn't exist in RM.")
            return shown
        state = self.cluster.seen(app)
        shown["state"] = "ACCEPTED" if not app.over else "STOPPED"
        if app.state == "FAILED":
            shown["state"] = "FAILED"
        if state != "RUNNING":
            return shown
        yield from self._io("ask the AM")
        if app.state != "RUNNING" or app.runs is None or not self.cluster.site.am_answers:
            raise OSError("Call From rm1 to node1:37007 failed on connection exception")
        return {**_trimmed(app.runs), "state": "STARTED" if app.ran_from is None else "STABLE"}


def _trimmed(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a service as its AM shows it, without the contents of its files."""
    parts = [
        {"name": part["name"], "number_of_containers": part["number_of_containers"]}
        for part in spec["components"]
    ]
    return {
        "name": spec["name"],
        "version": spec.get("version"),
        "id": spec.get("id"),
        "components": parts,
        "configuration": {"properties": spec["configuration"]["properties"]},
    }
