"""Callers who come by a TLS certificate: its subject, as RFC 4514 writes names and `openssl x509 -subject -nameopt RFC2253` prints them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["subject_of"]

# OpenSSL's long names, which Python's ssl tells, and the short ones that it prints itself.
_SHORT = {
    "commonName": "CN", "countryName": "C", "localityName": "L", "stateOrProvinceName": "ST", "organizationName": "O",
    "organizationalUnitName": "OU", "domainComponent": "DC", "userId": "UID", "streetAddress": "street",
}  # fmt: skip


def subject_of(certificate: dict[str, Any] | None) -> str:
    """Write the subject of a certificate that TLS has checked, "" where there is none.

    Args:
        certificate: What `ssl.SSLSocket.getpeercert()` returns.
    """
    names: Iterable[Iterable[tuple[str, str]]] = (certificate or {}).get("subject", ())
    parts = ["+".join(f"{_SHORT.get(kind, kind)}={_escaped(value)}" for kind, value in part) for part in names]
    return ",".join(reversed(parts))


def _escaped(value: str) -> str:
    """Escape what separates names (RFC 4514, 2.4)."""
    text = re.sub(r'([,+"\\<>;])', r"\\\1", value)
    text = re.sub(r"^([ #])", r"\\\1", text)
    return re.sub(r"(?<!\\) $", r"\\ ", text)
