"""Find this machine's certificate authorities, for requests over https.

The library requests would use the list of the package certifi instead, which lacks what an
administrator adds to the machine's.
"""

from __future__ import annotations

import ssl
from pathlib import Path


def system_authorities() -> str | bool:
    """Return the file or directory of this machine's CA certificates, as `verify` of a session of
    requests; True, which means certifi's, if OpenSSL finds none here.

    SSL_CERT_FILE and SSL_CERT_DIR are not read: the environment adds no authority.
    """
    found = ssl.get_default_verify_paths()
    file, directory = Path(found.openssl_cafile), Path(found.openssl_capath)
    try:
        if file.is_file():
            return str(file)
        # OpenSSL finds a certificate by the hash of its subject: 5ed36f99.0
        if any(directory.glob("*.[0-9]")):
            return str(directory)
    except OSError:
        pass
    return True
