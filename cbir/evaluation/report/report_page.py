"""The page as a whole."""

from collections.abc import Callable
from html import escape
from pathlib import Path

import cbir
from cbir.atomic import atomic_text
from cbir.evaluation.experiment import RECALLS, EvalResult
from cbir.evaluation.report.charts import bar_chart, line_chart
from cbir.evaluation.report.protocol import describe_protocol
from cbir.evaluation.report.query_examples import render_examples
from cbir.evaluation.report.report_pictures import ReportPictures
from cbir.evaluation.report.results_table import render_results
from cbir.evaluation.report.svg_figure import style_sheet
from cbir.evaluation.result_files import class_means


def write_report(
    evaluation: EvalResult,
    path: Path,
    pictures: ReportPictures | None,
    progress: Callable[[str, int, int], None],
) -> None:
    """Write the report; without `pictures` it shows none. progress: as of `run_plan`."""
    with atomic_text(path) as file:
        file.write(render_report(evaluation, pictures, progress))


def render_report(
    evaluation: EvalResult, pictures: ReportPictures | None, progress: Callable[[str, int, int], None]
) -> str:
    """The HTML of the report."""
    plan, count = evaluation.plan, len(evaluation.judgements.queries)
    facts = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in describe_protocol(evaluation))
    shown = ""
    if pictures:
        shown = (
            "<h2>Best and worst queries</h2><p class=note>The pictures are of the collection: keep this file as you "
            "keep them.</p>" + "".join(_examples(evaluation, number, pictures, progress)
                                       for number in range(len(evaluation.runs)))
        )  # fmt: skip
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Retrieval by {escape(plan.relevance.text)}</title><style>{style_sheet()}</style></head><body>
<h1>Retrieval by {escape(plan.relevance.text)}</h1>
<p class="sub">{count} queries, {len(evaluation.candidates)} images, profile
{escape(str(evaluation.collection["profile"]))}. Not a medical device.</p>
<h2>Results</h2>{render_results(evaluation)}
<p class="note">Bold: the best mean of a column. ↓: lower is better. *: p below 0.05.</p>
<h2>Precision and recall</h2>{_curves(evaluation)}
<h2>Classes</h2>{_classes(evaluation)}
<h2>On what terms</h2><dl>{facts}</dl>{_notes(evaluation)}
{shown}
<p class="note">cbir {cbir.__version__}. Run files in TREC form are in runs/, judgements in qrels.txt, values of
single queries in queries.csv, everything here as numbers in summary.json.</p>
</body></html>
"""


def _curves(evaluation: EvalResult) -> str:
    series = [
        (run.method.name, curve.tolist())
        for run, curve in zip(evaluation.runs, evaluation.curves, strict=True)
    ]
    return line_chart(series, RECALLS, "recall", "interpolated precision, mean over queries")


def _classes(evaluation: EvalResult) -> str:
    """Bars of the first measure, the easiest class of the first run first."""
    measure = evaluation.plan.measures[0]
    found = [class_means(evaluation, number) for number in range(len(evaluation.runs))]
    rows = [
        (title, f"{count}", [found[run][place][2][0] for run in range(len(found))])
        for place, (title, count, _) in enumerate(found[0])
    ]
    rows.sort(key=lambda row: row[2][0], reverse=not measure.lower_is_better)
    names = [run.method.name for run in evaluation.runs]
    return (
        f'<p class="note">Mean {escape(measure.name)} of the queries of each class; at the right, how many they are.'
        f"</p>{bar_chart(rows, names, f'{measure.name} by class')}"
    )


def _examples(
    evaluation: EvalResult, number: int, pictures: ReportPictures, progress: Callable[[str, int, int], None]
) -> str:
    progress("pictures", number + 1, len(evaluation.runs))
    opened = " open" if number == 0 else ""
    name = escape(evaluation.runs[number].method.name)
    return (
        f"<details{opened}><summary>{name}</summary>{render_examples(evaluation, number, pictures)}</details>"
    )


def _notes(evaluation: EvalResult) -> str:
    """What re-rankers had to say."""
    said = [
        f"<li>{escape(run.method.name)}: {escape(note)}</li>"
        for run in evaluation.runs
        for note in run.facts["notes"]
    ]
    return f"<ul>{''.join(said)}</ul>" if said else ""
