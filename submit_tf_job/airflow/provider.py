"""The provider's description for Airflow (entry point `apache_airflow_provider`), and the fields of
the connection's form with their conversion to settings.

This module imports little, and nothing from Airflow, because Airflow imports it in each of its
processes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from submit_tf_job.errors import SettingsError

_HERE = "submit_tf_job.airflow"
_NAME = "submit_tf_job"
# Field of the form → its label. The names are those of settings, with `_` for `.`; the extra may
# contain any other setting, too.
FIELDS: Mapping[str, str] = {
    "auth": "Authentication",
    "as_user": "Submit as (doAs)",
    "hadoop_conf": "Hadoop configuration directory",
    "kerberos_principal": "Kerberos principal",
    "kerberos_keytab": "Keytab file",
    "kerberos_krb5_conf": "krb5.conf file",
    "credentials_file": "Credentials file",
    "ca_file": "CA file",
    "profile": "Settings profile",
}
_RELABELED: Mapping[str, str] = {
    "host": "ResourceManagers",
    "login": "User",
    "password": "Password or token",
}
PLACEHOLDERS: Mapping[str, str] = {
    "host": "http://rm1.example.com:8088,http://rm2.example.com:8088",
    "login": "owner of the jobs",
    "auth": "simple, kerberos, delegation-token, basic or bearer",
    "hadoop_conf": "/etc/hadoop/conf",
    "kerberos_keytab": "/etc/security/keytabs/airflow.keytab",
}
_PORT = 8088


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description (Airflow's provider_info.schema.json)."""
    return {
        # the name's form in an index; otherwise Airflow does not start
        "package-name": "submit-tf-job",
        "name": _NAME,
        "description": "Distributed TensorFlow on Hadoop YARN.",
        "integrations": [
            {
                "integration-name": _NAME,
                "external-doc-url": "https://hadoop.apache.org/",
                "tags": ["software"],
            }
        ],
        "connection-types": [
            {
                "connection-type": "submit_tf_job",
                "hook-class-name": f"{_HERE}.hook.SubmitTFJobHook",
                "hook-name": "YARN (submit_tf_job)",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "port"],
                    "relabeling": dict(_RELABELED),
                    "placeholders": dict(PLACEHOLDERS),
                },
                "conn-fields": {
                    name: {"label": label, "schema": {"type": ["string", "null"]}}
                    for name, label in FIELDS.items()
                },
            }
        ],
        "hooks": [{"integration-name": _NAME, "python-modules": [f"{_HERE}.hook"]}],
        "operators": [{"integration-name": _NAME, "python-modules": [f"{_HERE}.operator"]}],
        "sensors": [{"integration-name": _NAME, "python-modules": [f"{_HERE}.sensor"]}],
        "triggers": [{"integration-name": _NAME, "python-modules": [f"{_HERE}.trigger"]}],
        "task-decorators": [{"name": _NAME, "class-name": f"{_HERE}.operator.submit_tf_job_task"}],
        "extra-links": [
            f"{_HERE}.links.{name}" for name in ("ApplicationLink", "LogsLink", "TensorBoardLink")
        ],
    }


@dataclass(frozen=True)
class ConnectionValues:
    """The content of a connection.

    Attributes:
        settings: Settings by name.
        profile: The settings profile to start from.
        secret: A token; or with the method `basic`, a password.
    """

    settings: Mapping[str, Any]
    profile: str | None = None
    secret: str | None = field(default=None, repr=False)


def read_connection(found: Any) -> ConnectionValues:
    """Convert the fields of Airflow's `Connection` to settings.

    Raises:
        SettingsError: A setting is unknown, the extra is not a JSON object, or with the method
            `basic` there is a password but no user.
    """
    settings = dict(_settings_of_extra(_parse_extra(found.extra)))
    profile = settings.pop("profile", None)
    if found.host:
        settings["resource_managers"] = _urls_of_fields(found.host, found.port, found.schema)
    if found.login:
        settings["user"] = found.login
    secret = found.password or None
    if secret and settings.get("auth") == "basic" and not found.login:
        raise SettingsError("it has a password but no user", hint="fill in User")
    return ConnectionValues(settings, profile, secret)


_FIELD_OF_OPTION: Mapping[str, str] = {
    "--rm": _RELABELED["host"],
    "--user": _RELABELED["login"],
    "--auth": FIELDS["auth"],
    "--as-user": FIELDS["as_user"],
    "--profile": FIELDS["profile"],
    "resource_managers": _RELABELED["host"],
    "user": _RELABELED["login"],
    **{
        name.replace("_", ".", 1) if name.startswith(("kerberos_", "credentials_")) else name: label
        for name, label in FIELDS.items()
    },
}
_QUOTED = ("user", "auth", "profile")  # common English words: replaced only in backticks


def with_form_labels(text: str) -> str:
    """Return a message in which options and names of settings are replaced by the labels of the
    connection's fields.

    Example:
        >>> with_form_labels("Check --rm and resource_managers.")
        "Check 'ResourceManagers'."
    """
    for name, label in _FIELD_OF_OPTION.items():
        bare = r"" if name in _QUOTED else rf"|(?<![\w./-]){re.escape(name)}(?![\w.-]*\w)"
        text = re.sub(rf"`{re.escape(name)}`{bare}", f"'{label}'", text)
    return re.sub(r"('[\w ]+')(?: and|, or| or) \1", r"\1", text)


def _parse_extra(text: str | None) -> Mapping[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError as error:
        raise SettingsError(f"its extra is not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise SettingsError("its extra is not a JSON object")
    return found


def _settings_of_extra(extra: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield name and value of each setting in the extra of a connection.

    A name may be written with `.` or `_` (`kerberos.keytab`, `kerberos_keytab`), and a group of
    settings as a nested object; empty fields of the form are skipped.

    Raises:
        SettingsError: A setting is unknown.
    """
    from submit_tf_job.sdk.client import setting_names

    names = {
        "profile": "profile",
        **{
            spelling: name
            for name in setting_names()
            for spelling in (name, name.replace(".", "_"))
        },
    }
    groups = {name.partition(".")[0] for name in setting_names() if "." in name}
    for spelling, value in extra.items():
        if spelling in groups and isinstance(value, dict):
            yield from _settings_of_extra(
                {f"{spelling}.{key}": inner for key, inner in value.items()}
            )
        elif spelling not in names:
            raise SettingsError(
                f"{spelling}: unknown setting", hint=f"known are {', '.join(sorted(names))}"
            )
        elif value not in (None, ""):
            yield names[spelling], value


def _urls_of_fields(host: str, port: int | None, schema: str | None) -> list[str]:
    """Return the ResourceManagers' URLs.

    A host without a scheme gets the scheme of the other fields (by default `http`) and, if it has
    no port, their port (by default 8088). A host with a scheme stays as it is.
    """
    hosts = [part.strip() for part in host.split(",") if part.strip()]
    urls = []
    for part in hosts:
        if "://" not in part:
            if ":" not in part:
                part += f":{port or _PORT}"
            part = f"{schema or 'http'}://{part}"
        urls.append(part)
    return urls
