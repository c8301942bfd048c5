"""`make screenshots`: draw what the tool shows on a terminal of 80 columns, on a sandbox of its
own, into docs/images.
"""

from __future__ import annotations

import codecs
import fcntl
import io
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tests import animation, clusters

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
COLUMNS, LINES = 80, 30
NARROW = 64  # of the animation, which a phone shows as wide as itself
SMALL = {"memory": "256Mi"}
README = ROOT / "README.md"
# those of the animation: grey text can still be read on a phone
BLACK, WHITE, GREY = (13, 17, 23), (230, 237, 243), (139, 148, 158)
RED, GREEN, YELLOW, BLUE = (255, 123, 114), (126, 231, 135), (227, 179, 65), (121, 192, 255)
COLOURS = [BLACK, RED, GREEN, YELLOW, BLUE, RED, BLUE, WHITE]
THEME = TerminalTheme(BLACK, WHITE, COLOURS, [GREY, *COLOURS[1:]])
MISTAKE = ("default_rng", "defualt_rng")  # of the program in the README
QUIET = 'job: {image: none, env: {TF_CPP_MIN_LOG_LEVEL: "2"}}'  # TensorFlow's own remarks
TRAIN = """
import json, time
for step in range(1, 121):
    print(f"epoch {step}/120 - loss: {1 / step:.4f}", flush=True)
    print("TFJOB_PROGRESS", json.dumps({"step": step, "total": 120, "metrics": {"loss": 1 / step}}), flush=True)
    time.sleep(1)
"""
TYPO = 'if [ $TFJOB_INDEX = 1 ]; then python3 -c "import tensorflw"; else sleep 300; fi'
SERVES = {"command": "exec python3 -m http.server $TFJOB_PORT_HTTP", "ports": {"http": "auto"}}
JOBS = {
    "digits": {
        "strategy": "multi-worker",
        "lifetime": "2h",
        "files": ["steps.py"],
        "roles": {
            "chief": {**SMALL, "command": "python3 steps.py"},
            "worker": {**SMALL, "instances": 2, "command": "sleep 300"},
            "tensorboard": {**SMALL, **SERVES},
        },
    },
    "waits": {
        "strategy": "custom",
        "roles": {"chief": SMALL, "worker": {"memory": "5632Mi", "instances": 2}},
        "command": "sleep 300",
    },
    "broken": {
        "strategy": "multi-worker",
        "roles": {
            "chief": {**SMALL, "command": "sleep 300"},
            "worker": {**SMALL, "instances": 2, "command": TYPO},
        },
    },
}


def main(only: list[str]) -> None:
    """Run the jobs and draw them; with `animation` only the animated picture of the README."""
    IMAGES.mkdir(exist_ok=True)
    options = ("--container-path", str(clusters.tensorflow() / "bin"))
    with (
        tempfile.TemporaryDirectory(prefix="screenshots-") as directory,
        clusters.own("screenshots", *options) as cluster,
    ):
        own = {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
        environ = {**clusters.environment(), **own, "SUBMIT_TF_JOB_PROFILE": cluster.profile}
        time.sleep(70)  # a ResourceManager that has just started is waited for, and that is told
        _animate(Path(directory), environ)
        if "animation" not in only:
            _draw_all(Path(directory), environ)


def _animate(home: Path, environ: dict[str, str]) -> None:
    """Record the README's job: a mistake in the program, its cause, and the next run."""
    [command] = re.findall(r"^\$ (submit_tf_job run .*)$", README.read_text(), re.MULTILINE)
    [program] = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    assert MISTAKE[0] in program
    path, argv = home / "train.py", [sys.executable, "-m", *shlex.split(command)]
    (home / "submit_tf_job.yaml").write_text(QUIET)
    path.write_text(program.replace(*MISTAKE))
    mend = f"sed -i 's/{MISTAKE[1]}/{MISTAKE[0]}/' train.py"
    record = partial(recorded, argv, home, environ, 240, columns=NARROW)
    scene = [animation.typed(command), *record()]
    path.write_text(program)
    scene += [animation.typed(mend), animation.typed(command), *record()]
    (IMAGES / "first-minute.svg").write_text(animation.drawn(scene, NARROW))
    print("docs/images/first-minute.svg")


def _draw_all(home: Path, environ: dict[str, str]) -> None:
    def run(*words: str) -> str:
        return _on_terminal([sys.executable, "-m", "submit_tf_job", *words], home, environ)

    (home / "steps.py").write_text(TRAIN)
    for name, content in JOBS.items():
        text = yaml.safe_dump({"name": name, "image": "none", **content})
        (home / f"{name}.yaml").write_text(text)
    run("submit", "digits.yaml", "--detach", "-q")
    run("wait", "digits", "--for", "ready", "-q")
    _save("failed", "submit_tf_job submit broken.yaml", run("submit", "broken.yaml"))
    posted = run("submit", "waits.yaml", "--detach", "-q")
    assert "error" not in posted, posted
    time.sleep(15)
    for name, words in {
        "list": ("list",),
        "describe": ("describe", "digits"),
        "pending": ("status", "waits"),
        "watch": ("watch", "digits", "--lines"),
        "logs": ("logs", "digits", "--tail", "4"),
    }.items():
        shown = run(*words)
        command = " ".join(("submit_tf_job", *words))
        _save(name, command, _last_frame(shown) if name == "watch" else shown)
    for name in JOBS:
        run("delete", name, "--force", "-q")


def _on_terminal(argv: list[str], cwd: Path, environ: dict[str, str], within_s: float = 240) -> str:
    """Return what a command shows; one that goes on is left by Ctrl-C after six seconds of
    drawing.
    """
    within_s = 6 if "watch" in argv else within_s
    return "".join(text for _at_s, text in recorded(argv, cwd, environ, within_s))


def recorded(
    argv: list[str], cwd: Path, environ: dict[str, str], within_s: float, columns: int = COLUMNS
) -> list[tuple[float, str]]:
    """Run a command on a terminal; return what it shows, each piece with its second."""
    main_end, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, columns, 0, 0))
    process = subprocess.Popen(argv, cwd=cwd, env=environ, stdin=other, stdout=other, stderr=other)
    os.close(other)
    shown: list[tuple[float, str]] = []
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    begun, interrupted = time.monotonic(), False
    while True:
        if not interrupted and time.monotonic() > begun + within_s:
            process.send_signal(signal.SIGINT)
            interrupted = True
        if select.select([main_end], [], [], 0.2)[0]:
            try:
                text = decoder.decode(os.read(main_end, 65536))
            except OSError:  # the command has closed its end
                break
            shown.append((time.monotonic() - begun, text.replace("\r\n", "\n")))
        elif process.poll() is not None:
            break
    process.wait(timeout=30)
    os.close(main_end)
    return shown


def _last_frame(shown: str) -> str:
    """Return the last picture of a live view: it begins anew where the cursor goes up."""
    frames = re.split(r"\r?(?:\x1b\[2K|\x1b\[1A)+", shown)
    pictures = [frame for frame in frames if "TASK" in frame]
    return re.sub(r"\x1b\[\?25[lh]", "", pictures[-1]) if pictures else shown


def _save(name: str, command: str, shown: str) -> None:
    options: dict[str, Any] = {"force_terminal": True, "color_system": "standard"}
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), highlight=False, **options)
    console.print(Text(f"$ {command}", style="bold"))
    console.print(Text.from_ansi(shown.strip("\n")))
    drawn = console.export_svg(title=command, unique_id=name, theme=THEME)
    (IMAGES / f"{name}.svg").write_text(drawn)
    print(f"docs/images/{name}.svg")


if __name__ == "__main__":
    main(sys.argv[1:])
