"""`cbir annotate`: learn severity from pairwise comparisons.

Subcommands of other packages come from the entry-point group `cbir.commands.annotate`.
"""

from importlib.metadata import entry_points

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
for entry_point in entry_points(group="cbir.commands.annotate"):
    app.command(entry_point.name)(entry_point.load())
