"""Completion in bash, zsh and fish: values of the cluster and this machine, in bounded time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from submit_tf_job.cli import commands
from tests.builders.command_line import Cli

ROOT = Path(__file__).parents[3]
PROFILES = (
    "profiles:\n  prod: {resource_managers: [http://rm1:8088]}\n  pre: {resource_managers: "
    "[http://rm2:8088]}\n"
)


# --- as shells call it ----------------------------------------------------------------------------


def completion_environment(shell: str, line: str) -> dict[str, str]:
    """Return the variables by which a shell asks for completions of one line."""
    words = line.split(" ")
    asked = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }
    return {"_SUBMIT_TF_JOB_COMPLETE": f"complete_{shell}", **asked[shell]}


def offered(shell: str, text: str) -> set[str]:
    """Return the values in what the program prints for one shell."""
    if shell != "zsh":
        return {line.partition("\t")[0] for line in text.splitlines()}
    begin = "_arguments '*: :(("
    assert text.startswith(begin)
    return {part.split('"')[1] for part in text[len(begin) :].splitlines()}


@pytest.fixture
def profiles(home: Path) -> Path:
    """Write a settings file with two profiles."""
    path = home / ".config/submit_tf_job/settings.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(PROFILES)
    return path


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("submit_tf_job st", {"stacks", "status", "stop", "staging"}),
        ("submit_tf_job sandbox ", {"up", "down", "status", "logs"}),
        ("submit_tf_job list --state s", {"succeeded", "stopped"}),
        ("submit_tf_job init --strategy p", {"parameter-server"}),
        ("submit_tf_job list --profile p", {"pre", "prod"}),
        ("submit_tf_job list --auth k", {"kerberos"}),
    ],
)
@pytest.mark.usefixtures("profiles")
def test_completion_of_each_shell(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, shell: str, line: str, found: set[str]
) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)  # as completion does
    monkeypatch.setattr("submit_tf_job.cli.completion.ANSWER_S", 60)
    for name, value in completion_environment(shell, line).items():
        monkeypatch.setenv(name, value)
    done = cli()
    assert (done.err, offered(shell, done.out)) == ("", found)


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.usefixtures("profiles")
def test_completion_imports_nothing_heavy(home: Path, shell: str) -> None:
    code = (
        "import sys; from submit_tf_job.cli import completion, main; completion.ANSWER_S = 60\n"
        "try: main([])\n"
        "finally: assert not {'rich', 'requests', 'hdfs_native'} & {n for n, m in "
        "sys.modules.items() if m}"
    )
    environ = {"HOME": str(home), "PATH": os.defpath, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environ, **completion_environment(shell, "submit_tf_job list --profile p")},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert (done.stderr, offered(shell, done.stdout)) == ("", {"pre", "prod"})


@pytest.mark.slow
def test_completion_script_in_bash(home: Path, tmp_path: Path) -> None:
    """The script that --show-completion prints, sourced by bash."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/submit_tf_job"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nfrom submit_tf_job.cli import completion, main\n"
        "completion.ANSWER_S = 60\nsys.exit(main())\n"
    )
    program.chmod(0o755)
    script = (
        "source <(submit_tf_job --show-completion bash); COMP_WORDS=(submit_tf_job list "
        "--state s); COMP_CWORD=3; "
        '_submit_tf_job_completion submit_tf_job; echo "${COMPREPLY[@]}"'
    )
    environ = {
        "HOME": str(home),
        "PATH": f"{tmp_path / 'bin'}:{os.defpath}",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [shutil.which("bash") or "bash", "-c", script],
        env=environ,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert (done.stdout, done.stderr) == ("succeeded stopped\n", "")


@pytest.mark.parametrize(
    ("shell", "file"),
    [
        ("bash", ".bash_completions/submit_tf_job.sh"),
        ("zsh", ".zfunc/_submit_tf_job"),
        ("fish", ".config/fish/completions/submit_tf_job.fish"),
    ],
)
def test_install_completion_installs_that_of_the_named_shell(
    cli: Cli, home: Path, shell: str, file: str
) -> None:
    done = cli("--install-completion", shell)
    assert (done.status, done.err) == (0, "")
    assert done.out == f"{shell} completion installed in {home / file}; it works in new shells\n"
    assert (home / file).read_text().strip() == cli("--show-completion", shell).out.strip()
    assert f"complete_{shell}" in (home / file).read_text()


# --- help -----------------------------------------------------------------------------------------


def topics(cli: Cli) -> set[str]:
    return {line.split()[0] for line in cli("help").out.splitlines()}


def test_help_prints_the_pages_of_the_documentation(cli: Cli) -> None:
    listed = cli("help")
    assert (listed.status, listed.err) == (0, "")
    assert {"troubleshooting", "kerberos", "job-spec", "settings"} <= topics(cli)
    page = cli("help", "troubleshooting")
    assert (page.status, page.err) == (0, "")
    assert page.out.startswith("# Troubleshooting\n")
    assert (
        cli("help", "troubleshooting", "-o", "json")
        .json["pages"]["troubleshooting"]
        .startswith("# Troubleshooting\n")
    )
    assert cli("help", "-o", "json").json["topic"] is None


def test_help_prints_the_pages_for_those_who_come_from_another_system(cli: Cli) -> None:
    listed = cli("help").out
    assert "coming-from/slurm " in listed
    page = cli("help", "slurm").out
    assert page.startswith("# Coming from Slurm\n")
    assert "`retries` (help job-spec)" in page
    assert "<!--" not in page
    for name in ("coming-from/slurm", "docs/coming-from/slurm.md"):
        assert cli("help", name).out == page
    assert "| TonY (help tony) |" in cli("help", "coming-from").out
    assert "did you mean slurm?" in cli("help", "slurrm").err


def test_messages_name_topics_that_exist(cli: Cli) -> None:
    import re

    said = [
        (path.name, topic)
        for path in (ROOT / "submit_tf_job").rglob("*")
        if path.suffix in (".py", ".json", ".js", ".html", ".yaml")
        for topic in re.findall(r"submit_tf_job help ([a-z][a-z-]+)", path.read_text("utf-8"))
    ]
    assert len(said) > 8
    assert {topic for _, topic in said} <= {*topics(cli), *commands.COMMANDS}
    hints = [
        (path.name, line)
        for path in (ROOT / "submit_tf_job").rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if re.search(r"""["'].*docs/[a-z-]+\.md""", line)
        and '"""' not in line
        and not line.lstrip().startswith("#")
        and "hadoop-facts.md#" not in line  # cited by docstrings alone
    ]
    assert hints == [], "a wheel has no docs/"
