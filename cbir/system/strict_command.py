"""Commands that show a short help, or all options, and refuse an option that is given twice."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

import typer
import typer.core

from cbir.system.command_texts import EXAMPLES
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
