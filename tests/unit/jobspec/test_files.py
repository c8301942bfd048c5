"""Files that a job spec ships: read at load time, by name, bounded."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from submit_tf_job.errors import JobSpecError
from submit_tf_job.jobspec import loads
from submit_tf_job.jobspec.files import Host
from submit_tf_job.jobspec.job import HostFile, Job, PackageKind, Packages, ShippedFile

HEAD = "name: t\nimage: tf\ncommand: x\nstrategy: multi-worker\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    spec = tmp_path / "spec"
    for name in (
        "train.py",
        "src/a.py",
        "src/deep/b.py",
        "src/__pycache__/a.pyc",
        "src/.git/config",
        "src/.hidden",
        "../common.py",
    ):
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


def test_files_keeps_bytes_and_mode_of_a_file(tree: Path) -> None:
    assert job(tree, "[train.py, run.sh]").roles["chief"].files == (
        ShippedFile("train.py", b"train.py", executable=False),
        ShippedFile("run.sh", b"#!/bin/sh\n", executable=True),
    )


def test_files_takes_a_directory_without_git_and_pycache(tree: Path) -> None:
    assert names(tree, "[src]") == [
        "src/.hidden",
        "src/a.py",
        "src/again/b.py",
        "src/deep/b.py",
        "src/link.py",
    ]


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
def test_files_names_in_the_working_directory(tree: Path, entry: str, expected: list[str]) -> None:
    assert names(tree, f"[{entry!r}]" if not entry.startswith("{") else f"[{entry}]") == expected


def test_files_of_a_role_are_added_to_the_jobs(tree: Path) -> None:
    loaded = job(tree, "[train.py]", "[src/a.py]")
    assert [file.name for file in loaded.roles["worker"].files] == ["train.py", "src/a.py"]
    assert [file.name for file in loaded.roles["chief"].files] == ["train.py"]
    assert str(loaded.places["roles.worker.files[0]"]) == "train.yaml:5:9"
    assert str(loaded.places["roles.worker.files[1]"]) == "train.yaml:6:61"


def test_files_refuses_a_directory_with_a_link_out_of_it(tree: Path) -> None:
    (tree / "src" / "secret").symlink_to("/etc/passwd")
    assert "the symbolic link 'src/secret' leads out of the directory" in refused(tree, "[src]")


def test_files_refuses_names_with_control_characters(tree: Path) -> None:
    for number, (name, shown) in enumerate(((b"new\nline", "new\\nline"), (b"r\xe9sum\xe9", ""))):
        (tree / str(number)).mkdir()
        Path(os.fsdecode(os.fsencode(tree / str(number)) + b"/" + name)).write_bytes(b"")
        told = refused(tree, f"['{number}']")
        assert f"the file name '{number}/{shown}" in told
        assert "holds characters that cannot travel; rename it, or name it in exclude" in told


def test_files_names_each_secret_of_a_directory(tree: Path) -> None:
    for name in (".env", "id_rsa"):
        (tree / "src" / name).write_text("")
    text = "name: t\nimage: i\ncommand: c\nstrategy: single\nroles: {worker: {memory: 1Gi}}\n"
    job = loads(f"{text}files: [src]\n", source="job.yaml", base=tree)
    [remark] = [remark.sentence for remark in job.remarks if remark.level == "warning"]
    assert remark.endswith(
        "look like secrets, and are sent; leave them out by exclude: [.env, id_rsa]"
    )


def test_files_limits_the_total_size(tree: Path) -> None:
    with (tree / "large").open("wb") as file:
        file.truncate(20 * 1024**3)  # it holds nothing, and is not read
    assert refused(tree, "[train.py, large]") == (
        "train.yaml:5:19: files[1]: 'large': with it the files come to more than 20 GiB; "
        "put large ones on HDFS and read them from there"
    )


def test_files_limits_the_depth_of_directories(tree: Path) -> None:
    deep = tree.joinpath(*["d"] * 60)
    deep.mkdir(parents=True)
    assert refused(tree, "[d]") == (
        "train.yaml:5:9: files[0]: 'd': its directories are nested more than 50 levels "
        "deep; pack them into one archive"
    )


# --- references, patterns, archives ---


def test_files_hashes_a_large_file_once_without_keeping_it(tree: Path, tmp_path: Path) -> None:
    def found() -> HostFile:
        [file] = loaded(tree, "[model.bin]", tmp_path).roles["chief"].files
        assert isinstance(file.content, HostFile)
        return file.content

    content = os.urandom(1024**2 + 1)
    for written in (content, content[::-1]):
        (tree / "model.bin").write_bytes(written)
        os.utime(tree / "model.bin", (1, 1))  # same size and mtime; ctime differs
        digest = hashlib.sha256(written).hexdigest()
        assert found() == HostFile(tree / "model.bin", len(content), digest)
    [cache] = (tmp_path / "cache/hashes").iterdir()
    cache.write_text(cache.read_text().replace(digest, "0" * 64))
    assert found().sha256 == "0" * 64, "it is not read again"
    cache.write_text('{"torn')
    assert found().sha256 == digest


def loaded(tree: Path, files: str, tmp_path: Path, python: str = "") -> Job:
    text = (
        f"{HEAD}files: {files}\nroles: {{chief: {{memory: 1Gi}}, worker: {{memory: "
        f"1Gi}}}}\n{python}"
    )
    return loads(text, source="train.yaml", base=tree, host=Host(tree, cache=tmp_path / "cache"))


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
def test_files_expands_patterns(tree: Path, entry: str, expected: list[str]) -> None:
    assert names(tree, f"[{entry}]") == expected


def test_files_takes_an_existing_path_with_pattern_characters(tree: Path) -> None:
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


def test_files_unpacks_an_archive_at_dst(tree: Path) -> None:
    a_tar(tree / "data.tar.gz", member("a"), member("b", tarfile.SYMTYPE, "a"))
    found = (
        job(tree, "[{src: data.tar.gz, dst: data, unpack: true}, {src: data.tar.gz, dst: d.tgz}]")
        .roles["chief"]
        .files
    )
    assert [(file.unpack, file.name.rpartition("-")[2]) for file in found] == [
        ("data", "data.tar.gz"),
        ("", "d.tgz"),
    ]
    assert job(tree, "[{src: data.tar.gz, unpack: true}]").roles["chief"].files[0].unpack == "."


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (member("../evil"), "holds '../evil', which leads out of the directory"),
        (member("/etc/passwd"), "holds '/etc/passwd', which leads out of the directory"),
        (member("a/../../evil"), "leads out of the directory"),
        (
            member("link", tarfile.SYMTYPE, "../../etc"),
            "holds the link 'link' to '../../etc', which leads out",
        ),
        (
            member("hard", tarfile.LNKTYPE, "../x"),
            "holds the link 'hard' to '../x', which leads out",
        ),
        (
            member("pipe", tarfile.FIFOTYPE),
            "holds 'pipe', which is neither a file nor a directory nor a link",
        ),
    ],
)
def test_files_refuses_members_outside(tree: Path, bad: tarfile.TarInfo, why: str) -> None:
    a_tar(tree / "data.tar.gz", member("fine"), bad)
    assert why in refused(tree, "[{src: data.tar.gz, dst: data, unpack: true}]")


def test_files_refuses_to_unpack_other_files(tree: Path) -> None:
    (tree / "torn.tar.gz").write_bytes(a_tar(tree / "x.tar.gz", member("a")).read_bytes()[:40])
    (tree / "page.zip").write_bytes(b"<html>")
    with zipfile.ZipFile(tree / "up.zip", "w") as out:
        out.writestr("../evil", b"")
    assert "is not a complete archive" in refused(tree, "[{src: torn.tar.gz, unpack: true}]")
    assert "is not a complete archive: File is not a zip file" in refused(
        tree, "[{src: page.zip, unpack: true}]"
    )
    assert "holds '../evil', which leads out" in refused(tree, "[{src: up.zip, unpack: true}]")


# --- Python ---


def a_wheel(path: Path, **contents: str) -> Path:
    with zipfile.ZipFile(path, "w") as out:
        for name, text in contents.items():
            out.writestr(name.replace("__", "/"), text)
    return path


def test_files_unpacks_wheels_to_the_site_directory(tree: Path) -> None:
    a_wheel(tree / "one-1.0-py3-none-any.whl", one__="")
    found = job(tree, '[{wheels: ["*.whl"]}]').roles["chief"].files
    assert [(file.unpack, file.name.rpartition("-one-")[2]) for file in found] == [
        (".tfjob-packages", "1.0-py3-none-any.whl")
    ]


def test_python_bundles_wheels_into_one_reproducible_archive(tree: Path, tmp_path: Path) -> None:
    a_wheel(
        tree / "one-1.0-py3-none-any.whl",
        **{
            "one__init.py": "1",
            "one-1.0.data__scripts__run": "#!python",
            "one-1.0.data__headers__h": "",
        },
    )
    a_wheel(tree / "two-1.0-cp311-cp311-linux_i686.whl", **{"two-1.0.data__platlib__two.so": "so"})
    packages = loaded(tree, "[train.py]", tmp_path, 'python: {wheels: ["*.whl"]}\n').packages
    assert packages == Packages(
        PackageKind.SITE, packages.archive if packages else HostFile(Path(), 0, ""), "3.11"
    )
    with tarfile.open(packages.archive.path) as tar:
        assert [(item.name, item.mode) for item in tar] == [
            ("bin/run", 0o755),
            ("site/one/init.py", 0o644),
            ("site/two.so", 0o644),
        ]
    again = loaded(tree, "[train.py]", tmp_path / "other", 'python: {wheels: ["*.whl"]}\n').packages
    assert again == packages
    with pytest.raises(JobSpecError, match=r"wheels are for Python 3\.11, and version says 3\.9"):
        loaded(tree, "[train.py]", tmp_path, 'python: {version: "3.9", wheels: ["*.whl"]}\n')


@pytest.mark.slow
def test_python_resolves_requirements_once_with_pips_errors(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def packages(version: str = "") -> Packages | None:
        asked = f"python: {{requirements: requirements.txt{version}}}\n"
        return loaded(tree, "[train.py]", tmp_path, asked).packages

    wheel = tree / "one-1.0-py3-none-any.whl"
    about = {"METADATA": "Metadata-Version: 2.1\nName: one\nVersion: 1.0\n", "RECORD": ""}
    about["WHEEL"] = "Wheel-Version: 1.0\nTag: py3-none-any\n"
    members = {f"one-1.0.dist-info/{name}": text for name, text in about.items()}
    a_wheel(wheel, **members, **{"one.py": "X = 1"})
    (tree / "requirements.txt").write_text(f"--no-index\n--find-links {tree}\none\n")
    found = packages()
    assert found
    with tarfile.open(found.archive.path) as tar:
        assert "site/one.py" in tar.getnames()
    monkeypatch.setenv("PIP_REQUIRE_HASHES", "1")  # pip does not run again
    assert packages() == found
    monkeypatch.delenv("PIP_REQUIRE_HASHES")
    (tree / "requirements.txt").write_text("--no-index\nnothing-of-the-kind==9.9\n")
    here = "{}.{}".format(*sys.version_info)
    for asked, version in (("", here), (', version: "3.8"', "3.8")):
        with pytest.raises(JobSpecError) as caught:
            packages(asked)
        expected = (
            f"train.yaml:7:10: python.requirements: 'requirements.txt' does not resolve for "
            f"Python {version}: pip says: "
        )
        assert str(caught.value).startswith(expected)
        assert "No matching distribution found for nothing-of-the-kind==9.9" in str(caught.value)
    # the wheels, and their bundle
    assert len(list((tmp_path / "cache" / "python").iterdir())) == 2


def test_files_takes_uploads_only(tmp_path: Path) -> None:
    names = ("train.py", "src/a.py", "src/deep/b.py", "conf/c.yaml")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    listed = "[train.py, src, 'conf/*.yaml', {src: conf/c.yaml, dst: d.yaml}]"
    text = (
        f"name: t\nimage: i\ncommand: c\nstrategy: single\nroles: {{worker: {{memory: "
        f"1Gi}}}}\nfiles: {listed}\n"
    )
    local = loads(text, source="job.yaml", base=tmp_path)
    uploaded = loads(text, source="job.yaml", base=None, host=Host(uploads=tmp_path))
    assert uploaded == local
    with pytest.raises(JobSpecError, match=r"'train\.py' did not come with the request"):
        loads(text, source="job.yaml", base=None, host=Host(uploads=tmp_path / "src"))
    for path in ("../train.py", "src/../train.py", "../*.py", f"{tmp_path}/train.py"):
        one = text.replace(listed, f"['{path}']")
        with pytest.raises(JobSpecError, match=r"filename here: a relative path without '\.\.'"):
            loads(one, source="job.yaml", base=None, host=Host(uploads=tmp_path / "src"))


# --- files of HDFS and of web servers ---


def test_files_of_hdfs_are_not_read_here(tree: Path) -> None:
    found = job(
        tree,
        "['hdfs:///models/w.bin', {src: 'hdfs://nn:8020/data/x.tar.gz', dst: data, unpack: true}]",
        "[train.py, {src: 'viewfs:///m/v.bin', dst: sub/v.bin}]",
    )
    remote = found.roles["chief"].remote_files
    assert [(file.name, file.uri, file.unpack) for file in remote] == [
        ("w.bin", "hdfs:///models/w.bin", False),
        ("data", "hdfs://nn:8020/data/x.tar.gz", True),
    ]
    worker = found.roles["worker"]
    assert [file.name for file in worker.remote_files] == ["w.bin", "data", "sub/v.bin"]
    assert [file.name for file in worker.files] == ["train.py"]
    assert [file.at for file in worker.remote_files] == [
        "files[0]",
        "files[1]",
        "roles.worker.files[1]",
    ]


def test_files_of_a_web_server_are_refused_in_a_gateway(tmp_path: Path) -> None:
    with pytest.raises(JobSpecError, match="a gateway downloads nothing"):
        loads(
            f"{HEAD}files: ['https://169.254.169.254/x']\nroles: {{worker: {{memory: 1Gi}}}}\n",
            source="train.yaml",
            base=None,
            host=Host(uploads=tmp_path),
        )


# --- sent code is the code that lies there ---

# A build backend without requirements: it packs the packages below `src`, and leaves a trace.
BACKEND = """
import os, pathlib, subprocess, zipfile
def build_wheel(directory, settings=None, metadata=None):
    pathlib.Path("build").mkdir(exist_ok=True)
    VERSION
    name = "mylib-%s-py3-none-any.whl" % version
    info = "mylib-%s.dist-info/" % version
    with zipfile.ZipFile(os.path.join(directory, name), "w") as out:
        for path in sorted(pathlib.Path("src").rglob("*.py")):
            out.write(path, path.relative_to("src"))
        meta = "Metadata-Version: 2.1\\nName: mylib\\nVersion: %s\\nNEEDS" % version
        out.writestr(info + "METADATA", meta)
        out.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        out.writestr(info + "RECORD", "")
    return name
"""
PROJECT = """
[project]
name = "mylib"
dynamic = ["version"]
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""


def a_project(path: Path, text: str, *, version: str = "version = '1'", needs: str = "") -> Path:
    package = path / "src" / "mylib"
    (package / "dist").mkdir(parents=True, exist_ok=True)
    backend = BACKEND.replace("VERSION", version).replace("NEEDS", needs)
    contents = {"pyproject.toml": PROJECT, "backend.py": backend}
    for name, content in {**contents, "src/mylib/dist/__init__.py": text}.items():
        (path / name).write_text(content)
    return path


def sent_module(tree: Path, tmp_path: Path, python: str) -> str:
    found = loaded(tree, "[train.py]", tmp_path, f"python: {python}\n").packages
    assert found
    with tarfile.open(found.archive.path) as tar:
        member = tar.extractfile("site/mylib/dist/__init__.py")
        assert member
        return member.read().decode()


@pytest.mark.slow
def test_python_sends_the_code_of_a_path_as_it_is_now(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "deep").mkdir()
    (tree / "deep" / "r.txt").write_text("--no-index\n-e ./mylib  # ours\n")
    url = f"mylib @ file://{tree}/mylib ; python_version > '3'"
    (tree / "url.txt").write_text(f"--no-index\n{url}\n")
    monkeypatch.chdir(tmp_path)  # every path starts from the job spec
    monkeypatch.delenv("PYTHONPATH", raising=False)  # it may name the working directory
    for name in ("pip", "runpy", "queue", "logging"):  # none of which is for this host
        for place in (tree, tmp_path):
            (place / f"{name}.py").write_text(f"open({str(tree / 'imported')!r}, 'w')")
    for code in ("V = 'one'", "V = 'two'"):
        a_project(tree / "mylib", code)
        for python in ("project: mylib", "requirements: deep/r.txt", "requirements: url.txt"):
            assert sent_module(tree, tmp_path, f"{{{python}}}") == code
    assert not (tree / "imported").exists()
    left = sorted(path.name for path in (tree / "mylib").iterdir())
    assert left == ["backend.py", "pyproject.toml", "src"]


@pytest.mark.slow
def test_python_sends_a_wheel_of_a_path_as_it_is_now(tree: Path, tmp_path: Path) -> None:
    about = {"METADATA": "Metadata-Version: 2.1\nName: mylib\nVersion: 1\n", "RECORD": ""}
    about["WHEEL"] = "Wheel-Version: 1.0\nTag: py3-none-any\n"
    members = {f"mylib-1.dist-info/{name}": text for name, text in about.items()}
    (tree / "wheels").mkdir()
    for line in ("wheels/mylib-1-py3-none-any.whl", "-f wheels\nmylib"):
        (tree / "requirements.txt").write_text(f"--no-index\n{line}\n")
        for code in ("one", "three"):
            wheel = a_wheel(tree / "wheels" / "mylib-1-py3-none-any.whl", **members)
            with zipfile.ZipFile(wheel, "a") as out:
                out.writestr("mylib/dist/__init__.py", code)
            assert sent_module(tree, tmp_path, "{requirements: requirements.txt}") == code


@pytest.mark.slow
def test_python_gives_a_project_its_version_from_git(tree: Path, tmp_path: Path) -> None:
    described = "['git', 'describe', '--tags', '--dirty', '--match', '*']"
    version = f"version = subprocess.check_output({described}, text=True).strip()"
    project = a_project(tree / "repo" / "mylib", "V = 1", version=version)
    (tree / "repo" / "README").write_text("beside it")
    (project / "build").mkdir()
    (project / "build" / "kept").write_text("tracked, and no source")
    user = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (("init", "-q"), ("add", "-fA"), ("commit", "-qm", "first"), ("tag", "4.2")):
        subprocess.run(["git", *user, *words], cwd=tree / "repo", check=True)
    (project / "pyproject.toml").write_text(f"{PROJECT}# versioned by git\n")
    for words in (("commit", "-qam", "second"), ("tag", "4.3")):
        subprocess.run(["git", *user, *words], cwd=tree / "repo", check=True)
    loaded(tree, "[train.py]", tmp_path, "python: {project: repo/mylib}\n")
    built = [path.name for path in (tmp_path / "cache").rglob("*.whl")]
    assert built == ["mylib-4.3-py3-none-any.whl"]


def test_python_reports_a_cache_that_cannot_be_written(tree: Path, tmp_path: Path) -> None:
    a_project(tree / "mylib", "V = 1")
    a_wheel(tree / "other-1-py3-none-any.whl")
    (tree / "requirements.txt").write_text("--no-index\n./other-1-py3-none-any.whl\n")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "python").write_text("")
    for python, why in {
        "project: mylib": "mylib': its wheel cannot be built: ",
        "wheels: [other-1-py3-none-any.whl]": "python: the packages cannot be put together: ",
        "requirements: requirements.txt": "requirements.txt' does not resolve for Python .*: ",
    }.items():
        with pytest.raises(JobSpecError, match=f"{why}{tmp_path}/cache/python.*: "):
            loaded(tree, "[train.py]", tmp_path, f"python: {{{python}}}\n")


@pytest.mark.slow
def test_python_says_what_a_build_has_printed(tree: Path, tmp_path: Path) -> None:
    a_project(tree / "mylib", "", version="raise RuntimeError('set CUDA_HOME to build this')")
    (tree / "requirements.txt").write_text("./mylib\n")
    for python in ("{project: mylib}", "{requirements: requirements.txt}"):
        with pytest.raises(JobSpecError, match=r"mylib.*RuntimeError: set CUDA_HOME to build this"):
            loaded(tree, "[train.py]", tmp_path, f"python: {python}\n")
    a_project(tree / "mylib", "", needs="Requires-Dist: other @ file:///home/me/other\\n")
    with pytest.raises(JobSpecError, match=r"mylib requires other @ file:///home/me/other: name"):
        loaded(tree, "[train.py]", tmp_path, "python: {requirements: requirements.txt}\n")


@pytest.mark.slow
def test_python_refuses_a_package_that_only_uv_would_find(tree: Path, tmp_path: Path) -> None:
    """pip would take whatever has that name on its index."""
    app = a_project(tree / "mylib", "V = 1", needs="Requires-Dist: My_Shared.lib>=1\\n")
    with (app / "pyproject.toml").open("a") as file:
        file.write(
            "[tool.uv.sources]\nunused = { path = '../u' }\nmy-shared-lib = {workspace = true}\n"
        )
    (tree / "requirements.txt").write_text("--no-index\n-e ./mylib\n")
    why = r"\./mylib takes my-shared-lib from the place in its tool\.uv\.sources"
    with pytest.raises(JobSpecError, match=why):
        loaded(tree, "[train.py]", tmp_path, "python: {requirements: requirements.txt}\n")
    about = {"METADATA": "Metadata-Version: 2.1\nName: my-shared-lib\nVersion: 1\n", "RECORD": ""}
    about["WHEEL"] = "Wheel-Version: 1.0\nTag: py3-none-any\n"
    members = {f"my_shared_lib-1.dist-info/{name}": text for name, text in about.items()}
    a_wheel(tree / "my_shared_lib-1-py3-none-any.whl", **members)
    (tree / "requirements.txt").write_text(
        "--no-index\n-e ./mylib\n./my_shared_lib-1-py3-none-any.whl\n"
    )
    assert sent_module(tree, tmp_path, "{requirements: requirements.txt}") == "V = 1"


# --- a directory can be sent ---


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a directory as programmers have it."""
    listed = (
        "a.py .env data/big.csv data/keep.csv logs/a.log pkg/dist/x.py pkg/run.log my/pyvenv.cfg "
        "my/bin/activate .venv/pyvenv.cfg .git/HEAD pkg/.mypy_cache/x pkg/__pycache__/x.pyc "
        "node_modules/x.js pkg/deep/data/y.csv"
    )
    contents = dict.fromkeys(listed.split(), "")
    contents[".gitignore"] = "# ours\nlogs/\n*.log\n!/pkg/run.log\n"
    contents["pkg/.gitignore"] = "/deep\n"
    for name, text in contents.items():
        (tmp_path / "c" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "c" / name).write_text(text)
    return tmp_path / "c"


SENT = ".env .gitignore a.py data/big.csv data/keep.csv logs/a.log pkg/.gitignore"
REST = f"{SENT} pkg/deep/data/y.csv pkg/dist/x.py pkg/run.log"
NO_DATA = ".env .gitignore a.py logs/a.log pkg/.gitignore pkg/dist/x.py pkg/run.log"
NOT_SENT = "note: files[0]: not sent of .: "
ENV = "files[0]: .env looks like a secret, and is sent; leave it out by exclude: [.env]"


@pytest.mark.parametrize(
    ("entry", "sent", "told"),
    [
        ("{src: ., dst: .}", REST, [".git, .venv, my, node_modules, pkg/.mypy_cache", "logs, pkg/deep", ENV]),
        ("{src: ., exclude: [data]}", NO_DATA, ["data, my, node_modules, and 2 more", "logs", ENV]),
        ("{src: ., exclude: [/data, '*.log']}", "pkg/deep/data/y.csv !logs", ["not sent of"]),
        ("{src: ., exclude: ['data/*', '!keep.csv', logs/]}", "data/keep.csv !data/big.csv", ["not"]),
        ("{src: ., exclude: ['pkg/**/*.csv', .env]}", "!pkg/deep !.env data/big.csv", ["not sent"]),
        ("{src: ., exclude: ['!my']}", "my/bin/activate", [ENV]),
        ("{src: ., gitignore: true}", "data/big.csv pkg/run.log !logs !pkg/deep", ["logs", ENV]),
        ("'*'", "a.py data/big.csv pkg/dist/x.py !my !node_modules", ["not sent of *: my"]),
        ("'**/*.py'", "a.py pkg/dist/x.py", []),
        ("{src: '**/*', dst: ., exclude: [data]}", "a.py !data !my", ["not sent"]),
    ],
)  # fmt: skip
def test_files_of_a_directory_are_sent_without_what_is_left_out(
    checkout: Path, tmp_path: Path, entry: str, sent: str, told: list[str]
) -> None:
    text = (
        f"name: t\nimage: i\ncommand: c\nstrategy: single\nroles: {{worker: {{memory: 1Gi}}}}\n"
        f"files: [{entry}]\n"
    )
    local = loads(text, source="job.yaml", base=checkout)
    uploaded = loads(text, source="job.yaml", base=None, host=Host(uploads=checkout))
    assert uploaded == local
    names = [file.name for file in local.roles["worker"].files]
    for name in sent.split():
        assert any(found.startswith(name.lstrip("!")) for found in names) != name.startswith("!")
    if sent in (REST, NO_DATA):
        assert " ".join(names) == sent
    remarks = "\n".join(f"{remark.level}: {remark.sentence}" for remark in local.remarks)
    assert all(text in remarks for text in told), remarks
    assert bool(remarks) == bool(told)
    assert sorted(map(str, uploaded.remarks)) == sorted(map(str, local.remarks))


@pytest.mark.parametrize(
    "entry", ["{src: a.py, exclude: [x]}", "{src: 'hdfs:///a', gitignore: true}"]
)
def test_files_refuses_exclude_of_no_directory(checkout: Path, entry: str) -> None:
    assert "exclude" in refused(checkout, f"[{entry}]")


def test_files_of_a_directory_may_hold_links_that_exclude_names(checkout: Path) -> None:
    (checkout / "pkg" / "out").symlink_to("/etc")
    assert "or name it in exclude" in refused(checkout, "[pkg]")
    assert "pkg/dist/x.py" in names(checkout, "[{src: pkg, exclude: [out]}]")
