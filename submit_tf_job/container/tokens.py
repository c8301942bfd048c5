"""Read Hadoop's delegation tokens, and rewrite them for clients that compare names.

The file has the format of Hadoop's class Credentials: `HDTS`; a 0, which stands for the format that
Hadoop writes by default (`writeTokenStorageToStream`); tokens (alias, identifier, password, kind,
service); secrets. Passwords and identifiers are copied between files and never printed.
"""

from __future__ import annotations

import collections
import os
import socket
import time
from collections.abc import Iterable, Mapping
from typing import Any

from submit_tf_job.container import contract, task_files
from submit_tf_job.container.hadoop import name_nodes, properties

ENV_FILE = "HADOOP_TOKEN_FILE_LOCATION"
HDFS = b"HDFS_DELEGATION_TOKEN"
# kinds with AbstractDelegationTokenIdentifier's format
KINDS = (HDFS, b"WEBHDFS delegation", b"SWEBHDFS delegation", b"kms-dt", b"MR_DELEGATION_TOKEN")
MAGIC = b"HDTS"
LONGEST = 16 << 20


class Token(collections.namedtuple("Token", "alias identifier password kind service")):
    """One delegation token; all fields are bytes, in the order of the file."""

    __slots__ = ()
    __repr__ = object.__repr__  # without the secrets


# --- Hadoop's encodings (WritableUtils) -----------------------------------------------------------
class Reader:
    """Reads values one after another from some bytes.

    Raises:
        ValueError: The data is truncated.
    """

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        found = self.data[self.at : self.at + count] if count >= 0 else b""
        if len(found) != count:
            raise ValueError("it is cut off")
        self.at += count
        return found

    def number(self) -> int:
        """Read a number in Hadoop's encoding of variable length."""
        first = int.from_bytes(self.take(1), "big", signed=True)
        if first >= -112:
            return first
        if first >= -120:
            return int.from_bytes(self.take(-112 - first), "big")
        return ~int.from_bytes(self.take(-120 - first), "big")

    def text(self) -> bytes:
        """Read some bytes; their length is stored before them."""
        return self.take(self.number())


def number(value: int) -> bytes:
    """Encode a number that is not negative as Hadoop does, in variable length."""
    if value <= 127:
        return bytes([value])
    size = (value.bit_length() + 7) // 8
    return bytes([256 - 112 - size]) + value.to_bytes(size, "big")


def _sized_text(value: bytes) -> bytes:
    return number(len(value)) + value


# --- the file -------------------------------------------------------------------------------------
def parse(content: bytes) -> tuple[list[Token], list[tuple[bytes, bytes]]]:
    """Parse a file of credentials into tokens and secrets.

    Raises:
        ValueError: The content is not such a file, or is damaged.
    """
    if not content.startswith(MAGIC + b"\0"):
        raise ValueError("it does not begin as one")
    reader = Reader(content[5:])
    tokens = [Token(*(reader.text() for _ in Token._fields)) for _ in range(reader.number())]
    return tokens, [(reader.text(), reader.text()) for _ in range(reader.number())]


def write(path: str, tokens: list[Token], secrets: list[tuple[bytes, bytes]]) -> None:
    """Write a file of credentials that only its owner may read."""
    out = MAGIC + b"\0"
    for rows in (tokens, secrets):
        out += number(len(rows)) + b"".join(_sized_text(field) for row in rows for field in row)
    task_files.write_file(path, out, 0o600)


# --- summaries ------------------------------------------------------------------------------------
def summary(token: Token) -> dict[str, Any]:
    """Return the fields of a token that are not secret: kind, service, owner, times. Of a token in
    another format than HDFS's, only kind and service.
    """
    fields: dict[str, Any] = {
        "kind": token.kind.decode("utf-8", "replace"),
        "service": token.service.decode("utf-8", "replace"),
    }
    reader = Reader(token.identifier)
    try:
        if token.kind in KINDS and reader.take(1) == b"\0":
            for key in ("owner", "renewer", "real_user"):
                fields[key] = reader.text().decode("utf-8", "replace")
            fields["issued"], fields["until"] = reader.number() / 1000.0, reader.number() / 1000.0
    except ValueError:
        return {key: fields[key] for key in ("kind", "service")}
    return fields


def when(seconds: float) -> str:
    """Format a time in seconds since 1970, or return "some day" if it is out of range."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
    except (ValueError, OverflowError, OSError):
        return "some day"


def summary_line(fields: Mapping[str, Any], others: Iterable[str] = ()) -> str:
    """Format the summary of a token as one line; unprintable characters are removed. `others` are
    further services under which the program finds the token.
    """
    words = {
        key: "".join(char for char in str(value)[:200] if char.isprintable())
        for key, value in fields.items()
    }
    text = f"delegation token: {words['kind']} for {words['service'] or 'any service'}"
    if others:
        text += f", here also as {', '.join(others)}"
    if "owner" not in words:
        return text
    text += f"; it is {words['owner']}'s, "
    if words["renewer"]:
        text += f"renewed by {words['renewer']}, at most "
    text += f"until {when(fields['until'])}"
    if fields["until"] < time.time():
        text += " (it is over)"
    return text


# --- aliases for all clients ----------------------------------------------------------------------
def missing(tokens: Iterable[Token], conf: Mapping[str, str]) -> list[tuple[Token, str]]:
    """Return (token, address) for each NameNode address for which no token has exactly that name,
    but a token under another name can be used.

    YARN's services API gets its token for `127.0.0.1:8020`, or for `ha-hdfs:ns1`. Java's client
    resolves such names; other clients compare the text with host:port of the URL (hdfs-native:
    `get_token`) and would request a Kerberos ticket (hadoop-facts.md#service-name-of-a-token).
    """
    mine = [token for token in tokens if token.kind == HDFS]
    known = {token.service for token in mine}
    pairs = []
    for service, addresses in name_nodes(conf).items():
        for address in [address for address in addresses if address.encode() not in known]:
            token = _token_for(address, service, mine)
            if token:
                pairs.append((token, address))
    return pairs


def _token_for(address: str, service: str, tokens: list[Token]) -> Token | None:
    if service:
        named = b"ha-hdfs:" + service.encode()
        return next((token for token in tokens if token.service == named), None)
    host, _, port = address.rpartition(":")
    single = [token for token in tokens if not token.service.startswith(b"ha-hdfs:")]
    near = [token for token in single if token.service.rpartition(b":")[2] == port.encode()]
    if len(near) < 2:
        return near[0] if near else None
    try:
        ip = socket.gethostbyname(host)
    except (OSError, UnicodeError):  # not a host name
        return None
    return next((token for token in near if token.service == (f"{ip}:{port}").encode()), None)


class Tokens:
    """The tokens that YARN gave this container."""

    def __init__(self, env: Mapping[str, str]) -> None:
        """Read the file that the environment names; without such a file there are no tokens.

        Raises:
            ValueError: The file cannot be read.
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
            text = "the delegation tokens in %s cannot be read: %s"
            raise ValueError(text % (self.path, err)) from err

    @property
    def summaries(self) -> list[dict[str, Any]]:
        """The owner, service and times of each token."""
        return [summary(token) for token in self.tokens]

    def describe(self, env: Mapping[str, str]) -> list[str]:
        """Return a line about each token."""
        more = missing(self.tokens, properties(env))
        return [
            summary_line(summary(t), [address for other, address in more if other is t])
            for t in self.tokens
        ]

    def install(self, env: dict[str, str], cwd: str, *, own_login: bool) -> None:
        """Write the tokens under every name that a client may look for, and set the variable
        through which the program finds the file. Do nothing if YARN's own file has what is needed.

        With `own_login` the program gets no HDFS tokens: a client prefers a token to a ticket, even
        if the token has expired, and Hadoop's own client then ignores the ticket.

        Raises:
            OSError: The file cannot be written.
        """
        more = missing(self.tokens, properties(env))
        if own_login:
            kept = [token for token in self.tokens if token.kind != HDFS]
        else:
            names = [(token, address.encode()) for token, address in more]
            kept = self.tokens + [t._replace(alias=name, service=name) for t, name in names]
        if [token.service for token in kept] == [token.service for token in self.tokens]:
            return
        folder = os.path.dirname(self.path)
        path = os.path.join(folder if os.access(folder, os.W_OK) else cwd, contract.TOKENS_FILE)
        write(path, kept, self.secrets)
        env[ENV_FILE] = path
