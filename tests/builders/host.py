"""A machine of one user: its directories and settings files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from submit_tf_job.settings import Settings, load_settings

__all__ = ["Host"]


@dataclass(frozen=True)
class Host:
    """The directories of one machine, and the settings that its files give."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def project(self) -> Path:
        return self.home / "work"

    @property
    def user_file(self) -> Path:
        return self.home / ".config/submit_tf_job/settings.yaml"

    @property
    def project_file(self) -> Path:
        return self.project / "submit_tf_job.yaml"

    @property
    def system_file(self) -> Path:
        return self.root / "etc/settings.yaml"

    def write(self, path: Path, content: object) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            content if isinstance(content, str) else json.dumps(content), encoding="utf-8"
        )
        path.chmod(0o600)
        return path

    def load(self, *, env: Mapping[str, str] | None = None, **given: Any) -> Settings:
        self.project.mkdir(parents=True, exist_ok=True)
        environ = {"HOME": str(self.home), **(env or {})}
        return load_settings(
            environ=environ, cwd=self.project, system_file=self.system_file, **given
        )
