"""Keys of a job spec that decide how a task starts, on a real cluster."""

from __future__ import annotations

import functools
import http.server
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hdfs import Hdfs
from tests.hostile.server import Authority
from tests.tool import Tool

pytestmark = pytest.mark.cluster

SMALL = {"memory": "256Mi"}


def lines(tool: Tool, job: str) -> list[str]:
    return tool("logs", job).stdout.splitlines()


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[str, Path, Path]]:
    """A web server with https: its address, its directory and its certificate."""
    directory, authority = tmp_path / "web", Authority.make(tmp_path, "web-ca")
    directory.mkdir()
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=directory)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        context = authority.server("web", "localhost")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"https://localhost:{server.server_port}", directory, authority.certificate
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
