"""Storage of files on HDFS (without Java), in object stores and on this machine, with one class and
one set of errors for all.

    hdfs://, viewfs://      hdfs-native (RPC and block protocol, no JVM)
    webhdfs://, swebhdfs:// fsspec's WebHDFS
    s3://, s3a://, …        fsspec's file system of that name, if its package is installed
    file://                 the operating system

Libraries are imported when a storage is opened.
"""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from submit_tf_job.container import untrusted
from submit_tf_job.container.hadoop import (
    addresses_of_webhdfs,
    default_authority,
    default_file_system,
    home_directory,
    web_addresses,
)
from submit_tf_job.errors import SettingsError, UsageError
from submit_tf_job.host.hadoopconf import HDFS, HadoopConfiguration, configuration, listed
from submit_tf_job.storage.base import (
    NoSuchPath,
    PathExists,
    RangeReader,
    Stat,
    Storage,
    join,
    uri_parts,
)

__all__ = [
    "NoDefaultFileSystem",
    "NoSuchPath",
    "PathExists",
    "RangeReader",
    "Stat",
    "Storage",
    "default_fs",
    "files_of",
    "hadoop_properties",
    "home_of",
    "is_own_hdfs",
    "open_storage",
    "uri_parts",
]
# hdfs://host:port, s3a://bucket, abfs://container@account.example.com, file:///, hdfs://[::1]:8020
_DEFAULT = re.compile(
    r"[a-zA-Z][\w+.-]*://(([\w.~-]+@)?([\w.~-]+|\[[\w:.%]+\])(:\d+)?)?(/\S*)?|file:/\S*"
)


class NoDefaultFileSystem(SettingsError):
    """The Hadoop configuration names no file system."""


def open_storage(
    uri: str | None = None,
    *,
    hadoop_conf: Path | None = None,
    user: str | None = None,
    as_proxy: bool = False,
    timeout_s: float = 60.0,
) -> Storage:
    """Open the storage of a URI, or of the cluster's default file system; no connection is made
    before the first use.

    Args:
        uri: `hdfs://nameservice1/any/path`, `hdfs:///path` (default file system), `s3://bucket`,
            `/local` … The path is ignored. None for `fs.defaultFS` of `hadoop_conf`.
        hadoop_conf: Directory of core-site.xml and hdfs-site.xml; HADOOP_CONF_DIR is not used.
        user: User for simple authentication; None for the login name (on HDFS, for
            HADOOP_USER_NAME if it is set). With Kerberos, the ticket determines the user.
        as_proxy: With Kerberos, impersonate `user` as a proxy user (doAs) through WebHDFS, because
            hdfs-native does not support proxy users. Without Kerberos this changes nothing.
        timeout_s: Limit of each single call to HDFS, in seconds; other storages have their own.

    Raises:
        UsageError: The URI is not valid, or incomplete.
        SettingsError: The Hadoop configuration cannot be read, or lacks `fs.defaultFS` where that
            is needed (`NoDefaultFileSystem`), or a package is missing.

    Example:
        >>> storage = open_storage("hdfs://namenode:8020", user="alice")  # doctest: +SKIP
        >>> storage.write("/user/alice/note", b"hello")  # doctest: +SKIP
    """
    scheme, authority, conf = _scheme_and_authority(uri, hadoop_conf)
    if scheme == "file":
        from submit_tf_job.storage.local_files import LocalStorage

        return LocalStorage()
    if not authority:
        raise UsageError(
            f"{uri}: names no host",
            hint=f"Write {scheme}://host:port, or give a Hadoop configuration whose default it is.",
        )
    # UserGroupInformation.isSecurityEnabled
    secure = conf.get("hadoop.security.authentication", "simple").lower() == "kerberos"
    proxied = as_proxy and secure
    addresses = addresses_of_webhdfs(scheme, authority, conf)
    is_service = authority in listed(conf, "dfs.nameservices")
    root = f"hdfs://{authority}" if is_service else None
    if scheme == "hdfs" and proxied:
        root = f"hdfs://{authority}"
        protocol, addresses = web_addresses(authority, conf)
        scheme = "swebhdfs" if protocol == "https" else "webhdfs"
        if not addresses:
            raise SettingsError(f"{root}: the Hadoop configuration names no web address of it")
        authority = authority if is_service else addresses[0]
    if scheme in ("hdfs", "viewfs"):
        from submit_tf_job.storage.hdfs import HdfsStorage

        return HdfsStorage(scheme, authority, conf=conf, user=user, timeout_s=timeout_s)
    if scheme in ("webhdfs", "swebhdfs"):
        from submit_tf_job.storage.webhdfs import WebHdfsStorage

        return WebHdfsStorage(
            scheme,
            authority,
            addresses,
            root=root,
            conf=conf,
            user=user,
            kerberos=secure,
            proxied=proxied,
            timeout_s=timeout_s,
        )
    from submit_tf_job.storage.objects import ObjectStorage

    return ObjectStorage(scheme, authority)


def _scheme_and_authority(
    uri: str | None, hadoop_conf: Path | None
) -> tuple[str, str, HadoopConfiguration]:
    """Return scheme and authority of a storage, and the Hadoop configuration; the configuration is
    empty for a storage that does not need it, and the authority for a URI without a host that the
    configuration does not complete.

    Raises:
        UsageError: The URI is not valid, or neither a URI nor a configuration is given.
        SettingsError: As `default_fs`.
    """
    if uri is None and hadoop_conf is None:
        raise UsageError(
            "no storage is named",
            hint="Name one (hdfs://namenode:8020), or give a Hadoop configuration directory.",
        )
    parts = uri_parts(uri or "")
    scheme, authority = parts.scheme or "file", parts.netloc
    is_hadoops = uri is None or scheme.endswith(("hdfs", "viewfs"))
    if hadoop_conf is None or not (is_hadoops or (scheme != "file" and not authority)):
        return scheme, authority, HadoopConfiguration({})
    conf = hadoop_properties(hadoop_conf)
    if uri is None or not authority:
        # `hdfs:///x` refers to the default file system, if it has that scheme
        default = urlsplit(_default_of(conf, hadoop_conf))
        if uri is None or default.scheme == scheme:
            scheme, authority = default.scheme or "file", default.netloc
    return scheme, authority, conf


# --- the Hadoop configuration ---------------------------------------------------------------------


def hadoop_properties(hadoop_conf: Path | None) -> HadoopConfiguration:
    """Return the properties of core-site.xml and hdfs-site.xml in a directory, as Hadoop's clients
    read them; none if `hadoop_conf` is None.

    Raises:
        SettingsError: The directory does not exist, or a file cannot be read.
    """
    if hadoop_conf is None:
        return HadoopConfiguration({})
    if not hadoop_conf.is_dir():
        raise SettingsError(
            f"{hadoop_conf}: no such directory", hint="Name the directory that holds core-site.xml."
        )
    return configuration(hadoop_conf, HDFS)


def default_fs(hadoop_conf: Path) -> str:
    """Return `fs.defaultFS` of a Hadoop configuration directory, without Java.

    Raises:
        SettingsError: core-site.xml does not set `fs.defaultFS` (`NoDefaultFileSystem`), or cannot
            be read, or the value is not an address or contains a variable that is not set.

    Example:
        >>> default_fs(Path("/etc/hadoop/conf"))  # doctest: +SKIP
        'hdfs://nameservice1'
    """
    return _default_of(hadoop_properties(hadoop_conf), hadoop_conf)


def home_of(hadoop_conf: Path, user: str) -> str:
    """Return the URI of a user's home on the default file system; raises the errors of
    `default_fs`.
    """
    conf = hadoop_properties(hadoop_conf)
    parts = urlsplit(_default_of(conf, hadoop_conf))
    home = home_directory(parts.scheme, parts.netloc, user, conf)
    return f"{parts.scheme}://{parts.netloc}{home}"


def _default_of(conf: HadoopConfiguration, directory: Path) -> str:
    found = default_file_system(conf)
    if not found:
        raise NoDefaultFileSystem(
            f"{directory / 'core-site.xml'}: fs.defaultFS is not set",
            hint="Name the storage itself, such as hdfs://namenode:8020.",
        )
    if variable := conf.unset_variable("fs.defaultFS"):
        raise SettingsError(
            f"{conf.origins['fs.defaultFS']}: fs.defaultFS has {variable}, which is not set here",
            hint="Set the variable, or name the storage itself, such as hdfs://namenode:8020.",
        )
    parts = untrusted.url_parts(found)
    # java.net.URI: Hadoop says "Illegal character in authority"
    if not (parts.scheme and _DEFAULT.fullmatch(found)):
        raise SettingsError(
            f"{conf.origins['fs.defaultFS']}: fs.defaultFS is {found!r}, which is not the address "
            "of a file system",
            hint="Write one, such as hdfs://namenode:8020, or name the storage itself.",
        )
    return found.rstrip("/") if parts.netloc else found


def is_own_hdfs(uri: str, hadoop_conf: Path | None) -> bool:
    """Return whether a URI refers to an HDFS that the Hadoop configuration names; a URI of HDFS
    without a host always does.

    Raises:
        SettingsError: As `hadoop_properties`.

    Example:
        >>> is_own_hdfs("hdfs:///data", None)
        True
    """
    parts = uri_parts(uri)
    if parts.scheme not in ("hdfs", "viewfs"):
        return False
    if not parts.netloc:
        return True
    if hadoop_conf is None:
        return False
    values = hadoop_properties(hadoop_conf)
    return parts.netloc == default_authority(values, parts.scheme) or (
        parts.scheme == "hdfs" and parts.netloc in listed(values, "dfs.nameservices")
    )


# --- files that match a pattern -------------------------------------------------------------------


_MAGIC = re.compile(r"[*?\[]")


def files_of(storage: Storage, path: str, most: float = math.inf) -> list[Stat]:
    """List the files that match a path or a pattern, sorted by path.

    Names that start with `_` or `.` are skipped, as in Hadoop (FileInputFormat.hiddenFileFilter),
    unless the matching component of the pattern starts with one of them.

    Args:
        storage: The storage to search.
        path: A file; a directory, for all files below it; or a pattern with `*`, `?` and `[…]`,
            each of which matches within one path component.
        most: The largest number of files and directories that may be listed in order to find the
            files.

    Raises:
        UsageError: There are more files and directories than `most`.
        NoSuchPath: The path does not exist; or, for a pattern, the directory before its first
            wildcard. For any other pattern without a match, an empty list is returned.

    Example:
        >>> [file.name for file in files_of(storage, "/data/*.tfrecord")]  # doctest: +SKIP
        ['train-0.tfrecord', 'train-1.tfrecord']
    """
    path, seen = storage.path(path), 0

    def listed(directory: str) -> list[Stat]:
        nonlocal seen
        children = storage.list_dir(directory)
        seen += 1 + len(children)
        if seen > most:
            raise UsageError(f"more than {most} files and directories would be listed for it")
        return children

    todo = _matching_files(storage, path, listed) if _MAGIC.search(path) else [storage.stat(path)]
    files = []
    while todo:
        top = todo.pop()
        if top.is_dir:
            todo += (item for item in listed(top.path) if not _is_hidden(item.name))
        else:
            files.append(top)
    return sorted(files, key=lambda file: file.path)


def _is_hidden(name: str) -> bool:
    return name.startswith(("_", "."))


def _matching_files(
    storage: Storage, pattern: str, listed: Callable[[str], list[Stat]]
) -> list[Stat]:
    """Return the files that match a pattern. It is matched one component after another; the
    components before the first wildcard are one step.
    """
    parts = pattern.strip("/").split("/")
    plain = next(number for number, part in enumerate(parts) if _MAGIC.search(part))
    found = [storage.stat(f"/{'/'.join(parts[:plain])}")]
    for part in parts[plain:]:
        nearer: list[Stat] = []
        for item in found:
            if not item.is_dir:
                continue
            if _MAGIC.search(part):
                nearer += (
                    child
                    for child in listed(item.path)
                    if fnmatch.fnmatchcase(child.name, part)
                    and (_is_hidden(part) or not _is_hidden(child.name))
                )
            elif (child := storage.stat_or_none(join(item.path, part))) is not None:
                nearer.append(child)
        found = nearer
    return found
