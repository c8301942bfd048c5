"""One answer of a Hadoop daemon, and Hadoop's own words in it.

The words come in five shapes: `{"diagnostics": …}` of the services API, `{"exception", "message", "javaClassName"}` bare or below
`"RemoteException"` (also as XML, facts: verified-versions 1.3), Jetty's HTML page, and plain text.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from submit_tf_job.errors import BadAnswer

__all__ = ["Reply", "clean"]

_WORDS_MAX = 600  # characters of Hadoop's words that a message may hold


@dataclass(frozen=True)
class Reply:
    """An HTTP answer, read to its end.

    Attributes:
        url: What was asked, without the query, which may hold a token.
        reason: Reason phrase; SPNEGO failures say their cause only there.
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
        """The first line of Hadoop's own words, "" where it said nothing."""
        return clean(self._message())

    @property
    def speaks_json(self) -> bool:
        """Whether a REST API answered: JSON, and not the page of the web server around it, which is JSON too where that is asked for."""
        return "json" in self.content_type and "servlet" not in self._error_object()

    @property
    def cut_off(self) -> bool:
        """Whether the answer certainly broke off: in its JSON, or already among its header fields, which Python takes for their end."""
        if not self.body:
            return self.status == 200 and not {"content-length", "transfer-encoding"} & set(self.headers)
        return "json" in self.content_type and not self.body.rstrip().endswith((b"}", b"]"))

    @property
    def java_class(self) -> str:
        """The Java exception that the answer names, without its package, "" where it names none."""
        answer = self._error_object()
        name = str(answer.get("javaClassName") or answer.get("exception") or "")
        return name.rpartition(".")[2]

    def json_object(self) -> dict[str, object]:
        """Return the JSON object that the answer must hold.

        Raises:
            BadAnswer: when it holds anything else, whatever its status says; a standby may answer 200 with text.
        """
        if "json" not in self.content_type:
            kind = self.content_type or "no content type"
            raise self.bad(f"{self.url} answered {self.status} with {kind} instead of JSON.")
        value = self._json()
        if not isinstance(value, dict):
            raise self.bad(f"{self.url} answered {self.status} with JSON that is cut off or of another shape.")
        return value

    def bad(self, message: str) -> BadAnswer:
        """Return the error for an answer that no working ResourceManager gives."""
        hint = "Is this the web address of a ResourceManager (yarn.resourcemanager.webapp.address)?"
        return BadAnswer(message, hint=hint, details=self.details())

    def details(self) -> dict[str, object]:
        """Return the facts that every error about this answer carries."""
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
        value = self._json() if self.body[:1] in (b"{", b"\n", b" ") else _xml_error(self.text)
        if not isinstance(value, dict):
            return {}
        inner = value.get("RemoteException", value)
        return inner if isinstance(inner, dict) else {}

    def _message(self) -> str:
        answer = self._error_object()
        for key in ("diagnostics", "message", "exception"):
            if isinstance(answer.get(key), str):
                return str(answer[key])
        if "html" in self.content_type:
            return _html_title(self.text)
        return self.text if self.content_type == "text/plain" else ""


def clean(words: str) -> str:
    """Cut Hadoop's words to one line without Java's stack, control characters and leading exception classes."""
    line = next((line for line in words.strip().splitlines() if line.strip()), "")
    line = re.sub(r"[\x00-\x1f\x7f-\x9f]+", " ", line).strip()
    line = re.sub(r"^(?:(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): )+", "", line)
    return line if len(line) <= _WORDS_MAX else line[: _WORDS_MAX - 1] + "…"


def _xml_error(text: str) -> dict[str, object]:
    """Read the fields of `<RemoteException>` without an XML parser, which would need guarding against hostile entities."""
    if "<RemoteException>" not in text:
        return {}
    fields = ("exception", "message", "javaClassName")
    found = {name: re.search(rf"<{name}>(.*?)</{name}>", text, re.DOTALL) for name in fields}
    return {name: html.unescape(match[1]) for name, match in found.items() if match}


def _html_title(text: str) -> str:
    match = re.search(r"<title>(.*?)</title>", text, re.DOTALL | re.IGNORECASE)
    return " ".join(html.unescape(match[1]).split()) if match else ""
