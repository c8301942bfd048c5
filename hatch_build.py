"""Build hooks: the README as a package index shows it, and the project's URLs; `bootstrap.zip` and
the manual page in a wheel.

On an index there are no files beside the README. With `repository` set (pyproject.toml,
`[tool.hatch.metadata.hooks.custom]`) relative links and images become absolute; without it, images
are left out, and links to pages name the command that prints them.
"""

from __future__ import annotations

import ast
import re
import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

_YARN = "https://hadoop.apache.org/docs/stable/hadoop-yarn/hadoop-yarn-site/yarn-service/YarnServiceAPI.html"


def index_readme(text: str, repository: str) -> str:
    """Return a README without relative links.

    Args:
        text: The README of the checkout.
        repository: Address of the repository's files, such as
            `https://git.example.com/submit_tf_job/blob/main`; "" where there is none.
    """
    if repository:
        return re.sub(r"\]\((?!\w+://|#)([^)]+)\)", rf"]({repository}/\1)", text)
    text = re.sub(r"!\[[^\]]*\]\((?!\w+://)[^)]*\)\n*", "", text)
    text = re.sub(r"\[(?:docs/)?([^\]]+)\]\(docs/([\w-]+)\.md(?:#[^)]*)?\)", _topic, text)
    return re.sub(r"\[([^\]]+)\]\((?!\w+://|#)[^)]*\)", r"\1", text)


def _topic(link: re.Match[str]) -> str:
    words, topic = link[1], link[2]
    if topic == "README":
        return "`submit_tf_job help`"
    return (
        f"`submit_tf_job help {topic}`"
        if words == f"{topic}.md"
        else f"{words} (`submit_tf_job help {topic}`)"
    )


def manual_page(source: str, version: str) -> str:
    """Return the manual page `submit_tf_job(1)`.

    Args:
        source: The module with the tables of commands, `submit_tf_job/cli/commands.py`.
        version: The package's version.
    """
    values = {
        target.id: ast.literal_eval(node.value)
        for node in ast.parse(source).body
        for target in (
            [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        )
        if isinstance(target, ast.Name) and target.id in ("SECTIONS", "EPILOG") and node.value
    }
    lines = [
        f'.TH SUBMIT_TF_JOB 1 "" "submit_tf_job {version}" "User Commands"',
        ".SH NAME",
        r"submit_tf_job \- run distributed training on Hadoop YARN",
        ".SH SYNOPSIS",
        r".B submit_tf_job",
        r"\fICOMMAND\fR [\fIOPTIONS\fR]",
    ]
    for title, commands in values["SECTIONS"].items():
        lines.append(f".SH {title.upper()}")
        for name, (_module, summary) in commands.items():
            lines += [".TP", f".B {name}", summary]
    status, _, more = values["EPILOG"].partition("\n\n")
    lines += [".SH EXIT STATUS", *status.removeprefix("Exit status: ").splitlines()]
    lines += [".SH FILES", ".I ~/.config/submit_tf_job/settings.yaml", ".SH SEE ALSO", more]
    return "\n".join(lines).replace("-", r"\-").replace(r"\\-", r"\-") + "\n"


class CustomBuildHook(BuildHookInterface[Any]):
    """Puts `bootstrap.zip` into a wheel, because a checkout makes its own, and the manual page."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file to those of the wheel."""
        if version == "editable":
            return
        maker = runpy.run_path(str(Path(self.root) / "submit_tf_job/plan/bootstrap_zip.py"))
        with tempfile.NamedTemporaryFile(suffix=".zip", delete=False) as made:
            made.write(maker["build"]())
        source = (Path(self.root) / "submit_tf_job/cli/commands.py").read_text("utf-8")
        with tempfile.NamedTemporaryFile("w", suffix=".1", delete=False) as page:
            page.write(manual_page(source, self.metadata.version))
        self._made = [Path(made.name), Path(page.name)]
        for path in self._made:
            path.chmod(0o644)
        build_data["force_include"][made.name] = "submit_tf_job/container/bootstrap.zip"
        build_data["shared_data"][page.name] = "share/man/man1/submit_tf_job.1"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - hatchling calls it so
        """Remove what `initialize` made."""
        if version != "editable":
            for path in self._made:
                path.unlink()


class CustomMetadataHook(MetadataHookInterface):
    """Sets `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Change the metadata in place."""
        repository = str(self.config.get("repository", "")).rstrip("/")
        text = (Path(self.root) / "README.md").read_text("utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": index_readme(text, repository),
        }
        metadata["urls"] = {"YARN services API": _YARN}
        if repository:
            pages = {
                "Repository": "",
                "Documentation": "/docs/README.md",
                "Changelog": "/CHANGELOG.md",
                "Security": "/SECURITY.md",
            }
            metadata["urls"] |= {name: f"{repository}{path}" for name, path in pages.items()}
