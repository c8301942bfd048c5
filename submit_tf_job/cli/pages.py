"""The pages of the documentation that are inside the package."""

from __future__ import annotations

from pathlib import Path

COMING_FROM = "coming-from"  # a folder of pages, and the topic of its README
_INSIDE = Path(__file__).parents[1] / "docs"  # of a wheel; pyproject.toml puts docs/ there
_CHECKOUT = Path(__file__).parents[2] / "docs"  # of an editable install


def topics() -> list[str]:
    """Return the names of the pages that `help` can print."""
    pages = _pages_directory()
    found = [path.stem for path in pages.glob("*.md") if path.stem != "README"]
    found += [f"{COMING_FROM}/{path.stem}" for path in (pages / COMING_FROM).glob("*.md")]
    return sorted(topic.removesuffix("/README") for topic in found)


def read_page(topic: str) -> str:
    """Return the text of a page."""
    name = f"{topic}/README" if topic == COMING_FROM else topic
    return (_pages_directory() / f"{name}.md").read_text("utf-8")


def _pages_directory() -> Path:
    return _INSIDE if _INSIDE.is_dir() else _CHECKOUT
