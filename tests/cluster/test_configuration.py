"""What Hadoop's own classes make of configuration files, and what this package's reader makes of
them: the same. One Java reads some hundred random directories.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import pytest

from submit_tf_job.container import hadoop, hadoop_configuration
from submit_tf_job.host import hadoopconf
from tests.clusters import ROOT, Cluster

pytestmark = pytest.mark.cluster

DIRECTORIES = 150
ENVIRON = {"TEST_SET": "from-env", "TEST_EMPTY": "", "TEST_HOST": "localhost"}
# addresses are compared by name, so each host has one name
HOSTS = ("localhost", "0.0.0.0", "${env.TEST_HOST}", "${test.host}", "${a}", " localhost\n")
ENCODINGS = ("utf-8", "utf-16", "gbk", "big5")
NOT_ASCII = "\u7bc0\u9ede"
VALUES = (
    *(
        "one",
        "",
        "${a}",
        "${b}",
        "x${a}y${b}z",
        "${c}",
        "${test.host}",
        "${nosuch}",
        "${a}${nosuch}${b}",
    ),
    *(
        "${env.TEST_SET}",
        "${env.NOSUCH}",
        "${env.NOSUCH-dash}",
        "${env.NOSUCH:-colon}",
        "${env.TEST_EMPTY}",
    ),
    *(
        "${env.TEST_EMPTY-dash}",
        "${env.TEST_EMPTY:-colon}",
        "${env.TEST_SET:-other}",
        "${env.NOSUCH:-}",
    ),
    *(
        "${user.name}",
        "${user.home}/x",
        "${java.io.tmpdir}",
        "$a",
        "${",
        "${}",
        "${a",
        "${ a}",
        "${a b}",
        "$${a}",
    ),
    *(
        "${a${b}}",
        "${env.}",
        "${env.A:B}",
        "a&b<c>",
        " padded ",
        "\u00a0padded\u3000",
        "${fs.default.name}",
        "${fs.defaultFS}",
    ),
)
COMMON = (
    "a",
    "b",
    "c",
    "test.host",
    "fs.defaultFS",
    "fs.default.name",
    "hadoop.security.authentication",
)
OF_HDFS = (
    *("dfs.nameservices", "dfs.federation.nameservices", "dfs.http.policy", "dfs.ha.namenodes.ns1"),
    *(
        "dfs.namenode.http-address",
        "dfs.http.address",
        "dfs.namenode.https-address",
        "dfs.https.address",
    ),
    *(
        "dfs.namenode.rpc-address.ns1",
        "dfs.namenode.http-address.ns1",
        "dfs.namenode.rpc-address.ns1.nn1",
    ),
    *(
        "dfs.namenode.http-address.ns1.nn1",
        "dfs.namenode.https-address.ns1",
        "dfs.user.home.dir.prefix",
    ),
)
OF_YARN = (
    *("yarn.resourcemanager.ha.enabled", "yarn.resourcemanager.ha.rm-ids", "yarn.http.policy"),
    *(
        "yarn.resourcemanager.hostname",
        "yarn.resourcemanager.hostname.rm1",
        "yarn.resourcemanager.hostname.rm2",
    ),
    *("yarn.resourcemanager.webapp.address", "yarn.resourcemanager.webapp.address.rm1"),
    *("yarn.resourcemanager.webapp.https.address", "yarn.resourcemanager.webapp.https.address.rm2"),
    *("yarn.log-aggregation-enable", "yarn.nodemanager.remote-app-log-dir"),
)
OTHERS = {
    "hdfs": ("yarn.",),
    "yarn": ("dfs.",),
}  # each loads the files and the deprecated names of its own
WORDS = {
    "fs.defaultFS": (
        "hdfs://localhost:8020",
        "hdfs://ns1",
        "localhost:9000",
        "local",
        "viewfs://c/",
        "hdfs://${test.host}:1",
    ),
    "fs.default.name": ("hdfs://localhost:9", "localhost"),
    "dfs.nameservices": ("ns1", "ns1,ns2", " ns1 , ns2 ", "ns1\n  ns2", "ns1,,ns1", "ns1\u00a0"),
    "dfs.federation.nameservices": ("ns1",),
    "dfs.ha.namenodes.ns1": ("nn1", "nn1,nn2"),
    "dfs.http.policy": ("HTTPS_ONLY", "HTTP_ONLY", "https_only", "HTTP_AND_HTTPS"),
    "yarn.http.policy": ("HTTPS_ONLY", "HTTP_ONLY", "https_only"),
    "yarn.resourcemanager.ha.enabled": ("true", "false", "TRUE", " true ", "yes"),
    "yarn.resourcemanager.ha.rm-ids": ("rm1,rm2", "rm1", "rm2,rm3"),
    "hadoop.security.authentication": ("simple", "kerberos", "${env.NOSUCH:-simple}"),
    "yarn.log-aggregation-enable": ("true", "false"),
}


def value_of(rng: random.Random, key: str) -> str:
    if key in WORDS:
        return rng.choice(WORDS[key])
    if "address" in key:
        return f"{rng.choice(HOSTS)}:{rng.choice((8020, 8088, 50070))}".replace("\n:", ":")
    if "hostname" in key or key == "test.host":
        return rng.choice(HOSTS)
    return rng.choice(VALUES)


def property_of(rng: random.Random, keys: tuple[str, ...]) -> str:
    """Return one property in one of the forms that Hadoop's parser knows."""
    key = rng.choice(keys)
    value, final = value_of(rng, key), rng.choice(("", "", "", "true", "false", " true"))
    form = rng.randrange(8)
    if form == 0:
        return f"<property name={quoteattr(key)} value={quoteattr(value)}{f' final={quoteattr(final)}' if final else ''}/>"
    inside = f"<value>{escape(value)}</value>"
    if form == 1:
        inside = f"<value><![CDATA[{value}]]></value>"
    if form == 2:
        inside = rng.choice(
            ("<value/>", "", "<value></value>", "<value>a<!-- a comment -->b</value>")
        )
    if final:
        inside += f"<final>{final}</final>"
    before, behind = rng.choice(("", " ")), rng.choice(("", "\n  "))
    text = f"<name>{before}{key}{behind}</name><tag>t</tag>{inside}<description>d</description>"
    return (
        f"<property>{text}</property>"
        if form != 3
        else f"<configuration><property>{text}</property></configuration>"
    )


def file_of(rng: random.Random, keys: tuple[str, ...], included: list[str]) -> str:
    parts = [property_of(rng, keys) for _ in range(rng.randrange(1, 9))]
    if included and rng.random() < 0.6:
        href = rng.choice([*included, *included, "nosuch.xml"])
        inside = rng.choice(("", "", f"<xi:fallback>{property_of(rng, keys)}</xi:fallback>"))
        parts.insert(
            rng.randrange(len(parts) + 1), f'<xi:include href="{href}">{inside}</xi:include>'
        )
    return f'<configuration xmlns:xi="http://www.w3.org/2001/XInclude">{"".join(parts)}</configuration>'


def write(directory: Path, rng: random.Random) -> None:
    (directory / "more").mkdir(parents=True)
    (directory / "inner.xml").write_text(file_of(rng, (*COMMON, *OF_HDFS), []))
    (directory / "more/other.xml").write_text(file_of(rng, (*COMMON, *OF_YARN), ["inner.xml"]))
    included = [
        "inner.xml",
        "more/other.xml",
        str(directory / "inner.xml"),
        f"file://{directory}/inner.xml",
    ]
    addresses = (
        '<property name="test.addresses" value="localhost:8020,localhost:8088,localhost:50070"/>'
    )
    core = file_of(rng, (*COMMON, *COMMON, *OF_HDFS, *OF_YARN), included)
    core = core.replace("</configuration>", f"{addresses}</configuration>", 1)
    encoding = rng.choice(ENCODINGS)
    if not core.isascii():
        encoding = "utf-16"
    head = f'<?xml version="1.0" encoding="{encoding}"?><!-- {NOT_ASCII} -->'
    (directory / "core-site.xml").write_bytes((head + core).encode(encoding))
    for name, keys in (
        ("hdfs-site.xml", OF_HDFS),
        ("yarn-site.xml", OF_YARN),
        ("hdfs-rbf-site.xml", OF_HDFS),
    ):
        if rng.random() < 0.8:
            (directory / name).write_text(file_of(rng, (*keys, *keys, *COMMON), included))


def answers(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    for block in text.split("#")[1:]:
        name, *lines = block.splitlines()
        pairs = (line.partition("\t")[::2] for line in lines)
        yield name, {key: value.replace("\\n", "\n").replace("\\\\", "\\") for key, value in pairs}


@pytest.mark.parametrize("part", ["hdfs", "yarn"])
def test_reader_agrees_with_the_classes_of_hadoop(
    part: str, real_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(20261129)
    for number in range(DIRECTORIES):
        write(tmp_path / f"conf/{number:03}", rng)
    (tmp_path / "conf/empty").mkdir()
    (tmp_path / "none").mkdir()
    keys = sorted({*COMMON, *OF_HDFS, *OF_YARN})
    (tmp_path / "keys").write_text("\n".join(keys))
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    words = (part, str(tmp_path / "conf"), str(tmp_path / "keys"))
    said = real_cluster.java(tmp_path / "none", str(ROOT / "tests/data/AskHadoop.java"), *words)
    found = dict(answers(said.decode()))
    defaults = found.pop("empty")
    assert len(found) == DIRECTORIES
    differ = [
        line
        for name, theirs in found.items()
        for line in differences(tmp_path / f"conf/{name}", part, theirs, defaults)
    ]
    assert differ == []
    assert sum("=error" in theirs for theirs in found.values()) < DIRECTORIES / 2, (
        "the random files are mostly readable"
    )


def differences(
    directory: Path, part: str, theirs: dict[str, str], defaults: dict[str, str]
) -> Iterator[str]:
    try:
        ours = hadoop_configuration.read_directory(str(directory), part, environ=os.environ)
    except hadoop_configuration.BadConfiguration as error:
        if "=error" not in theirs:
            yield f"{directory.name}: {error}"
        return
    if "=error" in theirs:
        if "Fetch fail" in theirs["=error"] or "parsing" in theirs["=error"]:
            yield f"{directory.name}: Hadoop says {theirs['=error']}"
        return
    of_part = [key for key in theirs if not key.startswith(("=", *OTHERS[part]))]
    for key in of_part:
        if "webapp" in key and key not in ours:
            continue  # a default with a variable: it is compared as a ResourceManager's address
        if theirs[key] != "TOO DEEP" and theirs[key] != ours.get(key, defaults.get(key)):
            yield f"{directory.name}: {key}: {theirs[key]!r} is for us {ours.get(key)!r}"
    yield from (of_file_systems if part == "hdfs" else of_resource_managers)(
        directory, ours, theirs
    )


def of_file_systems(
    directory: Path, ours: hadoop_configuration.HadoopConfiguration, theirs: dict[str, str]
) -> Iterator[str]:
    default = hadoop.default_file_system(ours) or "file:///"
    if default != theirs["=default"]:
        yield f"{directory.name}: default file system {theirs['=default']!r} is for us {default!r}"
    for line in (line for line in theirs if line.startswith("=web ")):
        scheme, addresses = hadoop.web_addresses(line[5:], ours)
        if (theirs["=scheme"], [theirs[line]]) != (scheme, addresses):
            yield f"{directory.name}: {line[5:]}: {theirs['=scheme']} {theirs[line]} is for us {scheme} {addresses}"


def of_resource_managers(
    directory: Path, ours: hadoop_configuration.HadoopConfiguration, theirs: dict[str, str]
) -> Iterator[str]:
    asked = re.sub(r"\s", "", theirs["=resource-managers"])
    managers = re.sub(r"\s", "", ",".join(hadoopconf.resource_managers(ours)))
    # without a port it has the default port here; of 0.0.0.0 the host's own name is taken
    known = asked in (managers, managers.rpartition(":")[0]) or re.search(
        "0\\.0\\.0\\.0|\\$|//:", asked
    )
    if not known:
        yield f"{directory.name}: {theirs['=resource-managers']} are for us {managers}"
