"""POST /v1/jobs: read the body, with or without files, and submit it once per idempotency key.

The submission's key is a hash of the caller and of the caller's idempotency key, and the run's name
is computed from it. So any gateway that gets the same request finds the run, even after a crash.
The service contains the hash of the job and its files, so a different body with the same key is
detected. The gateway itself stores nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from submit_tf_job.errors import KeyReused, UsageError
from submit_tf_job.gateway.policy import Policy
from submit_tf_job.gateway.problems import RequestRefused
from submit_tf_job.gateway.runtime import Gateway, in_thread, upload_unavailable
from submit_tf_job.jsonview import submission_object
from submit_tf_job.sdk.client import Client, JobHandle

if TYPE_CHECKING:
    from submit_tf_job.sdk.client import Job

T = TypeVar("T")


@dataclass(frozen=True)
class SentJob:
    """The job of a request.

    Attributes:
        job: A job spec, YAML or JSON.
        source: The name of the job spec in messages; it ends in .json for JSON.
        directory: The directory of the uploaded files; None without files.
        files: The names of the uploaded files, each with its SHA-256.
    """

    job: bytes
    source: str
    directory: Path | None = None
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def identity(self) -> bytes:
        """Bytes that identify this body; the boundaries of the parts and the order of the files do
        not change them.
        """
        return (
            self.job
            + "".join(f"\0{name}\0{digest}" for name, digest in sorted(self.files.items())).encode()
        )


def submit(
    client: Client,
    sent: SentJob,
    policy: Policy,
    key: str | None,
    dialect: str | None,
    audit: dict[str, Any],
    has_left: Callable[[], bool],
) -> tuple[JobHandle, dict[str, Any]]:
    """Submit the job in a body; the same request, sent again, finds the job's run.

    Args:
        client: The client of the caller.
        sent: The job spec. It may use the uploaded files, but no other files of this host.
        policy: What the caller may do.
        key: The caller's idempotency key; if there is none, the content of the job identifies the
            submission.
        dialect: The format of the body's job; None to recognise it.
        audit: The log's entry, to which the job's name is added.
        has_left: Returns whether the HTTP client has left; then nothing is submitted.

    Returns:
        The job, and the object of the response: the object of `submit --detach -o json` with
        additional warnings.

    Raises:
        CancelledError: The client has left.
        KeyReused: The key was used for another body.
        RequestRefused: The policy does not allow the job.
        SubmitTFJobError: As `Client.load`, `Client.plan` and `Client.submit`.
    """
    job = read_job(client, sent, dialect, has_left)
    mine = None
    if key is not None:
        digest = hashlib.sha256(f"{client.settings.user}\n{key}".encode()).hexdigest()
        mine = f"k{digest[:24]}"
    planned = client.plan(job, submission_id=mine)
    audit["job"] = job.name
    if has_left():
        raise CancelledError
    with policy.admitted(client, planned):
        if mine is not None and (other := client.other_job(planned)):
            raise _key_reused(f"job {other}")
        try:
            handle = client.submit(planned)
        except KeyReused:
            raise _key_reused("a different body") from None
    warnings = [*client.warnings(planned)]
    if job.retries and job.retries.memory:
        warnings.append(
            "retries.memory: the gateway does not submit a job again, it follows one that is; "
            "`submit_tf_job submit` of "
            "the same job spec, or the same call of the Python client, does"
        )
    assert handle.submission is not None
    return handle, submission_object(handle.submission, warnings)


def read_job(
    client: Client, sent: SentJob, dialect: str | None, has_left: Callable[[], bool]
) -> Job:
    """Return the job in a body; arguments and errors are those of `submit`."""
    return client.load_sent(
        sent.job, sent.source, files=sent.directory, dialect=dialect, has_ended=has_left
    )


def _key_reused(what: str) -> KeyReused:
    return KeyReused(
        f"this Idempotency-Key was used before with {what}",
        hint="a key belongs to one submission; use another for this one",
    )


# --- the body ---

# content type → the body's name in messages; XML is TonY's
_SOURCES = {
    f"{kind}/{name}": f"body.{name.removeprefix('x-')}"
    for kind in ("application", "text")
    for name in ("json", "yaml", "x-yaml", "xml")
}
_MULTIPART = "multipart/form-data"
_MAX_BODY = 1024 * 1024  # the limit of a job spec file
_LONGEST_NAME, _LONGEST_PART = 1024, 255
_MOST_LEVELS = 50
_HEADERS = 8 * 1024
_PIECE = 256 * 1024
_CLOSE = {"Connection": "close"}


@asynccontextmanager
async def received(request: Request, gateway: Gateway, caller: str) -> AsyncIterator[SentJob]:
    """Receive the body of a request with a job. The uploaded files are removed when the block ends.

    Raises:
        RequestRefused: The body is too large, too slow, or of an unknown content type; there are
            too many uploads at once; or the files cannot be stored.
        UsageError: The body is not valid multipart/form-data.
    """
    media, limits = _media_type(request), gateway.limits
    if media != _MULTIPART:
        if media not in _SOURCES:
            raise RequestRefused(
                "media-type",
                f"{media[:100] or 'no content type'}: a job spec is application/json or "
                f"application/yaml, with files multipart/form-data",
            )
        yield SentJob(await _in_time(_job_spec(request), limits.body_s), _SOURCES[media])
        return
    with gateway.uploading.take(caller):
        directory = await in_thread(gateway.uploads.new)
        _, options = parse_options_header(request.headers["content-type"])
        try:
            parts = _Parts(options.get(b"boundary", b""), directory, limits.upload_files)
            try:
                await _in_time(_feed_parser(request, limits.upload_bytes, parts), limits.upload_s)
            finally:
                parts.close()
            yield SentJob(
                parts.finish(), f"job.{'json' if parts.is_json else 'yaml'}", directory, parts.files
            )
        finally:
            await in_thread(lambda: shutil.rmtree(directory, ignore_errors=True))


def _media_type(request: Request) -> str:
    media, _, parameters = request.headers.get("content-type", "").partition(";")
    if "charset" in parameters.lower() and "utf-8" not in parameters.lower():
        raise RequestRefused("media-type", "a body must be UTF-8")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise RequestRefused("media-type", "a body must not have a Content-Encoding")
    return media.strip().lower()


async def _job_spec(request: Request) -> bytes:
    too_large = _too_large(
        "larger than 1 MiB; a job spec holds no data",
        "send files as multipart/form-data, or put them on HDFS or into the image",
    )
    return b"".join([piece async for piece in _body_pieces(request, _MAX_BODY, too_large)])


async def _feed_parser(request: Request, most: int, parts: _Parts) -> None:
    """Pass a body to its parser piece by piece, in a thread, because the disk may be slow.

    Raises:
        RequestRefused: The body is too large.
    """
    waiting = b""
    too_large = _too_large(
        f"the files come to more than {most / 1024**2:g} MiB", "put large ones on HDFS"
    )
    async for piece in _body_pieces(request, most + _MAX_BODY, too_large):
        waiting += piece
        if len(waiting) >= _PIECE:
            await in_thread(partial(parts.feed, waiting))
            waiting = b""
    await in_thread(partial(parts.feed, waiting))


def _too_large(message: str, hint: str = "") -> RequestRefused:
    return RequestRefused("too-large", message, hint=hint, headers=_CLOSE)


async def _body_pieces(
    request: Request, most: int, too_large: RequestRefused
) -> AsyncIterator[bytes]:
    """Yield the pieces of a body; refuse the body if it is larger than its limit."""
    declared, size = request.headers.get("content-length", "0"), 0
    if declared.isdigit() and int(declared) > most:
        raise too_large
    async for piece in request.stream():
        size += len(piece)
        if size > most:
            raise too_large
        yield piece


async def _in_time(reading: Awaitable[T], within_s: float) -> T:
    try:
        return await asyncio.wait_for(reading, within_s)
    except asyncio.TimeoutError:
        raise RequestRefused(
            "request-timeout", "the body did not arrive in time", headers=_CLOSE
        ) from None


# --- the parts of a body with files ---


class _Parts:
    """Parses the parts of a body as they arrive; keeps `job` in memory, and writes each part
    `files` to disk.

    Attributes:
        job: The job spec.
        is_json: Whether the part with the job spec is JSON.
        files: Name of each file → its SHA-256.
    """

    def __init__(self, boundary: bytes, directory: Path, most_files: int) -> None:
        self.job: bytes | None = None
        self.is_json = False
        self.files: dict[str, str] = {}
        self._directory, self._most_files = directory, most_files
        self._headers: dict[str, bytes] = {}
        self._field, self._value, self._header_bytes = bytearray(), bytearray(), 0
        self._kept = bytearray()
        self._out: IO[bytes] | None = None
        self._name, self._hash = "", hashlib.sha256()
        self._ended = False
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin_part,
                    "on_header_field": lambda data, start, end: self._add_header_bytes(
                        self._field, data, start, end
                    ),
                    "on_header_value": lambda data, start, end: self._add_header_bytes(
                        self._value, data, start, end
                    ),
                    "on_header_end": self._end_header,
                    "on_headers_finished": self._open_part,
                    "on_part_data": self._take_data,
                    "on_part_end": self._close_part,
                    "on_end": self._end_body,
                },
            )
        except FormParserError:
            raise _unreadable_body("its boundary is not valid") from None

    def feed(self, data: bytes) -> None:
        """Parse the next bytes.

        Raises:
            RequestRefused: A limit is exceeded, or the disk is full.
            UsageError: The bytes are not valid multipart/form-data, or a part is not expected.
        """
        try:
            self._parser.write(data)
        except FormParserError:
            raise _unreadable_body("it is not valid multipart/form-data") from None
        except OSError:
            raise upload_unavailable() from None

    def finish(self) -> bytes:
        """Return the job spec; call this after the whole body has arrived.

        Raises:
            UsageError: The body is truncated, or contains no job spec.
        """
        if not self._ended:
            raise _unreadable_body("it ends before its last boundary")
        if self.job is None:
            raise _unreadable_body("it has no part `job`")
        return self.job

    def close(self) -> None:
        """Close the file that is being written."""
        if self._out is not None:
            self._out.close()
            self._out = None

    # --- callbacks of the parser ---

    def _begin_part(self) -> None:
        self._headers, self._header_bytes = {}, 0

    def _add_header_bytes(self, part: bytearray, data: bytes, start: int, end: int) -> None:
        self._header_bytes += end - start
        if self._header_bytes > _HEADERS:
            raise _unreadable_body("the header of a part is too long")
        part += data[start:end]

    def _end_header(self) -> None:
        self._headers[self._field.decode("latin-1").strip().lower()] = bytes(self._value).strip()
        self._field.clear()
        self._value.clear()

    def _open_part(self) -> None:
        _, options = parse_options_header(self._headers.get("content-disposition", b""))
        part, name = options.get(b"name", b""), options.get(b"filename")
        if part == b"files":
            self._open_file(_checked_file_name(name))
        elif part == b"job" and self.job is None:
            media = self._headers.get("content-type", b"").partition(b";")[0].strip().lower()
            self.is_json = media in (b"application/json", b"text/json") or (name or b"").endswith(
                b".json"
            )
            self._kept.clear()
        else:
            raise _unreadable_body("its parts are one `job` and any number of `files`")

    def _open_file(self, name: str) -> None:
        if len(self.files) >= self._most_files:
            raise _too_large(f"more than {self._most_files} files", "pack them into one archive")
        path = self._directory / name
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._out = os.fdopen(
                os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb"
            )
        except (FileExistsError, IsADirectoryError, NotADirectoryError):
            raise _unreadable_body(f"two of its files have the name {name[:200]}") from None
        self._name, self._hash = name, hashlib.sha256()

    def _take_data(self, data: bytes, start: int, end: int) -> None:
        piece = data[start:end]
        if self._out is not None:
            self._out.write(piece)
            self._hash.update(piece)
            return
        self._kept += piece
        if len(self._kept) > _MAX_BODY:
            raise _too_large("the job spec is larger than 1 MiB")

    def _close_part(self) -> None:
        if self._out is None:
            self.job = bytes(self._kept)
            return
        self.close()
        self.files[self._name] = self._hash.hexdigest()

    def _end_body(self) -> None:
        self._ended = True


def _checked_file_name(raw: bytes | None) -> str:
    """Return the name of an uploaded file, which must be a short relative path without `..`.

    Raises:
        UsageError: It is not.
    """
    try:
        name = (raw or b"").decode("utf-8")
    except UnicodeDecodeError:
        raise _unreadable_body("the name of a file is not UTF-8") from None
    parts = name.split("/")
    plain = name.isprintable() and len(raw or b"") <= _LONGEST_NAME and len(parts) <= _MOST_LEVELS
    if not plain or any(
        part in ("", ".", "..") or len(part.encode()) > _LONGEST_PART for part in parts
    ):
        raise UsageError(
            "a part `files` needs a filename that is a short relative path without '.' and '..'",
            hint="with curl: -F 'files=@src/train.py;filename=src/train.py'",
        )
    return name


def _unreadable_body(why: str) -> UsageError:
    return UsageError(
        f"the body cannot be read: {why}", hint="submit_tf_job help gateway shows such a request"
    )
