"""Who we are to the cluster; chosen once, used by every request.

Simple authentication believes the name we give; a delegation token is one user's, made by the ResourceManager; a gateway (Knox, or a
reverse proxy) wants a password or a bearer token and speaks to the cluster itself. Kerberos is in `negotiate`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from submit_tf_job.errors import AuthError, SettingsError, UsageError
from submit_tf_job.kerberos import short_name
from submit_tf_job.yarn.answers import Reply
from submit_tf_job.yarn.credentials import Credentials

if TYPE_CHECKING:
    import requests

__all__ = ["Auth", "DelegationTokenAuth", "GatewayAuth", "Method", "SimpleAuth", "check_protected", "impersonation_refused", "sent_again"]

TOKEN_HEADER = "X-Hadoop-Delegation-Token"  # noqa: S105 - DelegationTokenAuthenticator.DELEGATION_TOKEN_HEADER


# What the filter throws at a token: unknown or expired, cut off, of another format (DelegationTokenAuthenticationHandler).
_BAD_TOKEN = ("AuthenticationException", "InvalidToken", "EOFException", "IOException", "VersionMismatch", "NegativeArraySizeException")


class Auth(Protocol):
    """What the request funnel needs to know of an authentication method.

    A request goes to a ResourceManager (or the gateway in front of it), or to a node: a NodeManager or log server that the ResourceManager
    named. What is meant for the first must not reach the second.
    """

    @property
    def user(self) -> str | None:
        """The user that jobs run as, `None` where only the cluster knows."""

    @property
    def as_user(self) -> str | None:
        """The user for whom we act as a proxy, `None` where we act for ourselves."""

    def prepare(self, session: requests.Session, *, node: bool) -> None:
        """Make a new session ready for requests."""

    def params(self, *, node: bool) -> Mapping[str, str]:
        """Return the query parameters that every request carries."""

    def explain(self, error: Exception) -> AuthError | None:
        """Return what a failure inside the session means, `None` where it is not about authentication."""

    def refused(self, reply: Reply) -> AuthError | None:
        """Return what an answer of 401 or 403 means, `None` where it is no matter of authentication."""

    def unknown_to_standby(self, reply: Reply) -> bool:
        """Say whether a standby ResourceManager would answer so, where the active one may know better."""


class Method:
    """What most methods have in common."""

    def __init__(self, user: str | None, as_user: str | None = None) -> None:
        self.user = as_user or user
        self.as_user = as_user

    def params(self, *, node: bool) -> Mapping[str, str]:
        """Return `doAs` for a proxy user; nodes do not know it (their filter is not the ResourceManager's)."""
        return {"doAs": self.as_user} if self.as_user and not node else {}

    def explain(self, error: Exception) -> AuthError | None:  # noqa: ARG002 (nothing of most methods can fail in the session)
        """Return `None`: nothing of most methods happens inside the session."""
        return None

    def unknown_to_standby(self, reply: Reply) -> bool:  # noqa: ARG002 (a standby redirects whom it knows)
        """Return False: a standby redirects whom it knows."""
        return False


class SimpleAuth(Method):
    """The cluster believes the name we give.

    `user.name` is sent with every request, whatever its method: without it the job runs as `dr.who`. Cookies are not kept, because the
    one that the filter sends would outweigh the name in later requests (facts: yarn-services 1.4).

    Args:
        user: Name to submit as.
        as_user: User to act for, who then owns the jobs (doAs).

    Raises:
        UsageError: when a name is empty or holds a blank or a control character.
    """

    def __init__(self, user: str, as_user: str | None = None) -> None:
        super().__init__(one_word(user), one_word(as_user) if as_user is not None else None)
        self._name = user

    def prepare(self, session: requests.Session, *, node: bool) -> None:  # noqa: ARG002 (the same for all)
        """Make the session forget every cookie."""
        keep_no_cookies(session)

    def params(self, *, node: bool) -> Mapping[str, str]:
        """Return `user.name`, and `doAs` for a proxy user."""
        return {"user.name": self._name, **super().params(node=node)}

    def refused(self, reply: Reply) -> AuthError | None:
        """Return the error that names the method the cluster wants."""
        if reply.status != 401:
            return impersonation_refused(reply)
        if "negotiate" in reply.headers.get("www-authenticate", "").lower():
            return AuthError(
                f"{reply.url} wants Kerberos, and user.name={self._name} was sent.",
                hint="Say --auth kerberos (or set `auth`), and get a ticket with kinit.",
                details=reply.details(),
            )
        challenge = reply.headers.get("www-authenticate", "").partition(" ")[0].lower()
        hint = f"Say --auth {challenge} (or set `auth`)." if challenge in ("basic", "bearer") else ""
        return AuthError(f"{reply.url} does not accept user.name={self._name}.", hint=hint, details=reply.details())


class DelegationTokenAuth(Method):
    """One user's token, made by the ResourceManager (`POST /ws/v1/cluster/delegation-token`).

    Args:
        user: Whose token it is; YARN knows by the token, we need the name for host names and HDFS.
        credentials: The token as the ResourceManager printed it (`urlString`).
    """

    def __init__(self, user: str, credentials: Credentials) -> None:
        super().__init__(user)
        self._credentials = credentials

    def prepare(self, session: requests.Session, *, node: bool) -> None:
        """Put the token into a header; a NodeManager does not know it, and never sees it."""
        keep_no_cookies(session)
        if not node:
            session.auth = _Header(TOKEN_HEADER, "", self._credentials)

    def refused(self, reply: Reply) -> AuthError | None:
        """Return the error that says what is wrong with the token."""
        words = reply.words
        if reply.status == 401 and "negotiate" in reply.headers.get("www-authenticate", "").lower():
            message = f"{reply.url} wants Kerberos: it does not take the ResourceManager's delegation tokens."
            return AuthError(message, hint="NodeManagers never do; say --auth kerberos.", details=reply.details())
        if reply.status == 401 or reply.java_class in _BAD_TOKEN or "InvalidToken" in reply.text:
            return AuthError(
                f"{reply.url} does not accept the delegation token: {words or 'no reason was given'}",
                hint="It has expired, was cancelled, or is of another cluster: get a new one.",
                details=reply.details(),
            )
        return impersonation_refused(reply)

    def unknown_to_standby(self, reply: Reply) -> bool:
        """Say whether the token is not in this ResourceManager's cache: so answers a standby (facts: verified-security-ha 5)."""
        return reply.status == 403 and "can't be found in cache" in reply.text


class GatewayAuth(Method):
    """A gateway that wants a password or a token, and tells the cluster itself who is asking (Knox, or a reverse proxy).

    Args:
        scheme: `Basic` or `Bearer`.
        user: Whom the gateway will say that we are; with `Basic` also the name that is sent.
        credentials: The password, or the token.
    """

    def __init__(self, scheme: str, user: str, credentials: Credentials) -> None:
        super().__init__(user)
        self._scheme = scheme
        self._credentials = credentials
        self._login = user if scheme == "Basic" else None

    def prepare(self, session: requests.Session, *, node: bool) -> None:
        """Put the credential into `Authorization`; nobody but the gateway sees it."""
        keep_no_cookies(session)
        if not node:
            session.auth = _Header("Authorization", self._scheme, self._credentials, self._login)

    def params(self, *, node: bool) -> Mapping[str, str]:
        """Return `user.name` for nodes, which stand behind no gateway."""
        return {"user.name": self.user or ""} if node else {}

    def refused(self, reply: Reply) -> AuthError | None:
        """Return the error that says which credential was refused."""
        if reply.status != 401:
            return impersonation_refused(reply)
        challenge = reply.headers.get("www-authenticate", "").partition(" ")[0]
        if challenge.lower() == "negotiate":
            return AuthError(
                f"{reply.url} wants Kerberos, and a {self._credentials.what} was sent.",
                hint="Say --auth kerberos.",
                details=reply.details(),
            )
        whose = f" of {self._login}" if self._login else ""
        return AuthError(
            f"{reply.url} does not accept the {self._credentials.what}{whose}.",
            hint="Check credentials.file or credentials.command, and `user`."
            if self._login
            else "It has expired, or is another gateway's.",
            details=reply.details(),
        )


class _Header:
    """Puts a secret into a header; one that the server calls lapsed is read again, and the request repeated once: it was not executed."""

    def __init__(self, header: str, scheme: str, credentials: Credentials, login: str | None = None) -> None:
        self._header = header
        self._scheme = scheme
        self._credentials = credentials
        self._login = login

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        secret = self._credentials.secret
        request.headers[self._header] = self._value(secret)

        def lapsed(response: requests.Response, **options: Any) -> requests.Response:
            renewed = self._credentials.renewed(secret) if response.status_code == 401 else None
            return response if renewed is None else self._again(response, renewed, options)

        request.hooks["response"].append(lapsed)
        return request

    def _again(self, response: requests.Response, secret: str, options: Mapping[str, Any]) -> requests.Response:
        request = response.request.copy()
        request.headers[self._header] = self._value(secret)
        return sent_again(response, request, options)

    def _value(self, secret: str) -> str:
        if self._login is not None:
            from base64 import b64encode

            secret = b64encode(f"{self._login}:{secret}".encode()).decode()
        return f"{self._scheme} {secret}".strip()


def sent_again(response: requests.Response, request: requests.PreparedRequest, options: Mapping[str, Any]) -> requests.Response:
    """Send a request that was refused once more, with better proof; `options` are those of its first sending."""
    _ = response.content
    response.close()
    return response.connection.send(request, **options)


def check_protected(url: str, what: str) -> None:
    """Refuse to send a secret over a connection that anybody on the way can read.

    Raises:
        SettingsError: The address is neither https nor this machine's own.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise SettingsError(f"{url}: the {what} would travel unencrypted", hint="give an address with https://")


def impersonation_refused(reply: Reply) -> AuthError | None:
    """Return the error for a proxy user that is not allowed to be one (ProxyUsers.authorize), `None` for any other answer."""
    found = re.search(r"User: (\S+) is not allowed to impersonate (\S+)", reply.words)
    if not found:
        return None
    who, whom = found[1], found[2]
    short = short_name(who)
    return AuthError(
        f"{who} may not submit for {whom}.",
        hint=f"Its administrator allows it by hadoop.proxyuser.{short}.hosts and hadoop.proxyuser.{short}.groups or .users.",
        details=reply.details(),
    )


def keep_no_cookies(session: requests.Session) -> None:
    """Make a session forget every cookie."""
    from http.cookiejar import DefaultCookiePolicy

    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))


def one_word(user: str) -> str:
    """Return a user's name as it is.

    Raises:
        UsageError: It is empty, or holds a blank or a control character.
    """
    if not user or re.search(r"[\s\x00-\x1f\x7f]", user):
        raise UsageError(f"The user name {user!r} is not one word.", hint="Give the user that the job runs as, for example --user alice.")
    return user
