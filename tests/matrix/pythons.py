"""The package, installed on every Python of this machine that it claims to run on, and all tests
that need no cluster.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.matrix.page import Cell

__all__ = ["Python", "pythons", "run_python"]

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
INSTALL_S, TESTS_S = 480, 1500
PYTEST = (
    *("-q", "-n2", "--dist=loadfile", "--no-header", "--tb=short", "--hypothesis-profile=gate"),
    *("-m", "not cluster and not long"),
)


@dataclass(frozen=True)
class Python:
    """One row: an interpreter, and whether the dependencies are the oldest that are allowed."""

    version: str
    path: str
    lowest: bool = False

    @property
    def title(self) -> str:
        """What the row is called."""
        return f"{self.version}, lowest dependencies" if self.lowest else self.version


def pythons() -> list[Python]:
    """Find the interpreters: on the PATH, or below ~/.pyenv/versions; the oldest twice."""
    found = []
    for version in VERSIONS:
        installed = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
        path = str(installed[-1]) if installed else shutil.which(f"python{version}")
        if path:
            found.append(Python(version, path))
    return [*(Python(first.version, first.path, lowest=True) for first in found[:1]), *found]


def lowest_dependencies() -> list[str]:
    """Pin every dependency of the package to the lowest version that it allows; Python 3.10 has no
    reader of TOML.
    """
    block = re.search(
        r"^dependencies = \[\n(.*?)^\]",
        (ROOT / "pyproject.toml").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    assert block is not None
    return [
        f"{name}=={version}"
        for name, version in re.findall(r'^ *"([\w.-]+)[^"]*?>=\s*([\w.]+)', block[1], re.MULTILINE)
    ]


def run_python(
    python: Python, environ: Mapping[str, str], say: Callable[[str], None]
) -> dict[str, Cell]:
    """Install and test in a directory of its own; what is tested is what was installed."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="matrix-") as directory:
        cell = _install_and_test(python, Path(directory), environ, say)
    cell = Cell(cell.ok, cell.note, time.monotonic() - start)
    say(
        f"Python {python.title}: {'ok' if cell.ok else 'FAILED'}: {cell.note} "
        f"({cell.seconds:.0f} s)"
    )
    return {"tests": cell}


def _install_and_test(
    python: Python, home: Path, environ: Mapping[str, str], say: Callable[[str], None]
) -> Cell:
    bin_ = home / "venv/bin"
    pins = lowest_dependencies() if python.lowest else []
    install = [*(bin_ / "pip", "install", "--quiet", "--disable-pip-version-check")]
    install += [f"{ROOT}[dev,kerberos]", *pins]
    work, paths = home / "work", home / "paths"
    _copy_checkout(work)
    paths.mkdir()
    # on the path: the tests, and not the sources beside them
    (paths / "tests").symlink_to(work / "tests")
    tests = ["env", f"PYTHONPATH={paths}", bin_ / "pytest", *PYTEST]
    if python.lowest:
        # old typer under the newest click; what they say to each other is not ours
        tests += ["-W", "ignore::DeprecationWarning"]
    steps = (
        ([python.path, "-m", "venv", home / "venv"], home, 120, "no virtual environment"),
        (install, home, INSTALL_S, "pip install failed"),
        (tests, work, TESTS_S, ""),
    )
    done = None
    for words, cwd, bound_s, trouble in steps:
        try:
            given = {"cwd": cwd, "env": environ, "timeout": bound_s}
            argv = [str(word) for word in words]
            done = subprocess.run(argv, **given, capture_output=True, text=True)  # type: ignore[call-overload]
        except subprocess.TimeoutExpired:
            return Cell(False, f"{trouble or 'the tests'}: not done after {bound_s} s")
        if done.returncode and trouble:
            return Cell(False, f"{trouble}: {done.stderr.strip()[-500:]}")
    assert done is not None
    last = done.stdout.strip().splitlines()[-1:] or [done.stderr.strip()[-300:]]
    summary = re.sub(r"=+ ?| in [\d.]+s.*", "", last[0]).strip()
    if done.returncode:
        say(done.stdout)
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return Cell(False, "; ".join([summary, *failed[:12]])[:2000])
    return Cell(True, summary + (f"; {', '.join(pins)}" if pins else ""))


def _copy_checkout(target: Path) -> None:
    """Copy what git knows, as it stands in the checkout."""
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True, text=True
    )
    for name in listed.stdout.split("\0"):
        source = ROOT / name
        if name and source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target / name)
