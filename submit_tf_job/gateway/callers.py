"""Authenticate callers, with bearer tokens or Kerberos (SPNEGO), and connect to the cluster with
their identity.

The file of callers has lines `NAME sha256:HEX`. A name may have several lines, so that a caller can
get a new token before the old one is withdrawn. A token has 256 random bits and cannot be guessed,
so one round of SHA-256 is enough.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from submit_tf_job.errors import ClusterUnavailable, SettingsError, UsageError
from submit_tf_job.gateway.problems import RequestRefused
from submit_tf_job.host import kerberos
from submit_tf_job.host.user_files import (
    read_input,
    reason,
    refuse_if_others_can_change,
    refuse_if_others_can_read,
)
from submit_tf_job.settings import USER_NAME, Settings

if TYPE_CHECKING:
    from submit_tf_job.sdk.client import Client

T = TypeVar("T")
_LINE = re.compile(rf"({USER_NAME})[ \t]+(sha256:[0-9a-f]{{64}})")
_HINT = "send `Authorization: Bearer <token>`; the gateway's operator makes tokens"
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
    return f"{name} {_token_hash(token)}"


def _not_authenticated(message: str, hint: str = _HINT) -> RequestRefused:
    return RequestRefused("not-authenticated", message, hint=hint)


def _token_hash(token: str) -> str:
    return "sha256:" + hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


class ReloadedFile(Generic[T]):
    """A file that is parsed when it is opened, and again whenever it has changed.

    Args:
        path: The file; only its owner and root may be able to change it.
        what: The file's name in messages: "the file of callers".
        parse: Parses the file's text.

    Raises:
        SettingsError: The file cannot be read, other users can change it, or it is not valid.
    """

    def __init__(self, path: Path, what: str, parse: Callable[[str], T]) -> None:
        self._path, self._what, self._parse = path, what, parse
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self.read()

    def read(self) -> T:
        """Return the present content of the file, parsed.

        While the file is not valid, its former content is not used either, because the change may
        have withdrawn a right.

        Raises:
            SettingsError: The file cannot be read, other users can change it, or it is not valid.
        """
        with self._lock:
            refuse_if_others_can_change(self._path, self._what)
            found = self._path.stat()
            seen = (found.st_mtime_ns, found.st_size, found.st_ino)
            if seen != self._seen:
                self._seen = None
                try:
                    text = read_input(self._path).decode("utf-8")
                except (OSError, UnicodeDecodeError) as error:
                    raise SettingsError(
                        f"{self._what} {self._path}: cannot be read: {reason(error)}"
                    ) from None
                self._content = self._parse(text)
                self._seen = seen
            return self._content


class CallersFile(ReloadedFile[dict[str, str]]):
    """The callers file, as a mapping from the hash of each token to its user. It is read again when
    it changes, so that a token can be withdrawn without a restart.

    Args:
        path: The file; only its owner and root may be able to change it.

    Raises:
        SettingsError: The file cannot be read, other users can change it, a line is not valid, or
            the file is empty.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "the file of callers", lambda text: _parse_callers(path, text))

    def caller(self, authorization: str) -> str:
        """Return the user of the token in an `Authorization` header.

        Raises:
            RequestRefused: The header has no bearer token, or no line of the file has the token.
            SettingsError: The file can no longer be read, or is no longer valid.
        """
        return _caller_of(authorization, self.read())


class OnePerson:
    """The only caller of the gateway that the command `ui` starts. The caller's token belongs to
    this process and is in no file.
    """

    def __init__(self, user: str, token: str) -> None:
        self._users = {_token_hash(token): user}

    def read(self) -> dict[str, str]:
        """Return a mapping from the hash of the token to the user."""
        return self._users

    def caller(self, authorization: str) -> str:
        """Return the user of the token in an `Authorization` header.

        Raises:
            RequestRefused: The header does not have this token.
        """
        return _caller_of(authorization, self._users)


def _caller_of(authorization: str, users: Mapping[str, str]) -> str:
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise _not_authenticated("the request has no bearer token")
    wanted, found = _token_hash(token.strip()), ""
    for known, name in users.items():
        if hmac.compare_digest(known, wanted):
            found = name
    if not found:
        raise _not_authenticated("the bearer token is not a caller's")
    return found


def _parse_callers(path: Path, text: str) -> dict[str, str]:
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


def _no_ticket(message: str) -> RequestRefused:
    hint = "kinit, and call the gateway by the host name that its keytab has"
    return _not_authenticated(message, hint)


class Negotiator:
    """Accepts the Kerberos tickets of callers.

    Args:
        keytab: A file with keys of HTTP/<host> for each name of the gateway, readable by its owner
            only.
        krb5_conf: Kerberos configuration; None for the configuration of this machine.

    Raises:
        SettingsError: The keytab has no such key, cannot be used, or can be read by other users; or
            the packages of the extra `kerberos` are missing.
    """

    def __init__(self, keytab: Path, krb5_conf: Path | None = None) -> None:
        refuse_if_others_can_read(keytab, "the keytab")
        kerberos.log_in(None, None, krb5_conf)
        self._gssapi = gssapi = kerberos.library("gssapi")
        realms = {
            name.rpartition("@")[2]
            for name in _keytab_principals(keytab)
            if name.startswith("HTTP/")
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
        """Return the user of a token, and the base64 token that authenticates the gateway to the
        caller.

        Args:
            token: The base64 text after `Negotiate` in the header; "" if there is none.

        Raises:
            RequestRefused: The token is missing or invalid, is NTLM, or is of a principal that has
                no valid user name or whose realm the keytab has no key of.
        """
        if not token:
            raise _no_ticket("the request has no Kerberos ticket")
        try:
            sent = base64.b64decode(token, validate=True)
        except binascii.Error:
            raise _no_ticket("the text after Negotiate is not a token") from None
        if sent.startswith(_NTLM):
            raise _no_ticket(
                "the caller sent NTLM, and only Kerberos is accepted: it has no ticket for "
                "this gateway's name"
            )
        context: Any = self._gssapi.SecurityContext(creds=self._credentials, usage="accept")
        try:
            answer = context.step(sent)
            principal = str(context.initiator_name) if context.complete else ""
        except self._gssapi.exceptions.GSSError as error:
            words = " ".join(str(getattr(error, "min_message", "") or error).split())[:200]
            raise _no_ticket(f"the Kerberos ticket is not valid: {words}") from None
        if not principal:
            raise _no_ticket("Kerberos needs more than one round, which is not supported")
        return self._user_of(principal), base64.b64encode(answer or b"").decode()

    def _user_of(self, principal: str) -> str:
        user, realm = kerberos.short_name(principal), principal.rpartition("@")[2]
        if realm not in self._realms or not re.fullmatch(USER_NAME, user):
            raise _no_ticket(
                f"{principal[:200]} is not a caller: callers are of the realm "
                f"{', '.join(sorted(self._realms))}"
            )
        return user


def _keytab_principals(keytab: Path) -> list[str]:
    krb5 = kerberos.library("krb5")
    try:
        table = krb5.kt_resolve(krb5.init_context(), f"FILE:{keytab}".encode())
        return [str(entry.principal) for entry in table]
    except krb5.Krb5Error as error:
        raise SettingsError(f"--negotiate {keytab}: cannot be read: {error}") from None


# --- clients ---


def _connect_client(settings: Settings) -> Client:
    from submit_tf_job.sdk.client import Client

    return Client(settings=settings, own_jobs_only=True)


def _connect_person(settings: Settings) -> Client:
    from submit_tf_job.sdk.client import Client

    return Client(settings=settings)


class CallerClients:
    """One client for each caller, with the gateway's settings. The client is made at the caller's
    first request, and the identity that it has on the cluster is checked then.

    Raises:
        SettingsError: The settings have `as_user`.
    """

    def __init__(
        self, settings: Settings, connect: Callable[[Settings], Client] = _connect_client
    ) -> None:
        if settings.as_proxy:
            raise SettingsError(
                "as_user does not work with a gateway: it acts for its callers",
                hint="leave as_user (--as-user) out",
            )
        self._use_settings(settings, connect)

    @classmethod
    def of_one_person(cls, settings: Settings) -> CallerClients:
        """Return the clients of `ui`, which acts with the settings of one person. So `as_user` may
        be set, and jobs of other users are found by their application ids, as with the commands.
        """
        made = cls.__new__(cls)
        made._use_settings(settings, _connect_person)
        return made

    def _use_settings(self, settings: Settings, connect: Callable[[Settings], Client]) -> None:
        self.settings = settings
        self._connect = connect
        self._open: dict[str, Client] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def check_callers(self, names: Iterable[str]) -> None:
        """Refuse callers for whom the gateway cannot act.

        Raises:
            SettingsError: The gateway's way of authentication does not support proxy users.
        """
        others = sorted(set(names) - {self.settings.user})
        if others and self.settings.auth not in ("simple", "kerberos"):
            raise SettingsError(
                f"with auth {self.settings.auth} the gateway can act for "
                f"{self.settings.user} only, not for {', '.join(others[:5])}",
                hint="only auth simple and kerberos support proxy users",
            )

    def client_of(self, caller: str) -> Client:
        """Return the client of a caller. Except in `of_one_person`, the client treats application
        ids of other users as unknown.

        Raises:
            AuthError: The ResourceManager would take the gateway for another user, or does not tell
                for which.
            ClusterUnavailable: The ResourceManager cannot be reached.
            SettingsError: No ResourceManager is configured, or the settings for authentication are
                incomplete.
        """
        with self._locks[caller]:
            if caller not in self._open:
                client = self._connect(self.settings.acting_for(caller))
                client.check_identity()
                self._open[caller] = client
            return self._open[caller]

    def has_client(self, user: str) -> bool:
        """Return whether a user has sent a request that made a client for the user."""
        return user in self._open

    def check_own_user(self) -> None:
        """Check that the ResourceManager takes this gateway for its `user`.

        With Kerberos, the user is determined by the ticket. A ResourceManager that does not answer
        yet is ignored: a gateway may be started before its cluster.

        Raises:
            AuthError: The ResourceManager takes the gateway for another user.
        """
        if self.settings.auth == "kerberos":
            with suppress(ClusterUnavailable):
                self.own()

    def own(self) -> Client:
        """Return the client of the gateway's own user, which checks that the cluster is available
        and lists all users' jobs for the metrics. Errors are those of `client_of`.
        """
        return self.client_of(self.settings.user)
