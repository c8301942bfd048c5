"""Keep a plan's staged files on this machine as a NodeManager does: each once, read-only, and each
archive unpacked once.
"""

from __future__ import annotations

import hashlib
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from submit_tf_job.errors import UsageError
from submit_tf_job.plan.delivery import Content
from submit_tf_job.storage.staging import stream

__all__ = ["LocalCache"]


class LocalCache:
    """The staged files of one run.

    Args:
        root: The directory for them; created if needed.
        contents: Contents by URI.
    """

    def __init__(self, root: Path, contents: Mapping[str, Content]) -> None:
        self._root, self._contents = root, contents

    def __contains__(self, uri: str) -> bool:
        return uri in self._contents

    def file(self, uri: str) -> Path:
        """Return the path of the file for a URI; the first call writes it.

        Raises:
            UsageError: A file of this host was removed or changed.
        """
        path = self._directory(uri) / uri.rpartition("/")[2]
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as out:
                out.writelines(stream(self._contents[uri]))
            path.chmod(0o500)  # FSDownload.changePermissions
        return path

    def tree(self, uri: str) -> Path:
        """Return the directory of an unpacked archive; the first call unpacks it."""
        path = self._directory(uri) / "unpacked"
        if not path.exists():
            archive = self.file(uri)
            try:
                if archive.name.endswith(".zip"):
                    with zipfile.ZipFile(archive) as packed:
                        packed.extractall(path)  # noqa: S202 - jobspec.archives has checked it
                else:
                    with tarfile.open(archive) as found:
                        found.extractall(path)  # noqa: S202 - jobspec.archives has checked it
            except (OSError, tarfile.TarError, zipfile.BadZipFile) as error:
                raise UsageError(
                    f"{archive.name} cannot be unpacked: {error}", hint="pack it anew"
                ) from None
        return path

    def _directory(self, uri: str) -> Path:
        return self._root / hashlib.sha256(uri.encode()).hexdigest()[:16]
