"""Why a request got no answer, and whether it may have taken effect."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from submit_tf_job.errors import AuthError
from submit_tf_job.yarn.answers import Reply
from submit_tf_job.yarn.ha import Standby

__all__ = ["Trouble", "trouble_of"]

_TLS_ALERT = "\\x15\\x03"  # what a TLS server says to plain HTTP, as urllib3 quotes it
_RETRY_AFTER_MAX_S = 30.0
_UNKNOWN_CA = "Set ca_file to the CA that signed the certificate."
_CERTIFICATES = (  # OpenSSL's words, and whose turn it is
    ("mismatch", "Write the address with a name that the certificate was issued for."),
    ("expired", "The ResourceManager's administrator has to renew it; or is the clock of this machine wrong?"),
    ("not yet valid", "Is the clock of this machine wrong?"),
)


@dataclass(frozen=True)
class Trouble:
    """One attempt without a usable answer.

    Attributes:
        why: For messages: "connection refused".
        sent: Whether the request may have taken effect.
        hopeless: Whether trying the same address again is pointless.
        refused: Whether nothing listens there: the process that did is gone.
        advice: What to do about it.
        refusal: What it means should every ResourceManager say so.
    """

    why: str
    sent: bool = False
    hopeless: bool = False
    refused: bool = False
    advice: str = ""
    unconfigured: str | None = None
    retry_after_s: float = 0.0
    refusal: AuthError | None = None

    @classmethod
    def of_standby(cls, standby: Standby) -> Trouble:
        """A standby answered; it executes nothing."""
        return cls(standby.why, hopeless=standby.unconfigured is not None, unconfigured=standby.unconfigured)

    @classmethod
    def of_gateway(cls, reply: Reply) -> Trouble:
        """Something in front of Hadoop answered 502, 503 or 504."""
        after = reply.headers.get("retry-after", "")
        wait = min(float(after), _RETRY_AFTER_MAX_S) if after.isdigit() else 0.0
        return cls(f"HTTP {reply.status} {reply.reason}".rstrip(), sent=True, retry_after_s=wait)


def trouble_of(error: Exception) -> Trouble:
    """Classify what `requests` raised.

    Only what is known to have failed before the request was written counts as not sent.
    """
    import requests

    causes = list(_causes(error))
    if isinstance(error, requests.exceptions.SSLError):
        return _tls(causes)
    if any(type(cause).__name__ in ("NewConnectionError", "NameResolutionError") for cause in causes):
        return _unconnected(causes)
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return Trouble("no connection in time")
    if isinstance(error, requests.exceptions.ReadTimeout):
        return Trouble("no answer in time", sent=True)
    if any("timed out" in str(cause) for cause in causes):
        return Trouble("its answer did not end in time", sent=True)
    if isinstance(error, requests.exceptions.ContentDecodingError):
        return Trouble("its answer cannot be unpacked", sent=True)
    if any(_TLS_ALERT in repr(cause) for cause in causes):
        return Trouble("it speaks TLS", hopeless=True, advice="Write its address with https://.")
    if isinstance(error, requests.exceptions.InvalidURL):
        return Trouble("not a valid address", hopeless=True)
    if any(_is_not_http(cause) for cause in causes):
        return Trouble("what it answers is not HTTP", sent=True, advice="Is this the web address of a ResourceManager?")
    return Trouble(_lost_words(causes), sent=True)


def _unconnected(causes: list[BaseException]) -> Trouble:
    for cause in causes:
        if isinstance(cause, socket.gaierror):
            return Trouble("unknown host name", hopeless=cause.errno != socket.EAI_AGAIN)
        if isinstance(cause, ConnectionRefusedError):
            return Trouble("connection refused", refused=True)
    system = next((cause for cause in causes if isinstance(cause, OSError) and cause.strerror and cause.errno), None)
    return Trouble(system.strerror.lower() if system and system.strerror else "no connection")


def _tls(causes: list[BaseException]) -> Trouble:
    text = " ".join(str(cause) for cause in causes)
    if "WRONG_VERSION_NUMBER" in text or "RECORD_LAYER_FAILURE" in text or "record layer" in text:
        return Trouble("it does not speak TLS", hopeless=True, advice="Write its address with http://.")
    if "CERTIFICATE_VERIFY_FAILED" in text:
        why = text.partition("certificate verify failed: ")[2].partition(" (_ssl")[0].partition("\n")[0].rstrip(".") or "not trusted"
        advice = next((advice for words, advice in _CERTIFICATES if words in why.lower()), _UNKNOWN_CA)
        return Trouble(f"its certificate was refused: {why}", hopeless=True, advice=advice)
    return Trouble("the TLS connection broke", sent=True)


def _is_not_http(cause: BaseException) -> bool:
    """Whether bytes came that are no answer; a connection that just ends is a BadStatusLine too, to Python."""
    if isinstance(cause, (ConnectionError, http.client.IncompleteRead)):
        return type(cause).__name__ == "InvalidChunkLength"
    return isinstance(cause, http.client.HTTPException) or type(cause).__name__ == "InvalidHeader"


def _lost_words(causes: list[BaseException]) -> str:
    text = " ".join(str(cause) for cause in causes)
    if "IncompleteRead" in text or "ended prematurely" in text:
        return "its answer was cut off"
    return "the connection broke"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Walk an exception, what it wraps, and what caused it; urllib3 puts causes into `args` and `reason`."""
    seen: set[int] = set()
    waiting: list[object] = [error]
    while waiting:
        item = waiting.pop(0)
        if isinstance(item, BaseException) and id(item) not in seen:
            seen.add(id(item))
            yield item
            waiting += [*item.args, getattr(item, "reason", None), item.__cause__, item.__context__]
