"""What it takes to be let in by the sandbox's own daemons: nothing, a CA that is trusted, a ticket."""

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
from submit_tf_job.sandbox.state import Layout, State

__all__ = ["Access", "Login", "NoTicket", "access_of", "require_gssapi"]

_caches = itertools.count()


class NoTicket(Exception):
    """Kerberos gave no ticket; the text says why."""


@dataclass(frozen=True)
class Login:
    """Somebody who logs in from a keytab; tickets are kept in memory."""

    principal: str
    keytab: Path
    krb5_conf: Path

    def authorization(self) -> str:
        """Return the header that proves to a web server of this machine who we are; it is good for one request.

        Raises:
            NoTicket: when the KDC does not answer, or refuses.
        """
        with _kerberos(self.krb5_conf) as gssapi:
            # A sandbox that was made anew has the same ports and other keys.
            credentials = self._credentials(gssapi, f"submit_tf_job-{zlib.crc32(self._keys())}")
            service = gssapi.Name("HTTP@localhost", gssapi.NameType.hostbased_service)
            token = gssapi.SecurityContext(name=service, creds=credentials, usage="initiate").step() or b""
        return f"Negotiate {base64.b64encode(token).decode()}"

    def ask_kdc(self) -> None:
        """Get a ticket from the KDC itself, whatever the memory holds.

        Raises:
            NoTicket: when the KDC does not answer, or refuses.
        """
        with _kerberos(self.krb5_conf) as gssapi:
            credentials = self._credentials(gssapi, f"submit_tf_job-{os.getpid()}-{next(_caches)}")
            if not credentials.lifetime:
                raise NoTicket("the KDC's ticket has no lifetime")

    def _credentials(self, gssapi: Any, cache: str) -> Any:
        store = {"client_keytab": f"FILE:{self.keytab}", "ccache": f"MEMORY:{cache}"}
        return gssapi.Credentials(name=gssapi.Name(self.principal, gssapi.NameType.kerberos_principal), usage="initiate", store=store)

    def _keys(self) -> bytes:
        try:
            return self.keytab.read_bytes()
        except OSError as error:
            raise NoTicket(f"{self.keytab} cannot be read: {error.strerror}") from None


@dataclass(frozen=True)
class Access:
    """How to ask a daemon of a sandbox.

    Attributes:
        ca_file: CA that https is checked against.
        login: Who asks; None where nobody wants to know.
    """

    ca_file: Path | None = None
    login: Login | None = None

    def headers(self) -> dict[str, str]:
        """Return the headers that one request needs.

        Raises:
            NoTicket: when Kerberos is asked for and gives no ticket.
        """
        return {"Authorization": self.login.authorization()} if self.login else {}

    def context(self) -> ssl.SSLContext | None:
        """Return what https is checked with, None where there is none."""
        return None if self.ca_file is None else _context(self.ca_file, self.ca_file.stat().st_mtime_ns)


def access_of(state: State) -> Access:
    """Return how this sandbox's daemons are asked, as the user who runs it: HDFS superuser, and administrator of YARN."""
    layout = Layout(Path(state.home))
    principal = principal_of(state.user)
    login = Login(principal, layout.keytab(principal), layout.krb5_conf) if state.secure else None
    return Access(layout.ca_file if state.tls else None, login)


def require_gssapi() -> None:
    """Refuse to go on without the library that speaks Kerberos.

    Raises:
        SandboxError: telling what to install.
    """
    try:
        import gssapi  # noqa: F401
    except (ImportError, OSError) as error:
        raise SandboxError(
            f"a sandbox with Kerberos needs the extra `kerberos` of this package ({error})",
            hint="pip install 'submit_tf_job[kerberos]' (Debian, Ubuntu: first apt-get install gcc python3-dev libkrb5-dev)",
        ) from None


@lru_cache(maxsize=8)
def _context(ca_file: Path, _: int) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(ca_file))


@contextlib.contextmanager
def _kerberos(krb5_conf: Path) -> Iterator[Any]:
    """Lend the library, told by the only way there is where its configuration stands; the process's own setting comes back."""
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
    """Return MIT's own words, which stand behind GSS-API's general ones."""
    return str(error).rpartition("): ")[2] or str(error)
