"""docs/schedulers.md on a real cluster: each recipe as it stands there."""

from __future__ import annotations

import getpass
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clusters import Cluster
from tests.gateways import Gateway
from tests.pages import blocks
from tests.tool import SUBMIT_S, Tool, gone

pytestmark = pytest.mark.cluster
PAGE = Path(__file__).parents[2] / "docs" / "schedulers.md"
RUN = f"r{int(time.time())}"  # a cluster that was kept knows the runs before
TRAIN = f"train-{RUN}"  # other pages, which run beside this one, have a job `train`
JOB: dict[str, Any] = {
    "image": "library/python:3.11",
    "strategy": "single",
    "command": "echo trained; sleep 2",
    "roles": {"worker": {"memory": "128Mi"}},
}


def recipe(mark: str) -> str:
    """The blocks of a mark, one after the other."""
    found = [block.text for block in blocks(PAGE) if block.mark == f"runs: {mark}"]
    assert found, mark
    return "".join(found)


def of_language(language: str) -> str:
    [found] = [block.text for block in blocks(PAGE) if block.language == language]
    return found


@dataclass
class Host:
    """A machine of a scheduler: `submit_tf_job` is on its path, and a job spec in the directory of
    each step.
    """

    tool: Tool
    environ: dict[str, str]

    def step(
        self, name: str, job: str, command: str, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        directory = self.tool.cwd / name
        directory.mkdir()
        changes = {"files": ["train.py"], "command": "python3 train.py"} if name == "files" else {}
        (directory / "train.yaml").write_text(
            yaml.safe_dump({"name": job, **JOB, **changes}, sort_keys=False)
        )
        (directory / "train.py").write_text("print('trained by a file')")
        if token := variables.pop("token", ""):
            (directory / "token").write_text(f"Authorization: Bearer {token}")
        argv = ["bash", "-u", "-c", command]
        return subprocess.run(
            argv,
            cwd=directory,
            env={**self.environ, **variables},
            capture_output=True,
            text=True,
            timeout=SUBMIT_S,
        )

    def result(self, name: str) -> str:
        """What a step was told on stdout, where it keeps that."""
        kept = self.tool.cwd / name / "result.json"
        return kept.read_text() if kept.is_file() else ""


@pytest.fixture
def host(tool: Tool) -> Host:
    programs = tool.cwd / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "submit_tf_job").write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m submit_tf_job "$@"\n'
    )
    (programs / "sleep").write_text(
        f'#!/bin/sh\ntouch slept\nexec {shutil.which("sleep")} "$@"\n'  # in the step's directory
    )
    for program in programs.iterdir():
        program.chmod(0o755)
    path = f"{programs}{os.pathsep}{tool.environ['PATH']}"
    return Host(tool, {**tool.environ, "PATH": path, "SUBMIT_TF_JOB_PROFILE": tool.profile})


@pytest.fixture
def gateway(tool: Tool, simple: Cluster) -> Iterator[Gateway]:
    made = Gateway(tool, _user(simple))
    yield made
    made.end()


def _user(cluster: Cluster) -> str:
    """Return whose jobs the profile submits."""
    settings = yaml.safe_load(cluster.profile_file.read_text())
    return str(settings.get("user") or getpass.getuser())


def test_every_recipe(host: Host, gateway: Gateway, simple: Cluster) -> None:
    """Seven schedulers have the same run, and so the same job; two that have HTTP alone have jobs of
    their own.
    """
    [azkaban] = re.findall(r"^command=(.*)$", recipe("azkaban"), re.MULTILINE)
    [jenkins] = re.findall(r'script: "(.*?)"', of_language("groovy"))
    argo = yaml.safe_load(next(block.text for block in blocks(PAGE) if block.language == "yaml"))
    [container] = [template["container"] for template in argo["spec"]["templates"]]
    assert container["command"] == ["bash", "-c"]
    command, cron = (block.text for block in blocks(PAGE) if block.mark == "runs: cli")
    names = [TRAIN, f"{TRAIN}-files", f"{TRAIN}-http", f"{TRAIN}-rm"]
    host.tool.jobs += names

    before = {job["application_id"] for job in host.tool("list", "-o", "json").json["jobs"]}
    steps: dict[str, Callable[[], subprocess.CompletedProcess[str]]] = {
        "command": lambda: host.step("command", TRAIN, command, RUN=RUN),
        "cron": lambda: host.step("cron", TRAIN, cron, RUN=RUN),
        "oozie": lambda: host.step("oozie", TRAIN, recipe("oozie"), RUN=RUN),
        "azkaban": lambda: host.step(
            "azkaban", TRAIN, azkaban.replace("${azkaban.flow.execid}", RUN)
        ),
        "argo": lambda: host.step(
            "argo",
            TRAIN,
            container["args"][0].replace("{{workflow.name}}", RUN).replace("/tmp/", ""),
        ),
        "dolphinscheduler": lambda: host.step(
            "dolphinscheduler",
            TRAIN,
            recipe("dolphinscheduler").replace("ds-${system.task.instance.id}", RUN),
        ),
        "jenkins": lambda: host.step("jenkins", TRAIN, jenkins.replace("${run}", RUN)),
        "gateway": lambda: host.step(
            "gateway",
            f"{TRAIN}-http",
            f"set -e\n{recipe('gateway')}",
            RUN=RUN,
            GATEWAY=gateway.url,
            token=gateway.token,
        ),
        "files": lambda: host.step(
            "files",
            f"{TRAIN}-files",
            recipe("gateway-files"),
            RUN=RUN,
            GATEWAY=gateway.url,
            token=gateway.token,
        ),
        "rm": lambda: host.step(
            "rm",
            f"{TRAIN}-rm",
            f"set -e\n{recipe('rm')}",
            RUN=RUN,
            RM=str(simple.info["rm_url"]),
            USER=_user(simple),
        ),
    }
    with ThreadPoolExecutor(len(steps)) as pool:
        done = dict(zip(steps, pool.map(lambda step: step(), steps.values()), strict=True))
    failed = {
        name: (step.returncode, step.stdout, step.stderr, host.result(name))
        for name, step in done.items()
        if step.returncode
    }
    assert not failed, host.tool("list", "-o", "json").json["jobs"]
    for name in ("command", "oozie", "argo", "jenkins", "dolphinscheduler"):
        result = json.loads((host.tool.cwd / name / "result.json").read_text())
        assert (result["state"], result["confirmed"], result["name"]) == (
            "SUCCEEDED",
            True,
            TRAIN,
        ), name
    [run] = {
        json.loads((host.tool.cwd / name / "result.json").read_text())["run"]
        for name in ("command", "oozie", "argo", "jenkins")
    }
    assert done["oozie"].stdout == f"run={run}\nstate=SUCCEEDED\n"
    assert "(application_" in done["dolphinscheduler"].stderr, "which it kills with the workflow"
    assert done["cron"].stdout == "", "cron mails nothing"
    if not (host.tool.cwd / "cron" / "slept").exists():  # else it tells why it tried again
        assert done["cron"].stderr == "", "cron mails nothing"
    assert "SUCCEEDED" in (host.tool.cwd / "cron" / f"{RUN}.txt").read_text()
    assert "trained" in done["gateway"].stdout
    assert '"state": "SUCCEEDED"' in (host.tool.cwd / "gateway" / "events").read_text()
    jobs = [
        job
        for job in host.tool("list", "-o", "json").json["jobs"]
        if job["name"] in host.tool.jobs and job["application_id"] not in before
    ]
    assert sorted(job["name"] for job in jobs) == names
    assert host.tool("wait", f"{TRAIN}-files").status == 0
    host.tool.collected(f"{TRAIN}-files")
    assert "trained by a file" in host.tool("logs", f"{TRAIN}-files").stdout
    for job in host.tool.jobs:
        gone(job)


@pytest.fixture
def callback() -> Iterator[tuple[str, list[Any]]]:
    """An address, and what was sent to it; its first answer is an error."""
    bodies: list[Any] = []
    answers = iter([503])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = next(answers, 204)
            if status < 300:
                bodies.append(json.loads(body))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/hooks", bodies
    server.shutdown()
    server.server_close()


def test_a_call_at_the_end(host: Host, callback: tuple[str, list[Any]]) -> None:
    """By the step, which keeps the job's verdict, and by the job itself, which fails."""
    url, bodies = callback
    host.tool.jobs += [TRAIN, f"{TRAIN}-call"]
    step = host.step("on_end", TRAIN, recipe("on_end"), RUN=f"{RUN}-call", CALLBACK=url)
    assert step.returncode == 0, step
    assert [(job["name"], job["state"], job["confirmed"]) for job in bodies] == [
        (TRAIN, "SUCCEEDED", True)
    ]
    (host.tool.cwd / "train.py").write_text("raise SystemExit(3)")
    (host.tool.cwd / "calls.yaml").write_text(
        next(block.text for block in blocks(PAGE) if block.mark == "needs train.py")
    )
    changes = [f"name={TRAIN}-call", f"env.CALLBACK={url}", "roles.worker.memory=128Mi"]
    words = [word for change in changes for word in ("--set", change)]
    done = host.tool("submit", "calls.yaml", *words)
    assert done.status == 1, (done.stdout, done.stderr)
    assert bodies[1:] == [{"job": "train", "status": 3}]


def test_what_only_a_scheduler_reads() -> None:
    """Oozie's workflow is well-formed, of the schemas that its shell action has, and runs the
    script of the page.
    """
    workflow = ET.fromstring(of_language("xml"))
    names = {"w": "uri:oozie:workflow:1.0", "s": "uri:oozie:shell-action:1.0"}
    assert [script.text for script in workflow.findall(".//s:exec", names)] == ["train.sh"]
    assert workflow.find(".//s:capture-output", names) is not None
    shell = workflow.find(".//s:shell", names)
    assert shell is not None
    order = [element.tag.partition("}")[2] for element in shell]
    assert order[:3] == ["resource-manager", "name-node", "exec"]
    assert "RUN=${wf:id()}-${wf:run()}" in [element.text for element in shell]
    assert {action.get("to") for action in workflow.findall(".//w:ok", names)} == {"end"}
