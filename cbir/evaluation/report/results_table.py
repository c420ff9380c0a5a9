"""The table of results."""

from html import escape

from cbir.evaluation.experiment import EvalResult

SIGNIFICANT = 0.05


def render_results(evaluation: EvalResult) -> str:
    """A row a method, a column a measure: mean, interval, and the comparison with the first method."""
    measures = evaluation.plan.measures
    heads = "".join(f"<th>{escape(m.name)}{' ↓' if m.lower_is_better else ''}</th>" for m in measures)
    rows = "".join(_row(evaluation, number) for number in range(len(evaluation.runs)))
    seconds = "<th>seconds</th>"
    return (
        f'<div class="wide"><table><thead><tr><th>method</th>{heads}{seconds}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _row(evaluation: EvalResult, number: int) -> str:
    run = evaluation.runs[number]
    cells = "".join(_cell(evaluation, number, m) for m in range(len(evaluation.plan.measures)))
    settings = ", ".join(f"{name} {value}" for name, value in run.facts["parameters"].items())
    seconds = f"<td>{run.facts['seconds']:.1f}</td>"
    return f'<tr><th title="{escape(settings)}">{escape(run.method.name)}</th>{cells}{seconds}</tr>'


def _cell(evaluation: EvalResult, number: int, m: int) -> str:
    column = evaluation.means[:, m]
    best = column.min() if evaluation.plan.measures[m].lower_is_better else column.max()
    mean, low, high = (float(of[number, m]) for of in (evaluation.means, evaluation.low, evaluation.high))
    against = evaluation.against[number]
    compared = ""
    if against:
        p = float(against.corrected[m])
        sure = "<b>*</b>" if p < SIGNIFICANT else ""
        compared = f"<small>{float(against.difference[m]):+.4f}, p {in_words(p)}{sure}</small>"
    kind = ' class="best"' if mean == best and len(column) > 1 else ""
    return f"<td{kind}><b>{mean:.4f}</b><small>[{low:.4f}, {high:.4f}]</small>{compared}</td>"


def in_words(p: float) -> str:
    """A p value as papers print it."""
    return "&lt; 0.001" if p < 0.001 else f"= {p:.3f}"
