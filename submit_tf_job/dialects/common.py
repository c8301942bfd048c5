"""Values that several dialects read in the same way: names, amounts, variables, files, programs and
TensorBoard.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from typing import NamedTuple

from submit_tf_job.dialects.rows import amount
from submit_tf_job.dialects.translation import At
from submit_tf_job.host.quoting import clip
from submit_tf_job.jobspec.kinds import as_label

_UNPACK = "import shutil, sys; shutil.unpack_archive(*sys.argv[1:])"
# framework → strategy
_STRATEGIES = {"pytorch": "torch", "torch": "torch", "jax": "jax"}


# --- names, amounts and variables -----------------------------------------------------------------


def read_name(name: At, root: At, why: str) -> None:
    """Put the job's name, changed to a valid DNS label, into the job spec; if the file has no name,
    demand one by `--set` or `--name`, with the reason `why`.
    """
    if not name:
        root.need("name", "name=NAME", why)
        return
    label, stated = as_label(name.text()), name.text()
    name.put(
        "name", label or stated, f"{clip(stated)}, as a name in DNS" if label != stated else ""
    )


def identifier(text: str, longest: int) -> str:
    """Return a text in the form that the name of an input or output must have."""
    words = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:longest]
    return words if words[:1].isalpha() else f"f_{words}"


def mebibytes(number: str, unit: str | None) -> int:
    """Return an amount of memory in MiB: the unit `g` means GiB, and any other unit MiB."""
    return int(number) * (1024 if (unit or "").lower() == "g" else 1)


class MemoryFormat(NamedTuple):
    """How another system writes amounts of memory: a number and a unit.

    Attributes:
        system: The system's name in messages.
        pattern: Matches number and unit.
        default_mib: The system's default, in MiB.
        example: An amount as the system's users write it, for messages.
    """

    system: str
    pattern: re.Pattern[str]
    default_mib: int
    example: str


def put_memory(where: str, stated: At, role: At, written: MemoryFormat) -> int:
    """Put a role's memory into the job spec, and return it in MiB: the stated amount, or the
    system's default, with a note at `role` if none is stated. Report an amount that is not valid.
    """
    match = written.pattern.fullmatch(stated.text())
    mib = mebibytes(match[1], match[2]) if match else written.default_mib
    if stated and not match:
        amount_of = f"an amount of {written.system}, such as {written.example}"
        stated.fail(f"{clip(stated.text())} is not {amount_of}")
    default = f"{written.default_mib // 1024} GiB, {written.system}'s default"
    (stated or role).put(f"{where}.memory", amount(mib), "" if stated else default)
    return mib


def put_variable(text: str, at: At) -> None:
    """Put a variable for all tasks, written as NAME=VALUE, into the job spec; report any other
    text.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        at.fail(f"expected NAME=VALUE, found {clip(text)}")
    else:
        at.put("env", value, key=name.strip())


# --- files ----------------------------------------------------------------------------------------


def put_file(where: str, source: str, name: str, at: At, *, unpack: bool = False) -> bool:
    """Add a file of this host to the list `files` at the path `where`; return False, and add
    nothing, if the source is a file on another file system.
    """
    if "://" in source and not source.startswith("file:"):
        return False
    entry: dict[str, object] = {"src": re.sub("^file:(//)?", "", source), "dst": name}
    at.append(where, entry | ({"unpack": True} if unpack else {}))
    return True


def base_name(source: str) -> str:
    """Return the last part of a path or URI."""
    return posixpath.basename(source.rstrip("/"))


def check_local(name: str, at: At) -> None:
    """Report a name of a fetched file or of an output if it leads out of the working directory."""
    if posixpath.normpath(name).startswith(("/", "..")):
        at.fail(
            f"{clip(name)} does not lie in the task's working directory; write a short "
            f"relative path without '..'"
        )


def declare(where: str, name: str, uri: str, at: At, note: str = "") -> str:
    """Declare an input or output for a file called `name`.

    Returns:
        The name of the input or output, made from `name`; with a number at its end if another URI
        has that name.
    """
    check_local(name, at)
    stem = identifier(name, 24)
    key, number = stem, 1
    while at.reading.declared.setdefault(f"{where}.{key}", uri) != uri:
        number += 1
        key = f"{stem}{number}"
    at.put(f"{where}.{key}.uri", uri, note)
    return key


def put_input(name: str, uri: str, at: At, note: str = "") -> str:
    """Declare a downloaded input for a file, and return the variable that names it."""
    key = declare("inputs", name, uri, at, note)
    at.put(f"inputs.{key}.download", value=True)
    return f"TFJOB_INPUT_{key.upper()}"


def link(variable: str, name: str, *, unpack: bool = False) -> list[str]:
    """Return shell commands that put a fetched file at a path of the working directory, by a link
    or by unpacking an archive there. `variable` names the file.
    """
    target, directory = shlex.quote(name), posixpath.dirname(name.rstrip("/"))
    action = f'ln -sfn "${variable}" {target}'
    if unpack:
        action = f'python3 -c {shlex.quote(_UNPACK)} "${variable}" {target}'
    return [*([f"mkdir -p {shlex.quote(directory)}"] if directory else []), action]


# --- programs -------------------------------------------------------------------------------------


def quoted(path: str) -> str:
    """Return a path as a word of a shell."""
    return re.sub(r"([^\w/.:=-])", r"\\\1", path)


def put_board(where: str, directory: str, command_at: At, at: At) -> None:
    """Put TensorBoard's command and port into a role. The directory of events is a word of a shell;
    command and port are reported at the places of `command_at` and `at`.
    """
    command = f"tensorboard --logdir {directory} --bind_all --port $TFJOB_PORT_HTTP"
    command_at.put(f"{where}.command", command)
    at.put(f"{where}.ports.http", "auto")


def put_command(path: str, before: list[str], text: str, at: At, note: str) -> None:
    """Put a command into the job spec, after shell lines that it needs; the note is about these
    lines.
    """
    at.put(path, "\n".join([*before, text]), note if before else "")


def refuse_framework(framework: At) -> None:
    """Report a framework other than TensorFlow, with the command that prints a starter job spec for
    it.
    """
    name = framework.text()
    strategy = _STRATEGIES.get(name.lower(), "custom")
    variables = " with `variables: horovod`" if name.lower() == "horovod" else ""
    framework.fail(
        f"{clip(name)} is not TensorFlow; write a job spec{variables}: "
        f"`submit_tf_job init --strategy {strategy}`"
    )


def refuse_index(index: At) -> None:
    """Report a deciding task that is not the first task of its role."""
    if index and index.text() != "0":
        index.fail("task 0 of the deciding role ends the job here; say 0")
