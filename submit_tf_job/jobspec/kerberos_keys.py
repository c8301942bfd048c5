"""Read `kerberos`: the job's identity, its keytab and krb5.conf."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from submit_tf_job.container.login import keytab
from submit_tf_job.host.inputfile import open_input, reason
from submit_tf_job.jobspec import krb5
from submit_tf_job.jobspec.files import Host
from submit_tf_job.jobspec.job import Kerberos, Krb5Conf, OwnLogin
from submit_tf_job.jobspec.keys import KERBEROS
from submit_tf_job.jobspec.nodes import clip
from submit_tf_job.jobspec.sections import Section
from submit_tf_job.jobspec.values import Value

__all__ = ["read_kerberos"]

_REMOTE_KEYTAB = re.compile(r"hdfs://\S+|file:///[^\s:,]+")
# a mount: YARN's list of mounts has no escape for colons and commas
_NODE_PATH = re.compile(r"/[^\s:,]+")


def read_kerberos(value: Value, host: Host) -> Kerberos | None:
    """Return the value of the key; read and check a keytab of this host."""
    section = Section.of(value, KERBEROS)
    if section is None:
        return None
    principal = section.read("principal")
    found = section.read("keytab", lambda item: _keytab(item, host, principal))
    krb5_conf = _krb5_conf(section, host)
    login = section.read("login") or OwnLogin.AUTO
    if principal is None or found is None or krb5_conf is None:
        return None
    return Kerberos(principal, found[0], found[1], krb5_conf, login)


# --- the keytab ---


def _keytab(value: Value, host: Host, principal: str | None) -> tuple[str, bytes | None] | None:
    """Return the keytab's location, and its bytes if it is on this host."""
    text = value.text(
        expected="hdfs:///path, file:///path for one on every node, or the path of a keytab on "
        "this host"
    )
    if text is None:
        return None
    if _REMOTE_KEYTAB.fullmatch(text):
        return text, None
    if re.match(r"[a-z][a-z0-9+.-]*:", text):
        # ServiceClient.addKeytabResourceIfSecure supports these two schemes; with any other the AM
        # gets no keytab, and only logs that.
        return value.fail(
            f"{clip(text)} is not a keytab that YARN can fetch; write hdfs:///path, "
            f"file:///path (on every node), or the path of one here"
        )
    if host.base is None:
        return value.fail(
            "keytabs of this host are not read here; put it on HDFS, or on every node"
        )
    content = _secret(value, text, host.base / text)
    if content is None:
        return None
    why = keytab.find_problem(content, principal) if principal else ""
    return value.fail(f"{clip(text)} cannot be used: {why}") if why else (text, content)


def _secret(value: Value, shown: str, path: Path) -> bytes | None:
    """Return a keytab of this host; check the mode of the file that is read."""
    try:
        with open_input(path) as file:
            found = os.fstat(file.fileno())
            content = file.read(keytab.LONGEST + 1)
    except FileNotFoundError:
        return value.fail(
            f"{clip(shown)}: no such file on this host ({_whole(path)}); "
            "for one on HDFS write hdfs:///path, for one on every node file:///path"
        )
    except OSError as error:
        return value.fail(f"{clip(shown)}: cannot be read: {reason(error)}")
    except ValueError as error:  # a NUL in the path
        return value.fail(f"{clip(shown)}: cannot be read: {error}")
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        return value.fail(
            f"{clip(shown)}: others can read or change it (mode {mode:04o}), and every "
            f"reader can log in as its principal; chmod 600 {_whole(path)}"
        )
    if len(content) > keytab.LONGEST:
        return value.fail(f"{clip(shown)}: larger than {keytab.LONGEST // 1024} KiB; no keytab is")
    return content


def _whole(path: Path) -> str:
    """Return an absolute path, quoted if it has characters that a terminal interprets."""
    text = str(path.absolute())
    return text if text.isprintable() else clip(text)


# --- krb5.conf ---


def _krb5_conf(section: Section, host: Host) -> Krb5Conf | None:
    if section.has("krb5_conf"):
        value = section.get("krb5_conf")
        return None if value is None else _krb5_conf_asked(value, host)
    section.notes.default(section.path("krb5_conf"))
    if not host.krb5_conf or host.base is None:
        return Krb5Conf()
    return _inline(section.value, host)


def _krb5_conf_asked(value: Value, host: Host) -> Krb5Conf | None:
    text = value.text(expected="inline, none, or a file of the nodes")
    if text is None:
        return None
    if text == "none":
        return Krb5Conf()
    if text == "inline":
        if not host.krb5_conf or host.base is None:
            return value.fail(
                "inline needs a krb5.conf on this host, and none is known; "
                "set kerberos.krb5_conf in the settings, or write the path of one on the "
                "nodes, or none"
            )
        return _inline(value, host)
    if _NODE_PATH.fullmatch(text) and ".." not in text.split("/"):
        return Krb5Conf("node", text)
    return value.fail(
        f"{clip(text)} is none of inline, /path/on/the/nodes, none (what the image has)"
    )


def _inline(value: Value, host: Host) -> Krb5Conf | None:
    try:
        return Krb5Conf("inline", content=krb5.gather(host.krb5_conf))
    except OSError as error:
        return value.fail(
            f"krb5.conf of this host cannot be sent: {error.filename}: {error.strerror}; "
            f"krb5_conf can say otherwise"
        )
    except ValueError as error:
        return value.fail(
            f"krb5.conf of this host cannot be sent: {error}; krb5_conf can say otherwise"
        )
