"""SPNEGO authentication through requests-kerberos, with a cookie after the first exchange.

Each exchange sends the ticket at once (without a 401 first) and requires mutual authentication by
the server. The `hadoop.auth` cookie in the response is valid for ten hours and replaces further
exchanges. When the server reports it as expired, the request is authenticated again and repeated,
which is safe because a rejected request was not executed. Credentials are never delegated and
redirects are never followed, so that no ticket is sent to an unknown host.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from submit_tf_job.errors import AuthError
from submit_tf_job.host import kerberos
from submit_tf_job.yarn.auth import Auth, sent_again

if TYPE_CHECKING:
    import requests

_COOKIE = re.compile(r'\bhadoop\.auth="?[^";\s]')  # a 401 sets an empty one


class KerberosAuth(Auth):
    """Kerberos authentication by the ticket cache or a keytab, for any principal.

    Args:
        user: Short name of the principal.
        principal: Principal to select in the ticket cache, None for its default.
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
        """Configure a new session to authenticate by SPNEGO.

        Raises:
            SettingsError: requests-kerberos is not installed.
        """
        package = kerberos.library("requests_kerberos")
        # this logger writes the Authorization header
        logging.getLogger("requests_kerberos").setLevel(logging.CRITICAL + 1)
        session.auth = _Negotiate(self._exchange(package), session)

    def _exchange(self, package: Any) -> Callable[[], Any]:
        # Not thread-safe and not reusable (it keeps its last context and authentication state):
        # create one for each exchange.
        return lambda: package.HTTPKerberosAuth(
            mutual_authentication=package.REQUIRED,
            force_preemptive=True,
            principal=self._principal,
            send_cbt=False,
        )

    def explain(self, error: Exception) -> AuthError | None:
        """Return the error for a missing ticket, or for a missing authentication by the server."""
        import requests

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
        """Return whether the server had responded, but without its own authentication."""
        return type(error).__name__ == "MutualAuthenticationError"


class _Negotiate:
    """Authenticates requests by the cookie, or by an exchange if none is stored."""

    def __init__(self, exchange: Callable[[], Any], session: requests.Session) -> None:
        self._exchange = exchange
        self._session = session

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if _COOKIE.search(request.headers.get("Cookie") or ""):
            request.hooks["response"].append(self._renewed)
            return request
        negotiated: requests.PreparedRequest = self._exchange()(request)
        hooks = negotiated.hooks["response"]
        negotiated.hooks["response"] = [_closing(hook) for hook in hooks]
        return negotiated

    def _renewed(self, response: requests.Response, **options: Any) -> requests.Response:
        """Authenticate again if the cookie has expired."""
        if response.status_code != 401:
            return response
        request = response.request.copy()
        request.headers.pop("Cookie", None)
        request.hooks = {"response": []}
        exchange = self._exchange()
        exchange(request)
        again = sent_again(response, request, options)
        again.history.append(response)
        return _closing(exchange.handle_response)(again, **options)


def _closing(hook: Callable[..., requests.Response]) -> Callable[..., requests.Response]:
    """Close the connection after a response that reports missing authentication, so that no other
    request reads that response.
    """

    def closing(response: requests.Response, **options: Any) -> requests.Response:
        try:
            return hook(response, **options)
        except BaseException:
            response.close()
            raise

    return closing
