"""Token files as a NodeManager writes them, with passwords that are none."""

from __future__ import annotations

from submit_tf_job.container.tokens import HDFS, MAGIC, Token, number

PASSWORD = b"not-a-password-!"


def text(value: str | bytes) -> bytes:
    """Write bytes behind their count."""
    raw = value.encode() if isinstance(value, str) else value
    return number(len(raw)) + raw


def identifier(
    owner: str = "alice", renewer: str = "rm", real_user: str = "rm/localhost@R", until: float = 4e9
) -> bytes:
    """Write what AbstractDelegationTokenIdentifier writes."""
    dates = number(int((until - 604800) * 1000)) + number(int(until * 1000))
    return b"\0" + text(owner) + text(renewer) + text(real_user) + dates + number(1) + number(2)


def hdfs_token(service: str = "127.0.0.1:9000", **more: object) -> Token:
    """Make a token of HDFS."""
    return Token(service.encode(), identifier(**more), PASSWORD, HDFS, service.encode())  # type: ignore[arg-type]


def token_file(*tokens: Token, secrets: dict[str, bytes] | None = None) -> bytes:
    """Write a file of format 0."""
    out = MAGIC + b"\0" + number(len(tokens))
    for token in tokens:
        out += b"".join(
            text(part)
            for part in (token.alias, token.identifier, token.password, token.kind, token.service)
        )
    return (
        out
        + number(len(secrets or {}))
        + b"".join(text(name) + text(value) for name, value in (secrets or {}).items())
    )
