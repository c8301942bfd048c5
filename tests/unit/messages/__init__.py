"""Read the tables `*.txt` of commands and what they print: files in, messages out.

A case is a heading `## …`, the files that it needs (`-- NAME` above each; the first is the file of
the table, whose name its first line has), the command (`$ …`, or that of the table), and after
`=> STATUS` every line that is printed. `~` stands for the home directory, which is also the working
directory. A job spec is completed below its text with the keys that it lacks, so that line numbers
count from the text of the case.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
JOB = {
    "name": "mnist",
    "image": "library/tf:2",
    "command": "[python, t.py]",
    "strategy": "multi-worker",
    "roles": "{chief: {memory: 512Mi}, worker: {memory: 512Mi, instances: 2}}",
}
SETTINGS = ".config/submit_tf_job/settings.yaml"


@dataclass(frozen=True)
class Case:
    """One command, its files, and what it prints."""

    table: Path
    block: str
    title: str
    command: list[str]
    files: dict[str, str]
    status: int
    printed: list[str]

    def write(self, status: int, printed: str) -> None:
        """Put what was printed into the table."""
        told = self.block.rpartition("\n=> ")[0]
        text = self.table.read_text("utf-8")
        self.table.write_text(text.replace(self.block, f"{told}\n=> {status}\n{printed}\n"))


def cases() -> list[Case]:
    """Read all tables."""
    found = []
    for table in sorted(HERE.glob("*.txt")):
        head, *blocks = re.split(r"^## ", table.read_text("utf-8"), flags=re.MULTILINE)
        name, command = head.splitlines()[0].split(" $ ")
        found += [_case(table, f"## {block}", name, command) for block in blocks]
    return found


def _case(table: Path, block: str, name: str, command: str) -> Case:
    told, _, printed = block.rpartition("\n=> ")
    title, *lines = told.split("\n")
    files: dict[str, list[str]] = {}
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
        elif line.startswith("-- "):
            name = SETTINGS if line == "-- settings" else line[3:]
            files[name] = []
        else:
            files.setdefault(name, []).append(line)
    texts = {path: "".join(f"{line}\n" for line in text) for path, text in files.items()}
    if "train.yaml" in command:
        texts["train.yaml"] = completed(files.get("train.yaml", []))
    status, *wanted = printed.rstrip("\n").split("\n")
    heading = f"{table.stem}: {title[3:]}"
    return Case(table, block, heading, shlex.split(command), texts, int(status), wanted)


def completed(lines: list[str]) -> str:
    """Return the text of a job spec with the keys that it lacks."""
    stated = {line.partition(":")[0] for line in lines}
    ended = "..." in lines or "".join(lines).startswith("{")
    more = [] if ended else [f"{key}: {value}" for key, value in JOB.items() if key not in stated]
    return "".join(f"{line}\n" for line in [*lines, *more])
