"""The documentation tells of what is there: links, commands, job specs, settings, tables."""

from __future__ import annotations

import ast
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from submit_tf_job import jobspec
from submit_tf_job.container import contract
from submit_tf_job.diagnose import statuses
from submit_tf_job.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_TERMINATED, TABLE
from submit_tf_job.jobspec.files import Host
from submit_tf_job.jobspec.job import Job, RoleKind
from submit_tf_job.observation import JobState
from submit_tf_job.plan import Site, plan
from submit_tf_job.settings import keys, load_settings
from tests.builders.command_line import Cli
from tests.golden.fixed import task_of
from tests.pages import DOCS, ROOT, Block, blocks, resolve, the_command

PAGES = sorted(
    [*ROOT.glob("README*.md"), ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]
)
HADOOP_CONF = ROOT / "tests" / "golden" / "hadoop-conf"


def name_of(page: object) -> str:
    return page.name if isinstance(page, Path) else ""


def read(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def first_column(text: str, heading: str) -> list[str]:
    """The cells on the left of the first table below a heading (or below any line that is exactly
    so).
    """
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


# --- links ----------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(
        r"^#+ (.*)$",
        re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE),
        re.MULTILINE,
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


@pytest.mark.slow
def test_comments_cite_facts_that_exist() -> None:
    """Comments give `hadoop-facts.md#...` as the source of a rule, never a page elsewhere."""
    texts = {
        path: path.read_text("utf-8")
        for folder in ("submit_tf_job", "tests")
        for path in (ROOT / folder).rglob("*.py")
        if path != Path(__file__)
    }
    cited = {one for text in texts.values() for one in re.findall(r"facts\.md#([\w-]+)", text)}
    assert len(cited) > 40
    assert cited <= anchors(DOCS / "internals/hadoop-facts.md")
    vague = re.compile(r"(?<!\w)\(seen\)|\bfacts: (?:verified-|yarn-|tensorflow )")
    assert [path for path, text in texts.items() if vague.search(text)] == []


def test_lines_of_the_documentation_have_at_most_120_columns() -> None:
    done = subprocess.run(
        [sys.executable, ".ci/wrap-docs", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_index_names_every_page() -> None:
    assert set(re.findall(r"\]\((\w[\w./-]*\.md)\)", read("README.md"))) == {
        str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")
    } - {"README.md"}


def test_pages_for_agents_are_made_from_the_docs() -> None:
    made = runpy.run_path(str(ROOT / ".ci/agent_pages.py"))["pages"]()
    for name, text in made.items():
        assert (ROOT / name).read_text("utf-8") == text, "make goldens"


# --- commands -------------------------------------------------------------------------------------


def options_of(command: Any) -> set[str]:
    return {"-h", "--help"} | {
        name
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
    }


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
    """What is typed in the blocks of a page: in `console` the lines with a prompt, in a shell's
    language all of them.
    """
    for block in blocks(page):
        if block.language == "console":
            yield from (line for line in block.text.splitlines() if line.startswith("$ "))
        elif block.language in ("sh", "bash", "shell") and not block.mark.startswith(
            "runs: "
        ):  # those are run, on a cluster
            yield from block.text.splitlines()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_typed_commands_parse(page: Path) -> None:
    for line in typed(page):
        for words in command_lines(line):
            command, rest = resolve(words)
            assert not hasattr(command, "commands") or set(rest) <= options_of(command), line
            if rest and not set(rest) & {"-h", "--help"} and not hasattr(command, "commands"):
                # raises where an argument or option is none, or is missing
                command.make_context("submit_tf_job", rest)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_in_prose_exist(page: Path) -> None:
    for code in re.findall(r"`(submit_tf_job\s[^`]+)`", prose(page)):
        for words in command_lines(code):
            if words[0].isupper():  # COMMAND
                continue
            command, rest = resolve(words)
            assert command.name != "submit_tf_job" or rest[0].startswith("-"), code
            own = takewhile(lambda word: word != "--", rest)
            given = {word.partition("=")[0] for word in own if word.startswith("-")}
            assert given <= options_of(command) | {"-"}, code


def test_make_targets_in_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for page in PAGES:
        assert (
            set(re.findall(r"(?:`|^\$ )make ([a-z-]+)", page.read_text("utf-8"), re.MULTILINE))
            <= targets
        ), page.name


# --- job specs and settings -----------------------------------------------------------------------

CHECKED_ELSEWHERE = {"job-spec.md"}  # test_specfile_docs.py
YAML = [
    (page, block)
    for page in PAGES
    if page.name not in CHECKED_ELSEWHERE
    for block in blocks(page)
    if block.language == "yaml"
]


def load(block: Block, base: Path) -> Job:
    for name in block.mark.partition("needs ")[2].split(", "):
        if name:
            (base / name).write_text("")
    return jobspec.read(block.text, source="docs", host=Host(base, HADOOP_CONF)).job


@pytest.mark.parametrize(("page", "block"), YAML, ids=name_of)
def test_yaml_blocks_are_valid(page: Path, block: Block, tmp_path: Path) -> None:
    if block.mark == "settings":
        home = tmp_path / ".config" / "submit_tf_job"
        home.mkdir(parents=True)
        (home / "settings.yaml").write_text(block.text)
        (home / "settings.yaml").chmod(0o600)  # one names a command to run
        load_settings(environ={"HOME": str(tmp_path)}, cwd=tmp_path, system_file=tmp_path / "none")
    elif block.mark != "fragment" and block.mark != "file tfjob.yaml":
        site = Site("alice", domain="example.com", staging="hdfs://nn/staging")
        plan(load(block, tmp_path), site)


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "quickstart.md"], ids=name_of)
def test_chinese_page_has_the_same_commands_and_programs(page: Path) -> None:
    def without_comments(page: Path) -> list[str]:
        found = (re.sub(r"  # .*", "", block.text) for block in blocks(page))
        return [text for text in found if text]

    assert without_comments(page.with_suffix(".zh.md")) == without_comments(page)


# --- tables ---------------------------------------------------------------------------------------


def test_settings_table_has_a_row_for_each_key() -> None:
    assert ticked(first_column(read("settings.md"), "## Keys")) == list(keys())


def test_exit_statuses_of_tasks_are_documented() -> None:
    page = read("troubleshooting.md")
    for status, meaning in statuses.BOOTSTRAP.items():
        assert f"\n| {status} | {meaning} |\n" in page


def test_exit_statuses_of_commands_are_documented() -> None:
    page = read("verdict.md")
    rows = dict(
        re.findall(
            r"^\| ([\d, ]+) \| (.*?) \|", page[page.index("\n## Exit statuses\n") :], re.MULTILINE
        )
    )
    codes: dict[int, set[str]] = {}
    for row in TABLE.values():
        codes.setdefault(row.exit_status, set()).add(row.code)
    documented = {int(n): set(ticked([rows[cell]])) for cell in rows for n in cell.split(", ")}
    assert {status: found for status, found in documented.items() if found} == codes
    assert {EXIT_OK, EXIT_INTERRUPTED, EXIT_TERMINATED} <= set(documented)


def test_states() -> None:
    assert ticked(first_column(read("verdict.md"), "## States")) == [one.value for one in JobState]


def test_environment_of_a_program_is_documented() -> None:
    assert ticked(first_column(read("tf-config.md"), "## The environment of a program")) == [
        contract.ENV_TF_CONFIG,
        contract.ENV_JOB,
        contract.ENV_ROLE,
        contract.ENV_INDEX,
        contract.ENV_COUNT,
        contract.ENV_PORT,
        contract.ENV_RUN,
        contract.ENV_GENERATION,
        contract.ENV_ATTEMPT,
        contract.ENV_PROGRESS,
    ]


def test_facts_are_documented() -> None:
    page = read("tf-config.md")
    prefixes = (contract.ENV_HOSTS, contract.ENV_HOSTFILE)
    assert ticked(first_column(page, "### Facts for every program")) == [
        contract.ENV_RANK,
        contract.ENV_WORLD_SIZE,
        contract.ENV_LOCAL_RANK,
        contract.ENV_ADDRESS,
        *(f"{prefix}<ROLE>" for prefix in prefixes),
    ]


def test_task_description_is_documented() -> None:
    spec = ROOT / "specs" / "parameter-server.yaml"
    job = jobspec.loads(spec.read_text(), source="x", base=spec.parent)
    task = task_of(job, Site("alice"))
    page = read("tf-config.md")
    assert ticked(first_column(page, "### The task description")) == list(task)
    roles = task["roles"]
    assert isinstance(roles, dict)
    row = next(one for one in page.splitlines() if one.startswith("| `roles` | by name: `count`"))
    assert set(ticked([row])) == {"roles", *roles["chief"]}
    kinds = page[page.index("`kind` is what the rendezvous expects") :]
    assert ticked(first_column(kinds, "")) == [kind.value for kind in RoleKind]


def test_page_of_dialects_holds_what_formats_prints(cli: Cli) -> None:
    page = read("dialects.md")
    for name in cli("formats", "-o", "json").json["formats"]:
        _, _, rest = page.partition(f"<!-- submit_tf_job formats {name} -->\n")
        shown, end, _ = rest.partition("<!-- end -->")
        assert end, name
        assert shown.split() == cli("formats", name).out.split(), name  # lines are broken here


def documents() -> Iterator[tuple[str, list[str]]]:
    """Yield kind and fields of each JSON object that is printed alone, as the code writes them."""
    for path in (ROOT / "submit_tf_job").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Name(id="document"), args=[ast.Constant(value=str(kind)), *_]
                ):
                    yield kind, [keyword.arg for keyword in node.keywords if keyword.arg]


@pytest.mark.slow
def test_json_page_has_a_section_and_the_fields_of_each_kind() -> None:
    sections = dict(
        re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", read("json.md"), re.MULTILINE | re.DOTALL)
    )
    printed = list(documents())
    assert len(printed) > 20
    missing = [kind for kind, _ in printed if kind not in sections]
    missing += [
        f"{kind}.{name}"
        for kind, names in printed
        for name in names
        if f"`{name}`" not in sections.get(kind, "")
    ]
    assert missing == []


def test_each_command_is_in_the_documentation() -> None:
    text = "".join(page.read_text("utf-8") for page in DOCS.rglob("*.md"))
    groups = the_command().commands
    commands = [*groups]
    commands += [f"{it} {inner}" for it in groups for inner in getattr(groups[it], "commands", ())]
    assert [it for it in commands if not re.search(rf"(`|submit_tf_job ){it}\b", text)] == []


def measured(row: str, pattern: str) -> tuple[str, ...]:
    """The numbers that a pattern finds in a row of performance.md."""
    [line] = [
        line for line in read("internals/performance.md").splitlines() if line.startswith(row)
    ]
    found = re.search(pattern, line)
    assert found, line
    return found.groups()


@pytest.mark.parametrize(
    ("page", "sentences"),
    [
        (
            "README.md",
            (
                "{causes} causes",
                "again {lost} s after a container was lost",
                "{bytes} bytes more",
                "{status} of the time",
            ),
        ),
        (
            "README.zh.md",
            ("{causes} 种原因", "丢失一个容器 {lost} 秒之后", "多 {bytes} 字节", "{status} 倍"),
        ),
    ],
)
def test_numbers_of_the_readme_are_those_of_its_links(
    page: str, sentences: tuple[str, ...]
) -> None:
    causes = first_column(
        read("troubleshooting.md"), "| code | what happened | what to do | a retry helps |"
    )
    many, few = measured("| bytes posted for 10,000 workers", r"([\d,]+) and ([\d,]+) bytes")
    numbers = {
        "causes": len(causes),
        "lost": measured("| lost container", r"medians: ([\d.]+) s")[0],
        "bytes": int(many.replace(",", "")) - int(few.replace(",", "")),
        "status": measured("| `status` of a job, with its report", r" ([\d.]+) \| ≤")[0],
    }
    text = (ROOT / page).read_text("utf-8")
    said = [sentence.format(**numbers) for sentence in sentences]
    assert [sentence for sentence in said if sentence not in text] == []


def test_tree_names_every_folder_and_module() -> None:
    page = read("internals/architecture.md")
    named = re.findall(r"^    ([a-z_]+(?:\.py|/)) ", page, re.MULTILINE)
    package = ROOT / "submit_tf_job"
    folders = {f"{path.name}/" for path in package.iterdir() if (path / "__init__.py").is_file()}
    assert sorted(named) == sorted(folders | {path.name for path in package.glob("*.py")})


def test_files_that_the_architecture_names_exist() -> None:
    files = [f"/{path.relative_to(ROOT)}" for path in (ROOT / "submit_tf_job").rglob("*.py")]
    files += [f"/{path.relative_to(ROOT)}" for path in (ROOT / "tests/unit").rglob("*.py")]
    files += ["/submit_tf_job/dialects/NAME.py"]
    named = set(re.findall(r"`([\w/]+\.py)`", read("internals/architecture.md")))
    missing = {name for name in named if not any(file.endswith(f"/{name}") for file in files)}
    assert not missing


@pytest.mark.parametrize("number", [0, 1])
def test_layers_equal_the_import_contracts(number: int) -> None:
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    layers = re.findall(
        r'^  "(.*)",$', project.split("layers = [")[number + 1].partition("]")[0], re.MULTILINE
    )
    page = read("internals/architecture.md")
    block = page.split("import-linter enforces")[number + 1].split("\n\n")[1]
    assert [line.split("  ")[0] for line in dedent(block).splitlines()] == [
        layer.replace("submit_tf_job.", "") for layer in layers
    ]


@pytest.mark.slow
def test_examples_of_the_python_page_pass_mypy_strict(tmp_path: Path) -> None:
    for number, text in enumerate(
        re.findall(r"^```python\n(.*?)^```", read("python.md"), re.MULTILINE | re.DOTALL)
    ):
        (tmp_path / f"example_{number}.py").write_text(text)
    wrong = (
        'from submit_tf_job import run\n\ndef train(epochs: int) -> str:\n    return ""\n\n'
        'job = {"image": "i"}\nword: str = run(train, 3, job=job)\n'
    )
    for name, call in (
        ("text", 'run(train, "three", job=job)'),
        ("too_many", "run(train, 3, 4, job=job)"),
    ):
        (tmp_path / f"wrong_{name}.py").write_text(f"{wrong}{call}\n")
    # the cache of `make lint`: reading the package anew takes 30 s
    options = ["--strict", "--config-file", "pyproject.toml", "--no-error-summary"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *sorted(tmp_path.glob("*.py"))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    places = [Path(line.partition(":")[0]).name for line in errors]
    assert sorted(places) == ["wrong_text.py", "wrong_too_many.py"], done.stdout


def test_recipe_of_cron_runs_in_the_environment_of_cron(tmp_path: Path) -> None:
    """A crontab sets variables to text as it stands, and cron's own environment has little else."""
    [table] = [block.text for block in blocks(DOCS / "schedulers.md") if "./nightly" in block.text]
    [script] = [
        block.text for block in blocks(DOCS / "schedulers.md") if "# nightly:" in block.text
    ]
    *settings, entry = table.strip().splitlines()
    given = {"HOME": str(tmp_path), "LOGNAME": "etl", "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}
    given |= dict(line.replace("/opt/", f"{tmp_path}/").split("=", 1) for line in settings)
    program = tmp_path / "submit_tf_job/bin/submit_tf_job"
    job = tmp_path / "etl/nightly"
    for path, text in ((program, '#!/bin/sh\necho "$HADOOP_CONF_DIR" "$@"\n'), (job, script)):
        path.parent.mkdir(parents=True)
        path.write_text(text)
        path.chmod(0o755)
    command = entry.split(maxsplit=5)[5].replace("/opt/", f"{tmp_path}/")
    done = subprocess.run(["sh", "-c", command], env={**given, "RUN": "1"}, capture_output=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, b""), done
    told = (tmp_path / "etl/1.txt").read_text()
    assert told.startswith("/etc/hadoop/conf submit train.yaml --submission-id 1 "), told
