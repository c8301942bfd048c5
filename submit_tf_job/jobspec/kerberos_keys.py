"""Read `kerberos`: who the job is, and the files of this host that go with it."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from submit_tf_job import keytab
from submit_tf_job.job import Kerberos, Krb5Conf, OwnLogin
from submit_tf_job.specfile import krb5
from submit_tf_job.specfile.nodes import clip
from submit_tf_job.specfile.shipping import Host
from submit_tf_job.specfile.values import Section, Value
from submit_tf_job.specfile.vocabulary import KERBEROS

__all__ = ["read_kerberos"]

_PRINCIPAL = re.compile(r"[^\s/@]+/[^\s/@]+(@[^\s/@]+)?")
_REMOTE_KEYTAB = re.compile(r"hdfs://\S+|file:///[^\s:,]+")
_NODE_PATH = re.compile(r"/[^\s:,]+")  # it becomes a mount, and YARN's list of mounts can carry neither a colon nor a comma
_LOGINS = {"on": "always", "true": "always", "yes": "always", "off": "never", "false": "never", "no": "never"}


def read_kerberos(value: Value, host: Host) -> Kerberos | None:
    """Read the mapping; a keytab of this host is read, and checked, too."""
    section = value.section(KERBEROS, "a mapping such as {principal: svc/_HOST@EXAMPLE.COM, keytab: hdfs:///user/svc/svc.keytab}")
    if section is None:
        return None
    principal = section.required(
        "principal",
        # ServiceApiUtil.validateKerberosPrincipal: must hold a '/'
        lambda item: item.matching(_PRINCIPAL, "is no service principal; YARN wants name/host@REALM, as in svc/_HOST@EXAMPLE.COM"),
        "say principal: svc/_HOST@EXAMPLE.COM",
    )
    found = section.required(
        "keytab", lambda item: _keytab(item, host, principal), "say keytab: hdfs:///user/svc/svc.keytab, or the path of one on this host"
    )
    krb5_conf = _krb5_conf(section, host)
    login = section.read("login", lambda item: item.one_of(OwnLogin, _LOGINS), OwnLogin.AUTO)
    if principal is None or found is None or krb5_conf is None or login is None:
        return None
    return Kerberos(principal, found[0], found[1], krb5_conf, login)


# --- the keytab ---


def _keytab(value: Value, host: Host, principal: str | None) -> tuple[str, bytes | None] | None:
    """Return where it is, and its bytes where that is this host."""
    text = value.text(expected="hdfs:///path, file:///path for one on every node, or the path of a keytab on this host")
    if text is None:
        return None
    if _REMOTE_KEYTAB.fullmatch(text):
        return text, None
    if re.match(r"[a-z][a-z0-9+.-]*:", text):
        # ServiceClient.addKeytabResourceIfSecure knows these two schemes; with any other the AM gets no keytab, and only its log says so.
        return value.fail(
            f"{clip(text)} is no keytab that YARN can fetch; write hdfs:///path, file:///path (on every node), or the path of one here"
        )
    if host.base is None:
        return value.fail("keytabs of this host are not read here; put it on HDFS, or on every node")
    content = _secret(value, text, host.base / text)
    if content is None:
        return None
    why = keytab.trouble(content, principal) if principal else ""
    return value.fail(f"{clip(text)} cannot be used: {why}") if why else (text, content)


def _secret(value: Value, shown: str, path: Path) -> bytes | None:
    """Read a keytab of this host; what is checked is what is read."""
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            content = file.read(keytab.LONGEST + 1)
    except FileNotFoundError:
        return value.fail(
            f"{clip(shown)}: no such file on this host ({_whole(path)}); "
            "for one on HDFS write hdfs:///path, for one on every node file:///path"
        )
    except OSError as error:
        return value.fail(f"{clip(shown)}: cannot be read: {error.strerror or error}")
    except ValueError as error:  # a NUL in the path
        return value.fail(f"{clip(shown)}: cannot be read: {error}")
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        return value.fail(
            f"{clip(shown)}: others can read or change it (mode {mode:04o}), and whoever reads it can be its principal; "
            f"chmod 600 {_whole(path)}"
        )
    if len(content) > keytab.LONGEST:
        return value.fail(f"{clip(shown)}: larger than {keytab.LONGEST // 1024} KiB; no keytab is")
    return content


def _whole(path: Path) -> str:
    """Write a path in full, where that does a terminal no harm."""
    text = str(path.absolute())
    return text if text.isprintable() else clip(text)


# --- krb5.conf ---


def _krb5_conf(section: Section, host: Host) -> Krb5Conf | None:
    asked = section.read("krb5_conf", lambda item: _krb5_conf_asked(item, host), Krb5Conf("default"))
    if asked is None or asked.kind != "default":
        return asked
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
                "set kerberos.krb5_conf in the settings, or write the path of one on the nodes, or none"
            )
        return _inline(value, host)
    if _NODE_PATH.fullmatch(text) and ".." not in text.split("/"):
        return Krb5Conf("node", text)
    return value.fail(f"{clip(text)} is none of inline, /path/on/the/nodes, none (what the image has)")


def _inline(value: Value, host: Host) -> Krb5Conf | None:
    try:
        return Krb5Conf("inline", content=krb5.gather(host.krb5_conf))
    except OSError as error:
        return value.fail(f"krb5.conf of this host cannot be sent: {error.filename}: {error.strerror}; krb5_conf can say otherwise")
    except ValueError as error:
        return value.fail(f"krb5.conf of this host cannot be sent: {error}; krb5_conf can say otherwise")
