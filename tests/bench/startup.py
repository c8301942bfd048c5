"""How long `version`, `render`, `status`, `list` and `wait` take, against a hello-world typer
application in the same environment.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.bench.measure import Row, Samples, clean_environment, interleave, run_process

__all__ = ["ASKING", "GOAL", "SPEC", "measure_startup", "resource_manager", "startup_rows"]

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "specs/parameter-server.yaml"
HELLO = Path(__file__).with_name("hello.py")
ALONE = ("version", "render")
ASKING = ("status", "list", "wait")
TYPER = "hello-world typer application"
GOAL = 1.35  # of those that ask, against `GET`

GET = (
    "import sys, requests; requests.get(sys.argv.pop() + '/ws/v1/cluster/apps', timeout=60).json()"
)
APPLICATION = "application_1700000000000_0001"
RUN = "mnist-4k3f7qa2"
APP = {"id": APPLICATION, "user": "alice", "name": RUN, "queue": "default", "state": "FINISHED"}
APP |= {"finalStatus": "SUCCEEDED", "diagnostics": "", "applicationType": "yarn-service"}
APP |= {"startedTime": 1700000000000, "finishedTime": 1700000060000}  # type: ignore[dict-item]
SERVICE = {"name": RUN, "id": APPLICATION, "state": "STOPPED", "version": "1", "components": []}
ANSWERS = {
    f"/app/v1/services/{RUN}": {**SERVICE, "configuration": {}},
    f"/ws/v1/cluster/apps/{APPLICATION}": {"app": APP},
    "/ws/v1/cluster/apps": {"apps": {"app": [APP]}},
}


@contextmanager
def resource_manager(
    answers: Mapping[str, bytes] | None = None, asked: list[str] | None = None
) -> Iterator[str]:
    """Serve answers by their paths, by default of one job that is over: a ResourceManager that
    costs next to nothing.
    """
    known = answers or {path: json.dumps(answer).encode() for path, answer in ANSWERS.items()}
    unknown = b'{"RemoteException": {"exception": "NotFoundException"}}'

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if asked is not None:
                asked.append(self.path)
            path = self.path.partition("?")[0]
            body = known.get(path, unknown)
            self.send_response(200 if path in known else 404)
            self.send_header("Content-Type", "application/json;charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def measure_startup(rounds: int) -> Samples:
    """Run bare Python, hello world (alone, and with what a command must do besides), and the
    commands, turn by turn.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as directory, resource_manager() as url:
        home = Path(directory)
        environ = clean_environment(home) | {"PYTHONPATH": str(ROOT), "SUBMIT_TF_JOB_USER": "alice"}
        tool = [sys.executable, "-m", "submit_tf_job"]
        run_hello = f"import runpy; runpy.run_path({str(HELLO)!r}, run_name='__main__')"
        commands: dict[str, list[object]] = {
            "python": [sys.executable, "-c", "pass"],
            "hello": [sys.executable, HELLO],
            "hello, GET": [sys.executable, "-c", f"{GET}; {run_hello}", url],
            "version": [*tool, "version"],
            "render": [*tool, "render", SPEC],
            "status": [*tool, "status", "mnist", "--rm", url],
            "list": [*tool, "list", "--rm", url],
            "wait": [*tool, "wait", "mnist", "--rm", url],
        }
        return interleave(
            {n: lambda argv=argv: run_process(argv, environ, home) for n, argv in commands.items()},  # type: ignore[misc]
            rounds,
        )


def startup_rows(samples: Samples) -> list[Row]:
    """Compare with the floor."""
    rows = []
    for name in (*ALONE, *ASKING):
        wall, floor, bare = samples.wall(name), samples.wall("hello"), samples.wall("python")
        details = (
            f"wall: min {wall.least / floor.least:.2f}, median {wall.median / floor.median:.2f}; "
            f"against `python -c pass`: CPU {samples.cpu_ratio(name, 'python'):.0f}, wall "
            f"min {wall.least / bare.least:.0f}"
        )
        ratio = samples.cpu_ratio(name, "hello")
        rows.append(Row(f"`{name}`, CPU time", TYPER, ratio, None, details))
    with_get = f"{TYPER} that sends one GET by requests"
    for name in ASKING:
        ratio = samples.cpu_ratio(name, "hello, GET")
        rows.append(Row(f"`{name}`, CPU time", with_get, ratio, GOAL))
    return rows
