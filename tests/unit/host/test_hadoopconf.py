"""What a Hadoop configuration directory says of the ResourceManagers."""

from __future__ import annotations

import pytest
import yaml

from tests.builders.host import Host

# yarn-site.xml (a short name is below yarn.resourcemanager), and the addresses that it means
CASES = """\
{x: ""} ->
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
{webapp.address: "${yarn.resourcemanager.hostname}:8088"} -> http://0.0.0.0:8088
{webapp.address: "${yarn.resourcemanager.hostname}:8088", hostname: "${yarn.h}", yarn.h: rm} -> http://rm:8088
{webapp.address: "http://web.example.com:80/cluster"} -> http://web.example.com:80
{HA: 1, webapp.address.rm1: "http://a", webapp.address.rm2: "b:1"} -> http://a:8088 http://b:1
{webapp.address: "http://web.example.com:80/cluster"} -> http://web.example.com:80
{HA: 1, webapp.address.rm1: "http://a", webapp.address.rm2: "b:1"} -> http://a:8088 http://b:1
{webapp.address: "${yarn.a}:1", yarn.a: "${yarn.b}", yarn.b: "${yarn.a}"} ->
"""
HA = {"ha.enabled": "true", "ha.rm-ids": "rm1, rm2"}
RM = "yarn.resourcemanager."


@pytest.mark.parametrize("row", CASES.splitlines())
def test_resource_managers_from_yarn_site(host: Host, row: str) -> None:
    text, _, addresses = row.partition(" ->")
    stated = yaml.safe_load(text)
    if stated.pop("HA", None):
        stated |= HA
    values = {name if name.startswith("yarn.") else RM + name: v for name, v in stated.items()}
    assert host.rms(HADOOP_CONF_DIR=host.hadoop("conf", **values)) == addresses.split()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"x": "y"}, "yarn-site.xml names none"),
        ({f"{RM}address": "rm:8032"}, "there it may be --rm http://rm:8088"),
        (
            {f"{RM}address": "router:8050", "yarn.router.webapp.address": "router:8089"},
            "names a Router of a federation (router:8089), which has no services API",
        ),
    ],
)
def test_why_yarn_site_names_no_resource_manager(
    host: Host, values: dict[str, str], words: str
) -> None:
    found, origin = host.value("resource_managers", HADOOP_CONF_DIR=host.hadoop("conf", **values))
    assert (found or [], words in origin) == ([], True), origin


def test_yarn_site_as_people_write_it(host: Host) -> None:
    text = (
        '<?xml version="1.0"?><?xml-stylesheet type="text/xsl" href="configuration.xsl"?>\n'
        f"<configuration>\n<!-- a comment --><property><name> {RM}hostname </name><value>\n 1 "
        "</value></property><property><name>b</name></property>"
        f"<property><value>x</value></property><property><name>{RM}hostname</name>"
        f"<value>a&#45;b</value><final>true</final></property><property><name>{RM}hostname</name>"
        "<value>2</value></property>\n</configuration>"
    )
    host.write(host.home / "conf/yarn-site.xml", text)
    assert host.rms(HADOOP_CONF_DIR=str(host.home / "conf")) == ["http://a-b:8088"]


@pytest.mark.parametrize("declared", ["utf8", "UTF8", "gbk", "GBK", "gb18030", "utf-16"])
def test_yarn_site_in_the_encoding_that_it_declares(host: Host, declared: str) -> None:
    for form in (f'encoding="{declared}"', f"encoding = '{declared}' standalone='yes'"):
        text = f"<?xml version='1.0' {form}?><!-- 资源管理器 --><configuration><property><name>{RM}"
        text += "hostname</name><value>rm</value></property></configuration>"
        host.write(host.home / "conf/yarn-site.xml", "")
        (host.home / "conf/yarn-site.xml").write_bytes(text.encode(declared))
        assert host.rms(HADOOP_CONF_DIR=str(host.home / "conf")) == ["http://rm:8088"]


BOMB = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "no element found: line 1, column 0"),
        (b"<a></b>", "mismatched tag: line 1, column 5"),
        (b"\xff\xff", "not well-formed (invalid token): line 1, column 0"),
        (b'<?xml version="1.0" encoding="gbk"?><a>\xff</a>', "'gbk' codec can't decode byte 0xff"),
        (b'<?xml version="1.0" encoding="nonsense"?><a/>', "unknown encoding: nonsense"),
        (b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', "undefined entity"),
        (f'<!DOCTYPE a [<!ENTITY e0 "{"x" * 1000}">{BOMB}]><a>&e9;</a>'.encode(), "limit on input"),
        (None, "is a directory"),
    ],
)
def test_yarn_site_that_is_no_xml_or_has_entities_is_refused(
    host: Host, content: bytes | None, why: str
) -> None:
    path = host.home / "conf/yarn-site.xml"
    path.parent.mkdir()
    path.mkdir() if content is None else path.write_bytes(content)
    said, _ = host.refused(HADOOP_CONF_DIR=str(path.parent))
    assert said.startswith(f"{path}: cannot be read: {why}")
