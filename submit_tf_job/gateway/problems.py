"""Turn errors into `application/problem+json` (RFC 9457), with their status in `errors.TABLE`."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from submit_tf_job.errors import (
    InternalError,
    SettingsError,
    SubmitTFJobError,
    UsageError,
    error_class,
)

CONTENT_TYPE = "application/problem+json"
RETRY_AFTER_S = 5

# Errors of HTTP itself: code → status. Every other status is that of the error's class in
# errors.TABLE.
CODES = {
    "ambiguous-length": 400,
    "not-http": 400,
    "not-authenticated": 401,
    "forbidden-origin": 403,
    "policy": 403,
    "no-such-page": 404,
    "method-not-allowed": 405,
    "request-timeout": 408,
    "too-large": 413,
    "media-type": 415,
    "quota": 429,
    "too-many": 429,
    "head-too-large": 431,
    "upload-unavailable": 503,
}


class RequestRefused(UsageError):
    """The gateway refuses the request itself, with a status of HTTP: it is malformed, too large,
    not authenticated, or not allowed by the gateway's rules or limits.

    Args:
        code: One of `CODES`.
        headers: Header fields of the response.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str = "",
        details: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, hint=hint, details=details)
        self.code = code
        self.headers = dict(headers or {})


def code_of(error: SubmitTFJobError) -> str:
    """Return the field `code` of the problem that an error becomes, such as `name-taken`."""
    return error.code if isinstance(error, RequestRefused) else error_class(error).code


class ProblemResponse(Response):
    """The response to an error.

    The response contains nothing about this host: invalid settings and defects are only logged.

    Attributes:
        problem: The body's object.
        defect: The text for the log; "" for an error that is sent to the caller in full.
    """

    def __init__(self, error: Exception, request_id: str) -> None:
        known = error
        if not isinstance(known, SubmitTFJobError):
            known = InternalError("a defect of the gateway")
        row = error_class(known)
        code, status, headers = code_of(known), row.http_status, dict[str, str]()
        if isinstance(known, RequestRefused):
            status, headers = CODES[known.code], known.headers
        message, hint, details = known.message, known.hint, known.details
        if isinstance(known, (SettingsError, InternalError)):
            message, hint, details = (
                "the gateway failed; its log has the reason",
                f"give the request id {request_id} to its operator",
                {},
            )
        retryable = row.retryable or status in (408, 429, 503)
        if retryable:
            headers.setdefault("Retry-After", str(RETRY_AFTER_S))
        self.defect = _for_the_log(error)
        self.problem: dict[str, Any] = {
            "type": f"urn:submit_tf_job:problem:{code}",
            "title": code.replace("-", " "),
            "status": status,
            "detail": message,
            "code": code,
            "retryable": retryable,
            "request": request_id,
        }
        optional = {"hint": hint, "details": details}
        self.problem |= {name: value for name, value in optional.items() if value}
        body = json.dumps(self.problem, default=str)
        super().__init__(body, status, headers, media_type=CONTENT_TYPE)


def _for_the_log(error: Exception) -> str:
    """Return the details of an error for the log; the caller does not get them.

    Messages of other libraries' errors may contain tokens, so only the lines of code are logged.
    """
    if isinstance(error, SubmitTFJobError):
        hidden = error_class(error).http_status == 500
        return f"{type(error).__name__}: {error.message}" if hidden else ""
    places = [
        f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)[-3:]
    ]
    return f"{type(error).__name__} at {', '.join(places)}"
