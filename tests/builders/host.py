"""A machine of one user: its directories and settings files, and what `config show` says of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.builders.command_line import Cli, Done

__all__ = ["Host", "hadoop_xml"]


def hadoop_xml(values: Mapping[str, Any]) -> str:
    """Return a file of a Hadoop configuration."""
    rows = (f"<name>{name}</name><value>{value}</value>" for name, value in values.items())
    text = "".join(f"<property>{row}</property>" for row in rows)
    return f"<configuration>{text}</configuration>"


@dataclass
class Host:
    """A machine with settings files, and what `config show` says there in ~/work."""

    cli: Cli
    home: Path

    def __post_init__(self) -> None:
        self.user = self.home / ".config/submit_tf_job/settings.yaml"
        self.project = self.home / "work/submit_tf_job.yaml"
        self.system = self.home.parent / "none.yaml"
        self.profiles = self.home / ".config/submit_tf_job/profiles.d"

    def write(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
        return path

    def hadoop(self, name: str, file: str = "yarn-site.xml", **values: str) -> str:
        values = values or {"yarn.resourcemanager.hostname": name}
        self.write(self.home / name / file, hadoop_xml(values))
        return str(self.home / name)

    def show(self, *words: str, cwd: str = "work", **env: str) -> Done:
        (self.home / cwd).mkdir(parents=True, exist_ok=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.home / cwd)
            for name, value in env.items():
                patch.setenv(name, value)
            return self.cli("config", "show", *words, "-o", "json")

    def value(self, key: str, *words: str, **more: str) -> tuple[Any, str]:
        done = self.show(*words, **more)
        assert done.status == 0, done.err
        found = done.json["settings"][key]
        return found["value"], found["origin"]

    def rms(self, *words: str, **env: str) -> list[str]:
        found: list[str] = self.value("resource_managers", *words, **env)[0]
        return found

    def refused(self, *words: str, **env: str) -> tuple[str, str]:
        done = self.show(*words, **env)
        assert (done.status, done.out) == (2, "")
        error = json.loads(done.err)
        return error["message"], error.get("hint", "")
