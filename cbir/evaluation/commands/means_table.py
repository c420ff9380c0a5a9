"""Printed tables of `cbir evaluate run`."""

from typing import TYPE_CHECKING

from cbir.evaluation.report.results_table import format_p
from cbir.system.console.output import results_console

if TYPE_CHECKING:
    from rich.table import Table

    from cbir.evaluation.experiment import EvalResult


def print_means(result: "EvalResult") -> None:
    """Print the means of each method with their intervals, the differences from the first one, and the queries."""
    from rich.table import Table

    metrics = result.plan.metrics
    table = Table("method", *(metric.name for metric in metrics), "seconds", box=None)
    for number, run in enumerate(result.runs):
        cells = ["\n".join(_mean_lines(result, number, m)) for m in range(len(metrics))]
        table.add_row(run.method.name, *cells, run.seconds)
    console = results_console()
    console.print(table, highlight=False)
    legend = "mean and 95 % interval"
    if len(result.runs) > 1:
        legend += f"; difference from {result.runs[0].method.name} with its p value (paired test, Holm's correction)"
    console.print(legend, style="dim", highlight=False)
    if result.by_fold is not None:
        console.print(f"mean ± standard deviation of {result.by_fold.shape[2]} folds of the queries")
        console.print(_fold_table(result))
    console.print(_describe_queries(result), highlight=False)
    if result.qrels.without_relevant:
        console.print(
            f"{len(result.qrels.without_relevant)} more have no relevant image and are left out of the means",
            style="yellow",
        )


def _mean_lines(result: "EvalResult", number: int, m: int) -> list[str]:
    """Return mean, interval and difference from the first method of a run's metric, a line each."""
    mean, low, high = (float(values[number, m]) for values in (result.means, result.low, result.high))
    lines = [f"{mean:.4f}", f"{low:.3f}-{high:.3f}"]
    if difference := result.differences[number]:
        lines += [f"{float(difference.mean[m]):+.4f}", f"p {format_p(float(difference.p_holm[m]))}"]
    return lines


def _describe_queries(result: "EvalResult") -> str:
    count, sample = len(result.qrels.queries), result.plan.sample
    if sample is None or sample >= result.query_count:
        return f"{count} queries"
    classes = len(set(result.qrels.query_classes.tolist()))
    return f"{count} of {result.query_count} queries, evenly from {classes} classes: means of all of them may differ"


def _fold_table(result: "EvalResult") -> "Table":
    from rich.table import Table

    assert result.by_fold is not None
    table = Table("method", *(metric.name for metric in result.plan.metrics), box=None)
    for run, folds in zip(result.runs, result.by_fold, strict=True):
        cells = [f"{of_metric.mean():.4f} ± {of_metric.std(ddof=1):.4f}" for of_metric in folds]
        table.add_row(run.method.name, *cells)
    return table
