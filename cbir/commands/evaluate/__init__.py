"""`cbir evaluate ...`: measure how good answers are."""

import typer

from cbir.commands.evaluate.irma_error import irma_error
from cbir.commands.evaluate.irma_run import irma_run
from cbir.commands.evaluate.run import run

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Measure how good answers are.")
app.command("run")(run)
app.command("irma-error")(irma_error)
app.command("irma-run")(irma_run)
