"""`cbir annotate ...`: learn severity from comparisons of two images."""

import typer

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Learn severity from comparisons of two images."
)


@app.callback()
def _annotate() -> None:
    """Learn severity from comparisons of two images."""
