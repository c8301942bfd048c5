"""Download Hadoop's jars with Maven, once per version, into a directory for all sandboxes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from xml.sax.saxutils import escape

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.locks import file_lock
from submit_tf_job.sandbox.versions import Coordinate, Line, line_of, maven_line, services_version

__all__ = [
    "MAVEN_TIMEOUT_S",
    "JarSet",
    "copy_artifact",
    "ensure_jars",
    "find_maven",
    "jars_of_home",
    "render_pom",
]

MAVEN_TIMEOUT_S = 900.0

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

# file name pattern → the reason why such a jar conflicts, with Jersey 1 and always
_JAX_RS_2 = dict.fromkeys(
    (r"jersey-server-2.*", r"javax\.ws\.rs-api-2.*"), "breaks the ResourceManager's Jersey 1"
)
_FORBIDDEN = {
    r".*-tests\.jar": "holds test configuration that shadows the sandbox's",
    r"hadoop-client-(api|runtime|minicluster)-.*": "is a shaded copy of Hadoop",
}


@dataclass(frozen=True)
class JarSet:
    """The classes of one Hadoop version.

    Attributes:
        version: Hadoop version.
        directory: Directory that holds every jar.
        tarball: The jars as `service-dep.tar.gz`, for the lines whose service AM requires it.
    """

    version: str
    directory: Path
    tarball: Path | None = None


def ensure_jars(
    version: str, cache_dir: Path, environ: Mapping[str, str], progress: Callable[[str], None]
) -> JarSet:
    """Return the jars of a Hadoop version; download them if they are not in the cache.

    Args:
        version: Hadoop version, one of `versions.MAVEN_VERSIONS`.
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
    if jars.directory.is_dir():
        return jars
    lock = cache_dir / f"hadoop-{version}.lock"
    with file_lock(
        lock, MAVEN_TIMEOUT_S, lambda: progress(f"another process is fetching Hadoop {version}")
    ):
        if not jars.directory.is_dir():
            mvn = find_maven(environ)
            progress(f"fetching Hadoop {version} through Maven (once; about 100 MB)")
            _build(mvn, version, line, home, environ)
    return jars


def find_maven(environ: Mapping[str, str]) -> str:
    mvn = shutil.which("mvn", path=environ.get("PATH", os.defpath))
    if mvn is None:
        raise SandboxError(
            "mvn was not found on PATH; the sandbox fetches Hadoop's jars with Maven",
            hint="install Maven (Debian, Ubuntu: apt-get install maven), or give the directory "
            "of an unpacked Hadoop",
        )
    return mvn


def _build(mvn: str, version: str, line: Line, home: Path, environ: Mapping[str, str]) -> None:
    """Fill a temporary directory and rename it, so that `home` exists only when it is complete."""
    work = Path(tempfile.mkdtemp(prefix=f".hadoop-{version}-", dir=home.parent))
    try:
        work.chmod(0o755)
        (work / "pom.xml").write_text(render_pom(version, line))
        jars = work / "jars"
        goal = ["-f", str(work / "pom.xml"), "dependency:copy-dependencies"]
        _run_maven([mvn, "-q", "-B", *goal, "-DincludeScope=runtime"], jars, environ)
        services = services_version(version)
        if line.services_alone:
            for artifact in _SERVICES:
                copy_artifact(mvn, f"{_HADOOP}:{artifact}:{services}", jars, environ)
        check_jars(jars, version, services)
        if not line.services_classpath:
            _pack(jars, work / "service-dep.tar.gz")
        work.rename(home)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def copy_artifact(mvn: str, artifact: str, directory: Path, environ: Mapping[str, str]) -> None:
    """Download one artifact, without its dependencies, into a directory."""
    goal = ["dependency:copy", f"-Dartifact={artifact}"]
    _run_maven([mvn, "-q", "-B", *goal], directory, environ)


def _run_maven(argv: list[str], directory: Path, environ: Mapping[str, str]) -> None:
    """Run Maven in the directory's parent, with the directory as output."""
    try:
        done = subprocess.run(
            [*argv, f"-DoutputDirectory={directory}"],
            cwd=directory.parent,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=MAVEN_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SandboxError(
            f"Maven did not finish within {MAVEN_TIMEOUT_S:.0f} s",
            hint="check the network and try again",
        ) from None
    if done.returncode != 0:
        errors = [
            line for line in (done.stdout + done.stderr).splitlines() if line.startswith("[ERROR]")
        ][:6]
        raise SandboxError(
            "Maven could not fetch Hadoop's jars:\n" + "\n".join(errors),
            hint="check the network and Maven's settings (proxy, mirror), and try again",
        )


def _pack(jars: Path, target: Path) -> None:
    """Write the tarball of `yarn app -enableFastLaunch`; level 1, as jars are compressed."""
    with tarfile.open(target, "w:gz", compresslevel=1) as tar:
        for jar in sorted(jars.glob("*.jar")):
            tar.add(jar.resolve(), arcname=jar.name)


def render_pom(version: str, line: Line) -> str:
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
        "%DEPENDENCIES%", "\n".join(_dependency(c) for c in wanted)
    )


def _dependency(coordinate: Coordinate) -> str:
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


def check_jars(
    directory: Path,
    version: str,
    services: str | None = None,
    hint: str = "remove the directory and try again",
) -> None:
    """Check for missing and conflicting jars, which make daemons fail with unrelated errors.

    Args:
        directory: The directory with the jars.
        version: Hadoop version.
        services: Version of the services API's jars; None for that of Hadoop.
        hint: Hint of the error.

    Raises:
        SandboxError: A jar is missing or conflicts; the message names it.
    """
    names = sorted(jar.name for jar in directory.glob("*.jar"))
    wanted = [f"{artifact}-{version}.jar" for artifact in _COMMON]
    wanted += [f"{artifact}-{services or version}.jar" for artifact in _SERVICES]
    for jar in wanted:
        if jar not in names:
            raise SandboxError(f"{jar} is missing in {directory}", hint=hint)
    forbidden = _FORBIDDEN | (_JAX_RS_2 if line_of(version).jersey_1 else {})
    for pattern, reason in forbidden.items():
        for name in names:
            if re.fullmatch(pattern, name):
                raise SandboxError(f"{name} in {directory} {reason}", hint=hint)
    backends = [name for name in names if name.startswith(("slf4j-reload4j-", "slf4j-log4j12-"))]
    if len(backends) != 1:
        raise SandboxError(
            f"expected one logging backend in {directory}, found {', '.join(backends) or 'none'}",
            hint=hint,
        )


def jars_of_home(hadoop_home: Path, target: Path) -> JarSet:
    """Link the jars of an unpacked Hadoop into one directory.

    The service AM's classpath is one wildcard, so the jars must be in one directory.

    Args:
        hadoop_home: Directory with `share/hadoop`.
        target: Directory to create.

    Raises:
        SandboxError: It is not a Hadoop home, or its services API is missing.
    """
    share = hadoop_home / "share" / "hadoop"
    version = _version_of_home(share)
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
    check_jars(
        target,
        version,
        hint=f"{hadoop_home} has to be a complete Hadoop with the YARN services API, as Apache "
        f"packs it",
    )
    if line.services_classpath:
        return JarSet(version, target)
    tarball = target.parent / "service-dep.tar.gz"
    _pack(target, tarball)
    return JarSet(version, target, tarball)


def _version_of_home(share: Path) -> str:
    names = [jar.name for jar in (share / "common").glob("hadoop-common-*.jar")]
    matches = [re.fullmatch(r"hadoop-common-(\d+\.\d+.*)(?<!-tests)\.jar", name) for name in names]
    found = [match[1] for match in matches if match]
    if len(found) != 1:
        raise SandboxError(
            f"{share.parents[1]} is not an unpacked Hadoop: there is not one "
            f"share/hadoop/common/hadoop-common-<version>.jar",
            hint="give the directory that has bin, etc and share in it",
        )
    return found[0]
