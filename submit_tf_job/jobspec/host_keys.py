"""Read the keys that name things of this host: `hadoop`, `kerberos` and `python`."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from submit_tf_job.container import keytab
from submit_tf_job.errors import SettingsError
from submit_tf_job.host.hadoopconf import content_for_containers
from submit_tf_job.host.located.tree import Where
from submit_tf_job.host.quoting import clip
from submit_tf_job.host.user_files import named_reason, open_input, read_input, reason
from submit_tf_job.jobspec.files import HADOOP_FILES, CannotShip, Host, Shipper, shown_path
from submit_tf_job.jobspec.job import (
    HadoopConf,
    HostFile,
    Job,
    Kerberos,
    Krb5Conf,
    OwnLogin,
    PackageKind,
    Packages,
    Python,
    ShippedFile,
)
from submit_tf_job.jobspec.path_kinds import CONF_ARCHIVE, REMOTE_KEYTAB

_MAX_BYTES = 64 * 1024
_MAX_LEVELS = 10
_INCLUDE = re.compile(r"(include|includedir)[ \t]+(\S.*)")
# profile_parse in MIT's prof_parse.c ignores other names of a directory
_INCLUDED = re.compile(r"[A-Za-z0-9_-]+|[^.].*\.conf")
_SECTION = re.compile(r"\[[^\]]+\]\*?")
# archives that a NodeManager unpacks (FSDownload.unpack)
_ENVIRONMENT = re.compile(r".+\.(tar\.gz|tgz|tar|zip)")


def read_hadoop(conf: str, at: Where, host: Host) -> HadoopConf | None:
    """Return the configuration that the key `conf` names. For `inline` the configuration of this
    host is read; if that fails, report it and return None. A gateway's caller gets it without its
    secrets.

    Args:
        conf: The value of the key.
        at: The key's path.
        host: The files of this host, for `conf: inline`.
    """
    if conf == "inline":
        files = _inline_files(at, host)
        return None if files is None else HadoopConf("inline", files=files)
    return HadoopConf("archive" if CONF_ARCHIVE.fullmatch(conf) else "node", conf)


def _inline_files(at: Where, host: Host) -> tuple[ShippedFile, ...] | None:
    directory, secrets = host.hadoop_conf, host.base is not None
    if directory is None:
        return at.fail(
            "inline needs a Hadoop configuration on this host, and none is known; "
            "set HADOOP_CONF_DIR, or name an archive on HDFS or a directory of the nodes"
        )
    try:
        found = tuple(
            ShippedFile(name, content_for_containers(directory, name, secrets=secrets))
            for name in HADOOP_FILES
            if (directory / name).is_file()
        )
    except OSError as error:
        return at.fail(f"{error.filename} cannot be read: {error.strerror}")
    except SettingsError as error:
        return at.fail(str(error))
    if not found:
        return at.fail(
            f"{directory} holds none of {', '.join(HADOOP_FILES)}; point HADOOP_CONF_DIR "
            f"to the directory that does"
        )
    return found


# --- kerberos -------------------------------------------------------------------------------------


def read_kerberos(values: Mapping[str, Any], at: Where, host: Host) -> Kerberos | None:
    """Return the value of the key `kerberos`. If it names a keytab of this host, read the keytab,
    and check its permissions and its principal.

    Args:
        values: The mapping; an invalid member is None.
        at: The key's path.
        host: The files of this host.

    Returns:
        The value; None if `principal`, `keytab` or `krb5_conf` is invalid. A keytab that cannot be
        used is reported, and only its content is missing.
    """
    principal, written = values.get("principal"), values.get("keytab")
    content = _content_of_keytab(written, at.member("keytab"), host, principal) if written else None
    krb5_conf = _krb5_conf(values, at, host)
    login = values.get("login") or OwnLogin.AUTO
    if principal is None or written is None or krb5_conf is None:
        return None
    return Kerberos(principal, written, content, krb5_conf, login)


# --- the keytab ---


def _content_of_keytab(written: str, at: Where, host: Host, principal: str | None) -> bytes | None:
    """Return the bytes of a keytab of this host. Return None for a keytab that is elsewhere, and
    for a keytab that cannot be used, which is reported.
    """
    if REMOTE_KEYTAB.fullmatch(written):
        return None
    if host.base is None:
        return at.fail("keytabs of this host are not read here; put it on HDFS, or on every node")
    content = _read_keytab(at, written, host.base / written)
    if content is None:
        return None
    why = keytab.find_problem(content, principal) if principal else ""
    return at.fail(f"{clip(written)} cannot be used: {why}") if why else content


def _read_keytab(at: Where, shown: str, path: Path) -> bytes | None:
    """Return the content of a keytab of this host. If the file cannot be read, is too large, or may
    be read or written by other users, report that and return None. The permissions are checked on
    the opened file.
    """
    try:
        with open_input(path) as file:
            found = os.fstat(file.fileno())
            content = file.read(keytab.LONGEST + 1)
    except FileNotFoundError:
        return at.fail(
            f"{clip(shown)}: no such file on this host ({_absolute_path(path)}); "
            "for one on HDFS write hdfs:///path, for one on every node file:///path"
        )
    except (OSError, ValueError) as error:  # also a NUL in the path
        return at.fail(f"{clip(shown)}: cannot be read: {reason(error)}")
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        return at.fail(
            f"{clip(shown)}: others can read or change it (mode {mode:04o}), and every "
            f"reader can log in as its principal; chmod 600 {_absolute_path(path)}"
        )
    if len(content) > keytab.LONGEST:
        return at.fail(f"{clip(shown)}: larger than {keytab.LONGEST // 1024} KiB; no keytab is")
    return content


def _absolute_path(path: Path) -> str:
    """Return an absolute path; it is quoted if it contains characters that a terminal would
    interpret.
    """
    text = str(path.absolute())
    return text if text.isprintable() else clip(text)


# --- krb5.conf ---


def _krb5_conf(values: Mapping[str, Any], at: Where, host: Host) -> Krb5Conf | None:
    here = host.krb5_conf and host.base is not None
    if "krb5_conf" not in values:
        at.notes.default(at.member("krb5_conf").path)
        return _inline_krb5_conf(at, host) if here else Krb5Conf()
    conf = values["krb5_conf"]
    if conf is None:
        return None
    if conf == "none":
        return Krb5Conf()
    if conf != "inline":
        return Krb5Conf("node", conf)
    if not here:
        return at.fail(
            "inline needs a krb5.conf on this host, and none is known; "
            "set kerberos.krb5_conf in the settings, or write the path of one on the "
            "nodes, or none",
            "krb5_conf",
        )
    return _inline_krb5_conf(at.member("krb5_conf"), host)


def _inline_krb5_conf(at: Where, host: Host) -> Krb5Conf | None:
    try:
        return Krb5Conf("inline", content=_merged_krb5_conf(host.krb5_conf))
    except (OSError, ValueError) as error:
        why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        return at.fail(f"krb5.conf of this host cannot be sent: {why}; krb5_conf can say otherwise")


def _merged_krb5_conf(paths: Iterable[Path]) -> bytes:
    """Return the content of one krb5.conf; if there are several, merge them in the order of
    KRB5_CONFIG: the first value of a key counts.

    Included files are merged, too: a container does not have the directories that a host's
    krb5.conf includes, and MIT's library refuses a file if an `includedir` in it does not exist.

    Raises:
        OSError: A file cannot be read.
        ValueError: The files are too large, include each other, or are not text.
    """
    content = "".join(f"{line}\n" for path in paths for line in _krb5_lines(path, 0)).encode()
    if len(content) > _MAX_BYTES:
        raise ValueError(
            f"with what it includes it has {len(content)} bytes; the most is {_MAX_BYTES}"
        )
    return content


def _krb5_lines(path: Path, level: int) -> Iterator[str]:
    if level > _MAX_LEVELS:
        raise ValueError(f"{path} is included more than {_MAX_LEVELS} levels deep")
    section = ""
    for raw in read_input(path).decode("utf-8").splitlines():
        line = raw.strip()
        if not line or line.startswith(("#", ";")):
            continue
        found = _INCLUDE.fullmatch(line)
        if found:
            for included in _included_files(found[1], Path(found[2])):
                yield from _krb5_lines(included, level + 1)
            if section:  # the included file may end in another section
                yield section
            continue
        if _SECTION.fullmatch(line):
            section = line
        yield line


def _included_files(word: str, path: Path) -> list[Path]:
    if word == "include":
        return [path]
    return sorted(
        item for item in path.iterdir() if _INCLUDED.fullmatch(item.name) and item.is_file()
    )


# --- python ---------------------------------------------------------------------------------------


def read_python(
    values: Mapping[str, Any], at: Where, shipper: Shipper, interpreter: str | None = Job.python
) -> Python | None:
    """Return the value of the key `python`; None if it is invalid, which is reported. This may run
    pip to resolve requirements and to build a project.

    Args:
        values: The mapping; a wrong value in it is None. If the value is only a text, it is the
            interpreter.
        at: The key's path.
        shipper: Reads files of this host.
        interpreter: The interpreter, if the mapping names none.
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
        packages = _packed_environment(values["environment"], at.member("environment"), shipper)
    elif bundled:
        packages = _bundled_wheels(values, at, shipper, version)
    elif version:
        return at.fail("version says what packages are for; add requirements, wheels or project")
    else:
        return Python(interpreter)
    return None if packages is None else Python(interpreter, packages)


def _packed_environment(src: str | None, at: Where, shipper: Shipper) -> Packages | None:
    file = shipper.find(src, at) if src else None
    if file is None:
        return None
    if not _ENVIRONMENT.fullmatch(file.path.name):
        return at.fail(
            f"{clip(file.path.name)} is not a packed environment; conda-pack and venv-pack "
            f"write a .tar.gz"
        )
    try:
        shipper.check(file, links=False)
    except CannotShip as error:
        return at.fail(f"{clip(file.path.name)}: {error}")
    return Packages(PackageKind.ENVIRONMENT, file)


def _all_wheels(
    values: Mapping[str, Any], at: Where, shipper: Shipper, version: str
) -> list[HostFile] | None:
    lists: list[list[HostFile] | None] = []
    if "wheels" in values:
        lists.append(shipper.wheels(values, at))
    if "project" in values:
        lists.append(shipper.project(values, at))
    if "requirements" in values:
        where = at.member("requirements")
        lists.append(_required_wheels(values["requirements"], where, shipper, version))
    return None if None in lists else [file for found in lists for file in found or ()]


def _required_wheels(
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
        base, cache = shipper.host.base or Path(), shipper.host.cache / "python"
        found = wheels.resolve(file.path, version, base, cache, shipper.sources_of)
        return [shipper.described(path) for path in found]
    except (CannotShip, wheels.PipFailed) as error:
        why = str(error)
    except OSError as error:
        why = named_reason(error)
    return at.fail(f"{clip(file.path.name)} does not resolve for Python {version}: {why}")


def _bundled_wheels(
    values: Mapping[str, Any], at: Where, shipper: Shipper, version: str
) -> Packages | None:
    # imported here: zipfile and subprocess would slow down every start
    from submit_tf_job.jobspec import wheels

    found = _all_wheels(values, at, shipper, version or wheels.HOST_VERSION)
    if found is None:
        return None
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
    except OSError as error:
        return at.fail(f"the packages cannot be put together: {named_reason(error)}")
    names = tuple(file.path.name for file in found)
    return Packages(PackageKind.SITE, archive, next(iter(bound), ""), names)
