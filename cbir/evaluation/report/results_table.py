"""Tables of results, in reports and printed by `cbir evaluate run`."""

from html import escape
from typing import TYPE_CHECKING

from cbir.evaluation.experiment import EvalResult
from cbir.system.console import results_console

if TYPE_CHECKING:
    from rich.table import Table

    from cbir.evaluation.experiment import EvalResult

SIGNIFICANT = 0.05


def render_results(result: EvalResult) -> str:
    """Render a row for each method with means, intervals and the comparison with the first method."""
    metrics = result.plan.metrics
    heads = "".join(f"<th>{escape(m.name)}{' ↓' if m.lower_is_better else ''}</th>" for m in metrics)
    rows = "".join(_row(result, number) for number in range(len(result.runs)))
    return (
        f'<div class="wide"><table><thead><tr><th>method</th>{heads}<th>seconds</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def render_folds(result: EvalResult) -> str:
    """Render mean and standard deviation over folds of the queries; empty without folds."""
    if result.by_fold is None:
        return ""
    heads = "".join(f"<th>{escape(metric.name)}</th>" for metric in result.plan.metrics)
    rows = "".join(
        f"<tr><th>{escape(run.method.name)}</th>"
        + "".join(f"<td>{of_metric.mean():.4f} ± {of_metric.std(ddof=1):.4f}</td>" for of_metric in folds)
        + "</tr>"
        for run, folds in zip(result.runs, result.by_fold, strict=True)
    )
    return (
        f'<h3>Mean and standard deviation of {result.by_fold.shape[2]} folds</h3><div class="wide"><table><thead>'
        f"<tr><th>method</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(result: EvalResult, number: int) -> str:
    run = result.runs[number]
    cells = "".join(_cell(result, number, m) for m in range(len(result.plan.metrics)))
    settings = ", ".join(f"{name} {value}" for name, value in run.facts["parameters"].items())
    seconds = f"<td>{run.seconds}</td>"
    return f'<tr><th title="{escape(settings)}">{escape(run.method.name)}</th>{cells}{seconds}</tr>'


def _cell(result: EvalResult, number: int, m: int) -> str:
    column = result.means[:, m]
    best = column.min() if result.plan.metrics[m].lower_is_better else column.max()
    mean, low, high = (float(values[number, m]) for values in (result.means, result.low, result.high))
    difference = result.differences[number]
    compared = ""
    if difference:
        p = float(difference.p_holm[m])
        sure = "<b>*</b>" if p < SIGNIFICANT else ""
        compared = f"<small>{float(difference.mean[m]):+.4f}, p {escape(format_p(p))}{sure}</small>"
    kind = ' class="best"' if mean == best and len(column) > 1 else ""
    return f"<td{kind}><b>{mean:.4f}</b><small>[{low:.4f}, {high:.4f}]</small>{compared}</td>"


def format_p(p: float) -> str:
    """Format a p value as papers print it."""
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"


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
