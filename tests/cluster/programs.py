"""Programs that stand in for those of containers."""

from __future__ import annotations

from pathlib import Path


def script(directory: Path, text: str) -> str:
    """Write a program that stands in for Python; containers must be able to reach it."""
    path = directory / "python3"
    path.write_text("#!/bin/sh\n" + text)
    for place in (path, *directory.parents, directory):
        if place.owner() == path.owner() and str(place) not in ("/", "/tmp"):
            place.chmod(place.stat().st_mode | 0o055)
    return str(path)
