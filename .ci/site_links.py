"""What mkdocs does with the text of the pages: no option is broken, and links lead somewhere.

Links of the site that lead out of docs/ become addresses of the repository's files.

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


def on_page_content(html: str, **_named: Any) -> str:
    """Return a page's HTML; a line is not broken within `--option`, as it would be on a phone."""

    def kept(code: re.Match[str]) -> str:
        return re.sub(r"(?<![\w-])--?\w[\w-]*", r'<span class="option">\g<0></span>', code[0])

    return re.sub(r"<code>[^<\n]*</code>", kept, html)
