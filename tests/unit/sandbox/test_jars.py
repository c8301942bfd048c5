"""Where Hadoop's jars come from."""

from __future__ import annotations

import tarfile
import threading
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.jars import check_jars, ensure_jars, jars_of_home, render_pom
from submit_tf_job.sandbox.jvm import find_java_home
from submit_tf_job.sandbox.versions import DEFAULT_VERSION, MAVEN_VERSIONS, line_of, maven_line

_NEEDED = (
    *(
        "hadoop-common",
        "hadoop-auth",
        "hadoop-hdfs",
        "hadoop-hdfs-client",
        "hadoop-yarn-api",
        "hadoop-yarn-common",
        "hadoop-yarn-client",
    ),
    *(
        "hadoop-yarn-server-common",
        "hadoop-yarn-server-resourcemanager",
        "hadoop-yarn-server-nodemanager",
    ),
    *(
        "hadoop-yarn-server-timelineservice",
        "hadoop-yarn-services-core",
        "hadoop-yarn-services-api",
    ),
)


def _names(version: str, backend: str = "slf4j-reload4j-1.7.36.jar") -> list[str]:
    return [*(f"{artifact}-{version}.jar" for artifact in _NEEDED), backend]


def _fill(directory: Path, names: list[str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).write_bytes(name.encode())


def _fake_maven(directory: Path, script: str) -> dict[str, str]:
    """Put an `mvn` on a PATH of its own; $OUT is the directory it is told to fill."""
    directory.mkdir(exist_ok=True)
    mvn = directory / "mvn"
    find_out = (
        'for a; do case "$a" in -DoutputDirectory=*) OUT="${a#*=}";; esac; done\nmkdir -p "$OUT"\n'
    )
    head = f'#!/bin/sh\necho "$*" >> {directory}/calls\n{find_out}'
    mvn.write_text(head + script)
    mvn.chmod(0o755)
    return {"PATH": f"{directory}:/usr/bin:/bin"}


def _touch_all(version: str, backend: str = "slf4j-reload4j-1.7.36.jar") -> str:
    return "".join(f"echo {name} > $OUT/{name}\n" for name in _names(version, backend))


def _dependencies(pom: str) -> dict[str, str | None]:
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    found = ET.fromstring(pom).findall("./m:dependencies/m:dependency", space)
    return {
        str(d.findtext("m:artifactId", namespaces=space)): d.findtext("m:version", namespaces=space)
        for d in found
    }


def test_every_maven_version_has_a_line() -> None:
    assert MAVEN_VERSIONS[0] == DEFAULT_VERSION
    for version in MAVEN_VERSIONS:
        assert version.startswith(maven_line(version).name + ".")


def test_a_version_without_services_api_is_refused_with_those_that_have_it() -> None:
    with pytest.raises(SandboxError, match=r"Hadoop 3\.3\.6 cannot be had through Maven") as caught:
        maven_line("3.3.6")
    assert ", ".join(MAVEN_VERSIONS) in caught.value.hint


def test_an_unpacked_hadoop_may_be_of_any_version_of_a_known_line() -> None:
    assert line_of("3.3.6").name == "3.3"
    with pytest.raises(SandboxError, match=r"cannot run Hadoop 2\.10\.2"):
        line_of("2.10.2")


@pytest.mark.parametrize("version", MAVEN_VERSIONS)
def test_pom(version: str) -> None:
    pom = render_pom(version, maven_line(version))
    found = _dependencies(pom)
    assert "%" not in pom
    assert f"<version>{version}</version>" in pom
    assert found["hadoop-yarn-server-timelineservice"] == version
    assert "hadoop-minicluster" not in found
    assert "://repo" not in pom


def test_pom_of_3_4_excludes_the_test_jar_that_services_api_brings() -> None:
    pom = render_pom("3.4.2", line_of("3.4.2"))
    api = next(line for line in pom.splitlines() if "hadoop-yarn-services-api" in line)
    assert (
        "<exclusion><groupId>org.apache.hadoop</groupId><artifactId>hadoop-common</artifactId></exclusion>"
        in api
    )
    assert {"hadoop-registry", "slf4j-reload4j"} <= _dependencies(pom).keys()


def test_pom_of_3_3_leaves_the_services_to_be_fetched_alone() -> None:
    found = _dependencies(render_pom("3.3.5", line_of("3.3.5")))
    assert not {"hadoop-yarn-services-core", "hadoop-yarn-services-api"} & found.keys()
    assert found["swagger-annotations"] == "1.5.4"
    assert "snakeyaml" in found


@pytest.mark.parametrize("version", ["3.2.1", "3.1.3"])
def test_pom_of_old_lines_brings_what_new_jdks_need(version: str) -> None:
    found = _dependencies(render_pom(version, line_of(version)))
    assert found["zookeeper"] == found["zookeeper-jute"] == "3.5.10"
    assert found["javax.activation"] == "1.2.0"
    assert {"hadoop-yarn-registry", "slf4j-log4j12"} <= found.keys()
    assert not {"hadoop-registry", "slf4j-reload4j"} & found.keys()


def test_jars_are_fetched_once(tmp_path: Path) -> None:
    environ = _fake_maven(tmp_path / "bin", _touch_all("3.4.2"))
    said: list[str] = []
    cache = tmp_path / "cache"
    first = ensure_jars("3.4.2", cache, environ, said.append)
    assert first == ensure_jars("3.4.2", cache, {"PATH": "/nonexistent"}, said.append)
    assert first.directory == cache / "hadoop-3.4.2" / "jars"
    assert first.tarball is None
    assert said == ["fetching Hadoop 3.4.2 through Maven (once; about 100 MB)"]
    assert len((tmp_path / "bin" / "calls").read_text().splitlines()) == 1
    assert not list(cache.glob(".hadoop-*"))


def test_two_at_once_fetch_once(tmp_path: Path) -> None:
    environ = _fake_maven(tmp_path / "bin", "sleep 0.5\n" + _touch_all("3.4.2"))
    said: list[str] = []
    threads = [
        threading.Thread(
            target=ensure_jars, args=("3.4.2", tmp_path / "cache", environ, said.append)
        )
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len((tmp_path / "bin" / "calls").read_text().splitlines()) == 1
    assert sorted(said) == [
        "another process is fetching Hadoop 3.4.2",
        "fetching Hadoop 3.4.2 through Maven (once; about 100 MB)",
    ]


def test_3_3_fetches_the_services_without_their_descriptors(tmp_path: Path) -> None:
    environ = _fake_maven(tmp_path / "bin", _touch_all("3.3.5"))
    ensure_jars("3.3.5", tmp_path / "cache", environ, lambda _: None)
    calls = (tmp_path / "bin" / "calls").read_text().splitlines()
    assert "dependency:copy-dependencies -DincludeScope=runtime" in calls[0]
    assert [call.split()[3] for call in calls[1:]] == [
        "-Dartifact=org.apache.hadoop:hadoop-yarn-services-core:3.3.5",
        "-Dartifact=org.apache.hadoop:hadoop-yarn-services-api:3.3.5",
    ]


def test_old_lines_get_a_tarball(tmp_path: Path) -> None:
    environ = _fake_maven(tmp_path / "bin", _touch_all("3.1.3", "slf4j-log4j12-1.7.25.jar"))
    jars = ensure_jars("3.1.3", tmp_path / "cache", environ, lambda _: None)
    assert jars.tarball is not None
    with tarfile.open(jars.tarball) as tar:
        assert "hadoop-yarn-services-core-3.1.3.jar" in tar.getnames()


def test_a_failing_maven_is_quoted_and_leaves_nothing(tmp_path: Path) -> None:
    environ = _fake_maven(
        tmp_path / "bin", 'echo "[ERROR] Could not transfer artifact x"; echo noise; exit 1'
    )
    with pytest.raises(
        SandboxError,
        match=r"Maven could not fetch Hadoop's jars:\n\[ERROR\] Could not transfer artifact x$",
    ):
        ensure_jars("3.4.2", tmp_path / "cache", environ, lambda _: None)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["hadoop-3.4.2.lock"]


def test_an_incomplete_set_of_jars_is_not_kept(tmp_path: Path) -> None:
    environ = _fake_maven(tmp_path / "bin", "echo x > $OUT/hadoop-common-3.4.2.jar")
    with pytest.raises(SandboxError, match=r"hadoop-auth-3\.4\.2\.jar is missing"):
        ensure_jars("3.4.2", tmp_path / "cache", environ, lambda _: None)
    assert not (tmp_path / "cache" / "hadoop-3.4.2").exists()


def test_missing_maven_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="mvn was not found on PATH") as caught:
        ensure_jars("3.4.2", tmp_path, {"PATH": str(tmp_path)}, lambda _: None)
    assert "install Maven" in caught.value.hint


@pytest.mark.parametrize(
    "name",
    [
        "hadoop-common-3.4.2-tests.jar",
        "jersey-server-2.46.jar",
        "javax.ws.rs-api-2.1.1.jar",
        "hadoop-client-api-3.4.2.jar",
    ],
)
def test_harmful_jars_are_refused(tmp_path: Path, name: str) -> None:
    _fill(tmp_path, [*_names("3.4.2"), name])
    with pytest.raises(SandboxError, match=f"^{name} in "):
        check_jars(tmp_path, "3.4.2")


@pytest.mark.parametrize(
    "backends", [[], ["slf4j-reload4j-1.7.36.jar", "slf4j-log4j12-1.7.25.jar"]]
)
def test_there_must_be_one_logging_backend(tmp_path: Path, backends: list[str]) -> None:
    _fill(tmp_path, [*_names("3.4.2")[:-1], *backends])
    with pytest.raises(SandboxError, match="expected one logging backend"):
        check_jars(tmp_path, "3.4.2")


def _unpacked(root: Path, version: str, backend: str) -> Path:
    share = root / f"hadoop-{version}" / "share" / "hadoop"
    _fill(
        share / "common",
        [
            f"hadoop-common-{version}.jar",
            f"hadoop-common-{version}-tests.jar",
            f"hadoop-registry-{version}.jar",
        ],
    )
    _fill(share / "common" / "lib", [backend, "guava-27.jar"])
    _fill(share / "hdfs" / "lib", ["guava-27.jar"])
    _fill(
        share / "yarn",
        [name for name in _names(version)[:-1] if name != f"hadoop-common-{version}.jar"],
    )
    return root / f"hadoop-{version}"


def test_an_unpacked_hadoop_is_gathered_in_one_directory(tmp_path: Path) -> None:
    jars = jars_of_home(
        _unpacked(tmp_path, "3.3.6", "slf4j-reload4j-1.7.36.jar"), tmp_path / "sandbox" / "jars"
    )
    assert jars.version == "3.3.6"
    assert jars.tarball is None
    names = {path.name for path in jars.directory.iterdir()}
    assert "hadoop-common-3.3.6-tests.jar" not in names
    assert (jars.directory / "guava-27.jar").read_bytes() == b"guava-27.jar"


def test_an_unpacked_old_hadoop_is_packed_with_real_files(tmp_path: Path) -> None:
    jars = jars_of_home(
        _unpacked(tmp_path, "3.2.4", "slf4j-log4j12-1.7.25.jar"), tmp_path / "sandbox" / "jars"
    )
    assert jars.tarball is not None
    with tarfile.open(jars.tarball) as tar:
        assert all(member.isfile() for member in tar.getmembers())


def test_a_directory_that_is_no_hadoop_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="is not an unpacked Hadoop"):
        jars_of_home(tmp_path, tmp_path / "jars")


def _java(home: Path, version: str = "17.0.15") -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def test_java_home_comes_first(tmp_path: Path) -> None:
    given = _java(tmp_path / "given")
    other = _java(tmp_path / "other")
    assert find_java_home({"JAVA_HOME": str(given), "PATH": str(other / "bin")}) == given


def test_java_is_found_behind_links(tmp_path: Path) -> None:
    real = _java(tmp_path / "jvm")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(real / "bin" / "java")
    assert find_java_home({"PATH": str(tmp_path / "bin")}) == real


def test_no_java_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="java was not found") as caught:
        find_java_home({"PATH": str(tmp_path)})
    assert "install a JDK or JRE" in caught.value.hint
    with pytest.raises(SandboxError, match="there is no bin/java in it"):
        find_java_home({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin"})


@pytest.mark.parametrize(
    ("version", "fits"),
    [("1.8.0_392", True), ("11.0.2", True), ("22.0.1", True), ("23", False), ("24.0.1", False)],
)
def test_a_java_without_subject_get_subject_is_refused(
    tmp_path: Path, version: str, fits: bool
) -> None:
    home = _java(tmp_path / "jvm", version)
    if fits:
        assert find_java_home({"JAVA_HOME": str(home)}) == home
    else:
        with pytest.raises(
            SandboxError, match=f"is version {version[:2]}; Hadoop does not run on it"
        ):
            find_java_home({"JAVA_HOME": str(home)})
