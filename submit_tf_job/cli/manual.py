"""Commands help, which prints the pages of the documentation, and version."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from submit_tf_job.cli.commands import COMMANDS
from submit_tf_job.cli.context import Context, completed
from submit_tf_job.cli.pages import COMING_FROM, read_page, topics
from submit_tf_job.errors import UsageError
from submit_tf_job.json_values import document
from submit_tf_job.program_version import VERSION


def help_(
    context: Context,
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="[TOPIC]",
            help="A page of the documentation, or a command.",
            autocompletion=completed("topic"),
        ),
    ] = None,
) -> None:
    """Print a page of the documentation; without TOPIC, list them.

    \b
    Examples:
      submit_tf_job help
      submit_tf_job help troubleshooting | less
    """
    every = topics()
    topic = topic and topic.removeprefix("docs/").removesuffix(".md").removesuffix("/README")
    if topic and f"{COMING_FROM}/{topic}" in every:
        topic = f"{COMING_FROM}/{topic}"
    shown = [topic] if topic in every else every
    pages = {name: read_page(name) for name in shown}
    if topic is None:
        titles = {name: text.partition("\n")[0].lstrip("# ") for name, text in pages.items()}
        width = max(map(len, titles))
        context.result(
            (f"{name:<{width}}  {title}" for name, title in titles.items()),
            lambda: _json_object(None, titles),
        )
    elif topic in pages:
        text = readable(pages[topic], topic)
        context.result(text.splitlines(), lambda: _json_object(topic, {topic: text}))
    else:
        _help_of_command(topic)


def readable(page: str, topic: str = "") -> str:
    """Return a page in a form for a terminal: a link names the command that shows its target;
    images, and links to pages for maintainers, are left out.
    """
    page = re.sub(r"!\[[^\]]*\]\([^)]*\)\n*", "", page)
    page = re.sub(r"^<!-- .* -->\n", "", page, flags=re.MULTILINE)
    page = re.sub(r"\[([^\]]+)\]\((?:#|internals/)[^)]*\)", r"\1", page)
    up = r"(?:\.\./)?" if topic.startswith(COMING_FROM) else ""
    own = rf"\[([^\]]+)\]\({up}(?:{COMING_FROM}/)?([\w-]+)\.md(?:#[^)]*)?\)"
    page = re.sub(own, _help_reference, page)
    return re.sub(r"\[([^\]]+)\]\((?:\.\./)+([^)]*)\)", r"\1 (\2)", page)


def _help_reference(link: re.Match[str]) -> str:
    words, topic = link[1], COMING_FROM if link[2] == "README" else link[2]
    if words.endswith(f"{topic}.md"):
        return f"help {topic}"
    return f"{words} (help {topic})"


def _json_object(topic: str | None, pages: dict[str, str]) -> dict[str, object]:
    return document("Help", topic=topic, pages=pages)


def _help_of_command(topic: str) -> None:
    from difflib import get_close_matches

    from submit_tf_job.cli import main

    if topic in COMMANDS:
        main([topic, "--help"])
        return
    names = [name.rpartition("/")[2] for name in topics()]
    close = get_close_matches(topic, [*names, *COMMANDS], n=1)
    hint = "the topics: submit_tf_job help"
    if close:
        hint = f"did you mean {close[0]}?"
    raise UsageError(f"{topic!r} is not a help topic", hint=hint)


def version(context: Context) -> None:
    """Print the version.

    \b
    Example: submit_tf_job version -o json
    """
    context.result([f"submit_tf_job {VERSION}"], lambda: document("Version", version=VERSION))
