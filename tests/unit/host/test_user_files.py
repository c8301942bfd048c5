"""Files that a user names: special files are refused at once, wherever a file is named."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from submit_tf_job.errors import SettingsError
from submit_tf_job.host.user_files import read_secret, refuse_if_others_can_read
from tests.builders.command_line import Cli
from tests.builders.host import Host

ROOT = Path(__file__).parents[3]


@pytest.mark.timeout(600)  # who reads one waits for ever
@pytest.mark.parametrize("special", ["fifo", "device", "socket"])
def test_every_reader_refuses_a_special_file(special: str, host: Host, tmp_path: Path) -> None:
    path = Path("/dev/zero") if special == "device" else tmp_path / special
    why = "is a FIFO, and a file" if special == "fifo" else "is a device or a socket, and a file"
    if special == "fifo":
        os.mkfifo(path, 0o600)
    elif special == "socket":
        why = "o such device or address"
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    assert why in host.cli("validate", str(path)).out
    for link, env in (
        (host.home / "conf/core-site.xml", {"HADOOP_CONF_DIR": str(host.home / "conf")}),
        (host.user, {}),
    ):
        link.parent.mkdir(parents=True)
        link.symlink_to(path)
        assert why in host.refused(**env)[0]
        link.unlink()
    if special != "socket":
        for read in (read_secret, refuse_if_others_can_read):
            with pytest.raises(SettingsError, match=why):
                read(path, "the token")


@pytest.mark.slow
def test_job_spec_from_a_stream_that_ends(host: Host) -> None:
    assert "the file is empty" in host.cli("validate", "/dev/null").out
    script = '"$0" -m submit_tf_job validate <(sleep 0.3; echo "late: 1")'
    argv = ["/bin/bash", "-c", script, sys.executable]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, cwd=ROOT)
    assert "unknown key 'late'" in done.stdout


def test_home_is_a_file(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    expected = (
        f"error: HOME is {tmp_path}/file, which is not a directory\n  hint: set HOME to a "
        f"directory\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    for argv in (["config", "show"], ["sandbox", "status"], ["validate", "a.yaml"]):
        done = cli(*argv)
        assert (done.status, done.out, done.err) == (2, "", expected)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert "XDG_STATE_HOME is" in cli("sandbox", "status").err


@pytest.mark.slow
def test_settings_in_a_removed_working_directory(tmp_path: Path) -> None:
    code = (
        "import os, sys; os.rmdir(os.getcwd()); from submit_tf_job.cli import main; "
        "sys.exit(main(['config', 'show']))"
    )
    (tmp_path / "gone").mkdir()
    environ = {"HOME": str(tmp_path), "PATH": os.defpath, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / "gone",
        env=environ,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "error: the working directory cannot be used: no such file or directory\n"
    ), done.stderr
