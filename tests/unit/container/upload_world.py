"""Randomised uploads: two writers and one place, lost answers, errors that pass, killed processes
and killed containers, on an HDFS in memory whose rules `tests/world/hdfs_rules.py` checks.

A seed reproduces a history: `play(17)`.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from submit_tf_job.container.data import store, transfer, webhdfs_client
from tests.world.web_hdfs import CLOSE, Fault, WebNameNode

TARGET = "/models/m"
MARK = ".submit_tf_job"
FAULTS = 4  # of a history at most: then HDFS is well again, so that every history ends
PROCESSES = 4  # of one container


class Killed(SystemExit):
    """The process of a writer is gone."""


def at_once(*given: Any) -> Any:
    """Make a `Copying` that tries again without a pause."""
    made = store.Copying(*given)
    made.failed.wait = lambda _pause_s=None: made.failed.is_set()  # type: ignore[assignment]
    return made


class Writer:
    """One task that stores the output: containers one after another, and their processes."""

    def __init__(self, world: World, name: str, overwrite: bool, folder: Path) -> None:
        self.world, self.name, self.overwrite, self.folder = world, name, overwrite, folder
        self.told: list[str] = []  # what the report says
        self.end = ""  # "done", the reason of a failure, or "lost" with its container
        self.over = False
        self.kill: Killed | None = None  # what its process has died of
        self.may_go = threading.Event()
        self.turn_over = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        self.wait()
        try:
            for container in range(1 + self.world.random.choice((0, 0, 1))):
                self.end = self._container(container)
                if self.end != "lost":
                    break
        finally:
            self.over = True
            self.turn_over.set()

    def wait(self) -> None:
        """Wait until the world lets this writer send its next request."""
        self.turn_over.set()
        self.may_go.wait()
        self.may_go.clear()

    def _container(self, number: int) -> str:
        step: dict[str, Any] = {"do": "upload", "name": "m", "uri": f"webhdfs://nn{TARGET}"}
        step |= {"from": str(self.folder), "overwrite": self.overwrite, "run": self.name}
        step |= {"task": "chief-0", "mark": f"{self.name}-chief-0-{number}"}
        for _ in range(PROCESSES):
            heard: list[dict[str, Any]] = []
            self.kill = None

            def tell(heard: list[dict[str, Any]] = heard, **what: Any) -> None:
                heard.append(json.loads(json.dumps(what)))

            try:
                transfer.run({"steps": [step], "patience_s": 1e9}, tell)
            except Killed as kill:
                self._hear(step, heard)
                if str(kill) == "container":
                    return "lost"
                continue
            last = self._hear(step, heard)
            return "done" if last["t"] == "done" else str(last["why"])
        return "done" if "stored" in step else "lost"

    def _hear(self, step: dict[str, Any], heard: list[dict[str, Any]]) -> dict[str, Any]:
        """Keep what the task keeps of the messages of its process."""
        for message in heard:
            if message["t"] == "found":
                step["was"] = message["was"]
            elif message["t"] == "stored":
                step["stored"] = message["old"]
            elif message["t"] == "note":
                self.told.append(message["text"])
        return heard[-1] if heard else {}


class World:
    """The HDFS, its faults, and whose turn it is."""

    def __init__(self, seed: int, folders: Path) -> None:
        self.random = random.Random(seed)
        self.node = WebNameNode()
        self.now_ms = 1_700_000_000_000
        self.node.clock = self._tick
        self.node.before = self._fail
        self.after: list[str] = []  # what happens when the request has been served
        self.faults = self.random.randint(0, FAULTS)
        self.log: list[str] = []
        self.node.make("/models")
        self.was = self.random.choice(("", "", "foreign", "signed"))
        if self.was:
            self.node.put(f"{TARGET}/was", b"was")
        if self.was == "signed":
            self.node.put(f"{TARGET}/{MARK}", b'{"run": "0", "task": "chief-0"}')
        names = "ab"[: self.random.choice((1, 2, 2))]
        self.writers = [
            Writer(self, name, self.random.random() < 0.7, folders / name) for name in names
        ]
        self.acting = self.writers[0]

    def _tick(self) -> int:
        self.now_ms += self.random.choice((0, 1, 5))
        return self.now_ms

    def _fail(self, operation: str, path: str) -> None:
        """Take the acting writer's turn, and perhaps break its request."""
        acting = self.acting
        if acting.kill:
            raise acting.kill
        acting.wait()
        self.log.append(f"{acting.name} {operation} {path}")
        if not self.faults or self.random.random() > 0.08:
            return
        self.faults -= 1
        what = self.random.choice(("error", "lost", "unanswered", "process", "container"))
        after = self.random.random() < 0.5
        self.log.append(f"  {what}{' after it' if after else ''}")
        if what == "unanswered" or (after and what in ("process", "container")):
            self.after.append(what)
            return
        if what in ("process", "container"):
            acting.kill = Killed(what)
            raise acting.kill
        raise Fault(CLOSE) if what == "lost" else Fault(403, "SafeModeException")

    def connection(self) -> Any:
        """Return a connection to the NameNode; a fault after the request costs the answer."""
        world, made = self, self.node.connection()
        request = made.request

        def send(*args: Any, **kinds: Any) -> None:
            world.after.clear()
            request(*args, **kinds)
            for what in world.after:
                if what == "unanswered":
                    raise ConnectionResetError("the answer was lost")
                world.acting.kill = Killed(what)
                raise world.acting.kill

        made.request = send
        return made

    def run(self) -> None:
        """Let the writers send one request after another, until all have ended."""
        for writer in self.writers:
            self.acting = writer
            writer.thread.start()
            writer.turn_over.wait()
        alive = list(self.writers)
        while alive:
            self.acting = self.random.choice(alive)
            self.acting.turn_over.clear()
            self.acting.may_go.set()
            assert self.acting.turn_over.wait(60), self.log[-5:]
            alive = [writer for writer in alive if not writer.over]

    # --- what must hold ---
    def places(self, content: bytes, name: str) -> list[str]:
        """Return the directories that hold this output, or what was there before."""
        found = [path for path, text in self.node.files.items() if text == content]
        return sorted(path[: -len(name) - 1] for path in found if path.endswith(f"/{name}"))

    def check(self) -> None:
        """Check that nothing is lost, and that what is told is so."""
        for writer in self.writers:
            content = writer.name.encode()
            where = self.places(content, "deep/x")
            hidden = [path for path in where if "/.m." in path]
            seen = [path for path in where if path not in hidden]
            for path in where:
                whole = self.node.files.get(f"{path}/y") == content
                assert whole or path in hidden, f"{path} is visible and not whole"
            if writer.end == "done":
                ended = [other for other in self.writers if other.end in ("done", "lost")]
                later = [other for other in ended if other is not writer and other.overwrite]
                assert TARGET in seen or later, f"{writer.name} is told as stored, and is not"
            elif writer.end != "lost":
                told = writer.end.split(" ")[-1]
                assert told in where, f"{writer.name} is told to be at {told}, and is at {where}"
        if self.was:
            where = self.places(b"was", "was")
            # a container may be lost after the output is stored
            ended = [writer for writer in self.writers if writer.end in ("done", "lost")]
            replaced = any(
                writer.overwrite and TARGET in self.places(writer.name.encode(), "deep/x")
                for writer in ended
            )
            killed = any(writer.end == "lost" for writer in self.writers)
            if self.was == "signed" and replaced:
                return
            assert where, "what was there before is gone"
            if not killed:
                assert not any("/.m." in path for path in where), f"hidden at {where}"
                shown = where == [TARGET] or "/.Trash/" in where[0]
                said = any(where[0] in text for writer in self.writers for text in writer.told)
                assert shown or said, f"moved to {where}, which nothing says"


def play(seed: int, patch: Callable[..., None]) -> World:
    """Play one history; `patch` is monkeypatch's `setattr`."""
    with tempfile.TemporaryDirectory() as folders:
        for name in "ab":
            (Path(folders) / name / "deep").mkdir(parents=True)
            for file in ("deep/x", "y"):
                (Path(folders) / name / file).write_bytes(name.encode())
        return _played(World(seed, Path(folders)), patch)


def _played(world: World, patch: Callable[..., None]) -> World:
    patch(webhdfs_client, "_connect", lambda _protocol, _address: world.connection())
    hdfs = webhdfs_client.WebHdfs("http", ["nn"], {"HADOOP_USER_NAME": "alice"})
    patch(sys.modules["submit_tf_job.container.data.upload"], "SIDE_BY_SIDE", 1)
    patch(transfer, "Copying", at_once)
    patch(transfer, "open_store", lambda uri, _env: (hdfs, "/" + uri.partition("nn/")[2]))
    world.run()
    try:
        # the next upload after a container that was lost brings back what that one had hidden
        if any(writer.end == "lost" for writer in world.writers):
            world.faults = 0
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "z").write_bytes(b"z")
                last = Writer(world, "z", overwrite=False, folder=Path(folder))
                world.writers.append(last)
                world.acting = last
                world.node.before = lambda _operation, _path: None
                last.end = last._container(0)
                world.writers.remove(last)
        world.check()
    except AssertionError as error:
        raise AssertionError("\n".join([*world.log, str(error)])) from None
    return world
