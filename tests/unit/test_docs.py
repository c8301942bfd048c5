"""The documentation tells of what is there: links, commands, job specs, settings, tables."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main

from submit_tf_job import contract, specfile
from submit_tf_job.cli import COMMANDS
from submit_tf_job.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_TERMINATED, TABLE
from submit_tf_job.job import Job
from submit_tf_job.observation import JobState
from submit_tf_job.plan import Site, plan
from submit_tf_job.plan.payload import task_description
from submit_tf_job.settings import KEYS, load_settings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *DOCS.glob("*.md")])
HADOOP_CONF = ROOT / "tests" / "golden" / "hadoop-conf"


def name_of(page: object) -> str:
    return page.name if isinstance(page, Path) else ""


def read(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the comment before it, its text."""

    language: str
    mark: str
    text: str


def blocks(page: Path) -> list[Block]:
    found = re.findall(r"(?:<!-- (.*?) -->\n)?^```(\w*)\n(.*?)^```$", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    return [Block(language, mark, text) for mark, language, text in found]


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def first_column(text: str, heading: str) -> list[str]:
    """The cells on the left of the first table below a heading (or below any line that is exactly so)."""
    lines = iter(text[text.index(f"\n{heading}\n") :].splitlines())
    return [line.split(" | ")[0].removeprefix("| ") for line in list(_table(lines))[2:]]


def _table(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        if line.startswith("|"):
            yield line
            break
    for line in lines:
        if not line.startswith("|"):
            return
        yield line


def ticked(cells: list[str]) -> list[str]:
    return [word for cell in cells for word in re.findall(r"`([^`]+)`", cell)]


# --- links -----------------------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def test_the_index_names_every_page() -> None:
    assert set(re.findall(r"\]\((\w[\w.-]*\.md)\)", read("README.md"))) == {page.name for page in DOCS.glob("*.md")} - {"README.md"}


# --- commands --------------------------------------------------------------------------------------------------------


def the_command() -> Any:
    """The command line with all its commands, as `--help` sees it."""
    app = typer.Typer(name="submit_tf_job", rich_markup_mode=None)
    app.callback()(lambda: None)
    for module in dict.fromkeys(COMMANDS.values()):
        import_module(f"submit_tf_job.cli.{module}").register(app)
    return typer.main.get_command(app)


def resolve(words: list[str]) -> tuple[Any, list[str]]:
    """Find the command that words begin with, and what is left of them."""
    command = the_command()
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    return command, words


def options_of(command: Any) -> set[str]:
    return {"-h", "--help"} | {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


def command_lines(text: str) -> Iterator[list[str]]:
    """Every call of the program in shell text: its arguments."""
    for part in re.split(r"&&|\||;|\n", text):
        words = shlex.split(part.partition(" >")[0], comments=True)
        words = [word for word in words if word != "$"]
        while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
            words = words[1:]
        if words and words[0].rpartition("/")[2] == "submit_tf_job":
            yield words[1:]


def typed(page: Path) -> Iterator[str]:
    """What is typed in the blocks of a page: in `console` the lines with a prompt, in a shell's language all of them."""
    for block in blocks(page):
        if block.language == "console":
            yield from (line for line in block.text.splitlines() if line.startswith("$ "))
        elif block.language in ("sh", "bash", "shell") and not block.mark.startswith("runs: "):  # those are run, on a cluster
            yield from block.text.splitlines()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_typed_commands_can_be_typed(page: Path) -> None:
    for line in typed(page):
        for words in command_lines(line):
            command, rest = resolve(words)
            assert not hasattr(command, "commands") or set(rest) <= options_of(command), line
            if rest and not set(rest) & {"-h", "--help"} and not hasattr(command, "commands"):
                command.make_context("submit_tf_job", rest)  # raises where an argument or option is none, or is missing


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_in_prose_exist(page: Path) -> None:
    for code in re.findall(r"`(submit_tf_job\s[^`]+)`", prose(page)):
        for words in command_lines(code):
            if words[0].isupper():  # COMMAND
                continue
            command, rest = resolve(words)
            assert command.name != "submit_tf_job" or rest[0].startswith("-"), code
            given = {word.partition("=")[0] for word in rest if word.startswith("-")}
            assert given <= options_of(command) | {"-"}, code


def test_the_readme_s_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for page in PAGES:
        assert set(re.findall(r"(?:`|^\$ )make ([a-z-]+)", page.read_text("utf-8"), re.MULTILINE)) <= targets, page.name


# --- job specs and settings ------------------------------------------------------------------------------------------

CHECKED_ELSEWHERE = {"job-spec.md"}  # test_specfile_docs.py
YAML = [(page, block) for page in PAGES if page.name not in CHECKED_ELSEWHERE for block in blocks(page) if block.language == "yaml"]


def load(block: Block, base: Path) -> Job:
    for name in re.findall(r"[\w./-]+", block.mark.removeprefix("needs")) if block.mark.startswith("needs ") else ():
        (base / name).write_text("")
    return specfile.loads(block.text, source="docs", base=base, hadoop_conf=HADOOP_CONF)


@pytest.mark.parametrize(("page", "block"), YAML, ids=name_of)
def test_yaml_is_good(page: Path, block: Block, tmp_path: Path) -> None:
    if block.mark == "settings":
        home = tmp_path / ".config" / "submit_tf_job"
        home.mkdir(parents=True)
        (home / "settings.yaml").write_text(block.text)
        (home / "settings.yaml").chmod(0o600)  # one names a command to run
        load_settings(environ={"HOME": str(tmp_path)}, cwd=tmp_path, system_file=tmp_path / "none")
    elif block.mark != "fragment":
        base = ROOT / "specs" if page.name == "README.md" and page.parent == ROOT else tmp_path
        plan(load(block, base), Site("alice", domain="example.com", staging="hdfs://nn/staging"))


def test_the_readme_shows_the_demo_s_job_spec() -> None:
    shown = next(block.text for block in blocks(ROOT / "README.md") if block.language == "yaml")
    spec = (ROOT / "specs" / "multi-worker.yaml").read_text("utf-8")
    assert shown == "".join(line for line in spec.splitlines(keepends=True) if not line.startswith("#"))


# --- tables ----------------------------------------------------------------------------------------------------------


def test_every_setting_has_a_row() -> None:
    assert ticked(first_column(read("settings.md"), "## Keys")) == list(KEYS)


def test_a_task_s_exit_statuses() -> None:
    page = read("troubleshooting.md")
    for status, meaning in contract.EXIT_MEANING.items():
        assert f"\n| {status} | {meaning} |\n" in page


def test_exit_statuses_of_commands() -> None:
    page = read("verdict.md")
    rows = dict(re.findall(r"^\| ([\d, ]+) \| (.*?) \|", page[page.index("\n## Exit statuses\n") :], re.MULTILINE))
    codes: dict[int, set[str]] = {}
    for row in TABLE.values():
        codes.setdefault(row.exit_status, set()).add(row.code)
    documented = {int(status): set(ticked([rows[cell]])) for cell in rows for status in cell.split(", ")}
    assert {status: found for status, found in documented.items() if found} == codes
    assert {EXIT_OK, EXIT_INTERRUPTED, EXIT_TERMINATED} <= set(documented)


def test_states() -> None:
    assert ticked(first_column(read("verdict.md"), "## States")) == [state.value for state in JobState]


def test_the_environment_of_a_program() -> None:
    assert ticked(first_column(read("tf-config.md"), "## The environment of a program")) == list(contract.TASK_ENV)


def test_the_task_description() -> None:
    job = specfile.load(ROOT / "specs" / "parameter-server.yaml")
    task = task_description(job, Site("alice"), "0")
    page = read("tf-config.md")
    assert ticked(first_column(page, "### The task description")) == list(task)
    roles = task["roles"]
    assert isinstance(roles, dict)
    row = next(line for line in page.splitlines() if line.startswith("| `roles` | by name: `count`"))
    assert set(ticked([row])) == {"roles", *roles["chief"]}
    duties = page[page.index("`duty` is what the rendezvous expects") :]
    assert ticked(first_column(duties, "")) == list(contract.DUTIES)


def test_the_tree_is_as_it_is() -> None:
    page = read("architecture.md")
    folders: dict[int, str] = {}
    found = set()
    for indent, name in re.findall(r"^    ([│ ]*)[├└]── (\S+)", page, re.MULTILINE):
        depth = len(indent) // 4
        folders[depth] = name
        if name.endswith(".py"):
            found.add("".join(folders[level] for level in range(depth)) + name)
    package = ROOT / "submit_tf_job"
    assert found == {str(path.relative_to(package)) for path in package.rglob("*.py")}


def test_the_layers_are_those_of_the_contract() -> None:
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    layers = re.findall(r'^  "(.*)",$', project[project.index("layers = [") :].partition("]")[0], re.MULTILINE)
    page = read("architecture.md")
    block = page[page.index("import-linter enforces it") :].split("\n\n")[1]
    assert [line.strip() for line in block.splitlines()] == [layer.replace("submit_tf_job.", "") for layer in layers]
