"""`cbir annotate ...` but for `serve`, which is in `service.annotate.commands`."""

import typer

from cbir.commands.annotate.agreement import agreement
from cbir.commands.annotate.label import label
from cbir.commands.annotate.simulate import simulate

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Learn severity from comparisons of two images."
)

app.command()(simulate)
app.command()(agreement)
app.command()(label)
