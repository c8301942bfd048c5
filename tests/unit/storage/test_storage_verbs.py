"""What every storage does, by one body of tests: this machine and fsspec's memory here, HDFS in
tests/cluster/test_storage.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from submit_tf_job.errors import UsageError
from submit_tf_job.storage import Storage, open_storage
from submit_tf_job.storage.local_files import LocalStorage
from submit_tf_job.storage.objects import ObjectStorage
from tests.unit.storage.storage_verbs import StorageVerbs


class TestLocal(StorageVerbs):
    @pytest.fixture
    def storage(self) -> Storage:
        return LocalStorage()

    @pytest.fixture
    def base(self, tmp_path: Path) -> str:
        return str(tmp_path)


class TestObjects(StorageVerbs):
    has_modes = False
    has_directories = False

    @pytest.fixture
    def storage(self) -> Iterator[Storage]:
        import fsspec

        yield ObjectStorage("memory", "bucket")
        fsspec.filesystem("memory").store.clear()

    @pytest.fixture
    def base(self) -> str:
        return "/base"

    def test_a_bucket_has_no_home(self, storage: Storage) -> None:
        with pytest.raises(UsageError, match="a bucket has no home of alice"):
            storage.home("alice")

    def test_an_object_that_shows_a_directory_is_no_file(
        self, storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A console of an object store makes the object `d/` for a new folder."""
        storage.write("/d/x", b"x")
        ls = storage._fs.ls

        def with_marker(path: str, **more: bool) -> list[dict[str, object]]:
            return [{"name": f"{path}/", "type": "file", "size": 0}, *ls(path, **more)]

        monkeypatch.setattr(storage._fs, "ls", with_marker)
        assert [item.path for item in storage.list_dir("/d")] == ["/d/x"]


def test_opening_a_path_of_this_machine(tmp_path: Path) -> None:
    open_storage(str(tmp_path)).write(f"{tmp_path}/f", b"x")
    assert open_storage(f"file://{tmp_path}").read(f"file://{tmp_path}/f") == b"x"
    assert open_storage("file:///").read(f"file:{tmp_path}/f") == b"x"
