"""`cbir annotate`: learn severity from pairwise comparisons."""

import typer

from cbir.system.lazy_commands import LazyCommands


class AnnotateCommands(LazyCommands):
    """Subcommands of `cbir annotate`; `serve` belongs to the service."""

    entry_point_group = "cbir.commands.annotate"


app = typer.Typer(cls=AnnotateCommands, no_args_is_help=True, add_completion=False)


@app.callback()
def _annotate() -> None:
    """Learn severity from comparisons of two images."""
