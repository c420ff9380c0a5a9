"""Kinds of search that features add to `cbir search`: each is an entry point of the group `cbir.commands.search`.

`cbir search --NAME ...` runs the command of the entry point NAME, with its own options. If it has an option --NAME,
that is one of them; otherwise --NAME alone only chooses it.
"""

from difflib import get_close_matches
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from cbir.system.command_texts import SUMMARIES
from cbir.system.lazy_commands import KINDS_OF_SEARCH, SUMMARY, load_command
from cbir.system.strict_command import HELP_ALL, StrictCommand


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
                formatter.write_dl([(f"--{name}", _summary(entry)) for name, entry in self.kinds.items()])
        super().format_epilog(ctx, formatter)


def _has_option(command: Any, option: str) -> bool:
    return any(option in parameter.opts for parameter in command.params)


def _summary(entry: EntryPoint) -> str:
    return SUMMARIES.get(entry.value) or str(load_command(entry).get_short_help_str(SUMMARY))
