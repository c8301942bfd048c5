"""HTTP responses of Hadoop's daemons, and the error messages in them.

Error messages have five formats: `{"diagnostics": …}` of the services API, `{"exception",
"message", "javaClassName"}` at the top level or below `"RemoteException"` (also as XML), Jetty's
HTML page, and plain text (hadoop-facts.md#error-responses).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from submit_tf_job.errors import BadAnswer

_WORDS_MAX = 600  # maximum number of characters of Hadoop's message in an error message


@dataclass(frozen=True)
class Reply:
    """An HTTP response, completely read.

    Attributes:
        url: The requested URL, without the query, which may contain a token.
        reason: Reason phrase, the only part of a response that states the cause of SPNEGO failures.
        headers: Header fields by lower-case name.
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
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", errors="replace")

    @property
    def words(self) -> str:
        """The first line of Hadoop's message, or ""."""
        return clean(self._message())

    @property
    def speaks_json(self) -> bool:
        """Whether the response is the JSON of a REST API, and not the web server's error page,
        which is JSON too if the request accepts it.
        """
        return "json" in self.content_type and "servlet" not in self._error_object()

    @property
    def is_hadoops(self) -> bool:
        """Whether a REST API of Hadoop sent the response, and not a server in front of it."""
        return self.speaks_json or bool(self.java_class)

    @property
    def cut_off(self) -> bool:
        """Whether the response is certainly truncated: in its body, which urllib3 1.26 does not
        detect, in its JSON, or in its header fields, which Python does not detect.

        The ResourceManager calls the text of some of its exceptions JSON (of a signal to an absent
        container: 3.4.2), which is whole.
        """
        length = self.headers.get("content-length", "")
        packed = "content-encoding" in self.headers
        if length.isdigit() and not packed and len(self.body) < int(length):
            return True
        if not self.body:
            return self.status == 200 and not {"content-length", "transfer-encoding"} & set(
                self.headers
            )
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
        value = self._json()
        if not isinstance(value, (dict, list)):
            raise self._bad_shape()
        return value

    def json_object(self) -> dict[str, object]:
        """Return the JSON object in the response; raises as `json_value`."""
        value = self.json_value()
        if not isinstance(value, dict):
            raise self._bad_shape()
        return value

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

    def _json(self) -> object:
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    def _error_object(self) -> Mapping[str, object]:
        value: object = _xml_error(self.text)
        if self.body[:1] in (b"{", b"\n", b" "):
            value = self._json()
        if isinstance(value, dict):
            value = value.get("RemoteException", value)
        if not isinstance(value, dict):
            return {}
        return value

    def _message(self) -> str:
        answer = self._error_object()
        for key in ("diagnostics", "message", "exception"):
            if isinstance(answer.get(key), str):
                return str(answer[key])
        if "html" in self.content_type:
            return _html_title(self.text)
        if self.content_type == "text/plain":
            return self.text
        return ""


def clean(words: str) -> str:
    """Shorten Hadoop's message to one line, without stack trace and class names."""
    line = next((line for line in words.strip().splitlines() if line.strip()), "")
    line = re.sub(r"[\x00-\x1f\x7f-\x9f]+", " ", line).strip()
    line = re.sub(r"^(?:(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): )+", "", line)
    if len(line) <= _WORDS_MAX:
        return line
    return line[: _WORDS_MAX - 1] + "…"


def _xml_error(text: str) -> dict[str, object]:
    if "<RemoteException>" not in text:
        return {}
    return xml_fields(text, ("exception", "message", "javaClassName"))


def xml_fields(text: str, names: Iterable[str]) -> dict[str, object]:
    """Return the text of elements, without an XML parser, which crafted entities could attack."""
    found = {name: re.search(rf"<{name}>(.*?)</{name}>", text, re.DOTALL) for name in names}
    return {name: _unescaped(match[1]) for name, match in found.items() if match}


def _html_title(text: str) -> str:
    found = re.findall(r"<title>(.*?)</title>", text, re.DOTALL | re.IGNORECASE)
    return " ".join(_unescaped(next(iter(found), "")).split())


def _unescaped(text: str) -> str:
    import html  # only here: its table of names is large

    return html.unescape(text)
