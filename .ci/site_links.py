"""Links of the site that lead out of docs/ become addresses of the repository's files.

A directory has no page, so its link becomes plain words; so do all others without an address
(`repository` in pyproject.toml).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import tomllib

ROOT = Path(__file__).parents[1]


def on_page_markdown(markdown: str, page: Any, **_named: Any) -> str:
    """Return a page's text; called by mkdocs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    repository = project["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"].rstrip("/")
    folder = (ROOT / "docs" / page.file.src_uri).parent

    def rewritten(link: re.Match[str]) -> str:
        words, target = link[1], link[2]
        path = (folder / target.partition("#")[0]).resolve()
        if path.is_relative_to(ROOT / "docs"):
            return words if path.is_dir() else link[0]
        return f"[{words}]({repository}/{path.relative_to(ROOT)})" if repository else words

    return re.sub(r"(?<!!)\[([^\]]*)\]\((?!\w+:|#)([^)\s]+)\)", rewritten, markdown)
