"""Command groups whose commands are entry points, and load when they are called.

A distribution registers a command, a function or a Typer app, in one of these groups of entry points:

cbir.panels.data
    At the top, in the panel Data; so for each of PANELS.
cbir.commands
    At the top, in the panel Others.
cbir.commands.admin
    Below `cbir admin`; so for each group of commands.
cbir.commands.search
    As a kind of search: `cbir search --NAME` runs it.
cbir.old_commands
    Under a name that it had, as `token` or `dataset.irma`: it works, and a note names the new one.
"""

from difflib import get_close_matches
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
import typer.core
import typer.main

from cbir.system.command_texts import SUMMARIES
from cbir.system.console import echo
from cbir.system.strict_command import StrictCommand

PANELS = ("Search", "Data", "Quality", "Learn", "Service")

OTHERS = "Others"

COMMANDS = "cbir.commands"

KINDS_OF_SEARCH = "cbir.commands.search"

OLD = "cbir.old_commands"

SUMMARY = 1000  # characters of a summary, which are never reached


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

    entry_point_group = COMMANDS

    @cached_property
    def _entries(self) -> dict[str, EntryPoint]:
        return {entry.name: entry for entry in entry_points(group=self.entry_point_group)}

    @cached_property
    def _old_entries(self) -> dict[str, EntryPoint]:
        """Entry points of the names that commands had here."""
        group = self.entry_point_group.removeprefix(COMMANDS).lstrip(".")
        names = ((*entry.name.rpartition("."), entry) for entry in entry_points(group=OLD))
        return {name: entry for parent, _, name, entry in names if parent == group}

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted({*self.commands, *self._entries})

    def get_command(self, ctx: Any, name: str) -> Any:
        if name in self.commands:
            return self.commands[name]
        entry = self._entries.get(name) or self._old_entries.get(name)
        return load_command(entry, name) if entry else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Resolve a command; suggest others for a name that there is not, and the new one for an old name."""
        name, names = args[0], self.list_commands(ctx)
        if name not in names and name in self._old_entries:
            new = new_name(self._old_entries[name])
            old = f"{ctx.command_path} {name}"
            echo(f"cbir: `{old}` is now `cbir {new}`; the old name works until 2.0", err=True)
        elif name not in names and (matches := get_close_matches(name, [*names, *self._old_entries])):
            meant = [
                each if each in names else f"cbir {new_name(self._old_entries[each])}" for each in matches
            ]
            ctx.fail(f"No such command {name!r}. Did you mean {' or '.join(map(repr, meant))}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands."""
        self.write_commands(ctx, formatter, "Commands", self.list_commands(ctx))

    def write_commands(self, ctx: Any, formatter: Any, title: str, names: list[str]) -> None:
        """List commands under a title, with their summaries where importing them would take long."""
        rows = []
        for name in names:
            summary = SUMMARIES.get(self._entries[name].value) if name in self._entries else None
            rows.append((name, summary or self.get_command(ctx, name).get_short_help_str(SUMMARY)))
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


class PanelCommands(LazyCommands):
    """The commands at the top, in panels."""

    @cached_property
    def _entries(self) -> dict[str, EntryPoint]:
        installed = entry_points()  # once: reading them takes long
        groups = [COMMANDS, *map(panel_group, PANELS)]
        return {entry.name: entry for group in groups for entry in installed.select(group=group)}

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands in their panels."""
        panels: dict[str, list[str]] = {panel: [] for panel in (*PANELS, OTHERS)}
        for name in self.list_commands(ctx):
            group = self._entries[name].group if name in self._entries else COMMANDS
            panels[next((panel for panel in PANELS if panel_group(panel) == group), OTHERS)].append(name)
        for panel, names in panels.items():
            self.write_commands(ctx, formatter, panel, names)


def panel_group(panel: str) -> str:
    """Return the group of entry points of the commands of a panel."""
    return f"cbir.panels.{panel.lower()}"


def new_name(old: EntryPoint) -> str:
    """Return the words, after `cbir`, of the command that an old name stands for."""
    for entry in entry_points(value=old.value):
        if entry.group == KINDS_OF_SEARCH:
            return f"search --{entry.name}"
        if entry.group == COMMANDS or entry.group.startswith("cbir.panels."):
            return entry.name
        if entry.group.startswith(f"{COMMANDS}."):
            return f"{entry.group.removeprefix(f'{COMMANDS}.')} {entry.name}"
    raise LookupError(f"no command has the object {old.value} of the old name {old.name}")


def load_command(entry: EntryPoint, name: str | None = None) -> Any:
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
    command.name = name or entry.name
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
