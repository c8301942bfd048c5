"""Generate the Hadoop configuration files of a sandbox, and the settings profile for its clients.

Comments give the reasons for values that differ from Hadoop's defaults. All properties of the
services API must be in the files, because its ApiServer reads one static configuration, which
ignores `-D` arguments and changes made by code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

import yaml

from submit_tf_job.sandbox import docker, hardening
from submit_tf_job.sandbox.jars import line_of
from submit_tf_job.sandbox.state import DOMAIN, SandboxState, node_host

# Guice before 5.1 and jaxb-impl define classes reflectively.
OPENS = "--add-opens=java.base/java.lang=ALL-UNNAMED"

# To verify the bytecode of Hadoop's own jars takes an eighth of an ApplicationMaster's CPU time.
_AM_OPTIONS = (
    "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)

_ENV_WHITELIST = (
    "JAVA_HOME,HADOOP_COMMON_HOME,HADOOP_HDFS_HOME,HADOOP_CONF_DIR,CLASSPATH_PREPEND_DISTCACHE,HADOOP_YARN_HOME,HADOOP_HOME,PATH,LANG,TZ,"
    "LD_LIBRARY_PATH,JDK_JAVA_OPTIONS"
)

# Intervals and time-outs that are shorter than Hadoop's defaults, so that jobs start and end sooner
# and failures are detected sooner. `up --default-timeouts` omits them, as most clusters use the
# defaults (docs/sandbox.md, "What differs").
_QUICK_CORE = {
    "hadoop.registry.zk.session.timeout.ms": "10000",
    "hadoop.registry.zk.connection.timeout.ms": "5000",
    # Otherwise a finished service's AM stays 24 to 35 s in its shutdown hook, and keeps its name,
    # its memory and its logs.
    "hadoop.service.shutdown.timeout": "3s",
    "ipc.client.connect.retry.interval": "500",
}
_QUICK_YARN = {
    "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "200",
    "yarn.nm.liveness-monitor.expiry-interval-ms": "20000",
    # With less, AMs of four services started together are declared dead on a small machine.
    "yarn.am.liveness-monitor.expiry-interval-ms": "120000",
    "yarn.resourcemanager.connect.max-wait.ms": "120000",
    # The monitor also determines a container's address; with the default of 3 s short containers
    # never get one.
    "yarn.nodemanager.container-monitor.interval-ms": "500",
    "yarn.client.nodemanager-connect.max-wait-ms": "10000",
    "yarn.client.nodemanager-connect.retry-interval-ms": "500",
    # The default of 30 s delays STABLE and the start of dependent components.
    "yarn.service.readiness-check-interval.seconds": "1",
    "yarn.service.container-failure.retry-interval-ms": "1000",
}

_PLACEMENT = "yarn.resourcemanager.placement-constraints.handler"

_LOG4J = """log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %-5p %c{2}: %m%n
"""

_AM_LOG4J = """log4j.rootLogger=INFO,file
log4j.appender.file=org.apache.log4j.RollingFileAppender
log4j.appender.file.File=${LOG_DIR}/serviceam.log
log4j.appender.file.MaxFileSize=64MB
log4j.appender.file.MaxBackupIndex=3
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=%d{ISO8601} [%t] %-5p %c{2} - %m%n
log4j.logger.org.apache.hadoop.hdfs=WARN
log4j.logger.org.apache.zookeeper=WARN
"""


def conf_dir(daemon: str, state: SandboxState) -> Path:
    """Return a daemon's configuration directory. The daemons share one directory, except that each
    of two ResourceManagers, and each NodeManager after the first, has its own.
    """
    if state.ha and daemon in hardening.RM_IDS:
        return state.layout.home / f"conf-{hardening.RM_IDS[daemon]}"
    return state.layout.of_node(state.nodemanagers.get(daemon, 1), "conf")


def daemon_files(daemon: str, state: SandboxState) -> dict[str, str]:
    """Return the files of a daemon's configuration directory by name."""
    node = state.nodemanagers.get(daemon, 1)
    yarn = {
        **_yarn_client(state),
        **_yarn_rm(state),
        **_yarn_nm(state, node),
        **_yarn_services(state),
        **docker.nodemanager(state, node),
    }
    if state.ha and daemon in hardening.RM_IDS:
        yarn["yarn.resourcemanager.ha.id"] = hardening.RM_IDS[daemon]
    files = {
        "core-site.xml": _core_client(state) | _core_daemons(state),
        "hdfs-site.xml": _hdfs_client(state) | _hdfs_daemons(state),
        "yarn-site.xml": yarn,
        **hardening.ssl_files(state),
        **docker.resource_files(state),
        "capacity-scheduler.xml": _scheduler_properties(state),
    }
    for name, properties in hardening.kerberos_files(state).items():
        files[name] |= properties
    return {
        **{name: _xml_of(properties) for name, properties in files.items()},
        "zoo.cfg": _zookeeper_config(state),
        "log4j.properties": _LOG4J,
        "yarnservice-log4j.properties": _AM_LOG4J,
    }


def client_files(state: SandboxState) -> dict[str, str]:
    """Return exactly the files that a client needs: a job spec may contain them inline."""
    return {
        "core-site.xml": _xml_of(_core_client(state)),
        "hdfs-site.xml": _xml_of(_hdfs_client(state)),
        "yarn-site.xml": _xml_of(_yarn_client(state)),
    }


def resolv_conf(state: SandboxState, host: str) -> str:
    """Return resolv.conf for containers. It names Registry DNS, which forwards other names to the
    servers of the host.

    Args:
        state: The sandbox.
        host: The host's resolv.conf, whose search list and options are kept.
    """
    kept = re.findall(r"^[ \t]*(?:search|domain|options)(?=\s|$).*", host, re.MULTILINE)
    return "\n".join([f"nameserver {state.dns_address}", *kept]) + "\n"


def _xml_of(properties: Mapping[str, str]) -> str:
    rows = "".join(
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in properties.items()
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<configuration>\n{rows}</configuration>\n'


def _unless_defaults(state: SandboxState, properties: Mapping[str, str]) -> Mapping[str, str]:
    return {} if state.default_timeouts else properties


_NAMES = {
    # Enables the services API's check of names against DNS rules; Registry DNS itself ignores it.
    "hadoop.registry.dns.enabled": "true",
    "hadoop.registry.dns.domain-name": DOMAIN,
}


def _core_client(state: SandboxState) -> dict[str, str]:
    return {
        "fs.defaultFS": state.hdfs_uri,
        "hadoop.security.authentication": "kerberos" if state.secure else "simple",
        "hadoop.registry.zk.quorum": f"localhost:{state.ports['zookeeper']}",
        "hadoop.registry.zk.root": "/registry",
        **(_NAMES if state.dns else {}),
    }


def _registry_dns(state: SandboxState) -> dict[str, str]:
    return {
        "hadoop.registry.dns.bind-address": state.dns_address,
        "hadoop.registry.dns.bind-port": str(state.dns_port),
        "hadoop.registry.dns.dns-ttl": "1",
    }


def _core_daemons(state: SandboxState) -> dict[str, str]:
    user = state.user
    return {
        "hadoop.tmp.dir": str(state.layout.run / "tmp"),
        **hardening.proxy_users(state),
        # The user of requests without user.name; the default dr.who has no HDFS home.
        "hadoop.http.staticuser.user": user,
        "hadoop.security.group.mapping": "org.apache.hadoop.security.ShellBasedUnixGroupsMapping",
        # Without it, Hadoop calls `id` for users, which fails for those without an account.
        "hadoop.user.group.static.mapping.overrides": hardening.groups(state),
        "hadoop.registry.secure": "false",
        **(_registry_dns(state) if state.dns else {}),
        "hadoop.zk.address": f"localhost:{state.ports['zookeeper']}",
        # A killed ResourceManager is replaced when its session expires.
        "hadoop.zk.timeout-ms": "4000" if state.ha else "10000",
        "ipc.client.connect.max.retries": "10",
        **_unless_defaults(state, _QUICK_CORE),
    }


def _hdfs_client(state: SandboxState) -> dict[str, str]:
    return {
        "dfs.replication": "1",
        "dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER",
        # WebHDFS, for clients without another protocol
        "dfs.namenode.http-address": f"{state.hdfs_host}:{state.ports['namenode_http']}",
        **hardening.hdfs_client(state),
    }


def _hdfs_daemons(state: SandboxState) -> dict[str, str]:
    ports, host = state.ports, state.hdfs_host
    return {
        "dfs.namenode.name.dir": f"file://{state.layout.namenode}",
        "dfs.datanode.data.dir": f"file://{state.layout.run / 'dn'}",
        # The machine's own name may resolve to an address that changes.
        "dfs.datanode.hostname": host,
        "dfs.datanode.address": f"{host}:{ports['datanode']}",
        "dfs.datanode.http.address": f"{host}:{ports['datanode_http']}",
        "dfs.datanode.ipc.address": f"{host}:{ports['datanode_ipc']}",
        "dfs.namenode.safemode.extension": "0",
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        "dfs.heartbeat.interval": "1",
        "dfs.namenode.heartbeat.recheck-interval": "5000",
        # With the default a disk with less than 100 MB free keeps the NameNode in safe mode for
        # ever.
        "dfs.namenode.resource.du.reserved": "1048576",
        "dfs.datanode.du.reserved": "0",
    }


def _yarn_client(state: SandboxState) -> dict[str, str]:
    return {
        **hardening.rm_addresses(state),
        **hardening.yarn_client(state),
        "yarn.webapp.api-service.enable": "true",
        "yarn.log-aggregation-enable": "true",
        "yarn.nodemanager.remote-app-log-dir": "/tmp/logs",  # noqa: S108 - in HDFS
    }


def _yarn_rm(state: SandboxState) -> dict[str, str]:
    return {
        # The pages of UI 2 are in a separate archive.
        "yarn.webapp.ui2.enable": "false",
        "yarn.scheduler.minimum-allocation-mb": "128",
        "yarn.scheduler.maximum-allocation-mb": str(state.memory_mib),
        "yarn.scheduler.maximum-allocation-vcores": str(state.cpus),
        # Caps the services API's own default of 20 attempts.
        "yarn.resourcemanager.am.max-attempts": "4",
        "yarn.dispatcher.drain-events.timeout": "5000",
        "yarn.acl.enable": "false",
        "yarn.admin.acl": "*",
        # A killed ResourceManager that `up` restarts recovers its applications and keeps their
        # containers.
        "yarn.resourcemanager.recovery.enabled": "true",
        "yarn.resourcemanager.store.class": "org.apache.hadoop.yarn.server.resourcemanager.recovery.ZKRMStateStore",  # noqa: E501
        # With the default nothing is scheduled for 10 s, even after a first start; a single node
        # has no others to wait for.
        "yarn.resourcemanager.work-preserving-recovery.scheduling-wait-ms": "0",
        # The default of 30 s delays the first NodeManager, and all after a restart of the
        # ResourceManager.
        "yarn.resourcemanager.connect.retry-interval.ms": "500" if state.ha else "1000",
        **_unless_defaults(state, _QUICK_YARN),
        # Hadoop's default refuses `placement`; a single node has nothing to choose.
        **({} if state.nodes == 1 else {_PLACEMENT: "scheduler"}),
        "yarn.timeline-service.enabled": "false",
        # The default is in /tmp, where another sandbox that starts at the same time removes the
        # files.
        "yarn.node-labels.fs-store.root-dir": f"file://{state.layout.run}/node-labels",
        "yarn.node-attribute.fs-store.root-dir": f"file://{state.layout.run}/node-attribute",
    }


def _yarn_nm(state: SandboxState, node: int) -> dict[str, str]:
    ports, host = state.ports, node_host(node)
    return {
        "yarn.nodemanager.hostname": host,
        "yarn.nodemanager.address": f"{host}:{ports['nm']}",
        "yarn.nodemanager.localizer.address": f"{host}:{ports['nm_localizer']}",
        f"yarn.nodemanager.webapp.{'https.' if state.tls else ''}address": f"{host}:{ports['nm_http']}",  # noqa: E501
        "yarn.nodemanager.resource.memory-mb": str(state.memory_mib),
        "yarn.nodemanager.resource.cpu-vcores": str(state.cpus),
        "yarn.nodemanager.local-dirs": str(state.layout.of_node(node, "nm-local")),
        "yarn.nodemanager.log-dirs": str(state.layout.of_node(node, "nm-log")),
        "yarn.nodemanager.container-executor.class": "org.apache.hadoop.yarn.server.nodemanager.DefaultContainerExecutor",  # noqa: E501
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.pmem-check-enabled": "true",
        # With the default no container is ever killed for its memory, despite the check.
        "yarn.nodemanager.resource.memory.enforced": "false",
        # A disk that is 90 % full would make the node UNHEALTHY.
        "yarn.nodemanager.disk-health-checker.enable": "false",
        "yarn.nodemanager.env-whitelist": _ENV_WHITELIST,
        **_container_path(state),
        # HOME of containers; it must exist, also inside images, and be writable.
        "yarn.nodemanager.user-home-dir": "/tmp",  # noqa: S108 - what images have
        # Long enough to inspect a failed container's directory, short enough not to fill the disk.
        "yarn.nodemanager.delete.debug-delay-sec": "600",
        "yarn.nodemanager.recovery.enabled": "true" if state.recovery else "false",
        "yarn.nodemanager.recovery.dir": str(state.layout.of_node(node, "nm-recovery")),
        "yarn.log-aggregation.retain-seconds": "86400",
    }


def _container_path(state: SandboxState) -> dict[str, str]:
    """Return the property that adds directories to the PATH of containers.

    The whitelist of variables cannot be used for this: it exports `${PATH:-value}`, and bash sets a
    default PATH if none is set. So only admin-env has an effect.
    """
    if not state.container_path:
        return {}
    path = ":".join([*state.container_path, "/usr/local/bin", "/usr/bin", "/bin"])
    return {"yarn.nodemanager.admin-env": f"MALLOC_ARENA_MAX=$MALLOC_ARENA_MAX,PATH={path}"}


def _yarn_services(state: SandboxState) -> dict[str, str]:
    line = line_of(state.hadoop_version)
    options = [_AM_OPTIONS, *([OPENS] if line.am_java_opts else []), *hardening.java_options(state)]
    properties = {
        "yarn.service.am.java.opts": " ".join(options),
        "yarn.service.am-resource.memory": "512",
    }
    if line.services_classpath:
        properties["yarn.service.classpath"] = f"{state.jars}/*"
    return properties


def _scheduler_properties(state: SandboxState) -> dict[str, str]:
    root = "yarn.scheduler.capacity.root"
    properties = {
        # With the default of 0.1 the second service stays ACCEPTED for ever; with 1.0 the
        # ApplicationMasters of many jobs hold everything, and none gets a container.
        "yarn.scheduler.capacity.maximum-am-resource-percent": "0.5",
        # The default calculator ignores vcores.
        "yarn.scheduler.capacity.resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",  # noqa: E501
        "yarn.scheduler.capacity.node-locality-delay": "-1",
        "yarn.scheduler.capacity.maximum-applications": "10000",
        # With several nodes a job of small tasks would be on the first node that reports.
        "yarn.scheduler.capacity.per-node-heartbeat.multiple-assignments-enabled": (
            "true" if state.nodes == 1 else "false"
        ),
        "yarn.scheduler.capacity.per-node-heartbeat.maximum-container-assignments": "-1",
        f"{root}.queues": "default,ml",
    }
    for queue in ("default", "ml"):
        properties |= {
            f"{root}.{queue}.capacity": "50",
            f"{root}.{queue}.maximum-capacity": "100",
            f"{root}.{queue}.state": "RUNNING",
            f"{root}.{queue}.user-limit-factor": "10",
            f"{root}.{queue}.acl_submit_applications": "*",
            f"{root}.{queue}.acl_administer_queue": "*",
        }
    return properties


def _zookeeper_config(state: SandboxState) -> str:
    # By default the admin server listens on 8080; the health check needs four-letter commands.
    return (
        f"tickTime=500\ninitLimit=10\nsyncLimit=5\ndataDir={state.layout.run / 'zk'}\nclientPort={state.ports['zookeeper']}\n"  # noqa: E501
        "clientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=ruok,srvr,stat,mntr\n"
    )


# --- the settings profile that makes the rest of the package use a sandbox ------------------------


def _profile_text(state: SandboxState) -> str:
    job: dict[str, object] = {}
    if state.secure:
        # YARN requires a principal with a host, and a keytab on the node. Containers of images have
        # the submitter's only.
        user = state.submitter if state.docker else "{user}"
        keytab = f"file://{hardening.job_keytab(state, user)}"
        job["kerberos"] = {"principal": hardening.service_of(user), "keytab": keytab}
    if not state.docker:
        # without Docker it runs plain processes on purpose
        job |= {"image": "none", "image_policy": "allow"}
    settings: dict[str, object] = {
        "resource_managers": list(state.rm_urls),
        "user": state.submitter,
    }
    if state.tls:
        settings["ca_file"] = str(state.layout.ca_file)
    if state.secure:
        settings |= _login_settings(state)
    settings |= {"hadoop_conf": str(state.layout.client_conf), **_names_of_tasks(state)}
    if state.docker:
        settings["docker"] = _docker_settings(state)
    if job:
        settings["job"] = job
    settings |= {"task_memory": "2Gi", "sandbox": True}
    head = f"# Written by `sandbox up`, removed by `sandbox down` (sandbox {state.name}).\n"
    return head + yaml.safe_dump(settings, sort_keys=False)


def _names_of_tasks(state: SandboxState) -> dict[str, object]:
    if not state.dns:
        return {"names": "rendezvous"}
    dns = {"domain": DOMAIN}
    if state.resolver == "direct":
        dns["server"] = str(state.dns_server)
    return {"dns": dns}


def _docker_settings(state: SandboxState) -> dict[str, object]:
    """Return the settings about images and about what the node allows, so that job specs with other
    values are refused before submission.
    """
    read_only, writable = docker.allowed_mounts(state)
    allowed = {
        "networks": list(docker.NETWORKS),
        "runtimes": docker.runtimes(state),
        "ro_mounts": read_only,
        "rw_mounts": writable,
    }
    return {"host": state.engine.host, **allowed}


def _login_settings(state: SandboxState) -> dict[str, object]:
    principal = hardening.principal_of(state.submitter)
    login = {
        "principal": principal,
        "keytab": str(state.layout.keytab(principal)),
        "krb5_conf": str(state.layout.krb5_conf),
    }
    return {"auth": "kerberos", "kerberos": login}


def write_profile(state: SandboxState) -> None:
    """Write the settings profile of a sandbox, unless the file already has this content."""
    path = Path(state.profile_path)
    text = _profile_text(state)
    if path.is_file() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(text)
    part.replace(path)
