"""`cbir evaluate ...`: measure the quality of search results."""

import typer

from cbir.commands.evaluate.answer_irma import answer_irma
from cbir.commands.evaluate.run_evaluation import evaluate_collection
from cbir.commands.evaluate.score_irma_codes import score_irma_codes

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Measure the quality of search results.")
app.command("run")(evaluate_collection)
app.command("irma-error")(score_irma_codes)
app.command("irma-run")(answer_irma)
