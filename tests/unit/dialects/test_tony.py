"""TonY's configurations as jobs: each key, who decides, resources, and the goldens."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from submit_tf_job.dialects.rows import ForeignKey
from submit_tf_job.jobspec import loads
from tests.unit.dialects import eachkey

KEYS = eachkey.keys_of("tony")
_SAMPLES = {path: str(value) for path, value in eachkey.samples("tony").items()}
_SAMPLES |= dict.fromkeys(("tony.am.retry-count",), "2")
_NAMES = {
    "tony.application.group.*": "tony.application.group.A",
    "tony.application.dependency.*.timeout.after.*.ignored": (
        "tony.application.dependency.evaluator.timeout.after.A.ignored"
    ),
    "tony.application.dependency.*.timeout.after.*": (
        "tony.application.dependency.evaluator.timeout.after.A"
    ),
    "tony.task.**": "tony.task.max-total-gpus",
    "tony.am.**": "tony.am.memory",
}
BASE = {
    "tony.application.name": "j",
    "tony.ps.instances": "1",
    "tony.chief.instances": "1",
    "tony.worker.instances": "2",
    "tony.reader.instances": "1",
    "tony.containers.command": "python /o.py",
    "tony.docker.containers.image": "r/tf:1",
}
# What else a key needs to count, or must not stand beside it.
_MORE = {
    "tony.application.group.*": {_NAMES["tony.application.dependency.*.timeout.after.*"]: "9"},
    "tony.application.dependency.*.timeout.after.*": {"tony.application.group.A": "chief"},
    "tony.application.placement-spec": {"tony.containers.allocation-tags": "mine"},
    "tony.containers.placement-spec": {"tony.containers.allocation-tags": "mine"},
    "tony.*.placement-spec": {"tony.worker.allocation-tags": "mine"},
    "tony.containers.allocation-tags": {"tony.containers.placement-spec": "notin,node,mine"},
    "tony.*.allocation-tags": {"tony.worker.placement-spec": "notin,node,mine"},
}
_WITHOUT = dict.fromkeys(
    ("tony.application.docker.image", "tony.docker.image.path"), ("tony.docker.containers.image",)
)


def xml(properties: dict[str, str]) -> str:
    lines = (
        f"  <property><name>{name}</name><value>{escape(value)}</value></property>\n"
        for name, value in properties.items()
    )
    return f"<configuration>\n{''.join(lines)}</configuration>\n"


@pytest.mark.slow
def test_each_key_has_the_fate_of_the_table() -> None:
    eachkey.each(KEYS, has_its_fate)


def has_its_fate(key: ForeignKey) -> None:
    last = "worker" if key.path.startswith(("tony.*", "tony.docker.*")) else "x"
    name = _NAMES.get(key.path) or key.path.replace("**", "x").replace("*", last)
    left_out = (name, *_WITHOUT.get(key.path, ()))
    base = {k: v for k, v in BASE.items() if k not in left_out} | _MORE.get(key.path, {})
    before = eachkey.Given(xml(base))
    after = eachkey.Given(xml({**base, name: _SAMPLES[key.path]}))
    eachkey.check(key, name, before, after)


# --- meaning --------------------------------------------------------------------------------------


def test_resources_become_files_and_inputs(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    listed = "a.txt::b.txt,hdfs:///d/x.zip#archive,hdfs:///d/x.zip::y.bin"
    text = xml({**BASE, "tony.containers.resources": listed})
    job = loads(text, source="t.xml", base=tmp_path)
    assert [file.name for file in job.roles["worker"].files] == ["b.txt"]
    assert [(item.name, item.uri, item.download) for item in job.inputs] == [
        ("x_zip", "hdfs:///d/x.zip", True),
        ("y_bin", "hdfs:///d/x.zip", True),
    ]
    script = job.roles["worker"].command.script or ""
    assert 'unpack_archive(*sys.argv[1:])\' "$TFJOB_INPUT_X_ZIP" x.zip\n' in script
    assert 'ln -sfn "$TFJOB_INPUT_Y_BIN" y.bin\n' in script
    assert "TFJOB_INPUT" not in (job.roles["ps"].command.script or "")


@pytest.mark.parametrize(
    ("type_name", "instances", "framework", "strategy"),
    [
        ("worker", "1", "standalone", "single"),
        ("chief", "1", "standalone", "single"),
        ("worker", "2", "standalone", "custom"),
        ("worker", "1", "tensorflow", "custom"),
    ],
)
def test_strategy_is_single_for_one_standalone_task_alone(
    type_name: str, instances: str, framework: str, strategy: str
) -> None:
    given = {
        "tony.application.name": "j",
        "tony.application.framework": framework,
        f"tony.{type_name}.instances": instances,
        "tony.containers.command": "python /o.py",
        "tony.docker.containers.image": "r/tf:1",
    }
    assert loads(xml(given), source="t.xml", base=None).strategy.value == strategy


def test_types_that_fail_the_job_count_also_where_nothing_could_be_tolerated() -> None:
    named = {"tony.application.stop-on-failure-jobtypes": "worker"}
    strict = {"tony.application.fail-on-worker-failure-enabled": "true"}
    for more in (named, {**named, **strict}):
        seen = eachkey.effect(eachkey.Given(xml({**BASE, **more}), source="tony.xml"))
        assert eachkey.NO_EFFECT not in {text for _, _, text in seen.remarks}


def test_values_that_name_one_another_do_not_grow_without_bound() -> None:
    more = {"tony.yarn.queue": "${b}", "b": "${c}${c}" * 500, "c": "${b}${b}" * 500}
    [problem, *_] = eachkey.problems(xml({**BASE, **more}), "t.xml")
    assert "is not a property of this file" in problem
