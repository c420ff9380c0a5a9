"""Commands that load when they are called, show a short help, and refuse an option that is given twice.

A distribution registers a command, a function or a Typer app, in one of these groups of entry points:

cbir.panels.data
    At the top, in the panel Data; so for each of PANELS.
cbir.commands
    At the top, in the panel Others.
cbir.commands.admin
    Below `cbir admin`; so for each group of commands.
cbir.commands.search
    As a kind of search: `cbir search --NAME ...` runs it, with its own options. If it has an option --NAME, that is
    one of them; otherwise --NAME alone only chooses it.
cbir.old_commands
    Under a name that it had, as `token` or `dataset.irma`: it works, and a note names the new one.
"""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from difflib import get_close_matches
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
import typer.core
import typer.main

from cbir.system.command_texts import EXAMPLES, SUMMARIES
from cbir.system.console import echo

REQUIRED = re.compile(r"^\{(.+)\}")  # Typer's usage of an argument

HELP_ALL = "--help-all"

WORDS = {
    "str": "TEXT",
    "int": "NUMBER",
    "float": "NUMBER",
    "path": "PATH",
    "file": "FILE",
    "directory": "FOLDER",
}
PANELS = ("Search", "Data", "Quality", "Learn", "Service")
OTHERS = "Others"
COMMANDS = "cbir.commands"
KINDS_OF_SEARCH = "cbir.commands.search"
OLD = "cbir.old_commands"
SUMMARY = 1000  # characters of a summary, which are never reached


class StrictCommand(typer.core.TyperCommand):
    """Shows an example in its help, and refuses an option that is given twice and keeps one value.

    Its help leaves out the options that are declared with `hidden=True`; `--help-all` shows them too.
    """

    _help_all: Any = None

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, with --help-all if the help leaves any out."""
        params = super().get_params(ctx)
        if self._help_all is None and any(getattr(each, "hidden", False) for each in self.params):
            self._help_all = _help_all_option(params[-1])
        return params if self._help_all is None else [*params[:-1], self._help_all, params[-1]]

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
        for parameter in self.params:
            name_values(parameter, ctx)
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


def _help_all_option(help_option: Any) -> Any:
    """Return the option --help-all, like --help."""

    def show(ctx: Any, _: Any, is_given: bool) -> None:
        if is_given and not ctx.resilient_parsing:
            echo(full_help(ctx))
            ctx.exit()

    option = copy(help_option)
    option.name, option.opts, option.callback = "help_all", [HELP_ALL], show
    option.help = "Show this message with all options and exit."
    return option


def full_help(ctx: Any) -> str:
    """Return the help of a context's command with the options that plain help leaves out."""
    with all_options(ctx.command):
        return str(ctx.get_help())


@contextmanager
def all_options(command: Any) -> Iterator[None]:
    """Show all options of a command in its help meanwhile."""
    left_out = [each for each in command.params if getattr(each, "hidden", False)]
    for parameter in left_out:
        parameter.hidden = False
    try:
        yield
    finally:
        for parameter in left_out:
            parameter.hidden = True


def name_values(parameter: Any, ctx: Any) -> None:
    """Let the help of a parameter name its values by a word, unless it has one or lists them."""
    label = parameter.display_type(ctx).strip("<>")
    if label.startswith("list["):
        label = label[len("list[") : -1]
    label = label.removesuffix(" range")
    word = WORDS.get(label.lower())
    if isinstance(parameter, typer.core.TyperArgument):
        setattr(parameter, "display_type_rich", lambda ctx: "" if word else label)  # noqa: B010 - a method
        parameter.metavar = parameter.metavar or str(parameter.name).upper()
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


def command_group(entry_points: str, summary: str) -> typer.Typer:
    """Return a group of the commands that are registered with it, and those of a group of entry points."""
    commands = type("CommandGroup", (LazyCommands,), {"entry_point_group": entry_points})
    app = typer.Typer(cls=commands, no_args_is_help=True, add_completion=False, help=summary)
    app.callback()(lambda: None)
    return app


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


class SearchCommand(StrictCommand):
    """Runs the kind of search that an option names."""

    @cached_property
    def kinds(self) -> dict[str, EntryPoint]:
        """Entry points of the kinds of search by name."""
        return {entry.name: entry for entry in sorted(entry_points(group=KINDS_OF_SEARCH))}

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse the arguments with the command of the kind of search that they name."""
        options = [word.partition("=")[0] for word in args[: args.index("--") if "--" in args else None]]
        name = next((each for each in self.kinds if f"--{each}" in options), None)
        if name is None:
            return super().make_context(info_name, args, parent, **extra)
        command, option = load_command(self.kinds[name]), f"--{name}"
        if help_options := {"--help", HELP_ALL} & {*options}:
            args = sorted(help_options)[:1]
        elif not _has_option(command, option):
            args = [word for word in args if word != option]
        return command.make_context(f"{info_name} {option}", args, parent, **extra)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; of an option that only a kind of search has, name that kind."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            option = getattr(error, "option_name", None)
            if option is None or _has_option(self, option):
                raise
            kinds = [name for name, entry in self.kinds.items() if _has_option(load_command(entry), option)]
            if kinds:
                meant = " or ".join(f"`{ctx.command_path} --{name}`" for name in kinds)
                ctx.fail(f"No such option: {option}. It is an option of {meant}.")
            kinds_like_it = get_close_matches(option, [f"--{name}" for name in self.kinds])
            error.possibilities = sorted({*(error.possibilities or ()), *kinds_like_it})  # type: ignore[attr-defined]
            raise

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """List the kinds of search."""
        if self.kinds:
            with formatter.section(
                "Other searches, each with options of its own (cbir search --NAME --help)"
            ):
                formatter.write_dl(
                    [(f"--{name}", _search_summary(entry)) for name, entry in self.kinds.items()]
                )
        super().format_epilog(ctx, formatter)


def _has_option(command: Any, option: str) -> bool:
    return any(option in parameter.opts for parameter in command.params)


def _search_summary(entry: EntryPoint) -> str:
    return SUMMARIES.get(entry.value) or str(load_command(entry).get_short_help_str(SUMMARY))
