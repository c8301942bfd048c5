"""Authentication methods; one is chosen for all requests of a client.

With simple authentication, the cluster accepts the user name as sent. A delegation token is issued
by the ResourceManager for one user. A gateway (Knox, or a reverse proxy) requires a password or a
bearer token and authenticates to the cluster itself.
"""

from __future__ import annotations

import logging
import re
import subprocess
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from submit_tf_job.errors import AuthError, SettingsError
from submit_tf_job.host.user_files import one_secret, read_secret

if TYPE_CHECKING:
    import requests

TOKEN_HEADER = "X-Hadoop-Delegation-Token"  # noqa: S105 - DelegationTokenAuthenticator.DELEGATION_TOKEN_HEADER


class Auth:
    """An authentication method, as `HttpClient` uses it. This base class has the behaviour that
    most methods share.

    A request goes to a ResourceManager (or the gateway in front of it), or to a node: a NodeManager
    or log server that the ResourceManager lists. Credentials for the ResourceManager must never be
    sent to nodes.

    Attributes:
        login: The user who sends the requests, or None if only the cluster determines it.
        user: The user that jobs run as, or None likewise.
        as_user: The user to impersonate as a proxy user, or None.
        scheme: The scheme in the challenge (`WWW-Authenticate`) of a server that accepts these
            credentials: `basic`, `bearer`, `negotiate`; or "".
        sent: The credentials, for messages; `{host}` is the server's name, `{user}` the login.
        advice: The next step for a user whose credentials are rejected; `{host}` as in `sent`.
        rejections: The Java exceptions in a 403 response that mean that the credentials were
            rejected.
        names_user: Whether every request has its sender, as the parameter `user.name`.
    """

    scheme = sent = advice = ""
    names_user = False
    rejections: Collection[str] = ()

    def __init__(self, user: str | None, as_user: str | None = None) -> None:
        self.login = user
        self.user = as_user or user
        self.as_user = as_user

    def prepare(self, session: requests.Session, *, node: bool) -> None:  # noqa: ARG002 (the same for nodes)
        """Configure a new session for this method; the default is to discard every cookie. `node`
        tells whether the session is for nodes or for ResourceManagers.
        """
        from http.cookiejar import DefaultCookiePolicy

        session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))

    def params(self, *, node: bool) -> Mapping[str, str]:
        """Return the query parameters to add to every request: `user.name` if `names_user` is set,
        and `doAs` for a proxy user. Requests to nodes (`node`) never get `doAs`, because a node's
        filter does not support it.
        """
        params = {"user.name": self.login or ""} if self.names_user else {}
        return {**params, "doAs": self.as_user} if self.as_user and not node else params

    def explain(self, error: Exception) -> AuthError | None:  # noqa: ARG002 (most methods cannot fail in the session)
        """Return the error for the user if `error`, which the session raised, means that
        authentication failed; else None, which is the default.
        """
        return None

    def answered(self, error: Exception) -> bool:  # noqa: ARG002 (most methods cannot fail in the session)
        """Return whether the server had responded before the session raised `error`, so that the
        request may have taken effect; False by default.
        """
        return False


class SimpleAuth(Auth):
    """Simple authentication: the cluster accepts the user name as sent.

    `user.name` is added to every request, whatever its method: without it the job runs as `dr.who`.
    Cookies are discarded, because the filter's cookie would take precedence over the name in later
    requests (hadoop-facts.md#user-name-and-cookie).

    Args:
        user: Name to submit as.
        as_user: User to impersonate, who then owns the jobs (doAs).
    """

    sent = "user.name={user}"
    names_user = True


class DelegationTokenAuth(Auth):
    """Authentication by a delegation token (`POST /ws/v1/cluster/delegation-token`).

    Args:
        user: Owner of the token. YARN identifies the user by the token; the name is needed for host
            names and HDFS.
        credentials: The token as the ResourceManager returned it (`urlString`).
    """

    sent = "the delegation token"
    advice = (
        "It has expired, was cancelled, or is of another cluster: get a new one. NodeManagers take "
        "none."
    )
    # of the filter, for a token that is unknown, expired, truncated or of another format
    # (DelegationTokenAuthenticationHandler)
    rejections = (
        "AuthenticationException",
        "InvalidToken",
        "EOFException",
        "IOException",
        "VersionMismatch",
        "NegativeArraySizeException",
    )

    def __init__(self, user: str, credentials: Credentials) -> None:
        super().__init__(user)
        self._credentials = credentials

    def prepare(self, session: requests.Session, *, node: bool) -> None:
        """Send the token in a header; never to a NodeManager, which does not accept it."""
        super().prepare(session, node=node)
        if not node:
            session.auth = _Header(TOKEN_HEADER, "", self._credentials)


class GatewayAuth(Auth):
    """Authentication to a gateway (Knox, or a reverse proxy) by a password or a token; the gateway
    passes the user on to the cluster.

    Args:
        scheme: `Basic` or `Bearer`.
        user: The user that the gateway passes on; with `Basic`, also the name sent to the gateway.
        credentials: The password, or the token.
    """

    def __init__(self, scheme: str, user: str, credentials: Credentials) -> None:
        super().__init__(user)
        self._scheme = scheme
        self._credentials = credentials
        self._login = user if scheme == "Basic" else None
        self.scheme, self.sent = scheme.lower(), f"the {credentials.what}"
        self.advice = "It has expired, or is another gateway's."
        if self._login:
            self.sent += f" of {user}"
            self.advice = "Check credentials.file or credentials.command, and `user`."

    def prepare(self, session: requests.Session, *, node: bool) -> None:
        """Send the password or token in `Authorization`, to the gateway only, never to nodes."""
        super().prepare(session, node=node)
        if not node:
            session.auth = _Header("Authorization", self._scheme, self._credentials, self._login)

    def params(self, *, node: bool) -> Mapping[str, str]:
        """Return `user.name` for nodes, which are not behind the gateway."""
        return {"user.name": self.user or ""} if node else {}


class _Header:
    """Sends a secret in a header. If the server responds with 401, reads the secret again, and, if
    it has changed, repeats the request once; that is safe, because the rejected request was not
    executed.
    """

    def __init__(
        self, header: str, scheme: str, credentials: Credentials, login: str | None = None
    ) -> None:
        self._header = header
        self._scheme = scheme
        self._credentials = credentials
        self._login = login

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        secret = self._credentials.secret
        request.headers[self._header] = self._header_value(secret)

        def lapsed(response: requests.Response, **options: Any) -> requests.Response:
            if response.status_code == 401 and (renewed := self._credentials.renewed(secret)):
                return self._send_again(response, renewed, options)
            return response

        request.hooks["response"].append(lapsed)
        return request

    def _send_again(
        self, response: requests.Response, secret: str, options: Mapping[str, Any]
    ) -> requests.Response:
        request = response.request.copy()
        request.headers[self._header] = self._header_value(secret)
        return sent_again(response, request, options)

    def _header_value(self, secret: str) -> str:
        if self._login is not None:
            from base64 import b64encode

            secret = b64encode(f"{self._login}:{secret}".encode()).decode()
        return f"{self._scheme} {secret}".strip()


def sent_again(
    response: requests.Response, request: requests.PreparedRequest, options: Mapping[str, Any]
) -> requests.Response:
    """Send `request`, a copy of a rejected request with new credentials, and return its response.

    Args:
        response: The response that rejected the first attempt; it is closed.
        request: The copy.
        options: The options with which the first attempt was sent.
    """
    _ = response.content
    response.close()
    return response.connection.send(request, **options)


def check_protected(url: str, what: str) -> None:
    """Raise an error if a secret would be sent over an unencrypted connection.

    Args:
        url: The address to which the secret would be sent.
        what: The secret's name in the message: "bearer token".

    Raises:
        SettingsError: The address is neither https nor on this machine.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise SettingsError(
            f"{url}: the {what} would travel unencrypted", hint="give an address with https://"
        )


# --- SPNEGO ---------------------------------------------------------------------------------------

_COOKIE = re.compile(r'\bhadoop\.auth="?[^";\s]')  # a 401 sets an empty one


class KerberosAuth(Auth):
    """Kerberos authentication through requests-kerberos, with the ticket cache or a keytab.

    Each exchange sends the ticket at once (without a 401 first) and requires mutual authentication
    by the server. The `hadoop.auth` cookie in the response is valid for ten hours and replaces
    further exchanges. When the server reports it as expired, the request is authenticated again and
    repeated, which is safe because a rejected request was not executed. Credentials are never
    delegated and redirects are never followed, so that no ticket is sent to an unknown host.

    Args:
        user: Short name of the principal.
        principal: Principal to select in the ticket cache; None for the cache's default principal.
        as_user: User to impersonate, who then owns the jobs (doAs).
    """

    scheme = "negotiate"
    sent = "the Kerberos ticket for HTTP/{host}"
    advice = (
        "Is that the host name of its principal (yarn.resourcemanager.webapp.spnego-principal)? "
        "Write its address with that name."
    )

    def __init__(
        self,
        user: str,
        principal: str | None = None,
        as_user: str | None = None,
    ) -> None:
        super().__init__(user, as_user)
        self._principal = principal

    def prepare(self, session: requests.Session, *, node: bool) -> None:  # noqa: ARG002 (every host gets a ticket of its own)
        """Configure a new session to authenticate by SPNEGO, for nodes as for ResourceManagers:
        each host gets a ticket of its own.

        Raises:
            SettingsError: requests-kerberos is not installed.
        """
        from submit_tf_job.host import kerberos

        package = kerberos.library("requests_kerberos")
        # this logger writes the Authorization header
        logging.getLogger("requests_kerberos").setLevel(logging.CRITICAL + 1)
        session.auth = _Negotiate(self._new_exchange(package), session)

    def _new_exchange(self, package: Any) -> Callable[[], Any]:
        # Not thread-safe and not reusable (it keeps its last context and authentication state):
        # create one for each exchange.
        return lambda: package.HTTPKerberosAuth(
            mutual_authentication=package.REQUIRED,
            force_preemptive=True,
            principal=self._principal,
            send_cbt=False,
        )

    def explain(self, error: Exception) -> AuthError | None:
        """Return the error if an exchange of tickets failed, or if the server did not authenticate
        itself; None for any other failure.
        """
        import requests

        from submit_tf_job.host import kerberos

        if not isinstance(error, requests.RequestException):
            return None
        kind = type(error).__name__
        if kind == "KerberosExchangeError":
            return kerberos.explained(
                str(error), "authentication by Kerberos", principal=self._principal
            )
        if kind == "MutualAuthenticationError":
            return AuthError(
                "The answer came without the server's proof of who it is: it does not "
                "speak SPNEGO here.",
                hint="Is this cluster without Kerberos? Then say --auth simple. Or does "
                "something stand between it and us?",
            )
        return None

    def answered(self, error: Exception) -> bool:
        """Return whether the server had responded, although it did not authenticate itself."""
        return type(error).__name__ == "MutualAuthenticationError"


class _Negotiate:
    """Authenticates requests with the `hadoop.auth` cookie, or, if no cookie is stored, with an
    exchange of tickets.
    """

    def __init__(self, exchange: Callable[[], Any], session: requests.Session) -> None:
        self._new_exchange = exchange
        self._session = session

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if _COOKIE.search(request.headers.get("Cookie") or ""):
            request.hooks["response"].append(self._renew_cookie)
            return request
        negotiated: requests.PreparedRequest = self._new_exchange()(request)
        hooks = negotiated.hooks["response"]
        negotiated.hooks["response"] = [_closing_refused(hook) for hook in hooks]
        return negotiated

    def _renew_cookie(self, response: requests.Response, **options: Any) -> requests.Response:
        """Return the response; if the cookie has expired, authenticate again, and return the
        response to the repeated request.
        """
        if response.status_code != 401:
            return response
        request = response.request.copy()
        request.headers.pop("Cookie", None)
        request.hooks = {"response": []}
        exchange = self._new_exchange()
        exchange(request)
        again = sent_again(response, request, options)
        again.history.append(response)
        return _closing_refused(exchange.handle_response)(again, **options)


def _closing_refused(hook: Callable[..., requests.Response]) -> Callable[..., requests.Response]:
    """Return a hook that calls `hook`, and closes the response if `hook` raises an error (the
    server did not authenticate itself), so that no other request uses its connection.
    """

    def closing(response: requests.Response, **options: Any) -> requests.Response:
        try:
            return hook(response, **options)
        except BaseException:
            response.close()
            raise

    return closing


# --- tokens and passwords -------------------------------------------------------------------------


COMMAND_TIMEOUT_S = 60.0


class Credentials:
    """One secret, which comes from `credentials.file` or `credentials.command`, or is given
    directly.

    The secret is read when it is used first, and again after it has expired.

    Args:
        what: Kind of secret, for messages: "bearer token".
        file: File that contains the secret; only the file's owner may be able to read it.
        command: Words of the command that prints the secret; it is run without a shell. If the
            command fails, its standard error is shown.
        given: The secret itself, instead of a file or a command.

    Raises:
        SettingsError: when none of `file`, `command` and `given` is given, or more than one, or the
            given secret is not valid.
    """

    def __init__(
        self,
        what: str,
        file: Path | None,
        command: Sequence[str] | None,
        *,
        given: str | None = None,
    ) -> None:
        if sum(source is not None for source in (file, command, given)) != 1:
            raise SettingsError(
                f"the {what} is "
                f"{'to be found in two places' if file or command else 'nowhere to be found'}",
                hint="set one of credentials.file and credentials.command",
            )
        self.what = what
        self._file = file
        self._command = tuple(command or ())
        self._given = None
        if given is not None:
            self._given = one_secret(given.encode(), f"the {what}")
        self._secret: str | None = None
        self._reading = threading.Lock()

    def __repr__(self) -> str:
        return f"Credentials({self.what!r})"  # never the secret

    @property
    def secret(self) -> str:
        """The secret; it is read when it is used first.

        Raises:
            SettingsError: The file cannot be read, other users can read it, or it (or the output of
                the command) is not a credential.
            AuthError: The command failed.
        """
        with self._reading:
            if self._secret is None:
                self._secret = self._read_once()
            return self._secret

    def renewed(self, lapsed: str) -> str | None:
        """Return the new secret after a server has rejected the secret `lapsed`; None if the secret
        has not changed. It is read again, unless another thread has done that already.

        Raises:
            SettingsError, AuthError: As `secret`.
        """
        with self._reading:
            if self._secret in (None, lapsed):
                self._secret = self._read_once()
            if self._secret == lapsed:
                return None
            return self._secret

    def _read_once(self) -> str:
        if self._given is not None:
            return self._given
        if self._file is not None:
            return read_secret(self._file, f"the {self.what}")
        return self._run_command()

    def _run_command(self) -> str:
        name = self._command[0]
        try:
            done = subprocess.run(
                self._command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=COMMAND_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            why = getattr(error, "strerror", f"no answer within {COMMAND_TIMEOUT_S:.0f} s")
            raise AuthError(
                f"credentials.command {name!r} cannot be run: {why}", hint="try it by hand"
            ) from None
        if done.returncode != 0:
            words = done.stderr.decode(errors="replace").strip().splitlines()
            raise AuthError(
                f"credentials.command {name!r} exited with status "
                f"{done.returncode}{f': {words[-1]}' if words else ''}",
                hint="try it by hand",
            )
        return one_secret(done.stdout, f"what credentials.command {name!r} printed as {self.what}")
