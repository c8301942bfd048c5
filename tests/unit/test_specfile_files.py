"""Files that a job spec ships: read at load time, by name, bounded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from submit_tf_job.errors import JobSpecError
from submit_tf_job.job import Job, Place, ShippedFile
from submit_tf_job.specfile import loads, shipping

HEAD = "name: t\nimage: tf\ncommand: x\nstrategy: multi-worker\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    spec = tmp_path / "spec"
    for name in ("train.py", "src/a.py", "src/deep/b.py", "src/__pycache__/a.pyc", "src/.git/config", "src/.hidden", "../common.py"):
        path = spec / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    (spec / "run.sh").write_bytes(b"#!/bin/sh\n")
    (spec / "run.sh").chmod(0o755)
    (spec / "src" / "link.py").symlink_to("deep/b.py")
    (spec / "src" / "again").symlink_to("deep")
    return spec


def job(tree: Path, files: str, worker_files: str = "[]") -> Job:
    roles = f"roles: {{chief: {{memory: 1Gi}}, worker: {{memory: 1Gi, files: {worker_files}}}}}\n"
    return loads(f"{HEAD}files: {files}\n{roles}", source="train.yaml", base=tree)


def names(tree: Path, files: str) -> list[str]:
    return [file.name for file in job(tree, files).roles["chief"].files]


def refused(tree: Path, files: str) -> str:
    with pytest.raises(JobSpecError) as caught:
        job(tree, files)
    return str(caught.value)


def test_a_file_with_its_bytes_and_its_mode(tree: Path) -> None:
    assert job(tree, "[train.py, run.sh]").roles["chief"].files == (
        ShippedFile("train.py", b"train.py", executable=False),
        ShippedFile("run.sh", b"#!/bin/sh\n", executable=True),
    )


def test_a_directory_is_taken_whole_without_what_no_task_needs(tree: Path) -> None:
    assert names(tree, "[src]") == ["src/.hidden", "src/a.py", "src/again/b.py", "src/deep/b.py", "src/link.py"]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("src/deep/b.py", ["src/deep/b.py"]),
        ("./src//deep/../deep/b.py", ["src/deep/b.py"]),
        ("../common.py", ["common.py"]),
        ("{src: src/a.py, dst: a.py}", ["a.py"]),
        ("{src: src/deep, dst: lib}", ["lib/b.py"]),
        ("{src: src/deep, dst: .}", ["b.py"]),
        ("{src: src/deep, dst: ./x/../y/}", ["y/b.py"]),
        ("../spec/src/deep", ["deep/b.py"]),
    ],
)
def test_names_in_the_working_directory(tree: Path, entry: str, expected: list[str]) -> None:
    assert names(tree, f"[{entry!r}]" if not entry.startswith("{") else f"[{entry}]") == expected


def test_an_absolute_path_keeps_its_last_name(tree: Path) -> None:
    assert names(tree, f"[{tree / 'src' / 'a.py'}]") == ["a.py"]


def test_a_roles_files_add_to_the_jobs(tree: Path) -> None:
    loaded = job(tree, "[train.py]", "[src/a.py]")
    assert [file.name for file in loaded.roles["worker"].files] == ["train.py", "src/a.py"]
    assert [file.name for file in loaded.roles["chief"].files] == ["train.py"]
    assert loaded.places["roles.worker.files[0]"] == Place("train.yaml", 5, 9)
    assert loaded.places["roles.worker.files[1]"] == Place("train.yaml", 6, 61)


def test_content_is_read_once(tree: Path) -> None:
    loaded = job(tree, "[train.py]", "[{src: train.py, dst: copy.py}]")
    first, second = loaded.roles["worker"].files
    assert first.content is second.content


def test_a_directory_that_links_out_of_itself(tree: Path) -> None:
    (tree / "src" / "secret").symlink_to("/etc/passwd")
    assert "the symbolic link 'src/secret' leads out of the directory" in refused(tree, "[src]")


def test_a_file_that_is_itself_a_link(tree: Path) -> None:
    (tree / "link.py").symlink_to("../common.py")
    assert job(tree, "[link.py]").roles["chief"].files[0] == ShippedFile("link.py", b"../common.py")


def test_broken_and_circular_links(tree: Path) -> None:
    (tree / "gone").symlink_to("nowhere")
    (tree / "round").symlink_to("round")
    assert "no such file" in refused(tree, "[gone]")
    assert "files[0]: 'round'" in refused(tree, "[round]")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tree: Path) -> None:
    (tree / "train.py").chmod(0)
    assert refused(tree, "[train.py]") == "train.yaml:5:9: files[0]: 'train.py': cannot be read: Permission denied"


def test_names_that_cannot_travel(tree: Path) -> None:
    (tree / "src" / "new\nline").write_bytes(b"")
    assert "the file name 'src/new\\nline' holds characters that cannot travel; rename it" in refused(tree, "[src]")


def test_a_name_that_is_not_utf8(tree: Path) -> None:
    Path(os.fsdecode(os.fsencode(tree / "src") + b"/r\xe9sum\xe9")).write_bytes(b"")
    assert "holds characters that cannot travel" in refused(tree, "[src]")


def test_all_files_together_are_bounded(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tree / "large").open("wb") as file:
        file.truncate(40 * 1024 * 1024)
    (tree / "more").write_bytes((tree / "large").read_bytes())
    assert names(tree, "[large]") == ["large"]
    assert refused(tree, "[large, more]") == (
        "train.yaml:5:16: files[1]: 'more': with it the files come to more than 64 MiB; put large ones on HDFS and read them from there"
    )
    monkeypatch.setattr(shipping, "MAX_FILES", 2)
    assert "with it there are more than 2 files" in refused(tree, "[src]")


def test_directories_nested_too_deeply(tree: Path) -> None:
    deep = tree.joinpath(*["d"] * 60)
    deep.mkdir(parents=True)
    assert refused(tree, "[d]") == (
        "train.yaml:5:9: files[0]: 'd': its directories are nested more than 50 levels deep; pack them into one archive"
    )
