"""What one request may cost the gateway: bombs that are small to send end soon, with their reason."""

from __future__ import annotations

import asyncio
import bz2
import gzip
import io
import json
import lzma
import resource
import tarfile
import threading
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.gateway.app import served
from tests.world.gateway import JOB, World, refused

MIB = 1024**2


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def _post(world: World, files: list[Any], sent: dict[str, bytes], **more: Any) -> Any:
    spec = json.dumps({**JOB, "files": files, **more}).encode()
    parts = [("files", (name, content)) for name, content in sent.items()]
    return world.ask("POST", "/v1/jobs", files=[("job", ("a.json", spec)), *parts])


# --- archives ---


def _head(size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    info = tarfile.TarInfo("zeros")
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


def _bomb(compress: Callable[[bytes], bytes], head: bytes) -> bytes:
    """Return a tar of a head and 80 MiB of zeros, in streams behind one another."""
    return compress(head) + compress(bytes(4 * MIB)) * 20


def _zip(method: int, size: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("zeros", bytes(size))
    return out.getvalue()


def _xz_with_dictionary(size: int) -> bytes:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 4096}]
    made = bytearray(lzma.compress(_head(0), filters=filters))
    # Block header: its size, flags, the filter's id, the length and the value of its properties.
    assert made[12:17] == bytes((2, 0, 0x21, 1, 0)), "4 KiB"
    made[16] = (size.bit_length() - 1 - 12) * 2
    made[20:24] = zlib.crc32(made[12:20]).to_bytes(4, "little")
    return bytes(made)


def _tar_with(**attributes: str) -> bytes:
    """Return a tar whose member has these extended attributes."""
    info = tarfile.TarInfo("zeros")
    info.pax_headers = {name.replace("_", "."): text for name, text in attributes.items()}
    return info.tobuf(tarfile.PAX_FORMAT) + bytes(1024)


def _nested(levels: int) -> bytes:
    record = b"13 a=bcdefgh\n"
    head = _head(len(record), tarfile.XHDTYPE) + record.ljust(512, b"\0")
    return head * levels + _head(0)


LARGE = _head(70 * MIB)
BOMBS: dict[str, Callable[[], bytes]] = {
    "a.tar.bz2": lambda: _bomb(bz2.compress, LARGE),
    "a.tar.gz": lambda: _bomb(gzip.compress, LARGE),
    "a.tar.xz": lambda: _bomb(lzma.compress, LARGE),
    "named.tar": lambda: _bomb(bz2.compress, LARGE),
    "deflate.zip": lambda: _zip(zipfile.ZIP_DEFLATED, 80 * MIB),
    "bzip2.zip": lambda: _zip(zipfile.ZIP_BZIP2, 4 * MIB),
    "lzma.zip": lambda: _zip(zipfile.ZIP_LZMA, 4 * MIB),
    "name.tar.bz2": lambda: _bomb(bz2.compress, _head(70 * MIB, tarfile.GNUTYPE_LONGNAME)),
    "attributes.tar.gz": lambda: _bomb(gzip.compress, _head(70 * MIB, tarfile.XHDTYPE)),
    "dictionary.tar.xz": lambda: _xz_with_dictionary(1024**3),
    "many-members.tar.bz2": lambda: bz2.compress(_head(0) * 101),
    "many-streams.tar.bz2": lambda: bz2.compress(b"") * 1000,
    # 1 KiB each: tarfile looks for a TiB that is not there, or ends with another error than its own
    "missing.tar": lambda: _head(1024**4) + bytes(1024),
    "missing-attribute.tar.gz": lambda: gzip.compress(_tar_with(size="9" * 4000)),
    "map.tar": lambda: _tar_with(GNU_sparse_map="0,x"),
    "nested.tar.gz": lambda: gzip.compress(_nested(2000)),
}
# What `ReadingBudget.of_others` says of each, the first bound that it meets.
REASONS = {
    "unpacks to more than 200 times": "a.tar.bz2 a.tar.gz a.tar.xz named.tar deflate.zip",
    "not packed by deflate": "bzip2.zip lzma.zip",
    "header of a member is too long": "name.tar.bz2 attributes.tar.gz",
    "Memory usage limit": "dictionary.tar.xz",
    "more than 100 members": "many-members.tar.bz2",
    "is not a complete archive": "many-streams.tar.bz2 missing.tar missing-attribute.tar.gz map.tar "
    "nested.tar.gz",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_archive_that_unpacks_to_too_much_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("submit_tf_job.jobspec.reading_budget.MEMBERS", 100)
    reason = next(reason for reason, names in REASONS.items() if name in names.split())
    content = BOMBS[name]()
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = _post(world, [{"src": name, "unpack": True}], {name: content})
    assert reason in refused(answer, 422, "job-spec")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held < 48 * 1024, "KiB of memory"


def test_archives_in_several_streams_are_read(world: World) -> None:
    info = tarfile.TarInfo("data.csv")
    info.size = 2 * MIB
    plain = info.tobuf() + bytes(info.size) + bytes(1024)
    packed = {
        "a.tar.gz": gzip.compress(plain[:MIB]) + gzip.compress(plain[MIB:]),
        "b.tar.bz2": bz2.compress(plain[:MIB]) + bz2.compress(plain[MIB:]),
        "c.tar.xz": lzma.compress(plain[:MIB]) + bytes(8) + lzma.compress(plain[MIB:]) + bytes(4),
        "d.tar": plain,
    }
    entries = [{"src": name, "unpack": True, "dst": name[0]} for name in list(packed)[:3]]
    assert _post(world, entries, packed).status_code == 201
    for name, content in packed.items():
        answer = _post(world, [{"src": name, "unpack": True}], {name: content[: len(content) // 2]})
        assert "is not a complete archive" in refused(answer, 422, "job-spec")


# --- files and patterns ---


def test_patterns_over_deep_directories_end(world: World) -> None:
    deep = {"/".join(["d"] * 45) + f"/f{number}": b"" for number in range(3)}
    answer = _post(world, ["**/" * stars + "nothing*" for stars in range(1, 300, 50)], deep)
    assert "did not come with the request" in refused(answer, 422, "job-spec")


@pytest.mark.slow
def test_files_of_a_job_are_counted_with_their_repetitions(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("submit_tf_job.jobspec.reading_budget.ENTRIES", 100)
    sent = {f"f{number}": b"x" for number in range(11)}
    many = [{"src": "f*", "dst": f"d{number}"} for number in range(10)]
    for files in (many, ["*"] * 10, ["**", "f?", "f??"] * 10):
        answer = _post(world, files, sent)
        assert "the job has more than 100 files" in refused(answer, 422, "job-spec")


def test_wheels_of_a_job_are_counted_with_their_repetitions(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("submit_tf_job.jobspec.reading_budget.ENTRIES", 100)
    wheel = _zip(zipfile.ZIP_STORED, 1)
    sent = {f"w{number}-1-py3-none-any.whl": wheel for number in range(11)}
    answer = _post(world, [{"wheels": ["*.whl"]}] * 10, sent)
    assert "the job has more than 100 files" in refused(answer, 422, "job-spec")


def test_files_of_all_roles_are_counted(world: World) -> None:
    role = {"memory": "1Gi", "kind": "trains"}
    roles = {f"r{number}": role for number in range(100)}
    entries = [{"src": "f", "dst": f"f{number}"} for number in range(501)]
    answer = _post(world, entries, {"f": b"x"}, roles=roles, deciding_role="r0", strategy="custom")
    assert "all roles together have 50100 files" in refused(answer, 422, "job-spec")


def test_job_spec_that_takes_too_long_is_left(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 10_000, 3))
    monkeypatch.setattr(time, "thread_time", lambda: float(next(clock)))
    sent = {f"f{number}": b"x" for number in range(20)}
    answer = _post(world, ["f*"], sent)
    assert "takes more than 20 s of CPU" in refused(answer, 400, "usage")


# --- a client that leaves ---


def test_work_ends_when_its_client_has_left(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client leaves while its archive is looked through, and its slots are free again."""
    looked = threading.Event()
    members = tarfile.TarInfo("x").tobuf() * 2

    def read(_file: Any, size: int = -1) -> bytes:
        looked.set()
        time.sleep(0.005)  # minutes to any bound, however late the loop sees that the client left
        return members[:size]

    monkeypatch.setattr(gzip.GzipFile, "read", read)  # an archive without an end
    spec = json.dumps({**JOB, "files": [{"src": "a.tar.gz", "unpack": True}]}).encode()
    part = b'--x\r\nContent-Disposition: form-data; name="%b"%b\r\n\r\n%b\r\n'
    files = part % (b"files", b'; filename="a.tar.gz"', gzip.compress(b"x"))
    body = part % (b"job", b'; filename="a.json"', spec) + files + b"--x--\r\n"
    token = f"Bearer {world.tokens['alice']}".encode()
    headers = [
        (b"host", b"gateway"),
        (b"authorization", token),
        (b"content-type", b"multipart/form-data; boundary=x"),
    ]
    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": "/v1/jobs",
        "headers": headers,
    }
    scope |= {"query_string": b"", "http_version": "1.1", "scheme": "http", "raw_path": b"/v1/jobs"}
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await asyncio.to_thread(looked.wait, 60)
        return {"type": "http.disconnect"}

    async def send(_message: Any) -> None:
        pass

    async def run() -> None:
        await asyncio.wait_for(served(world.gateway)(scope, receive, send), 60)

    asyncio.run(run())
    assert world.entries[-1]["code"] == "client-gone"
    assert (world.gateway.requests.taken, world.gateway.uploading.taken) == (0, 0)
    assert world.apps == []
    assert not list(world.file.parent.rglob("a.tar.gz")), "its files are removed"
