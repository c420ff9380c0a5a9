"""Command groups with subcommands of an entry-point group, which load when they are called."""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
import typer.core
import typer.main


class LazyCommands(typer.core.TyperGroup):
    """Import a subcommand only when it runs or shows its help. Subclasses name their entry-point group."""

    entry_point_group = "cbir.commands"

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted({*self.commands, *entry_points(group=self.entry_point_group).names})

    def get_command(self, ctx: Any, name: str) -> Any:
        if name in self.commands:
            return self.commands[name]
        entries = entry_points(group=self.entry_point_group, name=name)
        return load_command(next(iter(entries))) if entries else None


def load_command(entry: EntryPoint) -> Any:
    """Load a Typer app as a group, or a plain function as a single command.

    Help texts are plain: with markup on, rich swallows square brackets and the defaults in them.
    """
    loaded = entry.load()
    if not isinstance(loaded, typer.Typer):
        function, loaded = loaded, typer.Typer(add_completion=False)
        loaded.command()(function)
    loaded.rich_markup_mode = None  # Typer hands it down to subcommands
    command = typer.main.get_command(loaded)
    command.name = entry.name
    return command
