"""Find or download what the daemons need: a Java; and, with Maven and once for each version, the
jars of Hadoop, and libhadoop.so for Kerberos. A table has the differences between versions of
Hadoop.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from xml.sax.saxutils import escape

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.processes import find_program, lock, run

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


@dataclass(frozen=True)
class Coordinate:
    """One Maven artifact; an empty version means the version in Hadoop's own bill of materials."""

    group: str
    artifact: str
    version: str = ""
    excludes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Line:
    """The requirements of one line of Hadoop releases.

    Attributes:
        registry_artifact: The artifact that contains Registry DNS; its name changed in 3.3
            (YARN-8845).
        log_backend: The slf4j backend. Hadoop's bill of materials excludes it, and without a
            backend nothing is logged.
        services_alone: Whether to download services-core and services-api without their
            descriptors. For 3.3.5, their parent pom was never published; for 3.4.3 and 3.5.0, the
            two artifacts of another version are used.
        extra: Artifacts that newer JDKs need and this line of releases does not include.
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
# The services API of 3.4 loads a class of Jersey 1, which 3.5 has not: without it the
# ResourceManager never ends an application that was killed (RMAppImpl.appAdminClientCleanUp).
_3_5 = Line(
    services_alone=True,
    extra=(
        *_SERVICES_EXTRA,
        Coordinate("com.sun.jersey", "jersey-client", "1.19.4", (("*", "*"),)),
        Coordinate("com.sun.jersey", "jersey-core", "1.19.4", (("*", "*"),)),
    ),
)
# the first two numbers of the version → its line
_LINES = {"3.5": _3_5, "3.4": Line(), "3.3": _ALONE, "3.2": _OLD, "3.1": _OLD}


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
    """Return what the download of a Hadoop version by Maven needs: its row of the table
    (`line_of`), or `_ALONE` if its services API is that of another version and the row would
    download that with its dependencies.

    Raises:
        SandboxError: Maven has no complete set of jars for this version.
    """
    services = _SERVICES_VERSIONS.get(version)
    if services is None:
        raise SandboxError(
            f"Hadoop {version} cannot be had through Maven for the sandbox: its services "
            f"API was not published, or does not work",
            hint=f"choose one of {', '.join(_SERVICES_VERSIONS)}, or give the directory of an "
            f"unpacked Hadoop of that version",
        )
    line = line_of(version)
    return line if services == version or line.services_alone else _ALONE


# --- the jars ---

_MAVEN_TIMEOUT_S = 900.0

_HADOOP = "org.apache.hadoop"
_COMMON = (
    "hadoop-common",
    "hadoop-auth",
    "hadoop-hdfs",
    "hadoop-hdfs-client",
    "hadoop-yarn-api",
    "hadoop-yarn-common",
    "hadoop-yarn-client",
    "hadoop-yarn-server-common",
    "hadoop-yarn-server-resourcemanager",
    "hadoop-yarn-server-nodemanager",
    # RMContext and RMAppImpl link to it even with the timeline service off, and the RM declares it
    # as `provided`.
    "hadoop-yarn-server-timelineservice",
)
_SERVICES = ("hadoop-yarn-services-core", "hadoop-yarn-services-api")
# services-api depends on hadoop-common's *test* jar at compile scope, whose core-site.xml and
# log4j.properties would shadow the sandbox's.
_SERVICES_EXCLUDES = ((_HADOOP, "hadoop-common"),)

# The only jar on Maven Central with libhadoop.so.
_NATIVE_VERSION = "3.3.5-3"
_NATIVE_ARTIFACT = f"io.trino.hadoop:hadoop-apache:{_NATIVE_VERSION}"
_ARCHITECTURES = {
    "x86_64": "amd64",
    "amd64": "amd64",
    "aarch64": "aarch64",
    "arm64": "aarch64",
    "ppc64le": "ppc64le",
}
_LIBRARY = "libhadoop.so"


_INSTALL_JAVA = (
    "install a JDK or JRE, 8 to 22 (Debian, Ubuntu: apt-get install openjdk-17-jre-headless), "
    "or point JAVA_HOME at one"
)

# JDK 23 disabled Subject.getSubject, which all these Hadoop lines use to log in.
_NEWEST_JAVA = 22


@dataclass(frozen=True)
class JarSet:
    """The classes of one Hadoop version.

    Attributes:
        version: Hadoop version.
        directory: Directory that holds every jar.
        tarball: The jars as `service-dep.tar.gz`, for lines of releases whose service AM requires
            that.
    """

    version: str
    directory: Path
    tarball: Path | None = None


def ensure_jars(
    version: str, cache_dir: Path, environ: Mapping[str, str], progress: Callable[[str], None]
) -> JarSet:
    """Return the jars of a Hadoop version; download them if they are not in the cache.

    Args:
        version: Hadoop version, one that Maven has.
        cache_dir: Directory shared by all sandboxes of this user.
        environ: Environment; PATH is searched for `mvn`, and Maven inherits all of it.
        progress: Called with one line per step.

    Raises:
        SandboxError: The version is not available, Maven is missing, or Maven fails.
    """
    line = maven_line(version)
    home = cache_dir / f"hadoop-{version}"
    tarball = None
    if not line.services_classpath:
        tarball = home / "service-dep.tar.gz"
    jars = JarSet(version, home / "jars", tarball)
    if not jars.directory.is_dir():
        make = partial(_build_jars, version, line, environ)
        _fetch_directory(f"Hadoop {version}", "100 MB", home, make, environ, progress)
    return jars


def _fetch_directory(
    what: str,
    size: str,
    home: Path,
    make: Callable[[Path], None],
    environ: Mapping[str, str],
    progress: Callable[[str], None],
) -> None:
    """Make a directory, which is renamed to `home` when it is complete; do nothing if `home`
    exists.
    """
    on_wait = partial(progress, f"another process is fetching {what}")
    with lock(home, _MAVEN_TIMEOUT_S, on_wait):
        if home.is_dir():
            return
        _find_maven(environ)  # before it is said that something is fetched
        progress(f"fetching {what} through Maven (once; about {size})")
        with tempfile.TemporaryDirectory(
            prefix=f".{home.name}-", dir=home.parent, ignore_cleanup_errors=True
        ) as parent:
            work = Path(parent) / "new"
            work.mkdir()
            work.chmod(0o755)
            make(work)
            work.rename(home)


def _find_maven(environ: Mapping[str, str]) -> str:
    why = "the sandbox fetches Hadoop's jars with Maven"
    hint = (
        "install Maven (Debian, Ubuntu: apt-get install maven), or give the directory of an "
        "unpacked Hadoop"
    )
    return find_program("mvn", environ, why, hint)


def _build_jars(version: str, line: Line, environ: Mapping[str, str], work: Path) -> None:
    (work / "pom.xml").write_text(_render_pom(version, line))
    jars = work / "jars"
    goal = ["-f", str(work / "pom.xml"), "dependency:copy-dependencies"]
    _run_maven([*goal, "-DincludeScope=runtime"], jars, environ)
    for artifact in _SERVICES if line.services_alone else ():
        _copy_artifact(f"{_HADOOP}:{artifact}:{_SERVICES_VERSIONS[version]}", jars, environ)
    if not line.services_classpath:
        _pack_tarball(jars, work / "service-dep.tar.gz")


def _copy_artifact(artifact: str, directory: Path, environ: Mapping[str, str]) -> None:
    """Download one artifact, without its dependencies, into a directory."""
    _run_maven(["dependency:copy", f"-Dartifact={artifact}"], directory, environ)


def _run_maven(goal: list[str], directory: Path, environ: Mapping[str, str]) -> None:
    """Run Maven in the directory's parent, with the directory as output."""
    argv = [_find_maven(environ), "-q", "-B", *goal, f"-DoutputDirectory={directory}"]
    done = run(argv, environ, cwd=directory.parent, timeout_s=_MAVEN_TIMEOUT_S)
    if done.returncode != 0:
        errors = [
            line for line in (done.stdout + done.stderr).splitlines() if line.startswith("[ERROR]")
        ][:6]
        raise SandboxError(
            "Maven could not fetch Hadoop's jars:\n" + "\n".join(errors),
            hint="check the network and Maven's settings (proxy, mirror), and try again",
        )


def _pack_tarball(jars: Path, target: Path) -> None:
    """Write the tarball that `yarn app -enableFastLaunch` would make; the compression level is 1,
    because jars are compressed already.
    """
    with tarfile.open(target, "w:gz", compresslevel=1) as tar:
        for jar in sorted(jars.glob("*.jar")):
            tar.add(jar.resolve(), arcname=jar.name)


def _render_pom(version: str, line: Line) -> str:
    """Return the pom.xml whose dependencies are the sandbox's classpath."""
    wanted = [
        Coordinate(_HADOOP, artifact, version) for artifact in (*_COMMON, line.registry_artifact)
    ]
    if not line.services_alone:
        wanted += [
            Coordinate(_HADOOP, artifact, version, _SERVICES_EXCLUDES) for artifact in _SERVICES
        ]
    wanted += [Coordinate("org.slf4j", line.log_backend), *line.extra]
    template = resources.files("submit_tf_job.sandbox").joinpath("pom.xml.template").read_text()
    return template.replace("%HADOOP_VERSION%", escape(version)).replace(
        "%DEPENDENCIES%", "\n".join(_dependency_xml(c) for c in wanted)
    )


def _dependency_xml(coordinate: Coordinate) -> str:
    parts = [
        f"<groupId>{coordinate.group}</groupId>",
        f"<artifactId>{coordinate.artifact}</artifactId>",
    ]
    if coordinate.version:
        parts.append(f"<version>{coordinate.version}</version>")
    if coordinate.excludes:
        inner = "".join(
            f"<exclusion><groupId>{group}</groupId><artifactId>{artifact}</artifactId></exclusion>"
            for group, artifact in coordinate.excludes
        )
        parts.append(f"<exclusions>{inner}</exclusions>")
    return f"    <dependency>{''.join(parts)}</dependency>"


def jars_of_home(hadoop_home: Path, target: Path) -> JarSet:
    """Link the jars of an unpacked Hadoop into one directory.

    The service AM's classpath is one wildcard, so the jars must be in one directory.

    Args:
        hadoop_home: Directory with `share/hadoop`.
        target: Directory to create.

    Raises:
        SandboxError: The directory is not a Hadoop home, jars are missing in it (such as those of
            the services API), or the sandbox does not support its version.
    """
    share = hadoop_home / "share" / "hadoop"
    version = version_of_home(hadoop_home)
    line = line_of(version)
    target.mkdir(parents=True, exist_ok=True)
    for part in (
        "common/lib",
        "common",
        "hdfs/lib",
        "hdfs",
        "yarn/lib",
        "yarn",
        "yarn/timelineservice",
    ):
        for jar in sorted((share / part).glob("*.jar")):
            link = target / jar.name
            if not jar.name.endswith("-tests.jar") and not link.is_symlink():
                link.symlink_to(jar.resolve())
    for artifact in (*_COMMON, *_SERVICES):
        if not (target / f"{artifact}-{version}.jar").exists():
            raise SandboxError(
                f"{artifact}-{version}.jar is missing in {target}",
                hint=f"{hadoop_home} has to be a complete Hadoop with the YARN services API, as "
                f"Apache packs it",
            )
    if line.services_classpath:
        return JarSet(version, target)
    tarball = target.parent / "service-dep.tar.gz"
    _pack_tarball(target, tarball)
    return JarSet(version, target, tarball)


def version_of_home(hadoop_home: Path) -> str:
    """Return the version of an unpacked Hadoop.

    Raises:
        SandboxError: The directory is not one.
    """
    common = hadoop_home / "share" / "hadoop" / "common"
    names = [jar.name for jar in common.glob("hadoop-common-*.jar")]
    matches = [re.fullmatch(r"hadoop-common-(\d+\.\d+.*)(?<!-tests)\.jar", name) for name in names]
    found = [match[1] for match in matches if match]
    if len(found) != 1:
        raise SandboxError(
            f"{hadoop_home} is not an unpacked Hadoop: there is not one "
            f"share/hadoop/common/hadoop-common-<version>.jar",
            hint="give the directory that has bin, etc and share in it",
        )
    return found[0]


def ensure_native(
    hadoop_home: Path | None,
    cache_dir: Path,
    environ: Mapping[str, str],
    progress: Callable[[str], None],
) -> Path:
    """Return a directory with libhadoop.so: that of an unpacked Hadoop, or else that in the cache,
    after a download if necessary.

    Without this library, a NodeManager with Kerberos ends when it first reads or collects logs,
    because SecureIOUtils requires native code.

    Raises:
        SandboxError: Maven has no such library for this processor, or fails.
    """
    if hadoop_home and (hadoop_home / "lib" / "native" / _LIBRARY).is_file():
        return hadoop_home / "lib" / "native"
    machine = platform.machine()
    architecture = _ARCHITECTURES.get(machine.lower())
    if architecture is None:
        raise SandboxError(
            f"a sandbox with Kerberos needs {_LIBRARY}, and Maven has none for this "
            f"processor ({machine})",
            hint="give the directory of an unpacked Hadoop that has lib/native/libhadoop.so",
        )
    home = cache_dir / f"native-{_NATIVE_VERSION}-{architecture}"
    make = partial(_fetch_native, architecture, environ)
    _fetch_directory(_LIBRARY, "32 MB", home, make, environ, progress)
    return home


def _fetch_native(architecture: str, environ: Mapping[str, str], work: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".jar-", dir=work.parent) as jars:
        _copy_artifact(_NATIVE_ARTIFACT, Path(jars), environ)
        jar = next(Path(jars).glob("*.jar"))
        try:
            with zipfile.ZipFile(jar) as archive:
                library = archive.read(f"nativelib/Linux-{architecture}/{_LIBRARY}")
        except (KeyError, zipfile.BadZipFile) as error:
            raise SandboxError(
                f"{jar.name} holds no {_LIBRARY} for {architecture}: {error}"
            ) from None
    (work / _LIBRARY).write_bytes(library)


def find_java_home(environ: Mapping[str, str]) -> Path:
    """Return the home directory of the Java to use: JAVA_HOME, or else the home of the `java` on
    PATH.

    Raises:
        SandboxError: Java was not found, or is too new for Hadoop.
    """
    java = shutil.which("java", path=environ.get("PATH", os.defpath))
    if given := environ.get("JAVA_HOME"):
        home = Path(given)
    elif java is None:
        raise SandboxError(
            "java was not found: JAVA_HOME is not set, and PATH has none", hint=_INSTALL_JAVA
        )
    else:
        home = Path(java).resolve().parent.parent
    if not (home / "bin" / "java").is_file():
        raise SandboxError(f"there is no bin/java in {home}", hint="set JAVA_HOME")
    major = _java_major(home)
    if major is not None and major > _NEWEST_JAVA:
        raise SandboxError(
            f"the Java in {home} is version {major}; Hadoop does not run on it", hint=_INSTALL_JAVA
        )
    return home


def _java_major(home: Path) -> int | None:
    try:
        text = (home / "release").read_text()
    except OSError:
        return None
    found = re.findall(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    return next(map(int, found), None)
