"""HTML report of an evaluation: protocol, tables of results, charts, and pictures of the best and worst queries."""

from collections.abc import Callable
from html import escape
from pathlib import Path

import numpy as np

from cbir.evaluation.experiment import RECALLS, EvalResult
from cbir.evaluation.report.charts import bar_chart, line_chart
from cbir.evaluation.report.report_parts import ReportPictures, render_page, render_table
from cbir.evaluation.result_files import SIGNIFICANT, class_means, fold_rows, format_p
from cbir.evaluation.runs import EvalRun
from cbir.evaluation.significance import RESAMPLES
from cbir.system.files import atomic_text

QUERIES = 5  # best and worst each
ANSWERS = 8
LISTED = 20  # queries without relevant images that are listed by name
Progress = Callable[[str, int, int], None]


def render_examples(result: EvalResult, number: int, pictures: ReportPictures) -> str:
    """Render a run's best and worst queries by the first metric, of different classes if possible.

    Parameters
    ----------
    result : EvalResult
    number : int
        Index of the run.
    pictures : ReportPictures
    """
    metric = result.plan.metrics[0]
    values = result.values[number, 0]
    falling = -values if not metric.lower_is_better else values
    # Equal values: the query with more relevant images says more.
    relevant = -result.qrels.relevant
    best, worst = (np.lexsort((relevant, order)).tolist() for order in (falling, -falling))
    parts = []
    for title, order in (("Best", best), ("Worst", worst)):
        parts.append(f"<h3>{title} queries by {escape(metric.name)}</h3>")
        parts += [_render_query(result, number, q, pictures) for q in _diverse(result, order)]
    return "".join(parts)


def _diverse(result: EvalResult, order: list[int]) -> list[int]:
    """Return the first queries of `order`, one of each class before others."""
    classes = result.qrels.query_classes
    _, first = np.unique(classes[order], return_index=True)
    later = np.ones(len(order), bool)
    later[first] = False
    return [order[index] for index in np.argsort(later, kind="stable")[:QUERIES]]


def _render_query(result: EvalResult, number: int, q: int, pictures: ReportPictures) -> str:
    qrels = result.qrels
    query = qrels.queries[q]
    value = float(result.values[number, 0, q])
    title = qrels.titles[qrels.query_classes[q]]
    picture = pictures.html(query.source, query.frame, query.content, query.burned_in)
    figures = [f'<figure class="asked">{picture}<figcaption>query<br>{escape(title)}</figcaption></figure>']
    gains = dict(zip(qrels.positions[q].tolist(), qrels.gains[q].tolist(), strict=True))
    answers = result.runs[number].matrix.positions[q, :ANSWERS].tolist()
    figures += [_render_answer(result, a, gains.get(a, 0), pictures) for a in answers if a >= 0]
    return (
        f'<div class="query"><p><b>{result.plan.metrics[0].name} {value:.3f}</b> '
        f'<span class="sub">{escape(title)}, {qrels.relevant[q]} relevant, <code>{query.name}</code></span>'
        f'</p><div class="film">{"".join(figures)}</div></div>'
    )


def _render_answer(result: EvalResult, position: int, gain: int, pictures: ReportPictures) -> str:
    qrels, record = result.qrels, result.candidates.records[position]
    code = int(qrels.classes[position])
    title = qrels.titles[code] if code >= 0 else "unjudged"
    hit = gain >= qrels.level
    mark = "✓" if hit else "✗"
    if qrels.spread:
        mark += f" gain {gain}"
    picture = pictures.html(record.source, record.frame, record.content_hash, record.burned_in)
    kind = "hit" if hit else "miss"
    return f'<figure class="{kind}">{picture}<figcaption><b>{mark}</b> {escape(title)}</figcaption></figure>'


def describe_protocol(result: EvalResult) -> list[tuple[str, str]]:
    """Return headings and their HTML."""
    return [
        ("Collection", _collection(result)),
        ("Queries", _queries(result)),
        ("Without relevant images", _without_relevant(result)),
        ("Relevance", _relevance(result)),
        ("Unjudged images", _unjudged(result)),
        ("Same patient", _patients(result)),
        ("Depth", _depth(result)),
        ("Ties", _ties(result)),
        ("Statistics", _statistics(result)),
        *([("Folds", _folds(result))] if result.by_fold is not None else []),
    ]


def _collection(result: EvalResult) -> str:
    info, plan = result.collection, result.plan
    where = (
        f", of them {len(result.candidates)} with {escape(' and '.join(plan.where))}" if plan.where else ""
    )
    return (
        f"{info['images']} images{where}; profile {escape(str(info['profile']))} "
        f"(<code>{info['profile_hash']}</code>), generation {info['generation']}"
    )


def _queries(result: EvalResult) -> str:
    plan, qrels = result.plan, result.qrels
    source = (
        "images of the collection, each against all others" if plan.queries is None else "files of the csv"
    )
    if plan.queries_where:
        source = "images of the collection" if plan.queries is None else source
        source += f" with {escape(' and '.join(plan.queries_where))}"
    sample = (
        f", a sample of {plan.sample} drawn evenly from the classes with seed {plan.seed}"
        if plan.sample
        else ""
    )
    run = len(qrels.queries) + len(qrels.without_relevant)
    left = (
        ""
        if plan.sample or run == result.query_count
        else f"; {result.query_count - run} lack the labels needed"
    )
    return f"{result.query_count} {source}{sample}{left}. <b>{len(qrels.queries)} are evaluated.</b>"


def _without_relevant(result: EvalResult) -> str:
    without = [query.name for query in result.qrels.without_relevant]
    if not without:
        return "None: every query has a relevant image in the collection."
    more = f" and {len(without) - LISTED} more, in queries.csv" if len(without) > LISTED else ""
    names = ", ".join(f"<code>{escape(name)}</code>" for name in without[:LISTED])
    return f"{len(without)} of the queries, in no average: {names}{more}."


def _relevance(result: EvalResult) -> str:
    qrels = result.qrels
    words = escape(qrels.relevance.in_words(qrels.spread))
    if not qrels.spread:
        return f"{words} Relevance level 1."
    return (
        f"{words} Measures that need a yes or no count answers with a gain of at least {qrels.level} as "
        f"relevant (relevance level {qrels.level}); nDCG uses the gains."
    )


def _unjudged(result: EvalResult) -> str:
    count = result.qrels.unjudged
    if not count:
        return "None: every image of the collection has the labels that relevance needs."
    shares = ", ".join(
        f"{escape(run.method.name)} {share:.1%}"
        for run, share in zip(result.runs, result.unjudged.tolist(), strict=True)
    )
    return f"{count} images lack the labels and count as not relevant. Among the first ten answers: {shares}."


def _patients(result: EvalResult) -> str:
    if result.plan.same_patient:
        return (
            "Images of the query's own patient are among the answers, as requested. The query itself is not."
        )
    with_patient = sum(query.patient is not None for query in result.qrels.queries)
    return (
        "Images of the query's own patient, and the query's own picture, are left out of its answers and of the "
        f"relevant images. The patient is known for {with_patient} of the {len(result.qrels.queries)} queries."
    )


def _depth(result: EvalResult) -> str:
    text = (
        f"The first {result.depth} answers to each query; relevant images after them count as not retrieved; "
        "the denominator of AP is all relevant images."
    )
    if result.shallow and any(metric.name == "ANMRR" for metric in result.plan.metrics):
        text += f" For {result.shallow} queries ANMRR needs more, and is an upper bound."
    return text


def _ties(result: EvalResult) -> str:
    shares = ", ".join(
        f"{escape(run.method.name)} {run.facts['ties'] / max(run.facts['answers'], 1):.2%}"
        for run in result.runs
    )
    return (
        "Answers with equal scores are in the order in which they were indexed. In the run files they differ in "
        f"the last digit, so that every program sees this order. Answers tied with the one before: {shares}."
    )


def _statistics(result: EvalResult) -> str:
    first = escape(result.runs[0].method.name)
    tests = (
        f" Differences are to {first}; p is of a paired randomisation test with {RESAMPLES} draws, after Holm's "
        "correction for the methods compared."
        if len(result.runs) > 1
        else ""
    )
    return (
        f"Means over queries, in brackets 95 % bootstrap intervals ({RESAMPLES} resamples of the queries, "
        f"seed {result.plan.seed}).{tests}"
    )


def _folds(result: EvalResult) -> str:
    return (
        f"{result.plan.folds} folds of the queries with seed {result.plan.seed}; those of a patient are in one fold, "
        "and classes are spread evenly. All folds search the same images."
    )


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
    subtitle = f"""{count} queries, {len(result.candidates)} images, profile
{escape(str(result.collection["profile"]))}. Not a medical device."""
    body = f"""<h2>Results</h2>{_render_results(result)}
<p class="note">Bold: the best mean of a column. ↓: lower is better. *: p below 0.05.</p>{_render_folds(result)}
<h2>Precision and recall</h2>{_curves(result)}
<h2>Classes</h2>{_classes(result)}
<h2>Protocol</h2><dl>{facts}</dl>{_notes(result)}
{examples}"""
    note = """runs/ has the run files in TREC format, qrels.txt the judgements, queries.csv
the values of single queries, summary.json all figures."""
    return render_page(f"Retrieval by {plan.relevance.text}", subtitle, body, note)


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


def _render_results(result: EvalResult) -> str:
    """Render a row for each method with means, intervals and the comparison with the first method."""
    metrics = result.plan.metrics
    heads = (f"{escape(m.name)}{' ↓' if m.lower_is_better else ''}" for m in metrics)
    rows = (
        (_name(run), *(_cell(result, number, m) for m in range(len(metrics))), run.seconds)
        for number, run in enumerate(result.runs)
    )
    return render_table(("method", *heads, "seconds"), rows)


def _render_folds(result: EvalResult) -> str:
    """Render mean and standard deviation over folds of the queries; empty without folds."""
    if result.by_fold is None:
        return ""
    heads = [escape(metric.name) for metric in result.plan.metrics]
    rows = ((escape(name), *cells) for name, *cells in fold_rows(result))
    title = f"<h3>Mean and standard deviation of {result.by_fold.shape[2]} folds</h3>"
    return title + render_table(("method", *heads), rows)


def _name(run: EvalRun) -> str:
    settings = ", ".join(f"{name} {value}" for name, value in run.facts["parameters"].items())
    return f'<span title="{escape(settings)}">{escape(run.method.name)}</span>'


def _cell(result: EvalResult, number: int, m: int) -> str:
    column = result.means[:, m]
    best = column.min() if result.plan.metrics[m].lower_is_better else column.max()
    mean, low, high = (float(values[number, m]) for values in (result.means, result.low, result.high))
    difference = result.differences[number]
    compared = ""
    if difference:
        p = float(difference.p_holm[m])
        sure = "<b>*</b>" if p < SIGNIFICANT else ""
        compared = f"<small>{float(difference.mean[m]):+z.4f}, p {escape(format_p(p))}{sure}</small>"
    kind = ' class="best"' if mean == best and len(column) > 1 else ""
    return f"<b{kind}>{mean:.4f}</b><small>[{low:.4f}, {high:.4f}]</small>{compared}"
