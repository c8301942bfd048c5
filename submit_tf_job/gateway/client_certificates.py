"""Format the subjects of TLS certificates.

The form is that of RFC 4514, and of `openssl x509 -subject -nameopt RFC2253`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["subject_of"]

# OpenSSL's long names, which Python's ssl module returns, and the short names.
_SHORT = {
    "commonName": "CN", "countryName": "C", "localityName": "L", "stateOrProvinceName": "ST", "organizationName": "O",  # noqa: E501
    "organizationalUnitName": "OU", "domainComponent": "DC", "userId": "UID", "streetAddress": "street",  # noqa: E501
}  # fmt: skip


def subject_of(certificate: dict[str, Any] | None) -> str:
    """Return the subject of a certificate that TLS has verified, or "" without one.

    Args:
        certificate: The result of `ssl.SSLSocket.getpeercert()`.
    """
    names: Iterable[Iterable[tuple[str, str]]] = (certificate or {}).get("subject", ())
    parts = [
        "+".join(f"{_SHORT.get(kind, kind)}={_escaped(value)}" for kind, value in part)
        for part in names
    ]
    return ",".join(reversed(parts))


def _escaped(value: str) -> str:
    """Escape the separators of a name (RFC 4514, 2.4)."""
    text = re.sub(r'([,+"\\<>;])', r"\\\1", value)
    text = re.sub(r"^([ #])", r"\\\1", text)
    return re.sub(r"(?<!\\) $", r"\\ ", text)
