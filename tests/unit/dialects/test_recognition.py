"""Which files are recognised, and what is said of those that are like them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from submit_tf_job.errors import JobSpecError
from submit_tf_job.jobspec import loads
from tests.unit.dialects import eachkey

TFJOB = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: a}
spec:
  tfReplicaSpecs:
    Worker:
      template:
        spec:
          containers:
            - {name: tensorflow, image: i, command: [x], resources: {limits: {memory: 1Gi}}}
"""
CLAIM = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\n"


def refused(text: str, source: str = "theirs.yaml") -> list[str]:
    with pytest.raises(JobSpecError) as caught:
        loads(text, source=source, base=None)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("kind", "version", "way"),
    [
        ("TrainJob", "trainer.kubeflow.org/v1alpha1", "names a runtime that is not in the file"),
        ("PyTorchJob", "kubeflow.org/v1", "init --strategy torch"),
        ("MPIJob", "kubeflow.org/v2beta1", "only a TFJob is read"),
        ("Experiment", "kubeflow.org/v1beta1", "spec.trialTemplate.trialSpec"),
        ("Job", "batch.volcano.sh/v1alpha1", "a Volcano Job says in `plugins`"),
        ("Job", "batch/v1", "only a TFJob is read"),
        ("Template", "v1", "oc process"),
        ("List", "v1", "put the TFJob into a file of its own"),
        ("Workflow", "argoproj.io/v1alpha1", "a file of its own"),
        ("TFJob", "example.com/v1", "only a TFJob is read"),
    ],
)
def test_relative_of_a_tfjob_is_refused_by_name_with_the_way_out(
    kind: str, version: str, way: str
) -> None:
    (problem,) = refused(f"apiVersion: {version}\nkind: {kind}\nspec: {{}}\n")
    assert problem.startswith(f"theirs.yaml:2:7: kind: an object of kind {kind} is not read; ")
    assert way in problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("import tensorflowonspark\n", "theirs.yaml:1:1: a Python program"),
        ('"""Train: now."""\nfrom tf_yarn import run\nx = {"a": 1}\n', "theirs.yaml:2:1: a Python"),
        ("#!/bin/sh\nset -e\nhbox-submit --a: b: c\n", "theirs.yaml:1:1: a script"),
        ("yarn jar submarine.jar job run --name a\n", "theirs.yaml:1:1: a script"),
    ],
)
def test_program_is_refused_with_the_way_out(text: str, problem: str) -> None:
    (found,) = refused(text)
    assert found.startswith(problem)
    assert "submit_tf_job.compat" in found or "`submit_tf_job convert -- COMMAND`" in found


@pytest.mark.parametrize("text", ["metadata: {name: {{ name }}}\n", "{% if x %}\nspec: {}\n"])
def test_template_is_refused_as_one(text: str) -> None:
    (problem,) = refused(f"apiVersion: kubeflow.org/v1\nkind: TFJob\n{text}")
    assert "theirs.yaml:3:" in problem
    assert "a template" in problem
    assert "helm template" in problem


@pytest.mark.parametrize("text", ["{{ .Values.image }}", "{{- .Release.Name }}", "{% x %}"])
def test_template_with_quoted_placeholders_is_refused_as_one(text: str) -> None:
    (problem,) = refused(TFJOB.replace("image: i", f'image: "{text}"'))
    path = "spec.tfReplicaSpecs.Worker.template.spec.containers[0].image"
    assert problem.startswith(f"theirs.yaml:10:41: {path}: a template")


@pytest.mark.parametrize(
    "text",
    [
        f"{CLAIM}---\n{TFJOB}",
        f"{TFJOB}---\n{CLAIM}",
        f"---\n# a comment\n---\n{TFJOB}---\n",
        f"--- # first\n{CLAIM}...\n---\n{TFJOB}",
    ],
)
def test_one_job_among_several_documents_is_read(text: str) -> None:
    job = loads(text, source="theirs.yaml", base=None)
    assert job.name == "a"
    line = text[: text.index("{name: a}")].count("\n") + 1
    assert job.places["name"].line == line
    other = [str(remark) for remark in job.remarks if "another document" in remark.text]
    assert len(other) == text.count("PersistentVolumeClaim")


def test_two_jobs_in_one_file_are_refused() -> None:
    (problem,) = refused(f"{TFJOB}---\n{TFJOB}")
    assert problem == (
        "theirs.yaml:12:1: a second job begins here; put each into a file of its own"
    )


def test_documents_without_a_job_are_refused_as_before() -> None:
    (problem,) = refused(f"{CLAIM}---\n{CLAIM}")
    assert problem.startswith("theirs.yaml:4:1: a second document begins here")


def test_job_spec_is_never_taken_for_another_format() -> None:
    text = "name: a\nkind: TFJob\nstrategy: single\nimage: i\ncommand: x\nroles: {chief: {memory: 1Gi}}\n"
    (problem,) = refused(text)
    assert "unknown key 'kind'" in problem


def test_job_spec_is_read_without_importing_a_dialect() -> None:
    program = (
        "import sys; from submit_tf_job.jobspec import loads; "
        "loads('name: a\\nstrategy: single\\nimage: i\\ncommand: x\\n"
        "roles: {chief: {memory: 1Gi}}', source='s', base=None); "
        "print([name for name in sys.modules if 'dialects.' in name])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("empty", ["null", "false", '""', "[]", "{}"])
def test_key_that_says_nothing_is_counted_with_those_that_mean_nothing(empty: str) -> None:
    source = "t.yaml"
    text = TFJOB.replace("spec:\n", f"spec:\n  suspend: {empty}\n", 1)
    assert "spec.suspend" in eachkey.Given(text, source=source).converted().silent
    worker = '{"name": "worker", "artifact": {"id": "i"}, "launch_command": "x"'
    text = f'{{"name": "j", "quicklinks": {empty}, "components": [{worker}, "resource": {{"memory": 9}}}}]}}'
    assert "quicklinks" in eachkey.Given(text, source=source).converted().silent


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "kind: TFJob",
            'kind: "a\\nb"',
            "theirs.yaml:2:7: kind: an object of kind a\\nb is not read",
        ),
        ("- {name: tensorflow", "- [[1]]\n            - {name: tensorflow", "expected a mapping"),
        (
            "image: i,",
            "image: i, env: [{name: a.b, value: c}],",
            "'a.b' is not a name that a shell",
        ),
        ("1Gi", "9" * 400, "is not a quantity of Kubernetes"),
    ],
)
def test_odd_value_is_a_problem(old: str, new: str, expected: str) -> None:
    assert expected in "\n".join(refused(TFJOB.replace(old, new)))


def test_component_whose_name_is_not_a_label_is_a_problem() -> None:
    text = '{"name": "j", "components": [{"name": "a.b", "launch_command": "x"}]}'
    found = "\n".join(refused(text, "t.json"))
    assert "components[0].name: 'a.b' must be a valid DNS label" in found
