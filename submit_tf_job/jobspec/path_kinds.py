"""The kinds of values that name a file or directory: on this host, on the nodes, or as a URI."""

from __future__ import annotations

import posixpath
import re

from submit_tf_job.host.located.tree import closest
from submit_tf_job.host.quoting import clip
from submit_tf_job.jobspec.job import PATTERN, Mount
from submit_tf_job.jobspec.kinds import Kind, matching, text

SCHEMES = ("hdfs", "viewfs", "webhdfs", "swebhdfs", "file", "s3", "s3a", "gs", "abfs", "abfss")
_IS_HDFS = ("hdfs", "webhdfs", "swebhdfs")
_WITH_DIRECTORIES = SCHEMES[:5]  # in the name of an object `//` is part of the name
_WITH_HOST = (*SCHEMES[2:4], *SCHEMES[5:])
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/\s]*)(/.*)?", re.DOTALL)
ON_HDFS = ("hdfs", "viewfs")
ON_THE_WEB = ("https", "http")
CONF_ARCHIVE = re.compile(r"hdfs://\S+\.(zip|tar\.gz|tgz)")
REMOTE_KEYTAB = re.compile(r"hdfs://\S+|file:///[^\s:,]+")
# what a NodeManager writes beside a task's files (ContainerLaunch, DefaultContainerExecutor)
_OF_YARN = frozenset(
    (
        "container_tokens",
        "default_container_executor.sh",
        "default_container_executor_session.sh",
        "launch_container.sh",
    )
)
_LONGEST_NAME = 1024
_MOST_LEVELS = 50

# --- files of this host ---


def _local_path(path: str) -> str:
    if "://" in path:
        raise ValueError(
            f"{without_secrets(path)} is not a file on this host; read it from the program, or "
            f"download it first"
        )
    return path


def _make_source(path: str) -> str:
    scheme, is_uri, _ = path.partition("://")
    if is_uri and scheme not in (*ON_HDFS, *ON_THE_WEB):
        raise ValueError(
            f"{without_secrets(path)} is not a file on this host, nor hdfs:// or https://; read "
            f"it from the program, or download it first"
        )
    return path


def without_secrets(uri: str) -> str:
    """Return a URI for messages, without secrets that it may contain."""
    from submit_tf_job.host.download import shown_url

    return clip(shown_url(uri))


def _make_destination(name: str) -> str:
    clean = posixpath.normpath(name)
    is_elsewhere = clean.startswith(("/", "..", "~/")) or "://" in name
    if is_elsewhere or not name.isprintable() or len(name) > _LONGEST_NAME:
        raise ValueError(
            f"{clip(name)} does not lie in the task's working directory; write a short "
            f"relative path without '..'"
        )
    if clean.count("/") >= _MOST_LEVELS:
        raise ValueError(f"{clip(name)} has more than {_MOST_LEVELS} levels; write a shorter path")
    first = clean.partition("/")[0]
    if first.startswith(".tfjob-") or first in _OF_YARN:
        raise ValueError(
            f"{clip(first)} is a name that YARN or the bootstrap uses in the task's working "
            f"directory; choose another"
        )
    return clean


LOCAL_PATH = text("a path", "path", _local_path, pattern=r"^(?!.*://)(?=.*\S)")
SOURCE = text(
    "a path", "path or URI", _make_source, pattern=r"^((?!.*://)(?=.*\S)|(hdfs|viewfs|https?)://\S)"
)
DESTINATION = text(
    "a relative path", "path", _make_destination, pattern=r"^(?!/)(?=.*\S)", maxLength=_LONGEST_NAME
)

# --- mounts and configuration ---


def _make_mount(written: str) -> Mount:
    parts = written.split(":")
    if len(parts) not in (2, 3) or not all(parts):
        raise ValueError(
            f"{clip(written)} is not a valid mount; write "
            f"/path/on/the/node:/path/in/the/container, with :rw to write there"
        )
    source, target, mode = (*parts, "ro")[:3]
    if mode not in ("ro", "rw"):
        raise ValueError(
            f"unknown mode {clip(mode)}; it is ro (to read, the default) or rw (to write, too)"
        )
    # OCIContainerRuntime.USER_MOUNT_PATTERN has no escape
    for side in (source, target):
        if "," in side:
            raise ValueError(f"{clip(side)} has a comma, which YARN's list of mounts cannot hold")
        if not side.startswith("/") or ".." in side.split("/"):
            raise ValueError(
                f"{clip(side)} is not an absolute path without '..'; write it out from /"
            )
    if posixpath.normpath(target) == "/":
        raise ValueError(
            "the container's root '/' cannot be a mount's target; name a directory below it"
        )
    return Mount(source, target, read_only=mode == "ro")


MOUNT = text(
    "a mount such as /data:/data:ro",
    "mounts",
    _make_mount,
    pattern="^/[^:]*:/[^:]*[^:/][^:]*(:(ro|rw))?$",
)


HADOOP_CONF = matching(
    # a node's path becomes a mount: YARN's list of mounts has no escape for colons and commas
    rf"(inline|{CONF_ARCHIVE.pattern}|/(?!(.*/)?\.\.(/|$))[^:,\s]*)",
    "is none of inline, hdfs://….zip (or .tar.gz, .tgz), /directory/on/the/nodes",
    "`inline`, a URI or a path",
)
KEYTAB = matching(
    # ServiceClient.addKeytabResourceIfSecure supports these two schemes; with any other the AM
    # gets no keytab, and only logs that
    r"(hdfs://\S+|file:///[^\s:,]+|(?![a-z][a-z0-9+.-]*:).+)",
    "is not a keytab that YARN can fetch; write hdfs:///path, file:///path (on every node), or "
    "the path of one here",
    "URI or path",
)
KRB5_CONF = matching(
    r"(inline|none|/(?!(.*/)?\.\.(/|$))[^\s:,]+)",
    "is none of inline, /path/on/the/nodes, none (what the image has)",
    "`inline`, `none` or a path",
    expected="inline, none, or a file of the nodes",
)

# --- URIs of data ---


def _make_uri(written: str) -> str:
    found = _URI.fullmatch(written)
    if found is None:
        meant = clip(f"hdfs:///{re.sub('^(hdfs:)?/*([.]/)?', '', written)}")[1:-1]
        raise ValueError(
            f"{clip(written)} does not say which file system; write {meant}, or file://…"
        )
    scheme, authority, path = found[1], found[2], (found[3] or "").rstrip("/")
    parts = path.split("/")
    if scheme in _WITH_DIRECTORIES:
        # HDFS takes no path with an empty part, as of "$DIR/$NAME" where DIR ends in /
        path = "".join(f"/{part}" for part in parts if part not in ("", "."))
    if scheme not in SCHEMES:
        near = closest(scheme.lower(), SCHEMES)
        meant = f"did you mean {near}://?" if near else f"known are {', '.join(SCHEMES)}"
        raise ValueError(f"{clip(written)}: unknown file system '{scheme}'; {meant}")
    if placeholder := re.search(r"\{\w*\}|\$\{?\w+\}?", written):
        raise ValueError(
            f"{clip(written)}: nothing fills in {placeholder[0]}; write the place itself, or give "
            "it by --set, where a shell fills it in"
        )
    if ":" in authority.rpartition("@")[0]:
        raise ValueError(f"{clip(written)} has a password, and a job spec holds none; leave it out")
    if not path or ".." in parts or "\n" in path:
        raise ValueError(
            f"{clip(written)} names no file or directory; write the path from the root, "
            f"without '..'"
        )
    if scheme == "file" and authority not in ("", "localhost"):
        raise ValueError(
            f"{clip(written)} names a host; a file of this kind is written with three "
            f"slashes, as in file:///{authority}{path}"
        )
    if scheme not in ("hdfs", "viewfs", "file") and not authority:
        raise ValueError(f"{clip(written)} names no host or bucket; write {scheme}://…{path}")
    return f"{scheme}://{authority}{path}"


def _plain_uri(written: str) -> str:
    uri = _make_uri(written)
    if PATTERN.search(uri):
        raise ValueError(
            f"{clip(uri)} is a pattern, and an output has one name; leave '*', '?' and '[' out"
        )
    scheme, _, rest = uri.partition("://")
    names = rest.split("/")[1:] if scheme in _IS_HDFS else []
    refused = next((name for name in names if not _is_name_on_hdfs(name)), None)
    if refused is not None:
        raise ValueError(
            f"{clip(uri)}: HDFS accepts no name such as {clip(refused)}: none with a colon, none "
            "of more than 255 bytes, and not .snapshot"
        )
    return uri


def _is_name_on_hdfs(name: str) -> bool:
    """Return whether HDFS accepts a name (DFSUtilClient.isValidName, FSDirectory)."""
    size = len(name.encode("utf-8", "surrogatepass"))
    return ":" not in name and size <= 255 and name != ".snapshot"


URI = text(
    "a URI, as in hdfs:///data/train",
    "a URI",
    _make_uri,
    definition="uri",
    pattern=r"^(?!.*/\.\.(/|$))((hdfs|viewfs)://[^/\s]*|file://(localhost)?|"
    rf"({'|'.join(_WITH_HOST)})://[^/\s]+)/+[^/\n][^\n]*$",
)
PLAIN_URI = Kind(
    ("string",),
    "a URI",
    {
        "allOf": [
            URI.reference,
            {"pattern": "^[^*?[]*$"},
            {"not": {"pattern": rf"^({'|'.join(_IS_HDFS)})://[^/]*/.*:"}},
        ]
    },
    _plain_uri,
    URI.expected,
    definition="plainUri",
)
