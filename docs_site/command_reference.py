"""Reference of the command line, from the Typer app."""

import inspect
from collections.abc import Iterator
from typing import Any

import typer.main

from cbir.api.commands.search_kinds import SearchCommand
from cbir.api.main import app
from cbir.system.lazy_commands import load_command
from cbir.system.strict_command import all_options, name_values
from docs_site.tables import code, escape_cell, markdown_table

HEAD = """# Commands

Written from the program itself: the same as `cbir COMMAND --help-all`, where `--help` of a command with many options
shows the frequent ones. Exit codes: 0 for success, 1 where a check has
found something, 2 for wrong input, 3 where some files could not be used.
"""


def walk_commands() -> Iterator[tuple[str, Any, Any]]:
    """Yield the name, command and context of each command, groups before their members."""
    command = typer.main.get_command(app)
    yield from _walk(command, command.make_context("cbir", [], resilient_parsing=True))


def _walk(command: Any, context: Any) -> Iterator[tuple[str, Any, Any]]:
    yield context.command_path, command, context
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            member = command.get_command(context, name)
            if not member.hidden:
                yield from _walk(
                    member, member.make_context(name, [], parent=context, resilient_parsing=True)
                )
    if isinstance(command, SearchCommand):
        for name, entry in command.kinds.items():
            kind, words = load_command(entry), f"{context.info_name} --{name}"
            yield from _walk(
                kind, kind.make_context(words, [], parent=context.parent, resilient_parsing=True)
            )


def command_page() -> str:
    """Return the page of all commands as Markdown."""
    lines = [HEAD]
    for name, command, context in walk_commands():
        depth = min(len(name.split()) + 1, 4)
        lines += [f"{'#' * depth} {name}", "", inspect.cleandoc(command.help or ""), ""]
        if not hasattr(command, "list_commands"):
            lines += [
                "```console",
                " ".join(command.get_usage(context).removeprefix("Usage: ").split()),
                "```",
            ]
        for parameter in command.params:
            name_values(parameter, context)
        with all_options(command):
            rows = [
                record for item in command.params if (record := item.get_help_record(context)) is not None
            ]
        lines += markdown_table(
            ("option", "meaning"), [(code(left), escape_cell(right)) for left, right in rows]
        )
    return "\n".join(lines) + "\n"
