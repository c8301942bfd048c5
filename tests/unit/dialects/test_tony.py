"""TonY's configurations as jobs: each key, who decides, resources, and the goldens."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from submit_tf_job.dialects.rows import ForeignKey
from submit_tf_job.errors import JobSpecError
from submit_tf_job.jobspec import loads
from submit_tf_job.jobspec.job import Job, RoleKind, Strategy, TFConfigMode
from tests.unit.dialects import eachkey

GOLDEN = Path(__file__).parent / "golden"
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


# --- conversions ----------------------------------------------------------------------------------

_THEIRS = sorted(GOLDEN.glob("tony-*.xml"))
_IMAGE = ["image=registry.example.com/tf:2.15"]


@pytest.mark.parametrize("path", _THEIRS, ids=lambda path: path.stem)
def test_convert_gives_the_golden_which_plans_to_the_same_service(path: Path) -> None:
    text = eachkey.check_conversion(path.read_text("utf-8"), path.name, _IMAGE)
    assert text == (GOLDEN / f"{path.stem}.job.yaml").read_text("utf-8")


# --- meaning --------------------------------------------------------------------------------------


def read(properties: dict[str, str], *overrides: str) -> Job:
    return loads(xml(properties), source="t.xml", base=None, overrides=overrides)


def problems(properties: dict[str, str], *overrides: str) -> list[str]:
    with pytest.raises(JobSpecError) as caught:
        read(properties, *overrides)
    return [str(problem) for problem in caught.value.problems]


def test_problem_stands_at_the_line_and_column_of_the_value() -> None:
    (problem,) = problems({**BASE, "tony.worker.vcores": "many"})
    assert problem == (
        "t.xml:9:51: tony.worker.vcores: expected a whole number of at least 1, "
        "found the text 'many'"
    )


def test_untracked_type_is_a_sidecar_and_other_types_are_waited_for() -> None:
    job = read({**BASE, "tony.application.untracked.jobtypes": "ps,reader"})
    assert set(job.roles) == {"chief", "worker", "ps", "reader"}
    assert job.roles["reader"].kind is RoleKind.SIDECAR
    assert read(BASE).roles["reader"].kind is RoleKind.TRAINS
    stops = {
        "tony.application.untracked.jobtypes": "ps,reader",
        "tony.application.stop-on-failure-jobtypes": "reader",
    }
    assert read({**BASE, **stops}).roles["reader"].kind is RoleKind.SERVES


def test_tasks_of_a_tensorflow_job_have_tf_config_and_the_variables_of_tony() -> None:
    job = read(BASE)
    assert (job.strategy, job.tf_config) == (Strategy.CUSTOM, TFConfigMode.COUNTS)
    assert job.ends_with == "all-that-train"
    assert [word.value for word in job.variables] == ["tony"]
    assert read({**BASE, "tony.application.framework": "standalone"}).variables == ()


def test_failed_workers_are_tolerated_as_there_unless_the_file_says_otherwise() -> None:
    assert read(BASE).roles["worker"].tolerate == 1
    strict = {**BASE, "tony.application.fail-on-worker-failure-enabled": "true"}
    assert read(strict).roles["worker"].tolerate == 0
    stops = {**BASE, "tony.application.stop-on-failure-jobtypes": "worker"}
    assert read(stops).roles["worker"].tolerate == 0


def test_worker_0_decides_without_a_chief_and_all_workers_are_waited_for() -> None:
    job = read({k: v for k, v in BASE.items() if "chief" not in k})
    assert (job.deciding_role, job.ends_with) == ("worker", "all-that-train")
    assert any("each task must succeed here" in remark.text for remark in job.remarks)


def test_type_without_instances_is_named() -> None:
    job = read({**BASE, "tony.evaluator.memory": "4g"})
    assert [r.path for r in job.remarks if "exists by it" in r.text] == ["tony.evaluator.memory"]


def test_a_misspelt_type_is_refused() -> None:
    (problem,) = problems({**BASE, "tony.wroker.gpus": "1"})
    assert (
        "tony.wroker.gpus: did you mean tony.worker.gpus? tony.wroker.instances is abs" in problem
    )
    with_none = {**BASE, "tony.wroker.instances": "0", "tony.wroker.gpus": "1"}
    assert "exists by it" in str(read(with_none).remarks)


def test_longest_of_the_gang_timeouts_is_the_start_timeout() -> None:
    job = read(
        {
            **BASE,
            "tony.container.allocation.timeout": "-1",
            "tony.container.registration.timeout": "90000",
            "tony.task.executor.registry-timeout-sec": "120",
        }
    )
    assert job.start_timeout_s == 120


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
    "listed",
    [
        "hdfs:///a/x.zip,hdfs:///b/x-zip",
        "hdfs:///a/part-1,hdfs:///b/part_1",
        "hdfs:///a/the-first-of-two-long-names.a,hdfs:///a/the-first-of-two-long-names.b",
    ],
)
def test_two_resources_of_similar_names_are_two_inputs(listed: str) -> None:
    job = read({**BASE, "tony.containers.resources": listed})
    assert len({item.name for item in job.inputs}) == 2


def test_name_in_a_value_is_filled_in_from_the_file_and_stays_for_the_shell_in_a_command() -> None:
    more = {"base": "hdfs:///b", "tony.containers.resources": "${base}/${n}.txt", "n": "x"}
    job = read({**BASE, **more, "tony.containers.command": "run ${base} ${HOME}"})
    assert job.inputs[0].uri == "hdfs:///b/x.txt"
    assert (job.roles["ps"].command.script or "").endswith("run hdfs:///b ${HOME}")
    (problem,) = problems({**BASE, "tony.yarn.queue": "${QUEUE}"})
    assert "tony.yarn.queue: '${QUEUE}' is not a property of this file" in problem


def test_values_that_name_one_another_do_not_grow_without_bound() -> None:
    more = {"tony.yarn.queue": "${b}", "b": "${c}${c}" * 500, "c": "${b}${b}" * 500}
    assert "is not a property of this file" in problems({**BASE, **more})[0]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("tony.worker.memory", "8", "'8' is 8 MiB to TonY; say 8g for GiB"),
        ("tony.worker.memory", "lots", "'lots' is not an amount of TonY"),
        (
            "tony.application.framework",
            "mxnet",
            "write a job spec: `submit_tf_job init --strategy c",
        ),
        ("tony.application.framework", "pytorch", "`submit_tf_job init --strategy torch`"),
        ("tony.containers.resources", "hdfs://a\nb/x", "write hdfs:///hdfs://a\\nb/x, or file://"),
        ("tony.containers.resources", "hdfs:///x::../b", "'../b' does not lie in the task's"),
        ("tony.worker.depends-on", "ps", "all tasks start together here"),
        ("tony.application.untracked.jobtypes", "worker", "a type that trains is waited for"),
        ("tony.worker.placement-spec", "x=3,in,node,y", "supported: notin,node,TAG"),
        ("tony.ps.resources", "hdfs:///x", "is fetched by chief, workers and evaluator alone"),
        ("tony.aplication.timeout", "1", "did you mean 'tony.application.timeout'?"),
    ],
)
def test_value_that_cannot_be_kept_is_refused(name: str, value: str, expected: str) -> None:
    found = problems({**BASE, name: value})
    assert any(expected in problem for problem in found), found


def test_what_is_missing_is_asked_for_with_the_option_to_add() -> None:
    (image, command) = problems({"tony.application.name": "j", "tony.worker.instances": "1"})
    assert command.endswith("add --set roles.worker.command=COMMAND")
    assert image.endswith("add --set image=IMAGE")


def test_other_hadoop_configuration_is_refused_by_name() -> None:
    (problem,) = problems({"hbox.worker.memory": "1g"})
    assert "a configuration of Hbox" in problem
    (problem,) = problems({"fs.defaultFS": "hdfs://a"})
    assert "a Hadoop configuration without a property of TonY (tony.…)" in problem
