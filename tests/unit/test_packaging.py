"""The package's metadata and its README as an index shows it; tests/matrix installs wheels."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from submit_tf_job.cli import commands

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Any:
    """hatch_build.py, without hatchling, which only builds need."""
    for kind, name in (
        ("metadata", "MetadataHookInterface"),
        ("builders.hooks", "BuildHookInterface"),
    ):
        interface = ModuleType(f"hatchling.{kind}.plugin.interface")
        setattr(interface, name, list if kind == "builders.hooks" else object)  # one takes [Any]
        above = interface.__name__
        while above := above.rpartition(".")[0]:
            monkeypatch.setitem(sys.modules, above, ModuleType(above))
        monkeypatch.setitem(sys.modules, interface.__name__, interface)
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", text)


def test_index_readme_has_no_relative_links(build: Any) -> None:
    text = build.index_readme(README, "")
    assert [target for target in links(text) if "://" not in target] == []
    assert "![" not in text
    assert "`submit_tf_job help quickstart`" in text
    assert "`submit_tf_job help troubleshooting`" in text


def test_index_readme_of_a_repository_has_absolute_links(build: Any) -> None:
    text = build.index_readme(README, "https://git.example.com/x/blob/main")
    assert "](https://git.example.com/x/blob/main/docs/quickstart.md)" in text
    assert "](https://git.example.com/x/blob/main/docs/images/first-minute.svg)" in text
    assert {target.partition("://")[0] for target in links(text)} == {"https"}


def test_metadata_names_urls_of_the_repository_where_it_is_set(build: Any) -> None:
    for repository, names in (
        ("", {"YARN services API"}),
        ("https://git.example.com/x/", {"Repository", "Documentation"}),
    ):
        metadata: dict[str, Any] = {}
        build.CustomMetadataHook.update(
            SimpleNamespace(config={"repository": repository}, root=str(ROOT)), metadata
        )
        assert names <= set(metadata["urls"])
        assert all(url.startswith("https://") for url in metadata["urls"].values())
        assert metadata["readme"]["content-type"] == "text/markdown"


def test_project_metadata_has_licence_and_documentation() -> None:
    # since Python 3.11
    found = pytest.importorskip("tomllib").loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project, hatch = found["project"], found["tool"]["hatch"]
    assert project["license"] == "Apache-2.0"
    assert not [name for name in project["classifiers"] if name.startswith("License ::")], (
        "PEP 639 forbids both"
    )
    assert all((ROOT / name).is_file() for name in project["license-files"])
    assert hatch["build"]["targets"]["wheel"]["force-include"] == {"docs": "submit_tf_job/docs"}
    assert all((ROOT / name).exists() for name in hatch["build"]["targets"]["sdist"]["include"])


@pytest.mark.parametrize(
    "page", sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]), ids=lambda page: page.name
)
def test_no_page_installs_an_unpublished_package(page: Path) -> None:
    by_name = r"pip install [^\n]*(?<![./-])\bsubmit_tf_job\b(?!-)"
    assert not re.search(by_name, page.read_text("utf-8"))


def test_manual_page_names_every_command_and_exit_status(build: Any) -> None:
    source = (ROOT / "submit_tf_job/cli/commands.py").read_text("utf-8")
    page = build.manual_page(source, "1.2.3")
    listed = re.findall(r"^\.B ([a-z-]+)\n(.+)$", page, re.MULTILINE)
    assert dict(listed) == {name: summary for name, (_, summary) in commands.COMMANDS.items()}
    assert "0 done, or the job succeeded" in page.partition(".SH EXIT STATUS\n")[2]


def test_workflows_name_actions_by_commit() -> None:
    used = [
        line.split("uses:")[1].strip()
        for path in (ROOT / ".github/workflows").glob("*.yml")
        for line in path.read_text("utf-8").splitlines()
        if "uses:" in line
    ]
    assert used
    for action in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


def test_development_tools_are_installed_by_their_hashes() -> None:
    project = pytest.importorskip("tomllib").loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = project["project"]["optional-dependencies"]
    wanted = [*project["project"]["dependencies"], *extras["dev"], *extras["gateway"]]
    names = {re.split(r"[^A-Za-z0-9-]", one)[0].lower() for one in wanted} - {"submit"}
    for file, needed in (
        ("requirements.txt", names),
        ("requirements-release.txt", {"build", "cyclonedx-bom", "hatchling"}),
    ):
        entries = (ROOT / ".ci" / file).read_text("utf-8").replace("\\\n", "").splitlines()[1:]
        assert all("==" in entry and "--hash=sha256:" in entry for entry in entries)
        assert needed <= {entry.partition("==")[0] for entry in entries}, file
    used = [(ROOT / ".ci/build-dist").read_text("utf-8"), (ROOT / "Makefile").read_text("utf-8")]
    for text in used:
        assert "--require-hashes" in text
