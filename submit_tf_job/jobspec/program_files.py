"""Find the program of a command line, and what it imports from its own directory."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from submit_tf_job.errors import UsageError
from submit_tf_job.host.located.nodes import clip

__all__ = ["Program", "find_program", "find_secret"]

_PROGRAMS = (".py", ".sh")
_SECRETS = re.compile(
    r"\.env(\..*)?|\.netrc|\.pypirc|\.git-credentials|id_(rsa|dsa|ecdsa|ed25519)|credentials(\..*)?"
    r"|.*\.(keytab|pem|key|p12|pfx|jks)",
    re.IGNORECASE,
)
_OF_THE_IMAGE = "a program of the image has an absolute path, such as /opt/train.py"
_PYTHON = re.compile(r"(.*/)?python[\d.]*")


@dataclass
class Program:
    """A command line, and the files of this host that it needs.

    Attributes:
        command: The command line, with the program's name in the task's working directory.
        name: The program's name without its directory and ending; "" for a command of the image.
        files: Path on this host → name in the task's working directory.
        notes: What may be missing there.
    """

    command: list[str]
    name: str = ""
    files: dict[Path, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def find_program(command: Sequence[str], base: Path) -> Program:
    """Return the first word that is a program of this host, and what it imports beside it.

    As Python does, modules are looked for in the script's own directory, for `-m MODULE` in the
    working directory. A package travels with all its files, unless one looks like a secret.

    Args:
        command: The command line.
        base: The working directory.

    Raises:
        UsageError: A program or script is named that is not there.
    """
    found = Program(list(command))
    for index, word in enumerate(command):
        if word == "-c":
            break
        if word == "-m":
            _add_module(found, "".join(command[index + 1 : index + 2]), base)
            break
        if word.startswith("-") or (index == 0 and Path(word).is_absolute()):
            continue
        path = base / word
        if path.is_file():
            _add_script(found, index, path)
            break
        if path.suffix in _PROGRAMS and not Path(word).is_absolute():
            raise UsageError(f"{clip(word)} is not in {base}", hint=_OF_THE_IMAGE)
    else:
        words = [word for word in command[1:] if not word.startswith("-")]
        if _PYTHON.fullmatch(command[0]) and words and not words[0].startswith(("/", "$")):
            where = "a directory; say -m" if (base / words[0]).is_dir() else f"not in {base}"
            raise UsageError(f"{clip(words[0])} is {where}", hint=_OF_THE_IMAGE)
    return found


def _add_module(found: Program, name: str, base: Path) -> None:
    top, _, rest = name.partition(".")
    if module := _module(base, top):
        found.name = rest.rpartition(".")[2] or top
        _add(found, module, base, "")


def _add_script(found: Program, index: int, path: Path) -> None:
    """Add a script; one outside the working directory runs by its own name."""
    inside = os.path.normpath(found.command[index])
    if Path(inside).is_absolute() or inside.startswith(".."):
        inside = path.name
        found.command[index] = f"./{inside}" if index == 0 else inside
    found.name = path.stem
    _add(found, path, path.parent, inside[: -len(path.name)])


def _add(found: Program, first: Path, root: Path, prefix: str) -> None:
    """Add a module or script and what it imports, directly or by another, below `root`."""
    queue = [first]
    while queue:
        path = queue.pop()
        if path in found.files:
            continue
        found.files[path] = prefix + path.name
        for source in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            try:
                tops = sorted(set(_imported(source))) if source.suffix == ".py" else []
            except (SyntaxError, ValueError) as error:
                found.notes.append(f"the imports of {source.name} could not be read: {error}")
                continue
            queue += filter(None, (_module(root, top) for top in tops))


def _imported(source: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.read_bytes(), source.name)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        yield from (name.partition(".")[0] for name in names)


def _module(root: Path, name: str) -> Path | None:
    """Return the package or module of that name; a package needs no `__init__.py` (PEP 420)."""
    package, module = root / name, root / f"{name}.py"
    if (package / "__init__.py").is_file():
        return package
    if module.is_file():
        return module
    return package if package.is_dir() and any(package.rglob("*.py")) else None


def find_secret(path: Path) -> Path | None:
    """Return a file of a package that by its name is a secret, such as .env or a keytab."""
    return next((file for file in sorted(path.rglob("*")) if _SECRETS.fullmatch(file.name)), None)
