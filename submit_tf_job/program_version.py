"""The program's version, which the build reads here."""

from __future__ import annotations

VERSION = "0.1.0"
