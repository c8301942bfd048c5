"""Read `python`: the interpreter in the image, and the packages that are sent with the job."""

from __future__ import annotations

import re

from submit_tf_job.jobspec.files import CannotShip, Shipper, shown_path
from submit_tf_job.jobspec.job import HostFile, Job, PackageKind, Packages, Python
from submit_tf_job.jobspec.keys import PYTHON
from submit_tf_job.jobspec.nodes import clip
from submit_tf_job.jobspec.sections import Section
from submit_tf_job.jobspec.values import Value

__all__ = ["read_python"]

# archives that a NodeManager unpacks (FSDownload.unpack)
_ENVIRONMENT = re.compile(r".+\.(tar\.gz|tgz|tar|zip)")


def read_python(
    value: Value, shipper: Shipper, interpreter: str | None = Job.python
) -> Python | None:
    """Return the value of the key; text is the interpreter.

    Args:
        value: The value.
        shipper: Reads files of this host.
        interpreter: The interpreter of a mapping that names none.
    """
    if not value.is_mapping:
        interpreter = PYTHON.rows["interpreter"].kind.read(value)
        return None if interpreter is None else Python(interpreter)
    section = Section.of(value, PYTHON)
    if section is None:
        return None
    interpreter = section.read("interpreter") if section.has("interpreter") else interpreter
    version = section.read("version") if section.has("version") else ""
    if interpreter is None or version is None:
        return None
    if section.has("environment"):
        others = sorted(section.stated & {"requirements", "wheels", "project", "version"})
        if others:
            return value.fail(
                f"environment is a whole Python of its own; it does not go with "
                f"{' and '.join(others)}"
            )
        file = section.read("environment", lambda item: _environment(item, shipper))
        return (
            None if file is None else Python(interpreter, Packages(PackageKind.ENVIRONMENT, file))
        )
    if not section.stated & {"requirements", "wheels", "project"}:
        return (
            Python(interpreter)
            if not version
            else value.fail(
                "version says what packages are for; add requirements, wheels or project"
            )
        )
    # imported here: zipfile and subprocess would slow down every start
    from submit_tf_job.jobspec import wheels

    found = _wheels(section, shipper, version or wheels.HOST_VERSION)
    return None if found is None else _bundled(value, section, shipper, interpreter, found, version)


def _environment(value: Value, shipper: Shipper) -> HostFile | None:
    file = shipper.find(value)
    if file is not None and not _ENVIRONMENT.fullmatch(file.path.name):
        return value.fail(
            f"{clip(file.path.name)} is not a packed environment; conda-pack and venv-pack "
            f"write a .tar.gz"
        )
    if file is None:
        return None
    try:
        shipper.check(file, links=False)
    except CannotShip as error:
        return value.fail(f"{clip(file.path.name)}: {error}")
    return file


def _wheels(section: Section, shipper: Shipper, version: str) -> list[HostFile] | None:
    """Return the wheels of all three keys."""
    found: list[HostFile] = []
    for key, reader in (("wheels", shipper.wheels), ("project", shipper.project)):
        if section.has(key):
            some = reader(section)
            if some is None:
                return None
            found += some
    if section.has("requirements"):
        resolved = section.read("requirements", lambda item: _requirements(item, shipper, version))
        if resolved is None:
            return None
        found += resolved
    return found


def _requirements(value: Value, shipper: Shipper, version: str) -> list[HostFile] | None:
    from submit_tf_job.jobspec import wheels

    file = shipper.find(value)
    if file is None:
        return None
    if shipper.host.cache is None:
        return value.fail("there is no cache directory to resolve it in")
    try:
        return [
            shipper.described(path)
            for path in wheels.resolve(file.path, version, shipper.host.cache / "python")
        ]
    except wheels.PipFailed as error:
        return value.fail(f"{clip(file.path.name)} does not resolve for Python {version}: {error}")


def _bundled(
    value: Value,
    section: Section,
    shipper: Shipper,
    interpreter: str,
    found: list[HostFile],
    version: str,
) -> Python | None:
    from submit_tf_job.jobspec import wheels

    bound = {needs for file in found if (needs := wheels.needs(file.path.name))}
    if len(bound) > 1 or (version and bound - {version}):
        asked = f", and version says {version}" if version else ""
        return value.fail(
            f"the wheels are for Python {' and '.join(sorted(bound))}{asked}; a task has one"
        )
    if shipper.host.cache is None:
        return value.fail("there is no cache directory to put the packages together in")
    try:
        made = wheels.bundle([file.path for file in found], shipper.host.cache / "python")
        with shown_path(str(made), made):
            archive = shipper.described(made)
    except (CannotShip, wheels.PipFailed) as error:
        return section.value.fail(str(error))
    return Python(interpreter, Packages(PackageKind.SITE, archive, next(iter(bound), "")))
