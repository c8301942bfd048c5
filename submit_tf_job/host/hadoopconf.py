"""What a Hadoop configuration directory says, read without Java."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from submit_tf_job.errors import SettingsError

__all__ = ["read_xml", "resource_managers"]


def read_xml(path: Path) -> dict[str, str]:
    """Read one of Hadoop's XML files; a file that is not there is empty.

    Raises:
        SettingsError: The file cannot be read as XML.
    """
    from xml.etree import ElementTree as ET  # expat of Python 3.10 and later refuses entity bombs; the file is the administrator's

    try:
        root = ET.parse(path).getroot()  # noqa: S314 - see above
    except FileNotFoundError:
        return {}
    except (OSError, ET.ParseError, ValueError, LookupError) as error:  # the last two: an encoding that expat does not know
        raise SettingsError(f"{path}: cannot be read: {error}") from None
    return {(item.findtext("name") or "").strip(): (item.findtext("value") or "").strip() for item in root.iter("property")}


def resource_managers(yarn: Mapping[str, str]) -> list[str]:
    """Find the ResourceManagers' web addresses in what yarn-site.xml holds (YarnConfiguration: RM_WEBAPP_ADDRESS, HAUtil)."""
    https = yarn.get("yarn.http.policy", "HTTP_ONLY") == "HTTPS_ONLY"
    key, port = ("yarn.resourcemanager.webapp.https.address", 8090) if https else ("yarn.resourcemanager.webapp.address", 8088)
    ids = [item.strip() for item in yarn.get("yarn.resourcemanager.ha.rm-ids", "").split(",") if item.strip()]
    addresses = []
    for suffix in [f".{rm_id}" for rm_id in ids] or [""]:
        host = yarn.get(f"yarn.resourcemanager.hostname{suffix}")
        address = _expanded(yarn.get(key + suffix) or (f"{host}:{port}" if host else ""), yarn)
        if address and "${" not in address:
            addresses.append(f"{'https' if https else 'http'}://{address}")
    return addresses


def _expanded(text: str, values: Mapping[str, str]) -> str:
    """Replace `${name}` by the file's own values, as Hadoop's Configuration.substituteVars does; what it does not know stays."""
    for _ in range(20):
        before, text = text, re.sub(r"\$\{([^{}$\s]+)\}", lambda found: values.get(found[1], found[0]), text)
        if text == before or len(text) > 65_536:
            break
    return text
