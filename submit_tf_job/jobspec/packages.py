"""Read `python`: the interpreter in the image, and the packages that travel with the job."""

from __future__ import annotations

import re
from dataclasses import dataclass

from submit_tf_job.job import HostFile, Job, PackageKind, Packages
from submit_tf_job.specfile.nodes import clip
from submit_tf_job.specfile.shipping import CannotShip, Shipper, shown_path
from submit_tf_job.specfile.values import Section, Value
from submit_tf_job.specfile.vocabulary import PYTHON

__all__ = ["Python", "read_python"]

_INTERPRETER = re.compile(r"(?![0-9.]+$)[A-Za-z0-9_./+-]+")
_VERSION = re.compile(r"3\.(?:[7-9]|[1-9][0-9])")
_ENVIRONMENT = re.compile(r".+\.(tar\.gz|tgz|tar|zip)")  # what a NodeManager unpacks (FSDownload.unpack)
_EXPECTED = "the interpreter in the image, as in python3, or a mapping such as {requirements: requirements.txt}"


@dataclass(frozen=True)
class Python:
    """What the key says."""

    interpreter: str = Job.python
    packages: Packages | None = None


def read_python(value: Value, shipper: Shipper) -> Python | None:
    """Read the key: text is the interpreter."""
    if not value.is_mapping:
        interpreter = _interpreter(value)
        return None if interpreter is None else Python(interpreter)
    section = value.section(PYTHON, _EXPECTED)
    if section is None:
        return None
    interpreter = _interpreter_of(section)
    version = section.optional("version", _version) if section.has("version") else ""
    if interpreter is None or version is None:
        return None
    if section.has("environment"):
        others = sorted(section.keys & {"requirements", "wheels", "project", "version"})
        if others:
            return value.fail(f"environment is a whole Python of its own; it does not go with {' and '.join(others)}")
        file = section.optional("environment", lambda item: _environment(item, shipper))
        return None if file is None else Python(interpreter, Packages(PackageKind.ENVIRONMENT, file))
    if not section.keys & {"requirements", "wheels", "project"}:
        return Python(interpreter) if not version else value.fail("version says what packages are for; add requirements, wheels or project")
    from submit_tf_job.specfile import wheels  # only here: zipfile and subprocess would cost every start

    found = _wheels(section, shipper, version or wheels.HOST_VERSION)
    return None if found is None else _bundled(value, section, shipper, interpreter, found, version)


def _interpreter_of(section: Section) -> str | None:
    return section.optional("interpreter", _interpreter) if section.has("interpreter") else Job.python


def _interpreter(value: Value) -> str | None:
    return value.matching(_INTERPRETER, "is no interpreter; write its name or path, as in python3")


def _version(value: Value) -> str | None:
    return value.matching(_VERSION, 'is no version of Python; write it as in version: "3.11"')


def _environment(value: Value, shipper: Shipper) -> HostFile | None:
    file = shipper.find(value)
    if file is not None and not _ENVIRONMENT.fullmatch(file.path.name):
        return value.fail(f"{clip(file.path.name)} is no packed environment; conda-pack and venv-pack write a .tar.gz")
    if file is None:
        return None
    try:
        shipper.check(file, links=False)
    except CannotShip as error:
        return value.fail(f"{clip(file.path.name)}: {error}")
    return file


def _wheels(section: Section, shipper: Shipper, version: str) -> list[HostFile] | None:
    """Collect the wheels of all three keys."""
    found: list[HostFile] = []
    for key, reader in (("wheels", shipper.wheels), ("project", shipper.project)):
        if section.has(key):
            some = reader(section)
            if some is None:
                return None
            found += some
    if section.has("requirements"):
        resolved = section.optional("requirements", lambda item: _requirements(item, shipper, version))
        if resolved is None:
            return None
        found += resolved
    return found


def _requirements(value: Value, shipper: Shipper, version: str) -> list[HostFile] | None:
    from submit_tf_job.specfile import wheels

    file = shipper.find(value)
    if file is None:
        return None
    if shipper.host.cache is None:
        return value.fail("there is no cache directory to resolve it in")
    try:
        return [shipper.described(path) for path in wheels.resolve(file.path, version, shipper.host.cache / "python")]
    except wheels.PipFailed as error:
        return value.fail(f"{clip(file.path.name)} does not resolve for Python {version}: {error}")


def _bundled(value: Value, section: Section, shipper: Shipper, interpreter: str, found: list[HostFile], version: str) -> Python | None:
    from submit_tf_job.specfile import wheels

    bound = {needs for file in found if (needs := wheels.needs(file.path.name))}
    if len(bound) > 1 or (version and bound - {version}):
        asked = f", and version says {version}" if version else ""
        return value.fail(f"the wheels are for Python {' and '.join(sorted(bound))}{asked}; a task has one")
    if shipper.host.cache is None:
        return value.fail("there is no cache directory to put the packages together in")
    try:
        made = wheels.bundle([file.path for file in found], shipper.host.cache / "python")
        with shown_path(str(made), made):
            archive = shipper.described(made)
    except (CannotShip, wheels.PipFailed) as error:
        return section.value.fail(str(error))
    return Python(interpreter, Packages(PackageKind.SITE, archive, next(iter(bound), "")))
