"""The documentation, its code blocks, and the commands in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import typer
import typer.main

from submit_tf_job.cli import add, commands

ROOT = Path(__file__).parents[1]


DOCS = ROOT / "docs"


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the comment before it, its text."""

    language: str
    mark: str
    text: str


def blocks(page: Path) -> list[Block]:
    found = re.findall(
        r"(?:<!-- ([^\n]*?) -->\n)?^```(\w*)\n(.*?)^```$",
        page.read_text("utf-8"),
        flags=re.DOTALL | re.MULTILINE,
    )
    return [Block(language, mark, text) for mark, language, text in found]


@cache
def the_command() -> Any:
    """The command line with all its commands, as `--help` sees it."""
    app = typer.Typer(name="submit_tf_job", rich_markup_mode=None)
    app.callback()(lambda: None)
    for name in commands.COMMANDS:
        add(app, name)
    return typer.main.get_command(app)


def resolve(words: list[str]) -> tuple[Any, list[str]]:
    """Find the command that words begin with, and what is left of them."""
    command = the_command()
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    return command, words
