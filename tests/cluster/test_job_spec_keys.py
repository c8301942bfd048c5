"""Keys of a job spec that decide how a task starts, on a real cluster."""

from __future__ import annotations

import functools
import http.server
import ssl
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hdfs import Hdfs
from tests.tool import (
    Tool,
)

pytestmark = pytest.mark.cluster

SMALL = {"memory": "256Mi"}


def wheel(directory: Path, name: str, text: str) -> Path:
    path = directory / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr(f"{name}.py", f"WORDS = {text!r}\n")
        made.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        made.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        made.writestr(f"{info}/RECORD", "")
    return path


def lines(tool: Tool, job: str) -> list[str]:
    return tool("logs", job).stdout.splitlines()


def test_each_role_has_its_own_directory_packages_and_image(tool: Tool) -> None:
    """`workdir`, `python` of a role, `image: none` and `priority`."""
    src = tool.cwd / "src"
    src.mkdir()
    (src / "train.py").write_text(
        "import os, words; print('HERE', os.path.basename(os.getcwd()), words.WORDS)\n"
    )
    of_chief = tool.cwd / "chief"
    of_worker = tool.cwd / "worker"
    of_chief.mkdir()
    of_worker.mkdir()
    content: dict[str, Any] = {
        "image": "none",
        "strategy": "custom",
        "priority": 5,
        "command": ["python3", "train.py"],
        "files": ["src"],
        "workdir": "src",
        "python": {"wheels": [str(wheel(of_chief, "words", "of the job"))]},
        "roles": {
            "chief": SMALL,
            "worker": {
                **SMALL,
                "command": "pwd; python3 -c 'import words; print(words.WORDS)'",
                "workdir": "/",
                "python": {"wheels": [str(wheel(of_worker, "words", "of the worker"))]},
            },
        },
    }
    done = tool("submit", tool.spec("own-start", **content), "-o", "json")
    assert (done.status, done.json["state"], done.json["warnings"]) == (0, "SUCCEEDED", []), done
    assert "warning: priority 5 was not set, and own-start runs without it" in done.stderr
    printed = lines(tool, "own-start")
    assert [line for line in printed if line.endswith("HERE src of the job")] != [], printed
    assert [line for line in printed if line.endswith("of the worker")] != [], printed
    assert [line for line in printed if line.startswith("worker-0") and line.endswith(" /")] != []
    missing = {**content, "workdir": "no/such"}
    del missing["roles"]["worker"], missing["priority"]
    failed = tool("submit", tool.spec("no-workdir", **missing), "-o", "json")
    assert (failed.status, failed.json["root_cause"]["code"]) == (1, "workdir-missing"), failed


def test_a_task_outside_of_its_image_fails_with_this_cause(tool: Tool) -> None:
    """This sandbox has no Docker: its profile warns, and a job spec may still require images."""
    spec = tool.spec(
        "needs-image",
        strategy="multi-worker",
        image_policy="require",
        command="echo RAN",
        roles={"worker": {**SMALL, "instances": 2}},
    )
    refused = tool("submit", spec)
    assert refused.status == 2
    assert "image: localhost runs no images" in refused.stderr
    # where NodeManagers do not tell, the task itself finds out
    unasked = Tool({**tool.environ, "SUBMIT_TF_JOB_CAPACITY_CHECK": "off"}, tool.profile, tool.cwd)
    done = unasked("submit", spec, "-o", "json")
    cause = done.json["root_cause"]
    assert (done.status, cause["code"], cause["retryable"]) == (1, "image-ignored", False), done
    assert "did not run the image library/python:3.11" in cause["sentence"]
    assert "RAN" not in tool("logs", "needs-image").stdout


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[str, Path, Path]]:
    """A web server with https: its address, its directory and its certificate."""
    directory, pem = tmp_path / "web", tmp_path / "web.pem"
    directory.mkdir()
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(
        ["openssl", *words, *names, "-keyout", pem, "-out", tmp_path / "web.crt"],
        check=True,
        capture_output=True,
    )
    certificate = tmp_path / "web.crt"
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=directory)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, pem)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"https://localhost:{server.server_port}", directory, certificate
        server.shutdown()
        thread.join()


def test_files_of_hdfs_and_of_a_web_server_reach_the_tasks(
    tool: Tool, hdfs: Hdfs, web: tuple[str, Path, Path], tmp_path: Path
) -> None:
    address, directory, certificate = web
    (directory / "vocab.txt").write_text("from the web")
    archive = tmp_path / "set.tar.gz"
    (tmp_path / "row.csv").write_text("from an archive of HDFS")
    with tarfile.open(archive, "w:gz") as made:
        made.add(tmp_path / "row.csv", "rows/row.csv")
    here = f"/user/{hdfs.user}/given"
    hdfs.mkdirs(here, 0o700)
    hdfs.write(f"{here}/w.bin", b"from HDFS")
    hdfs.write(f"{here}/set.tar.gz", archive.read_bytes())
    content: dict[str, Any] = {
        "strategy": "single",
        "command": "cat models/w.bin; echo; cat set/rows/row.csv; echo; cat vocab.txt; echo",
        "files": [
            {"src": f"hdfs://{here}/w.bin", "dst": "models/w.bin"},
            {"src": f"hdfs://{here}/set.tar.gz", "dst": "set", "unpack": True},
            f"{address}/vocab.txt?signature=secret",
        ],
        "roles": {"worker": SMALL},
    }
    trusting = Tool({**tool.environ, "SSL_CERT_FILE": str(certificate)}, tool.profile, tool.cwd)
    spec = tool.spec("given-files", **content)
    refused = tool("validate", spec)
    assert refused.status == 2
    assert "certificate verify failed" in refused.stdout
    assert "secret" not in refused.stdout
    done = trusting("submit", spec, "-o", "json")
    assert (done.status, done.json["state"]) == (0, "SUCCEEDED"), done
    printed = lines(tool, "given-files")
    for words in ("from HDFS", "from an archive of HDFS", "from the web"):
        assert any(line.endswith(words) for line in printed), printed
    missing = {**content, "files": [f"hdfs://{here}/none", f"hdfs://{here}"]}
    said = tool("submit", tool.spec("missing-files", **missing))
    assert (said.status, said.stderr.count("missing-files.yaml:")) == (2, 2), said
    assert f"{here}/none is not there" in said.stderr
    assert f"{here} is a directory" in said.stderr
    assert tool("status", "missing-files").status == 5
