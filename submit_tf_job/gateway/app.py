"""Build the ASGI application: the routes, the error handlers, and the pages without jobs.

The web page is three static files, whose script calls /v1 with the visitor's token.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from submit_tf_job.errors import SubmitTFJobError, UsageError
from submit_tf_job.gateway import event_streams, metrics, openapi
from submit_tf_job.gateway.middleware import Middleware
from submit_tf_job.gateway.problems import ProblemResponse, RequestRefused
from submit_tf_job.gateway.routes import router
from submit_tf_job.gateway.running import Gateway
from submit_tf_job.gateway.threads import in_thread

__all__ = ["application", "document", "served"]

ABOUT = "Submits TensorFlow jobs to Hadoop YARN, follows them and reports how they ended."
_CLIENT_GONE = 499  # nginx's status; no client receives it
_HTTP_CODES = {404: "no-such-page", 405: "method-not-allowed"}


def served(gateway: Gateway) -> Middleware:
    """Return the ASGI application of a gateway: the routes inside the middleware."""
    return Middleware(application(gateway), gateway)


def application(gateway: Gateway) -> FastAPI:
    """Build the application of a gateway."""
    app = FastAPI(
        title="submit_tf_job gateway",
        version="1",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.gateway = gateway
    app.include_router(router)
    app.include_router(event_streams.router)
    for path, page in (
        ("/healthz", _healthz),
        ("/readyz", _readyz),
        ("/metrics", _metrics),
        ("/openapi.json", _openapi),
    ):
        app.add_api_route(path, page, include_in_schema=False)
    for path in _PAGE_FILES:
        app.add_api_route(path, _page_file, include_in_schema=False)
    for kind in (SubmitTFJobError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, _failed)
    app.add_exception_handler(ClientDisconnect, _client_left)
    return app


@cache
def document() -> dict[str, Any]:
    """Return the OpenAPI document, which is the same for every gateway of this version."""
    app = FastAPI()
    app.include_router(router)
    app.include_router(event_streams.router)
    found = get_openapi(
        title="submit_tf_job gateway",
        version="1",
        openapi_version="3.1.0",
        description=ABOUT,
        servers=[{"url": "/"}],
        routes=app.routes,
    )
    return openapi.finish(found)


async def _healthz() -> Response:
    return Response(json.dumps({"alive": True}), media_type="application/json")


async def _readyz(request: Request) -> Response:
    why = await in_thread(request.app.state.gateway.why_not_ready)
    body = json.dumps({"ready": not why, "why": why})
    return Response(body, 503 if why else 200, media_type="application/json")


async def _metrics(request: Request) -> Response:
    gateway: Gateway = request.app.state.gateway
    return Response(
        gateway.metrics.text(gateway.gauges()), headers={"Content-Type": metrics.CONTENT_TYPE}
    )


async def _openapi() -> Response:
    return Response(
        json.dumps(document(), indent=1, sort_keys=True) + "\n", media_type="application/json"
    )


async def _client_left(request: Request, _error: Exception) -> Response:
    """Record that the client closed the connection before its request had arrived."""
    request.state.code = "client-gone"
    return Response(status_code=_CLIENT_GONE)


async def _failed(request: Request, error: Exception) -> Response:
    """Turn every error into a problem response."""
    response = ProblemResponse(_known_error(request, error), request.state.request_id)
    request.state.code, request.state.defect = response.problem["code"], response.defect
    return response


def _known_error(request: Request, error: Exception) -> Exception:
    if isinstance(error, RequestValidationError):
        words = _in_words(request)
        wrong = [
            {
                "where": ".".join(map(str, item["loc"])),
                "message": words.get(item["loc"][-1], "")
                if item["type"] == "string_pattern_mismatch"
                else str(item["msg"]),
            }
            for item in error.errors()[:20]
        ]
        message = "; ".join(f"{item['where']}: {item['message']}" for item in wrong)
        return UsageError(message[:500], details={"problems": wrong})
    if isinstance(error, HTTPException):
        code = _HTTP_CODES.get(error.status_code)
        if code is None:
            return UsageError("the request cannot be read")
        return RequestRefused(
            code,
            str(error.detail),
            hint="GET /openapi.json lists every page",
            headers=dict(error.headers or {}),
        )
    return error


def _in_words(request: Request) -> dict[str | int, str]:
    """Return the descriptions of a route's parameters, as messages in place of their patterns."""
    of_route = request.scope["route"].dependant
    return {
        one.alias: f"not in this form: {one.field_info.description}"
        for one in (*of_route.path_params, *of_route.query_params, *of_route.header_params)
    }


# --- the web page ---------------------------------------------------------------------------------

_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
}
_PAGE_FILES = {"/": "index.html", "/page.js": "page.js", "/page.css": "page.css"}

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


async def _page_file(request: Request) -> Response:
    """Return one of the page's files."""
    name = _PAGE_FILES[request.url.path]
    content = _content(name)
    headers = {**_HEADERS, "ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(content, headers={**headers, "Content-Type": _TYPES[name.rpartition(".")[2]]})


@cache
def _content(name: str) -> bytes:
    return files("submit_tf_job.gateway").joinpath("static").joinpath(name).read_bytes()
