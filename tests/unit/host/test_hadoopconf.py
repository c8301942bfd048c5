"""What a Hadoop configuration directory says of the ResourceManagers."""

from __future__ import annotations

from pathlib import Path

import pytest

from submit_tf_job.errors import SettingsError
from submit_tf_job.host.hadoopconf import read_xml, resource_managers

RM = "yarn.resourcemanager."
HA = {f"{RM}ha.enabled": "true", f"{RM}ha.rm-ids": "rm1, rm2"}
CASES = [
    ({}, []),
    ({f"{RM}hostname": "rm"}, ["http://rm:8088"]),
    ({f"{RM}hostname": "rm", f"{RM}webapp.address": "web:80"}, ["http://web:80"]),
    ({f"{RM}hostname": "rm", f"{RM}webapp.https.address": "web:443"}, ["http://rm:8088"]),
    ({f"{RM}hostname": "rm", "yarn.http.policy": "HTTPS_ONLY"}, ["https://rm:8090"]),
    (
        {
            f"{RM}webapp.https.address": "web:443",
            f"{RM}webapp.address": "web:80",
            "yarn.http.policy": "HTTPS_ONLY",
        },
        ["https://web:443"],
    ),
    (
        {**HA, f"{RM}hostname.rm1": "a", f"{RM}hostname.rm2": "b"},
        ["http://a:8088", "http://b:8088"],
    ),
    (
        {**HA, f"{RM}webapp.address.rm1": "a:1", f"{RM}hostname.rm2": "b"},
        ["http://a:1", "http://b:8088"],
    ),
    (
        {
            **HA,
            f"{RM}hostname.rm1": "a",
            f"{RM}hostname.rm2": "b",
            "yarn.http.policy": "HTTPS_ONLY",
        },
        ["https://a:8090", "https://b:8090"],
    ),
    (
        {**HA, f"{RM}webapp.https.address.rm2": "b:1", "yarn.http.policy": "HTTPS_ONLY"},
        ["https://b:1"],
    ),
    ({**HA, f"{RM}hostname": "one"}, []),
    ({f"{RM}ha.rm-ids": " , ", f"{RM}hostname": "rm"}, ["http://rm:8088"]),
    ({f"{RM}webapp.address": "${" + RM + "hostname}:8088"}, []),
    (
        {f"{RM}webapp.address": "${" + RM + "hostname}:8088", f"{RM}hostname": "${h}", "h": "rm"},
        ["http://rm:8088"],
    ),
    ({f"{RM}webapp.address": "${a}:1", "a": "${b}", "b": "${a}"}, []),
]


@pytest.mark.parametrize(("yarn", "addresses"), CASES)
def test_resource_managers_from_yarn_site(yarn: dict[str, str], addresses: list[str]) -> None:
    assert resource_managers(yarn) == addresses


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
