"""Configure Kerberos, a second ResourceManager and TLS: Hadoop's properties, of which a simple
sandbox has none, and the CA with its certificate.

Tested on Hadoop 3.4.2; comments explain the less obvious keys.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from submit_tf_job.sandbox.kdc import GATEWAY, USERS, datanode_of, service_of
from submit_tf_job.sandbox.processes import call, find_program
from submit_tf_job.sandbox.saved_state import SandboxState

__all__ = [
    "RM_IDS",
    "STORE_WORD",
    "core_daemons",
    "groups",
    "hdfs_client",
    "hdfs_daemons",
    "java_options",
    "make_certificates",
    "proxy_users",
    "rm_addresses",
    "ssl_files",
    "yarn_client",
    "yarn_daemons",
]

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


def make_certificates(state: SandboxState, environ: Mapping[str, str]) -> None:
    """Create the CA, the certificate signed by it, and the two stores that Java reads.

    Raises:
        SandboxError: openssl is missing, or a program fails.
    """
    layout = state.layout
    why = "a sandbox with TLS makes its own certificates"
    openssl = find_program("openssl", environ, why, "apt-get install openssl")
    layout.tls.mkdir(mode=0o700, exist_ok=True)
    (layout.tls / "server.ext").write_text(_EXTENSIONS)
    programs = {"openssl": openssl, "keytool": f"{state.java_home}/bin/keytool"}
    for step in _STEPS.splitlines():
        program, *words = shlex.split(step)
        call([programs[program], *words], environ, cwd=layout.tls)
    for path in layout.tls.iterdir():
        path.chmod(0o600)


RM_IDS = ("rm1", "rm2")

_RM = "yarn.resourcemanager"


def java_options(state: SandboxState) -> list[str]:
    """Return the options of every JVM."""
    return [f"-Djava.security.krb5.conf={state.layout.krb5_conf}"] if state.secure else []


def proxy_users(state: SandboxState) -> dict[str, str]:
    """Return the proxy-user rules. With Kerberos the ResourceManager has a separate principal, and
    the gateway may act for users.
    """
    if not state.secure:
        return {
            f"hadoop.proxyuser.{state.user}.hosts": "*",
            f"hadoop.proxyuser.{state.user}.groups": "*",
        }
    return {
        "hadoop.proxyuser.rm.hosts": "*",
        "hadoop.proxyuser.rm.groups": "*",
        f"hadoop.proxyuser.{GATEWAY}.hosts": "*",
        f"hadoop.proxyuser.{GATEWAY}.groups": "users",
    }


def groups(state: SandboxState) -> str:
    """Return the static groups of users, independent of the machine's."""
    user = state.user
    if not state.secure:
        return f"{user}={user};alice=users;bob=users;dr.who=;"
    # The NameNode's principal is superuser because it starts the NameNode; this makes the sandbox's
    # user a superuser too, as in a simple sandbox.
    people = {
        **dict.fromkeys((*USERS, state.submitter), "users"),
        user: f"{user},supergroup,users",
        GATEWAY: GATEWAY,
    }
    daemons = {
        **dict.fromkeys(("rm", "nm", "dn", "HTTP"), "hadoop"),
        "nn": "supergroup",
        "dr.who": "",
    }
    return "".join(f"{name}={members};" for name, members in {**daemons, **people}.items())


def core_daemons(state: SandboxState) -> dict[str, str]:
    """Return the properties of core-site.xml."""
    if not state.secure:
        return {}
    http = "hadoop.http.authentication"
    return {
        # Authorization of RPCs by service, which would need a hadoop-policy.xml.
        "hadoop.security.authorization": "false",
        # Without it a secure ResourceManager authenticates no request, and every user is dr.who.
        "hadoop.http.filter.initializers": "org.apache.hadoop.security.AuthenticationFilterInitializer",  # noqa: E501
        f"{http}.type": "kerberos",
        f"{http}.kerberos.principal": _web_principal(state),
        f"{http}.kerberos.keytab": str(state.layout.keytab(service_of("HTTP"))),
        # Two ResourceManagers must accept each other's cookies.
        f"{http}.signature.secret.file": str(state.layout.http_secret),
        f"{http}.simple.anonymous.allowed": "false",
    }


def _web_principal(state: SandboxState) -> str:
    """Return the principal of web servers; `*` for all of the keytab, where they have two names."""
    return "*" if state.docker else service_of("HTTP")


def hdfs_client(state: SandboxState) -> dict[str, str]:
    """Return the properties that an HDFS client needs."""
    return {"dfs.namenode.kerberos.principal": service_of("nn")} if state.secure else {}


def hdfs_daemons(state: SandboxState) -> dict[str, str]:
    """Return the properties of hdfs-site.xml."""
    if not state.secure:
        return {}
    return {
        "dfs.namenode.keytab.file": str(state.layout.keytab(service_of("nn"))),
        "dfs.namenode.kerberos.internal.spnego.principal": service_of("HTTP"),
        "dfs.datanode.kerberos.principal": datanode_of(state),
        "dfs.datanode.keytab.file": str(state.layout.keytab(datanode_of(state))),
        "dfs.web.authentication.kerberos.principal": _web_principal(state),
        "dfs.web.authentication.kerberos.keytab": str(state.layout.keytab(service_of("HTTP"))),
        # A DataNode without it aborts.
        "dfs.block.access.token.enable": "true",
        # Otherwise a DataNode requires ports that only root may listen on.
        "ignore.secure.ports.for.testing": "true",
    }


def rm_addresses(state: SandboxState) -> dict[str, str]:
    """Return the addresses of the ResourceManager, or of both.

    With two, every address has a suffix. A ResourceManager cannot derive its own id, as both are on
    loopback: each has a separate configuration directory with `yarn.resourcemanager.ha.id`.
    """
    if not state.ha:
        return {f"{_RM}.hostname": "localhost", **_addresses(state, "rm", "")}
    return {
        f"{_RM}.ha.enabled": "true",
        f"{_RM}.cluster-id": "sandbox",
        f"{_RM}.ha.rm-ids": ",".join(RM_IDS),
        **{f"{_RM}.hostname.{rm_id}": "localhost" for rm_id in RM_IDS},
        **_addresses(state, "rm", ".rm1"),
        **_addresses(state, "rm2", ".rm2"),
        "yarn.client.failover-sleep-base-ms": "200",
        "yarn.client.failover-sleep-max-ms": "1000",
    }


def _addresses(state: SandboxState, rm: str, suffix: str) -> dict[str, str]:
    ports = state.ports
    web = "webapp.https.address" if state.tls else "webapp.address"
    return {
        f"{_RM}.address{suffix}": f"localhost:{ports[rm]}",
        f"{_RM}.scheduler.address{suffix}": f"localhost:{ports[f'{rm}_scheduler']}",
        f"{_RM}.resource-tracker.address{suffix}": f"localhost:{ports[f'{rm}_tracker']}",
        f"{_RM}.admin.address{suffix}": f"localhost:{ports[f'{rm}_admin']}",
        f"{_RM}.{web}{suffix}": f"localhost:{ports[f'{rm}_http']}",
    }


def yarn_client(state: SandboxState) -> dict[str, str]:
    """Return the properties that a YARN client needs beside the addresses."""
    policy = {"yarn.http.policy": "HTTPS_ONLY"} if state.tls else {}
    return {**policy, **({f"{_RM}.principal": service_of("rm")} if state.secure else {})}


def yarn_daemons(state: SandboxState) -> dict[str, str]:
    """Return the properties of yarn-site.xml."""
    if not state.secure:
        return {}
    return {
        f"{_RM}.keytab": str(state.layout.keytab(service_of("rm"))),
        "yarn.nodemanager.principal": service_of("nm"),
        "yarn.nodemanager.keytab": str(state.layout.keytab(service_of("nm"))),
    }


def ssl_files(state: SandboxState) -> dict[str, dict[str, str]]:
    """Return ssl-client.xml and ssl-server.xml, which name the certificate stores."""
    if not state.tls:
        return {}
    files = {}
    for side in ("server", "client"):
        stores = {
            name: str(state.layout.tls / f"{name}.p12") for name in ("keystore", "truststore")
        }
        properties = {f"ssl.{side}.{name}.location": path for name, path in stores.items()}
        properties |= {f"ssl.{side}.{name}.password": STORE_WORD for name in stores}
        properties |= {f"ssl.{side}.{name}.type": "pkcs12" for name in stores}
        files[f"ssl-{side}.xml"] = {**properties, f"ssl.{side}.keystore.keypassword": STORE_WORD}
    return files
