"""Tests; an assertion of a helper shows its values, as one of a test file does."""

from contextlib import suppress
from pathlib import Path

with suppress(ImportError):  # `python -m tests.clusters` needs no pytest
    import pytest

    parts = {path.stem for path in Path(__file__).parent.iterdir()} - {"__init__", "conftest"}
    pytest.register_assert_rewrite(*(f"tests.{part}" for part in parts))
