"""HTML report of a reader study."""

from collections.abc import Mapping
from html import escape, unescape
from typing import Any

from cbir.evaluation.report.charts import bar_chart
from cbir.evaluation.report.report_parts import render_page, render_table
from cbir.evaluation.result_files import format_p

Facts = Mapping[str, Any]


def render_reader_report(results: Facts) -> str:
    """Return the HTML of the `results` of a study."""
    study = results["study"]
    subtitle = f"""A is {escape(results["a"])}, B is {escape(results["b"])}; the first {study["k"]} answers of the
collection {escape(study["collection"])}. {results["answers"]} answers of {len(results["by_reader"])} readers to
{results["items"]} queries, for {results["same_answers"]} of which both methods gave the same list. Not a medical
device."""
    body = f"""<h2>Preference</h2>{_chart(results)}{render_table((), _preference_rows(results))}
<h2>Usefulness, from 1 to 5</h2>{render_table((), _usefulness_rows(results))}
<h2>Agreement of the readers</h2>{render_table((), _agreement_rows(results["agreement"]))}
<h2>Readers</h2>{_readers(results)}
<h2>Protocol</h2>
<ul><li>Readers did not know which method was on which side; side and order were random for each reader, with seed
{study["seed"]}, and each method was at the left half of the time.</li>
<li>Intervals are 95 %. Those of means draw readers and queries at random (pigeonhole bootstrap, Owen 2007), which is
conservative; with few readers they say little about other readers.</li>
<li>p of means: randomisation test over the queries. Sign test: queries that most readers decided, without ties, and
the share of B among them with its Wilson interval.</li>
<li>Agreement: Krippendorff's alpha (2011), ordinal for preference and usefulness, nominal for relevance; 1 is
perfect, 0 that of chance; intervals by drawing queries.</li></ul>"""
    return render_page(f"Reader study {study['name']}", subtitle, body, "")


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
    heads = ("reader", "answers", "for A, equal, B", "usefulness A", "usefulness B", "seconds (median)")
    rows = (
        (
            row["reader"], str(row["answers"]), f"{row['a']}, {row['equal']}, {row['b']}",
            f"{row['useful_a']:.2f}", f"{row['useful_b']:.2f}", f"{row['seconds']:.0f}",
        )
        for row in results["by_reader"]
    )  # fmt: skip
    return render_table(heads, rows)


def _mean(facts: Facts) -> str:
    return f"{_number(facts['mean'])}{_interval(facts)}{_p(facts)}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _interval(facts: Facts) -> str:
    return "" if facts["low"] is None else f" [{facts['low']:.2f}, {facts['high']:.2f}]"


def _p(facts: Facts) -> str:
    return "" if facts["p"] is None else f", p {escape(format_p(facts['p']))}"
