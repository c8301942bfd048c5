"""What a plan stages, as a NodeManager has it: each content once on this machine, read-only, archives unpacked once."""

from __future__ import annotations

import hashlib
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from submit_tf_job.errors import UsageError
from submit_tf_job.plan.service import Content
from submit_tf_job.staging import stream

__all__ = ["Shelf"]


class Shelf:
    """The staged contents of one run.

    Args:
        root: The directory for them; it need not be there.
        contents: By URI.
    """

    def __init__(self, root: Path, contents: Mapping[str, Content]) -> None:
        self._root, self._contents = root, contents

    def __contains__(self, uri: str) -> bool:
        return uri in self._contents

    def file(self, uri: str) -> Path:
        """Return the content as a file.

        Raises:
            UsageError: A file of this host has gone or was changed.
        """
        path = self._place(uri) / uri.rpartition("/")[2]
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as out:
                out.writelines(stream(self._contents[uri]))
            path.chmod(0o500)  # FSDownload.changePermissions
        return path

    def tree(self, uri: str) -> Path:
        """Return the content, an archive, as the directory that it unpacks to."""
        path = self._place(uri) / "unpacked"
        if not path.exists():
            archive = self.file(uri)
            try:
                if archive.name.endswith(".zip"):
                    with zipfile.ZipFile(archive) as packed:
                        packed.extractall(path)  # noqa: S202 - of the user's own, looked through when the job spec was read
                else:
                    with tarfile.open(archive) as found:
                        found.extractall(path)  # noqa: S202 - of the user's own, looked through when the job spec was read
            except (OSError, tarfile.TarError, zipfile.BadZipFile) as error:
                raise UsageError(f"{archive.name} cannot be unpacked: {error}", hint="pack it anew") from None
        return path

    def _place(self, uri: str) -> Path:
        return self._root / hashlib.sha256(uri.encode()).hexdigest()[:16]
