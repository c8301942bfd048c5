"""Staging: once per content, whole, owner only, gone on with; and what is left of it."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import time
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from submit_tf_job.errors import (
    AuthError,
    ClusterUnavailable,
    SubmitTFJobError,
    UsageError,
)
from submit_tf_job.jobspec.digests import sha256_of
from submit_tf_job.jobspec.job import HostFile, ShippedFile
from submit_tf_job.plan import Upload
from submit_tf_job.plan.delivery import Pack, pack
from submit_tf_job.storage import Storage, staging
from submit_tf_job.storage.local_files import LocalStorage
from submit_tf_job.storage.staging import (
    USED,
    Sent,
    forget,
    forget_earlier,
    forget_job,
    stage,
    sweep,
)

NOW = datetime.now(timezone.utc)
MIB = 1024 * 1024


class Counting(LocalStorage):
    """Counts uploads, and breaks off where it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []
        self.fails_after: int | None = None
        self.failure: SubmitTFJobError = ClusterUnavailable("the NameNode is gone")

    def _create(self, path: str, pieces: Iterable[bytes], mode: int) -> None:
        if USED not in path:
            self.written.append(path)
        super()._create(path, self._broken(pieces), mode)

    def _broken(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for count, piece in enumerate(pieces):
            if count == self.fails_after:
                raise self.failure
            yield piece


@pytest.fixture
def storage() -> Counting:
    return Counting()


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "staging")


def content_id(content: bytes | HostFile | Pack) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    return content.sha256


def upload(
    root: str, content: bytes | HostFile | Pack, name: str = "job.tar", job: str = "mnist"
) -> Upload:
    found = content_id(content)
    return Upload(f"file://{root}/files/{job}/{found}/{name}", content)


def host_file(path: Path, content: bytes) -> HostFile:
    path.write_bytes(content)
    return HostFile(path, len(content), sha256_of(path), HostFile.stamp_of(path.stat()))


def staged(root: str) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in Path(root).rglob("*") if path.is_file())


# --- what is sent ---


def test_a_pack_is_the_tar_that_tarfile_writes(tmp_path: Path) -> None:
    large = host_file(tmp_path / "large", os.urandom(3_000_000))
    files = [
        ShippedFile("ü/a b", b"1" * 700, executable=True),
        ShippedFile("z", large),
        ShippedFile("x" * 180, b""),
    ]
    made = pack(files)
    assert made
    content = b"".join(staging.stream(made))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for file in sorted(files, key=lambda item: item.name):
            info = tarfile.TarInfo(file.name)
            info.size, info.mode = file.size, 0o755 if file.executable else 0o644
            tar.addfile(
                info,
                io.BytesIO(
                    (tmp_path / "large").read_bytes() if file.content is large else file.content  # type: ignore[arg-type]
                ),
            )
    assert content == buffer.getvalue()
    assert made.size == len(content)
    assert {len(piece) for piece in list(staging.stream(made, 100_000))[:-1]} == {100_000}


def test_a_packs_id_follows_from_names_modes_and_contents_alone(tmp_path: Path) -> None:
    held, on_disk = ShippedFile("a", b"12"), ShippedFile("a", host_file(tmp_path / "a", b"12"))
    others = [
        ShippedFile("b", b"12"),
        ShippedFile("a", b"12", executable=True),
        ShippedFile("a", b"13"),
    ]
    ids = [made.sha256 for file in (held, on_disk, *others) if (made := pack([file]))]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 4


# --- where it lies ---


def test_a_file_lies_with_its_job_under_its_id_and_only_its_owner_reads_it(
    storage: Storage, root: str
) -> None:
    one = upload(root, b"payload")
    found = stage([one], storage, user=storage.stat("/").owner)
    assert [(file.uri, file.size, file.sent) for file in found] == [(one.uri, 7, 7)]
    path = Path(storage.path(one.uri))
    assert path.read_bytes() == b"payload"
    modes = [
        item.stat().st_mode & 0o7777 for item in (path, path.parent, path.parent.parent, Path(root))
    ]
    assert modes == [0o600, 0o700, 0o700, 0o700]
    assert len(staged(root)) == 1


def test_what_is_there_is_not_sent_again_and_half_a_file_is(storage: Counting, root: str) -> None:
    one = upload(root, b"payload")
    stage([one], storage)
    before = Path(storage.path(one.uri)).stat()
    assert stage([one], storage, user=storage.stat(root).owner)[0].sent == 0
    assert len(storage.written) == 1
    assert Path(storage.path(one.uri)).stat() == before
    Path(storage.path(one.uri)).write_bytes(b"pay")
    assert stage([one], storage)[0].sent == 7
    assert Path(storage.path(one.uri)).read_bytes() == b"payload"


def test_a_strangers_file_is_not_trusted(storage: Storage, root: str) -> None:
    stage([upload(root, b"payload")], storage)
    with pytest.raises(AuthError, match=r"job\.tar: belongs to \w+, not to somebody-else"):
        stage([upload(root, b"payload")], storage, user="somebody-else")


def test_progress_counts_what_is_missing(storage: Storage, root: str) -> None:
    told: list[Sent] = []
    stage([upload(root, b"1" * 9)], storage)
    stage(
        [upload(root, b"1" * 9), upload(root, b"2" * 5), upload(root, b"3" * 6)],
        storage,
        told=told.append,
    )
    assert told[-1] == Sent(11, 11)
    assert [item.done for item in told] == sorted(item.done for item in told)


# --- what goes wrong ---


def test_a_file_that_was_changed_or_has_gone(storage: Counting, root: str, tmp_path: Path) -> None:
    for change, why in (
        (lambda path: path.write_bytes(b"other"), "was changed after"),
        (Path.unlink, "is not there any more"),
    ):
        file = host_file(tmp_path / "data", b"first")
        change(tmp_path / "data")
        with pytest.raises(UsageError, match=rf"data {why}.*; nothing was submitted"):
            stage([upload(root, file)], storage)
    assert [name for name in staged(root) if USED not in name] == []


def large(root: str, tmp_path: Path) -> Upload:
    return upload(root, host_file(tmp_path / "large", os.urandom(10 * MIB)), "large")


def test_an_interrupted_upload_begins_anew_and_leaves_nothing(
    storage: Counting, root: str, tmp_path: Path
) -> None:
    one = large(root, tmp_path)
    storage.fails_after = 1
    with pytest.raises(ClusterUnavailable):
        stage([one], storage)
    assert staged(root) == []
    storage.fails_after = None
    told: list[Sent] = []
    assert stage([one], storage, told=told.append)[0].sent == 10 * MIB
    assert told[-1] == Sent(10 * MIB, 10 * MIB)
    assert Path(storage.path(one.uri)).read_bytes() == (tmp_path / "large").read_bytes()


# --- afterwards ---


def test_what_is_forgotten(storage: Storage, root: str) -> None:
    old, new, other = upload(root, b"old"), upload(root, b"new"), upload(root, b"old", job="other")
    stage([old], storage)
    age(root, 1)
    stage([new, other], storage)
    forget_earlier(storage, [new.directory])
    assert [name.split("/")[1] for name in staged(root)] == ["mnist", "other"]
    assert not Path(storage.path(old.uri)).exists()
    forget(storage, new.directory)
    assert not Path(root, "files", "mnist").exists()
    assert Path(storage.path(other.uri)).exists()


def test_what_a_later_job_has_staged_is_not_forgotten(storage: Storage, root: str) -> None:
    """The client of the first one stood still between its POST and this."""
    mine, later = upload(root, b"mine"), upload(root, b"later")
    stage([mine], storage)
    age(root, 1)
    stage([later], storage)
    forget_earlier(storage, [mine.directory])
    assert Path(storage.path(later.uri)).exists()
    forget_earlier(storage, [f"{root}/files/mnist/removed"])
    assert Path(storage.path(mine.uri)).exists()


def test_forget_job_keeps_what_another_submission_has_staged_just_now(
    storage: Storage, root: str
) -> None:
    old, new = upload(root, b"old"), upload(root, b"new")
    stage([old, new], storage)
    service = json.dumps({"configuration": {"files": [{"src_file": old.uri}]}})
    posted_ms, now_s = int(time.time() * 1000) + 1000, NOW.timestamp()
    forget_job(storage, f"{root}/files/mnist", service=service, posted_ms=posted_ms, now_s=now_s)
    assert not Path(storage.path(old.uri)).exists()
    assert Path(storage.path(new.uri)).exists()
    forget_job(storage, f"{root}/files/none", service=service, posted_ms=posted_ms, now_s=now_s)


def test_forget_job_keeps_what_the_next_run_is_to_use(storage: Storage, root: str) -> None:
    used = upload(root, b"used")
    stage([used], storage)
    service = json.dumps({"configuration": {"files": [{"src_file": used.uri}]}})
    age(root, 1)
    posted_ms, now_s = int(time.time() * 1000) - 1000, NOW.timestamp()
    stage([used], storage)  # by a submission that has not sent its POST yet
    forget_job(storage, f"{root}/files/mnist", service=service, posted_ms=posted_ms, now_s=now_s)
    assert Path(storage.path(used.uri)).exists()


def test_forget_job_removes_what_nobody_has_used_for_a_while(storage: Storage, root: str) -> None:
    stage([upload(root, b"old")], storage)
    age(root, 1)
    kept = upload(root, b"new")
    stage([kept], storage)
    forget_job(storage, f"{root}/files/mnist", service="", posted_ms=0, now_s=NOW.timestamp())
    assert len(staged(root)) == 1
    age(root, 1)
    stage([kept], storage)  # found there, and used again
    forget_job(storage, f"{root}/files/mnist", service="", posted_ms=0, now_s=NOW.timestamp())
    assert Path(storage.path(kept.uri)).exists()
    age(root, 1)
    forget_job(storage, f"{root}/files/mnist", service="", posted_ms=0, now_s=NOW.timestamp())
    assert not Path(root, "files", "mnist").exists()


def age(root: str, days: int) -> None:
    old = (NOW - timedelta(days=days)).timestamp()
    for path in Path(root).rglob("*"):
        os.utime(path, (old, old))


def test_only_what_is_old_is_stale_and_use_makes_it_young(storage: Storage, root: str) -> None:
    one = upload(root, b"payload")
    stage([one], storage)
    stage([upload(root, b"second", job="other")], storage)
    Path(root, "keytabs", "mnist").mkdir(parents=True)
    week = timedelta(days=7)
    assert list(sweep(storage, root, older_than=week)) == []
    age(root, 30)
    stale = list(sweep(storage, root, older_than=week))
    assert [(item.name, item.size, len(item.paths)) for item in stale] == [
        ("mnist", 7, 2),
        ("other", 6, 1),
    ]
    assert all(abs((NOW - item.used).days - 30) <= 1 for item in stale)
    before = Path(storage.path(one.uri)).stat().st_mtime
    assert stage([one], storage)[0].sent == 0
    assert [item.name for item in sweep(storage, root, older_than=week)] == ["other"]
    assert Path(storage.path(one.uri)).stat().st_mtime == before
    assert list(sweep(storage, f"{root}/nowhere", older_than=timedelta(0))) == []
