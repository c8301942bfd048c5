"""The layout of `--help`: commands in groups, one line each, and the cluster options last."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

from submit_tf_job.cli import SECTIONS, SUBCOMMANDS

__all__ = ["CLUSTER_OPTIONS", "Group", "HelpCommand"]

CLUSTER_OPTIONS = "Cluster options"


class HelpCommand(TyperCommand):
    """A command with this layout."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, the command's own options, then the cluster options."""
        _write_options(self, ctx, formatter)


class Group(TyperGroup):
    """A group of commands with this layout."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options, then the commands."""
        _write_options(self, ctx, formatter)
        if ctx.parent is None:
            sections = {
                title: {name: summary for name, (_, summary) in rows.items()}
                for title, rows in SECTIONS.items()
            }
        else:
            sections = {
                "Commands": {
                    name: SUBCOMMANDS[f"{ctx.info_name} {name}"] for name in self.list_commands(ctx)
                }
            }
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(list(rows.items()))


def _write_options(command: Any, ctx: Any, formatter: Any) -> None:
    sections: dict[str, list[tuple[str, str]]] = {
        "Arguments": [],
        "Options": [],
        CLUSTER_OPTIONS: [],
    }
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None:
            # `--help` itself is an option of click's, before typer 0.24
            title = getattr(parameter, "rich_help_panel", None) or "Options"
            if parameter.param_type_name == "argument":
                title = "Arguments"
            sections[title].append(record)
    for title, rows in sections.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)
