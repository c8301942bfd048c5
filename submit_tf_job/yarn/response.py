"""HTTP responses of Hadoop's daemons with the error messages in them, and the errors that occur
instead of a response.

Error messages have five formats: `{"diagnostics": …}` of the services API, `{"exception",
"message", "javaClassName"}` at the top level or below `"RemoteException"` (also as XML), Jetty's
HTML page, and plain text (hadoop-facts.md#error-responses).
"""

from __future__ import annotations

import http.client
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import mktime_tz, parsedate_tz
from functools import cached_property
from typing import NamedTuple

from submit_tf_job.container import untrusted
from submit_tf_job.errors import BadAnswer, SubmitTFJobError

_WORDS_MAX = 600  # maximum number of characters of Hadoop's message in an error message


@dataclass(frozen=True)
class Reply:
    """An HTTP response that was read completely.

    Attributes:
        url: The requested URL, without the query, which may contain a token.
        reason: Reason phrase, the only part of a response that states the cause of SPNEGO failures.
        headers: Header fields, which are found by their lower-case names.
    """

    method: str
    url: str
    status: int
    reason: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def content_type(self) -> str:
        """The media type without its parameters, lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def sent_s(self) -> float | None:
        """When the server sent the response, by its own clock (`Date`), in whole seconds since
        1970; None if the response does not say.
        """
        try:
            date = parsedate_tz(self.headers.get("date", ""))
            return None if date is None else float(mktime_tz(date))
        except (ValueError, OverflowError):
            return None

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", errors="replace")

    @property
    def words(self) -> str:
        """The first line of Hadoop's message, or ""."""
        answer = self._error_object()
        for key in ("diagnostics", "message", "exception"):
            if isinstance(answer.get(key), str):
                return clean(str(answer[key]))
        if "html" in self.content_type:
            return clean(_html_title(self.text))
        return clean(self.text) if self.content_type == "text/plain" else ""

    @property
    def speaks_json(self) -> bool:
        """Whether the response is the JSON of a REST API, and not the error page of the web server,
        which is also JSON if the request accepts JSON.
        """
        return "json" in self.content_type and "servlet" not in self._error_object()

    @property
    def is_hadoops(self) -> bool:
        """Whether a REST API of Hadoop sent the response, and not a proxy in front of it."""
        return self.speaks_json or bool(self.java_class)

    @property
    def cut_off(self) -> bool:
        """Whether the response is certainly truncated: in its body (urllib3 1.26 does not detect
        that), in its JSON, or in its header fields (Python does not detect that).

        The ResourceManager sends the plain text of some exceptions with the media type of JSON
        (3.4.2: after a signal to an absent container); such a response is not truncated.
        """
        length = self.headers.get("content-length", "")
        packed = "content-encoding" in self.headers
        if length.isdigit() and not packed and len(self.body) < int(length):
            return True
        if not self.body:
            sized = length or "transfer-encoding" in self.headers
            return self.status == 200 and not sized
        text = self.body.strip()
        begins = text.startswith((b"{", b"["))
        return "json" in self.content_type and begins and not text.endswith((b"}", b"]"))

    @property
    def java_class(self) -> str:
        """The Java exception in the response, without its package, or ""."""
        answer = self._error_object()
        name = str(answer.get("javaClassName") or answer.get("exception") or "")
        return name.rpartition(".")[2]

    def json_value(self) -> object:
        """Return the JSON object or list in the response.

        Raises:
            BadAnswer: when it contains anything else, whatever its status; a standby may respond
                with 200 and text.
        """
        if "json" not in self.content_type:
            kind = self.content_type or "no content type"
            raise self.bad(f"{self.url} answered {self.status} with {kind} instead of JSON.")
        value = self._parsed_body
        if isinstance(value, (dict, list)):
            return value
        raise self._bad_shape()

    def json_object(self) -> dict[str, object]:
        """Return the JSON object in the response; raises the same errors as `json_value`."""
        value = self.json_value()
        if not isinstance(value, dict):
            raise self._bad_shape()
        return value

    def object_at(self, key: str) -> Mapping[str, object]:
        """Return the object at a key of the JSON object in the response.

        Raises:
            BadAnswer: There is no such object, or the response is no JSON object; so it is not the
                response of a ResourceManager.
        """
        described = self.json_object().get(key)
        if not isinstance(described, dict):
            raise self.bad(f"{self.url} answered with JSON of another shape: no {key} in it.")
        return described

    def _bad_shape(self) -> BadAnswer:
        return self.bad(
            f"{self.url} answered {self.status} with JSON that is cut off or of another shape."
        )

    def bad(self, message: str) -> BadAnswer:
        """Return the error for a response that no working ResourceManager would send."""
        hint = "Is this the web address of a ResourceManager (yarn.resourcemanager.webapp.address)?"
        return BadAnswer(message, hint=hint, details=self.details())

    def details(self) -> dict[str, object]:
        """Return the values to include in every error about this response."""
        out: dict[str, object] = {"method": self.method, "url": self.url, "status": self.status}
        if self.words:
            out["said"] = self.words
        if self.java_class:
            out["java_class"] = self.java_class
        return out

    @cached_property
    def _parsed_body(self) -> object:
        """The JSON of the body with cleaned texts, because diagnostics and names are written by
        others; None if it is not valid JSON.
        """
        try:
            return untrusted.parse(self.body)
        except ValueError:
            return None

    def _error_object(self) -> Mapping[str, object]:
        value: object = None
        if self.body[:1] in (b"{", b"\n", b" "):
            value = self._parsed_body
        elif "<RemoteException>" in self.text:
            value = xml_fields(self.text, ("exception", "message", "javaClassName"))
        if isinstance(value, dict):
            value = value.get("RemoteException", value)
        return value if isinstance(value, dict) else {}


def clean(words: str) -> str:
    """Shorten Hadoop's message to one line of at most 600 characters, without stack trace and class
    names.
    """
    line = next((line for line in words.strip().splitlines() if line.strip()), "")
    line = re.sub(r"[\x00-\x1f\x7f-\x9f]+", " ", line).strip()
    line = re.sub(r"^(?:(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): )+", "", line)
    if len(line) <= _WORDS_MAX:
        return line
    return line[: _WORDS_MAX - 1] + "…"


def xml_fields(text: str, names: Iterable[str]) -> dict[str, object]:
    """Return the text of the first element with each of these names; missing elements are left out.
    No XML parser is used, because crafted entities could attack it.
    """
    found = {name: _text_of(text, name) for name in names}
    return {name: _unescape_html(words) for name, words in found.items() if words is not None}


def _html_title(text: str) -> str:
    return " ".join(_unescape_html(_text_of(text, "(?i:title)") or "").split())


def _text_of(text: str, name: str) -> str | None:
    begin = re.search(f"<{name}>", text)
    end = begin and re.compile(f"</{name}>").search(text, begin.end())
    return text[begin.end() : end.start()] if begin and end else None


def _unescape_html(text: str) -> str:
    import html  # only here: its table of names is large

    return html.unescape(text)


# --- requests without a usable response -----------------------------------------------------------

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


class TransportError(NamedTuple):
    """An attempt that gave no usable response.

    Attributes:
        why: Reason, for messages: "connection refused".
        sent: Whether the request may have taken effect.
        hopeless: Whether a retry at the same address would always fail.
        advice: The next step for the user.
        active: The configured ResourceManager that a standby names as active; None if it names
            none, or itself.
        unconfigured: The address of the active ResourceManager that a standby names, if that
            address is not configured.
        retry_after_s: Seconds to wait before a retry, as a gateway asks for (`Retry-After`).
        refusal: The error to raise if every ResourceManager responds this way.
        speaks: The scheme that the server expects, if the request had another scheme.
    """

    why: str
    sent: bool = False
    hopeless: bool = False
    advice: str = ""
    active: str | None = None
    unconfigured: str | None = None
    retry_after_s: float = 0.0
    refusal: SubmitTFJobError | None = None
    speaks: str = ""

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

    causes = list(_all_causes(error))
    if isinstance(error, requests.exceptions.SSLError):
        return _tls_error(causes)
    if any(
        type(cause).__name__ in ("NewConnectionError", "NameResolutionError") for cause in causes
    ):
        return _no_connection(causes)
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
    return _lost_connection(causes)


def _lost_connection(causes: list[BaseException]) -> TransportError:
    if any(_TLS_ALERT in repr(cause) for cause in causes):
        return TransportError(
            "it speaks TLS",
            hopeless=True,
            advice="Write its address with https://.",
            speaks="https",
        )
    if any(_is_not_http(cause) for cause in causes):
        return TransportError(
            "what it answers is not HTTP",
            sent=True,
            advice="Is this the web address of a ResourceManager?",
        )
    return TransportError(_lost_words(causes), sent=True)


def _no_connection(causes: list[BaseException]) -> TransportError:
    for cause in causes:
        if isinstance(cause, socket.gaierror):
            return TransportError("unknown host name", hopeless=cause.errno != socket.EAI_AGAIN)
        if isinstance(cause, ConnectionRefusedError):
            return TransportError("connection refused")
    for cause in causes:
        if isinstance(cause, OSError) and cause.strerror and cause.errno:
            return TransportError(cause.strerror.lower())
    return TransportError("no connection")


def _tls_error(causes: list[BaseException]) -> TransportError:
    text = " ".join(str(cause) for cause in causes)
    if "WRONG_VERSION_NUMBER" in text or "RECORD_LAYER_FAILURE" in text or "record layer" in text:
        return TransportError(
            "it does not speak TLS",
            hopeless=True,
            advice="Write its address with http://.",
            speaks="http",
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
    """Return whether http.client could not parse the length of a chunk: if the connection breaks,
    it gets an empty length.
    """
    return isinstance(cause, ValueError) and not str(cause).endswith("b''")


def _lost_words(causes: list[BaseException]) -> str:
    text = " ".join(str(cause) for cause in causes)
    if "IncompleteRead" in text or "ended prematurely" in text:
        return "its answer was cut off"
    return "the connection broke"


def _all_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and its causes; urllib3 keeps causes in `args` and `reason`."""
    seen: set[int] = set()
    waiting: list[object] = [error]
    while waiting:
        item = waiting.pop(0)
        if isinstance(item, BaseException) and id(item) not in seen:
            seen.add(id(item))
            yield item
            waiting += [*item.args, getattr(item, "reason", None), item.__cause__, item.__context__]
