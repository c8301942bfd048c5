"""What a Hadoop configuration directory says of the ResourceManagers."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from submit_tf_job.errors import SettingsError
from submit_tf_job.host.hadoopconf import read_xml, resource_managers

# yarn-site.xml (a short name is below yarn.resourcemanager), and the addresses that it means
CASES = """\
{} ->
{hostname: rm} -> http://rm:8088
{hostname: rm, webapp.address: "web:80"} -> http://web:80
{hostname: rm, webapp.https.address: "web:443"} -> http://rm:8088
{hostname: rm, yarn.http.policy: HTTPS_ONLY} -> https://rm:8090
{webapp.https.address: "web:443", webapp.address: "web:80", yarn.http.policy: HTTPS_ONLY} -> https://web:443
{HA: 1, hostname.rm1: a, hostname.rm2: b} -> http://a:8088 http://b:8088
{HA: 1, webapp.address.rm1: "a:1", hostname.rm2: b} -> http://a:1 http://b:8088
{HA: 1, hostname.rm1: a, hostname.rm2: b, yarn.http.policy: HTTPS_ONLY} -> https://a:8090 https://b:8090
{HA: 1, webapp.https.address.rm2: "b:1", yarn.http.policy: HTTPS_ONLY} -> https://b:1
{HA: 1, hostname: one} ->
{ha.rm-ids: " , ", hostname: rm} -> http://rm:8088
{webapp.address: "${yarn.resourcemanager.hostname}:8088"} ->
{webapp.address: "${yarn.resourcemanager.hostname}:8088", hostname: "${yarn.h}", yarn.h: rm} -> http://rm:8088
{webapp.address: "${yarn.a}:1", yarn.a: "${yarn.b}", yarn.b: "${yarn.a}"} ->
"""
HA = {"ha.enabled": "true", "ha.rm-ids": "rm1, rm2"}


@pytest.mark.parametrize("row", CASES.splitlines())
def test_resource_managers_from_yarn_site(row: str) -> None:
    text, _, addresses = row.partition(" ->")
    stated = yaml.safe_load(text)
    if stated.pop("HA", None):
        stated |= HA
    prefix = "yarn.resourcemanager."
    found = {n if n.startswith("yarn.") else prefix + n: value for n, value in stated.items()}
    assert resource_managers(found) == addresses.split()


def test_read_xml_returns_properties(tmp_path: Path) -> None:
    path = tmp_path / "yarn-site.xml"
    path.write_text(
        '<?xml version="1.0"?><?xml-stylesheet type="text/xsl" '
        'href="configuration.xsl"?>\n<configuration>\n'
        "<!-- a comment --><property><name> a </name><value>\n 1 "
        "</value><final>true</final></property>"
        "<property><name>b</name></property><property><value>x</value></property>"
        "<property><name>c</name><value>&lt;é&gt;</value></property><property><name>a</name><value>2</value></property>\n</configuration>",
        encoding="utf-8",
    )
    found = read_xml(path)
    assert (found["a"], found["b"], found["c"]) == ("2", "", "<é>")


def test_read_xml_of_a_missing_file(tmp_path: Path) -> None:
    assert read_xml(tmp_path / "yarn-site.xml") == {}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "no element found: line 1, column 0"),
        (b"<configuration>", "no element found: line 1, column 15"),
        (b"<a></b>", "mismatched tag: line 1, column 5"),
        (b"\xff\xff", "not well-formed (invalid token): line 1, column 0"),
        (b'<?xml version="1.0" encoding="utf-7"?><a/>', "multi-byte encodings are not supported"),
        (b'<?xml version="1.0" encoding="nonsense"?><a/>', "unknown encoding: nonsense"),
        (
            b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>',
            "undefined entity &x;: line 1, column 57",
        ),
    ],
)
def test_read_xml_of_invalid_content(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "yarn-site.xml"
    path.write_bytes(content)
    with pytest.raises(SettingsError) as error:
        read_xml(path)
    assert error.value.message == f"{path}: cannot be read: {why}"


def test_read_xml_refuses_an_entity_bomb(tmp_path: Path) -> None:
    path = tmp_path / "yarn-site.xml"
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    path.write_text(
        f'<!DOCTYPE a [<!ENTITY e0 "{"x" * 1000}">{entities}]><a>&e9;</a>', encoding="utf-8"
    )
    with pytest.raises(SettingsError, match="limit on input amplification factor"):
        read_xml(path)


def test_read_xml_refuses_a_directory(tmp_path: Path) -> None:
    (tmp_path / "yarn-site.xml").mkdir()
    with pytest.raises(SettingsError, match="cannot be read"):
        read_xml(tmp_path / "yarn-site.xml")
