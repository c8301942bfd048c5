"""Credentials for the sandbox's own daemons: none, a trusted CA, a Kerberos ticket."""

from __future__ import annotations

import base64
import contextlib
import itertools
import os
import ssl
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.kdc import principal_of
from submit_tf_job.sandbox.saved_state import Layout, SandboxState

__all__ = ["Access", "NoTicket", "SandboxLogin", "access_of", "require_gssapi"]

_caches = itertools.count()


class NoTicket(Exception):
    """Kerberos issued no ticket; the message gives the reason."""


@dataclass(frozen=True)
class SandboxLogin:
    """A login from a keytab; tickets are kept in memory."""

    principal: str
    keytab: Path
    krb5_conf: Path

    def authorization(self, host: str) -> str:
        """Return the Negotiate header for one request to a web server of this machine.

        Args:
            host: The host as the URL names it; it is part of the server's principal.

        Raises:
            NoTicket: The KDC did not respond, or issued no ticket.
        """
        with _kerberos(self.krb5_conf) as gssapi:
            # A recreated sandbox has the same ports but different keys.
            credentials = self._credentials(gssapi, f"submit_tf_job-{zlib.crc32(self._keys())}")
            service = gssapi.Name(f"HTTP@{host}", gssapi.NameType.hostbased_service)
            token = (
                gssapi.SecurityContext(name=service, creds=credentials, usage="initiate").step()
                or b""
            )
        return f"Negotiate {base64.b64encode(token).decode()}"

    def ask_kdc(self) -> None:
        """Get a ticket from the KDC, without the ticket cache.

        Raises:
            NoTicket: The KDC did not respond, or issued no ticket.
        """
        with _kerberos(self.krb5_conf) as gssapi:
            credentials = self._credentials(gssapi, f"submit_tf_job-{os.getpid()}-{next(_caches)}")
            if not credentials.lifetime:
                raise NoTicket("the KDC's ticket has no lifetime")

    def _credentials(self, gssapi: Any, cache: str) -> Any:
        store = {"client_keytab": f"FILE:{self.keytab}", "ccache": f"MEMORY:{cache}"}
        return gssapi.Credentials(
            name=gssapi.Name(self.principal, gssapi.NameType.kerberos_principal),
            usage="initiate",
            store=store,
        )

    def _keys(self) -> bytes:
        try:
            return self.keytab.read_bytes()
        except OSError as error:
            raise NoTicket(f"{self.keytab} cannot be read: {error.strerror}") from None


@dataclass(frozen=True)
class Access:
    """Credentials for requests to the daemons of a sandbox.

    Attributes:
        ca_file: CA that verifies certificates of https.
        login: The credentials; None without authentication.
    """

    ca_file: Path | None = None
    login: SandboxLogin | None = None

    def headers(self, host: str) -> dict[str, str]:
        """Return the headers for one request to a host.

        Raises:
            NoTicket: Kerberos is on and issued no ticket.
        """
        if self.login is None:
            return {}
        return {"Authorization": self.login.authorization(host)}

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context for https, None without TLS."""
        if self.ca_file is None:
            return None
        return _context(self.ca_file, self.ca_file.stat().st_mtime_ns)


def access_of(state: SandboxState) -> Access:
    """Return the credentials of the sandbox's user, the HDFS superuser and YARN administrator."""
    layout = Layout(Path(state.home))
    ca_file = login = None
    if state.tls:
        ca_file = layout.ca_file
    if state.secure:
        principal = principal_of(state.user)
        login = SandboxLogin(principal, layout.keytab(principal), layout.krb5_conf)
    return Access(ca_file, login)


def require_gssapi() -> None:
    """Check that the Kerberos library is installed.

    Raises:
        SandboxError: It is not; the hint is the command that installs it.
    """
    try:
        import gssapi  # noqa: F401
    except (ImportError, OSError) as error:
        raise SandboxError(
            f"a sandbox with Kerberos needs the extra `kerberos` of this package ({error})",
            hint="pip install 'requests-kerberos>=0.15' (Debian, Ubuntu: first apt-get install "
            "gcc python3-dev libkrb5-dev)",
        ) from None


@lru_cache(maxsize=8)
def _context(ca_file: Path, _: int) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(ca_file))


@contextlib.contextmanager
def _kerberos(krb5_conf: Path) -> Iterator[Any]:
    """Yield the Kerberos library while KRB5_CONFIG names the sandbox's configuration; restore the
    variable afterwards.
    """
    try:
        import gssapi
        from gssapi.raw import GSSError
    except (ImportError, OSError) as error:
        raise NoTicket(f"the extra `kerberos` is not installed: {error}") from None
    before = os.environ.get("KRB5_CONFIG")
    os.environ["KRB5_CONFIG"] = str(krb5_conf)
    try:
        yield gssapi
    except GSSError as error:
        raise NoTicket(f"Kerberos: {_words(error)}") from None
    finally:
        if before is None:
            del os.environ["KRB5_CONFIG"]
        else:
            os.environ["KRB5_CONFIG"] = before


def _words(error: Exception) -> str:
    """Return MIT's error message without GSS-API's general one around it."""
    return str(error).rpartition("): ")[2] or str(error)
