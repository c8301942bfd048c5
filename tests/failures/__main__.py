"""Run the programs and record how they end: `python -m tests.failures [--with ENV=PYTHON …] [NAME …]`.

Each runs in a directory as a container has it. An environment without `--with` is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from tests.failures.cases import RECORDED, Case, cases

APPLICATION = "/data/nm/usercache/alice/appcache/application_1795273005846_0001"
CONTAINER = "container_1795273005846_0001_01_000002"
LONGEST = 24_000


class _Text(str):
    """A text in YAML's block style."""

    __slots__ = ()


yaml.SafeDumper.add_representer(
    _Text,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style="|"),
)


def run(case: Case, python: str) -> dict[str, object]:
    """Run a program and return how it ended."""
    root = Path(tempfile.mkdtemp(prefix="tfjob-"))
    root.chmod(0o755)
    folder = root / CONTAINER
    folder.mkdir()
    for name, text in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("<CR>", "\r"), "utf-8", newline="")
        path.chmod(0o755 if not case.fields.get("mode") else int(case.fields["mode"], 8))
    env = {
        "PATH": f"{Path(python).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "TF_CPP_MIN_LOG_LEVEL": "0",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "LD_LIBRARY_PATH": "",
        **dict(item.split("=", 1) for item in case.listed("env")),
    }
    command = case.fields.get("run", "python train.py")
    limit = int(case.fields.get("limit_mib", 0)) * 2**20
    with (root / "out").open("wb") as out, (root / "err").open("wb") as err:
        done = subprocess.Popen(
            ["bash", "-c", command],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
            if limit
            else None,
        )
        try:
            code = done.wait(240)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(done.pid, signal.SIGKILL)
    status = 128 - code if code < 0 else code
    texts = {
        name: _cleaned((root / file).read_bytes(), root, python)
        for name, file in (("stderr", "err"), ("stdout", "out"))
    }
    shutil.rmtree(root)
    return {"status": status, **{name: _Text(text) for name, text in texts.items() if text}}


def _cleaned(raw: bytes, root: Path, python: str) -> str:
    text = raw.decode("utf-8", "backslashreplace").replace(str(root), APPLICATION)
    text = re.sub(
        r"[^\s\"'(]*/lib/python3\.\d+/site-packages/",
        "/opt/env/lib/python3.11/site-packages/",
        text,
    )
    text = re.sub(r"[^\s\"'(]*/versions/3\.\d+\.\d+/lib/python3", "/usr/lib/python3", text)
    text = text.replace(str(Path(python).parent), "/opt/env/bin")
    text = re.sub(r"/root/\S*?/bin/", "/opt/env/bin/", text)
    if len(text) > LONGEST:
        cut = text.rfind("\n", 0, LONGEST // 2) + 1
        text = text[:cut] + text[text.find("\n", len(text) - LONGEST // 2) + 1 :]
    return text


def main() -> None:
    """Run the chosen programs, and write what they left beside what is recorded of the others."""
    parser = argparse.ArgumentParser(prog="python -m tests.failures", description=__doc__)
    parser.add_argument("--with", dest="envs", action="append", default=[], metavar="ENV=PYTHON")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    pythons = {"base": sys.executable, **dict(item.split("=", 1) for item in options.envs)}
    RECORDED.mkdir(parents=True, exist_ok=True)
    for category in sorted({case.category for case in cases()}):
        path = RECORDED / f"{category}.yaml"
        known = (yaml.safe_load(path.read_text("utf-8")) or {}) if path.exists() else {}
        found = {}
        for case in cases():
            if case.category != category:
                continue
            python = pythons.get(case.fields.get("with", "base"))
            old = known.get(case.name)
            chosen = case.name in options.names or (not options.names and old is None)
            if case.is_text:
                continue
            if chosen and python:
                found[case.name] = run(case, python)
                print(category, case.name, found[case.name]["status"], flush=True)
            elif old is not None:
                found[case.name] = {
                    key: _Text(value) if isinstance(value, str) else value
                    for key, value in old.items()
                }
        path.write_text(
            yaml.safe_dump(found, allow_unicode=True, sort_keys=False, width=1000), "utf-8"
        )


if __name__ == "__main__":
    main()
