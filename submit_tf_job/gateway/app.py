"""Build the ASGI application: the routes, the error handlers, the pages without authentication
(health, metrics, OpenAPI), and what is done for every request: its id, checks, the access log and
counters.

The web page consists of static files, whose scripts call /v1 with the visitor's token.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from concurrent.futures import CancelledError
from datetime import datetime, timezone
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from submit_tf_job.errors import ClusterUnavailable, SubmitTFJobError, UsageError
from submit_tf_job.gateway import event_streams, openapi
from submit_tf_job.gateway.problems import ProblemResponse, RequestRefused
from submit_tf_job.gateway.routes import router, with_etag
from submit_tf_job.gateway.runtime import CONTENT_TYPE, Gateway, in_thread

ABOUT = "Submits TensorFlow jobs to Hadoop YARN, follows them and reports how they ended."
_CLIENT_GONE = 499  # nginx's status; no client receives it
_HTTP_CODES = {404: "no-such-page", 405: "method-not-allowed"}


def served(gateway: Gateway) -> ASGIApp:
    """Return the ASGI application of a gateway: the routes inside the middleware."""
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
        ("/healthz", _answer_healthz),
        ("/readyz", _answer_readyz),
        ("/metrics", _answer_metrics),
        ("/openapi.json", _answer_openapi),
    ):
        app.add_api_route(path, page, include_in_schema=False)
    for path in _PAGE_FILES:
        app.add_api_route(path, _page_file, include_in_schema=False)
    kinds = (SubmitTFJobError, RequestValidationError, HTTPException, CancelledError, Exception)
    for kind in kinds:
        app.add_exception_handler(kind, _problem_response)
    app.add_exception_handler(ClientDisconnect, _client_left)
    return _Middleware(app, gateway)


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


async def _answer_healthz() -> Response:
    return Response(json.dumps({"alive": True}), media_type="application/json")


async def _answer_readyz(request: Request) -> Response:
    why = await in_thread(request.app.state.gateway.why_not_ready)
    body = json.dumps({"ready": not why, "why": why})
    return Response(body, 503 if why else 200, media_type="application/json")


async def _answer_metrics(request: Request) -> Response:
    text = await in_thread(request.app.state.gateway.metrics.text)
    return Response(text, headers={"Content-Type": CONTENT_TYPE})


async def _answer_openapi() -> Response:
    return Response(
        json.dumps(document(), indent=1, sort_keys=True) + "\n", media_type="application/json"
    )


async def _client_left(request: Request, _error: Exception) -> Response:
    """Note for the log that the client closed the connection before it got a response."""
    request.state.code = "client-gone"
    return Response(status_code=_CLIENT_GONE)


async def _problem_response(request: Request, error: Exception) -> Response:
    """Return the problem response for an error, and note its code and its cause for the log."""
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
    if isinstance(error, CancelledError):  # of a thread that `Gateway.drain` ended
        return _ending_error()
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
    """Return the descriptions of a route's parameters, which messages show instead of the
    parameters' patterns.
    """
    of_route = request.scope["route"].dependant
    return {
        one.alias: f"not in this form: {one.field_info.description}"
        for one in (*of_route.path_params, *of_route.query_params, *of_route.header_params)
    }


# --- the web page ---------------------------------------------------------------------------------

_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css"}  # and UTF-8
_MODULES = ("page.js", "asking.js", "curves.js", "drawing.js", "job.js", "runs.js")
_UPLOT = ("uPlot.iife.min.js", "uPlot.min.css")  # as published: uplot/README.md
_PAGE_FILES = {
    "/": "index.html",
    **{f"/{name}": name for name in (*_MODULES, "page.css")},
    **{f"/{name}": f"uplot/{name}" for name in _UPLOT},
}

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
    """Return the file of the web page at the path of the request, or 304 if it has not changed."""
    name = _PAGE_FILES[request.url.path]
    return with_etag(request, _static_content(name), _HEADERS, _TYPES[name.rpartition(".")[2]])


@cache
def _static_content(name: str) -> bytes:
    return files("submit_tf_job.gateway").joinpath("static").joinpath(name).read_bytes()


# --- around every request ---

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_IDENTITIES = frozenset({"doas", "user.name", "proxyuser"})
_LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?")


def _ending_error() -> SubmitTFJobError:
    """Return the error for a request that is cut off because the gateway ends."""
    return ClusterUnavailable(
        "the gateway is ending", hint="send the same request again; another gateway serves it, too"
    )


class _Middleware:
    """The outermost part of the gateway: gives each request an id, refuses requests whose end is
    ambiguous, that name a proxy user, or that come from pages of other sites; turns errors into
    problem responses, and logs. It is plain ASGI, so that streams are not buffered.
    """

    def __init__(self, app: ASGIApp, gateway: Gateway) -> None:
        self._app, self._gateway = app, gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request; ignore every other scope of ASGI."""
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        entry = _RequestLog(self._gateway, scope, send, headers.get("x-request-id", ""))
        try:
            self._check_request(scope, headers)
            await self._app(scope, receive, entry.send)
        except asyncio.CancelledError:  # by uvicorn, after the time of --drain
            await entry.fail(_ending_error())
            raise
        except Exception as error:  # noqa: BLE001 - every error becomes a problem response
            await entry.fail(error)
        finally:
            entry.end()

    def _check_request(self, scope: Scope, headers: Headers) -> None:
        _check_framing(scope, headers)
        # uvicorn takes requests of open connections for a moment longer
        if self._gateway.draining and scope["path"].startswith("/v1/"):
            raise _ending_error()
        try:
            names = {
                name.lower()
                for name, _ in parse_qsl(
                    scope["query_string"].decode("ascii"), keep_blank_values=True, max_num_fields=50
                )
            }
        except ValueError:
            raise UsageError("the query cannot be read") from None
        if names & _IDENTITIES:
            raise UsageError(
                f"a caller is identified by its token or ticket: "
                f"{', '.join(sorted(names & _IDENTITIES))} is not accepted",
                hint="leave it out",
            )
        # Browsers send tickets on behalf of any page that requests them. Without authentication any
        # web page that this machine's user opens could call, also under a name that resolves to
        # loopback.
        host = headers.get("host", "")
        if "origin" in headers and headers["origin"].lower() not in (
            f"http://{host}".lower(),
            f"https://{host}".lower(),
        ):
            raise RequestRefused(
                "forbidden-origin",
                "pages of other sites are not served",
                hint="use a program, or the page at /",
            )
        if self._gateway.is_open and not _LOOPBACK.fullmatch(host):
            raise RequestRefused(
                "forbidden-origin",
                "without authentication only programs of this machine are served",
                hint="call localhost",
            )


def _check_framing(scope: Scope, headers: Headers) -> None:
    """Refuse a request of another version of HTTP than 1.0 and 1.1, and one whose end a proxy and
    this server might see at different places (RFC 9112, 6.1 and 11.2).

    h11 itself refuses two different lengths and two Transfer-Encodings, and closes the connection.
    """
    if (version := scope.get("http_version")) not in ("1.0", "1.1"):
        raise RequestRefused(
            "not-http", f"this is HTTP/{version}, and not HTTP/1.1", headers={"Connection": "close"}
        )
    if "transfer-encoding" not in headers:
        return
    if "content-length" in headers or scope.get("http_version") == "1.0":
        other = "Content-Length" if "content-length" in headers else "HTTP/1.0"
        raise RequestRefused(
            "ambiguous-length",
            f"Transfer-Encoding together with {other}: where the request ends is ambiguous",
            hint="send one of them",
            headers={"Connection": "close"},
        )


class _RequestLog:
    """Sends the response to one request with the headers that every response has, and logs both at
    the end.
    """

    def __init__(self, gateway: Gateway, scope: Scope, send: Send, asked_id: str) -> None:
        self._gateway, self._scope, self._send = gateway, scope, send
        self.id = asked_id if _REQUEST_ID.fullmatch(asked_id) else secrets.token_hex(8)
        self._start = time.monotonic()
        self._status, self._bytes = 0, 0
        scope.setdefault("state", {})["request_id"] = self.id

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = MutableHeaders(scope=message)
            headers.setdefault("x-content-type-options", "nosniff")
            headers.setdefault("cache-control", "no-store")
            for way in self._negotiate_challenges():
                headers.append("www-authenticate", way)
            headers.append("x-request-id", self.id)
        elif message["type"] == "http.response.body":
            self._bytes += len(message.get("body", b""))
        await self._send(message)

    def _negotiate_challenges(self) -> tuple[str, ...]:
        if self._status == 401:
            return self._gateway.challenges
        proof = self._scope["state"].get("proof")
        return (f"Negotiate {proof}",) if proof else ()

    async def fail(self, error: Exception) -> None:
        """Send the problem as the response, unless a response has begun already."""
        response = await _problem_response(Request(self._scope), error)
        if not self._status:
            await response(self._scope, _nothing_more, self.send)

    def end(self) -> None:
        """Count the request and log it, without query, headers and body."""
        seconds, state = time.monotonic() - self._start, self._scope["state"]
        route = getattr(self._scope.get("route"), "path", "other")
        self._gateway.metrics.request(self._scope["method"], route, self._status, seconds)
        client, code = self._scope.get("client"), state.get("code")
        more = {"code": code, "why": state.get("defect")}
        if (action := state.get("action")) is not None:  # what was done, to which job
            more |= {**action, "result": action.get("result") or code or "failed"}
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        self._gateway.log(
            {
                "at": now.replace("+00:00", "Z"),
                "event": "request",
                "level": "error" if self._status >= 500 else "info",
                "request": self.id,
                "caller": state.get("caller"),
                "client": client[0] if client else None,
                "method": self._scope["method"],
                "path": self._scope["path"][:300],
                "status": self._status,
                "seconds": round(seconds, 4),
                "bytes": self._bytes,
                **{name: text for name, text in more.items() if text},
            }
        )


async def _nothing_more() -> Message:
    return {"type": "http.disconnect"}
