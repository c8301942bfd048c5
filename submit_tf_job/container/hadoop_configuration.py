"""Read Hadoop's XML configuration files by the rules of its own classes, without Java.

The rules are those of Hadoop 3.4.2: org.apache.hadoop.conf.Configuration (`Parser`, `loadProperty`,
`substituteVars`, `handleDeprecation`), and the order in which YarnConfiguration and
HdfsConfiguration add their files. `tests/cluster/test_configuration.py` compares this reader with
those classes.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator
from typing import (
    TYPE_CHECKING,
    Callable,
    Mapping,
)  # Python 3.6 cannot subscript those of collections.abc
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

CORE, HDFS, YARN = "core", "hdfs", "yarn"
FILES = {
    CORE: ("core-site.xml",),
    HDFS: ("hdfs-site.xml", "hdfs-rbf-site.xml"),
    YARN: ("yarn-site.xml",),
}
SUBSTITUTIONS = 20  # Configuration.MAX_SUBST
LEVELS = 20  # of files that include each other; Hadoop ends with a StackOverflowError
SPACE = "".join(map(chr, range(33)))  # what Java's String.trim() cuts; no-break spaces stay
VARIABLE = re.compile(r"\$\{([^} $]+)\}")  # Configuration.findSubVariable
# Deprecated names of the keys that this package reads: Configuration.defaultDeprecations,
# HdfsConfiguration.addDeprecatedKeys.
NEW_NAMES = {
    "fs.default.name": "fs.defaultFS",
    "dfs.federation.nameservices": "dfs.nameservices",
    "dfs.http.address": "dfs.namenode.http-address",
    "dfs.https.address": "dfs.namenode.https-address",
}
# Values of Hadoop's own files: of the keys that this package reads, and that files refer to.
# hdfs-default.xml and yarn-default.xml are loaded after core-site.xml: what core-site.xml says of
# their keys counts only if it is final.
DEFAULTS = {
    CORE: {"fs.defaultFS": "file:///", "hadoop.tmp.dir": "/tmp/hadoop-${user.name}"},  # noqa: S108
    HDFS: {
        "dfs.http.policy": "HTTP_ONLY",
        "dfs.namenode.delegation.token.max-lifetime": "604800000",
        "dfs.namenode.http-address": "0.0.0.0:9870",
        "dfs.namenode.https-address": "0.0.0.0:9871",
        "dfs.user.home.dir.prefix": "/user",
    },
    YARN: {
        "yarn.http.policy": "HTTP_ONLY",
        "yarn.log-aggregation-enable": "false",
        "yarn.log-aggregation.retain-seconds": "-1",
        "yarn.nodemanager.remote-app-log-dir": "/tmp/logs",  # noqa: S108
        "yarn.nodemanager.remote-app-log-dir-suffix": "logs",
        "yarn.resourcemanager.ha.enabled": "false",
        "yarn.resourcemanager.hostname": "0.0.0.0",  # noqa: S104
        "yarn.resourcemanager.placement-constraints.handler": "disabled",
        "yarn.resourcemanager.webapp.address": "${yarn.resourcemanager.hostname}:8088",
        "yarn.resourcemanager.webapp.https.address": "${yarn.resourcemanager.hostname}:8090",
    },
}
_TEXTS = frozenset(("name", "value", "final", "source", "tag"))


class BadConfiguration(ValueError):
    """Hadoop's own classes could not read the configuration; the text of the error names the
    file.
    """


class HadoopConfiguration(Mapping[str, str]):
    """The properties of a configuration directory: name → value, with variables expanded.

    If a variable in a value is not set, the value keeps `${…}` as text, as in Hadoop. The defaults
    in Hadoop's own files (core-default.xml and others) are not included; they are only used to
    expand variables.

    Attributes:
        raw: Name → value as it is written in the file.
        origins: Name → path of the file that sets it.
        problems: The `BadConfiguration` texts of files that were left out.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Begin an empty configuration; `environ` are the variables of `${env.NAME}`."""
        self.raw: dict[str, str] = {}
        self.origins: dict[str, str] = {}
        self.problems: list[str] = []
        self._finals: set[str] = set()
        self._environ = environ
        self._defaults: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        """Return the value of a key, or of its deprecated name, without white space around it
        (Configuration.getTrimmed).
        """
        return self._with_variables(self.raw[NEW_NAMES.get(name, name)]).strip(SPACE)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self.raw)

    def __len__(self) -> int:
        """Return the number of properties."""
        return len(self.raw)

    def unset_variable(self, name: str) -> str:
        """Return the first `${NAME}` that is still in the value of a key; "" if there is none."""
        found = VARIABLE.search(self.get(name, ""))
        return found.group(0) if found else ""

    def begin(self, part: str) -> None:
        """Apply the defaults of a part (`CORE`, `HDFS`, `YARN`), which Hadoop loads before the
        part's own files: they replace values of earlier files that are not final.
        """
        self._defaults.update(DEFAULTS[part])
        for name in set(DEFAULTS[part]) - self._finals:
            self.raw.pop(name, None)

    def add(self, items: list[tuple[str, str | None, bool]], path: str) -> None:
        """Add the properties of one file, as `read_file` returns them (Configuration.loadProperty).
        A property that an earlier file made final is not replaced.
        """
        for written, value, final in items:
            name = NEW_NAMES.get(written, written)
            if value is not None and name not in self._finals:
                self.raw[name], self.origins[name] = value, path
            if final:
                self._finals.add(name)

    def _with_variables(self, text: str) -> str:
        """Expand variables in a text (Configuration.substituteVars). Return the text unchanged if
        its variables refer to each other in a loop, or are nested too deeply.
        """
        value = text
        for _ in range(SUBSTITUTIONS):
            found = VARIABLE.search(value)
            known = self._value_of_variable(found.group(1)) if found else None
            if found is None or known is None:
                return value
            if found.group(0) in known:  # a loop
                return text
            value = value[: found.start()] + known + value[found.end() :]
        return text  # Hadoop raises an exception at each use of it

    def _value_of_variable(self, name: str) -> str | None:
        """Return the value of a variable: an environment variable, a system property of Java, or a
        key; None if it is not set.
        """
        if name.startswith("env.") and name != "env.":
            found = from_environment(name[4:], self._environ)
        else:
            found = _system_property(name)
        if found is not None:
            return found
        key = NEW_NAMES.get(name, name)
        return self.raw.get(key, self._defaults.get(key))


def is_true(conf: Mapping[str, str], name: str) -> bool:
    """Return whether the value of a key is "true" (Configuration.getBoolean)."""
    return conf.get(name, "").lower() == "true"


def listed(conf: Mapping[str, str], name: str) -> list[str]:
    """Return the items in the value of a key, which are separated by commas or line ends, each item
    once (Configuration.getTrimmedStringCollection).
    """
    items = (item.strip(SPACE) for item in re.split("[,\\n]", conf.get(name, "")))
    return list(dict.fromkeys(filter(None, items)))


def from_environment(text: str, environ: Mapping[str, str]) -> str | None:
    """Return the value of `NAME`, `NAME-default` (the default if NAME is not set) or
    `NAME:-default` (the default if NAME is not set or empty), the forms that `${env.…}` has; None
    if NAME is not set and there is no default.
    """
    found = re.search(r":-|-", text)
    if found is None:
        return environ.get(text)
    value, default = environ.get(text[: found.start()]), text[found.end() :]
    if value is None or (found.group(0) == ":-" and not value):
        return default
    return value


def _system_property(name: str) -> str | None:
    """Return the value of a Java system property, if it is one of those that configuration files
    use; None for any other.
    """
    if name in ("user.name", "user.home"):
        try:
            entry = pwd.getpwuid(os.getuid())
        except KeyError:
            return None
        return entry.pw_name if name == "user.name" else entry.pw_dir
    return {"java.io.tmpdir": "/tmp", "user.dir": os.getcwd()}.get(name)  # noqa: S108 - Java's own


def read_content(path: str) -> bytes:
    """Return the content of a file."""
    with open(path, "rb") as file:
        return file.read()


def read_directory(
    directory: str,
    *parts: str,
    environ: Mapping[str, str],
    lenient: bool = False,
    read: Callable[[str], bytes] = read_content,
) -> HadoopConfiguration:
    """Return the configuration of a directory; files that do not exist are left out.

    Args:
        directory: The directory of core-site.xml.
        parts: The parts that are read after core-site.xml: `HDFS`, `YARN`.
        environ: The variables of `${env.NAME}`.
        lenient: Whether to leave out a file that cannot be read, and put the reason into
            `problems`.
        read: Returns the content of a file.

    Raises:
        BadConfiguration: `read_file` cannot read a file, and `lenient` is not set.
    """
    found = HadoopConfiguration(environ)
    for part in (CORE, *parts):
        found.begin(part)
        for name in FILES[part]:
            path = os.path.join(directory, name)
            try:
                found.add(read_file(directory, path, read), path)
            except BadConfiguration as err:
                if not lenient:
                    raise
                found.problems.append(str(err))
    return found


def read_file(
    directory: str, path: str, read: Callable[[str], bytes] = read_content
) -> list[tuple[str, str | None, bool]]:
    """Return, for each property of a file in order: its name, its value, and whether it is final.

    Included files are read, too. A property without a value has the value None, which sets nothing.
    A file that does not exist has no properties.

    Args:
        directory: The directory of the configuration, in which included files are looked for.
        path: The file.
        read: Returns the content of a file; it is also used for included files.

    Raises:
        BadConfiguration: The file, or one that it includes, cannot be read or is not XML; or a file
            is included that does not exist, in a loop, or by a URL.
    """
    return _FileParser(directory, path, read).items()


def _parse_xml(content: bytes) -> Element:
    """Return the root of an XML document, in any encoding that Python knows."""
    from xml.etree import ElementTree as ET  # most tasks and commands read no such file

    try:
        return ET.fromstring(content)  # noqa: S314 - the cluster's configuration
    # expat knows single bytes, and Unicode by its proper names: neither GBK nor "utf8"
    except (ET.ParseError, ValueError, LookupError):
        named = re.match(rb"""<\?xml[^>]+?encoding\s*=\s*["']([\w.-]+)""", content)
        if not named or named.group(1).lower() == b"utf-8":
            raise
        return ET.fromstring(content.decode(named.group(1).decode()))  # noqa: S314


class _FileParser:
    """Reads the properties of one file as Configuration.Parser does: in the order of the
    elements.
    """

    def __init__(
        self, directory: str, path: str, read: Callable[[str], bytes], level: int = 0
    ) -> None:
        self.directory, self.path, self.read, self.level = directory, path, read, level
        self.found: list[tuple[str, str | None, bool]] = []
        self.token = ""
        self.name: str | None = None
        self.value: str | None = None
        self.final = False
        self.fallback_allowed = self.fallback_entered = False

    def items(self) -> list[tuple[str, str | None, bool]]:
        from xml.etree import ElementTree as ET  # most tasks and commands read no such file

        try:
            root = _parse_xml(self.read(self.path))
        except FileNotFoundError:
            return []
        # an encoding that expat does not support is a ValueError or LookupError
        except (OSError, ET.ParseError, ValueError, LookupError) as err:
            why = getattr(err, "strerror", None) or err
            raise BadConfiguration(f"{self.path}: cannot be read: {why}") from None
        self._walk_element(root)
        return self.found

    def _walk_element(self, element: Element) -> None:
        kind = str(element.tag).rpartition("}")[2]
        if kind in _TEXTS:
            self.token = ""
        elif kind == "property":
            self.name, self.value = element.get("name"), element.get("value")
            self.final = element.get("final") == "true"
        elif kind == "include":
            self._include_file(element.get("href"))
        elif kind == "fallback":
            self.fallback_entered = True
        self.token += element.text or ""
        for child in element:
            self._walk_element(child)
            self.token += child.tail or ""
        self._end_element(kind, element.get("href", ""))

    def _end_element(self, kind: str, href: str) -> None:
        if kind == "name" and self.token:
            self.name = self.token.strip(SPACE)
        elif kind == "value" and self.token:
            self.value = self.token
        elif kind == "final":
            self.final = self.token == "true"  # noqa: S105 - the text of an element
        elif kind == "include":
            if self.fallback_allowed and not self.fallback_entered:
                raise BadConfiguration(f"{self.path}: includes {href}, which is not there")
            self.fallback_allowed = self.fallback_entered = False
        elif kind == "property" and self.name is not None:
            self._add_property(self.name)

    def _add_property(self, name: str) -> None:
        """Add a property. Properties in a fallback count only if the included file does not
        exist.
        """
        if self.fallback_allowed or not self.fallback_entered:
            self.found.append((name, self.value, self.final))

    def _include_file(self, href: str | None) -> None:
        """Add the properties of an included file; if the file does not exist, those of the
        fallback.

        Hadoop looks for the file on its class path first, which contains the configuration
        directory. Then it takes `href` as a URL, as an absolute path, and last as a path relative
        to the directory in which the program was started.

        Raises:
            BadConfiguration: `href` is not a valid URL, or a URL other than `file:`; the files
                include each other; or the included file cannot be read.
        """
        if href is None:
            return
        try:
            parts = urlsplit(href)
        except ValueError:
            raise BadConfiguration(
                f"{self.path}: includes {href}, which is not a valid URL"
            ) from None
        if parts.scheme not in ("", "file"):
            raise BadConfiguration(
                f"{self.path}: includes {href}; only files are included here, so copy it to one"
            )
        path = unquote(parts.path) if parts.scheme else href
        places = [path]
        if not os.path.isabs(path):
            inside = os.path.normpath(path)
            places = [os.path.join(self.directory, inside), path]
            if inside.startswith(".."):
                places = [path]
        found = next((place for place in places if os.path.exists(place)), None)
        if found is None:
            self.fallback_allowed = True
            return
        if self.level == LEVELS:
            raise BadConfiguration(f"{self.path}: includes {href}, and both include each other")
        self.found += _FileParser(self.directory, found, self.read, self.level + 1).items()
