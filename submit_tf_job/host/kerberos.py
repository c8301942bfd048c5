"""Log in to Kerberos, with the ticket of `kinit` or with a keytab, and explain the errors of
Kerberos.

The library is MIT's, through the packages of requests-kerberos (extra `kerberos`). A keytab needs
no kinit and leaves no file: MIT's GSSAPI logs in with the keytab in KRB5_CLIENT_KTNAME, into the
cache that KRB5CCNAME names, which is in memory; and it logs in again before the ticket ends. Only
this module sets these two variables, for the whole process, because hdfs-native has no other
interface for them.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from submit_tf_job.container.keytab import LONGEST, read
from submit_tf_job.errors import AuthError, SettingsError
from submit_tf_job.host.user_files import (
    read_input,
    reason,
    refuse_if_others_can_read,
    refuse_special,
)

MISSING = "Kerberos needs the package requests-kerberos, which is not installed here"
# gssapi is compiled: needs MIT Kerberos' headers (libkrb5-dev) and a C compiler
INSTALL = "pip install 'requests-kerberos>=0.15'"


@dataclass(frozen=True)
class Ticket:
    """The ticket-granting ticket in the ticket cache.

    Attributes:
        principal: The ticket's principal.
        ends: When the ticket ends, in seconds since 1970; None if the cache contains no
            ticket-granting ticket.
        cache: Name of the cache.
    """

    principal: str
    ends: float | None
    cache: str

    def over(self) -> bool:
        """Whether the ticket has expired."""
        return self.ends is not None and self.ends <= time.time()


def short_name(principal: str) -> str:
    """Return Hadoop's user name for a principal, by the default rule of auth_to_local."""
    return re.split("[/@]", principal)[0]


def first_principal(path: Path) -> str | None:
    """Return the principal of a keytab that `log_in` takes by default; None if the file has none,
    or cannot be read.
    """
    try:
        entries = read(read_input(path, LONGEST))
    except (OSError, ValueError):
        return None
    return entries[0].principal if entries else None


def _use_configuration(krb5_conf: Path | None) -> None:
    """Set which krb5.conf Kerberos reads in this process; None changes nothing.

    Raises:
        SettingsError: The file cannot be read, or is a directory, a FIFO or a device.
    """
    if krb5_conf is not None:
        try:
            refuse_special(krb5_conf, krb5_conf.stat())
        except OSError as error:  # MIT's library would wait for a FIFO, or read a device for ever
            raise SettingsError(
                f"the krb5.conf {krb5_conf}: cannot be read: {reason(error)}"
            ) from None
        os.environ["KRB5_CONFIG"] = str(krb5_conf)


def ticket(krb5_conf: Path | None = None) -> Ticket | None:
    """Return the ticket in the cache; None if there is no ticket, or no Kerberos library. A
    `krb5_conf` that is given is used by this process from now on.

    Raises:
        SettingsError: `krb5_conf` cannot be read.
    """
    _use_configuration(krb5_conf)
    try:
        import krb5
    except ImportError:
        return None
    try:
        context = krb5.init_context()
        cache = krb5.cc_default(context)
        principal = _decoded_text(krb5.cc_get_principal(context, cache).name)
        ends = [
            cred.times.endtime
            for cred in cache
            if _decoded_text(cred.server.name).startswith("krbtgt/")
        ]
    except krb5.Krb5Error:
        return None
    return Ticket(
        principal,
        float(max(ends)) if ends else None,
        _decoded_text(bytes(cache.cache_type or b"") + b":" + bytes(cache.name or b"")),
    )


def log_in(principal: str | None, keytab: Path | None, krb5_conf: Path | None = None) -> None:
    """Prepare this process for Kerberos; with a keytab, get a ticket into memory. Without one, only
    `krb5_conf` is used.

    Args:
        principal: The principal to log in as; None for the first principal of the keytab.
        keytab: The keytab; None to use the ticket cache.
        krb5_conf: The configuration of Kerberos; None for this machine's.

    Raises:
        SettingsError: `krb5_conf` cannot be read; or, with a keytab, requests-kerberos is not
            installed, or others may read the keytab.
        AuthError: The KDC issues no ticket for the keytab.
    """
    _use_configuration(krb5_conf)
    if keytab is None:
        return
    refuse_if_others_can_read(keytab, "the keytab")
    gssapi = library("gssapi")
    os.environ["KRB5_CLIENT_KTNAME"] = f"FILE:{keytab.absolute()}"
    os.environ["KRB5CCNAME"] = f"MEMORY:submit_tf_job-{os.getpid()}"
    try:
        name = gssapi.Name(principal, gssapi.NameType.user) if principal else None
        _ = gssapi.Credentials(name=name, usage="initiate").lifetime
    except gssapi.exceptions.GSSError as error:
        words = _error_of_keytab(principal, keytab) or str(error)
        raise explained(
            words, f"logging in with the keytab {keytab}", principal=principal
        ) from None


def _error_of_keytab(principal: str | None, keytab: Path) -> str:
    """Return the error that the KDC or the library reports for a keytab, because GSSAPI's own error
    does not contain the reason; "" if they report none.
    """
    krb5 = library("krb5")
    try:
        context = krb5.init_context()
        table = krb5.kt_resolve(context, f"FILE:{keytab}".encode())
        names = [_decoded_text(entry.principal.name) for entry in table]
        wanted = krb5.parse_name_flags(
            context, (principal or names[0] if names else "nobody").encode()
        )
        if _decoded_text(wanted.name) not in names:
            return f"Keytab contains no suitable keys for {_decoded_text(wanted.name)}"
        krb5.get_init_creds_keytab(context, wanted, krb5.get_init_creds_opt_alloc(context), table)
    except krb5.Krb5Error as error:
        return str(error)
    return ""


def library(name: str) -> Any:
    """Import one of the packages of the extra `kerberos`.

    Raises:
        SettingsError: The package is not installed; the hint is the command that installs it.
    """
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        detail = "" if isinstance(error, ModuleNotFoundError) else f": {error}"
        raise SettingsError(f"{MISSING}{detail}", hint=INSTALL) from None


def explained(words: str, doing: str, *, principal: str | None = None) -> AuthError:
    """Map an error message of Kerberos to an AuthError with a user-facing message.

    Args:
        words: The message of MIT's library.
        doing: What failed: "logging in with the keytab …".
        principal: The principal of the login; None if unknown.
    """
    message, hint = _meaning_and_hint(words, principal)
    return AuthError(f"{doing} failed: {message}", hint=hint, details={"kerberos": words})


# MIT's messages (lib/krb5/error_tables/krb5_err.et, k5e1_err.et; lib/gssapi/krb5), the more
# specific first, since one message may contain several.
_MEANINGS: tuple[tuple[str, str, str], ...] = (
    (
        r"Server '?(?P<server>[^\s']+)'? not found in Kerberos database",
        "the KDC has no service {server}: the ResourceManager has another name",
        "Write its address with the host name of its principal HTTP/<host>, not with an "
        "alias or a number.",
    ),
    (
        r"Client '?(?P<client>[^\s']+)'? not found in Kerberos database",
        "the KDC has no {client}",
        "Check kerberos.principal and its realm.",
    ),
    (
        r"Clock skew too great",
        "this machine's clock and the KDC's are too far apart",
        "Synchronise both by NTP; Kerberos tolerates 5 minutes.",
    ),
    (
        r"Cannot contact any KDC for (?:requested )?realm(?: '(?P<realm>[^']+)')?",
        "no KDC of the realm {realm} answers",
        "Check the network, and the kdc lines of {krb5_conf}.",
    ),
    (
        r"Cannot find KDC for (?:requested )?realm(?: \"(?P<realm>[^\"]+)\")?",
        "no KDC of the realm {realm} is known here",
        "Name it below [realms] in {krb5_conf}, or set kerberos.krb5_conf.",
    ),
    (
        r"Cannot determine realm for (?:numeric )?host|Configuration file does not specify default realm|Cannot locate default realm",  # noqa: E501
        "the realm is not known here",
        "Set default_realm and [domain_realm] in {krb5_conf}, or set kerberos.krb5_conf.",
    ),
    (
        r"Preauthentication failed|Decrypt integrity check failed|Password incorrect",
        "the keytab's key is not the principal's any more: its password or key was changed",
        "Have a new keytab made (kadmin: ktadd).",
    ),
    (
        r"Keytab contains no suitable keys|no suitable keys for|Key table entry not found|No key table entry found",  # noqa: E501
        "the keytab holds no key of {principal}",
        "`klist -kt` shows whose keys it holds; set kerberos.principal to one of them.",
    ),
    (
        r"Unsupported key table format|Bad format in keytab",
        "the file is not a keytab",
        "Name the file that kadmin's ktadd wrote.",
    ),
    (
        r"no support for encryption type|encryption type .*(?:not supported|not permitted)|[Ee]ncryption type not permitted|ETYPE",  # noqa: E501
        "this machine and the KDC have no encryption type in common",
        "Compare permitted_enctypes in {krb5_conf} with `klist -e`; old keytabs hold only "
        "RC4 or DES keys; have a new one made.",
    ),
    (
        r"[Tt]icket (?:has )?expired|credentials (?:have )?expired|Credential.* expired",
        "the Kerberos ticket has expired{when}",
        "Get a new one with kinit, or set kerberos.keytab.",
    ),
    (
        r"[Tt]icket not yet valid|not yet valid",
        "the Kerberos ticket is valid only later",
        "Check this machine's clock, then kinit.",
    ),
    (
        r"No (?:Kerberos )?credentials|Credentials cache .*not found|Matching credential not found",
        "there is no Kerberos ticket",
        "Get one with kinit, or set kerberos.keytab and kerberos.principal.",
    ),
    (
        r"Can't open/find Kerberos configuration file|Included profile|Improper format of Kerberos",
        "{krb5_conf} cannot be read",
        "Correct it, or set kerberos.krb5_conf.",
    ),
)


def _meaning_and_hint(words: str, principal: str | None) -> tuple[str, str]:
    for pattern, message, hint in _MEANINGS:
        found = re.search(pattern, words)
        if found:
            values = {
                "principal": principal or "the principal",
                "krb5_conf": _krb5_conf(),
                "when": _expiry_words(),
                "realm": "wanted",
            }
            values |= {name: value for name, value in found.groupdict().items() if value}
            return message.format_map(values), hint.format_map(values)
    said = words.strip().splitlines()[-1] if words.strip() else "no reason was given"
    return f"Kerberos: {said}", "Set KRB5_TRACE=/dev/stderr to see each step."


def _krb5_conf() -> str:
    return os.environ.get("KRB5_CONFIG") or "/etc/krb5.conf"


def _expiry_words() -> str:
    found = ticket()
    if found is None or not found.over():
        return ""
    return (
        f" at {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(found.ends))} ({found.principal})"
    )


def _decoded_text(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", errors="replace")
