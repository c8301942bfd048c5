"""The services API inside one ResourceManager's process, step by step.

Each method is the Hadoop method of its name as a generator: between two steps the process may die,
stand still, or others may act. From 3.3.5, and where said from 3.1.3:

- ServiceClient.actionCreate: validateAndResolveService, verifyNoLiveAppInRM,
  checkAppNotExistOnHdfs (NAME.json alone), createDirAndPersistApp (mkdirs, then JsonSerDeser.save:
  create with overwrite, then write), submitApp, writeAppDefinition (again create and write, which
  makes the directory anew where it was deleted meanwhile). Nothing locks the name but the lease of
  HDFS: who creates the file anew takes it from whoever is writing (FSNamesystem.checkLease), so of
  several POSTs at the same moment one goes on. Only a server that stands still between its check
  and its create, until another POST has closed the file, goes on, too, and uploads the
  ApplicationMaster's configuration again: an ApplicationMaster whose configuration is localised
  after that cannot start (docs/internals/hadoop-facts.md#two-posts-of-one-name).
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

from tests.world.clock import Steps
from tests.world.yarn import App, Directory, Key, Server, Site, Yarn, key_of

__all__ = ["Services"]

TORN = (
    "No content to map due to end-of-input\n at [Source: "
    "(org.apache.hadoop.hdfs.client.HdfsDataInputStream); line: 1, column: 0]"
)
CONF_S = 0.04  # to write the ApplicationMaster's configuration into the service's directory
FORGIVEN_S = 180.0  # as long a POST may take (docs/verdict.md)
PRE_RUNNING = ("NEW_SAVING", "SUBMITTED", "ACCEPTED")
Answer = tuple[int, dict[str, Any]]


class YarnException(Exception):
    """What Hadoop throws when YARN refuses.

    Attributes:
        leaves: Whether the stored service stays, although the submission failed.
    """

    def __init__(self, words: str, status: int = 500, *, java: str = "", leaves: bool = False):
        super().__init__(words)
        self.status, self.java, self.leaves = status, java, leaves

    def answer(self) -> Answer:
        """Return what ApiServer makes of it."""
        if not self.java:
            return self.status, {"diagnostics": str(self)}
        thrown = {"exception": self.java.rpartition(".")[2], "message": str(self)}
        return self.status, {**thrown, "javaClassName": self.java}


class Services:
    """One request to the services API.

    Args:
        yarn: The cluster.
        server: The process that works on it.
        key: The user and the service's name.
        by: The command that sent it.
        sent_at: When.
        slow: Returns seconds by which a step takes longer, by the step's name.
    """

    def __init__(
        self,
        yarn: Yarn,
        server: Server,
        key: Key,
        by: str,
        sent_at: float,
        slow: Callable[[str], float],
    ) -> None:
        self.yarn, self.server, self.key, self.by, self.slow = yarn, server, key, by, slow
        self.rng, self.sent_at = yarn.rng, sent_at

    def _log(self, words: str) -> None:
        self.yarn.clock.log(self.server.address, f"[{self.by}] {words}")

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
            if "already exists" in str(error):
                return 500, {"diagnostics": f"Service name {self.key[1]} is already taken."}
            return error.answer()
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

    def set_lifetime(self, lifetime_s: int) -> Steps:
        """PUT /services/NAME with a lifetime: from now on, and not longer than the queue allows."""
        yield from self._io("updateLifetime")
        try:
            app = self.yarn.app(self._load().get("id", ""))
        except FileNotFoundError as error:
            return 404, {"diagnostics": str(error)}
        if app is not None:
            past_s = (self.yarn.clock.epoch_ms() - app.started_ms) // 1000
            app.lifetime_s = past_s + min(lifetime_s, self.yarn.site.longest_s)
        return 200, {"diagnostics": f"Service ({self.key[1]})'s lifeTime is updated"}

    def flex(self, component: str, number: int) -> Steps:
        """PUT /services/NAME/components/COMPONENT."""
        yield from self._io("flex")
        try:
            spec = self._load()
        except OSError as error:
            return 500, {"diagnostics": str(error)}
        app = self.yarn.app(spec.get("id", ""))
        state = self.yarn.seen(app) if app else "FINISHED"
        if app is None or state != "RUNNING":
            words = f"{self.key[1]} is at {state} state, flex can only be invoked when service is running"
            return 500, {"diagnostics": words}
        before = {one["name"]: one["number_of_containers"] for one in spec["components"]}
        if component not in before:
            words = f"Components [{component}] do not exist in app definition."
            return 500, {"diagnostics": words}
        parts = [
            {**one, "number_of_containers": number} if one["name"] == component else one
            for one in spec["components"]
        ]
        where = self._directory()
        where.spec, where.text = {**spec, "components": parts}, None
        app.runs = where.spec
        words = f"Updating component ({component}) size from {before[component]} to {number}"
        return 200, {"diagnostics": words}

    # --- ServiceClient ---

    def _action_create(self, spec: dict[str, Any]) -> Steps:
        yield from self._io("validate")
        check_spec(spec)
        yield from self._verify_no_live_app("create")
        yield from self._io("checkAppNotExistOnHdfs")
        where = self.yarn.directories.get(self.key)
        if where is not None and where.has_file:
            raise YarnException("Service Instance dir already exists")
        yield self.rng.uniform(0.001, 0.005) + self.slow("mkdirs")
        if self.key[0] not in self.yarn.site.users:
            words = f"Permission denied: user={self.key[0]}, access=WRITE, "
            words += 'inode="/user":root:supergroup:drwxr-xr-x'
            at = "\n\tat org.apache.hadoop.hdfs.server.namenode.FSPermissionChecker.check(X.java:1)"
            raise YarnException(words + at, 403)
        self._directory()
        yield from self._save(spec)
        try:
            app_id = yield from self._submit_app(spec)
        except YarnException as refused:
            if self.yarn.site.version >= (3, 3, 1) and not refused.leaves:
                yield from self._action_destroy()
            raise
        yield from self._save({**spec, "id": app_id})
        return app_id

    def _directory(self) -> Directory:
        clock = self.yarn.clock
        made = Directory(clock.now, changed_ms=clock.epoch_ms())
        return self.yarn.directories.setdefault(self.key, made)

    def _save(self, spec: dict[str, Any]) -> Steps:
        """JsonSerDeser.save: create with overwrite, then write."""
        epoch_ms = self.yarn.clock.epoch_ms
        if "id" in spec:
            yield from self._io("create file")
        where = self._directory()
        if "id" not in spec and where.spec is not None:
            self._log(f"writes over what {where.by} has stored since the name was looked at")
            self.yarn.raced.add(self.key[1])
        lease = object()
        where.spec, where.text, where.writer, where.by = None, None, lease, self.by
        where.written_ms = where.changed_ms = epoch_ms()
        yield 0.005
        yield from self._io("write file")
        here = self.yarn.directories.get(self.key)
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
        yield from self.yarn.leader()
        check_limits(spec, self.yarn.site)
        app_id, stored_at = self.yarn.new_id(), self.yarn.clock.now
        yield from self._io("upload jars")
        jars_s = self.rng.uniform(*self.yarn.site.jars_s)
        yield max(0.0, jars_s - CONF_S)
        where = self._directory()
        where.jars, where.conf_of = True, app_id
        yield min(jars_s, CONF_S)
        if where.conf_of != app_id:
            raise FileNotFoundError(
                f"File does not exist: /user/{self.key[0]}/.yarn/services/{self.key[1]}/conf/"
                f"yarnservice-log4j.properties (inode 16427) Holder DFSClient_NONMAPREDUCE_14_36 "
                f"does not have any open files."
            )
        yield from self._io("submitApplication")
        yield from self.yarn.leader()
        queue = "nowhere" if key_of(spec) in self.yarn.refused else spec.get("queue", "default")
        if queue not in self.yarn.site.queues or self.yarn.rejection:
            words = self.yarn.rejection or (
                f"Application {app_id} submitted by user {self.key[0]} to unknown queue: {queue}"
            )
            self.yarn.reject(app_id, self.key, spec, self.by, self.sent_at, words)
            raise YarnException(f"Failed to submit {app_id} to YARN : {words}")
        if self.yarn.clock.now - stored_at > FORGIVEN_S:
            self.yarn.slow.add(app_id)
        self.yarn.accept(app_id, self.key, spec, self.by, self.sent_at)
        while True:  # YarnClientImpl.submitApplication
            yield self.rng.uniform(0.1, 0.2)
            yield from self.yarn.leader()
            app = self.yarn.apps.get(app_id)
            if app is None:
                self._log(f"submits {app_id} again")
                self.yarn.accept(app_id, self.key, spec, self.by, self.sent_at)
            elif app.state in ("FAILED", "KILLED"):
                raise YarnException(f"Failed to submit {app_id} to YARN : {app.words}")
            elif app.state not in ("NEW_SAVING", "SUBMITTED"):
                break
        yield from self._io("after submitApplication")
        return app_id

    def _verify_no_live_app(self, action: str) -> Steps:
        yield from self._io("verifyNoLiveAppInRM")
        yield from self.yarn.leader()
        if self.yarn.live(self.key):
            if action == "destroy":
                words = f"Failed to destroy service {self.key[1]}, because it is still running."
                raise YarnException(words)
            raise YarnException(f"Failed to {action} service, because it already exists.")

    def _load(self) -> dict[str, Any]:
        where = self.yarn.directories.get(self.key)
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
            self.yarn.wipe(self.key, name)
            return False
        yield from self._io("getApplicationReport")
        yield from self.yarn.leader()
        app = self.yarn.app(app_id)
        if app is None:
            raise YarnException(f"Application with id '{app_id}' doesn't exist in RM.")
        state = self.yarn.seen(app)
        if app.over:
            self.yarn.wipe(self.key, name)
            return False
        yield from self._io("stop")
        self._log(f"stops {app_id}")
        if state in PRE_RUNNING:
            yield from self._kill(app)
            self.yarn.wipe(self.key, name, app.id)
            return True
        self.yarn.ended_by(app, self.by)
        self.yarn.stop(app, self.by)
        if wait:
            yield from self._until_over(app)
        self.yarn.wipe(self.key, name, app.id)
        return True

    def _kill(self, app: App) -> Steps:
        self.yarn.ended_by(app, self.by)
        self.yarn.kill(app, self.by)
        while not app.over:
            yield 0.2

    def _until_over(self, app: App) -> Steps:
        begun = self.yarn.clock.now
        while True:
            yield 2.0
            yield from self.yarn.leader()
            if app.over:
                return
            if self.yarn.clock.now - begun > 10:
                yield from self._kill(app)
                return

    def _action_destroy(self) -> Steps:
        yield from self._verify_no_live_app("destroy")
        yield from self._io("delete directory")
        where = self.yarn.directories.pop(self.key, None)
        if where is not None:
            self.yarn.destroyed(self.key, self.by)
        yield from self._io("clean up registry")
        self.yarn.wipe(self.key, f"the DELETE of {self.by}")
        return where is not None

    def _get_status(self) -> Steps:
        yield from self._io("read file")
        spec, name = self._load(), self.key[1]
        shown: dict[str, Any] = {
            "name": name,
            "state": "STOPPED",
            "components": [],
            "configuration": {"properties": {}, "env": {}, "files": []},
            "quicklinks": {},
            "kerberos_principal": {},
        }
        app_id = spec.get("id")
        if not app_id:
            return shown
        old = self.yarn.site.version < (3, 2)
        if not old:
            shown["id"] = app_id
        yield from self._io("getApplicationReport")
        yield from self.yarn.leader()
        app = self.yarn.apps.get(app_id)
        if app is None or not self.yarn.knows(app):
            if old:
                raise YarnException(f"Application with id '{app_id}' doesn't exist in RM.")
            return shown
        state = self.yarn.seen(app)
        shown["state"] = "ACCEPTED" if not app.over else "STOPPED"
        if app.state == "FAILED":
            shown["state"] = "FAILED"
        if state != "RUNNING":
            return shown
        yield from self._io("ask the AM")
        if app.state != "RUNNING" or app.runs is None or not self.yarn.site.am_answers:
            raise OSError("Call From rm1 to node1:37007 failed on connection exception")
        state = "STARTED" if app.ran_from is None else "STABLE"
        return {**self._shown(app.runs), "state": self.yarn.service_state or state}

    def _shown(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Return a service as its AM shows it, without the contents of its files."""
        parts = [
            {
                **part,
                "configuration": {**part.get("configuration", {}), "files": []},
                "state": "FLEXING",
                "containers": self.yarn.containers.get(part["name"], []),
            }
            for part in spec["components"]
        ]
        whole = {**spec.get("configuration", {}), "files": []}
        return {**spec, "components": parts, "configuration": whole}


# The wire's own names (yarn-services 2), kept apart from the records under test.
_KNOWN = {
    record: frozenset(names.split())
    for record, names in {
        "Service": "name version description id artifact resource launch_time "
        "number_of_running_containers lifetime components configuration state quicklinks queue "
        "kerberos_principal docker_client_config uri dependencies",
        "Component": "name dependencies readiness_check artifact launch_command resource "
        "number_of_containers decommissioned_instances run_privileged_container placement_policy "
        "configuration quicklinks containers restart_policy state",
        "Resource": "profile cpus memory additional uri",
        "Configuration": "properties env files",
        "ConfigFile": "type dest_file src_file properties",
    }.items()
}


def check_spec(spec: dict[str, Any]) -> None:
    """Refuse what the server refuses before it stores anything."""
    _check_fields("Service", spec)
    for component in spec.get("components", []):
        _check_fields("Component", component)
        _check_fields("Resource", component.get("resource", {}))
    for one in (spec, *spec.get("components", [])):
        configuration = one.get("configuration") or {}
        _check_fields("Configuration", configuration)
        for file in configuration.get("files", []):
            _check_fields("ConfigFile", file)
    if not spec.get("version"):
        words = f"Version of service {spec['name']} is either empty or not provided"
        raise YarnException(words, 400)
    if not spec.get("components"):
        raise YarnException(f"No component specified for {spec['name']}", 400)


def _check_fields(record: str, value: dict[str, Any]) -> None:
    if unknown := next((key for key in value if key not in _KNOWN[record]), None):
        known = ", ".join(f'"{name}"' for name in sorted(_KNOWN[record]))
        words = (
            f'Unrecognized field "{unknown}" (class org.apache.hadoop.yarn.service.api.records.'
            f"{record}), not marked as ignorable ({len(_KNOWN[record])} known properties: {known}])"
            "\n at [Source: (org.eclipse.jetty.server.HttpInputOverHTTP); line: 1, column: 1]"
        )
        java = "com.fasterxml.jackson.databind.exc.UnrecognizedPropertyException"
        raise YarnException(words, 404, java=java)


def check_limits(spec: dict[str, Any], site: Site) -> None:
    """Refuse what asks for larger containers than there are."""
    for component in spec["components"]:
        memory = component["resource"]["memory"]
        if not memory.isdigit():
            raise YarnException(f'For input string: "{memory}"', 400, leaves=True)
        if int(memory) > site.max_mb:
            words = f"Component {component['name']}: specified memory size ({memory}) is larger"
            raise YarnException(
                f"{words} than configured max container memory size ({site.max_mb})"
            )
