"""The documentation's pages, which are installed with the package."""

from __future__ import annotations

from pathlib import Path

__all__ = ["read_page", "topics"]

_INSIDE = Path(__file__).parents[1] / "docs"  # of a wheel; pyproject.toml puts docs/ there
_CHECKOUT = Path(__file__).parents[2] / "docs"  # of an editable install


def topics() -> list[str]:
    """Return the names of the pages."""
    return sorted(path.stem for path in _pages().glob("*.md") if path.stem != "README")


def read_page(topic: str) -> str:
    """Return the text of a page."""
    return (_pages() / f"{topic}.md").read_text("utf-8")


def _pages() -> Path:
    return _INSIDE if _INSIDE.is_dir() else _CHECKOUT
