"""Download libhadoop.so, which YARN with Kerberos needs to read and collect logs, from the only jar
on Maven Central that has it.
"""

from __future__ import annotations

import platform
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.jars import MAVEN_TIMEOUT_S, copy_artifact, find_maven
from submit_tf_job.sandbox.locks import file_lock

__all__ = ["ensure_native"]

_VERSION = "3.3.5-3"
_ARTIFACT = f"io.trino.hadoop:hadoop-apache:{_VERSION}"
_ARCHITECTURES = {
    "x86_64": "amd64",
    "amd64": "amd64",
    "aarch64": "aarch64",
    "arm64": "aarch64",
    "ppc64le": "ppc64le",
}
_LIBRARY = "libhadoop.so"


def ensure_native(
    hadoop_home: Path | None,
    cache_dir: Path,
    environ: Mapping[str, str],
    progress: Callable[[str], None],
    machine: str = "",
) -> Path:
    """Return a directory with libhadoop.so: an unpacked Hadoop's own, else the cache's, which is
    filled first.

    Without it a NodeManager with Kerberos ends when it first reads or collects logs (SecureIOUtils
    requires native code).

    Raises:
        SandboxError: Maven has none for this processor, or fails.
    """
    if hadoop_home and (hadoop_home / "lib" / "native" / _LIBRARY).is_file():
        return hadoop_home / "lib" / "native"
    machine = machine or platform.machine()
    architecture = _ARCHITECTURES.get(machine.lower())
    if architecture is None:
        raise SandboxError(
            f"a sandbox with Kerberos needs {_LIBRARY}, and Maven has none for this "
            f"processor ({machine})",
            hint="give the directory of an unpacked Hadoop that has lib/native/libhadoop.so",
        )
    home = cache_dir / f"native-{_VERSION}-{architecture}"
    with file_lock(
        cache_dir / f"native-{_VERSION}.lock",
        MAVEN_TIMEOUT_S,
        lambda: progress(f"another process is fetching {_LIBRARY}"),
    ):
        if not (home / _LIBRARY).is_file():
            progress(f"fetching {_LIBRARY} through Maven (once; about 32 MB)")
            _fetch(find_maven(environ), architecture, home, environ)
    return home


def _fetch(mvn: str, architecture: str, home: Path, environ: Mapping[str, str]) -> None:
    """Fill a temporary directory and rename it, so that `home` exists only when it is complete."""
    work = Path(tempfile.mkdtemp(prefix=".native-", dir=home.parent))
    try:
        copy_artifact(mvn, _ARTIFACT, work / "jar", environ)
        target = work / "native"
        target.mkdir()
        jar = next((work / "jar").glob("*.jar"))
        try:
            with zipfile.ZipFile(jar) as archive:
                (target / _LIBRARY).write_bytes(
                    archive.read(f"nativelib/Linux-{architecture}/{_LIBRARY}")
                )
        except (KeyError, zipfile.BadZipFile) as error:
            raise SandboxError(
                f"{jar.name} holds no {_LIBRARY} for {architecture}: {error}"
            ) from None
        shutil.rmtree(home, ignore_errors=True)
        target.rename(home)
    finally:
        shutil.rmtree(work, ignore_errors=True)
