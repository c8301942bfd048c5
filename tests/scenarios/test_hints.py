"""A hint of a cause names what exists: keys of job specs and settings, commands and their options,
pages of the documentation; and what it advises mends the common cases.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.builders.failed_job import FAILURES, Failing, ended, recorded
from tests.cause_table import table
from tests.failures import cases as corpus
from tests.world import World

# programs of the node or of the image, and what a program calls
OTHERS: tuple[str, ...] = (
    "set -e",
    "nvidia-smi ",
    "python ",
    "python3",
    "bash ",
    "init_process_group",
    "logs JOB --am",
)
OTHERS += ("MALLOC_ARENA_MAX", "NCCL_", "hdfs dfs", "yarn.", "docker", "iptables", "tf.compat")
# keys of Hadoop's and Docker's own configuration, and of Python
FOREIGN = {"vmem-pmem-ratio", "open", ":rw", "MemoryError"}


def quoted(hint: str) -> list[str]:
    """Return what a hint writes as code."""
    return re.findall(r"`([^`]+)`", hint)


def names_of(schema: Any) -> Iterator[str]:
    """Yield the keys that a JSON Schema names."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        for inner in schema.values():
            yield from names_of(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from names_of(inner)


class Known:
    """What a hint may name, as the command line tells it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.keys = set(names_of(json.loads(world._cli("schema").out)))
        shown = world("config", "show", "-o", "json").json["settings"]
        self.settings = {part for name in shown for part in (name, *name.split("."))}
        self._helps: dict[str, str] = {}

    def has(self, words: str) -> bool:
        """Return whether what a hint writes as code exists."""
        words = words.replace("{{", "{").replace("}}", "}")
        first, *rest = words.removeprefix("submit_tf_job ").split()
        if words.startswith(OTHERS) or words in FOREIGN:
            return True
        if first == "help":
            return self.world._cli("help", *rest).status == 0
        if words.startswith("--set "):
            return all(
                part in self.keys or part == "NAME" for part in rest[0].split("=")[0].split(".")
            )
        if self.help_of(first):
            return all(option in self.help_of(first) for option in rest if option.startswith("--"))
        return self.has_key(words)

    def has_key(self, words: str) -> bool:
        value = yaml.safe_load(words)
        names = list(value) if isinstance(value, dict) else [str(value)]
        return all(
            part in self.keys | self.settings or part in ("JOB", "NAME")
            for name in names
            for part in name.split(".")
        )

    def help_of(self, command: str) -> str:
        if not re.fullmatch(r"[a-z]+", command):
            return ""
        if command not in self._helps:
            done = self.world._cli(command, "--help")
            self._helps[command] = done.out if done.status == 0 else ""
        return self._helps[command]


def hints(job: Failing) -> Iterator[tuple[str, str]]:
    """Yield the code and the hint of each known text, at the door."""
    for code, text in recorded("programs"):
        yield code, job.why(job.first("worker-0", 1), stderr=f"{text}\n").get("hint", "")
    of_codes = {(one.fields.get("code"), one.fields.get("hint")): one for one in corpus.cases()}
    for case in of_codes.values():
        end = FAILURES[case.category][case.name]
        reason = "killed" if 128 < end["status"] < 160 else "exited"
        first = job.first("worker-0", end["status"], reason)
        cause = job.why(first, stderr=end.get("stderr", ""), stdout=end.get("stdout", ""))
        yield str(cause["code"]), cause["hint"]
    for code, row in recorded("containers"):
        yield code, job.why(am=ended(row["status"], row["said"])).get("hint", "")
    for status in (126, 127, 132, 134, 135, 136, 137, 139, 143):
        cause = job.why(job.first("worker-0", status, "killed" if status > 128 else ""))
        yield str(cause["code"]), cause["hint"]


# what the hint of a code advises, and a job spec that does it
MENDS: dict[str, tuple[str, dict[str, Any]]] = {
    "uri-as-path": ("download: true", {"inputs": {"rows": {"uri": "hdfs:///d", "download": True}}}),
    "keras-3": ("keras: legacy", {"keras": "legacy"}),
    "hdfs-unreachable": ("hadoop: {conf: inline}", {"hadoop": {"conf": "inline"}}),
    "variable-missing": ("env", {"env": {"TOKENS": "3"}}),
    "file-missing": ("files", {"files": ["train.py"]}),
}


def test_hints_name_what_exists(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    known, wrong = Known(world), {}
    told = [*hints(Failing(world)), *(("codes", line) for line in table().splitlines())]
    assert len({hint for _code, hint in told}) > 100
    for code, hint in told:
        pages = re.findall(r"submit_tf_job help ([\w-]+)", hint)
        unknown = [words for words in quoted(hint) if code != "codes" and not known.has(words)]
        unknown += [page for page in pages if world._cli("help", page).status]
        for path in re.findall(r"\broles\.\w+\.(\w+)", hint):
            unknown += [path] * (path not in known.keys)
        if unknown:
            wrong[code, hint] = unknown
    assert not wrong
    (world.home / "train.py").write_text("")
    world.submitted("conf")
    world.hdfs()
    for number, (code, (words, changes)) in enumerate(MENDS.items()):
        assert any(words in hint for told_code, hint in told if told_code == code), code
        done = world("validate", world.spec(f"mended-{number}", **changes))
        assert done.status == 0, (code, done)


def test_more_memory_is_what_the_hint_says(world: World) -> None:
    """With the advised amount the task has room for what it wanted."""
    job = Failing(world)
    case = FAILURES["host_memory"]
    texts = [end.get("stderr", "") for end in case.values()]
    for text in texts:
        cause = job.why(job.first("worker-0", 1), stderr=text)
        if found := re.search(r"try (\d+)(Mi|Gi)", cause["hint"]):
            advised = int(found[1]) * (1024 if found[2] == "Gi" else 1)
            assert advised > (cause["facts"].get("asked_mib") or 0)
            spec = world.spec(
                "more", roles={"worker": {"memory": f"{advised}Mi"}}, strategy="single"
            )
            assert world("validate", spec).status == 0
