"""HTML report of a reader study."""

from collections.abc import Mapping
from html import escape, unescape
from typing import Any

import cbir
from cbir.evaluation.report.charts import bar_chart, style_sheet
from cbir.evaluation.result_files import format_p

Facts = Mapping[str, Any]


def render_reader_report(results: Facts) -> str:
    """Return the HTML of the `results` of a study."""
    study = results["study"]
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Reader study {escape(study["name"])}</title><style>{style_sheet()}</style></head><body>
<h1>Reader study {escape(study["name"])}</h1>
<p class="sub">A is {escape(results["a"])}, B is {escape(results["b"])}; the first {study["k"]} answers of the
collection {escape(study["collection"])}. {results["answers"]} answers of {len(results["by_reader"])} readers to
{results["items"]} queries, for {results["same_answers"]} of which both methods gave the same list. Not a medical
device.</p>
<h2>Preference</h2>{_chart(results)}{_table(_preference_rows(results))}
<h2>Usefulness, from 1 to 5</h2>{_table(_usefulness_rows(results))}
<h2>Agreement of the readers</h2>{_table(_agreement_rows(results["agreement"]))}
<h2>Readers</h2>{_readers(results)}
<h2>Protocol</h2>
<ul><li>Readers did not know which method was on which side; side and order were random for each reader, with seed
{study["seed"]}, and each method was at the left half of the time.</li>
<li>Intervals are 95 %. Those of means draw readers and queries at random (pigeonhole bootstrap, Owen 2007), which is
conservative; with few readers they say little about other readers.</li>
<li>p of means: randomisation test over the queries. Sign test: queries that most readers decided, without ties, and
the share of B among them with its Wilson interval.</li>
<li>Agreement: Krippendorff's alpha (2011), ordinal for preference and usefulness, nominal for relevance; 1 is
perfect, 0 that of chance; intervals by drawing queries.</li></ul>
<p class="note">cbir {cbir.__version__}.</p>
</body></html>
"""


def result_lines(results: Facts) -> list[str]:
    """Return the `results` of a study as lines of text."""
    parts = {
        "preference": _preference_rows(results),
        "usefulness, from 1 to 5": _usefulness_rows(results),
        "agreement": _agreement_rows(results["agreement"]),
    }
    lines = [
        f"A is {results['a']}, B is {results['b']}; {results['answers']} answers to {results['items']} queries"
    ]
    for title, rows in parts.items():
        lines += [title, *(f"  {name}: {unescape(text)}" for name, text in rows)]
    return lines


def _chart(results: Facts) -> str:
    rows = [("all readers", results["preference"], results["answers"])]
    rows += [(f"reader {row['reader']}", row, row["answers"]) for row in results["by_reader"]]
    bars = [
        (name, str(count), [counts[key] / max(count, 1) for key in ("a", "equal", "b")])
        for name, counts, count in rows
    ]
    return bar_chart(bars, ["prefers A", "equal", "prefers B"], "preference by reader")


def _preference_rows(results: Facts) -> list[tuple[str, str]]:
    preference, side = results["preference"], results["side"]
    by_query = preference["by_query"]
    return [
        ("answers for A, equal, B", f"{preference['a']}, {preference['equal']}, {preference['b']}"),
        ("net preference for B, from -1 to 1", _mean(preference["net"])),
        ("queries for A, equal, B", f"{by_query['a']}, {by_query['equal']}, {by_query['b']}{_p(by_query)}"),
        ("share of B among queries without ties", f"{_number(by_query['share_b'])}{_interval(by_query)}"),
        ("answers for the left and the right list", f"{side['left']}, {side['right']}{_p(side)}"),
    ]


def _usefulness_rows(results: Facts) -> list[tuple[str, str]]:
    usefulness, relevant = results["usefulness"], results["relevant"]
    rows = [
        ("A", _number(usefulness["a"])),
        ("B", _number(usefulness["b"])),
        ("difference, B less A", _mean(usefulness["difference"])),
    ]
    if relevant["judged_a"] or relevant["judged_b"]:
        shares = ", ".join(
            f"{_number(relevant[side])} of {relevant[f'judged_{side}']}" for side in ("a", "b")
        )
        rows.append(("relevant images of A, of B", shares))
    return rows


def _agreement_rows(agreement: Facts) -> list[tuple[str, str]]:
    rows = [
        (f"alpha of {name}", f"{_number(agreement[name]['alpha'])}{_interval(agreement[name])}")
        for name in ("preference", "usefulness", "relevance")
        if agreement[name]["alpha"] is not None
    ]
    for pair in agreement["pairs"]:
        facts = f"{_number(pair['kappa'])}, same preference {_number(pair['equal'])} of {pair['items']}"
        rows.append((f"Cohen's kappa of readers {pair['one']} and {pair['other']}", facts))
    return rows or [("none", "no two readers have answered the same query")]


def _readers(results: Facts) -> str:
    heads = "".join(
        f"<th>{head}</th>"
        for head in (
            "reader",
            "answers",
            "for A, equal, B",
            "usefulness A",
            "usefulness B",
            "seconds (median)",
        )
    )
    rows = "".join(
        f"<tr><th>{row['reader']}</th><td>{row['answers']}</td><td>{row['a']}, {row['equal']}, {row['b']}</td>"
        f"<td>{row['useful_a']:.2f}</td><td>{row['useful_b']:.2f}</td><td>{row['seconds']:.0f}</td></tr>"
        for row in results["by_reader"]
    )
    return f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'


def _table(rows: list[tuple[str, str]]) -> str:
    cells = "".join(f"<tr><th>{name}</th><td>{text}</td></tr>" for name, text in rows)
    return f'<div class="wide"><table><tbody>{cells}</tbody></table></div>'


def _mean(facts: Facts) -> str:
    return f"{_number(facts['mean'])}{_interval(facts)}{_p(facts)}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _interval(facts: Facts) -> str:
    return "" if facts["low"] is None else f" [{facts['low']:.2f}, {facts['high']:.2f}]"


def _p(facts: Facts) -> str:
    return "" if facts["p"] is None else f", p {escape(format_p(facts['p']))}"
