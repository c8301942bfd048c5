"""Create a CA for the sandbox, and one certificate for its web interfaces, which are all on
localhost.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.processes import find_program, run
from submit_tf_job.sandbox.saved_state import Layout, SandboxState

__all__ = ["STORE_WORD", "make_certificates"]

# The store formats require a password. A secret one would not add protection: it would be in a file
# beside the stores, with the same mode.
STORE_WORD = "sandbox"

# The CA, a request, the certificate, and the stores with the two. Python 3.13 and later verify
# strictly (VERIFY_X509_STRICT): a CA needs keyUsage, and a certificate needs
# authorityKeyIdentifier. keytool writes the store of trusted certificates: Java trusts one in a
# PKCS #12 store only with an attribute that openssl before 3.0 cannot write.
_STEPS = f"""\
openssl req -x509 -newkey rsa:2048 -nodes -sha256 -days 3650 -subj "/CN=submit_tf_job sandbox CA" \
-addext keyUsage=critical,keyCertSign,cRLSign -keyout ca.key -out ca.pem
openssl req -newkey rsa:2048 -nodes -sha256 -subj /CN=localhost -keyout server.key -out server.csr
openssl x509 -req -sha256 -days 3650 -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial \
-extfile server.ext -out server.pem
openssl pkcs12 -export -in server.pem -inkey server.key -certfile ca.pem -name localhost \
-out keystore.p12 -passout pass:{STORE_WORD}
keytool -importcert -noprompt -alias ca -file ca.pem -keystore truststore.p12 -storetype PKCS12 \
-storepass {STORE_WORD}
"""
_EXTENSIONS = """subjectAltName=DNS:localhost,IP:127.0.0.1
keyUsage=digitalSignature,keyEncipherment
extendedKeyUsage=serverAuth,clientAuth
basicConstraints=CA:FALSE
subjectKeyIdentifier=hash
authorityKeyIdentifier=keyid
"""


def make_certificates(state: SandboxState, layout: Layout, environ: Mapping[str, str]) -> None:
    """Create the CA, the certificate signed by it, and the two stores that Java reads.

    Raises:
        SandboxError: openssl is missing, or a program fails.
    """
    why = "a sandbox with TLS makes its own certificates"
    openssl = find_program("openssl", environ, why, "apt-get install openssl")
    layout.tls.mkdir(mode=0o700, exist_ok=True)
    (layout.tls / "server.ext").write_text(_EXTENSIONS)
    programs = {"openssl": openssl, "keytool": f"{state.java_home}/bin/keytool"}
    for step in _STEPS.splitlines():
        program, *words = shlex.split(step)
        _run([programs[program], *words], layout.tls, environ)
    for path in layout.tls.iterdir():
        path.chmod(0o600)


def _run(argv: list[str], cwd: Path, environ: Mapping[str, str]) -> None:
    done = run(argv, environ, cwd=cwd)
    if done.returncode != 0:
        raise SandboxError(
            f"{' '.join(argv[:2])} failed (exit status {done.returncode}): "
            f"{(done.stderr or done.stdout).strip()}"
        )
