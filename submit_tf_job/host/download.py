"""Download a file from a web server into a directory, under the hash of its content."""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from urllib.request import OpenerDirector

SILENCE_S = 30.0  # longest time without a byte
TOTAL_S = 3600.0
_PIECE = 1024 * 1024


class DownloadFailed(Exception):
    """A file cannot be downloaded; the text of the error is the end of a message."""


def shown_url(url: str) -> str:
    """Return a URL for messages: without user and password, and without query and fragment, which
    may contain a signature.
    """
    scheme, _, rest = url.partition("://")
    host, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def name_of(url: str) -> str:
    """Return a name for the file at a URL, safe as a file's name: of the last component of the
    path, at most 100 characters, with `_` for all but ASCII letters, digits, `.`, `+` and `-`, and
    without dots at its beginning. "" if the path ends in a slash.
    """
    name = posixpath.basename(unquote(urlsplit(url).path))
    return re.sub(r"[^\w.+-]", "_", name, flags=re.ASCII)[-100:].lstrip(".")


def download(
    url: str,
    directory: Path,
    *,
    most: int,
    sha256: str = "",
    clock: Callable[[], float] = time.monotonic,
) -> Path:
    """Download a file and return its path: `directory`/SHA-256 of the content/name.

    Args:
        url: An https URL; with `sha256` also an http URL.
        directory: The directory of all downloads.
        most: Largest number of bytes.
        sha256: The expected hash in lower-case hexadecimal digits. A file with this hash that is
            already in the directory is not downloaded again. "" to accept any content.
        clock: A monotonic clock.

    Raises:
        DownloadFailed: The server cannot be reached or refuses the request; or the content is too
            large, has another hash, or does not arrive in time.
        OSError: The directory cannot be written.
    """
    name = name_of(url)
    known = directory / sha256 / name
    if sha256 and known.is_file():
        return known
    directory.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(prefix=".part-", dir=directory)
    try:
        with os.fdopen(handle, "wb") as out:
            found = _fetch_to_file(
                url, out, most, secure=not sha256, end=clock() + TOTAL_S, clock=clock
            )
        if sha256 and found != sha256:
            raise DownloadFailed(f"its SHA-256 is {found}, and not the stated {sha256}")
        path = directory / found / name
        path.parent.mkdir(exist_ok=True)
        if not path.is_file():
            Path(part).replace(path)
        return path
    finally:
        Path(part).unlink(missing_ok=True)


def _fetch_to_file(
    url: str, out: IO[bytes], most: int, *, secure: bool, end: float, clock: Callable[[], float]
) -> str:
    """Write the content of a URL to `out`, and return its SHA-256. With `secure`, redirects must
    lead to https. `most` and `end` limit the bytes and the time by `clock`.
    """
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError

    digest, size = hashlib.sha256(), 0
    try:
        with _redirecting_opener(secure=secure).open(url, timeout=SILENCE_S) as answer:
            stated = answer.headers.get("Content-Length", "")
            if stated.isdecimal() and int(stated) > most:
                raise DownloadFailed(f"it has {stated} bytes, and {most} are left for files")
            while piece := _next_piece(answer):
                size += len(piece)
                if size > most:
                    raise DownloadFailed(f"it has more than the {most} bytes left for files")
                if clock() > end:
                    raise DownloadFailed(f"it did not arrive within {TOTAL_S:g} s")
                digest.update(piece)
                out.write(piece)
    except HTTPError as error:
        raise DownloadFailed(f"the server answers {error.code} {error.reason}") from None
    except (URLError, HTTPException, TimeoutError, ConnectionError) as error:
        raise DownloadFailed(f"cannot be fetched: {getattr(error, 'reason', error)}") from None
    except ValueError:  # its text may hold the signature of an address that it redirects to
        raise DownloadFailed("it has, or redirects to, an address that is not valid") from None
    if stated.isdecimal() and size < int(stated):
        raise DownloadFailed(f"the connection ended after {size} of {stated} bytes")
    return digest.hexdigest()


def _next_piece(answer: HTTPResponse) -> bytes:
    """Return the next bytes of a response; b"" at its end.

    Raises:
        DownloadFailed: The connection broke: no other `OSError` is one of the network's.
    """
    try:
        return answer.read(_PIECE)
    except OSError as error:  # of TLS, too, and of a network that is gone
        raise DownloadFailed(f"cannot be fetched: {error}") from None


def _redirecting_opener(*, secure: bool) -> OpenerDirector:
    """Return an opener that follows redirects to https; unless `secure`, also redirects to http.

    The opener uses the proxies that the environment names, as curl does.
    """
    from urllib.error import URLError
    from urllib.request import HTTPRedirectHandler, build_opener

    class Redirects(HTTPRedirectHandler):
        def redirect_request(self, *arguments: Any) -> Any:
            target = str(arguments[-1])
            if not target.startswith("https://" if secure else ("https://", "http://")):
                raise URLError("it redirects to an address without https")
            return super().redirect_request(*arguments)

    made = build_opener(Redirects)
    made.addheaders = [("User-Agent", "submit_tf_job")]
    return made
