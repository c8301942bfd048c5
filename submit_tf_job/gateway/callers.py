"""Authenticate callers by bearer tokens.

Their file has lines `NAME sha256:HEX`. A name may have several lines, so that a token can be
replaced before it is withdrawn. A token has 256 random bits and cannot be guessed, so one round of
SHA-256 is enough.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from pathlib import Path

from submit_tf_job.errors import SettingsError, UsageError
from submit_tf_job.gateway.problems import RequestRefused
from submit_tf_job.gateway.reloaded import ReloadedFile
from submit_tf_job.settings import USER_NAME

__all__ = ["CallersFile", "line_of", "new_token", "token_of"]

_LINE = re.compile(rf"({USER_NAME})[ \t]+(sha256:[0-9a-f]{{64}})")
_PREFIX = "stfj_"  # a prefix that scanners for leaked secrets can find


def new_token() -> str:
    """Create a token with 256 random bits."""
    return _PREFIX + secrets.token_urlsafe(32)


def line_of(name: str, token: str) -> str:
    """Return the line of a callers file that maps a token to a user.

    Raises:
        UsageError: The name is not a valid user name.
    """
    if not re.fullmatch(USER_NAME, name):
        raise UsageError(
            f"{name!r} is not a valid user name",
            hint="it is the user that the caller's jobs belong to",
        )
    return f"{name} {_hash(token)}"


def token_of(authorization: str | None) -> str:
    """Return the token of an `Authorization` header.

    Raises:
        RequestRefused: The header has no bearer token.
    """
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise _refused("the request has no bearer token")
    return token.strip()


def _refused(message: str) -> RequestRefused:
    return RequestRefused(
        "not-authenticated",
        message,
        hint="send `Authorization: Bearer <token>`; the gateway's operator makes tokens",
    )


def _hash(token: str) -> str:
    return "sha256:" + hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


class CallersFile:
    """The callers file, read again when it changes, so that a token can be withdrawn without a
    restart.

    Args:
        path: The file; only its owner and root may be able to change it.

    Raises:
        SettingsError: It cannot be read, others can change it, a line is invalid, or it is empty.
    """

    def __init__(self, path: Path) -> None:
        self._file = ReloadedFile(path, "the file of callers", lambda text: _parse(path, text))

    def check(self) -> None:
        """Read the file if it has changed.

        Callers are refused while it cannot be read, because a token may have been withdrawn.
        """
        self._file.read()

    @property
    def names(self) -> frozenset[str]:
        """The users of all lines."""
        return frozenset(self._file.read().values())

    def caller(self, token: str) -> str:
        """Return the user of a token.

        Raises:
            RequestRefused: No line has this token.
            SettingsError: The file can no longer be read.
        """
        wanted, found = _hash(token), ""
        for known, name in self._file.read().items():
            if hmac.compare_digest(known, wanted):
                found = name
        if not found:
            raise _refused("the bearer token is not a caller's")
        return found


def _parse(path: Path, text: str) -> dict[str, str]:
    users: dict[str, str] = {}
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if not found:  # not quoted in the message: it may be a token, put there by mistake
            raise SettingsError(
                f"{path}:{number}: not a line such as `alice sha256:<64 hex digits>`",
                hint="submit_tf_job gateway token NAME prints one",
            )
        if users.setdefault(found[2], found[1]) != found[1]:
            raise SettingsError(
                f"{path}:{number}: the token of {users[found[2]]} cannot be {found[1]}'s, too"
            )
    if not users:
        raise SettingsError(
            f"the file of callers {path}: it contains no caller",
            hint="submit_tf_job gateway token NAME prints a line",
        )
    return users
