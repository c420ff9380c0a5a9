"""`cbir evaluate ...`: measure how good answers are."""

import typer

from cbir.commands.evaluate.answer_irma import answer_irma
from cbir.commands.evaluate.run_evaluation import evaluate_collection
from cbir.commands.evaluate.score_irma_codes import score_irma_codes

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Measure how good answers are.")
app.command("evaluate_collection")(evaluate_collection)
app.command("irma-error")(score_irma_codes)
app.command("irma-run")(answer_irma)
