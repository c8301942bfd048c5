"""What Kerberos, a second ResourceManager and TLS add to Hadoop's configuration; nothing in a simple sandbox.

All of it came up as it stands here on Hadoop 3.4.2; what a key is for is said where its name does not.
"""

from __future__ import annotations

from submit_tf_job.sandbox.certificates import STORE_WORD
from submit_tf_job.sandbox.kdc import GATEWAY, USERS, service_of
from submit_tf_job.sandbox.state import Layout, State

__all__ = [
    "RM_IDS",
    "core_daemons",
    "groups",
    "hdfs_client",
    "hdfs_daemons",
    "java_options",
    "proxy_users",
    "rm_addresses",
    "ssl_files",
    "yarn_client",
    "yarn_daemons",
]

RM_IDS = ("rm1", "rm2")

_RM = "yarn.resourcemanager"


def java_options(state: State, layout: Layout) -> list[str]:
    """Return what every JVM has to be told."""
    return [f"-Djava.security.krb5.conf={layout.krb5_conf}"] if state.secure else []


def proxy_users(state: State) -> dict[str, str]:
    """Return who may act for whom. With Kerberos the ResourceManager has a name of its own, and the gateway is there to be tried."""
    if not state.secure:
        return {f"hadoop.proxyuser.{state.user}.hosts": "*", f"hadoop.proxyuser.{state.user}.groups": "*"}
    return {
        "hadoop.proxyuser.rm.hosts": "*",
        "hadoop.proxyuser.rm.groups": "*",
        f"hadoop.proxyuser.{GATEWAY}.hosts": "*",
        f"hadoop.proxyuser.{GATEWAY}.groups": "users",
    }


def groups(state: State) -> str:
    """Return the groups of users, whatever the machine thinks of them."""
    user = state.user
    if not state.secure:
        return f"{user}={user};alice=users;bob=users;dr.who=;"
    # The NameNode's own principal is superuser because it starts it; this makes the sandbox's user one, as in a simple sandbox.
    people = {**dict.fromkeys(USERS, "users"), user: f"{user},supergroup,users", GATEWAY: GATEWAY}
    daemons = {**dict.fromkeys(("rm", "nm", "dn", "HTTP"), "hadoop"), "nn": "supergroup", "dr.who": ""}
    return "".join(f"{name}={members};" for name, members in {**daemons, **people}.items())


def core_daemons(state: State, layout: Layout) -> dict[str, str]:
    """Return core-site.xml's part."""
    if not state.secure:
        return {}
    http = "hadoop.http.authentication"
    return {
        # Who may call which RPC; on, it would want a hadoop-policy.xml.
        "hadoop.security.authorization": "false",
        # Without it a secure ResourceManager asks nobody who he is, and everyone is dr.who.
        "hadoop.http.filter.initializers": "org.apache.hadoop.security.AuthenticationFilterInitializer",
        f"{http}.type": "kerberos",
        f"{http}.kerberos.principal": service_of("HTTP"),
        f"{http}.kerberos.keytab": str(layout.keytab(service_of("HTTP"))),
        # Two ResourceManagers must take each other's cookies.
        f"{http}.signature.secret.file": str(layout.http_secret),
        f"{http}.simple.anonymous.allowed": "false",
    }


def hdfs_client(state: State) -> dict[str, str]:
    """Return what an HDFS client must know."""
    return {"dfs.namenode.kerberos.principal": service_of("nn")} if state.secure else {}


def hdfs_daemons(state: State, layout: Layout) -> dict[str, str]:
    """Return hdfs-site.xml's part."""
    if not state.secure:
        return {}
    return {
        "dfs.namenode.keytab.file": str(layout.keytab(service_of("nn"))),
        "dfs.namenode.kerberos.internal.spnego.principal": service_of("HTTP"),
        "dfs.datanode.kerberos.principal": service_of("dn"),
        "dfs.datanode.keytab.file": str(layout.keytab(service_of("dn"))),
        "dfs.web.authentication.kerberos.principal": service_of("HTTP"),
        "dfs.web.authentication.kerberos.keytab": str(layout.keytab(service_of("HTTP"))),
        # A DataNode without it aborts.
        "dfs.block.access.token.enable": "true",
        # A DataNode otherwise wants ports that only root may listen on.
        "ignore.secure.ports.for.testing": "true",
    }


def rm_addresses(state: State) -> dict[str, str]:
    """Return the addresses of the ResourceManager, or of both.

    With two of them there must be none without a suffix, and no ResourceManager can find out by itself which one it is, as both are on
    loopback: each has a configuration directory of its own with `yarn.resourcemanager.ha.id`.
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


def _addresses(state: State, rm: str, suffix: str) -> dict[str, str]:
    ports = state.ports
    web = "webapp.https.address" if state.tls else "webapp.address"
    return {
        f"{_RM}.address{suffix}": f"localhost:{ports[rm]}",
        f"{_RM}.scheduler.address{suffix}": f"localhost:{ports[f'{rm}_scheduler']}",
        f"{_RM}.resource-tracker.address{suffix}": f"localhost:{ports[f'{rm}_tracker']}",
        f"{_RM}.admin.address{suffix}": f"localhost:{ports[f'{rm}_admin']}",
        f"{_RM}.{web}{suffix}": f"localhost:{ports[f'{rm}_http']}",
    }


def yarn_client(state: State) -> dict[str, str]:
    """Return what a YARN client must know beside the addresses."""
    policy = {"yarn.http.policy": "HTTPS_ONLY"} if state.tls else {}
    return {**policy, **({f"{_RM}.principal": service_of("rm")} if state.secure else {})}


def yarn_daemons(state: State, layout: Layout) -> dict[str, str]:
    """Return yarn-site.xml's part."""
    if not state.secure:
        return {}
    return {
        f"{_RM}.keytab": str(layout.keytab(service_of("rm"))),
        "yarn.nodemanager.principal": service_of("nm"),
        "yarn.nodemanager.keytab": str(layout.keytab(service_of("nm"))),
    }


def ssl_files(state: State, layout: Layout) -> dict[str, dict[str, str]]:
    """Return the files that say where the certificates are."""
    if not state.tls:
        return {}
    files = {}
    for side in ("server", "client"):
        stores = {name: str(layout.tls / f"{name}.p12") for name in ("keystore", "truststore")}
        properties = {f"ssl.{side}.{name}.location": path for name, path in stores.items()}
        properties |= {f"ssl.{side}.{name}.password": STORE_WORD for name in stores}
        properties |= {f"ssl.{side}.{name}.type": "pkcs12" for name in stores}
        files[f"ssl-{side}.xml"] = {**properties, f"ssl.{side}.keystore.keypassword": STORE_WORD}
    return files
