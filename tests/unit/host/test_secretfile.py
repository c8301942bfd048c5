"""Files with secrets: who may read them, and what they may hold."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from submit_tf_job.errors import SettingsError
from submit_tf_job.host.user_files import (
    one_secret,
    read_secret,
    refuse_if_others_can_read,
)

WHAT, NO_CREDENTIAL = "the credentials file", "is not a credential"


def made(tmp_path: Path, content: bytes = b"tr0ub4dor\n", mode: int = 0o600) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_read_secret_of_a_private_file(tmp_path: Path, mode: int) -> None:
    path = made(tmp_path, mode=mode)
    refuse_if_others_can_read(path, WHAT)
    assert read_secret(path, WHAT) == "tr0ub4dor"


@pytest.mark.parametrize(
    ("mode", "doing"),
    [(0o644, "read"), (0o640, "read"), (0o604, "read"), (0o620, "change"), (0o602, "change")],
)
def test_read_secret_refuses_a_file_open_to_others(tmp_path: Path, mode: int, doing: str) -> None:
    path = made(tmp_path, mode=mode)
    for check in (refuse_if_others_can_read, read_secret):
        with pytest.raises(SettingsError) as caught:
            check(path, WHAT)
        assert caught.value.message == f"{WHAT} {path}: others can {doing} it (mode {mode:04o})"
        assert caught.value.hint == f"chmod 600 {path}"


def test_read_secret_checks_the_target_of_a_link(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(made(tmp_path, mode=0o644))
    with pytest.raises(SettingsError, match=r"others can read it \(mode 0644\)"):
        read_secret(link, WHAT)


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"", "it is empty"),
        (b" \n\n", "it is empty"),
        (b"token\r\nX-Admin: yes", f"more than one line, or a control character, {NO_CREDENTIAL}"),
        (b"tok\x00en", f"more than one line, or a control character, {NO_CREDENTIAL}"),
        (b"\xff\xfe\x00", r"bytes that are not text \(UTF-8\) are not a credential"),
        (b"a" * (64 * 1024 + 1), "more than 64 KiB is not a credential"),
    ],
)
def test_one_secret_never_quotes_an_invalid_credential(raw: bytes, sentence: str) -> None:
    with pytest.raises(SettingsError, match=f"^here: {sentence}$"):
        one_secret(raw, "here")


def test_read_secret_from_a_pipe() -> None:
    read, write = os.pipe()
    os.write(write, b"tr0ub4dor\n")
    os.close(write)
    try:
        assert read_secret(Path(f"/dev/fd/{read}"), WHAT) == "tr0ub4dor"
    finally:
        os.close(read)
