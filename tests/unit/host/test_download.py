"""Downloads of files that a job spec names by https."""

from __future__ import annotations

import hashlib
import io
import ssl
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request

import pytest

from submit_tf_job.host.download import DownloadFailed, download, name_of, shown_url

URL = "https://files.example.com/data/model%20v1.bin?signature=abc"
CONTENT = b"weights"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
INVALID = "it has, or redirects to, an address that is not valid"


class Answer(io.BytesIO):
    def __init__(self, content: bytes, length: int | None = None) -> None:
        super().__init__(content)
        self.headers = Message()
        if length is not None:
            self.headers["Content-Length"] = str(length)


class Broken(Answer):
    def read(self, size: int | None = -1, /) -> bytes:
        raise ssl.SSLError("bad record mac")


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], list[str]]:
    """Let the web answer; returns the requested URLs."""

    def serving(answer: Any) -> list[str]:
        asked: list[str] = []

        def opened(opener: OpenerDirector, url: str, **_given: Any) -> Any:
            asked.append(url)
            if callable(answer):
                answer(opener)
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(OpenerDirector, "open", opened)
        return asked

    return serving


def test_download_stores_the_content_under_its_hash(serve: Any, tmp_path: Path) -> None:
    serve(Answer(CONTENT, 7))
    path = download(URL, tmp_path, most=7)
    assert path == tmp_path / SHA256 / "model_v1.bin"
    assert path.read_bytes() == CONTENT
    assert [found.name for found in tmp_path.iterdir()] == [SHA256]


def test_download_of_a_known_hash_asks_nobody_again(serve: Any, tmp_path: Path) -> None:
    asked = serve(Answer(CONTENT))
    first = download(URL, tmp_path, most=7, sha256=SHA256)
    assert (download(URL, tmp_path, most=7, sha256=SHA256), len(asked)) == (first, 1)


@pytest.mark.parametrize(
    ("answer", "most", "sha256", "message"),
    [
        (Answer(CONTENT, 8), 7, "", "it has 8 bytes, and 7 are left for files"),
        (Answer(CONTENT), 6, "", "it has more than the 6 bytes left for files"),
        (Answer(CONTENT, 9), 99, "", "the connection ended after 7 of 9 bytes"),
        (Answer(CONTENT), 99, "0" * 64, f"its SHA-256 is {SHA256}, and not the stated {'0' * 64}"),
        (HTTPError(URL, 404, "No", Message(), None), 9, "", "the server answers 404 No"),
        (URLError("no route to host"), 9, "", "cannot be fetched: no route to host"),
        (TimeoutError("timed out"), 9, "", "cannot be fetched: timed out"),
        (Broken(CONTENT), 9, "", "cannot be fetched: ('bad record mac',)"),
        (ValueError("Invalid IPv6 URL https://[x/?signature=abc"), 9, "", INVALID),
    ],
)
def test_download_failure_leaves_nothing(
    serve: Any, tmp_path: Path, answer: Any, most: int, sha256: str, message: str
) -> None:
    serve(answer)
    with pytest.raises(DownloadFailed) as caught:
        download(URL, tmp_path, most=most, sha256=sha256)
    assert str(caught.value) == message
    assert list(tmp_path.iterdir()) == []


def test_download_ends_at_its_deadline(serve: Any, tmp_path: Path) -> None:
    serve(Answer(CONTENT))
    times = iter([0.0, 3601.0])
    with pytest.raises(DownloadFailed, match="did not arrive within 3600 s"):
        download(URL, tmp_path, most=9, clock=lambda: next(times))


@pytest.mark.parametrize(("sha256", "said"), [("", "without https"), (SHA256, "let through")])
def test_redirect_to_http_wants_a_hash(serve: Any, tmp_path: Path, sha256: str, said: str) -> None:
    def redirect(opener: Any) -> None:
        [handler] = [one for one in opener.handlers if isinstance(one, HTTPRedirectHandler)]
        asked: Any = Request(URL), io.BytesIO(), 302, "Found", Message(), "http://other/x"
        if handler.redirect_request(*asked) is not None:
            raise URLError("let through")

    serve(redirect)
    with pytest.raises(DownloadFailed, match=said):
        download(URL, tmp_path, most=9, sha256=sha256)


def test_names_and_messages_leave_the_query_out() -> None:
    assert name_of(URL) == "model_v1.bin"
    assert name_of("https://example.com/") == ""
    assert shown_url(URL) == "https://files.example.com/data/model%20v1.bin"
    secret = "https://me:secret@example.com/x?token=secret#secret"
    assert shown_url(secret) == "https://example.com/x"
