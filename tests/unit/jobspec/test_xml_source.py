"""Hadoop configuration files in XML: places, and what is refused."""

from __future__ import annotations

import pytest

from submit_tf_job import jobspec
from submit_tf_job.errors import JobSpecError


def refused(text: str) -> str:
    with pytest.raises(JobSpecError) as caught:
        jobspec.loads(text, source="t.xml", base=None)
    return str(caught.value)


def test_each_value_has_its_line_and_column() -> None:
    job = jobspec.loads(
        "<?xml version='1.0' encoding='UTF-8'?>\n<configuration>\n"
        "  <property><name>tony.application.name</name><value>x</value><final>true</final>"
        "</property>\n"
        "  <property>\n    <name> tony.containers.command </name>\n    <value>\n"
        "      one &amp;&#x20;<![CDATA[<two>]]>\n    </value>\n  </property>\n"
        "  <property><name>tony.yarn.queue</name><value/></property>\n"
        "  <property><name>tony.worker.instances</name><value>1</value></property>\n"
        "  <property><name>ä</name><value>Ä</value></property>\n</configuration>\n",
        source="t.xml",
        base=None,
        overrides=["image=tf"],
    )
    command, queue = job.roles["worker"].command, job.queue
    assert (job.name, command.script, queue) == ("x", "one & <two>", None)
    places = (job.places[path] for path in ("name", "roles.worker.command"))
    assert list(map(str, places)) == ["t.xml:3:54", "t.xml:7:7"]


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
            "<configuration><property><name><b/></name></property>",
            "the element 'b' stands in a name",
        ),
        ("<configuration>x</configuration>", "text outside of a property: 'x'"),
    ],
)
def test_anything_but_properties_is_refused_at_its_place(text: str, expected: str) -> None:
    assert expected in refused(text)


def test_property_that_stands_twice_or_without_a_name_is_a_problem() -> None:
    one = "<property><name>tony.yarn.queue</name><value>1</value></property>\n"
    lines = refused(
        f"<configuration>\n{one}{one}<property><value>x</value></property></configuration>"
    ).splitlines()
    assert "t.xml:3:17: tony.yarn.queue: stands in line 2 already; keep one of the two" in lines
    assert "t.xml:4:1: a property without a name; add <name>" in lines
