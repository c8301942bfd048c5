"""Which files are recognised, and what is said of those that are like them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


SEVERAL = [f"{CLAIM}---\n{TFJOB}", f"{TFJOB}---\n{CLAIM}"]
SEVERAL += [f"---\n# a comment\n---\n{TFJOB}---\n", f"--- # first\n{CLAIM}...\n---\n{TFJOB}"]


@pytest.mark.parametrize("text", SEVERAL)
def test_one_job_among_several_documents_is_read(text: str) -> None:
    job = loads(text, source="theirs.yaml", base=None)
    assert job.name == "a"
    line = text[: text.index("{name: a}")].count("\n") + 1
    assert job.places["name"].line == line
    other = [str(remark) for remark in job.remarks if "another document" in remark.text]
    assert len(other) == text.count("PersistentVolumeClaim")


@pytest.mark.slow
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
        ("kind: TFJob", 'kind: "a\\nb"', "theirs.yaml:2:7: kind: an object of kind a\\nb is not"),
        ("- {name: tensorflow", "- [[1]]\n            - {name: tensorflow", "expected a mapping"),
        ("image: i,", "image: i, env: [{name: a.b}],", "'a.b' is not a name that a shell"),
        ("1Gi", "9" * 400, "is not a quantity of Kubernetes"),
    ],
)
def test_odd_value_is_a_problem(old: str, new: str, expected: str) -> None:
    assert expected in "\n".join(refused(TFJOB.replace(old, new)))


def test_component_whose_name_is_not_a_label_is_a_problem() -> None:
    text = '{"name": "j", "components": [{"name": "a.b", "launch_command": "x"}]}'
    found = "\n".join(refused(text, "t.json"))
    assert "components[0].name: 'a.b' must be a valid DNS label" in found


# --- conversions ----------------------------------------------------------------------------------

GOLDEN = Path(__file__).parent / "golden"
SETS = {
    "tfjob-list-form": ["roles.tensorboard.memory=1Gi"],
    "tony-sidecar": ["image=registry.example.com/tf:2.15"],
    "tony-workers": ["image=registry.example.com/tf:2.15"],
    "yarn-8220": ["image=registry.example.com/tf:1.8"],
}
THEIRS = sorted(path for path in GOLDEN.iterdir() if ".job." not in path.name)


@pytest.mark.parametrize("path", THEIRS, ids=lambda path: path.stem)
def test_convert_gives_the_golden_which_plans_to_the_same_service(path: Path) -> None:
    sets = SETS.get(path.stem, [])
    text = eachkey.check_conversion(path.read_text("utf-8"), path.name, sets)
    assert text == (GOLDEN / f"{path.stem}.job.yaml").read_text("utf-8")
