"""HTML report and summary of a replay, with counts of the log by the method that was in use."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import isnan
from typing import Any

import cbir
from cbir.evaluation.report.report_parts import render_page, render_table
from cbir.evaluation.result_files import SIGNIFICANT, format_p
from cbir.evaluation.significance import RESAMPLES
from service.features.usage.replay import LOWER_IS_BETTER, ReplayedMeasure, ReplayResult
from service.features.usage.replay_log import REASONS, LoggedSearch

MEANINGS = {
    "bpref": "how many of the relevant images come before images judged irrelevant (Buckley and Voorhees 2004)",
    "condensed AP": "average precision of the judged images alone, in their order (Sakai 2007)",
    "condensed nDCG": "nDCG of the judged images alone",
    "condensed RR": "one by the rank of the first relevant image among the judged ones",
    "mean rank": "mean rank of the images judged relevant, among all images",
    "IPS DCG": "DCG of the opened images by list, each weighted by one over the probability that its rank is seen",
    "IPS mean rank": "mean rank of the opened images, with the same weights",
}
CAVEAT = (
    "These figures come from what people happened to open and judge in answers of other methods. Images that were "
    "never shown cannot count in favour of a method that would find them, so methods like those in use have an "
    "advantage; the share of known answers below says how large this gap is. Clicks say what looked worth opening, "
    "not what was relevant. Take a difference as a reason for a reader study, not as a result."
)


def usage_by_method(searches: Iterable[LoggedSearch]) -> list[dict[str, Any]]:
    """Return for each method its searches, those with an opened answer, and those judged useful and not.

    The share of useful ones has a Wilson interval (95 %); people choose what they judge and with which method, so
    methods differ in their queries too: shares are no comparison.
    """
    from statsmodels.stats.proportion import proportion_confint

    groups: dict[str, list[LoggedSearch]] = {}
    for search in searches:
        groups.setdefault(search.method, []).append(search)
    rows = []
    for method, group in sorted(groups.items()):
        useful = sum(search.useful > 0 for search in group)
        judged = sum(search.useful != 0 for search in group)
        low, high = proportion_confint(useful, judged, method="wilson") if judged else (None, None)
        rows.append(
            {
                "method": method,
                "searches": len(group),
                "opened": sum(bool(search.opened) for search in group),
                "useful": useful,
                "not_useful": judged - useful,
                "useful_share": useful / judged if judged else None,
                "low": None if low is None else float(low),
                "high": None if high is None else float(high),
            }
        )
    return rows


def replay_summary(result: ReplayResult, usage: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return all figures, ready for JSON; `usage` is that of `usage_by_method`."""
    plan, bias = result.plan, result.bias
    return {
        "cbir": cbir.__version__,
        "collection": {"folder": str(plan.collection)} | result.collection,
        "searches": result.searches,
        "left_out": result.left_out,
        "queries": len(result.queries),
        "depth": plan.depth,
        "seed": plan.seed,
        "bootstrap_resamples": RESAMPLES,
        "position_bias": vars(bias) | {"clip": plan.clip},
        "usage": list(usage),
        "methods": [_of_method(result, row) for row in range(len(plan.methods))],
    }


def _of_method(result: ReplayResult, row: int) -> dict[str, Any]:
    return {
        "name": result.plan.methods[row].name,
        "judged_in_first_10": float(result.judged_share[row]),
        "shown_in_first_10": float(result.shown_share[row]),
        "measures": {measure.name: _figures(measure, row) for measure in result.measures},
    }


def _figures(measure: ReplayedMeasure, row: int) -> dict[str, Any]:
    if not measure.queries:
        return {"queries": 0, "mean": None}
    figures: dict[str, Any] = {
        "queries": len(measure.queries), "mean": float(measure.means[row]),
        "low": float(measure.low[row]), "high": float(measure.high[row]),
    }  # fmt: skip
    if difference := measure.differences[row]:
        figures |= {
            "difference": float(difference.mean[0]), "p": float(difference.p[0]),
            "p_holm": float(difference.p_holm[0]),
        }  # fmt: skip
    return figures


def query_rows(result: ReplayResult) -> list[list[Any]]:
    """Return the rows of queries.csv: method, query, measure, value."""
    return [
        [method.name, query, measure.name, f"{value:.6g}"]
        for row, method in enumerate(result.plan.methods)
        for measure in result.measures
        for query, value in zip(measure.queries, measure.values[row].tolist(), strict=True)
    ]


def render_replay(result: ReplayResult, usage: Sequence[Mapping[str, Any]]) -> str:
    """Return the HTML of the report; `usage` is that of `usage_by_method`."""
    meanings = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in MEANINGS.items())
    images = result.collection["images"]
    subtitle = f"""{len(result.queries)} queries from {result.searches} searches, {images} images, profile
{escape(str(result.collection["profile"]))}. Not a medical device."""
    body = f"""<p>{CAVEAT}</p>
<h2>Methods on the logged judgements</h2>{_table(result)}
<p class="note">Mean over the queries that have the measure, 95 % bootstrap interval, difference from the first method
with p of the randomisation test after Holm. ↓: lower is better. *: p below {SIGNIFICANT}.</p>
<h2>Methods in use</h2>{_usage_table(usage)}
<h2>Protocol</h2><dl>{_protocol(result)}{meanings}</dl>"""
    note = "queries.csv has the values of single queries, summary.json all figures."
    return render_page("Replay of logged searches", subtitle, body, note)


def _table(result: ReplayResult) -> str:
    heads = (
        f"{measure.name}{' ↓' if measure.name in LOWER_IS_BETTER else ''}"
        f"<small>{len(measure.queries)} queries</small>"
        for measure in result.measures
    )
    known = ("judged<small>of the first 10</small>", "shown<small>of the first 10</small>")
    rows = (
        (
            escape(method.name),
            *(_cell(measure, row) for measure in result.measures),
            f"{result.judged_share[row]:.0%}",
            f"{result.shown_share[row]:.0%}",
        )
        for row, method in enumerate(result.plan.methods)
    )
    return render_table(("method", *heads, *known), rows)


def _cell(measure: ReplayedMeasure, row: int) -> str:
    mean = float(measure.means[row])
    if isnan(mean):
        return "-"
    text = f"<b>{mean:.4g}</b><small>[{measure.low[row]:.4g}, {measure.high[row]:.4g}]</small>"
    if difference := measure.differences[row]:
        p = float(difference.p_holm[0])
        sure = "<b>*</b>" if p < SIGNIFICANT else ""
        text += f"<small>{float(difference.mean[0]):+.4g}, p {escape(format_p(p))}{sure}</small>"
    return text


def _usage_table(usage: Sequence[Mapping[str, Any]]) -> str:
    rows = (
        (
            escape(row["method"]), f"{row['searches']}", f"{row['opened']}",
            f"{row['useful']} of {row['useful'] + row['not_useful']}{_interval(row)}",
        )
        for row in usage
    )  # fmt: skip
    return render_table(("method", "searches", "with an opened answer", "judged useful"), rows) + (
        '<p class="note">Wilson intervals. People chose method and query themselves, so these rows are no '
        "comparison.</p>"
    )


def _interval(row: Mapping[str, Any]) -> str:
    return "" if row["low"] is None else f"<small>[{row['low']:.0%}, {row['high']:.0%}]</small>"


def _protocol(result: ReplayResult) -> str:
    left_out = "; ".join(f"{count}: {REASONS[reason]}" for reason, count in sorted(result.left_out.items()))
    facts = {
        "Queries": "each once, with the judgements of all its searches; an image judged both ways counts by "
        "majority, on a tie not at all",
        "Left out": f"{left_out or 'no search'}; searches with filters, groups or judgements count for their "
        "judgements only",
        "Position bias": describe_bias(result),
        "Depth": f"{result.plan.depth} answers",
    }
    return "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in facts.items())


def describe_bias(result: ReplayResult) -> str:
    """Say how the propensities of ranks were found."""
    bias = result.bias
    shape = (
        f"rank r is seen r^-{bias.eta:.2f} times as often as rank 1; weights are at most {result.plan.clip:g}"
    )
    if bias.origin == "estimated":
        return (
            f"{shape}; estimated from {bias.clicks} clicks, 95 % interval {bias.low:.2f} to {bias.high:.2f}"
        )
    if bias.origin == "stated":
        return f"{shape}; stated"
    return (
        f"{shape}; assumed, since {bias.clicks} clicks on images that were shown at several ranks do not determine "
        "it; try other values with --eta"
    )
