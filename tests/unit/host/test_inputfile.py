"""Files that a user names: special files are refused at once, wherever a file is named."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from submit_tf_job.errors import JobSpecError, SettingsError
from submit_tf_job.host.hadoopconf import read_xml
from submit_tf_job.host.inputfile import read_input
from submit_tf_job.host.secretfile import read_secret, refuse_if_others_can_read
from submit_tf_job.jobspec import read_file
from submit_tf_job.settings import directories, load_settings
from tests.builders.command_line import Cli

FIFO, DEVICE = "is a FIFO, and a file is needed", "is a device or a socket, and a file is needed"


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    made = tmp_path / "fifo"
    os.mkfifo(made, 0o600)
    return made


@pytest.mark.timeout(20)
def test_read_input_refuses_what_is_not_a_file(tmp_path: Path, fifo: Path) -> None:
    for path, why in ((fifo, FIFO), (Path("/dev/zero"), DEVICE), (tmp_path, "is a directory")):
        with pytest.raises(OSError, match=why):
            read_input(path, 10)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "socket"))
        with pytest.raises(OSError, match="No such device or address"):
            read_input(tmp_path / "socket", 10)


def test_read_input_reads_files_and_streams_that_end(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    assert read_input(tmp_path / "a", 4) == b"0123"
    assert read_input(Path("/dev/null"), 4) == b""
    code = (
        "import sys, pathlib; from submit_tf_job.host import inputfile; "
        "print(inputfile.read_input(pathlib.Path(sys.argv[1])).decode(), end='')"
    )
    script = '"$0" -c "$1" <(sleep 0.3; echo late)'
    done = subprocess.run(
        ["/bin/bash", "-c", script, sys.executable, code], capture_output=True, timeout=60
    )
    assert (done.stdout, done.stderr) == (b"late\n", b"")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("special", ["fifo", "device"])
def test_every_reader_refuses_a_special_file(special: str, fifo: Path, tmp_path: Path) -> None:
    path, why = {"fifo": (fifo, FIFO), "device": (Path("/dev/zero"), DEVICE)}[special]
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/core-site.xml").symlink_to(path)
    (tmp_path / "config/submit_tf_job").mkdir(parents=True)
    (tmp_path / "config/submit_tf_job/settings.yaml").symlink_to(path)
    environ = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    for read in (
        lambda: read_secret(path, "the token"),
        lambda: refuse_if_others_can_read(path, "the keytab"),
        lambda: read_xml(tmp_path / "conf/core-site.xml"),
        lambda: load_settings(environ=environ, cwd=tmp_path),
    ):
        with pytest.raises(SettingsError, match=why):
            read()
    with pytest.raises(JobSpecError, match=why):
        read_file(path)


def test_settings_where_home_is_a_file(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    expected = (
        f"error: HOME is {tmp_path}/file, which is not a directory\n  hint: set HOME to a "
        f"directory\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    for argv in (["config", "show"], ["sandbox", "status"], ["validate", "a.yaml"]):
        done = cli(*argv)
        assert (done.status, done.out, done.err) == (2, "", expected)
    with pytest.raises(SettingsError, match=r"XDG_STATE_HOME is .*, which is not a directory"):
        directories({"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "file")})


def test_settings_in_a_removed_working_directory(tmp_path: Path) -> None:
    code = (
        "import os, sys; os.rmdir(os.getcwd()); from submit_tf_job.cli import main; "
        "sys.exit(main(['config', 'show']))"
    )
    (tmp_path / "gone").mkdir()
    root = str(Path(__file__).parents[3])
    environ = {"HOME": str(tmp_path), "PATH": os.defpath, "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / "gone",
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "error: the working directory cannot be used: no such file or directory\n"
    ), done.stderr
