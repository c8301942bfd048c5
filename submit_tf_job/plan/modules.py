"""Read the modules of `container`, which are a part of this package as the plan's code is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from submit_tf_job.container import contract

__all__ = ["container_modules"]


def container_modules(folders: Iterable[str]) -> dict[str, str]:
    """Return the source of each module, by its path below `container`.

    Args:
        folders: Folders of it, each "" or with a slash at its end.
    """
    # not by importlib.resources, whose import takes as long as the rest of `plan`
    root = Path(contract.__file__).parent
    return {
        f"{folder}{path.name}": path.read_text("utf-8")
        for folder in folders
        for path in sorted((root / folder).glob("*.py"))
    }
