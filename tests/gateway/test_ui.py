"""`submit_tf_job ui`: the page for one person, who alone gets its token."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.gateway.conftest import JOB, until
from tests.world.served import Served

# what a browser could see, as it is started: its arguments, and the file that these name
BROWSER = """#!{python}
import json, os, sys
from urllib.parse import unquote, urlsplit
path = unquote(urlsplit(sys.argv[1]).path)
seen = {{"argv": sys.argv[1:], "page": open(path).read(), "mode": os.stat(path).st_mode & 0o777,
        "around": os.stat(os.path.dirname(path)).st_mode & 0o777}}
json.dump(seen, open("seen.part", "w"))
os.rename("seen.part", "seen.json")
"""


class Ui:
    """`ui` as a process; its address and its token."""

    def __init__(self, directory: Path, *options: str, **environ: str) -> None:
        self.directory = directory
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        argv = [sys.executable, "-m", "submit_tf_job", "ui", *options]
        self.process = subprocess.Popen(
            argv,
            cwd=directory,
            env={**kept, "PYTHONPATH": str(Path(__file__).parents[2]), **environ}
            | {"HOME": str(directory), "TMPDIR": str(directory)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        self.url, _, self.token = self.address.partition("/#token=")

    def ask(self, path: str, token: str = "") -> requests.Response:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return requests.get(self.url + path, headers=headers, timeout=600)

    def end(self) -> tuple[int, str]:
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.said = self.process.communicate(timeout=240)[1]
            finally:
                self.process.kill()
        return self.process.returncode, self.said


@pytest.fixture
def options(cluster: Served) -> list[str]:
    return ["--rm", cluster.url, "--user", "alice"]


@pytest.fixture
def ui(tmp_path: Path, options: list[str]) -> Iterator[Ui]:
    made = Ui(tmp_path, *options)
    yield made
    made.end()


def test_ui_answers_its_own_token_alone_and_ends_with_ctrl_c(ui: Ui) -> None:
    assert ui.url.startswith("http://127.0.0.1:")
    assert ui.ask("/").status_code == 200
    refused = [ui.ask("/v1/jobs", token).status_code for token in ("", "stfj_other", ui.token[:-1])]
    assert refused == [401, 401, 401]
    listed = ui.ask("/v1/jobs", ui.token).json()
    assert (listed["kind"], listed["caller"]) == ("JobList", "alice")
    status, said = ui.end()
    assert status == 0
    assert ui.token not in said, "it is on stdout alone"
    assert "ssh -L" in said
    assert "/v1/jobs" not in said, "requests are no talk"


def test_ui_shows_jobs_of_other_users_as_status_does(ui: Ui, cluster: Served) -> None:
    body = {**JOB, "name": "theirs", "command": "sleep 600"}
    headers = {"Authorization": f"Bearer {ui.token}"}
    made = requests.post(f"{ui.url}/v1/jobs", json=body, headers=headers, timeout=600).json()
    yarn, apps = cluster.cluster.yarn, cluster.cluster.yarn.apps
    other = copy.copy(apps[made["application_id"]])
    other.id, other.user, other.name = f"{other.id.rpartition('_')[0]}_9100", "bob", "not-mine"
    yarn.apps = {**apps, other.id: other}  # who goes through them goes on with the former
    seen = ui.ask(f"/v1/jobs/{other.id}", ui.token)
    yarn.apps = apps
    assert (seen.status_code, seen.json()["user"]) == (200, "bob")


def test_ui_gives_the_browser_a_file_and_not_the_token(tmp_path: Path, options: list[str]) -> None:
    browser = tmp_path / "browser"
    browser.write_text(BROWSER.format(python=sys.executable))
    browser.chmod(0o700)
    ui = Ui(tmp_path, *options, BROWSER=str(browser))
    until((tmp_path / "seen.json").exists, "a browser was started")
    seen = json.loads((tmp_path / "seen.json").read_text())
    argv = Path(f"/proc/{ui.process.pid}/cmdline").read_bytes().decode()
    assert ui.end()[0] == 0
    assert ui.token not in argv + " ".join(seen["argv"])
    assert ui.address in seen["page"]
    assert (seen["mode"], seen["around"]) == (0o600, 0o700)
    assert not list(tmp_path.glob("submit_tf_job-ui-*")), "the file goes with the page"


def test_ui_acts_for_as_user_as_list_does(tmp_path: Path, options: list[str]) -> None:
    ui = Ui(tmp_path, *options, "--as-user", "carol", "--no-browser")
    status, said = ui.end()
    assert (ui.address, status) == ("", 4)  # this ResourceManager ignores proxy users
    assert "the ResourceManager ignores as_user carol" in said
    assert "does not work with a gateway" not in said


def test_ui_without_a_cluster_serves_nothing(tmp_path: Path) -> None:
    ui = Ui(tmp_path, "--no-browser")
    status, said = ui.end()
    assert (ui.address, status) == ("", 2)
    assert "no ResourceManager is known" in said
