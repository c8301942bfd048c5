"""`local --docker` on a real Docker Engine: names, verdicts and statuses of YARN, and nothing
left.
"""

from __future__ import annotations

import json
import re
import signal

import pytest

from tests.conftest import DockerHost
from tests.tool import SUBMIT_S, Result, Tool, held, release

pytestmark = pytest.mark.cluster

SMALL = {"memory": "128Mi"}
LOOK = """
import json, os, pwd, socket
cluster = json.loads(os.environ["TF_CONFIG"])["cluster"]
hosts = [address.rpartition(":")[0] for peers in cluster.values() for address in peers]
tasks = [f"{role}-{index}" for role, peers in cluster.items() for index in range(len(peers))]
domain = socket.getfqdn().partition(".")[2]
named = [socket.gethostbyname(f"{task}.{domain}") for task in tasks]
shm = os.statvfs("/dev/shm")
ports = sorted({address.rpartition(":")[2] for peers in cluster.values() for address in peers})
told = {"host": socket.getfqdn(), "tasks": tasks, "hosts": hosts, "named": named, "ports": ports, "odd": os.environ["ODD"]}
told |= {"shm_mb": shm.f_blocks * shm.f_bsize >> 20, "file": open("lib/word.txt").read(), "user": pwd.getpwuid(os.getuid()).pw_name}
open("written", "w").close()
print("TOLD", json.dumps(told), flush=True)
"""
ODD = "a\"b'c\\d$HOME `id` ${COMPONENT_NAME} {{y}} }} <CPS> ü\nsecond line"


def test_names_files_and_the_end(tool: Tool, docker: DockerHost) -> None:
    (tool.cwd / "lib").mkdir()
    (tool.cwd / "lib/word.txt").write_text("from a file\n")
    (tool.cwd / "look.py").write_text(LOOK)
    roles = {
        "chief": {**SMALL, "command": ["python3", "look.py"]},
        "worker": {**SMALL, "instances": 2, "command": "sleep 600"},
        "ps": {**SMALL, "command": "sleep 600"},
        "board": {**SMALL, "command": "sleep 600"},
    }
    options = {"tmpfs": ["/dev/shm"], "accounts": True}
    spec = tool.spec(
        "serving",
        strategy="parameter-server",
        roles=roles,
        files=["look.py", "lib"],
        env={"ODD": ODD},
        docker=options,
    )
    done = tool("local", spec, "--docker")
    assert done.status == 0, done
    told = json.loads(re.search(r"^chief-0 +\| TOLD (.*)$", done.stdout, re.MULTILINE)[1])  # type: ignore[index]
    assert told["tasks"] == ["chief-0", "worker-0", "worker-1", "ps-0"]
    assert (told["host"], told["ports"]) == ("chief-0.serving.alice.cluster.test", ["2222"])
    assert told["named"] == told["hosts"], "the names are those of the addresses in TF_CONFIG"
    assert len(set(told["hosts"])) == 4
    assert (told["file"], told["odd"]) == ("from a file\n", ODD)
    assert told["user"] not in ("", "root")
    assert told["shm_mb"] > 64
    assert "serving  SUCCEEDED" in done.stdout
    docker.is_clean()
    assert list((tool.cwd / "tmp").iterdir()) == []


def test_a_failure_and_restarts(tool: Tool, docker: DockerHost) -> None:
    command = 'if [ "$TFJOB_INDEX" = 1 ]; then sleep 1; echo out of luck >&2; exit 7; fi; sleep 600'
    two = {"strategy": "multi-worker", "roles": {"worker": {**SMALL, "instances": 2}}}
    failing = tool("local", tool.spec("failing", command=command, **two), "--docker")
    assert failing.status == 1, failing
    assert "worker-1 exited with status 7" in failing.stdout
    assert re.search(r"^worker-1 +\| out of luck$", failing.stdout, re.MULTILINE)
    again = 'echo attempt "$TFJOB_ATTEMPT"; [ "$TFJOB_ATTEMPT" -ge 1 ]'
    roles = {
        "main": {**SMALL, "command": held("again")},
        "helper": {**SMALL, "command": again, "restart": "on-failure"},
    }
    spec = tool.spec("again", strategy="custom", deciding_role="main", roles=roles)
    local = tool.start("local", spec, "--docker", "-o", "json")
    assert local.stderr is not None
    said = next((line for line in local.stderr if "attempt 1" in line), "")
    release("again")
    out, err = local.communicate(timeout=SUBMIT_S)
    assert (local.returncode, json.loads(out)["state"]) == (0, "SUCCEEDED"), out + err
    assert "attempt 1" in said
    docker.is_clean()


def test_the_image_s_own_entrypoint(tool: Tool, docker: DockerHost) -> None:
    (tool.cwd / "show.py").write_text(
        "import json, os, sys\n"
        "task = json.loads(os.environ['TF_CONFIG'])['task']\n"
        "print('SEEN', json.dumps([task, sys.argv[1:], os.environ['ODD'], "
        "os.environ['PREPARED_BY_ENTRYPOINT']]), flush=True)\n"
    )
    spec = tool.spec(
        "entry",
        image="submit_tf_job/entrypoint:1",
        strategy="multi-worker",
        network="bridge",
        command=["python3", "/in/show.py", "three short words", "$HOME", "it's", "--x=1;2"],
        env={"ODD": " $5 'or' \\ so "},
        mounts=[f"{tool.cwd}:/in"],
        roles={"worker": {**SMALL, "instances": 2}},
    )
    tool.cwd.chmod(0o755)
    done = tool("local", spec, "--docker")
    assert done.status == 0, done
    seen = {
        prefix: json.loads(text)
        for prefix, text in re.findall(r"^(worker-\d) +\| SEEN (.*)$", done.stdout, re.MULTILINE)
    }
    for index in (0, 1):
        words = ["three short words", "$HOME", "it's", "--x=1;2"]
        assert seen[f"worker-{index}"] == [
            {"type": "worker", "index": index},
            words,
            " $5 'or' \\ so ",
            "yes",
        ]
    ignored = tool(
        "local",
        tool.spec("ignored", image="submit_tf_job/no-exec:1", command="echo never"),
        "--docker",
        "-o",
        "json",
    )
    assert ignored.status == 1, ignored
    assert ignored.json["state"] != "SUCCEEDED"
    docker.is_clean()


def test_an_interrupted_run_leaves_nothing(tool: Tool, docker: DockerHost) -> None:
    spec = tool.spec("broken-off", command="trap '' TERM; echo here; sleep 600 & wait; sleep 600")
    process = tool.start("local", spec, "--docker")
    assert process.stdout is not None
    if "here\n" not in iter(process.stdout.readline, ""):
        pytest.fail(f"it ended: {process.communicate()}")
    process.send_signal(signal.SIGINT)
    _out, err = process.communicate(timeout=SUBMIT_S)
    assert (process.returncode, "broken-off was ended" in err) == (130, True), err
    docker.is_clean()
    assert list((tool.cwd / "tmp").iterdir()) == []


def test_what_cannot_run(tool: Tool, docker: DockerHost) -> None:
    docker("import", "-", "bashless:1", stdin=(b"\0" * 1024))

    def refused(name: str, status: int, words: str, host: str = "", **keys: str) -> Result:
        given = tool.given(SUBMIT_TF_JOB_DOCKER_HOST=host) if host else tool
        done = given("local", tool.spec(name, **{"command": "true", **keys}), "--docker")
        assert (done.status, words in done.stderr) == (status, True), done
        return done

    image = "localhost:1/nope:1"
    refused("gone", 9, f"{image} is not on this machine, and cannot be pulled", image=image)
    words = "worker-0 could not be started from image bashless:1"
    bashless = refused("bashless", 9, words, image="bashless:1")
    assert "submit_tf_job image check bashless:1" in bashless.stderr
    refused("down", 2, "Docker does not answer", "unix:///nonexistent.sock")
    refused("far", 2, "is another machine's Docker", "tcp://docker.example.com:2376")
    slow = tool("local", tool.spec("slow", command="sleep 600"), "--docker", "--timeout", "3s")
    assert slow.status == 8, slow
    docker.is_clean()
