"""Read `table.txt`, the table of invalid job specs.

A case is a heading `## …`, the job spec, options (`-- set path=value`, `-- name N`, `-- source
FILE`, `-- defaults JSON`, `-- hadoop_conf DIR`), and after `=>` each line of the full message;
`<job keys>` in a message stands for the list of a job's keys. Required keys that the case lacks are
appended below its text, so that line numbers count from the text of the case; `(alone)` in the
heading leaves them out. `(reader)` names what no JSON Schema
can say: rules between keys, and files.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from submit_tf_job.jobspec import keys

BASE = {
    "name": "t",
    "image": "tf",
    "command": "x",
    "strategy": "single",
    "roles": "{chief: {memory: 4Gi}}",
}
TABLE = Path(__file__).with_name("table.txt")


@dataclass
class Case:
    """One bad job spec."""

    title: str
    text: str
    expected: list[str]
    source: str = "train.yaml"
    overrides: list[str] = field(default_factory=list)
    name: str | None = None
    defaults: dict[str, Any] = field(default_factory=dict)
    hadoop_conf: str | None = None


def cases() -> list[Case]:
    """Read the table."""
    return [_case(block) for block in TABLE.read_text("utf-8").split("\n## ")[1:]]


def _case(block: str) -> Case:
    heading, *lines = block.rstrip("\n").split("\n")
    arrow = lines.index("=>")
    spec = [line for line in lines[:arrow] if not line.startswith("-- ")]
    job_keys = ", ".join(keys.JOB.rows)
    case = Case(heading, "", [line.replace("<job keys>", job_keys) for line in lines[arrow + 1 :]])
    for line in (line for line in lines[:arrow] if line.startswith("-- ")):
        option, value = line[3:].split(" ", 1)
        if option == "set":
            case.overrides.append(value)
        elif option == "defaults":
            case.defaults = json.loads(value)
        else:
            setattr(case, option, value)
    if "(alone)" not in heading and not (spec and spec[0].startswith("{")):
        stated = {line.split(":", 1)[0] for line in spec}
        spec += [f"{key}: {value}" for key, value in BASE.items() if key not in stated]
    case.text = "".join(f"{line}\n" for line in spec)
    return case


def make_files(directory: Path) -> None:
    """Make the files that some cases name."""
    (directory / "good.txt").write_text("good")
    (directory / "tree").mkdir()
    (directory / "tree" / "a.txt").write_text("a")
    (directory / "empty").mkdir()
    (directory / "leaving").mkdir()
    (directory / "leaving" / "out").symlink_to("/etc/hostname")
    (directory / "looping").mkdir()
    (directory / "looping" / "again").symlink_to("../looping")
    os.mkfifo(directory / "pipe")
