"""Find a Java for the daemons."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from submit_tf_job.errors import SandboxError

__all__ = ["find_java_home"]

_INSTALL = (
    "install a JDK or JRE, 8 to 22 (Debian, Ubuntu: apt-get install openjdk-17-jre-headless), "
    "or point JAVA_HOME at one"
)

# JDK 23 disabled Subject.getSubject, which all these Hadoop lines use to log in.
_NEWEST = 22


def find_java_home(environ: Mapping[str, str]) -> Path:
    """Return the home of the Java to use: JAVA_HOME, else that of the `java` on PATH.

    Raises:
        SandboxError: Java was not found, or is too new for Hadoop.
    """
    given = environ.get("JAVA_HOME")
    if given:
        home = Path(given)
        if not (home / "bin" / "java").is_file():
            raise SandboxError(
                f"JAVA_HOME is {given}, and there is no bin/java in it", hint=_INSTALL
            )
    else:
        java = shutil.which("java", path=environ.get("PATH", os.defpath))
        if java is None:
            raise SandboxError(
                "java was not found: JAVA_HOME is not set, and PATH has none", hint=_INSTALL
            )
        home = Path(java).resolve().parent.parent
        if not (home / "bin" / "java").is_file():
            raise SandboxError(
                f"{java} is not in the bin directory of a Java, so its home is not known",
                hint="set JAVA_HOME",
            )
    major = _major(home)
    if major is not None and major > _NEWEST:
        raise SandboxError(
            f"the Java in {home} is version {major}; Hadoop does not run on it", hint=_INSTALL
        )
    return home


def _major(home: Path) -> int | None:
    try:
        text = (home / "release").read_text()
    except OSError:
        return None
    found = re.findall(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    return next(map(int, found), None)
