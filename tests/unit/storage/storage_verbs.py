"""What every storage does, by one body of tests: this machine and fsspec's memory in
test_storage_verbs.py, HDFS in tests/cluster/test_storage.py.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from submit_tf_job.errors import SubmitTFJobError, UsageError
from submit_tf_job.storage import NoSuchPath, PathExists, Storage


class StorageVerbs:
    """Mixed into a class whose fixtures give `storage` and an empty directory `base` in it."""

    has_modes = True
    has_directories = True

    def test_what_is_written_is_read(self, storage: Storage, base: str) -> None:
        content = bytes(range(256)) * 40
        storage.write(f"{base}/a.bin", content)
        assert storage.read(f"{base}/a.bin") == content
        assert b"".join(storage.stream(f"{base}/a.bin", piece=1000)) == content

    def test_pieces_are_written_as_one_file(self, storage: Storage, base: str) -> None:
        storage.write(f"{base}/a.bin", (bytes([number]) * 100_000 for number in range(60)))
        assert storage.stat(f"{base}/a.bin").size == 6_000_000
        assert storage.read_range(f"{base}/a.bin", 99_999, 2) == b"\0\1"

    def test_an_empty_file(self, storage: Storage, base: str) -> None:
        storage.write(f"{base}/empty", b"")
        assert storage.stat(f"{base}/empty").size == 0
        assert storage.read(f"{base}/empty") == b""
        assert list(storage.stream(f"{base}/empty")) == []

    @pytest.mark.parametrize(
        ("start", "length", "expected"),
        [(0, 3, b"012"), (8, 5, b"89"), (10, 1, b""), (99, 1, b""), (4, 0, b"")],
    )
    def test_ranges_end_with_the_file(
        self, storage: Storage, base: str, start: int, length: int, expected: bytes
    ) -> None:
        storage.write(f"{base}/digits", b"0123456789")
        assert storage.read_range(f"{base}/digits", start, length) == expected

    def test_stat_tells_size_kind_and_time(self, storage: Storage, base: str) -> None:
        storage.write(f"{base}/f", b"abc", mode=0o640)
        found = storage.stat(f"{base}/f")
        assert (found.name, found.size, found.is_dir) == ("f", 3, False)
        assert found.modified_ms > 1_600_000_000_000
        if self.has_modes:
            assert found.mode == 0o640
            assert found.owner
        if self.has_directories:
            assert storage.stat(base).is_dir

    def test_a_listing_is_sorted_and_whole(self, storage: Storage, base: str) -> None:
        for name in ("b", "a", "ä 😀 x"):
            storage.write(f"{base}/{name}", b"x")
        storage.mkdirs(f"{base}/dir")
        storage.write(f"{base}/dir/c", b"x")
        found = storage.list_dir(base)
        assert [item.name for item in found] == ["a", "b", "dir", "ä 😀 x"]
        assert found[0].path == f"{base}/a"
        assert [item.is_dir for item in found] == [False, False, True, False]
        assert storage.read(f"{base}/ä 😀 x") == b"x"

    def test_a_write_that_breaks_leaves_the_old_file(self, storage: Storage, base: str) -> None:
        storage.write(f"{base}/f", b"old")

        def pieces() -> Iterator[bytes]:
            yield b"new"
            raise ZeroDivisionError

        with pytest.raises((ZeroDivisionError, SubmitTFJobError)):
            storage.write(f"{base}/f", pieces())
        assert storage.read(f"{base}/f") == b"old"
        assert [item.name for item in storage.list_dir(base)] == ["f"]

    def test_a_file_is_replaced_unless_asked_otherwise(self, storage: Storage, base: str) -> None:
        storage.write(f"{base}/f", b"1")
        storage.write(f"{base}/f", b"22")
        assert storage.read(f"{base}/f") == b"22"
        with pytest.raises(PathExists, match=r"/f: is there already"):
            storage.write(f"{base}/f", b"333", overwrite=False)
        assert storage.read(f"{base}/f") == b"22"

    def test_one_of_many_writers_wins_whole(self, storage: Storage, base: str) -> None:
        outcomes: list[str] = []

        def write(mark: bytes) -> None:
            try:
                storage.write(f"{base}/f", mark * 200_000, overwrite=False)
                outcomes.append("written")
            except PathExists:
                outcomes.append("there")

        threads = [threading.Thread(target=write, args=(bytes([65 + n]),)) for n in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        content = storage.read(f"{base}/f")
        assert len(content) == 200_000
        assert len(set(content)) == 1
        if self.has_directories:
            assert sorted(outcomes) == ["there"] * 4 + ["written"]
            assert [item.name for item in storage.list_dir(base)] == ["f"]

    def test_missing_directories_are_made_with_the_mode(self, storage: Storage, base: str) -> None:
        storage.mkdirs(f"{base}/x/y/z", 0o700)
        storage.mkdirs(f"{base}/x/y/z", 0o755)
        if self.has_directories:
            assert [storage.stat(f"{base}/{path}").mode for path in ("x", "x/y", "x/y/z")] == [
                0o700
            ] * 3

    def test_chmod(self, storage: Storage, base: str) -> None:
        storage.write(f"{base}/f", b"x")
        storage.chmod(f"{base}/f", 0o444)
        if self.has_modes:
            assert storage.stat(f"{base}/f").mode == 0o444

    def test_removing(self, storage: Storage, base: str) -> None:
        storage.mkdirs(f"{base}/d/e")
        storage.write(f"{base}/d/e/f", b"x")
        if self.has_directories:
            with pytest.raises(UsageError, match="/d/e: "):
                storage.remove(f"{base}/d/e")
        storage.remove(f"{base}/d", recursive=True)
        assert not storage.exists(f"{base}/d")
        storage.remove(f"{base}/d", recursive=True)

    def test_a_directory_is_moved_and_replaces_no_other(self, storage: Storage, base: str) -> None:
        if not storage.renames:
            return
        storage.mkdirs(f"{base}/empty")
        for name in ("a", "b"):
            storage.mkdirs(f"{base}/{name}")
            storage.write(f"{base}/{name}/f", name.encode())
        for target in ("b", "empty"):
            with pytest.raises(PathExists):
                storage.rename(f"{base}/a", f"{base}/{target}")
        storage.rename(f"{base}/a", f"{base}/c")
        assert storage.read(f"{base}/c/f") == b"a"
        assert not storage.exists(f"{base}/a")

    def test_what_is_missing_is_told_by_path(self, storage: Storage, base: str) -> None:
        where = storage.root + base
        for call in (storage.stat, storage.list_dir, storage.open, storage.read):
            with pytest.raises(NoSuchPath, match="no such file or directory") as caught:
                call(f"{base}/none")
            assert caught.value.message.startswith(f"{where}/none: ")
            assert caught.value.hint
            assert isinstance(caught.value, FileNotFoundError)
        assert not storage.exists(f"{base}/none")

    def test_a_missing_parent_is_an_error(self, storage: Storage, base: str) -> None:
        if self.has_directories:
            with pytest.raises(NoSuchPath):
                storage.write(f"{base}/none/f", b"x")

    def test_a_file_is_no_directory_and_the_reverse(self, storage: Storage, base: str) -> None:
        storage.mkdirs(f"{base}/d")
        storage.write(f"{base}/d/f", b"x")
        with pytest.raises(UsageError, match=r"not a directory|Not a directory"):
            storage.list_dir(f"{base}/d/f")
        with pytest.raises(UsageError, match="/d: "):
            storage.read(f"{base}/d")

    def test_a_limit_of_reading_at_once(self, storage: Storage, base: str) -> None:
        storage.write(f"{base}/f", b"x" * 11)
        with pytest.raises(UsageError, match="11 bytes are more than the 10"):
            storage.read(f"{base}/f", limit=10)

    def test_whole_uris_are_taken(self, storage: Storage, base: str) -> None:
        storage.write(storage.url(f"{base}/f"), b"x")
        assert storage.read(storage.url(f"{base}/f")) == b"x"
        with pytest.raises(UsageError, match="is not in"):
            storage.stat("hdfs://elsewhere:1/f")
