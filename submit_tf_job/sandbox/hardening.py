"""Configure Kerberos, a second ResourceManager and TLS: properties of Hadoop that a simple sandbox
does not have, the MIT KDC with its keytabs, and the CA with its certificate.

Tested on Hadoop 3.4.2; comments explain the less obvious keys.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.processes import call, find_program
from submit_tf_job.sandbox.state import REALM, Layout, SandboxState

# --- principals and the KDC -----------------------------------------------------------------------

KDC_MAIN = "krb5kdc"

# Alice and bob have no account on this machine; the gateway may act for the group `users`.
USERS = ("alice", "bob")
GATEWAY = "gw"

_DAEMONS = ("nn", "rm", "nm", "HTTP")


def principal_of(user: str) -> str:
    """Return the principal with which a user logs in."""
    return f"{user}@{REALM}"


def service_of(name: str, host: str = "localhost") -> str:
    """Return the principal of a daemon, or of a user's jobs: YARN requires a principal that
    contains a host.
    """
    return f"{name}/{host}@{REALM}"


def datanode_of(state: SandboxState) -> str:
    """Return the DataNode's principal.

    It must contain the address at which clients can reach the DataNode: Hadoop's RPC client
    connects from the address of its principal's host (ipc.Client), and HDFS sends its clients to
    the address from which the DataNode has connected.
    """
    return service_of("dn", state.hdfs_host)


def principals(state: SandboxState) -> tuple[str, ...]:
    """Return all principals of a sandbox that have a separate keytab."""
    users = tuple(dict.fromkeys((state.user, state.submitter, *USERS, GATEWAY)))
    daemons = (*map(service_of, _DAEMONS), datanode_of(state))
    return (*daemons, *map(principal_of, users), *map(service_of, users))


def job_keytab(state: SandboxState, user: str) -> Path:
    """Return the keytab of a user's jobs, at the same path on the node and in containers."""
    path = state.layout.keytab(service_of(user))
    return state.layout.exposed / "keytabs" / path.name if state.docker else path


def find_programs(environ: Mapping[str, str]) -> dict[str, str]:
    """Find the programs of a KDC.

    Raises:
        SandboxError: A program is missing.
    """
    why = "a sandbox with Kerberos runs a KDC of its own"
    hint = "install MIT Kerberos (Debian, Ubuntu: apt-get install krb5-kdc krb5-admin-server)"
    return {
        name: find_program(name, environ, why, hint)
        for name in (KDC_MAIN, "kdb5_util", "kadmin.local")
    }


def make_kdc(state: SandboxState, environ: Mapping[str, str]) -> None:
    """Write the configuration, create the database, and write each principal's keys to a separate
    keytab.

    Raises:
        SandboxError: A program of MIT Kerberos is missing or fails.
    """
    layout = state.layout
    programs = find_programs(environ)
    for directory in (layout.kdc, layout.keytabs):
        directory.mkdir(mode=0o700, exist_ok=True)
    layout.krb5_conf.write_text(_krb5_conf(state))
    (layout.kdc / "kdc.conf").write_text(_kdc_conf(state))
    layout.http_secret.touch(0o600)
    layout.http_secret.write_text(os.urandom(32).hex())
    own = {**environ, **kdc_environment(layout)}
    # The master key may be stored beside the database: both have the same readers.
    call([programs["kdb5_util"], "create", "-s", "-r", REALM, "-P", os.urandom(16).hex()], own)
    names = principals(state)
    orders = "".join(_kadmin_lines(name, layout.keytab(name)) for name in names)
    if state.hdfs_host != "localhost":
        # Clients of WebHDFS request a ticket for the host that they call; one keytab has both
        # names.
        orders += _kadmin_lines(
            service_of("HTTP", state.hdfs_host), layout.keytab(service_of("HTTP"))
        )
    call([programs["kadmin.local"], "-r", REALM], own, stdin=orders)
    absent = [principal for principal in names if not layout.keytab(principal).is_file()]
    if absent:
        raise SandboxError(f"kadmin.local made no keytab for {', '.join(absent)}")
    if state.docker:
        _give_keytab(state)


def _give_keytab(state: SandboxState) -> None:
    """Copy the keytab of the submitter's jobs to a directory that containers can access; only the
    submitter can read the copy.
    """
    state.layout.job_keytabs.mkdir(mode=0o755, exist_ok=True)
    source = state.layout.keytab(service_of(state.submitter))
    target = state.layout.job_keytabs / source.name
    shutil.copyfile(source, target)
    target.chmod(0o400)
    shutil.chown(target, state.submitter)


def kdc_environment(layout: Layout) -> dict[str, str]:
    """Return the variables that keep MIT Kerberos from reading the system's files."""
    return {"KRB5_CONFIG": str(layout.krb5_conf), "KRB5_KDC_PROFILE": str(layout.kdc / "kdc.conf")}


def kdc_argv(layout: Layout, marker: str) -> list[str]:
    """Return the KDC's command line. The marker comes after `--`, where the KDC ignores it; the
    program is called by its plain name, by which `down` recognises it.
    """
    return [KDC_MAIN, "-n", "-r", REALM, "-P", str(layout.kdc / "pid"), "--", marker]


def _kadmin_lines(name: str, keytab: Path) -> str:
    return f"addprinc -randkey {name}\nktadd -norandkey -k {keytab} {name}\n"


def _krb5_conf(state: SandboxState) -> str:
    # Host names are used as written: without DNS canonicalization of `localhost`, and without a
    # container's domain, which MIT 1.20 appends in a container. TCP, because UDP responses are
    # truncated at 1,465 bytes.
    return f"""[libdefaults]
  default_realm = {REALM}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  qualify_shortname = ""
  rdns = false
  forwardable = true
  udp_preference_limit = 1

[realms]
  {REALM} = {{
    kdc = {state.kdc_address}
  }}

[domain_realm]
  localhost = {REALM}
"""


def _kdc_conf(state: SandboxState) -> str:
    address = state.kdc_address
    return f"""[kdcdefaults]
  kdc_listen = {address}
  kdc_tcp_listen = {address}

[realms]
  {REALM} = {{
    database_name = {state.layout.kdc / "principal"}
    key_stash_file = {state.layout.kdc / "stash"}
    acl_file = {state.layout.kdc / "kadm5.acl"}
    max_life = 1d
    max_renewable_life = 7d
    supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
  }}

[logging]
  kdc = STDERR
"""


# --- certificates ---------------------------------------------------------------------------------

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


# --- Hadoop's properties --------------------------------------------------------------------------

# of two ResourceManagers
RM_IDS = {"resourcemanager": "rm1", "resourcemanager2": "rm2"}

_RM = "yarn.resourcemanager"


def java_options(state: SandboxState) -> list[str]:
    """Return the options that every JVM needs for Kerberos; [] without Kerberos."""
    return [f"-Djava.security.krb5.conf={state.layout.krb5_conf}"] if state.secure else []


def proxy_users(state: SandboxState) -> dict[str, str]:
    """Return the rules for proxy users (`hadoop.proxyuser.…`). Without Kerberos, the sandbox's user
    may act for all users; with Kerberos instead the ResourceManager, which has a separate
    principal, and the gateway for the group `users`.
    """
    allowed = {"rm": "*", GATEWAY: "users"} if state.secure else {state.user: "*"}
    rules = {}
    for user, members in allowed.items():
        rules[f"hadoop.proxyuser.{user}.hosts"] = "*"
        rules[f"hadoop.proxyuser.{user}.groups"] = members
    return rules


def groups(state: SandboxState) -> str:
    """Return the value of `hadoop.user.group.static.mapping.overrides`: fixed groups of users,
    which do not depend on the groups of this machine.
    """
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


def kerberos_files(state: SandboxState) -> dict[str, dict[str, str]]:
    """Return the properties that Kerberos adds to the daemons' configuration files, by the name of
    the file; {} without Kerberos.
    """
    if not state.secure:
        return {}
    http, web = "hadoop.http.authentication", str(state.layout.keytab(service_of("HTTP")))
    core = {
        # Authorization of RPCs by service, which would need a hadoop-policy.xml.
        "hadoop.security.authorization": "false",
        # Without it a secure ResourceManager authenticates no request, and every user is dr.who.
        "hadoop.http.filter.initializers": "org.apache.hadoop.security.AuthenticationFilterInitializer",  # noqa: E501
        f"{http}.type": "kerberos",
        f"{http}.kerberos.principal": _web_principal(state),
        f"{http}.kerberos.keytab": web,
        # Two ResourceManagers must accept each other's cookies.
        f"{http}.signature.secret.file": str(state.layout.http_secret),
        f"{http}.simple.anonymous.allowed": "false",
    }
    hdfs = {
        "dfs.namenode.keytab.file": str(state.layout.keytab(service_of("nn"))),
        "dfs.namenode.kerberos.internal.spnego.principal": service_of("HTTP"),
        "dfs.datanode.kerberos.principal": datanode_of(state),
        "dfs.datanode.keytab.file": str(state.layout.keytab(datanode_of(state))),
        "dfs.web.authentication.kerberos.principal": _web_principal(state),
        "dfs.web.authentication.kerberos.keytab": web,
        # A DataNode without it aborts.
        "dfs.block.access.token.enable": "true",
        # Otherwise a DataNode requires ports that only root may listen on.
        "ignore.secure.ports.for.testing": "true",
    }
    yarn = {
        f"{_RM}.keytab": str(state.layout.keytab(service_of("rm"))),
        "yarn.nodemanager.principal": service_of("nm"),
        "yarn.nodemanager.keytab": str(state.layout.keytab(service_of("nm"))),
    }
    return {"core-site.xml": core, "hdfs-site.xml": hdfs, "yarn-site.xml": yarn}


def _web_principal(state: SandboxState) -> str:
    """Return the principal of web servers; if these have two names, `*`, which stands for all
    principals of the keytab.
    """
    return "*" if state.docker else service_of("HTTP")


def hdfs_client(state: SandboxState) -> dict[str, str]:
    """Return the properties that an HDFS client needs for Kerberos; {} without Kerberos."""
    return {"dfs.namenode.kerberos.principal": service_of("nn")} if state.secure else {}


def rm_addresses(state: SandboxState) -> dict[str, str]:
    """Return the addresses of the ResourceManager, or of both ResourceManagers.

    With two ResourceManagers, every key has a suffix. A ResourceManager cannot find out its own id,
    because both are on loopback; so each has a separate configuration directory, which states
    `yarn.resourcemanager.ha.id`.
    """
    if not state.ha:
        return {f"{_RM}.hostname": "localhost", **_web_addresses(state, "rm", "")}
    return {
        f"{_RM}.ha.enabled": "true",
        f"{_RM}.cluster-id": "sandbox",
        f"{_RM}.ha.rm-ids": ",".join(RM_IDS.values()),
        **{f"{_RM}.hostname.{rm_id}": "localhost" for rm_id in RM_IDS.values()},
        **_web_addresses(state, "rm", ".rm1"),
        **_web_addresses(state, "rm2", ".rm2"),
        "yarn.client.failover-sleep-base-ms": "200",
        "yarn.client.failover-sleep-max-ms": "1000",
    }


def _web_addresses(state: SandboxState, rm: str, suffix: str) -> dict[str, str]:
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
    """Return the properties that a YARN client needs for TLS and Kerberos, in addition to the
    addresses.
    """
    policy = {"yarn.http.policy": "HTTPS_ONLY"} if state.tls else {}
    return {**policy, **({f"{_RM}.principal": service_of("rm")} if state.secure else {})}


def ssl_files(state: SandboxState) -> dict[str, dict[str, str]]:
    """Return the properties of ssl-client.xml and ssl-server.xml, which name the certificate
    stores; {} without TLS.
    """
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
