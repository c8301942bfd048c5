"""A running job on a real cluster: watched, restarted, extended, reached; by its owner, and by somebody
else.
"""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import time
import urllib.request
from collections.abc import Sequence

import pytest

from tests.tool import SUBMIT_S, Tool, until

pytestmark = pytest.mark.cluster

SMALL = {"memory": "128Mi"}
TICKS = """
for i in $(seq 1 3600); do
  echo tick $i
  echo 'TFJOB_PROGRESS {"step": '$i', "total": 3600, "metrics": {"loss": 0.5}}'
  sleep 1
done
"""


@pytest.fixture
def operated(tool: Tool) -> str:
    """A job with progress, and with a role that may be restarted."""
    roles = {
        "chief": {**SMALL, "command": TICKS},
        "worker": {**SMALL, "instances": 2, "command": "sleep 3600", "restart": "on-failure"},
    }
    spec = tool.spec("operated", strategy="custom", lifetime="1h", roles=roles)
    assert tool("submit", spec, "--detach", "-q").status == 0
    assert tool("wait", "operated", "--for", "ready", "-q").status == 0
    tool.until("operated", lambda seen: seen["roles"]["worker"]["running"] == 2)
    return "operated"


def test_a_job_from_the_start_to_the_end(tool: Tool, operated: str) -> None:
    _changed(tool, operated)
    _drawn(tool, operated)
    _ended(tool, operated)


def _changed(tool: Tool, job: str) -> None:
    def containers() -> dict[str, str]:
        tasks = tool("describe", job, "-o", "json").json["task_list"]
        return {task["task"]: task["container_id"] for task in tasks}

    before = containers()
    assert tool("restart", job, "worker-1").status == 0
    tool.until(job, lambda seen: seen["roles"]["worker"]["restarts"] == 1)
    # YARN tells of a new container a little later
    after = until(lambda: (now := containers()) != before and now, "worker-1 has a new container")
    assert {name for name in before if before[name] != after[name]} == {"worker-1"}
    assert tool("extend", job, "2h", "-o", "json").json["value"] > 7000
    events = tool("events", job, "-o", "json").json["events"]
    told = " ".join(event["text"] for event in events)
    for words in ("submitted to queue default", "worker-1 is launched", "all 3 tasks started"):
        assert words in told


DRAWN = (
    "ROLE    DESIRED  READY  RUNNING",
    r"step \d+/3600  loss 0.5",
    r"chief-0 \| tick \d+",
    r"  loss  +[_▁]+  0\.5  \(0.5 to 0.5\)",  # the curve of the first metric
    r"  chief memory  +\S+  \d+ MiB  \(most \d+ MiB\)",
)


def _drawn(tool: Tool, job: str) -> None:
    """The live view, on a terminal of 80 columns."""
    frames = _on_terminal(tool, "watch", job, "--lines", until=DRAWN)
    text = _plain(frames)
    assert max(map(len, text.replace("\r", "\n").splitlines())) <= 80
    assert frames.rindex("\x1b[2K") < frames.rindex("chief-0"), "the last frame stays on the screen"
    assert tool.status(job)["state"] == "RUNNING"


def _plain(shown: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)


def _on_terminal(tool: Tool, *arguments: str, until: Sequence[str], status: int = 130) -> str:
    """Run a command on a terminal until it has shown all patterns, and leave it by Ctrl-C where it
    has not ended.
    """
    main, other = pty.openpty()
    environ = {**tool.environ, "COLUMNS": "80", "LINES": "30", "TERM": "xterm"}
    process = subprocess.Popen(
        tool.argv(*arguments), env=environ, cwd=tool.cwd, stdin=other, stdout=other, stderr=other
    )
    os.close(other)
    shown, end = b"", time.monotonic() + SUBMIT_S

    def missing() -> list[str]:
        text = _plain(shown.decode(errors="replace"))
        return [pattern for pattern in until if not re.search(pattern, text)]

    while missing() and time.monotonic() < end:
        if select.select([main], [], [], 0.5)[0]:
            try:
                shown += os.read(main, 65536)
            except OSError:  # it has ended
                break
    if status == 130:
        process.send_signal(signal.SIGINT)
    while time.monotonic() < end:  # a process that has ended may leave something to read
        if select.select([main], [], [], 0.2)[0]:
            try:
                shown += os.read(main, 65536)
            except OSError:  # the other side is closed
                break
    assert process.wait(timeout=SUBMIT_S) == status, shown.decode()
    os.close(main)
    assert missing() == [], shown.decode()
    return shown.decode()


def _ended(tool: Tool, job: str) -> None:
    app_id = tool.status(job)["application_id"]
    theirs = tool("delete", app_id, "--user", "mallory")  # YARN knows whose it is
    assert theirs.status == 4, theirs
    assert tool.status(job)["state"] == "RUNNING"
    assert tool("stop", job).status == 0
    assert tool("status", app_id, "-o", "json").json["state"] == "STOPPED"


BOARD = (
    "echo 'TensorBoard of '$TFJOB_NAME > index.html && exec python3 -m http.server $TFJOB_PORT_HTTP"
)


def test_boards_of_two_jobs_on_one_node_have_addresses_of_their_own(tool: Tool) -> None:
    """Both jobs ask for `auto`; one of them is scaled, and each task has its own link."""
    for name in ("board-one", "board-two"):
        roles = {
            "chief": {**SMALL, "command": "sleep 3600"},
            "tensorboard": {**SMALL, "command": BOARD, "ports": {"http": "auto"}},
        }
        spec = tool.spec(name, strategy="custom", roles=roles)
        assert tool("submit", spec, "--detach", "-q").status == 0
    urls = {}
    for name in ("board-one", "board-two"):
        found = tool.until(name, lambda seen: seen["links"])
        urls[name] = found["links"][0]["url"]
        assert f"tensorboard-0 http  {urls[name]}" in tool("status", name).stdout
        assert tool("open", name, "tensorboard").stdout == f"{urls[name]}\n"
        assert _page(urls[name]) == f"TensorBoard of {name}\n"
    assert len(set(urls.values())) == 2

    assert tool("scale", "board-one", "tensorboard=2").status == 0
    both = tool.until("board-one", lambda seen: len(seen["links"]) == 2)["links"]
    assert [link["task"] for link in both] == ["tensorboard-0", "tensorboard-1"]
    assert [_page(link["url"]) for link in both] == ["TensorBoard of board-one\n"] * 2
    assert tool("open", "board-one", "tensorboard").stderr == f"tensorboard-1: {both[1]['url']}\n"


def _page(url: str) -> str:
    """Read a page, which a program that has just been started may not serve at once."""
    end = time.monotonic() + SUBMIT_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=30) as page:
                return str(page.read().decode())
        except OSError:
            assert time.monotonic() < end, url
            time.sleep(0.5)


KERAS = """
for epoch in 1 2 3; do
  echo "Epoch $epoch/3"
  printf '\\r1/2 [==>.] - ETA: 1s - loss: 0.9'
  printf '\\b\\b\\r2/2 [====] - 2s 1s/step - loss: 0.%s\\n' $epoch
done
echo to stderr >&2
echo 'TFJOB_PROGRESS is a word, too'
until [ -e MAY-END ]; do sleep 0.1; done
"""


def test_submit_shows_the_output_on_a_terminal_and_progress_from_what_keras_prints(
    tool: Tool,
) -> None:
    may_end = tool.cwd / "may-end"
    command = KERAS.replace("MAY-END", str(may_end))
    spec = tool.spec("shown", strategy="single", roles={"worker": {**SMALL, "command": command}})
    may_end.touch()
    shown = _on_terminal(tool, "submit", str(spec), until=["application  "], status=0)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", shown)
    lines = text.splitlines()
    app = tool.status("shown")["application_id"]
    assert re.fullmatch(rf"Submitted shown as shown-\w{{8}} \({app}\)", lines[0])
    assert lines[1] == "  submit_tf_job watch shown    submit_tf_job logs shown -f"
    assert lines[2].endswith(f"/cluster/app/{app}")
    printed = [line.removeprefix("worker-0 | ") for line in lines if line.startswith("worker-0 | ")]
    epochs = [
        line
        for epoch in (1, 2, 3)
        for line in (f"Epoch {epoch}/3", f"2/2 [====] - 2s 1s/step - loss: 0.{epoch}")
    ]
    assert [line for line in printed if line != "to stderr"] == [
        *epochs,
        "TFJOB_PROGRESS is a word, too",
    ]
    assert "to stderr" in printed
    assert lines.index("worker-0 | Epoch 1/3") < next(
        at for at, line in enumerate(lines) if "SUCCEEDED" in line
    )
    found = tool.status("shown")["progress"]
    assert {name: found[name] for name in ("step", "total", "unit", "part", "metrics")} == {
        "step": 3, "total": 3, "unit": "epoch", "part": 1.0, "metrics": {"loss": 0.3},
    }  # fmt: skip
    may_end.unlink()
    again = tool.start("submit", spec)
    said = _until_it_says(again, r"RUNNING +epoch [123]/3  loss 0\.\d")
    may_end.touch()
    out, err = again.communicate(timeout=SUBMIT_S)
    assert again.returncode == 0, said + err
    assert "worker-0 |" not in said + err + out


def _until_it_says(process: subprocess.Popen[str], pattern: str) -> str:
    """Read stderr until a line has a text; return what was read."""
    lines: list[str] = []
    assert process.stderr is not None
    for line in process.stderr:
        lines.append(line)
        if re.search(pattern, line):
            return "".join(lines)
    raise AssertionError(f"no line has {pattern}: {lines}")
