"""HTML report of an evaluation."""

from collections.abc import Callable
from html import escape
from pathlib import Path

import cbir
from cbir.evaluation.experiment import RECALLS, EvalResult
from cbir.evaluation.report.charts import bar_chart, line_chart
from cbir.evaluation.report.protocol import describe_protocol
from cbir.evaluation.report.query_examples import render_examples
from cbir.evaluation.report.report_pictures import ReportPictures
from cbir.evaluation.report.results_table import render_folds, render_results
from cbir.evaluation.report.svg_figure import style_sheet
from cbir.evaluation.result_files import class_means
from cbir.system.atomic import atomic_text

Progress = Callable[[str, int, int], None]


def write_report(result: EvalResult, path: Path, pictures: ReportPictures | None, progress: Progress) -> None:
    """Write the report of `result` to `path`.

    Parameters
    ----------
    result : EvalResult
    path : Path
    pictures : ReportPictures or None
        None: the report has no pictures.
    progress : callable
        As of `run_evaluation`.
    """
    with atomic_text(path) as file:
        file.write(render_report(result, pictures, progress))


def render_report(result: EvalResult, pictures: ReportPictures | None, progress: Progress) -> str:
    """Return the HTML of the report; parameters as of `write_report`: `result`, `pictures` and `progress`."""
    plan, count = result.plan, len(result.qrels.queries)
    facts = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in describe_protocol(result))
    examples = ""
    if pictures:
        examples = (
            "<h2>Best and worst queries</h2><p class=note>The pictures are from the collection: protect this file "
            "as you protect them.</p>"
        ) + "".join(_examples(result, number, pictures, progress) for number in range(len(result.runs)))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Retrieval by {escape(plan.relevance.text)}</title><style>{style_sheet()}</style></head><body>
<h1>Retrieval by {escape(plan.relevance.text)}</h1>
<p class="sub">{count} queries, {len(result.candidates)} images, profile
{escape(str(result.collection["profile"]))}. Not a medical device.</p>
<h2>Results</h2>{render_results(result)}
<p class="note">Bold: the best mean of a column. ↓: lower is better. *: p below 0.05.</p>{render_folds(result)}
<h2>Precision and recall</h2>{_curves(result)}
<h2>Classes</h2>{_classes(result)}
<h2>Protocol</h2><dl>{facts}</dl>{_notes(result)}
{examples}
<p class="note">cbir {cbir.__version__}. runs/ has the run files in TREC format, qrels.txt the judgements, queries.csv
the values of single queries, summary.json all figures.</p>
</body></html>
"""


def _curves(result: EvalResult) -> str:
    series = [
        (run.method.name, curve.tolist()) for run, curve in zip(result.runs, result.curves, strict=True)
    ]
    return line_chart(series, RECALLS, "recall", "interpolated precision, mean over queries")


def _classes(result: EvalResult) -> str:
    """Render bars of the first metric, the easiest class of the first run first."""
    metric = result.plan.metrics[0]
    by_run = [class_means(result, number) for number in range(len(result.runs))]
    rows = [
        (title, f"{count}", [classes[index][2][0] for classes in by_run])
        for index, (title, count, _) in enumerate(by_run[0])
    ]
    rows.sort(key=lambda row: row[2][0], reverse=not metric.lower_is_better)
    names = [run.method.name for run in result.runs]
    return (
        f'<p class="note">Mean {escape(metric.name)} of the queries of each class; their number is at the right.'
        f"</p>{bar_chart(rows, names, f'{metric.name} by class')}"
    )


def _examples(result: EvalResult, number: int, pictures: ReportPictures, progress: Progress) -> str:
    progress("pictures", number + 1, len(result.runs))
    opened = " open" if number == 0 else ""
    name = escape(result.runs[number].method.name)
    return f"<details{opened}><summary>{name}</summary>{render_examples(result, number, pictures)}</details>"


def _notes(result: EvalResult) -> str:
    """Render the remarks of the re-rankers."""
    notes = [
        f"<li>{escape(run.method.name)}: {escape(note)}</li>"
        for run in result.runs
        for note in run.facts["notes"]
    ]
    return f"<ul>{''.join(notes)}</ul>" if notes else ""
