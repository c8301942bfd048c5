"""Authenticate callers by Kerberos: SPNEGO (RFC 4559) with a keytab of HTTP/<host>.

One round without a session: each request carries a ticket. A principal of the keytab's own realm is
mapped to a user by Hadoop's default rules; principals of other realms are refused, because the
gateway does not have the cluster's rules for them.
"""

from __future__ import annotations

import base64
import binascii
import re
from pathlib import Path
from typing import Any

from submit_tf_job.errors import SettingsError
from submit_tf_job.gateway.problems import RequestRefused
from submit_tf_job.host import kerberos
from submit_tf_job.host.secretfile import refuse_if_others_can_read
from submit_tf_job.settings import USER_NAME

__all__ = ["Negotiator"]

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
