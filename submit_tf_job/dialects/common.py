"""What several dialects read alike: names, amounts, files of this host, links to fetched files,
TensorBoard, and other frameworks.
"""

from __future__ import annotations

import posixpath
import re
import shlex

from submit_tf_job.dialects.translation import At, Translation
from submit_tf_job.host.located.nodes import clip
from submit_tf_job.jobspec.kinds import as_label

__all__ = [
    "base_name",
    "board_command",
    "is_local",
    "link",
    "local_path",
    "make_parent",
    "mebibytes",
    "put_board",
    "put_file",
    "read_name",
    "refuse_framework",
]

_UNPACK = "import shutil, sys; shutil.unpack_archive(*sys.argv[1:])"
# framework → strategy
_STRATEGIES = {"pytorch": "torch", "torch": "torch", "jax": "jax"}


# --- names ----------------------------------------------------------------------------------------


def read_name(reading: Translation, name: At | None, root: At, why: str) -> None:
    """Put the job's name; without one, `why` says what is missing."""
    if name is None:
        reading.need("name", "name=NAME", root, why)
        return
    label = as_label(name.text())
    reading.put("name", label or name.text(), name)
    if label != name.text():
        name.note(f"{clip(name.text())}, as a name in DNS", "name")


# --- amounts --------------------------------------------------------------------------------------


def mebibytes(number: str, unit: str | None) -> int:
    """Return an amount of memory in MiB: `g` is GiB, and any other unit MiB."""
    return int(number) * (1024 if (unit or "").lower() == "g" else 1)


# --- files ----------------------------------------------------------------------------------------


def is_local(source: str) -> bool:
    """Return whether a path or URI names a file of this host."""
    return "://" not in source or source.startswith("file:")


def local_path(source: str) -> str:
    """Return the path of a file of this host."""
    return re.sub("^file:(//)?", "", source)


def put_file(
    reading: Translation, where: str, source: str, name: str, at: At, *, unpack: bool = False
) -> bool:
    """Add a file of this host to `files`; return False for a file of a file system."""
    if not is_local(source):
        return False
    entry: dict[str, object] = {"src": local_path(source), "dst": name}
    reading.append(where, entry | ({"unpack": True} if unpack else {}), at)
    return True


def base_name(source: str) -> str:
    """Return the last part of a path or URI."""
    return posixpath.basename(source.rstrip("/"))


def link(variable: str, name: str, *, unpack: bool = False) -> str:
    """Return the shell command that puts what a variable names at a path of the working directory.

    Args:
        variable: The name of the environment variable that has the path of a fetched file.
        name: The path.
        unpack: Unpack an archive there, in place of a link.
    """
    target = shlex.quote(name)
    if unpack:
        return f'python3 -c {shlex.quote(_UNPACK)} "${variable}" {target}'
    return f'ln -sfn "${variable}" {target}'


def make_parent(name: str) -> tuple[str, ...]:
    """Return the shell command that makes the directory of a path; none for a plain name."""
    directory = posixpath.dirname(name.rstrip("/"))
    return (f"mkdir -p {shlex.quote(directory)}",) if directory else ()


# --- programs -------------------------------------------------------------------------------------


def board_command(logs: str) -> str:
    """Return the command that starts TensorBoard for a directory of events."""
    directory = re.sub(r"([^\w/.:=-])", r"\\\1", logs)
    return f"tensorboard --logdir {directory} --bind_all --port $TFJOB_PORT_HTTP"


def put_board(reading: Translation, where: str, logs: At, command_at: At, at: At) -> None:
    """Put TensorBoard's command and its port into a role.

    Args:
        reading: The translation.
        where: The role's path.
        logs: The directory of the events.
        command_at: What the command is reported at.
        at: What the port is reported at.
    """
    reading.put(f"{where}.command", board_command(logs.text()), command_at)
    reading.put(f"{where}.ports.http", "auto", at)


def refuse_framework(framework: At) -> None:
    """Report a framework that is not TensorFlow, with the command that prints a starter for it."""
    name = framework.text()
    strategy = _STRATEGIES.get(name.lower(), "custom")
    framework.fail(
        f"{clip(name)} is not TensorFlow; write a job spec: "
        f"`submit_tf_job init --strategy {strategy}`"
    )
