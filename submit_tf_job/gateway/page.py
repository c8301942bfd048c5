"""The web page: three static files, whose script calls /v1 with the visitor's token."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

from fastapi import Request, Response

__all__ = ["PATHS", "page"]

_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
}
PATHS = {"/": "index.html", "/page.js": "page.js", "/page.css": "page.css"}

# Only these files are executed or displayed, no other site can frame them, and text of jobs and
# clusters cannot become markup.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src "
    "data:; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


async def page(request: Request) -> Response:
    """Return one of the page's files."""
    name = PATHS[request.url.path]
    content = _content(name)
    headers = {**_HEADERS, "ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(content, headers={**headers, "Content-Type": _TYPES[name.rpartition(".")[2]]})


@cache
def _content(name: str) -> bytes:
    return files("submit_tf_job.gateway").joinpath("static").joinpath(name).read_bytes()
