"""Read a Hadoop configuration directory without Java."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from submit_tf_job.errors import SettingsError
from submit_tf_job.host.inputfile import open_input, reason


def read_xml(path: Path) -> dict[str, str]:
    """Return the properties of one of Hadoop's XML files; {} where it does not exist.

    Raises:
        SettingsError: The file cannot be read as XML.
    """
    # expat of Python 3.10 and later refuses entity bombs; the file is the administrator's
    from xml.etree import ElementTree as ET

    try:
        with open_input(path) as file:
            root = ET.parse(file).getroot()  # noqa: S314 - see above
    except FileNotFoundError:
        return {}
    except (
        OSError,
        ET.ParseError,
        ValueError,
        LookupError,
    ) as error:  # the last two: an encoding that expat does not support
        raise SettingsError(f"{path}: cannot be read: {reason(error)}") from None
    return {
        (item.findtext("name") or "").strip(): (item.findtext("value") or "").strip()
        for item in root.iter("property")
    }


def resource_managers(yarn: Mapping[str, str]) -> list[str]:
    """Return the ResourceManagers' web addresses in yarn-site.xml (YarnConfiguration:
    RM_WEBAPP_ADDRESS, HAUtil).
    """
    scheme, key, port = "http", "yarn.resourcemanager.webapp.address", 8088
    if yarn.get("yarn.http.policy") == "HTTPS_ONLY":
        scheme, key, port = "https", "yarn.resourcemanager.webapp.https.address", 8090
    ids = [item.strip() for item in yarn.get("yarn.resourcemanager.ha.rm-ids", "").split(",")]
    addresses = []
    for suffix in [f".{rm_id}" for rm_id in ids if rm_id] or [""]:
        address = yarn.get(key + suffix, "")
        host = yarn.get(f"yarn.resourcemanager.hostname{suffix}")
        if host and not address:
            address = f"{host}:{port}"
        address = expanded(address, yarn)
        if address and "${" not in address:
            addresses.append(f"{scheme}://{address}")
    return addresses


def expanded(text: str, values: Mapping[str, str]) -> str:
    """Expand `${name}` from the file's own values, as Hadoop's Configuration.substituteVars does;
    unknown names stay.
    """
    for _ in range(20):
        before, text = (
            text,
            re.sub(r"\$\{([^{}$\s]+)\}", lambda found: values.get(found[1], found[0]), text),
        )
        if text == before or len(text) > 65_536:
            break
    return text
