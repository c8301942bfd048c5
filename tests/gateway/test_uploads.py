"""Files that come with a job spec: through a real server to the disk, and away from it."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gateway.conftest import JOB, TOKEN, Process, until

MIB = 1024**2


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "uploads"
    made.mkdir()
    return made


@pytest.fixture
def gateway(tmp_path: Path, directory: Path, options: list[str]) -> Iterator[Process]:
    """A gateway that takes 64 MiB of files."""
    limits = {"S": str(directory), "_SIZE": "64Mi", "_FILES": "20", "_TIME": "100s"}
    environ = {f"SUBMIT_TF_JOB_GATEWAY_UPLOAD{name}": value for name, value in limits.items()}
    environ["SUBMIT_TF_JOB_STAGING"] = f"file://{tmp_path}/staging"
    made = Process(tmp_path, *options, environ=environ)
    yield made
    made.end()


def job(name: str, **more: Any) -> tuple[str, tuple[str, bytes, str]]:
    content = yaml.safe_dump({**JOB, "name": name, **more}).encode()
    return "job", ("train.yaml", content, "application/octet-stream")


def file(name: str, content: bytes) -> tuple[str, tuple[str, bytes]]:
    return "files", (name, content)


def left(directory: Path) -> list[Path]:
    own = "submit_tf_job-uploads-"
    return [path for path in directory.rglob("*") if not path.name.startswith(own)]


def post(gateway: Process, *parts: Any, key: str = "") -> tuple[int, dict[str, Any]]:
    headers = {"Idempotency-Key": key} if key else {}
    answer = gateway.ask("POST", "/v1/jobs", files=list(parts), headers=headers)
    return answer.status_code, answer.json()


def test_job_comes_with_its_files(gateway: Process, directory: Path) -> None:
    wanted = {"files": ["train.py", "src", "conf/*.yaml", {"src": "a/b.txt", "dst": "c.txt"}]}
    sent = [
        file("train.py", b"print('hello from an upload')"),
        file("src/model.py", b"import os"),
        file("conf/a.yaml", b"a: 1"),
        file("a/b.txt", b"text"),
    ]
    status, first = post(gateway, job("uploaded", **wanted), *sent, key="run-1")
    assert status == 201, first
    assert left(directory) == []

    status, again = post(gateway, *reversed(sent), job("uploaded", **wanted), key="run-1")
    assert (status, again) == (200, {**first, "adopted": True}), "parts have no order"
    # what it was is told by its ApplicationMaster
    until(lambda: gateway.ask("GET", "/v1/jobs/uploaded").json()["yarn"]["state"] == "RUNNING")
    changed = [file("train.py", b"print('other')"), *sent[1:]]
    status, other = post(gateway, job("uploaded", **wanted), *changed, key="run-1")
    assert (status, other.get("code")) == (422, "key-reused"), other
    assert left(directory) == []


OUTSIDE = """/etc/passwd ../../callers src/../../../callers ../* [.][.]/* **/../../* /etc/host*
missing.py *.txt"""


@pytest.mark.parametrize(
    "wanted",
    [
        *([one] for one in OUTSIDE.split()),
        [{"src": "/etc/passwd", "dst": "a"}],
        *([{"project": one}] for one in ("src", "/usr")),
        [{"wheels": ["/usr/*.whl"]}],
    ],
    ids=str,
)
def test_job_spec_names_nothing_but_what_came_with_it(
    gateway: Process, directory: Path, wanted: list[Any]
) -> None:
    sent = file("src/pyproject.toml", b""), file("train.py", b"")
    status, answer = post(gateway, job("outside", files=wanted), *sent)
    assert (status, answer["code"]) == (422, "job-spec"), answer
    assert str(directory) not in str(answer), "where the gateway keeps files is not told"
    assert left(directory) == []


@pytest.mark.parametrize(
    "more",
    [
        {"kerberos": {"principal": "a/_HOST@R", "keytab": "train.py"}},
        {"kerberos": {"principal": "a/_HOST@R", "keytab": "hdfs:///k", "krb5_conf": "inline"}},
        {"python": {"requirements": "train.py"}},
    ],
    ids=str,
)
def test_upload_is_neither_a_keytab_nor_installed(gateway: Process, more: dict[str, Any]) -> None:
    status, answer = post(gateway, job("other", **more), file("train.py", b""))
    assert (status, answer["code"]) == (422, "job-spec"), answer


WRONG_NAMES = ["/etc/x", "../x", "a/../x", "a//b", "./x", "a/.", "", "a\tb"]
WRONG_NAMES += ["x" * 256, "a/" * 60 + "b", "é" * 600]


@pytest.mark.parametrize("name", WRONG_NAMES, ids=lambda name: name[:10])
def test_file_name_stays_below_its_directory(gateway: Process, directory: Path, name: str) -> None:
    disposition = f'form-data; name="files"; filename="{name}"'
    body = f"--x\r\nContent-Disposition: {disposition}\r\n\r\nhello\r\n--x--\r\n".encode()
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = gateway.ask("POST", "/v1/jobs", data=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "usage"), answer.text
    assert left(directory) == []


JOB_PART = b'Content-Disposition: form-data; name="job"\r\n\r\nname: x'
FILE_PART = b'Content-Disposition: form-data; name="files"; filename="a"\r\n\r\nx'


def form(*parts: bytes) -> bytes:
    return b"".join(b"--x\r\n" + part + b"\r\n" for part in parts) + b"--x--\r\n"


@pytest.mark.parametrize(
    ("boundary", "body"),
    [
        ("", b""),
        ("boundary=" + "x" * 300, b"--x--\r\n"),
        *(
            ("boundary=x", body)
            for body in (
                *(b"", b"--y--\r\n", form(), b"--x\r\n" + JOB_PART),
                *(form(FILE_PART), form(JOB_PART, JOB_PART), form(FILE_PART, FILE_PART)),
                form(b'Content-Disposition: form-data; name="other"\r\n\r\nx'),
                form(b"Content-Disposition: form-data\r\n\r\nx"),
                form(b"X: " + b"y" * 100_000 + b"\r\n\r\nx"),
            )
        ),
    ],
    ids=range(12),
)
def test_body_that_is_not_a_form_is_refused(
    gateway: Process, directory: Path, boundary: str, body: bytes
) -> None:
    typed = {"Content-Type": f"multipart/form-data; {boundary}"}
    answer = gateway.ask("POST", "/v1/jobs", data=body, headers=typed)
    assert (answer.status_code, answer.json()["code"]) == (400, "usage"), answer.text
    assert left(directory) == []
    until(gateway.entries, "the request is logged")
    assert {entry["event"] for entry in gateway.entries()} == {"request"}, "nothing else"


def test_upload_has_limits(gateway: Process, directory: Path) -> None:
    too_many = [file(f"f{number}", b"") for number in range(21)]
    assert post(gateway, job("many"), *too_many)[1]["code"] == "too-large"
    large = job("large", description="x" * MIB)
    assert post(gateway, large, file("a", b""))[1]["code"] == "too-large"
    head = _head(66 * MIB)
    assert b" 413 " in _send(gateway, [head]), "its length is refused before the body"
    chunks = [b"10000\r\n" + b"x" * 65536 + b"\r\n"] * 1100
    chunked = _head(None) + b"%x\r\n%b\r\n" % (len(FILE), FILE)
    assert b" 413 " in _send(gateway, [chunked, *chunks])
    until(lambda: left(directory) == [], "everything is removed")


def test_slow_upload_is_refused(tmp_path: Path, directory: Path, options: list[str]) -> None:
    uploads = "SUBMIT_TF_JOB_GATEWAY_UPLOAD"
    environ = {f"{uploads}S": str(directory), f"{uploads}_TIME": "1s"}
    gateway = Process(tmp_path, *options, environ=environ)
    try:
        assert b" 408 " in _send(gateway, [_head(MIB), FILE])
        until(lambda: left(directory) == [], "everything is removed")
    finally:
        gateway.end()


FILE = b'--x\r\nContent-Disposition: form-data; name="files"; filename="big"\r\n\r\n'


def _head(length: int | None) -> bytes:
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    lines = ["POST /v1/jobs HTTP/1.1", "Host: g", f"Authorization: Bearer {TOKEN}", framing]
    return "\r\n".join([*lines, "Content-Type: multipart/form-data; boundary=x", "", ""]).encode()


def _send(gateway: Process, pieces: list[bytes]) -> bytes:
    """Send pieces and return the beginning of the answer."""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=600) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
        except OSError:
            pass  # the server has answered and closed
        return connection.recv(4096)


def test_upload_uses_bounded_memory_and_leaves_nothing(gateway: Process, directory: Path) -> None:
    post(gateway, job("warm", files=["a"]), file("a", b""))
    before = gateway.memory("VmHWM")
    status, answer = post(gateway, job("large", files=["missing"]), file("big", bytes(60 * MIB)))
    assert (status, answer["code"]) == (422, "job-spec")
    assert gateway.memory("VmHWM") - before < 24 * MIB, "60 MiB are not held in memory"
    assert left(directory) == []


def test_uploads_of_one_caller_at_once_are_bounded(gateway: Process, directory: Path) -> None:
    open_ = [socket.create_connection(("127.0.0.1", gateway.port), timeout=600) for _ in range(2)]
    for connection in open_:
        connection.sendall(_head(MIB) + FILE)
    until(lambda: len(list(directory.glob("*/*"))) == 2, "both have begun")
    assert post(gateway, job("third"), file("a", b""))[1]["code"] == "too-many"
    for connection in open_:
        connection.close()
    until(lambda: left(directory) == [], "a client that leaves leaves nothing")
    until(lambda: len(gateway.entries()) == 3, "all are logged")
    assert {entry["status"] for entry in gateway.entries()} == {429, 499}


SHORT_PAUSES = """
import time
pause = time.sleep
time.sleep = lambda seconds: pause(min(seconds, 3.0))
"""


def test_next_gateway_removes_what_one_killed_a_moment_ago_has_left(
    gateway: Process, directory: Path
) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=600) as connection:
        connection.sendall(_head(MIB) + FILE + b"x" * 300_000)
        until(lambda: list(directory.glob("*/*/big")), "the file has begun")
        gateway.end(signal.SIGKILL)
    gateway._patch = SHORT_PAUSES
    gateway.start()
    assert list(directory.glob("*/*/big")), "what is so young may be of one that begins"
    for path in directory.iterdir():
        os.utime(path, (1, 1))
    until(lambda: not list(directory.glob("*/*/big")), "they are removed")
    assert gateway.end(signal.SIGTERM) == 0


HELD_REMOVAL = """
import os, shutil, time
rmtree = shutil.rmtree
def held(*arguments, **options):
    until = time.monotonic() + 60
    while not os.path.exists({go!r}) and time.monotonic() < until:
        time.sleep(0.05)
    rmtree(*arguments, **options)
shutil.rmtree = held
"""


def test_next_gateway_removes_what_a_killed_one_has_left(
    gateway: Process, directory: Path, tmp_path: Path, options: list[str]
) -> None:
    def age() -> None:
        for path in directory.iterdir():
            os.utime(path, (1, 1))

    with socket.create_connection(("127.0.0.1", gateway.port), timeout=600) as connection:
        connection.sendall(_head(MIB) + FILE + b"x" * 300_000)
        until(lambda: list(directory.glob("*/*/big")), "the file has begun")
        age()
        other = Process(tmp_path, *options, environ=gateway.given)
        assert list(directory.glob("*/*/big")), "a gateway that runs keeps its files"
        gateway.end(signal.SIGKILL)
    assert list(directory.glob("*/*/big"))
    age()
    gateway._patch = HELD_REMOVAL.format(go=str(tmp_path / "go"))  # may be of very many directories
    gateway.start()
    assert list(directory.glob("*/*/big")), "it listens before it has removed them"
    (tmp_path / "go").touch()
    until(lambda: not list(directory.glob("*/*/big")), "they are removed")
    assert post(gateway, job("y"), file("a", b""))[0] < 500
    assert (gateway.end(signal.SIGTERM), other.end(signal.SIGTERM)) == (0, 0)
    assert list(directory.iterdir()) == [], "a gateway that ends in order leaves nothing"
