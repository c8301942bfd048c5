"""Every invalid job spec of the table with its whole message, and input that is not text."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from submit_tf_job.errors import JobSpecError
from submit_tf_job.jobspec import Defaults, loads, read_file
from submit_tf_job.jobspec.files import Host
from tests.unit.jobspec import bad_specs

CASES = bad_specs.cases()
MAX_PROBLEMS = 200


@pytest.fixture(scope="module")
def base() -> Iterator[Path]:
    """A directory of a short name, wherever pytest keeps its own: messages cut what is long."""
    with tempfile.TemporaryDirectory(prefix="spec") as directory:
        bad_specs.make_files(Path(directory))
        yield Path(directory)


def problems(case: bad_specs.Case, base: Path) -> list[str]:
    with pytest.raises(JobSpecError) as caught:
        loads(
            case.text,
            source=case.source,
            base=base,
            overrides=case.overrides,
            name=case.name,
            defaults=Defaults(**case.defaults),
            host=Host(base, base / case.hadoop_conf if case.hadoop_conf else None),
        )
    return str(caught.value).replace(str(base), "<dir>").split("\n")


def refused(text: str | bytes, source: str = "train.yaml") -> str:
    with pytest.raises(JobSpecError) as caught:
        loads(text, source=source, base=None)
    return str(caught.value)


@pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])
def test_loads_reports_every_problem_of_a_job_spec(case: bad_specs.Case, base: Path) -> None:
    assert problems(case, base) == case.expected


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.title.startswith(("yaml", "an ", "nothing", "text"))],
    ids=lambda case: case.title,
)
def test_loads_without_libyaml_reports_the_same_lines(
    case: bad_specs.Case, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import yaml

    monkeypatch.delattr(yaml, "CSafeLoader")
    lines = [problem.split(":")[:2] for problem in problems(case, base)]
    assert lines == [problem.split(":")[:2] for problem in case.expected]


SAVE = "save the file as UTF-8"
LARGE = (
    ": larger than 1 MiB; a job spec holds no data, list files under `files` or put them on HDFS"
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"name: t\nimage: r\xe9sum\xe9\n", f":2:9: the byte 0xe9 is not UTF-8; {SAVE}"),
        (b"\xff\xfen\x00", f":1:1: UTF-16, where UTF-8 is expected; {SAVE}"),
        (b"name: t\ncommand: a\x00b\n", ":2:11: the control character U+0000; take it out"),
        (b"name: \x1b[31mt\n", ":1:7: the control character U+001B; take it out"),
        ("name: \ud800", ":1:7: the control character U+D800; take it out"),
        (b"a: b\xef\xbb\xbf", ":1:5: the control character U+FEFF; take it out"),
        (b"#" * (1024 * 1024 + 1), LARGE),
    ],
)
def test_loads_refuses_bytes_that_are_not_text(content: str | bytes, message: str) -> None:
    assert refused(content) == f"train.yaml{message}"


def test_loads_limits_the_number_of_problems() -> None:
    with pytest.raises(JobSpecError) as caught:
        loads("".join(f"key{n}: x\n" for n in range(1000)), source="train.yaml", base=None)
    assert len(caught.value.problems) == MAX_PROBLEMS + 1
    lines = caught.value.message.split("\n")
    assert lines[0] == "train.yaml: more than 200 problems; these are the first that were found"
    assert lines[-1] == f"and {MAX_PROBLEMS + 2 - len(lines)} more problems"
    assert 3000 < len(caught.value.message) <= 4000


def test_loads_limits_the_number_of_aliases() -> None:
    text = "a: &a x\nb: [" + "*a, " * 101 + "]\n"
    assert refused(text) == "train.yaml:2:405: more than 100 aliases (*); write the values out"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing.yaml", "no such file or directory"),
        ("", "is a directory; name a file in it"),
        ("no\0name", "embedded null byte"),
    ],
)
def test_load_reports_an_unreadable_file(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(JobSpecError) as caught:
        read_file(tmp_path / name)
    assert str(caught.value) == f"{tmp_path / name}: cannot be read: {why}"


def test_load_refuses_a_huge_file_without_reading_all_of_it(tmp_path: Path) -> None:
    with (tmp_path / "huge.yaml").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(JobSpecError, match="larger than 1 MiB"):
        loads(read_file(tmp_path / "huge.yaml"), source="huge.yaml", base=tmp_path)


def test_wrong_types_behind_the_last_problem_that_is_told_are_no_defect(base: Path) -> None:
    text = "env:\n" + "".join(f"  'A{number} ': x\n" for number in range(MAX_PROBLEMS + 1))
    text += "mounts: true\ninputs: 5\npython: {wheels: 5, project: true}\nlifetime: [1]\n"
    with pytest.raises(JobSpecError, match=f"more than {MAX_PROBLEMS} problems"):
        loads(text, source="train.yaml", base=base)
