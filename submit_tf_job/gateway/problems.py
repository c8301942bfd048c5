"""Turn errors into `application/problem+json` (RFC 9457), with their status in `errors.TABLE`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from submit_tf_job.errors import (
    InternalError,
    SettingsError,
    SubmitTFJobError,
    UsageError,
    error_class,
)

__all__ = ["CODES", "CONTENT_TYPE", "ProblemResponse", "RequestRefused", "problem"]

CONTENT_TYPE = "application/problem+json"
RETRY_AFTER_S = 5

# Errors of HTTP itself: code → status. Every other status is that of the error's class in
# errors.TABLE.
CODES = {
    "ambiguous-length": 400,
    "not-authenticated": 401,
    "forbidden-origin": 403,
    "policy": 403,
    "no-such-page": 404,
    "method-not-allowed": 405,
    "request-timeout": 408,
    "too-large": 413,
    "media-type": 415,
    "key-reused": 422,
    "quota": 429,
    "too-many": 429,
    "upload-unavailable": 503,
}


class RequestRefused(UsageError):
    """The request itself is invalid, in a way that HTTP has a status for.

    Args:
        code: One of `CODES`.
        message: One sentence.
        hint: What to do about it.
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


@dataclass(frozen=True)
class ProblemResponse:
    """The response to an error."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


def problem(error: Exception, request_id: str) -> ProblemResponse:
    """Return the response to an error.

    It contains nothing about this host: invalid settings and defects are logged instead.
    """
    known = error
    if not isinstance(known, SubmitTFJobError):
        known = InternalError("a defect of the gateway")
    row = error_class(known)
    code, status, headers = row.code, row.http_status, dict[str, str]()
    if isinstance(known, RequestRefused):
        code, status, headers = known.code, CODES[known.code], known.headers
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
    body: dict[str, Any] = {
        "type": f"urn:submit_tf_job:problem:{code}",
        "title": code.replace("-", " "),
        "status": status,
        "detail": message,
        "code": code,
        "retryable": retryable,
        "request": request_id,
    }
    optional = {"hint": hint, "details": details}
    body |= {name: value for name, value in optional.items() if value}
    return ProblemResponse(status, body, headers)
