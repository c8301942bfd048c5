"""Hadoop versions as numbers."""

from __future__ import annotations

import re


def version_tuple(text: str) -> tuple[int, ...]:
    """Parse the leading numbers of a version: `3.1.1.7.1.9.0-387` is (3, 1, 1, 7, 1, 9, 0); a text
    without any is ().
    """
    match = re.match(r"\d+(?:\.\d+)*", text)
    if match is None:
        return ()
    return tuple(map(int, match[0].split(".")))
