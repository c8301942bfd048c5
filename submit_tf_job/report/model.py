"""What all JSON objects have in common."""

from __future__ import annotations

__all__ = ["FORMAT_VERSION"]

FORMAT_VERSION = 1
