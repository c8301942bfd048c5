"""Conversion of a connection to settings."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from submit_tf_job.airflow.provider import (
    FIELDS,
    PLACEHOLDERS,
    ConnectionValues,
    get_provider_info,
    read_connection,
)
from submit_tf_job.errors import SettingsError
from submit_tf_job.settings import keys


def read(extra: Any = None, **fields: Any) -> ConnectionValues:
    text = extra if isinstance(extra, str) or extra is None else json.dumps(extra)
    absent = dict.fromkeys(("host", "port", "schema", "login", "password"))
    return read_connection(SimpleNamespace(**{**absent, "extra": text, **fields}))


def test_read_connection_fields() -> None:
    spellings = {name.replace(".", "_") for name in keys()}
    assert set(FIELDS) - {"profile"} <= spellings
    assert set(PLACEHOLDERS) - {"host", "login"} <= set(FIELDS)
    (kind,) = get_provider_info()["connection-types"]
    assert set(kind["conn-fields"]) == set(FIELDS)


@pytest.mark.parametrize(
    ("fields", "urls"),
    [
        ({"host": "http://rm1:8088, https://rm2:8090"}, ["http://rm1:8088", "https://rm2:8090"]),
        ({"host": "rm1,rm2:1234"}, ["http://rm1:8088", "http://rm2:1234"]),
        ({"host": "rm1", "port": 8090, "schema": "https"}, ["https://rm1:8090"]),
    ],
)
def test_read_connection_addresses(fields: dict[str, Any], urls: list[str]) -> None:
    assert read(**fields).settings == {"resource_managers": urls}


def test_read_connection_accepts_both_spellings() -> None:
    given = read(
        {
            "auth": "kerberos",
            "kerberos_keytab": "/a.keytab",
            "kerberos": {"principal": "a@B"},
            "poll.max": "5s",
            "as_user": "",
            "ca_file": None,
        },
        login="alice",
    )
    assert given == ConnectionValues(
        {
            "auth": "kerberos",
            "kerberos.keytab": "/a.keytab",
            "kerberos.principal": "a@B",
            "poll.max": "5s",
            "user": "alice",
        }
    )
    assert read({"profile": "prod", "job": {"queue": "ml"}}) == ConnectionValues(
        {"job": {"queue": "ml"}}, "prod"
    )
    assert read("") == ConnectionValues({})


def test_read_connection_password() -> None:
    given = read({"auth": "basic"}, login="alice", password="s3cret")
    assert given.secret == "s3cret"
    assert "s3cret" not in repr(given)
    assert read({"auth": "bearer"}, password="token").secret == "token"
    assert read({"auth": "bearer"}, password="").secret is None


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("{", "its extra is not valid JSON: "),
        ("[]", "its extra is not a JSON object"),
        ({"kerberos_keytap": "x"}, "kerberos_keytap: unknown setting"),
        ({"kerberos": {"keytap": "x"}}, "kerberos.keytap: unknown setting"),
    ],
)
def test_read_connection_refuses(extra: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        read(extra)
    with pytest.raises(SettingsError, match="it has a password but no user"):
        read({"auth": "basic"}, password="x")
