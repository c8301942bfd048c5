"""`make screenshots`: draw what the tool shows on a terminal of 80 columns, on a sandbox of its
own, into docs/images.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

import yaml
from rich.console import Console
from rich.text import Text

from submit_tf_job.sandbox import Sandbox, SandboxOptions
from tests.fakes.sandbox import sandbox_dirs

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
COLUMNS, LINES = 80, 30
SMALL = {"memory": "256Mi"}
TRAIN = """
import json, time
for step in range(1, 121):
    print(f"epoch {step}/120 - loss: {1 / step:.4f}", flush=True)
    print("TFJOB_PROGRESS", json.dumps({"step": step, "total": 120, "metrics": {"loss": 1 / step}}), flush=True)
    time.sleep(1)
"""
TYPO = 'if [ $TFJOB_INDEX = 1 ]; then python3 -c "import tensorflw"; else sleep 300; fi'
JOBS = {
    "digits": {
        "strategy": "multi-worker",
        "lifetime": "2h",
        "roles": {
            "chief": {**SMALL, "command": ["python3", "-c", TRAIN]},
            "worker": {**SMALL, "instances": 2, "command": "sleep 300"},
            "tensorboard": {
                **SMALL,
                "command": "exec python3 -m http.server $TFJOB_PORT_HTTP",
                "ports": {"http": "auto"},
            },
        },
    },
    "waits": {
        "strategy": "custom",
        "roles": {"chief": SMALL, "worker": {"memory": "7Gi", "instances": 40}},
        "command": "sleep 300",
    },
    "broken": {
        "strategy": "multi-worker",
        "roles": {
            "chief": {**SMALL, "command": "sleep 300"},
            "worker": {
                **SMALL,
                "instances": 2,
                "command": TYPO,
            },
        },
    },
}


def main() -> None:
    """Run the jobs and draw them."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="screenshots-") as directory:
        home = Path(directory)
        environ = {
            **os.environ,
            "HOME": directory,
            "PYTHONPATH": str(ROOT),
            "TERM": "xterm-256color",
        }
        environ.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))
        sandbox = Sandbox("screenshots", sandbox_dirs(environ))
        try:
            environ["SUBMIT_TF_JOB_PROFILE"] = sandbox.up(SandboxOptions(), environ, print).profile
            _draw_all(home, environ)
        finally:
            sandbox.down()


def _draw_all(home: Path, environ: dict[str, str]) -> None:
    def run(*words: str) -> str:
        return _on_terminal([sys.executable, "-m", "submit_tf_job", *words], home, environ)

    for name, content in JOBS.items():
        (home / f"{name}.yaml").write_text(
            yaml.safe_dump({"name": name, "image": "registry.example.com/ml/tf:2.15", **content})
        )
    run("submit", "digits.yaml", "--detach", "-q")
    run("wait", "digits", "--for", "ready", "-q")
    _save("failed", "submit_tf_job submit broken.yaml", run("submit", "broken.yaml"))
    run("submit", "waits.yaml", "--detach", "-q")
    time.sleep(15)
    _save("list", "submit_tf_job list", run("list"))
    _save("describe", "submit_tf_job describe digits", run("describe", "digits"))
    _save("pending", "submit_tf_job status waits", run("status", "waits"))
    _save(
        "watch",
        "submit_tf_job watch digits --lines",
        _last_frame(run("watch", "digits", "--lines")),
    )
    _save("logs", "submit_tf_job logs digits --tail 4", run("logs", "digits", "--tail", "4"))
    for name in JOBS:
        run("delete", name, "--force", "-q")


def _on_terminal(argv: list[str], cwd: Path, environ: dict[str, str], within_s: float = 60) -> str:
    """Run a command on a terminal; one that goes on is left by Ctrl-C after six seconds of
    drawing.
    """
    main_end, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    process = subprocess.Popen(argv, cwd=cwd, env=environ, stdin=other, stdout=other, stderr=other)
    os.close(other)
    shown, end = b"", time.monotonic() + (6 if "watch" in argv else within_s)
    while process.poll() is None and time.monotonic() < end:
        if select.select([main_end], [], [], 0.2)[0]:
            try:
                shown += os.read(main_end, 65536)
            except OSError:
                break
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    process.wait(timeout=30)
    while select.select([main_end], [], [], 0.2)[0]:
        try:
            shown += os.read(main_end, 65536)
        except OSError:
            break
    os.close(main_end)
    return shown.decode("utf-8", "replace").replace("\r\n", "\n")


def _last_frame(shown: str) -> str:
    """Return the last picture of a live view: it begins anew where the cursor goes up."""
    frames = re.split(r"\r?(?:\x1b\[2K|\x1b\[1A)+", shown)
    pictures = [frame for frame in frames if "TASK" in frame]
    return re.sub(r"\x1b\[\?25[lh]", "", pictures[-1]) if pictures else shown


def _save(name: str, command: str, shown: str) -> None:
    console = Console(
        record=True,
        width=COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        color_system="standard",
        highlight=False,
    )
    console.print(Text(f"$ {command}", style="bold"))
    console.print(Text.from_ansi(shown.strip("\n")))
    (IMAGES / f"{name}.svg").write_text(console.export_svg(title=command, unique_id=name))
    print(f"docs/images/{name}.svg")


if __name__ == "__main__":
    main()
