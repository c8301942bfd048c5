"""The gateway's web page in a real Chromium, as wide as a phone: jobs, one job live, and nothing
that a job says becomes markup.
"""

from __future__ import annotations

import base64
import copy
import getpass
import hashlib
import json
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select

from submit_tf_job.gateway.callers import line_of
from tests.gateway.conftest import JOB, TOKEN, Process, until
from tests.world.served import Served

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
PHONE = (390, 844)
ZONE = "America/New_York"


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[webdriver.Chrome]:
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in programs:
        pytest.fail("run `make test-all`, or apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = str(programs[0])
    words = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu")
    for word in (*words, "--no-proxy-server", f"--user-data-dir={tmp_path}/chrome"):
        options.add_argument(word)
    metrics = {"width": PHONE[0], "height": PHONE[1], "pixelRatio": 2.0}
    options.add_experimental_option("mobileEmulation", {"deviceMetrics": metrics})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options, webdriver.ChromeService(str(programs[1])))
    yield made
    made.quit()


class Page:
    """What somebody sees."""

    def __init__(self, browser: webdriver.Chrome) -> None:
        self._browser = browser

    @property
    def text(self) -> str:
        with suppress(StaleElementReferenceException):
            return str(self._browser.find_element(By.TAG_NAME, "body").text)
        return ""

    def sees(self, *words: str) -> None:
        try:
            until(lambda: all(word in self.text for word in words), f"{words}")
        except AssertionError:
            pytest.fail(f"{[word for word in words if word not in self.text]} in {self.text}")

    def find(self, selector: str) -> Any:
        return self._browser.find_element(By.CSS_SELECTOR, selector)

    def run(self, script: str, *arguments: object) -> Any:
        return self._browser.execute_script(script, *arguments)

    def fits(self) -> None:
        """Nothing stands out on the right of a phone."""
        widths = self.run("return [innerWidth, document.documentElement.scrollWidth]")
        assert widths == [PHONE[0], PHONE[0]]


class Job:
    """A job on the fake cluster, of which its deciding task tells what the test wants."""

    def __init__(
        self, cluster: Served, gateway: Process, name: str, role: str = "worker", **more: Any
    ) -> None:
        self.fake, self.name, self.role, self.task = cluster.cluster, name, role, f"{role}-0"
        spec = {**JOB, "name": name, "command": "sleep 600", **more}
        answer = gateway.ask("POST", "/v1/jobs", json=spec)
        assert answer.status_code == 201, answer.text
        self.app = self.fake.yarn.apps[answer.json()["application_id"]]
        self.run = answer.json()["run"]
        self.container = self.app.id.replace("application", "container") + "_01_000002"

    def runs(self, log: str) -> None:
        held = {"id": self.container, "component_instance_name": self.task}
        held |= {"bare_host": "node1", "state": "READY"}
        self.fake.yarn.containers[self.role] = [held]
        self.fake.node.logs[self.container, "stdout.txt"] = log.encode()

    def tells(self, step: int, **more: Any) -> None:
        task = {"task": self.task, "state": "running", "host": "node1", "address": "n"}
        task |= {"container": self.container, "attempt": 0, "status": None}  # type: ignore[dict-item]
        roles = {self.role: {"wanted": 1, "arrived": 1, "running": 1}}
        progress = {"step": step, "total": 10, "task": self.task, "at": 1.0}
        progress["metrics"] = {"loss": 0.123456, HOSTILE: 1.0}
        report: dict[str, Any] = {"version": 1, "run": self.run, "state": "running", "wanted": 1}
        report |= {"arrived": 1, "missing": [], "tasks": [task], "roles": roles, "outcome": None}
        report |= {
            "started_at": self.app.started_ms / 1000 + 5.0,
            "warnings": [HOSTILE],
            "first_failure": None,
            "progress": progress,
            **more,
        }
        self.fake.node.logs[self.container, "job-report.json"] = json.dumps(report).encode()

    def draws(self, *losses: float | str) -> None:
        """Let its deciding task leave curves, of a metric with a hostile unit and name, too."""
        points = [[10.0 * at, at + 1, loss] for at, loss in enumerate(losses)]
        metric: dict[str, Any] = {"kind": "metric", "step_unit": HOSTILE, "points": points}
        memory: dict[str, Any] = {"name": "memory", "kind": "usage", "unit": "bytes"}
        memory |= {"role": "worker"}
        memory |= {"points": [[0.0, None, 2**30], [15.0, None, 3 * 2**30]]}
        series = [{"name": "loss", **metric}, {"name": HOSTILE, **metric}, memory]
        most = {"least": 1.0, "mean": 1.0, "most": 3 * 2**30, "most_task": HOSTILE}
        role = {"tasks": 1, "memory_bytes": {"peak": most, "mean": most}}
        usage = {"version": 1, "run": self.run, "roles": {"worker": role}, "series": series}
        self.fake.node.logs[self.container, "job-usage.json"] = json.dumps(usage).encode()

    def fails(self, *, ends: bool = True, **more: Any) -> None:
        failure = {"task": "worker-0", "status": 1, "reason": "exited", "host": "node1"}
        failure |= {"message": f"worker-0 failed: {HOSTILE}", "last_lines": [HOSTILE]}
        outcome = {"state": "failed", "outcome": {"status": 1}, "first_failure": failure}
        outcome |= {"roles": {"worker": {"wanted": 1, "arrived": 1, "failed": 1}}, **more}
        self.tells(7, **outcome)
        if not ends:
            return
        self.fake.node.ended.add(self.container)
        self.fake.yarn.end(self.app, "FINISHED", "FAILED", "")


def test_the_page_on_a_phone(cluster: Served, gateway: Process, browser: webdriver.Chrome) -> None:
    _walk(cluster, gateway, browser, Page(browser))
    log = cast(Any, browser).get_log("browser")
    said = [entry["message"] for entry in log if entry["source"] != "network"]
    assert said == [], "no error of the page's own, and none of its content policy"


def _walk(cluster: Served, gateway: Process, browser: webdriver.Chrome, page: Page) -> None:
    job = Job(cluster, gateway, "mnist")
    browser.get(gateway.url)
    page.sees("Token")
    page.fits()
    for token, words in (("wrong", "This token is unknown or was revoked"), (TOKEN, "mnist")):
        page.find("#token").send_keys(token)
        page.find("#enter button").click()
        page.sees(words)
    page.fits()
    stored = "return [sessionStorage.length, localStorage.length, document.cookie]"
    assert page.run(stored) == [1, 0, ""]
    Select(page.find("#state")).select_by_visible_text("STOPPED")
    page.sees("No jobs.")
    Select(page.find("#state")).select_by_visible_text("any")

    job.runs(f"hello\n{HOSTILE}\n")
    job.tells(3)
    other = copy.copy(job.app)
    other.id, other.user, other.name = f"{job.app.id.rpartition('_')[0]}_9000", "bob", "not-mine"
    apps = job.fake.yarn.apps
    job.fake.yarn.apps = {**apps, other.id: other}  # who goes through them goes on with the former
    page.find("#everybody").click()
    page.sees("not-mine", "bob", "mnist")
    names = "return [...document.querySelectorAll('#jobs a .name')].map((name) => name.textContent)"
    linked = page.run(names)
    assert "mnist" in linked
    assert "not-mine" not in linked, "jobs of other users are no links"
    page.run("document.querySelector('#jobs a').click()")
    job.fake.yarn.apps = apps
    page.sees("RUNNING", "step 3 of 10", "loss 0.1235", "worker-0", "node1", "hello", HOSTILE)
    page.sees("live")
    assert page.run("return document.querySelector('progress').value") == 3
    page.fits()
    past = [{"generation": 0, "task": "worker-0", "message": HOSTILE, "step": 2, "duration_s": 9.4}]
    job.tells(3, retries={"max": 3, "used": 1}, generation=1, generations=past)
    page.sees("Retries: 1 of 3", "ended because", "9 s")
    page.fits()
    job.tells(3, served=[{"task": "worker-0", "host": "node1", "ports": {"http": 38123}}])
    page.sees("Timeline", "trains", "Warning", "worker-0 http", "http://node1:38123")
    link = "return document.querySelector('#job .card a').href"
    assert page.run(link) == "http://node1:38123/"
    job.tells(7)
    page.sees("step 7 of 10")
    job.fake.node.logs[job.container, "stdout.txt"] += b"the last line\n"
    page.sees("the last line")
    page.run("document.querySelector('td button').click()")  # the log of one task
    selected = "return document.querySelector('#job select').selectedOptions[0].text"
    assert page.run(selected) == "worker-0"
    page.sees("the last line")
    # 1:30 for the second time, because summer time has ended
    cast(Any, browser).execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ZONE})
    until_s = datetime(2026, 11, 1, 6, 30, tzinfo=timezone.utc).timestamp()
    held = {"task": "worker-0", "host": HOSTILE, "container": job.container, "until": until_s}
    job.fake.node.containers[job.container] = "RUNNING"
    stays = {"at": job.app.started_ms / 1000 + 9, "text": "the container of worker-0 stays for 9 s"}
    told = {"container": job.container, "held": {**held, "directory": "/yarn/d7"}}
    job.fails(ends=False, **told, events=[stays])
    page.sees("FAILED", "Why it failed", "the program failed", HOSTILE, "stays until", "/yarn/d7")
    page.sees("the container of worker-0 is held until ", "What its tasks used is not known: ")
    page.sees("1:30:00", "EST")
    page.fits()
    page.run("document.querySelector('#job .card.why button').click()")
    until(lambda: job.fake.yarn.signals, "the deciding task is told to end")
    job.fails()
    until(lambda: "stays until" not in page.text, "its container is released")
    page.sees("FAILED", "Why it failed", "the program failed", HOSTILE)
    counted = page.run("return [document.images.length, document.scripts.length]")
    assert counted == [0, 2], "what a job says is text"
    assert browser.title == "failed: mnist"
    browser.refresh()
    page.sees("FAILED", "Why it failed", "the program failed")
    assert "did it start at all" not in page.text, "the cause is there, and no other advice"

    cluster.cluster.yarn.full = True
    waiting = Job(cluster, gateway, "patient")
    cluster.cluster.yarn.containers.clear()
    browser.get(f"{gateway.url}/#/job/{waiting.app.id}")
    page.sees("PENDING", "patient", "Why it waits")
    page.fits()
    page.find("#job .stop").click()
    page.sees("Stop patient?")
    page.find("#stop button[value=keep]").click()
    page.sees("PENDING")
    page.find("#job .stop").click()
    page.find("#stop button[value=stop]").click()
    page.sees("STOPPED")
    page.find("#job a").click()
    page.sees("mnist", "patient")
    page.find("#search").send_keys("mni")
    until(lambda: "patient" not in page.text, "the list has only what is searched for")
    page.sees("mnist")
    browser.get(f"{gateway.url}/#/job/application_1_0404")
    page.sees("does not know application_1_0404")
    assert "Log" not in page.text, "an unknown job has no log"
    page.run("scrollTo(0, document.body.scrollHeight)")
    top = page.run("return document.getElementById('trouble').getBoundingClientRect().top")
    assert top >= 0, "the alert is seen wherever one is"
    hosts = "return performance.getEntriesByType('resource').map((one) => new URL(one.name).origin)"
    assert set(page.run(hosts)) == {gateway.url}, "no request leaves for another host"
    assert browser.title == "application_1_0404"
    page.find("#leave").click()
    page.sees("Token")
    assert page.run("return sessionStorage.length") == 0
    cluster.cluster.yarn.full = False


CANVASES = "return document.querySelectorAll('canvas').length"
# the curve of a metric: its rows, with one head for each run
TABLE = """
const figure = [...document.querySelectorAll('.curve')].find((one) => one.innerText.startsWith('loss'));
figure.querySelector('details').open = true;
return [...figure.querySelectorAll('details tr')].map((row) => [...row.children].map((cell) => cell.innerText));
"""
# pixels of the first curve that are neither blank nor grey
DRAWN = """
const canvas = document.querySelector('canvas');
const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
let drawn = 0;
for (let at = 0; at < data.length; at += 4) {
  const [red, green, blue, alpha] = data.slice(at, at + 4);
  drawn += alpha > 128 && Math.max(red, green, blue) - Math.min(red, green, blue) > 60;
}
return drawn;
"""


def test_curves_of_runs_over_one_another(
    cluster: Served, browser: webdriver.Chrome, tmp_path: Path
) -> None:
    me, callers = getpass.getuser(), tmp_path / "callers"  # whose files records are
    callers.write_text(line_of(me, TOKEN))
    callers.chmod(0o600)
    cluster.cluster.yarn.site.users |= {me}
    options = ("--rm", cluster.url, "--user", me, "--callers", str(callers))
    records = {"SUBMIT_TF_JOB_STAGING": (tmp_path / "staging").as_uri()}
    gateway = Process(tmp_path, *options, environ=records)
    try:
        _compare(cluster, gateway, browser)
    finally:
        gateway.end(signal.SIGKILL)


def _compare(cluster: Served, gateway: Process, browser: webdriver.Chrome) -> None:
    page, names = Page(browser), [f"run-{number}" for number in range(7)]
    runs = []
    for number, name in enumerate(names):
        roles = {name: {"memory": "256Mi"}}
        job = Job(
            cluster, gateway, name, name, strategy="custom", deciding_role=name, roles=roles,
            env={"LR": f"0.{number}", "SEED": "1"},
        )  # fmt: skip
        job.runs("hello\n")
        job.tells(3)
        job.draws(1.0, 0.5 + number, 0.25, "NaN")
        runs.append(job)
    browser.get(f"{gateway.url}/#token={TOKEN}")
    page.sees(*names, "loss 0.1235")
    assert "token" not in page.run("return location.href"), "it leaves the address at once"
    small = (
        """return document.querySelector("#jobs svg[aria-label='loss from 1 to 0.25']") !== null"""
    )
    until(lambda: page.run(small), "a small curve")
    page.run("document.querySelectorAll('#jobs input').forEach((box) => box.click())")
    until(lambda: page.find("#compare").text == "Compare 6 runs (of 7 chosen)", "at most six")
    page.run("document.getElementById('compare').click()")
    page.sees("6 runs side by side", "last loss", "NaN", HOSTILE, "LR")
    assert "SEED" not in page.text, "what is the same is left out"
    rates = "return [...document.querySelectorAll('.card tr')].map((row) => row.innerText)"
    for run in page.run(rates)[1:]:
        assert f"0.{run[4]}" in run.split()
    until(lambda: page.run(CANVASES) == 3, "curves")
    heads, *rows = page.run(TABLE)
    assert len(heads) == 1 + 6
    values = {run[:5]: float(value) for run, value in zip(heads, rows[1], strict=True) if run != heads[0]}  # fmt: skip
    assert values == {name: 0.5 + number for number, name in enumerate(names) if name in values}
    assert [row[0] for row in rows] == ["1", "2", "3", "4"]
    assert {*rows[3][1:]} == {"NaN"}
    until(lambda: page.run(DRAWN) > 1000, "six lines are drawn")
    page.fits()

    page.run("location.hash = '#/job/' + arguments[0]", runs[0].app.id)
    page.sees("Used, of what was asked", "3 GiB", "loss is NaN since", HOSTILE)
    until(lambda: page.run(CANVASES) == 3, "curves")
    page.fits()
    assert page.run(TABLE)[1:] == [["1", "1"], ["2", "0.5"], ["3", "0.25"], ["4", "NaN"]]
    until(lambda: page.run(DRAWN) > 100, "a line is drawn")
    names_of = (
        "return [...document.querySelectorAll('.curve [role=img]')].map((one) => one.ariaLabel)"
    )
    assert page.run(names_of)[0].startswith("Curve of loss. NaN at")
    counted = page.run("return [document.images.length, document.scripts.length]")
    assert counted == [0, 2], "what a job says is text"
    assert "owned" not in browser.title
    line = "return getComputedStyle(document.body).backgroundColor"
    light = page.run(line)
    scheme = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
    until(lambda: page.run(line) != light, "it is dark where the browser is")
    until(lambda: page.run(DRAWN) > 100, "also the curve")
    log = cast(Any, browser).get_log("browser")
    said = [entry["message"] for entry in log if entry["source"] != "network"]
    assert said == [], "no error of the page's own, and none of its content policy"


def test_nothing_but_its_own_files(gateway: Process) -> None:
    first = gateway.ask("GET", "/").text
    modules = re.findall(r'from "\./(\w+\.js)"', gateway.ask("GET", "/page.js").text)
    named = [*re.findall(r'(?:src|href)="(/[^#"]+)"', first), *(f"/{name}" for name in modules)]
    answers = {
        path: gateway.ask("GET", path) for path in ("/", *named, "/curves.js", "/drawing.js")
    }
    assert {answer.status_code for answer in answers.values()} == {200}
    for path, answer in answers.items():
        policy = answer.headers["content-security-policy"]
        for rule in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"):
            assert rule in policy
        assert "unsafe" not in policy
        known = {"If-None-Match": answer.headers["etag"]}
        assert gateway.ask("GET", path, headers=known).status_code == 304
    assert "style=" not in answers["/"].text, "no inline style"
    sinks = ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(")
    for path, answer in answers.items():
        if path.endswith(".js"):
            assert not [word for word in (*sinks, "localStorage") if word in answer.text], path
            assert not re.search(r"https?://(?!www\.w3\.org/)\w", answer.text[100:]), path
    for path, told in re.findall(r'(?:src|href)="(/uPlot[^"]+)" integrity="sha384-([^"]+)"', first):
        digest = hashlib.sha384(answers[path].content).digest()
        assert base64.b64encode(digest).decode() == told, path
    assert gateway.ask("GET", "/page.py").status_code == 404
