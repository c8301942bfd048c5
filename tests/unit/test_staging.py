"""Staging: once per content, whole, owner only."""

from __future__ import annotations

import hashlib
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from submit_tf_job.errors import AuthError, SubmitTFJobError
from submit_tf_job.job import ShippedFile
from submit_tf_job.staging import StagedFile, default_root, stage, sweep
from submit_tf_job.storage import Stat, Storage
from submit_tf_job.storage.local import LocalStorage

TAR = ShippedFile("job.tar", b"payload")
SHA = hashlib.sha256(b"payload").hexdigest()


class Counting(LocalStorage):
    """Counts uploads."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []

    def _create(self, path: str, pieces: object, mode: int) -> None:
        self.written.append(path)
        super()._create(path, pieces, mode)  # type: ignore[arg-type]


@pytest.fixture
def storage() -> Counting:
    return Counting()


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "staging")


def test_a_file_lies_under_its_hash(storage: Storage, root: str) -> None:
    assert stage([TAR], storage, root=root) == [StagedFile("job.tar", f"file://{root}/{SHA}/job.tar", SHA, 7, True)]
    assert Path(root, SHA, "job.tar").read_bytes() == b"payload"
    assert sorted(path.name for path in Path(root, SHA).iterdir()) == ["job.tar"]


def test_only_the_owner_reads_it(storage: Storage, root: str) -> None:
    stage([TAR, ShippedFile("bin/run.sh", b"#!", executable=True)], storage, root=root)
    run = Path(root, hashlib.sha256(b"#!").hexdigest(), "run.sh")
    modes = [path.stat().st_mode & 0o7777 for path in (Path(root), Path(root, SHA), Path(root, SHA, "job.tar"), run)]
    assert modes == [0o700, 0o700, 0o600, 0o500]


def test_others_may_read_it_where_asked(storage: Storage, root: str) -> None:
    stage([TAR, ShippedFile("run.sh", b"#!", executable=True)], storage, root=root, directory_mode=0o755)
    run = Path(root, hashlib.sha256(b"#!").hexdigest(), "run.sh")
    assert [path.stat().st_mode & 0o7777 for path in (Path(root), Path(root, SHA, "job.tar"), run)] == [0o755, 0o644, 0o555]


def test_what_is_there_is_not_sent_again(storage: Counting, root: str) -> None:
    stage([TAR], storage, root=root)
    before = Path(root, SHA, "job.tar").stat()
    again = stage([TAR], storage, root=root, user=storage.stat(root).owner)
    assert again[0].uploaded is False
    assert again[0].uri == f"file://{root}/{SHA}/job.tar"
    assert len(storage.written) == 1
    assert Path(root, SHA, "job.tar").stat() == before


def test_half_a_file_is_replaced(storage: Counting, root: str) -> None:
    stage([TAR], storage, root=root)
    Path(root, SHA, "job.tar").write_bytes(b"pay")
    assert stage([TAR], storage, root=root)[0].uploaded is True
    assert Path(root, SHA, "job.tar").read_bytes() == b"payload"


def test_a_strangers_file_is_not_trusted(storage: Storage, root: str) -> None:
    stage([TAR], storage, root=root)
    with pytest.raises(AuthError, match=r"job\.tar: belongs to \w+, not to somebody-else"):
        stage([TAR], storage, root=root, user="somebody-else")
    assert stage([TAR], storage, root=root, user="somebody-else", directory_mode=0o775)[0].uploaded is False


def test_names_that_hdfs_would_refuse(storage: Storage, root: str) -> None:
    names = [staged.name for staged in stage([ShippedFile("a/b c:d ä.py", b"1"), ShippedFile(".hidden", b"2")], storage, root=root)]
    assert names == ["b_c_d__.py", "hidden"]


def test_two_submitters_at_once(root: str) -> None:
    content = ShippedFile("job.tar", b"x" * 3_000_000)
    problems: list[SubmitTFJobError] = []

    def submit() -> None:
        try:
            stage([content], LocalStorage(), root=root)
        except SubmitTFJobError as error:
            problems.append(error)

    threads = [threading.Thread(target=submit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert problems == []
    assert [path.name for path in Path(root).rglob("*") if path.is_file()] == ["job.tar"]


def test_the_default_root(storage: Storage) -> None:
    assert default_root(storage, "root").endswith("/.submit_tf_job/staging")


# --- what is stale ---

NOW = datetime.now(timezone.utc)


def test_only_what_is_old_is_stale(storage: Storage, root: str) -> None:
    stage([TAR, ShippedFile("other", b"other")], storage, root=root)
    Path(root, "not-a-hash").mkdir()
    assert list(sweep(storage, root, older_than=timedelta(days=7))) == []
    stale = list(sweep(storage, root, older_than=timedelta(days=7), now=NOW + timedelta(days=8)))
    assert [(item.path, item.size) for item in stale] == [
        (f"{root}/{SHA}", 7),
        (f"{root}/{hashlib.sha256(b'other').hexdigest()}", 5),
    ] or len(stale) == 2
    assert all(abs((item.used - NOW).total_seconds()) < 3600 for item in stale)
    assert Path(root, SHA, "job.tar").exists()


def test_using_a_file_again_keeps_it_without_touching_it(storage: Storage, root: str) -> None:
    import os

    stage([TAR], storage, root=root)
    old = (NOW - timedelta(days=30)).timestamp()
    os.utime(Path(root, SHA, "job.tar"), (old, old))
    os.utime(Path(root, SHA), (old, old))
    assert len(list(sweep(storage, root, older_than=timedelta(days=7), now=NOW))) == 1
    assert stage([TAR], storage, root=root, now=NOW)[0].uploaded is False
    assert list(sweep(storage, root, older_than=timedelta(days=7), now=NOW)) == []
    assert Path(root, SHA, "job.tar").stat().st_mtime == pytest.approx(old)


def test_no_staging_directory_is_nothing_stale(storage: Storage, root: str) -> None:
    assert list(sweep(storage, root, older_than=timedelta(0))) == []


def test_a_directory_that_vanishes_meanwhile_is_skipped(root: str) -> None:
    class Vanishing(LocalStorage):
        def list_dir(self, path: str) -> list[Stat]:
            if path != root:
                raise SubmitTFJobError("gone")
            return super().list_dir(path)

    stage([TAR], LocalStorage(), root=root)
    assert list(sweep(Vanishing(), root, older_than=timedelta(0), now=NOW + timedelta(days=1))) == []
