"""The version of the program; the build reads it from this file."""

from __future__ import annotations

VERSION = "0.1.0"
