"""Authenticate callers: by bearer tokens, and by Kerberos (SPNEGO).

Their file has lines `NAME sha256:HEX`. A name may have several lines, so that a token can be
replaced before it is withdrawn. A token has 256 random bits and cannot be guessed, so one round of
SHA-256 is enough.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from pathlib import Path
from typing import Any

from submit_tf_job.errors import SettingsError, UsageError
from submit_tf_job.gateway.problems import RequestRefused
from submit_tf_job.gateway.reloaded import ReloadedFile
from submit_tf_job.host import kerberos
from submit_tf_job.host.secretfile import refuse_if_others_can_read
from submit_tf_job.settings import USER_NAME

__all__ = ["CallersFile", "Negotiator", "line_of", "new_token", "token_of"]

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


# --- Kerberos -------------------------------------------------------------------------------------

_MECHANISMS = ("1.3.6.1.5.5.2", "1.2.840.113554.1.2.2")  # SPNEGO, Kerberos 5
_NTLM = b"NTLMSSP"


class Negotiator:
    """Accepts the Kerberos tickets of callers.

    Args:
        keytab: A file with keys of HTTP/<host> for each name of the gateway, readable by its owner
            only.
        krb5_conf: Kerberos configuration, None for this machine's.

    Raises:
        SettingsError: The keytab has no such key, others can read it, or the packages of the extra
            `kerberos` are missing.
    """

    def __init__(self, keytab: Path, krb5_conf: Path | None = None) -> None:
        refuse_if_others_can_read(keytab, "the keytab")
        kerberos.log_in(None, None, krb5_conf)
        self._gssapi = gssapi = kerberos.library("gssapi")
        realms = {
            name.rpartition("@")[2] for name in _principals(keytab) if name.startswith("HTTP/")
        }
        if not realms:
            raise SettingsError(
                f"--negotiate {keytab}: it contains no key of HTTP/<host>",
                hint="callers request tickets for that service",
            )
        self._realms = realms
        try:
            mechanisms = [gssapi.OID.from_int_seq(oid) for oid in _MECHANISMS]
            self._credentials = gssapi.Credentials(
                usage="accept", mechs=mechanisms, store={"keytab": f"FILE:{keytab.absolute()}"}
            )
        except gssapi.exceptions.GSSError as error:
            raise SettingsError(f"--negotiate {keytab}: cannot be used: {error}") from None

    def caller(self, token: str) -> tuple[str, str]:
        """Return the user of a token, and the token that authenticates the gateway.

        Args:
            token: The base64 text after `Negotiate` in the header.

        Raises:
            RequestRefused: The token is invalid, or its user is not a known caller.
        """
        try:
            sent = base64.b64decode(token, validate=True)
        except binascii.Error:
            raise self.refused("the text after Negotiate is not a token") from None
        if sent.startswith(_NTLM):
            raise self.refused(
                "the caller sent NTLM, and only Kerberos is accepted: it has no ticket for "
                "this gateway's name"
            )
        context: Any = self._gssapi.SecurityContext(creds=self._credentials, usage="accept")
        try:
            answer = context.step(sent)
            principal = str(context.initiator_name) if context.complete else ""
        except self._gssapi.exceptions.GSSError as error:
            words = " ".join(str(getattr(error, "min_message", "") or error).split())[:200]
            raise self.refused(f"the Kerberos ticket is not valid: {words}") from None
        if not principal:
            raise self.refused("Kerberos needs more than one round, which is not supported")
        return self._user_of(principal), base64.b64encode(answer or b"").decode()

    def _user_of(self, principal: str) -> str:
        user, realm = kerberos.short_name(principal), principal.rpartition("@")[2]
        if realm not in self._realms or not re.fullmatch(USER_NAME, user):
            raise self.refused(
                f"{principal[:200]} is not a caller: callers are of the realm "
                f"{', '.join(sorted(self._realms))}"
            )
        return user

    @staticmethod
    def refused(message: str) -> RequestRefused:
        """Return the error for a caller that uses Kerberos."""
        return RequestRefused(
            "not-authenticated",
            message,
            hint="kinit, and call the gateway by the host name that its keytab has",
        )


def _principals(keytab: Path) -> list[str]:
    krb5 = kerberos.library("krb5")
    try:
        table = krb5.kt_resolve(krb5.init_context(), f"FILE:{keytab}".encode())
        return [str(entry.principal) for entry in table]
    except krb5.Krb5Error as error:
        raise SettingsError(f"--negotiate {keytab}: cannot be read: {error}") from None
