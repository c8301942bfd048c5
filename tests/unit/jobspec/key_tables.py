"""The tables of keys in the documentation, made from the key table.

`python -m tests.unit.jobspec.key_tables` writes them anew.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from submit_tf_job.jobspec import keys

DOCS = Path(__file__).parents[3] / "docs"
PAGES = ("job-spec.md", "data.md", "files.md")
_DOCKER = "docker docker_client_config image_policy"
# the keys of a job by topic; those of a role that a first job needs
TOPICS = {
    "first": (keys.JOB, "name image command strategy roles"),
    "first role": (keys.ROLE, "instances memory gpus"),
    "program": (keys.JOB, "env workdir prepare python keras description"),
    "data": (keys.JOB, "files mounts inputs outputs checkpoints"),
    "training": (keys.JOB, "tf_config deciding_role ends_with legacy_master variables"),
    "time": (keys.JOB, "lifetime start_timeout finish_timeout grace stop_grace"),
    "cluster": (keys.JOB, f"queue priority network {_DOCKER} hadoop kerberos"),
    "failures": (keys.JOB, "retries stall_timeout hold_on_failure"),
}
TABLES = {
    "role": keys.ROLE,
    "placement": keys.PLACEMENT,
    "restart": keys.RESTART,
    "retries": keys.RETRIES,
    "stall": keys.STALL,
    "instances": keys.INSTANCES,
    "docker": keys.DOCKER,
    "files": keys.SHIPPED,
    "hadoop": keys.HADOOP,
    "kerberos": keys.KERBEROS,
    "inputs": keys.INPUT,
    "outputs": keys.OUTPUT,
    "python": keys.PYTHON,
}
HEAD = "| key | type | default | example | what it is, and why |\n|---|---|---|---|---|\n"
SHARED_ROW = (
    "| {names} | as for the job | the job's | | A role's `image` and `command` replace the job's. "
    "Its `env` is laid over the job's, name by name; so is its `docker`, key by key. Its `files` "
    "and `mounts` are added; a mount at the same target replaces the job's. |\n"
)
MARKED = re.compile(r"(<!-- keys: ([\w ]+) -->\n)(?:\|.*\n)*")


def shown(value: object) -> str:
    """Return a value as the documentation shows it: YAML's short form on one line."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1000)
    return f"`{text.removesuffix(chr(10)).removesuffix(chr(10) + '...')}`"


def row(key: Any) -> str:
    """Return the row of one key."""
    default = shown(key.default) if key.default is not None else key.otherwise
    default = default or ("required" if key.missing else "none")
    meaning = " ".join(text for text in (key.help, key.more) if text)
    example = shown(key.examples[0])
    return f"| `{key.name}` | {key.kind.shown} | {default} | {example} | {meaning} |\n"


def table(name: str) -> str:
    """Return the table of one topic or mapping; a role's shared keys are one row."""
    if name in TOPICS:
        known, names = TOPICS[name]
        return HEAD + "".join(row(known.rows[key]) for key in names.split())
    of_role = TABLES[name] is keys.ROLE
    shared = {**keys.SHARED, **dict.fromkeys(TOPICS["first role"][1].split())} if of_role else {}
    rows = [row(key) for key in TABLES[name].rows.values() if key.name not in shared]
    if of_role:
        rows.append(SHARED_ROW.format(names=", ".join(f"`{name}`" for name in keys.SHARED)))
    return HEAD + "".join(rows)


def foreign_words() -> str:
    """Return the table of other tools' names for our keys and values."""
    lines = [
        (key.name if key.name in keys.JOB.rows else f"roles.<role>.{key.name}", key.words)
        for key in {**keys.JOB.rows, **keys.ROLE.rows}.values()
        if key.words
    ]
    return "| ours | other tools' |\n|---|---|\n" + "".join(
        f"| `{ours}` | {', '.join(f'`{word}`' for word in words.split())} |\n"
        for ours, words in lines
    )


def regenerated(page: str) -> str:
    """Return a page with its tables made anew."""

    def made(found: re.Match[str]) -> str:
        return found[1] + (foreign_words() if found[2] == "words" else table(found[2]))

    return MARKED.sub(made, page)


if __name__ == "__main__":
    for name in PAGES:
        path = DOCS / name
        path.write_text(regenerated(path.read_text("utf-8")), "utf-8")
