"""`cbir grade ...`: grades of new images from graded ones."""

import typer

from cbir.commands.grade.evaluate import evaluate
from cbir.commands.grade.fit import fit
from cbir.commands.grade.predict import predict

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Grade new images by graded ones.")
app.command()(fit)
app.command()(predict)
app.command()(evaluate)
