"""Hadoop configuration files in XML: places, and what is refused."""

from __future__ import annotations

import pytest

from submit_tf_job.host.located.diagnostics import Diagnostics, Unreadable
from submit_tf_job.host.located.nodes import Scalar
from submit_tf_job.host.located.xml_source import read_xml


def read(text: str) -> list[tuple[str, str, int, int]]:
    notes = Diagnostics("t.xml")
    table = read_xml(text, notes)
    notes.check()
    found = []
    for entry in table.entries:
        assert isinstance(entry.value, Scalar)
        found.append((entry.key, entry.value.text, entry.place.line, entry.place.column))
    return found


def refused(text: str) -> str:
    with pytest.raises(Unreadable) as caught:
        read_xml(text, Diagnostics("t.xml"))
    place = caught.value.place
    return f"{place.source}:{place.line}:{place.column}: {caught.value}"


def test_each_value_has_its_line_and_column() -> None:
    text = (
        "<?xml version='1.0' encoding='UTF-8'?>\n<configuration>\n"
        "  <property><name>ä.b</name><value>x</value><final>true</final></property>\n"
        "  <property>\n    <name> c </name>\n    <value>\n      one &amp;&#x20;<![CDATA[<two>]]>\n"
        "    </value>\n  </property>\n"
        "  <property><name>empty</name><value/></property>\n</configuration>\n"
    )
    assert read(text) == [
        ("ä.b", "x", 3, 36),
        ("c", "one & <two>", 7, 7),
        ("empty", "", 10, 19),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<!DOCTYPE c [<!ENTITY a "b">]><configuration/>', "t.xml:1:13: a document type (DOCTYPE)"),
        ('<!DOCTYPE c SYSTEM "file:///etc/passwd"><c/>', "a document type (DOCTYPE)"),
        ("<configuration>&a;</configuration>", "t.xml:1:16: not XML: undefined entity"),
        ("<configuration>\n<property>", "t.xml:2:11: not XML: no element found"),
        ("<project/>", "the element 'project' begins the file"),
        ("<configuration><include/></configuration>", "the element 'include' is not read"),
        ("<configuration><property><nam/></property></configuration>", "a property has no 'nam'"),
        (
            "<configuration><property><name><b/></name></property></configuration>",
            "the element 'b' stands in a name",
        ),
        ("<configuration>x</configuration>", "text outside of a property: 'x'"),
    ],
)
def test_anything_but_properties_is_refused_at_its_place(text: str, expected: str) -> None:
    assert expected in refused(text)


def test_property_that_stands_twice_or_without_a_name_is_a_problem() -> None:
    notes = Diagnostics("t.xml")
    one = "<property><name>a</name><value>1</value></property>\n"
    read_xml(
        f"<configuration>\n{one}{one}<property><value>x</value></property></configuration>", notes
    )
    assert sorted(str(problem) for problem in notes.problems) == [
        "t.xml:3:17: a: stands in line 2 already; keep one of the two",
        "t.xml:4:1: a property without a name; add <name>",
    ]
