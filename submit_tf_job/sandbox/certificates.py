"""A CA of the sandbox's own, and one certificate for all its web interfaces, which are all on localhost."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.state import Layout, State

__all__ = ["STORE_WORD", "make_certificates"]

# The formats want one. The files are readable by their owner alone, and so would be a secret that stands beside them.
STORE_WORD = "sandbox"

_DAYS = "3650"
_TIMEOUT_S = 60.0
# Python 3.13 and later verify strictly (VERIFY_X509_STRICT): a CA says what its key is for, a certificate whose key has signed it.
_CA = ["-subj", "/CN=submit_tf_job sandbox CA", "-addext", "keyUsage=critical,keyCertSign,cRLSign"]
_EXTENSIONS = """subjectAltName=DNS:localhost,IP:127.0.0.1
keyUsage=digitalSignature,keyEncipherment
extendedKeyUsage=serverAuth,clientAuth
basicConstraints=CA:FALSE
subjectKeyIdentifier=hash
authorityKeyIdentifier=keyid
"""


def make_certificates(state: State, layout: Layout, environ: Mapping[str, str]) -> None:
    """Make the CA, the certificate signed by it, and the two stores that Java reads.

    Raises:
        SandboxError: when openssl is missing, or a program fails.
    """
    openssl = shutil.which("openssl", path=environ.get("PATH"))
    if openssl is None:
        raise SandboxError("openssl was not found on PATH; a sandbox with TLS makes its own certificates", hint="apt-get install openssl")
    layout.tls.mkdir(mode=0o700, exist_ok=True)
    (layout.tls / "server.ext").write_text(_EXTENSIONS)
    keytool = str(Path(state.java_home) / "bin" / "keytool")
    for argv in (*_openssl(openssl, layout.tls), _truststore(keytool, layout)):
        _run(argv, layout.tls, environ)
    for path in layout.tls.iterdir():
        path.chmod(0o600)


def _openssl(openssl: str, directory: Path) -> list[list[str]]:
    new_key = ["-newkey", "rsa:2048", "-nodes", "-sha256"]
    ca = [openssl, "req", "-x509", *new_key, "-days", _DAYS, *_CA, "-keyout", "ca.key", "-out", "ca.pem"]
    request = [openssl, "req", *new_key, "-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.csr"]
    sign = [openssl, "x509", "-req", "-sha256", "-days", _DAYS, "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key"]
    store = [openssl, "pkcs12", "-export", "-in", "server.pem", "-inkey", "server.key", "-certfile", "ca.pem", "-name", "localhost"]
    return [
        ca,
        request,
        [*sign, "-CAcreateserial", "-extfile", "server.ext", "-out", "server.pem"],
        [*store, "-out", str(directory / "keystore.p12"), "-passout", f"pass:{STORE_WORD}"],
    ]


def _truststore(keytool: str, layout: Layout) -> list[str]:
    # Java takes a certificate for a trusted one only with an attribute that openssl before 3.0 cannot write.
    store = ["-keystore", str(layout.tls / "truststore.p12"), "-storetype", "PKCS12", "-storepass", STORE_WORD]
    return [keytool, "-importcert", "-noprompt", "-alias", "ca", "-file", str(layout.ca_file), *store]


def _run(argv: list[str], cwd: Path, environ: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(
            argv, cwd=cwd, env=dict(environ), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxError(f"{argv[0]} could not be run: {error}") from None
    if done.returncode != 0:
        raise SandboxError(f"{' '.join(argv[:2])} failed (exit status {done.returncode}): {(done.stderr or done.stdout).strip()}")
