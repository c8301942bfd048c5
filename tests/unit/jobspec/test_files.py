"""Files that a job spec ships: read at load time, by name, bounded."""

from __future__ import annotations

import hashlib
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from submit_tf_job.errors import JobSpecError
from submit_tf_job.job import HostFile, Job, PackageKind, Packages, Place, ShippedFile
from submit_tf_job.specfile import digests, loads, shipping, wheels

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
    monkeypatch.setattr(shipping, "MAX_BYTES", 2 * 1024**3)
    for name in ("large", "more"):
        with (tree / name).open("wb") as file:
            file.truncate(1200 * 1024**2)
    monkeypatch.setattr(digests, "sha256_of", lambda _path: "0" * 64)  # 2 GB of nothing need not be read
    assert names(tree, "[large]") == ["large"]
    assert refused(tree, "[large, more]") == (
        "train.yaml:5:16: files[1]: 'more': with it the files come to more than 2 GiB; put large ones on HDFS and read them from there"
    )
    monkeypatch.setattr(shipping, "MAX_FILES", 2)
    assert "with it there are more than 2 files" in refused(tree, "[src]")


def test_directories_nested_too_deeply(tree: Path) -> None:
    deep = tree.joinpath(*["d"] * 60)
    deep.mkdir(parents=True)
    assert refused(tree, "[d]") == (
        "train.yaml:5:9: files[0]: 'd': its directories are nested more than 50 levels deep; pack them into one archive"
    )


# --- references, patterns, archives ---


def test_the_hash_of_many_chunks_tells_their_order_and_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "CHUNK", 1000)
    monkeypatch.setattr(digests, "PIECE", 300)
    chunks = [bytes([number]) * 1000 for number in range(6)]
    contents = [b"".join(chunks), b"".join(reversed(chunks)), b"".join(chunks) + b"x", b"".join(chunks)[:-1], chunks[0], b""]
    found = []
    for content in contents:
        (tmp_path / "file").write_bytes(content)
        found.append(digests.sha256_of(tmp_path / "file"))
    assert len(set(found)) == len(contents)
    assert found[-2:] == [hashlib.sha256(content).hexdigest() for content in contents[-2:]]
    parts = b"".join(hashlib.sha256(chunk).digest() for chunk in chunks)
    assert found[0] == hashlib.sha256(b"chunks\0" + parts).hexdigest()
    (tmp_path / "file").write_bytes(parts)
    assert digests.sha256_of(tmp_path / "file") != found[0], "no small file passes for a large one"


def test_a_large_file_is_known_by_its_hash_and_not_held(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = os.urandom(1024**2 + 1)
    (tree / "model.bin").write_bytes(content)
    os.utime(tree / "model.bin", (1, 1))
    old = loaded(tree, "[model.bin]", tmp_path).roles["chief"].files[0]
    assert old.content == HostFile(tree / "model.bin", len(content), hashlib.sha256(content).hexdigest())

    def must_not_read(_path: Path) -> str:
        raise AssertionError("it was hashed before")

    monkeypatch.setattr(digests, "sha256_of", must_not_read)
    assert loaded(tree, "[model.bin]", tmp_path).roles["chief"].files[0] == old
    monkeypatch.undo()
    (tree / "model.bin").write_bytes(content[::-1])
    os.utime(tree / "model.bin", (1, 1))  # the same size and time: its other times tell
    assert loaded(tree, "[model.bin]", tmp_path).roles["chief"].files[0].sha256 == hashlib.sha256(content[::-1]).hexdigest()
    for cache in (tmp_path / "cache" / "hashes").iterdir():
        cache.write_text('{"torn')
    assert loaded(tree, "[model.bin]", tmp_path).roles["chief"].files[0].sha256 == hashlib.sha256(content[::-1]).hexdigest()


def loaded(tree: Path, files: str, tmp_path: Path, python: str = "") -> Job:
    text = f"{HEAD}files: {files}\nroles: {{chief: {{memory: 1Gi}}, worker: {{memory: 1Gi}}}}\n{python}"
    return loads(text, source="train.yaml", base=tree, cache=tmp_path / "cache")


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ('"*.py"', ["train.py"]),
        ('"src/*.py"', ["src/a.py", "src/link.py"]),
        ('"src/**/*.py"', ["src/a.py", "src/again/b.py", "src/deep/b.py", "src/link.py"]),
        ('{src: "src/**/b.py", dst: lib}', ["lib/again/b.py", "lib/deep/b.py"]),
        ('{src: "src/d*", dst: .}', ["deep/b.py"]),
        ('"../c*.py"', ["common.py"]),
    ],
)
def test_patterns(tree: Path, entry: str, expected: list[str]) -> None:
    assert names(tree, f"[{entry}]") == expected


def test_a_file_whose_name_looks_like_a_pattern_is_itself(tree: Path) -> None:
    (tree / "a[1].py").write_bytes(b"")
    assert names(tree, '["a[1].py"]') == ["a[1].py"]
    assert "'b[1].py': the pattern matches no file" in refused(tree, '["b[1].py"]')


def a_tar(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for member in members:
            tar.addfile(member)
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def test_an_archive_is_unpacked_where_it_was_asked_for(tree: Path) -> None:
    a_tar(tree / "data.tar.gz", member("a"), member("b", tarfile.SYMTYPE, "a"))
    found = job(tree, "[{src: data.tar.gz, dst: data, unpack: true}, {src: data.tar.gz, dst: data.tgz}]").roles["chief"].files
    assert [(file.unpack, file.name.rpartition("-")[2]) for file in found] == [("data", "data.tar.gz"), ("", "data.tgz")]
    assert job(tree, "[{src: data.tar.gz, unpack: true}]").roles["chief"].files[0].unpack == "."


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (member("../evil"), "holds '../evil', which leads out of the directory"),
        (member("/etc/passwd"), "holds '/etc/passwd', which leads out of the directory"),
        (member("a/../../evil"), "leads out of the directory"),
        (member("link", tarfile.SYMTYPE, "../../etc"), "holds the link 'link' to '../../etc', which leads out"),
        (member("hard", tarfile.LNKTYPE, "../x"), "holds the link 'hard' to '../x', which leads out"),
        (member("pipe", tarfile.FIFOTYPE), "holds 'pipe', which is neither a file nor a directory nor a link"),
    ],
)
def test_archives_that_would_write_elsewhere(tree: Path, bad: tarfile.TarInfo, why: str) -> None:
    a_tar(tree / "data.tar.gz", member("fine"), bad)
    assert why in refused(tree, "[{src: data.tar.gz, dst: data, unpack: true}]")


def test_what_is_no_archive(tree: Path) -> None:
    (tree / "torn.tar.gz").write_bytes(a_tar(tree / "x.tar.gz", member("a")).read_bytes()[:40])
    (tree / "page.zip").write_bytes(b"<html>")
    with zipfile.ZipFile(tree / "up.zip", "w") as out:
        out.writestr("../evil", b"")
    assert "is no whole archive" in refused(tree, "[{src: torn.tar.gz, unpack: true}]")
    assert "is no whole archive: File is not a zip file" in refused(tree, "[{src: page.zip, unpack: true}]")
    assert "holds '../evil', which leads out" in refused(tree, "[{src: up.zip, unpack: true}]")
    assert "is no archive that can be unpacked; its name must end in one of .zip, .tar" in refused(tree, "[{src: train.py, unpack: true}]")
    assert "is a directory, and only an archive is unpacked" in refused(tree, "[{src: src, unpack: true}]")


# --- Python ---


def a_wheel(path: Path, **contents: str) -> Path:
    with zipfile.ZipFile(path, "w") as out:
        for name, text in contents.items():
            out.writestr(name.replace("__", "/"), text)
    return path


def test_wheels_in_files_are_unpacked_where_python_finds_them(tree: Path) -> None:
    a_wheel(tree / "one-1.0-py3-none-any.whl", one__="")
    found = job(tree, '[{wheels: ["*.whl"]}]').roles["chief"].files
    assert [(file.unpack, file.name.rpartition("-one-")[2]) for file in found] == [(".tfjob-packages", "1.0-py3-none-any.whl")]
    (tree / "odd.whl").write_bytes((tree / "one-1.0-py3-none-any.whl").read_bytes())
    assert "'odd.whl': is no wheel; its name must end in" in refused(tree, "[{wheels: [odd.whl]}]")
    assert "they stand alone, without src, dst and unpack" in refused(tree, "[{wheels: [odd.whl], dst: x}]")
    assert "holds neither pyproject.toml nor setup.py" in refused(tree, "[{project: src}]")


def test_wheels_of_python_become_one_archive_that_depends_on_nothing_else(tree: Path, tmp_path: Path) -> None:
    a_wheel(
        tree / "one-1.0-py3-none-any.whl", **{"one__init.py": "1", "one-1.0.data__scripts__run": "#!python", "one-1.0.data__headers__h": ""}
    )
    a_wheel(tree / "two-1.0-cp311-cp311-linux_x86_64.whl", **{"two-1.0.data__platlib__two.so": "so"})
    packages = loaded(tree, "[train.py]", tmp_path, 'python: {wheels: ["*.whl"]}\n').packages
    assert packages == Packages(PackageKind.SITE, packages.archive if packages else HostFile(Path(), 0, ""), "3.11")
    with tarfile.open(packages.archive.path) as tar:
        assert [(item.name, item.mode) for item in tar] == [("bin/run", 0o755), ("site/one/init.py", 0o644), ("site/two.so", 0o644)]
    again = loaded(tree, "[train.py]", tmp_path / "other", 'python: {wheels: ["*.whl"]}\n').packages
    assert again == packages
    with pytest.raises(JobSpecError, match=r"the wheels are for Python 3\.11, and version says 3\.9"):
        loaded(tree, "[train.py]", tmp_path, 'python: {version: "3.9", wheels: ["*.whl"]}\n')


def test_requirements_are_resolved_once_by_pip_and_refused_in_its_words(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = {
        "METADATA": "Metadata-Version: 2.1\nName: one\nVersion: 1.0\n",
        "WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n",
        "RECORD": "",
    }
    a_wheel(
        tree / "one-1.0-py3-none-any.whl", **{f"one-1.0.dist-info/{name}": text for name, text in metadata.items()}, **{"one.py": "X = 1"}
    )
    (tree / "requirements.txt").write_text(f"--no-index\n--find-links {tree}\none\n")
    packages = loaded(tree, "[train.py]", tmp_path, "python: {requirements: requirements.txt}\n").packages
    assert packages
    with tarfile.open(packages.archive.path) as tar:
        assert "site/one.py" in tar.getnames()
    with monkeypatch.context() as patched:
        patched.setattr(wheels, "_pip", None)  # pip is not asked again
        assert loaded(tree, "[train.py]", tmp_path, "python: {requirements: requirements.txt}\n").packages == packages
    (tree / "requirements.txt").write_text("--no-index\nnothing-of-the-kind==9.9\n")
    for version in (wheels.HOST_VERSION, "3.8"):
        with pytest.raises(JobSpecError) as caught:
            loaded(tree, "[train.py]", tmp_path, f'python: {{requirements: requirements.txt, version: "{version}"}}\n')
        expected = f"train.yaml:7:10: python.requirements: 'requirements.txt' does not resolve for Python {version}: pip says: "
        assert str(caught.value).startswith(expected)
        assert "No matching distribution found for nothing-of-the-kind==9.9" in str(caught.value)
    assert len(list((tmp_path / "cache" / "python").iterdir())) == 2  # what was resolved, and the bundle of it


def test_python_is_the_interpreter_or_a_mapping(tree: Path, tmp_path: Path) -> None:
    assert loaded(tree, "[train.py]", tmp_path, "python: python3.9\n").python == "python3.9"
    assert loaded(tree, "[train.py]", tmp_path, "python: {interpreter: /opt/python}\n").python == "/opt/python"
    a_tar(tree / "env.tar.gz", member("bin/python", tarfile.SYMTYPE, "/usr/bin/python3"))
    packages = loaded(tree, "[train.py]", tmp_path, "python: {environment: env.tar.gz}\n").packages
    assert packages
    assert packages.kind is PackageKind.ENVIRONMENT
    for text, why in (
        ("{environment: env.tar.gz, requirements: r.txt}", "environment is a whole Python of its own; it does not go with requirements"),
        ("{environment: train.py}", "'train.py' is no packed environment; conda-pack and venv-pack write a .tar.gz"),
        ('{version: "3.11"}', "version says what packages are for; add requirements, wheels or project"),
        ('{version: "2.7", wheels: [x.whl]}', "'2.7' is no version of Python"),
    ):
        with pytest.raises(JobSpecError) as caught:
            loaded(tree, "[train.py]", tmp_path, f"python: {text}\n")
        assert why in str(caught.value)


def test_no_file_of_this_host_for_a_stranger(tree: Path) -> None:
    for python in ("{requirements: r.txt}", "{wheels: [x.whl]}", "{project: .}", "{environment: e.tar.gz}"):
        with pytest.raises(JobSpecError, match="files of this host are not read here"):
            loads(f"{HEAD}roles: {{chief: {{memory: 1Gi}}}}\npython: {python}\n", source="x", base=None)
