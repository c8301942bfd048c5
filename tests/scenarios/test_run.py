"""`run`: a job without a job spec file, on a simulated YARN."""

from __future__ import annotations

import json
import os
import shlex
import zipapp
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders.command_line import Cli
from tests.world import RM, World

GIVEN = ("--image", "library/tf:2", "--memory", "1Gi")
TRAIN = ["helper.py", "layers", "plugins", "train.py"]
MODULE = ["helper.py", "layers", "plugins"]
ALONE = "which replaces the job's: each task may train alone"
OPTIONS = [
    ("torchrun --standalone --nproc_per_node 2", "--standalone"),
    ("torchrun --nnodes=2 --node-rank 0", "--node-rank"),
    ("torchrun --master_addr 10.0.0.1", "--master_addr"),
    ("python -m torch.distributed.launch --master_port=29501", "--master_port"),
    ("torchrun --rdzv-endpoint=localhost:0 --rdzv-backend c10d", "--rdzv-endpoint"),
    ("torchrun --nnodes 1", "--nnodes"),
]
# launchers that start a set of processes of their own, by the name that is told, and the advice
OWN_SETS = [
    ("accelerate launch", "accelerate", "write torchrun in its place"),
    ("accelerate launch --num_machines 2", "accelerate", "write torchrun in its place"),
    ("python -m accelerate.commands.launch", "accelerate.commands.launch", "write torchrun in its place"),
    ("timeout 60 deepspeed --num_gpus=2", "deepspeed", "write torchrun in its place"),
    ("horovodrun -np 4 -H localhost:4 python", "horovodrun", "leave it out, with --strategy custom --set variables=horovod"),
    ("python -m horovod.runner.launch -np 2 python", "horovod.runner.launch", "leave it out, with --strategy custom --set variables=horovod"),
    ("env A=1 /usr/bin/mpirun -np 4 -x A python", "mpirun", "leave it out (for Horovod with --strategy custom --set variables=horovod)"),
    ("mpiexec.hydra -n 2 python", "mpiexec.hydra", "leave it out (for Horovod with --strategy custom --set variables=horovod)"),
    ("srun -n 2 python", "srun", "leave it out"),
]  # fmt: skip
DEEP = ["src/beside.py", "src/deep.py"]
GO = ["tools/beside_go.py", "tools/go"]
# options of a program that name one task of several, or where one is
ONE_TASK = [
    ("python train.py --task_index=0 --job_name worker", ["--task_index"]),
    ("python train.py --worker_hosts=a:1,b:2 --task-index 1", ["--worker_hosts", "--task-index"]),
    ("python train.py --rank 0 --init_method tcp://10.0.0.1:2345", ["--rank", "--init_method"]),
    ("torchrun train.py --dist-url=tcp://localhost:1", ["--dist-url"]),
    ("python -m layers.dense --node_rank 1", ["--node_rank"]),
    ("python train.py --rank 8", []),  # of LoRA
    ("bash -c 'python train.py --rank $TFJOB_RANK --dist-url tcp://$MASTER_ADDR:1'", []),
]


@pytest.fixture
def project(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with a program and the modules that it imports, and others."""
    files = {
        "train.py": "import os\nimport numpy\nfrom layers.dense import Dense\n",
        "layers/__init__.py": "",
        "layers/dense.py": "def build():\n    import helper\n",
        "layers/words.txt": "a\n",
        "helper.py": "import plugins.one\n",
        "plugins/one.py": "",
        "unused.py": "",
        "conf.yaml": "",
        "src/deep.py": "import beside",
        "src/beside.py": "",
        "run.sh": "python train.py\n",
        "broken.py": "print 'two'\n",
        "keys/__main__.py": "",
        "keys/prod/.env": "",
        "conf/a.json": "",
        "big.csv": "0" * 1_000_001,
        "id_rsa": "",
        "book.ipynb": "{}",
        "cells.ipynb": json.dumps(
            {"cells": [{"cell_type": "code", "source": ["%time\n", "import helper"]}]}
        ),
        "jobs/beside.sh": 'D="$(cd "$(dirname "$0")" && pwd)"\npython -u "${D}/../src/deep.py" $@\n',
        "alone3.py": "import os, jax\nos.environ |= {'RANK': '0'}\nos.environ.update(dict(WORLD_SIZE='1'))\nos.environ['MASTER_ADDR'] = os.environ.get('MASTER_ADDR', 'localhost')\n",
        "jobs/sets.sh": "export MASTER_PORT=29500 A=1\nRANK=0 WORLD_SIZE=${WORLD_SIZE:-1} python train.py\n",
        "jobs/above.sh": 'cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit\nPYTHONPATH=src:. exec python -m deep\n',
        "random.py": "",
        "uses.py": "import random, queue\n",
        "queue/one.py": "",
        "alone.py": "import os\nos.environ['TF_CONFIG'] = '{}'\n",
        "alone2.py": "import os\nos.environ.update({'A': '1', 'RANK': '0'})\nos.putenv('MASTER_ADDR', 'localhost')\n",
        "tools/go": "#!/usr/bin/env python3\nimport beside_go\n",
        "tools/beside_go.py": "",
        "tools/main.py": "import helper, numpy\n",
        "tools/start": "#!/bin/bash\npython tools/go\n",
        "app/__main__.py": "from . import x\n",
        "app/x.py": "",
        "crlf.sh": "#!/bin/bash\r\npython helper.py\r\n",
        "crlf.py": "#!/usr/bin/env python3\r\nimport helper\r\n",
        "asks.py": "import os\nif 'RANK' not in os.environ:\n    os.environ['RANK'] = '0'\n",
    }
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text, newline="")
    for name in ("run.sh", "tools/go", "tools/start", "crlf.py"):
        (home / name).chmod(0o755)
    zipapp.create_archive(home / "app", home / "app.pyz")
    monkeypatch.chdir(home)
    return home


def made(cli: Cli, *words: str) -> Any:
    done = cli("run", *GIVEN, "--print", "-o", "json", *words)
    assert done.status == 0, done.err
    assert yaml.safe_load(cli("run", *GIVEN, "--print", *words).out) == done.json
    return done.json


def test_run_shows_a_job_spec_and_submits_it_alike(world: World, cli: Cli, project: Path) -> None:
    words = ["run", "--rm", RM, *GIVEN, "--workers", "3"]
    done = cli(*words, "--save", "kept.yaml", "-d", "--", "python", "train.py")
    assert done.status == 0, done.err
    text = (project / "kept.yaml").read_text()
    assert all(f"  {line}" in done.err.splitlines() for line in text.splitlines()[1:])
    assert "sent with it (" in done.err
    rendered = json.loads(world("render", "kept.yaml").out)
    assert world.service == {**rendered, "lifetime": 30 * 86400}
    world.cluster.clock.after(20, world.ends)
    same = world("submit", "kept.yaml", "-o", "json")
    assert (same.status, len(world.cluster.yarn.apps)) == (0, 1), same.err
    once = cli(*words, "--once", "-o", "json", "--", "python", "train.py")
    assert (once.json["run"], once.json["state"]) == (same.json["run"], "SUCCEEDED")


@pytest.mark.parametrize(
    ("words", "command", "files"),
    [
        ("python train.py --n 3", None, ["helper.py", "layers", "plugins", "train.py"]),
        ("-- python -u train.py", None, ["helper.py", "layers", "plugins", "train.py"]),
        ("-- python -m layers.dense", None, ["helper.py", "layers", "plugins"]),
        ("-- python -m json.tool conf.yaml", None, ["conf.yaml"]),
        ("-- python -c pass", None, []),
        ("-- python src/deep.py", None, ["src/beside.py", "src/deep.py"]),
        ("-- torchrun --nproc 2 src/../helper.py", "torchrun --nproc 2 src/../helper.py", ["helper.py", "plugins"]),
        ("-- bash run.sh", None, [*TRAIN[:3], "run.sh", "train.py"]),
        ("--file keys -- python -m keys", None, ["keys"]),
        ("-- ./run.sh", None, [*TRAIN[:3], "run.sh", "train.py"]),
        ("-- /usr/bin/python3 /opt/train.py", None, []),
        ("--file layers --file *.py -- python train.py", None, ["plugins", "layers", "*.py"]),
    ],
)  # fmt: skip
def test_run_sends_the_program_and_what_it_imports(
    cli: Cli, project: Path, words: str, command: str | None, files: list[str]
) -> None:
    spec = made(cli, *words.split())
    own = words.rpartition("-- ")[2] if "-- " in words else words
    assert spec["command"] == (command or own).split()
    assert spec.get("files", []) == files


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("torchrun --nproc_per_node=2 -m layers.dense", MODULE),
        ("torchrun -m --nnodes 2 layers.dense", MODULE),
        ("python -m torch.distributed.run -m layers.dense --n 3", MODULE),
        ("python -mlayers.dense", MODULE),
        ("python -um layers.dense", MODULE),
        ("python -W error -X dev -Bm layers.dense", MODULE),
        ("python -Wignore train.py", TRAIN),
        ("python -m coverage run train.py", TRAIN),
        ("coverage run -m layers.dense", MODULE),
        ("python -m cProfile -o conf.yaml train.py", ["conf.yaml", *TRAIN]),
        ("python -m debugpy --listen 5678 --wait-for-client -m layers.dense", MODULE),
        ("python -m pdb -c continue train.py", TRAIN),
        ("accelerate launch --config_file conf.yaml train.py", ["conf.yaml", *TRAIN]),
        ("accelerate launch --module layers.dense", MODULE),
        ("deepspeed --num_gpus 2 train.py --deepspeed_config conf/a.json", ["conf/a.json", *TRAIN]),
        ("nohup nice -n 5 python -u train.py", TRAIN),
        ("env A=b python -m layers.dense", MODULE),
        ("conda run -n tf --no-capture-output python -u train.py", TRAIN),
        ("poetry run python -m layers.dense", MODULE),
        ("mpirun -np 2 --allow-run-as-root -x A python train.py", TRAIN),
        ("tini -g -- xvfb-run -a numactl -N 0 python train.py", TRAIN),
        ("streamlit run train.py --server.port 8501", TRAIN),
        ("ipython train.py", TRAIN),
        ('bash -lc "python -X dev -W ignore -m layers.dense"', MODULE),
        ("timeout 60 ./run.sh", [*MODULE, "run.sh", "train.py"]),
        ("/usr/bin/python3 /opt/conda/bin/torchrun train.py", TRAIN),
        ("bash -ec 'cd .; python train.py >log 2>&1'", TRAIN),
        ("bash -c 'cd src && python deep.py --c ../conf.yaml'", ["conf.yaml", *DEEP]),
        ("bash -c '(cd src; python deep.py); python train.py'", [*MODULE, *DEEP, "train.py"]),
        ("bash -c 'cd src; python -m deep'", DEEP),
        ("bash -c 'export A=1 PYTHONPATH=$PWD/src; python -m deep'", DEEP),
        ("bash -c 'PYTHONPATH=src:$PYTHONPATH python -m deep'", DEEP),
        ("env PYTHONPATH=src python -m deep", DEEP),
        ("bash -c 'D=src; python $D/deep.py'", DEEP),
        ("bash jobs/beside.sh", ["jobs/beside.sh", *DEEP]),
        ("bash -e jobs/above.sh", ["jobs/above.sh", *DEEP]),
        ("papermill cells.ipynb out.ipynb", ["cells.ipynb", "helper.py", "plugins"]),
        ("python tools/go", GO),
        ("./tools/go --n 3", GO),
        ("./tools/start", [*GO, "tools/start"]),
        ("python app --n 3", ["app"]),
        ("python app.pyz", ["app.pyz"]),
        ("env PYTHONPATH=. python tools/main.py", ["helper.py", "plugins", "tools/main.py"]),
        ("sh -x run.sh", [*MODULE, "run.sh", "train.py"]),
        ("python -c 'import helper; helper.go()'", ["helper.py", "plugins"]),
        ("python train.py --conf=conf.yaml --j conf/a.json", ["conf.yaml", "conf/a.json", *TRAIN]),
    ],
)
def test_run_finds_the_program_behind_its_launcher(
    cli: Cli, project: Path, line: str, files: list[str]
) -> None:
    done = cli("run", *GIVEN, "--print", "-o", "json", "--", *shlex.split(line))
    assert (done.status, done.json["files"]) == (0, files), done.err
    assert done.json["command"] == shlex.split(line)
    notes = [line for line in done.err.splitlines() if "looks for the project" not in line]
    assert not any(line.startswith("note:") for line in notes), done.err
    is_torch = "torchrun" in line or "torch.distributed" in line
    assert (done.json["strategy"] == "torch") == is_torch


@pytest.mark.parametrize(
    ("words", "command", "env"),
    [
        (["python train.py --x 1"], ["python", "train.py", "--x", "1"], {}),
        (["A=1 python 'train.py'"], ["python", "train.py"], {"A": "1"}),
        (["python train.py | tee log"], "python train.py | tee log", {}),
        (["cd . && B=2 python3 -u train.py $HOME"], "cd . && B=2 python3 -u train.py $HOME", {}),
        (["time", "python", "train.py"], "time python train.py", {}),
        (
            ["script", "-c", "python train.py", "log"],
            ["script", "-c", "python train.py", "log"],
            {},
        ),
        (["A=1 exec python train.py"], "A=1 exec python train.py", {}),
        (["A=1", "B=x=y", "python", "train.py"], ["python", "train.py"], {"A": "1", "B": "x=y"}),
    ],
)
def test_run_reads_a_command_as_a_shell_would(
    cli: Cli, project: Path, words: list[str], command: Any, env: dict[str, str]
) -> None:
    spec = made(cli, "--env", "C=3", "--", *words)
    assert (spec["command"], spec["files"], spec["env"]) == (command, TRAIN, {"C": "3", **env})


def _own_set(launcher: str, advice: str, tasks: int = 3) -> str:
    return (
        f"{launcher} starts a set of processes in each of the {tasks} tasks, and no set knows the "
        f"others: {advice}; or leave --workers out, for one set in one task"
    )


@pytest.mark.parametrize(
    ("words", "notes"),
    [
        ("/opt/train", ["nothing of this directory is sent; --file sends a file"]),
        ("python -c pass", ["nothing of this directory is sent; --file sends a file"]),
        ("python -m pkg.train", ["nothing of this directory is sent: 'pkg.train' is not in ~; --file sends a file"]),
        ("PYTHONPATH=src:/x python -m deep", []),
        ("python -m deep", ["nothing of this directory is sent: 'deep' is not in ~; src has it: PYTHONPATH=src python -m deep; --file sends a file"]),
        ("torchrun -m pkg.train", ["nothing of this directory is sent: 'pkg.train' is not in ~; --file sends a file"]),
        ("--file helper.py python -m pkg.train", []),
        ("python helper.py --dir conf", ["conf is a directory here, and is not sent; send it by --file conf"]),
        ("python helper.py big.csv", ["big.csv is a file here of 1.0 MB, and is not sent; send it by --file big.csv"]),
        ("python helper.py --k=id_rsa", ["id_rsa is a file here that looks like a secret, and is not sent; send it by --file id_rsa"]),
        ("python helper.py --c ~/conf.yaml", ["~/conf.yaml is a path of this host, which tasks may lack; here it is conf.yaml"]),
        ("python uses.py", ["random.py hides Python's own module random, for installed packages, too; rename it"]),
        ("--workers 2 -- python alone.py", ["alone.py:2 sets TF_CONFIG, which replaces the job's: each task may train alone"]),
        ("--workers 2 -- python alone2.py", ["alone2.py:2 sets RANK, which replaces the job's: each task may train alone", "alone2.py:3 sets MASTER_ADDR, which replaces the job's: each task may train alone"]),
        ("python alone.py", []),
        *((f"--workers 2 -- {line} train.py", [f"{told} is the same in each task, and replaces the job's"]) for line, told in OPTIONS),
        *((f"--workers 2 -- {line} train.py", [f"the command line sets MASTER_ADDR, {ALONE}"]) for line in ("MASTER_ADDR=localhost python", "env MASTER_ADDR=::1 python")),
        ("--workers 2 -- bash jobs/sets.sh", [f"a script sets {name}, {ALONE}" for name in ("MASTER_PORT", "RANK")]),
        ("--workers 2 -- python alone3.py", [f"alone3.py:{line} sets {name}, {ALONE}" for line, name in ((2, "RANK"), (3, "WORLD_SIZE"))]),
        *((f"--workers 2 -- {line} train.py", []) for line in ("torchrun --nnodes 2 --rdzv_id=3", "python -m torch.distributed.run --nnodes=1:2")),
        ("--workers 2 -- python asks.py", []),
        ("--workers 2 -- nohup torchrun train.py", []),
        ("python tools/main.py", ["tools/main.py imports helper, which is in this directory, where Python does not look for it: PYTHONPATH=. before the command sends it, if the image does not have it"]),
        ("--env PYTHONPATH=src -- python -m deep", []),
        *((f"{line}", ["crlf.sh has line ends of Windows, with which it does not start: sed -i 's/\\r$//' crlf.sh"]) for line in ("bash crlf.sh", "sh -e crlf.sh")),
        ("./crlf.py", ["crlf.py has line ends of Windows, with which it does not start: sed -i 's/\\r$//' crlf.py"]),
        ("python crlf.py", []),
        ("-- docker run --gpus all image python train.py", ["docker starts a container of its own, which a task mostly may not: its image belongs to --image, and its program behind --"]),
        ("sbatch jobs/sets.sh", ["sbatch hands a script to another scheduler: run the script itself, as -- bash FILE"]),
        ("sudo python train.py", ["sudo is not in most images, and asks for a password: leave it out"]),
        ("spark-submit --master yarn train.py", ["spark-submit needs Spark in each task: a program of TFCluster is run by python (submit_tf_job help coming-from/tensorflowonspark)"]),
        *((f"{line} train.py", [f"{line.split()[0]} looks for the project that it belongs to, which is not sent: leave it out, and send packages by `python` of a job spec (submit_tf_job help files)"]) for line in ("uv run", "poetry run python")),
        ("--strategy multi-worker --workers 2 -- nohup torchrun train.py", ["torchrun finds the other tasks by --strategy torch alone: leave --strategy out"]),
        *((f"--workers 3 -- {line} train.py", [_own_set(name, advice)]) for line, name, advice in OWN_SETS),
        *((f"-- {line} train.py", []) for line, _, _ in OWN_SETS),
        ("--workers 2 -- accelerate launch --machine_rank 0 train.py", [_own_set("accelerate", "write torchrun in its place", 2), "--machine_rank is the same in each task, and replaces the job's"]),
    ],
)  # fmt: skip
def test_run_notes_what_may_go_wrong_also_where_it_only_prints(
    cli: Cli, project: Path, words: str, notes: list[str]
) -> None:
    given = words.replace("~", str(project)).split()
    done = cli("run", *GIVEN, "--print", *given)
    told = [line.replace(str(project), "~") for line in done.err.splitlines()]
    assert (done.status, told) == (0, [f"note: {note}" for note in notes])


@pytest.mark.parametrize(("line", "told"), ONE_TASK)
def test_run_notes_options_that_make_each_task_the_same_one(
    cli: Cli, project: Path, line: str, told: list[str]
) -> None:
    for count, expected in (("2", told), ("1", [])):
        words = ("run", *GIVEN, "--print", "--workers", count, "--", *shlex.split(line))
        done = cli(*words)
        notes = [note for note in done.err.splitlines() if " is the same in each task: " in note]
        assert (done.status, [note.split()[1] for note in notes]) == (0, expected), done.err


def test_run_says_where_a_variable_of_the_job_was_set(cli: Cli, project: Path) -> None:
    before = cli("run", *GIVEN, "--print", "--", "TF_CONFIG={}", "python", "train.py")
    option = cli("run", *GIVEN, "--print", "--env", "TF_CONFIG={}", "--", "python", "train.py")
    assert (before.status, option.status) == (2, 2)
    assert before.err.startswith("the command line: TF_CONFIG is set by"), before.err
    assert option.err.startswith("--env: TF_CONFIG is set by"), option.err


def test_run_notes_what_make_follows(cli: Cli, project: Path) -> None:
    (project / "Makefile").write_text("train:\n\tpython train.py\n")
    done = cli("run", *GIVEN, "--print", "--", "make", "train")
    assert (done.status, "note: make follows Makefile, which is not" in done.err) == (0, True)
    sent = cli("run", *GIVEN, "--print", "--file", "Makefile", "--", "make", "train")
    assert (sent.status, "make follows" in sent.err) == (0, False), sent.err


def test_run_takes_the_place_of_each_task_for_launchers_of_a_text(cli: Cli, project: Path) -> None:
    alone = "accelerate launch --num_machines 2 train.py"
    for text, told in ((alone, True), (f"{alone} --machine_rank $TFJOB_RANK", False)):
        done = cli("run", *GIVEN, "--print", "--workers", "2", "--", "bash", "-c", text)
        assert (done.status, "accelerate starts a set" in done.err) == (0, told), done.err


def test_run_sends_a_program_of_another_directory_by_its_own_name(
    cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project / "layers")
    spec = made(cli, "--", "python", "../src/deep.py")
    assert spec["command"] == ["python", "deep.py"]
    assert spec["files"] == [
        {"src": "../src/beside.py", "dst": "beside.py"},
        {"src": "../src/deep.py", "dst": "deep.py"},
    ]
    assert made(cli, "--", "../run.sh")["command"] == ["./run.sh"]


def test_run_passes_over_what_no_program_reads(cli: Cli, project: Path) -> None:
    (project / "layers/.#dense.py").symlink_to("me@host.4711")  # Emacs' lock of an open file
    assert made(cli, "--", "python", "train.py")["files"] == TRAIN
    os.mkfifo(project / "layers/pipe.py")
    refused = cli("run", *GIVEN, "--print", "--", "python", "train.py")
    assert (refused.status, "'pipe.py' is neither a file" in refused.err) == (2, True), refused.err


@pytest.mark.parametrize("option", ["--data", "--save"])
def test_run_refuses_a_name_that_no_file_can_have(cli: Cli, project: Path, option: str) -> None:
    done = cli("run", *GIVEN, "--print", option, "n" * 300, "--", "python", "train.py")
    assert (done.status, option in done.err, "defect" in done.err) == (2, True, False), done.err


@pytest.mark.parametrize("words", [[f"--names={'n' * 300}"], ["--id", "x" * 5000]])
def test_run_takes_words_that_are_too_long_for_a_name(
    cli: Cli, project: Path, words: list[str]
) -> None:
    assert made(cli, "--", "python", "train.py", *words)["files"] == TRAIN
    assert made(cli, "--", shlex.join(["python", "train.py", *words]))["files"] == TRAIN
    script = "X=$X:$X\n" * 99 + "python $X/a.py\npython train.py\n"
    (project / "grows.sh").write_text(script)
    assert made(cli, "--", "bash", "grows.sh", *words)["files"] == ["grows.sh", *TRAIN]


WITH_PS = {"chief": {}, "worker": {"instances": 3, "gpus": 1}, "ps": {"instances": 2}}
CPUS = "--set roles.worker.cpus=4"


@pytest.mark.parametrize(
    ("words", "strategy", "roles"),
    [
        ("", "single", {"worker": {}}),
        ("--gpus 2 --cpus 8", "single", {"worker": {"cpus": 8, "gpus": 2}}),
        ("--workers 3", "multi-worker", {"worker": {"instances": 3}}),
        ("--workers 3 --ps 2 --gpus 1", "parameter-server", WITH_PS),
        ("--workers 2 --strategy torch", "torch", {"worker": {"instances": 2}}),
        (f"--workers 2 {CPUS}", "multi-worker", {"worker": {"instances": 2, "cpus": 4}}),
    ],
)
def test_run_chooses_strategy_and_roles(
    cli: Cli, project: Path, words: str, strategy: str, roles: dict[str, Any]
) -> None:
    spec = made(cli, *words.split(), "--", "python", "train.py")
    wanted = {name: {"memory": "1Gi", **own} for name, own in roles.items()}
    assert (spec["name"], spec["strategy"], spec["roles"]) == ("train", strategy, wanted)


@pytest.mark.parametrize(
    "command",
    [
        "torchrun train.py",
        "/opt/bin/torchrun train.py",
        "python -m torch.distributed.run train.py",
        "python3 -u -m torch.distributed.launch train.py",
    ],
)
def test_run_gives_torchrun_what_it_reads(cli: Cli, project: Path, command: str) -> None:
    """Under another strategy each task would train alone."""
    for words in (("--workers", "2"), ()):
        spec = made(cli, *words, "--", *command.split())
        assert (spec["strategy"], "train.py" in spec["files"]) == ("torch", True)
    given = made(cli, "--strategy", "custom", "--", *command.split())
    assert given["strategy"] == "custom"


@pytest.mark.parametrize("word", ["--print", "--workers", "--name=x", "-d", "--profile", "--help"])
def test_run_asks_whose_an_option_behind_the_program_is(
    world: World, cli: Cli, project: Path, word: str
) -> None:
    done = cli("run", "--rm", RM, *GIVEN, "python", "train.py", "--epochs", "3", word)
    name = word.partition("=")[0]
    assert (done.status, done.out) == (2, "")
    assert f"error: {name} stands behind the program, and is an option of run, too" in done.err
    fixed = "submit_tf_job run --rm http://rm1:8088 --image library/tf:2 --memory 1Gi -- python"
    assert f"{fixed} train.py --epochs 3 {word}" in done.err
    assert not world.cluster.yarn.apps
    for own in (("--", "python", "train.py", word), ("python", "train.py", "--", word)):
        assert made(cli, *own)["command"] == [one for one in own if one != "--" or own[0] != "--"]


def test_run_gives_variables_and_inputs_and_says_what_is_not_sent(
    world: World, cli: Cli, project: Path
) -> None:
    words = ("--env", "A=b=c", "--data", "hdfs:///data/mnist.npz", "--data-uri", "w=s3://b/x")
    done = cli("run", *GIVEN, *words, "--print", "python", "train.py", "--conf=conf.yaml")
    spec = yaml.safe_load(done.out)
    assert spec["env"] == {"A": "b=c"}
    mnist = {"uri": "hdfs:///data/mnist.npz", "download": True}
    assert spec["inputs"] == {"mnist": mnist, "w": "s3://b/x"}
    script = ("bash", "-c", "pwd && python helper.py>log")
    told = cli("run", "--rm", RM, *GIVEN, "-d", "--", *script).err
    assert "): helper.py, plugins/one.py" in told
    program = ("--file", "broken.py", "-d", "--", "python", "broken.py", "$TFJOB_OUTPUT_MODEL")
    told = cli("run", "--rm", RM, *GIVEN, *program).err
    assert "command: $TFJOB_OUTPUT_MODEL stays as it is in a list" in told
    assert "note: the imports of broken.py could not be read" in told


def test_run_stores_what_the_program_writes(cli: Cli, project: Path) -> None:
    where = cli("run", *GIVEN, "--print", "--store", "model", "--", "python", "train.py")
    assert "where the output model is stored is not known" in where.err
    (project / "hadoop").mkdir()
    text = "<configuration><property><name>fs.defaultFS</name><value>hdfs://nn</value></property>"
    (project / "hadoop/core-site.xml").write_text(f"{text}</configuration>")
    settings = project / ".config/submit_tf_job/settings.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"hadoop_conf: {project}/hadoop\nuser: alice\n")
    program = ("--", "python", "train.py")
    given = ("--store", "model", "--store", "hdfs:///x/curves", "--keep", "*.keras")
    spec = made(cli, *given, "--keep", "ck", *program)
    home = "hdfs:///user/alice/train"
    assert spec["hadoop"] == {"conf": "inline"}
    assert spec["outputs"] == {
        "model": {"uri": f"{home}/model", "upload": True},
        "curves": {"uri": "hdfs:///x/curves", "upload": True},
        "kept": {"uri": f"{home}/kept", "upload": True, "collect": ["*.keras", "ck"]},
    }
    place = ("--store", "kept=s3://b/x", "--keep", "a")
    kept = {"uri": "s3://b/x", "upload": True, "collect": ["a"]}
    assert made(cli, *place, *program)["outputs"] == {"kept": kept}
    told = cli("run", *GIVEN, "--print", *given, *program).err
    assert f"note: *.keras of the working directory: stored at {home}/kept" in told
    assert "the directory $TFJOB_OUTPUT_MODEL, which is stored at" in told
    for outside in ("../a", "/a", "~/a", "model=hdfs:///m"):
        wrong = cli("run", *GIVEN, "--print", "--keep", outside, *program)
        said = f"--keep: '{outside}' does not lie in the task's working directory"
        assert (wrong.status, wrong.err.startswith(said)) == (2, True), wrong.err
    homes = "<configuration><property name='dfs.user.home.dir.prefix' value='/h'/></configuration>"
    (project / "hadoop/hdfs-site.xml").write_text(homes)
    stored = made(cli, "--store", "model", *program)["outputs"]["model"]
    assert stored["uri"] == "hdfs:///h/alice/train/model"


def test_run_takes_image_and_memory_of_the_settings(cli: Cli, project: Path, home: Path) -> None:
    path = home / ".config/submit_tf_job/settings.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("job: {image: site/tf:2}\ntask_memory: 3Gi\n")
    spec = cli("run", "--print", "-o", "json", "--", "python", "train.py").json
    assert (spec["image"], spec["roles"]) == ("site/tf:2", {"worker": {"memory": "3Gi"}})
    assert made(cli, "--", "python", "train.py")["image"] == "library/tf:2"


def test_run_refuses_a_program_that_cannot_be_read(cli: Cli, project: Path) -> None:
    (project / "unread.py").symlink_to("/proc/self/mem")  # for root, too
    done = cli("run", *GIVEN, "--print", "python", "unread.py")
    assert (done.status, "error: 'unread.py' cannot be read: " in done.err) == (2, True), done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("python train.py", "error: missing --image IMAGE, the Docker image of the tasks; and --memory SIZE"),
        ("--image a --memory 4G --ps 1 python train.py", "--memory: '4G' is ambiguous (GB or GiB); write 4Gi"),
        ("--image a --memory 1Gi --strategy x python train.py", "--strategy: unknown value 'x'; it is one of"),
        ("--image a --memory 1Gi --strategy single --workers 2 python train.py", "error: --strategy single is one task"),
        ("--image a --memory 1Gi --name A_b python train.py", "--name: 'A_b'"),
        ("--image a --memory 1Gi --file nosuch python train.py", "--file: 'nosuch': not found"),
        ("--image a --memory 1Gi --env A python train.py", "error: --env takes NAME=VALUE, not 'A'"),
        ("--image a --memory 1Gi --set roles.worker.cpus=x python train.py", "--cpus: expected a whole number, found the text 'x'"),
        ("--image a --memory 1Gi python trian.py", "error: 'trian.py' is not in "),
        ("--image a --memory 1Gi train.py", "error: 'train.py' is a file here, and no program on PATH\n  hint: write -- python train.py"),
        ("--image a --memory 1Gi run.sh", "error: 'run.sh' is a file here, and no program on PATH\n  hint: write -- bash run.sh"),
        ("--image a --memory 1Gi big.csv", "error: 'big.csv' is a file here, and no program on PATH\n  hint: write -- ./big.csv"),
        ("--image a --memory 1Gi ./train.py", "error: './train.py' is not executable\n  hint: write -- python ./train.py"),
        ("--image a --memory 1Gi ./big.csv", "error: './big.csv' is not executable\n  hint: chmod +x ./big.csv"),
        ("--image a --memory 1Gi python -u", "error: python has no program, and a task has no input to read one from"),
        ("--image a --memory 1Gi cd src", "error: cd is a word of a shell, and no program\n  hint: quote the whole line: -- 'cd … && python train.py'"),
        ("--image a --memory 1Gi layers", "error: 'layers' is a directory"),
        ("--image a --memory 1Gi python book.ipynb", "error: 'book.ipynb' is a notebook, which Python does not run"),
        ("--image a --memory 1Gi book.ipynb", "error: 'book.ipynb' is a notebook, which Python does not run"),
        ("--image a --memory 1Gi python broken.py", "error: Python cannot read broken.py: Missing parentheses"),
        ("--image a --memory 1Gi torchrun trian.py", "error: 'trian.py' is not in "),
        ("--image a --memory 1Gi A=1", "error: the command line has variables, and no program"),
        ("--image a --memory 1Gi --save src/a.yaml python train.py", "error: --save: src/a.yaml is in another directory"),
        ("--image a --memory 1Gi --save conf.yaml python train.py", "error: --save: conf.yaml exists, and holds something else"),
        ("--image a --memory 1Gi --save . python train.py", "error: --save: . is a directory"),
        ("--image a --memory 1Gi python3 -u train 3", "error: 'train' is not in "),
        ("--image a --memory 1Gi python layers", "error: 'layers' is a directory\n  hint: write -- python -m NAME"),
        ("--image a --memory 1Gi python -m keys", "error: keys/prod/.env looks like a secret, and would be sent along"),
        ("--image a --memory 1Gi --save k.yaml --env API_KEY=Zx81kd93 python train.py", "--env: the value of API_KEY looks like a secret"),
        ("--image a --memory 1Gi --data ./conf.yaml python train.py", "error: --data './conf.yaml' is on this machine, and not on the cluster\n  hint: --file ./conf.yaml sends it along; larger data: submit_tf_job put ./conf.yaml hdfs:///data/, then --data hdfs:///data/conf.yaml"),
        ("--image a --memory 1Gi --data w=src/ python train.py", "error: --data 'src/' is on this machine, and not on the cluster\n  hint: --file src/ sends it along; larger data: submit_tf_job put src/ hdfs:///data/, then --data w=hdfs:///data/src"),
        ("--image a --memory 1Gi --data src/*.py python train.py", "error: --data 'src/*.py' is on this machine"),
        ("--image a --memory 1Gi --data gone.csv python train.py", "--data: 'gone.csv' does not say which file system"),
        ("--image a --memory 1Gi --data-uri conf.yaml python train.py", "--data-uri: 'conf.yaml' does not say which file system"),
        ("--image a --memory 1Gi", "error: Missing argument '-- COMMAND...'"),
    ],
)  # fmt: skip
def test_run_reports_what_is_missing_or_wrong_by_its_option(
    cli: Cli, project: Path, words: str, message: str
) -> None:
    done = cli("run", "--print", *words.split())
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(message), done.err
    assert not (project / "k.yaml").exists()


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        ("submit a --memory 4Gi", "did you mean --set roles.worker.memory=4Gi, or submit_tf_job run --memory 4Gi?"),
        ("submit a --workers=8", "did you mean --set roles.worker.instances=8, or submit_tf_job run --workers 8?"),
        ("render a --queue ml", "did you mean --set queue=ml?"),
        ("submit a --image", "did you mean --set image=…, or submit_tf_job run --image …?"),
        ("run --queue ml python a.py", "did you mean --set queue=ml?"),
        ("submit a --nonsense", "usage: submit_tf_job submit [OPTIONS]"),
        ("status a --memory 4Gi", "usage: submit_tf_job status"),
    ],
)  # fmt: skip
def test_a_key_of_a_job_spec_given_as_an_option_is_answered(cli: Cli, argv: str, hint: str) -> None:
    done = cli(*argv.split())
    assert done.status == 2
    assert f"hint: {hint}" in done.err, done.err


def test_run_says_by_its_option_what_is_only_found_on_the_cluster(
    world: World, cli: Cli, project: Path
) -> None:
    data = ("--data", "hdfs:///data/x")
    done = cli("run", "--rm", RM, *GIVEN, *data, "-d", "--", "python", "train.py")
    assert done.status == 2
    assert done.err.splitlines()[-1].startswith("--data: hdfs:///data/x: names no host"), done.err


def test_run_names_the_settings_file_where_it_is(
    cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project / "elsewhere"))
    hint = f"in the settings ({project}/elsewhere/submit_tf_job/settings.yaml): "
    assert hint in cli("run", "--print", "python", "train.py").err


def test_submit_of_a_program_names_run(cli: Cli, project: Path) -> None:
    assert "run it as a job: `submit_tf_job run -- python FILE`" in cli("submit", "train.py").err
