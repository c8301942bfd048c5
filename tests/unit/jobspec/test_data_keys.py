"""Inputs and outputs: their keys, their plan, and their check before a job is posted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from submit_tf_job.errors import AuthError, ClusterUnavailable, JobSpecError
from submit_tf_job.jobspec import loads
from submit_tf_job.jobspec.job import Input, Job, Strategy
from submit_tf_job.operations.submit_checks import DataCheck
from submit_tf_job.plan import Site, plan
from submit_tf_job.plan.check import warnings
from submit_tf_job.settings import load_settings
from tests.golden.fixed import SITE, make_job, make_role, task_of

SETTINGS = load_settings(arguments={"user": "alice"}, environ={"HOME": "/nowhere"}, cwd=Path("/"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with data files, hidden files and a directory in it."""
    root = tmp_path / "data"
    (root / "more").mkdir(parents=True)
    for name in ("a-1.rec", "a-2.rec", "b.rec", "_SUCCESS", ".crc", "more/c.rec"):
        (root / name).write_text(name)
    return root


def uri(path: Path, *parts: str) -> str:
    return "file://" + "/".join([str(path), *parts])


def look(job: Job) -> DataCheck:
    check = DataCheck(job, SETTINGS, on_this_machine=True)
    check.check()
    return check


def problems(job: Job, *, here: bool = True) -> list[str]:
    with pytest.raises(JobSpecError) as caught:
        DataCheck(job, SETTINGS, on_this_machine=here).check()
    found = [str(problem).partition(": ") for problem in caught.value.problems]
    assert all(place.startswith("t.yaml:") for place, _, _ in found)
    return [said for _, _, said in found]


def read(inputs: str = "{}", outputs: str = "{}") -> Job:
    text = (
        f"name: t\nimage: i\ncommand: c\nstrategy: single\nroles: {{chief: {{memory: "
        f"1Gi}}}}\ninputs: {inputs}\noutputs: {outputs}\n"
    )
    return loads(text, source="t.yaml", base=None)


def test_paths_of_uris_have_no_empty_parts() -> None:
    """HDFS refuses them, where an output is stored after the training; but names of objects may
    have them.
    """
    where = "'hdfs:///models//a/./m/'"
    job = read(f"{{d: {where}}}", f"{{m: {{uri: {where[:-2]}/n', upload: true}}}}")
    found = [job.inputs[0].uri, job.outputs[0].uri]
    assert found == ["hdfs:///models/a/m", "hdfs:///models/a/m/n"]
    assert read("{d: 's3://b//a//m/'}").inputs[0].uri == "s3://b//a//m"


# --- a caller of a gateway ---


# its default is hdfs://nn.example.com:8020
CONF = Path(__file__).parents[2] / "golden" / "hadoop-conf"


OF_OTHERS = ["s3a://bucket/x", "gs://bucket/x", "webhdfs://169.254.169.254:80/x"]
OF_OTHERS += ["hdfs://internal.example.com:22/x", "viewfs://other/x"]


@pytest.mark.parametrize("uri", OF_OTHERS)
def test_gateway_accepts_only_its_own_hdfs(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def storage_of(_settings: object, uri: str) -> None:
        opened.append(uri)
        raise AuthError("not here")

    monkeypatch.setattr("submit_tf_job.operations.submit_checks.storage_of", storage_of)
    settings = replace(SETTINGS, hadoop_conf=CONF)
    for job in (read(f"{{a: '{uri}'}}"), read(outputs=f"{{a: '{uri}'}}")):
        DataCheck(job, settings, for_caller=True).check()
    with pytest.raises(JobSpecError, match="on the cluster's own HDFS only"):
        DataCheck(read(f"{{a: {{uri: '{uri}', shard: files}}}}"), settings, for_caller=True).check()
    assert opened == []
    for own in ("hdfs:///x", "hdfs://nn.example.com:8020/x"):
        with pytest.raises(JobSpecError, match="not here"):
            DataCheck(read(f"{{a: '{own}'}}"), settings, for_caller=True).check()
    assert opened == ["hdfs:///x", "hdfs://nn.example.com:8020/x"]


# --- who reads what -------------------------------------------------------------------------------


def test_file_list_is_sent_to_tasks_that_read_only() -> None:
    roles = [make_role(name) for name in ("chief", "worker", "ps", "evaluator", "board")]
    inputs = (Input("d", "hdfs:///d", sharded=True), Input("p", "hdfs:///p"))
    job = make_job(*roles, strategy=Strategy.PARAMETER_SERVER, inputs=inputs)
    planned = plan(job, SITE)
    wanted = f"{SITE.staging}/lists/mnist/{planned.run}/tfjob-input-d.txt"
    with_list = {
        component.name
        for component in planned.service.components
        for file in (component.configuration.files if component.configuration else ())
        if file.src_file == wanted
        and file.type == "STATIC"
        and file.dest_file == "tfjob-input-d.txt"
    }
    assert with_list == {"chief", "worker", "evaluator"}
    unlisted = replace(job, inputs=(Input("p", "hdfs:///p"),))
    told = task_of(unlisted)["data"]
    assert (told["readers"], told["onlookers"]) == (["worker"], ["evaluator", "chief"])


# --- the check -----------------------------------------------------------------------------------


def test_check_accepts_existing_inputs_and_free_outputs(data: Path, tmp_path: Path) -> None:
    files = f"{{uri: '{uri(data, '*.rec')}', shard: files}}"
    inputs = f"{{all: '{uri(data)}', one: '{uri(data, 'b.rec')}', files: {files}}}"
    new = f"{{uri: '{uri(tmp_path, 'x/y/z')}', upload: true}}"
    before = sorted(tmp_path.rglob("*"))
    found = look(read(inputs, f"{{new: {new}, there: '{uri(data)}'}}"))
    listed = "".join(f"{uri(data, name)}\n" for name in ("a-1.rec", "a-2.rec", "b.rec"))
    assert found.lists == {"files": listed.encode()}
    assert sorted(tmp_path.rglob("*")) == before  # the check writes nothing


def test_check_lists_a_bounded_number_of_files_for_a_caller(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("submit_tf_job.storage.is_own_hdfs", lambda *_arguments: True)
    monkeypatch.setattr("submit_tf_job.operations.submit_checks._MOST_LISTED", 5)
    for place in (uri(data), uri(data, "*")):
        job = read(f"{{a: {{uri: '{place}', shard: files}}}}")
        DataCheck(job, SETTINGS, on_this_machine=True).check()
        with pytest.raises(JobSpecError, match=r"inputs\.a: more than 5 files and directories"):
            DataCheck(job, SETTINGS, on_this_machine=True, for_caller=True).check()


def test_check_reports_every_problem_of_data(data: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "taken/chief-0").mkdir(parents=True)
    shared = {"none": uri(data, "*.csv"), "void": uri(tmp_path, "empty")}
    inputs = "".join(f", {name}: {{uri: '{at}', shard: files}}" for name, at in shared.items())
    inputs = f"{{gone: '{uri(data, 'nope')}'{inputs}}}"
    outputs = (
        f"{{below: '{uri(data, 'b.rec/model')}', "
        f"each: {{uri: '{uri(tmp_path, 'taken')}', upload: true, by: every-task}}, "
        f"there: {{uri: '{uri(data)}', upload: true}}}}"
    )
    sees = "(as alice sees it; names that begin with _ or . do not count)"
    another = "is there already; name another place, remove it, or say overwrite: true"
    assert problems(read(inputs, outputs)) == [
        f"inputs.gone: {uri(data, 'nope')} is not there, as alice sees it",
        f"inputs.none: {uri(data, '*.csv')}: no file matches {sees}",
        f"inputs.void: {uri(tmp_path, 'empty')}: the directory holds no file {sees}",
        f"outputs.below: {uri(data, 'b.rec')} is a file, so that nothing can lie below it",
        f"outputs.each: {uri(tmp_path, 'taken/chief-0')} {another}",
        f"outputs.there: {uri(data)} {another}",
    ]
    assert look(read(outputs=f"{{m: {{uri: '{uri(data)}', upload: true, overwrite: true}}}}"))


def test_check_refuses_file_names_with_line_breaks(tmp_path: Path) -> None:
    for name in ("a", "b\nfile:///etc/passwd"):
        (tmp_path / name.replace("/", "_")).touch()
    job = read(f"{{d: {{uri: '{uri(tmp_path)}', shard: files}}}}")
    assert problems(job) == [
        f"inputs.d: {uri(tmp_path)}: the file name 'b\\nfile:___etc_passwd' holds a line "
        f"break; rename it"
    ]


def test_check_refuses_shares_of_node_files(data: Path) -> None:
    inputs = f"{{a: '{uri(data, 'nope')}', b: {{uri: '{uri(data)}', shard: files}}}}"
    job = read(inputs, "{o: 'file:///o'}")
    assert problems(job, here=False) == [
        "inputs.b.shard: which files each node has is not known here; put them on HDFS, "
        "or leave shard out"
    ]


def test_check_reports_an_unreachable_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(_settings: object, _uri: str) -> None:
        raise ClusterUnavailable("hdfs://nn: no answer")

    monkeypatch.setattr("submit_tf_job.operations.submit_checks.storage_of", unreachable)
    with pytest.raises(ClusterUnavailable) as caught:
        look(read("{d: 'hdfs:///d'}"))
    assert caught.value.message == "inputs.d: hdfs://nn: no answer"
    assert caught.value.hint == (
        "inputs and outputs are looked at before a job is posted; from a host that cannot "
        "reach them, give the program their URIs in `env`"
    )


def test_plan_warns_of_a_configuration_that_only_the_image_has() -> None:
    inputs = (
        "{a: {uri: 'hdfs:///a', download: true}, b: {uri: 'hdfs://nn/b', download: true}, "
        "c: 'hdfs:///c'}"
    )
    outputs = "{m: {uri: 'viewfs://all/m', upload: true}}"
    said = (
        "names no NameNode, and the job sends no Hadoop configuration: the image needs one; "
        "or say hadoop: {conf: inline}"
    )
    assert warnings(read(inputs, outputs), Site("alice")) == [
        f"inputs.a: hdfs:///a {said}",
        f"outputs.m: viewfs://all/m {said}",
    ]
    assert (
        warnings(read(inputs, outputs + "\nhadoop: {conf: /etc/hadoop/conf}"), Site("alice")) == []
    )
