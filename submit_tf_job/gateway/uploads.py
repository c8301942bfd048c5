"""Uploaded files: multipart/form-data, written to disk on arrival, removed after the request."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import IO

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from submit_tf_job.errors import UsageError
from submit_tf_job.gateway.problems import RequestRefused

MAX_BODY = 1024 * 1024  # the limit of a job spec file

_PREFIX = "submit_tf_job-uploads-"
_YOUNG_S = 60.0  # a gateway that has just created its directory may not hold the lock yet
_LONGEST_NAME, _LONGEST_PART = 1024, 255
_MOST_LEVELS = 50
_HEADERS = 8 * 1024


def _unavailable() -> RequestRefused:
    """Return the error for a disk that is full or not writable."""
    return RequestRefused(
        "upload-unavailable", "the gateway cannot store the files now", hint="try again later"
    )


class UploadDirectory:
    """The directory of one gateway's uploads.

    The gateway holds a lock on it. The next gateway removes directories of killed gateways.

    Args:
        parent: Where to create it; None for the system's temporary directory.
    """

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = parent
        self._lock = threading.Lock()
        self._made: tuple[Path, int] | None = None

    def new(self) -> Path:
        """Create a directory for one request.

        Raises:
            RequestRefused: The file system does not allow it.
        """
        try:
            return Path(tempfile.mkdtemp(dir=self._own()))
        except OSError:
            raise _unavailable() from None

    def close(self) -> None:
        """Remove everything."""
        with self._lock:
            made, self._made = self._made, None
        if made is not None:
            shutil.rmtree(made[0], ignore_errors=True)
            os.close(made[1])

    def _own(self) -> Path:
        with self._lock:
            if self._made is None:
                path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=self._parent))
                self._made = (path, _locked(path))
            return self._made[0]

    def sweep(self) -> None:
        """Remove the directories of gateways that no longer run."""
        with contextlib.suppress(OSError):
            parent = self._parent or Path(tempfile.gettempdir())
            for path in parent.glob(f"{_PREFIX}*"):
                with contextlib.suppress(OSError):
                    _remove_abandoned(path)


def _locked(path: Path) -> int:
    """Open a directory and lock it.

    Raises:
        OSError: It is locked, or not a directory.
    """
    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        raise
    return opened


def _remove_abandoned(path: Path) -> None:
    found = path.lstat()
    if found.st_uid != os.geteuid() or time.time() - found.st_mtime < _YOUNG_S:
        return
    opened = _locked(path)
    try:
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(opened)


class Parts:
    """Parses the parts of a body as they arrive; keeps `job` in memory, and writes each of `files`
    to disk.

    Attributes:
        job: The job spec.
        is_json: Whether the job spec's part is JSON.
        files: Name to SHA-256.
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
                    "on_part_begin": self._begin,
                    "on_header_field": lambda data, start, end: self._header(
                        self._field, data, start, end
                    ),
                    "on_header_value": lambda data, start, end: self._header(
                        self._value, data, start, end
                    ),
                    "on_header_end": self._end_header,
                    "on_headers_finished": self._open,
                    "on_part_data": self._take,
                    "on_part_end": self._close,
                    "on_end": self._end,
                },
            )
        except FormParserError:
            raise _broken("its boundary is not valid") from None

    def feed(self, data: bytes) -> None:
        """Parse the next bytes.

        Raises:
            RequestRefused: A limit is exceeded, or the disk is full.
            UsageError: The bytes are not valid multipart/form-data, or a part is not expected.
        """
        try:
            self._parser.write(data)
        except FormParserError:
            raise _broken("it is not valid multipart/form-data") from None
        except OSError:
            raise _unavailable() from None

    def finish(self) -> bytes:
        """Return the job spec, once everything has arrived.

        Raises:
            UsageError: The body is truncated, or contains no job spec.
        """
        if not self._ended:
            raise _broken("it ends before its last boundary")
        if self.job is None:
            raise _broken("it has no part `job`")
        return self.job

    def close(self) -> None:
        """Close the file that is being written."""
        if self._out is not None:
            self._out.close()
            self._out = None

    # --- callbacks of the parser ---

    def _begin(self) -> None:
        self._headers, self._header_bytes = {}, 0

    def _header(self, part: bytearray, data: bytes, start: int, end: int) -> None:
        self._header_bytes += end - start
        if self._header_bytes > _HEADERS:
            raise _broken("the header of a part is too long")
        part += data[start:end]

    def _end_header(self) -> None:
        self._headers[self._field.decode("latin-1").strip().lower()] = bytes(self._value).strip()
        self._field.clear()
        self._value.clear()

    def _open(self) -> None:
        _, options = parse_options_header(self._headers.get("content-disposition", b""))
        part, name = options.get(b"name", b""), options.get(b"filename")
        if part == b"files":
            self._open_file(_checked(name))
        elif part == b"job" and self.job is None:
            media = self._headers.get("content-type", b"").partition(b";")[0].strip().lower()
            self.is_json = media in (b"application/json", b"text/json") or (name or b"").endswith(
                b".json"
            )
            self._kept.clear()
        else:
            raise _broken("its parts are one `job` and any number of `files`")

    def _open_file(self, name: str) -> None:
        if len(self.files) >= self._most_files:
            raise RequestRefused(
                "too-large",
                f"more than {self._most_files} files",
                hint="pack them into one archive",
                headers=_CLOSE,
            )
        path = self._directory / name
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._out = os.fdopen(
                os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb"
            )
        except (FileExistsError, IsADirectoryError, NotADirectoryError):
            raise _broken(f"two of its files have the name {name[:200]}") from None
        self._name, self._hash = name, hashlib.sha256()

    def _take(self, data: bytes, start: int, end: int) -> None:
        piece = data[start:end]
        if self._out is not None:
            self._out.write(piece)
            self._hash.update(piece)
            return
        self._kept += piece
        if len(self._kept) > MAX_BODY:
            raise RequestRefused("too-large", "the job spec is larger than 1 MiB", headers=_CLOSE)

    def _close(self) -> None:
        if self._out is None:
            self.job = bytes(self._kept)
            return
        self.close()
        self.files[self._name] = self._hash.hexdigest()

    def _end(self) -> None:
        self._ended = True


_CLOSE = {"Connection": "close"}


def _checked(raw: bytes | None) -> str:
    """Return the name of an uploaded file: a relative path below its directory."""
    try:
        name = (raw or b"").decode("utf-8")
    except UnicodeDecodeError:
        raise _broken("the name of a file is not UTF-8") from None
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


def _broken(why: str) -> UsageError:
    return UsageError(
        f"the body cannot be read: {why}", hint="submit_tf_job help gateway shows such a request"
    )
