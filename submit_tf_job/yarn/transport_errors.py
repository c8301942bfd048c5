"""The errors of requests without a usable response, and whether a request may have taken effect."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from submit_tf_job.errors import SubmitTFJobError
from submit_tf_job.yarn.response import Reply

_TLS_ALERT = "\\x15\\x03"  # a TLS server's response to plain HTTP, as urllib3 quotes it
_RETRY_AFTER_MAX_S = 30.0
_UNKNOWN_CA = "Set ca_file to the CA that signed the certificate."
_CERTIFICATES = (  # OpenSSL's messages, and the advice for each
    ("mismatch", "Write the address with a name that the certificate was issued for."),
    (
        "expired",
        "The ResourceManager's administrator has to renew it; or is the clock of this "
        "machine wrong?",
    ),
    ("not yet valid", "Is the clock of this machine wrong?"),
)


@dataclass(frozen=True)
class TransportError:
    """One attempt without a usable response.

    Attributes:
        why: Reason, for messages: "connection refused".
        sent: Whether the request may have taken effect.
        hopeless: Whether a retry at the same address would always fail.
        advice: The next step for the user.
        active: The configured ResourceManager that a standby names as active; None if it names
            none, or itself.
        unconfigured: The active one's address if that is not configured.
        refusal: The error to raise if every ResourceManager responds this way.
    """

    why: str
    sent: bool = False
    hopeless: bool = False
    advice: str = ""
    active: str | None = None
    unconfigured: str | None = None
    retry_after_s: float = 0.0
    refusal: SubmitTFJobError | None = None

    @classmethod
    def of_gateway(cls, reply: Reply) -> TransportError:
        """Return the error for a 502, 503 or 504 from a server in front of Hadoop."""
        after, wait = reply.headers.get("retry-after", ""), 0.0
        if after.isdigit():
            wait = min(float(after), _RETRY_AFTER_MAX_S)
        return cls(f"HTTP {reply.status} {reply.reason}".rstrip(), sent=True, retry_after_s=wait)


def transport_error_of(error: Exception) -> TransportError:
    """Return the error for an exception of `requests`.

    Only errors that certainly occurred before the request was written count as not sent.
    """
    import requests

    causes = list(_causes(error))
    if isinstance(error, requests.exceptions.SSLError):
        return _tls(causes)
    if any(
        type(cause).__name__ in ("NewConnectionError", "NameResolutionError") for cause in causes
    ):
        return _unconnected(causes)
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return TransportError("no connection in time")
    if isinstance(error, requests.exceptions.ReadTimeout):
        return TransportError("no answer in time", sent=True)
    if any("timed out" in str(cause) for cause in causes):
        return TransportError("its answer did not end in time", sent=True)
    if isinstance(error, requests.exceptions.ContentDecodingError):
        return TransportError("its answer cannot be unpacked", sent=True)
    if isinstance(error, requests.exceptions.InvalidURL):
        return TransportError("not a valid address", hopeless=True)
    return _lost(causes)


def _lost(causes: list[BaseException]) -> TransportError:
    if any(_TLS_ALERT in repr(cause) for cause in causes):
        return TransportError(
            "it speaks TLS", hopeless=True, advice="Write its address with https://."
        )
    if any(_is_not_http(cause) for cause in causes):
        return TransportError(
            "what it answers is not HTTP",
            sent=True,
            advice="Is this the web address of a ResourceManager?",
        )
    return TransportError(_lost_words(causes), sent=True)


def _unconnected(causes: list[BaseException]) -> TransportError:
    for cause in causes:
        if isinstance(cause, socket.gaierror):
            return TransportError("unknown host name", hopeless=cause.errno != socket.EAI_AGAIN)
        if isinstance(cause, ConnectionRefusedError):
            return TransportError("connection refused")
    for cause in causes:
        if isinstance(cause, OSError) and cause.strerror and cause.errno:
            return TransportError(cause.strerror.lower())
    return TransportError("no connection")


def _tls(causes: list[BaseException]) -> TransportError:
    text = " ".join(str(cause) for cause in causes)
    if "WRONG_VERSION_NUMBER" in text or "RECORD_LAYER_FAILURE" in text or "record layer" in text:
        return TransportError(
            "it does not speak TLS", hopeless=True, advice="Write its address with http://."
        )
    if "CERTIFICATE_VERIFY_FAILED" in text:
        why = (
            text.partition("certificate verify failed: ")[2]
            .partition(" (_ssl")[0]
            .partition("\n")[0]
            .rstrip(".")
            or "not trusted"
        )
        advice = next(
            (advice for words, advice in _CERTIFICATES if words in why.lower()), _UNKNOWN_CA
        )
        return TransportError(f"its certificate was refused: {why}", hopeless=True, advice=advice)
    return TransportError("the TLS connection broke", sent=True)


def _is_not_http(cause: BaseException) -> bool:
    """Return whether the server sent bytes that are not HTTP; Python raises BadStatusLine for a
    closed connection, too.
    """
    if isinstance(cause, (ConnectionError, http.client.IncompleteRead)):
        return type(cause).__name__ == "InvalidChunkLength" or _is_bad_chunk(cause.__context__)
    return isinstance(cause, http.client.HTTPException) or type(cause).__name__ == "InvalidHeader"


def _is_bad_chunk(cause: BaseException | None) -> bool:
    """Return whether http.client could not parse a chunk's length; none is sent before a connection
    that broke.
    """
    return isinstance(cause, ValueError) and not str(cause).endswith("b''")


def _lost_words(causes: list[BaseException]) -> str:
    text = " ".join(str(cause) for cause in causes)
    if "IncompleteRead" in text or "ended prematurely" in text:
        return "its answer was cut off"
    return "the connection broke"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and its causes; urllib3 keeps causes in `args` and `reason`."""
    seen: set[int] = set()
    waiting: list[object] = [error]
    while waiting:
        item = waiting.pop(0)
        if isinstance(item, BaseException) and id(item) not in seen:
            seen.add(id(item))
            yield item
            waiting += [*item.args, getattr(item, "reason", None), item.__cause__, item.__context__]
