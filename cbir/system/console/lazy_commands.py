"""Command groups with subcommands of an entry-point group, which load when they are called."""

import re
from collections import Counter
from difflib import get_close_matches
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
import typer.core
import typer.main

from cbir.system.console.command_examples import EXAMPLES
from cbir.system.console.command_summaries import SUMMARIES

REQUIRED = re.compile(r"^\{(.+)\}")  # Typer's usage of an argument
SUMMARY = 1000  # characters of a summary, which are never reached
WORDS = {
    "str": "TEXT",
    "int": "NUMBER",
    "float": "NUMBER",
    "path": "PATH",
    "file": "FILE",
    "directory": "FOLDER",
}


class StrictCommand(typer.core.TyperCommand):
    """Shows an example in its help, and refuses an option that is given twice and keeps one value."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the epilog, and the example."""
        super().format_epilog(ctx, formatter)
        if example := EXAMPLES.get(command_words(ctx)):
            with formatter.section("Example"):
                formatter.write(f"  {example}\n")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options with words for their values in place of Python's types."""
        for parameter in self.get_params(ctx):
            name_values(parameter, ctx)
        super().format_options(ctx, formatter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Write a required argument as NAME."""
        return [REQUIRED.sub(r"\1", piece) for piece in super().collect_usage_pieces(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Count the options, then parse as usual: the first value of two would be dropped without a word."""
        if not ctx.resilient_parsing:
            _, _, order = self.make_parser(ctx).parse_args(list(args))
            for option, count in Counter(order).items():
                takes_one = not (getattr(option, "multiple", False) or getattr(option, "is_flag", True))
                if count > 1 and takes_one:
                    ctx.fail(f"{option.opts[-1]} is given {count} times, and takes one value.")
        return super().parse_args(ctx, args)


def name_values(parameter: Any, ctx: Any) -> None:
    """Let the help of a parameter name its values by a word, unless it has one or lists them."""
    label = parameter.display_type(ctx).strip("<>")
    if label.startswith("list["):
        label = label[len("list[") : -1]
    label = label.removesuffix(" range")
    word = WORDS.get(label.lower())
    if isinstance(parameter, typer.core.TyperArgument):
        setattr(parameter, "display_type_rich", lambda ctx: "" if word else label)  # noqa: B010 - a method
    elif parameter.metavar is None:
        parameter.metavar = word or label


def command_words(ctx: Any) -> str:
    """Return the words of a command after `cbir`."""
    words: list[str] = []
    while ctx.parent is not None:
        words.insert(0, ctx.info_name)
        ctx = ctx.parent
    return " ".join(words)


class WholeSummaries(typer.core.TyperGroup):
    """Lists its commands with the whole first sentence of each."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands."""
        commands: list[tuple[str, Any]] = [
            (name, self.get_command(ctx, name)) for name in self.list_commands(ctx)
        ]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(SUMMARY)) for name, command in commands])


class LazyCommands(typer.core.TyperGroup):
    """Import a subcommand only when it runs or shows its help. Subclasses name their entry-point group."""

    entry_point_group = "cbir.commands"

    @cached_property
    def _entries(self) -> dict[str, EntryPoint]:
        return {entry.name: entry for entry in entry_points(group=self.entry_point_group)}

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted({*self.commands, *self._entries})

    def get_command(self, ctx: Any, name: str) -> Any:
        if name in self.commands:
            return self.commands[name]
        return load_command(self._entries[name]) if name in self._entries else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Resolve a command, and suggest others for a name that there is not."""
        names = self.list_commands(ctx)
        if args[0] not in names and (matches := get_close_matches(args[0], names)):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(map(repr, matches))}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands, with their summaries where importing them would take long."""
        rows = []
        for name in self.list_commands(ctx):
            summary = SUMMARIES.get(self._entries[name].value) if name in self._entries else None
            rows.append((name, summary or self.get_command(ctx, name).get_short_help_str(SUMMARY)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def load_command(entry: EntryPoint) -> Any:
    """Load a Typer app as a group, or a plain function as a single command.

    Help texts are plain: with markup on, rich swallows square brackets and the defaults in them.
    """
    loaded = entry.load()
    if not isinstance(loaded, typer.Typer):
        function, loaded = loaded, typer.Typer(add_completion=False)
        loaded.command()(function)
    loaded.rich_markup_mode = None  # Typer hands it down to subcommands
    make_strict(loaded)
    command = typer.main.get_command(loaded)
    command.name = entry.name
    return command


def make_strict(app: typer.Typer) -> None:
    """Make StrictCommand the class of the commands of an app and its groups that have none of their own."""
    if not isinstance(app.info.cls, type):  # by default a placeholder
        app.info.cls = WholeSummaries
    for info in app.registered_commands:
        if info.cls in (None, typer.core.TyperCommand):
            info.cls = StrictCommand
    for group in app.registered_groups:
        if group.typer_instance is not None:
            make_strict(group.typer_instance)
