"""Who is calling: bearer tokens, of which a file holds the hashes, and the subjects of TLS certificates, which stand in the same file.

A line of the file is `NAME sha256:HEX` or `NAME cert:SUBJECT`; a name may have several, so that a token can be replaced before it is
withdrawn. A token has 256 random bits, so one round of SHA-256 is enough: there is nothing to guess.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
from pathlib import Path

from submit_tf_job.errors import SettingsError, UsageError
from submit_tf_job.gateway.problems import RequestRefused
from submit_tf_job.secretfile import refuse_if_others_can_change
from submit_tf_job.settings import USER_NAME

__all__ = ["CallersFile", "line_of", "new_token", "token_of"]

_LINE = re.compile(rf"({USER_NAME})[ \t]+(sha256:[0-9a-f]{{64}}|cert:[!-~].*)")
_PREFIX = "stfj_"  # so that scanners for leaked secrets can find them


def new_token() -> str:
    """Make a token: 256 random bits."""
    return _PREFIX + secrets.token_urlsafe(32)


def line_of(name: str, token: str) -> str:
    """Write the line of a file of callers that lets a token in as a user.

    Raises:
        UsageError: The name is none of a user.
    """
    if not re.fullmatch(USER_NAME, name):
        raise UsageError(f"{name!r} is no user name", hint="it is the user that the caller's jobs belong to")
    return f"{name} {_hash(token)}"


def token_of(authorization: str | None) -> str:
    """Take the token out of an `Authorization` header.

    Raises:
        RequestRefused: There is none.
    """
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise _refused("no bearer token came with the request")
    return token.strip()


def _refused(message: str) -> RequestRefused:
    return RequestRefused("not-authenticated", message, hint="send `Authorization: Bearer <token>`; the gateway's operator makes tokens")


def _hash(token: str) -> str:
    return "sha256:" + hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


class CallersFile:
    """The file of callers; read again when it has changed, so that a token can be withdrawn without a restart.

    Args:
        path: The file; nobody but its owner and root may change it.

    Raises:
        SettingsError: It cannot be read, others can change it, a line is none, or it is empty.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._users: dict[str, str] = {}
        self.check()

    def check(self) -> None:
        """Read the file where it has changed. While it cannot be read nobody is let in: a token may have been withdrawn by the change."""
        with self._lock:
            refuse_if_others_can_change(self._path, "the file of callers")
            found = self._path.stat()
            seen = (found.st_mtime_ns, found.st_size, found.st_ino)
            if seen != self._seen:
                self._seen = None
                self._users = _read(self._path)
                self._seen = seen

    @property
    def names(self) -> frozenset[str]:
        """Everybody who is in it."""
        return frozenset(self._users.values())

    def of_certificate(self, subject: str) -> str:
        """Say whose a certificate is, by its subject.

        Raises:
            RequestRefused: Nobody's.
            SettingsError: The file cannot be read any more.
        """
        self.check()
        found = self._users.get(f"cert:{subject}")
        if found is None:
            raise _refused(f"the certificate of {subject[:200]} is nobody's")
        return found

    def caller(self, token: str) -> str:
        """Say whose a token is.

        Raises:
            RequestRefused: Nobody's.
            SettingsError: The file cannot be read any more.
        """
        self.check()
        wanted, found = _hash(token), ""
        for known, name in self._users.items():
            if hmac.compare_digest(known, wanted):
                found = name
        if not found:
            raise _refused("the bearer token is nobody's")
        return found


def _read(path: Path) -> dict[str, str]:
    users: dict[str, str] = {}
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the file of callers {path}: cannot be read: {error}") from None
    for number, raw in enumerate(lines, 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if not found:  # it is not quoted: it may be a token that somebody put there by mistake
            raise SettingsError(
                f"{path}:{number}: no line such as `alice sha256:<64 hex digits>` or `alice cert:CN=alice,O=Example`",
                hint="submit_tf_job gateway token NAME prints one",
            )
        if users.setdefault(found[2], found[1]) != found[1]:
            what = "certificate" if found[2].startswith("cert:") else "token"
            raise SettingsError(f"{path}:{number}: the {what} of {users[found[2]]} cannot be {found[1]}'s, too")
    if not users:
        raise SettingsError(f"the file of callers {path}: there is nobody in it", hint="submit_tf_job gateway token NAME prints a line")
    return users
