"""A file of the gateway's operator that is read again when it changes, without a restart."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from submit_tf_job.errors import SettingsError
from submit_tf_job.host.inputfile import read_input, reason
from submit_tf_job.host.secretfile import refuse_if_others_can_change

__all__ = ["ReloadedFile"]

T = TypeVar("T")


class ReloadedFile(Generic[T]):
    """A file that is parsed at once, and again when it has changed.

    Args:
        path: The file; only its owner and root may be able to change it.
        what: Its name in messages: "the file of callers".
        parse: Parses its text; raises SettingsError.

    Raises:
        SettingsError: It cannot be read, others can change it, or it is invalid.
    """

    def __init__(self, path: Path, what: str, parse: Callable[[str], T]) -> None:
        self._path, self._what, self._parse = path, what, parse
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self.read()

    def read(self) -> T:
        """Return what the file says now.

        There is nothing to fall back on while it is invalid, because it may have withdrawn a right.
        """
        with self._lock:
            refuse_if_others_can_change(self._path, self._what)
            found = self._path.stat()
            seen = (found.st_mtime_ns, found.st_size, found.st_ino)
            if seen != self._seen:
                self._seen = None
                self._content = self._parse(self._text())
                self._seen = seen
            return self._content

    def _text(self) -> str:
        try:
            return read_input(self._path).decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"{self._what} {self._path}: cannot be read: {reason(error)}"
            ) from None
