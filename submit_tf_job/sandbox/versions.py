"""Table of the differences between the Hadoop versions that the sandbox can run."""

from __future__ import annotations

from dataclasses import dataclass

from submit_tf_job.errors import SandboxError

DEFAULT_VERSION = "3.4.2"

# Version → the version of the two jars of the services API. They were published for few versions
# only; those of 3.4.2 run in the daemons of 3.4.3 and 3.5.0 as well (tried).
_SERVICES_VERSIONS = {
    "3.4.2": "3.4.2",
    "3.5.0": "3.4.2",
    "3.4.3": "3.4.2",
    "3.3.5": "3.3.5",
    "3.2.1": "3.2.1",
    "3.1.3": "3.1.3",
}
MAVEN_VERSIONS = tuple(_SERVICES_VERSIONS)


@dataclass(frozen=True)
class Coordinate:
    """One Maven artifact; an empty version means that of Hadoop's own bill of materials."""

    group: str
    artifact: str
    version: str = ""
    excludes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Line:
    """The requirements of one line of Hadoop releases.

    Attributes:
        registry_artifact: Artifact that holds Registry DNS; it was renamed in 3.3 (YARN-8845).
        log_backend: The slf4j backend; Hadoop's bill of materials excludes it, and without one
            nothing is logged.
        services_alone: Whether to download services-core and services-api without their
            descriptors: their parent pom was never published for 3.3.5, and the two are those of
            another version for 3.4.3 and 3.5.0.
        extra: Artifacts that newer JDKs need and this line does not include.
        services_classpath: Whether the service AM supports `yarn.service.classpath`; before 3.3 it
            supports an uploaded tarball only.
        am_java_opts: Whether `yarn.service.am.java.opts` may contain `--add-opens=java.base/...`;
            3.2 rejects the slash, so JDK_JAVA_OPTIONS is used there.
    """

    registry_artifact: str = "hadoop-registry"
    log_backend: str = "slf4j-reload4j"
    services_alone: bool = False
    extra: tuple[Coordinate, ...] = ()
    services_classpath: bool = True
    am_java_opts: bool = True


# ZooKeeper 3.4 clients never connect on JDK 14 and newer (UnresolvedAddressException for ever); JDK
# 11 dropped javax.activation.
_OLD_LINE_EXTRA = (
    Coordinate("com.sun.activation", "javax.activation", "1.2.0"),
    Coordinate("org.apache.zookeeper", "zookeeper", "3.5.10", (("*", "*"),)),
    Coordinate("org.apache.zookeeper", "zookeeper-jute", "3.5.10", (("*", "*"),)),
)

# The dependencies that the two descriptors of the services API declare.
_SERVICES_EXTRA = (
    Coordinate("io.swagger", "swagger-annotations", "1.5.4"),
    Coordinate("org.yaml", "snakeyaml"),
)

_OLD = Line(
    registry_artifact="hadoop-yarn-registry",
    log_backend="slf4j-log4j12",
    extra=_OLD_LINE_EXTRA,
    services_classpath=False,
    am_java_opts=False,
)
_ALONE = Line(services_alone=True, extra=_SERVICES_EXTRA)
# the first two numbers of the version → its line
_LINES = {"3.5": _ALONE, "3.4": Line(), "3.3": _ALONE, "3.2": _OLD, "3.1": _OLD}


def line_of(version: str) -> Line:
    """Return the table row of a Hadoop version.

    Raises:
        SandboxError: The sandbox does not support this line of releases.
    """
    line = _LINES.get(".".join(version.split(".")[:2]))
    if line is None:
        raise SandboxError(
            f"the sandbox cannot run Hadoop {version}",
            hint=f"choose one of the lines {', '.join(sorted(_LINES, reverse=True))}",
        )
    return line


def maven_line(version: str) -> Line:
    """Return the table row of a Hadoop version whose jars Maven can download.

    Raises:
        SandboxError: Maven has no complete set of jars of that version.
    """
    if version not in MAVEN_VERSIONS:
        raise SandboxError(
            f"Hadoop {version} cannot be had through Maven for the sandbox: its services "
            f"API was not published, or does not work",
            hint=f"choose one of {', '.join(MAVEN_VERSIONS)}, or give the directory of an "
            f"unpacked Hadoop of that version",
        )
    return line_of(version) if services_version(version) == version else _ALONE


def services_version(version: str) -> str:
    """Return the version of the services API's jars for a version that Maven can download."""
    return _SERVICES_VERSIONS[version]
