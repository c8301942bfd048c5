"""Read `python`: the interpreter in the image, and the packages that are sent with the job."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from submit_tf_job.host.located.diagnostics import Where
from submit_tf_job.host.located.nodes import clip
from submit_tf_job.jobspec.files import CannotShip, Shipper, shown_path
from submit_tf_job.jobspec.job import HostFile, Job, PackageKind, Packages, Python

__all__ = ["read_python"]

# archives that a NodeManager unpacks (FSDownload.unpack)
_ENVIRONMENT = re.compile(r".+\.(tar\.gz|tgz|tar|zip)")


def read_python(
    values: Mapping[str, Any], at: Where, shipper: Shipper, interpreter: str | None = Job.python
) -> Python | None:
    """Return the value of the key.

    Args:
        values: The mapping, None for a wrong value; text alone is the interpreter.
        at: Its path.
        shipper: Reads files of this host.
        interpreter: The interpreter of a mapping that names none.
    """
    interpreter, version = values.get("interpreter", interpreter), values.get("version", "")
    if interpreter is None or version is None:
        return None
    bundled = values.keys() & {"requirements", "wheels", "project"}
    if "environment" in values:
        others = sorted(bundled | values.keys() & {"version"})
        if others:
            return at.fail(
                f"environment is a whole Python of its own; it does not go with "
                f"{' and '.join(others)}"
            )
        file = _environment(values["environment"], at.member("environment"), shipper)
        return (
            None if file is None else Python(interpreter, Packages(PackageKind.ENVIRONMENT, file))
        )
    if not bundled:
        return (
            Python(interpreter)
            if not version
            else at.fail("version says what packages are for; add requirements, wheels or project")
        )
    # imported here: zipfile and subprocess would slow down every start
    from submit_tf_job.jobspec import wheels

    found = _wheels(values, at, shipper, version or wheels.HOST_VERSION)
    return None if found is None else _bundled(at, shipper, interpreter, found, version)


def _environment(src: str | None, at: Where, shipper: Shipper) -> HostFile | None:
    file = shipper.find(src, at) if src else None
    if file is not None and not _ENVIRONMENT.fullmatch(file.path.name):
        return at.fail(
            f"{clip(file.path.name)} is not a packed environment; conda-pack and venv-pack "
            f"write a .tar.gz"
        )
    if file is None:
        return None
    try:
        shipper.check(file, links=False)
    except CannotShip as error:
        return at.fail(f"{clip(file.path.name)}: {error}")
    return file


def _wheels(
    values: Mapping[str, Any], at: Where, shipper: Shipper, version: str
) -> list[HostFile] | None:
    """Return the wheels of all three keys."""
    found: list[HostFile] = []
    for key, reader in (("wheels", shipper.wheels), ("project", shipper.project)):
        if key in values:
            some = reader(values, at)
            if some is None:
                return None
            found += some
    if "requirements" in values:
        resolved = _requirements(
            values["requirements"], at.member("requirements"), shipper, version
        )
        if resolved is None:
            return None
        found += resolved
    return found


def _requirements(
    src: str | None, at: Where, shipper: Shipper, version: str
) -> list[HostFile] | None:
    from submit_tf_job.jobspec import wheels

    file = shipper.find(src, at) if src else None
    if file is None:
        return None
    if shipper.host.cache is None:
        return at.fail("there is no cache directory to resolve it in")
    if at.notes.problems:
        return None  # the job spec is refused anyway, and pip may take minutes
    try:
        return [
            shipper.described(path)
            for path in wheels.resolve(file.path, version, shipper.host.cache / "python")
        ]
    except wheels.PipFailed as error:
        return at.fail(f"{clip(file.path.name)} does not resolve for Python {version}: {error}")


def _bundled(
    at: Where,
    shipper: Shipper,
    interpreter: str,
    found: list[HostFile],
    version: str,
) -> Python | None:
    from submit_tf_job.jobspec import wheels

    bound = {needs for file in found if (needs := wheels.needs(file.path.name))}
    if len(bound) > 1 or (version and bound - {version}):
        asked = f", and version says {version}" if version else ""
        return at.fail(
            f"the wheels are for Python {' and '.join(sorted(bound))}{asked}; a task has one"
        )
    if shipper.host.cache is None:
        return at.fail("there is no cache directory to put the packages together in")
    try:
        made = wheels.bundle([file.path for file in found], shipper.host.cache / "python")
        with shown_path(str(made), made):
            archive = shipper.described(made)
    except (CannotShip, wheels.PipFailed) as error:
        return at.fail(str(error))
    return Python(interpreter, Packages(PackageKind.SITE, archive, next(iter(bound), "")))
