"""Callers who come by Kerberos: SPNEGO (RFC 4559) with a keytab of HTTP/<host>.

One round: whoever has a ticket sends it with the request, and there is no session. A principal of the keytab's own realm is the user that
Hadoop makes of it by its default rules; other realms' are nobody, because this gateway does not know the cluster's rules for them.
"""

from __future__ import annotations

import base64
import binascii
import re
from pathlib import Path
from typing import Any

from submit_tf_job import kerberos
from submit_tf_job.errors import SettingsError
from submit_tf_job.gateway.problems import RequestRefused
from submit_tf_job.secretfile import refuse_if_others_can_read
from submit_tf_job.settings import USER_NAME

__all__ = ["Negotiator"]

_MECHANISMS = ("1.3.6.1.5.5.2", "1.2.840.113554.1.2.2")  # SPNEGO, Kerberos 5
_NTLM = b"NTLMSSP"


class Negotiator:
    """Reads the tickets of callers.

    Args:
        keytab: With keys of HTTP/<host>, for each name that the gateway is called by; nobody else may read it.
        krb5_conf: Kerberos' configuration, None for this machine's.

    Raises:
        SettingsError: It holds none, others can read it, or the packages of the extra `kerberos` are missing.
    """

    def __init__(self, keytab: Path, krb5_conf: Path | None = None) -> None:
        refuse_if_others_can_read(keytab, "the keytab")
        kerberos.log_in(None, None, krb5_conf)
        self._gssapi = gssapi = kerberos.library("gssapi")
        realms = {name.rpartition("@")[2] for name in _principals(keytab) if name.startswith("HTTP/")}
        if not realms:
            raise SettingsError(f"--negotiate {keytab}: there is no key of HTTP/<host> in it", hint="callers ask for that service")
        self._realms = realms
        try:
            mechanisms = [gssapi.OID.from_int_seq(oid) for oid in _MECHANISMS]
            self._ours = gssapi.Credentials(usage="accept", mechs=mechanisms, store={"keytab": f"FILE:{keytab.absolute()}"})
        except gssapi.exceptions.GSSError as error:
            raise SettingsError(f"--negotiate {keytab}: cannot be used: {error}") from None

    def caller(self, token: str) -> tuple[str, str]:
        """Say who sent a token, and what proves to them who we are.

        Args:
            token: What stands behind `Negotiate` in the header, base64.

        Raises:
            RequestRefused: It is none, or not of somebody who is known.
        """
        try:
            sent = base64.b64decode(token, validate=True)
        except binascii.Error:
            raise self.refused("what came behind Negotiate is no token") from None
        if sent.startswith(_NTLM):
            raise self.refused("the caller tried NTLM, and only Kerberos is taken: it has no ticket for this gateway's name")
        context: Any = self._gssapi.SecurityContext(creds=self._ours, usage="accept")
        try:
            answer = context.step(sent)
            principal = str(context.initiator_name) if context.complete else ""
        except self._gssapi.exceptions.GSSError as error:
            words = " ".join(str(getattr(error, "min_message", "") or error).split())[:200]
            raise self.refused(f"the Kerberos ticket is not good: {words}") from None
        if not principal:
            raise self.refused("Kerberos wants more than one round, which is not offered here")
        return self._user_of(principal), base64.b64encode(answer or b"").decode()

    def _user_of(self, principal: str) -> str:
        user, realm = kerberos.short_name(principal), principal.rpartition("@")[2]
        if realm not in self._realms or not re.fullmatch(USER_NAME, user):
            raise self.refused(f"{principal[:200]} is nobody here: callers are of the realm {', '.join(sorted(self._realms))}")
        return user

    @staticmethod
    def refused(message: str) -> RequestRefused:
        """Return the refusal of somebody who came by Kerberos."""
        return RequestRefused("not-authenticated", message, hint="kinit, and call the gateway by the host name that its keytab has")


def _principals(keytab: Path) -> list[str]:
    krb5 = kerberos.library("krb5")
    try:
        table = krb5.kt_resolve(krb5.init_context(), f"FILE:{keytab}".encode())
        return [str(entry.principal) for entry in table]
    except krb5.Krb5Error as error:
        raise SettingsError(f"--negotiate {keytab}: cannot be read: {error}") from None
