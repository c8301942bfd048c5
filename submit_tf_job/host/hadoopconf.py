"""Read this host's Hadoop configuration directory, without Java."""

from __future__ import annotations

import os
import re
from pathlib import Path

from submit_tf_job.container.hadoop import host_and_port
from submit_tf_job.container.hadoop_configuration import (
    CORE,
    HDFS,
    VARIABLE,
    YARN,
    BadConfiguration,
    HadoopConfiguration,
    from_environment,
    is_true,
    listed,
    read_directory,
    read_file,
)
from submit_tf_job.errors import SettingsError
from submit_tf_job.host.user_files import read_input

__all__ = [
    "CORE",
    "HDFS",
    "YARN",
    "HadoopConfiguration",
    "configuration",
    "is_true",
    "listed",
    "resource_managers",
    "sensitive_properties",
]
# hadoop.security.sensitive-config-keys of core-default.xml
_SENSITIVE = re.compile(
    r"secret$|password$|ssl\.keystore\.pass$|fs\.s3.*(?i:secret.?key)|credential$"
    r"|fs\.s3a.*\.server-side-encryption\.key|fs\.s3a\.encryption\.key|fs\.azure\.account\.key"
    r"|oauth.*(secret|password|token)"
)
_EVERY_ADDRESS = ("0.0.0.0", "::", "[::]")  # noqa: S104 - compared, not listened at


def configuration(directory: Path, *parts: str) -> HadoopConfiguration:
    """Return the properties of core-site.xml and of the files of the given parts (`HDFS`, `YARN`);
    files may be missing.

    Raises:
        SettingsError: A file, or one that it includes, cannot be read or is not XML; or a file
            includes one that does not exist.
    """
    try:
        return read_directory(os.fspath(directory), *parts, environ=os.environ, read=_read_checked)
    except BadConfiguration as error:
        raise SettingsError(str(error)) from None


def _read_checked(path: str) -> bytes:
    """Return the content of a file, which must not be a directory, a FIFO or a device."""
    return read_input(Path(path))


def content_for_containers(directory: Path, name: str, *, secrets: bool = True) -> bytes:
    """Return a file of a configuration directory in a form that containers can read.

    This is usually the file itself. If the file includes other files, or contains `${env.NAME}` for
    a variable that is set on this host, its properties are written out instead, because a container
    has neither the other files nor the variable. Without `secrets`, properties that Hadoop calls
    sensitive are left out.

    Raises:
        SettingsError: The file is not XML, or includes a file that does not exist, cannot be read
            or is not XML.
        OSError: The file cannot be read.
    """
    path = directory / name
    content = read_input(path)
    plain = content.replace(b"\0", b"")  # of UTF-16
    is_complete = b"include" not in plain and b"${env." not in plain
    if secrets and is_complete:
        return content
    from xml.etree import ElementTree as ET

    try:
        items = read_file(os.fspath(directory), os.fspath(path), _read_checked)
    except BadConfiguration as error:
        raise SettingsError(str(error)) from None
    shown = [item for item in items if secrets or not _SENSITIVE.search(item[0])]
    if is_complete and shown == items:
        return content
    root = ET.Element("configuration")
    for key, value, final in shown:
        if value is None and not final:
            continue
        element = ET.SubElement(root, "property")
        ET.SubElement(element, "name").text = key
        if value is not None:
            ET.SubElement(element, "value").text = VARIABLE.sub(_of_this_host, value)
        if final:
            ET.SubElement(element, "final").text = "true"
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def sensitive_properties(name: str, content: bytes) -> list[str]:
    """Return the names of the properties with a value that Hadoop calls sensitive, in a file as
    containers get it (`content_for_containers`).

    Raises:
        SettingsError: The file is not XML.
    """
    try:
        items = read_file("", name, lambda _: content)
    except BadConfiguration as error:
        raise SettingsError(str(error)) from None
    return [key for key, value, _ in items if value and _SENSITIVE.search(key)]


def _of_this_host(found: re.Match[str]) -> str:
    """Return the value that `${env.NAME}` has on this host; if the variable is not set, return the
    text itself.
    """
    name = found[1]
    value = from_environment(name[4:], os.environ) if name.startswith("env.") else None
    return found[0] if value is None else value


def resource_managers(yarn: HadoopConfiguration) -> list[str]:
    """Return the ResourceManagers' web addresses (RMHAUtils.getRMHAWebappAddresses,
    WebAppUtils.getRMWebAppURLWithoutScheme). Addresses with a variable that is not set are left
    out.

    A wildcard address such as 0.0.0.0 means every address of the ResourceManager's own host: then
    `yarn.resourcemanager.hostname` is used instead, if it names a host.
    """
    scheme, key, port = "http", "yarn.resourcemanager.webapp.address", 8088
    if yarn.get("yarn.http.policy", "").upper() == "HTTPS_ONLY":
        scheme, key, port = "https", "yarn.resourcemanager.webapp.https.address", 8090
    ids = listed(yarn, "yarn.resourcemanager.ha.rm-ids")
    suffixes = [""]
    if is_true(yarn, "yarn.resourcemanager.ha.enabled") and ids:
        suffixes = [f".{rm_id}" for rm_id in ids]
    addresses = []
    for suffix in suffixes:
        host = yarn.get(f"yarn.resourcemanager.hostname{suffix}", "")
        address = yarn.get(key + suffix, "") or host
        named, its_port = host_and_port(address)
        if named in _EVERY_ADDRESS and host:
            named = host
        if named and "${" not in address:
            addresses.append(f"{scheme}://{named}:{its_port or port}")
    return addresses


def why_none(yarn: HadoopConfiguration) -> str:
    """Return, as a clause for a message, why a configuration has no web address of a
    ResourceManager: the property whose value contains a variable that is not set, or what the
    configuration names instead.
    """
    keys = [name for name in yarn if name.startswith("yarn.resourcemanager.")]
    for name in keys:
        if ("hostname" in name or "webapp" in name) and (variable := yarn.unset_variable(name)):
            return f"{name} has {variable}, which is not set here"
    if router := yarn.get("yarn.router.webapp.address", ""):
        return (
            f"names a Router of a federation ({router}), which has no services API; --rm names a "
            f"ResourceManager below it"
        )
    if address := yarn.get("yarn.resourcemanager.address", ""):
        host = host_and_port(address)[0]
        return (
            f"names none by a web address, but yarn.resourcemanager.address {address}; there it "
            f"may be --rm http://{host}:8088"
        )
    return "names none"
