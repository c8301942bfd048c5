"""Hadoop's delegation tokens: whose they are and until when, and one that every client recognises.

The file is Hadoop's Credentials: `HDTS`, a byte for the format, tokens (alias, identifier, password, kind, service), secrets. Passwords and
identifiers are carried from file to file and shown to nobody.
"""

from __future__ import annotations

import os
import socket
import time

from submit_tf_job import contract
from submit_tf_job.bootstrap.hadoop import name_nodes, properties

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

ENV_FILE = "HADOOP_TOKEN_FILE_LOCATION"
HDFS = b"HDFS_DELEGATION_TOKEN"
KINDS = (HDFS, b"WEBHDFS delegation", b"SWEBHDFS delegation", b"kms-dt", b"MR_DELEGATION_TOKEN")  # AbstractDelegationTokenIdentifier's form
MAGIC = b"HDTS"
LONGEST = 16 << 20


class Token:
    """One token; all fields are bytes."""

    __slots__ = ("alias", "identifier", "kind", "password", "service")

    def __init__(self, alias: bytes, identifier: bytes, password: bytes, kind: bytes, service: bytes) -> None:
        """Keep what was read."""
        self.alias, self.identifier, self.password, self.kind, self.service = alias, identifier, password, kind, service

    def named(self, address: str) -> Token:
        """Return this token for the same NameNode under another name."""
        name = address.encode()
        return Token(name, self.identifier, self.password, self.kind, name)


# --- Hadoop's numbers and texts (WritableUtils) -----------------------------------------------------------------------
class Reader:
    """Reads from the front.

    Raises:
        ValueError: There is not so much.
    """

    def __init__(self, data: bytes) -> None:
        """Begin at the front."""
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        """Read some bytes."""
        found = self.data[self.at : self.at + count] if count >= 0 else b""
        if len(found) != count:
            raise ValueError("it is cut off")
        self.at += count
        return found

    def number(self) -> int:
        """Read a variable-length number."""
        first = self.take(1)[0]
        first -= 256 if first > 127 else 0
        if first >= -112:
            return first
        value = int.from_bytes(self.take(-119 - first - 1 if first < -120 else -111 - first - 1), "big")
        return ~value if first < -120 else value

    def text(self) -> bytes:
        """Read bytes behind their count."""
        return self.take(self.number())

    def unsigned(self) -> int:
        """Read a variable-length number of Protocol Buffers."""
        value = shift = 0
        while shift < 64:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise ValueError("it is damaged")

    def fields(self) -> list[tuple[int, bytes]]:
        """Read a message of Protocol Buffers to its end; only its bytes matter here."""
        found = []
        while self.at < len(self.data):
            key = self.unsigned()
            if key & 7 == 2:
                found.append((key >> 3, self.take(self.unsigned())))
            elif key & 7 == 0:
                self.unsigned()
            else:
                self.take({1: 8, 5: 4}.get(key & 7, -1))
        return found


def number(value: int) -> bytes:
    """Write a variable-length number that is not negative."""
    if value <= 127:
        return bytes([value])
    size = (value.bit_length() + 7) // 8
    return bytes([256 - 112 - size]) + value.to_bytes(size, "big")


def _text(value: bytes) -> bytes:
    return number(len(value)) + value


# --- the file -----------------------------------------------------------------------------------------------------------
def parse(content: bytes) -> tuple[list[Token], list[tuple[bytes, bytes]]]:
    """Read tokens and secrets.

    Raises:
        ValueError: It is no such file, or damaged.
    """
    if content[:4] != MAGIC or len(content) < 5 or content[4] > 1:
        raise ValueError("it does not begin as one")
    reader = Reader(content[5:])
    if content[4] == 1:
        return _protobuf(Reader(reader.take(reader.unsigned())))
    tokens = [Token(reader.text(), reader.text(), reader.text(), reader.text(), reader.text()) for _ in range(reader.number())]
    return tokens, [(reader.text(), reader.text()) for _ in range(reader.number())]


def _protobuf(message: Reader) -> tuple[list[Token], list[tuple[bytes, bytes]]]:
    """Read CredentialsProto (Security.proto)."""
    tokens, secrets = [], []
    for number_, pair in message.fields():
        entry = dict(Reader(pair).fields())
        if number_ == 1 and 2 in entry:
            fields = dict(Reader(entry[2]).fields())
            tokens.append(Token(entry.get(1, b""), *[fields.get(key, b"") for key in (1, 2, 3, 4)]))
        elif number_ == 2:
            secrets.append((entry.get(1, b""), entry.get(3, b"")))
    return tokens, secrets


def write(path: str, tokens: Iterable[Token], secrets: Iterable[tuple[bytes, bytes]]) -> None:
    """Write such a file, for its owner alone."""
    found, hidden = list(tokens), list(secrets)
    out = MAGIC + b"\0" + number(len(found))
    for t in found:
        out += b"".join(map(_text, (t.alias, t.identifier, t.password, t.kind, t.service)))
    out += number(len(hidden)) + b"".join(_text(name) + _text(value) for name, value in hidden)
    handle = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as sink:
        sink.write(out)
    os.chmod(path + ".tmp", 0o600)
    os.replace(path + ".tmp", path)


# --- what a token says ------------------------------------------------------------------------------------------------
def account(token: Token) -> dict[str, Any]:
    """Say whose a token is, for what, and until when: what is no secret in it."""
    said: dict[str, Any] = {"kind": token.kind.decode("utf-8", "replace"), "service": token.service.decode("utf-8", "replace")}
    reader = Reader(token.identifier)
    try:
        if token.kind in KINDS and reader.take(1) == b"\0":
            said["owner"], said["renewer"], said["real_user"] = [reader.text().decode("utf-8", "replace") for _ in range(3)]
            said["issued"], said["until"] = reader.number() / 1000.0, reader.number() / 1000.0
    except ValueError:
        return {key: said[key] for key in ("kind", "service")}
    return said


def when(seconds: float) -> str:
    """Write a time."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
    except (ValueError, OverflowError, OSError):
        return "some day"


def sentence(said: Mapping[str, Any], others: Iterable[str] = ()) -> str:
    """Write such an account on one line; the words come out of a file that others wrote."""
    words = {key: "".join(char for char in str(value)[:200] if char.isprintable()) for key, value in said.items()}
    also = ", here also as %s" % ", ".join(others) if others else ""
    text = "delegation token: %s for %s%s" % (words["kind"], words["service"] or "any service", also)
    if "owner" not in words:
        return text
    renewed = "renewed by %s, at most " % words["renewer"] if words["renewer"] else ""
    over = " (it is over)" if said["until"] < time.time() else ""
    return "%s; it is %s's, %suntil %s%s" % (text, words["owner"], renewed, when(said["until"]), over)


# --- one that every client recognises ---------------------------------------------------------------------------------
def missing(tokens: Iterable[Token], conf: Mapping[str, str]) -> list[tuple[Token, str]]:
    """Find addresses that a token of the file is good for, but under another name: (token, address).

    YARN's services API gets its token for `127.0.0.1:8020`, or for `ha-hdfs:ns1`. Java's client knows what that means; others compare the
    text with host:port of the URL (hdfs-native: `get_token`), and would ask for a Kerberos ticket (facts: verified-security-ha 12).
    """
    mine = [token for token in tokens if token.kind == HDFS]
    known = {token.service for token in mine}
    pairs = []
    for service, addresses in name_nodes(conf).items():
        for address in [address for address in addresses if address.encode() not in known]:
            token = _for(address, service, mine)
            if token:
                pairs.append((token, address))
    return pairs


def _for(address: str, service: str, tokens: list[Token]) -> Token | None:
    if service:
        return next((token for token in tokens if token.service == b"ha-hdfs:" + service.encode()), None)
    host, _, port = address.rpartition(":")
    near = [token for token in tokens if token.service.rpartition(b":")[2] == port.encode() and not token.service.startswith(b"ha-hdfs:")]
    if len(near) < 2:
        return near[0] if near else None
    try:
        ip = socket.gethostbyname(host)
    except OSError:
        return None
    return next((token for token in near if token.service == ("%s:%s" % (ip, port)).encode()), None)


class Tokens:
    """The tokens that YARN gave this container.

    Attributes:
        accounts: What is no secret in them.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        """Read the file that the environment names.

        Raises:
            ValueError: It cannot be read.
        """
        self.path = env.get(ENV_FILE, "")
        self.tokens: list[Token] = []
        self.secrets: list[tuple[bytes, bytes]] = []
        if not self.path or not os.path.isfile(self.path):
            return
        try:
            with open(self.path, "rb") as source:
                self.tokens, self.secrets = parse(source.read(LONGEST))
        except (OSError, ValueError) as err:
            raise ValueError("the delegation tokens in %s cannot be read: %s" % (self.path, err)) from err

    @property
    def accounts(self) -> list[dict[str, Any]]:
        """Say whose they are, for what, and until when."""
        return [account(token) for token in self.tokens]

    def sentences(self, env: Mapping[str, str]) -> list[str]:
        """Say of each token whose it is."""
        more = missing(self.tokens, properties(env.get("HADOOP_CONF_DIR", "")))
        return [sentence(account(t), [address for other, address in more if other is t]) for t in self.tokens]

    def give(self, env: dict[str, str], cwd: str, *, own_login: bool) -> None:
        """Put them where the program finds them, under every name; with a login of its own it gets none for HDFS.

        A client takes a token before a ticket, also one that has run out: Hadoop's own never looks at the ticket then.

        Raises:
            OSError: They cannot be written.
        """
        more = missing(self.tokens, properties(env.get("HADOOP_CONF_DIR", "")))
        kept = [token for token in self.tokens if not (own_login and token.kind == HDFS)]
        kept += [] if own_login else [token.named(address) for token, address in more]
        if [token.service for token in kept] == [token.service for token in self.tokens]:
            return
        folder = os.path.dirname(self.path)
        path = os.path.join(folder if os.access(folder, os.W_OK) else cwd, contract.TOKENS_FILE)
        write(path, kept, self.secrets)
        env[ENV_FILE] = path
