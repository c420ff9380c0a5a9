"""`cbir evaluate ...`: measure the quality of search results."""

import typer

from cbir.evaluation.commands.answer_irma import answer_irma
from cbir.evaluation.commands.fuse_runs import fuse_runs
from cbir.evaluation.commands.run_evaluation import evaluate_collection
from cbir.evaluation.commands.score_irma_codes import score_irma_codes
from cbir.system.console.lazy_commands import LazyCommands


class EvaluateCommands(LazyCommands):
    """Subcommands of `cbir evaluate`; `irma` indexes, and belongs to the indexer."""

    entry_point_group = "cbir.commands.evaluate"


app = typer.Typer(
    cls=EvaluateCommands,
    no_args_is_help=True,
    add_completion=False,
    help="Measure the quality of search results.",
)
app.command("run")(evaluate_collection)
app.command("fuse")(fuse_runs)
app.command("irma-error")(score_irma_codes)
app.command("irma-run")(answer_irma)
