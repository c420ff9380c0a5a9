"""Measure the quality of every re-ranker on labelled images: the figures of bench/results/rerank_quality.md.

Queries are images of the collection, drawn evenly from the classes; images of their patient are left out. The
parameters of each re-ranker are chosen by mAP with queries of one half of the images, and all figures are of queries
of the other half; answers come from the whole collection for both.

    python bench/rerank_quality.py --data FOLDER [--queries 400] [--per-class 20] [--json FILE] [--plot FILE.svg]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from comparison import (
    CLASS_SIZES,
    RECALLS,
    Comparison,
    MethodScorer,
    compare_methods,
    lead_over_rival,
    summarise_scores,
)
from numpy.typing import NDArray
from splits import limit_classes, split_halves

from cbir import rerank, settings
from cbir.errors import CbirError, InvalidInput
from cbir.evaluation.qrels import build_qrels, leave_one_out, sample_queries
from cbir.evaluation.relevance import Candidates, Relevance, parse_relevance, select_candidates
from cbir.evaluation.report import charts
from cbir.evaluation.report.charts import standalone_svg
from cbir.evaluation.search_pool import SearchPool, open_search_pool
from cbir.rerank.reranker import POSITIVES
from cbir.store import Collection
from cbir.system.threads import cores

TOGETHER = 1000  # images written to a collection at once


def indexed(options: argparse.Namespace, folder: Path) -> Collection:
    """Return the collection of the options, or one of the images in their data folder, in `folder` if unnamed."""
    where = options.collection or folder / "collection"
    if not Collection.exists(where):
        if options.data is None:
            raise InvalidInput(f"there is no collection in {where}; --data names the images to make it of")
        manifest = options.manifest or options.data / "manifest.csv"
        command = ["index", options.data, "--labels", manifest, "--collection", where, "--jobs", options.jobs]
        arguments = [sys.executable, "-m", "cbir.api.main", *map(str, command)]
        done = subprocess.run(arguments, stdout=subprocess.DEVNULL)
        if done.returncode not in (0, 3):  # 3: some files of the folder are no images
            raise SystemExit(done.returncode)
    return Collection(where)


def judged_only(
    collection: Collection, relevance: Relevance, per_class: int | None, folder: Path, seed: int
) -> Collection:
    """Return the collection, or a copy of its labelled images.

    Parameters
    ----------
    collection : Collection
        Images.
    relevance : Relevance
        Label that images must have.
    per_class : int or None
        Largest number of images of a class.
    folder : Path
        Folder of the copy.
    seed : int
        Seed of the sample.
    """
    among = select_candidates(collection)
    selected = limit_classes(among, relevance, per_class, seed)
    if len(selected) == len(among):
        return collection
    copy = Collection.create(folder, collection.profile)
    with copy.writer() as writer:
        for start in range(0, len(selected), TOGETHER):
            records = [among.records[index] for index in selected[start : start + TOGETHER].tolist()]
            writer.add([(record, collection.vector(record.image_id)) for record in records], duplicates=True)
        writer.finish()
    return copy


def score_queries(
    among: Candidates, relevance: Relevance, half: NDArray[np.int64], count: int, pool: SearchPool, seed: int
) -> MethodScorer:
    """Return the scorer of `count` queries of one half, drawn evenly from its classes.

    Parameters
    ----------
    among : Candidates
        All images.
    relevance : Relevance
        Rule of relevance.
    half : (h,) int64
        Images of the half.
    count : int
        Number of queries.
    pool : SearchPool
        Processes that search.
    seed : int
        Seed of the sample.
    """
    queries = half[
        sample_queries([among.records[index].labels for index in half.tolist()], relevance, count, seed)
    ]
    return MethodScorer(among, build_qrels(among, leave_one_out(among, queries.tolist()), relevance), pool)


def table(methods: dict[str, dict[str, Any]]) -> str:
    """Format a row for each method; * where it differs from no re-ranking, p after Holm below 0.05."""
    heads = ["mAP", "P@1", "P@10", *(f"iP@{recall}" for recall in RECALLS)]
    lines = [f"{'':18}" + "".join(f"{head:^22}" for head in heads) + "      ms"]
    for name, facts in methods.items():
        cells = [_cell(facts, measure) for measure in facts["intervals"]]
        lines.append(f"{name:18}" + "".join(cells) + f"{facts['ms']:8.1f}")
    return "\n".join(lines)


def _cell(facts: dict[str, Any], measure: str) -> str:
    mean = facts["ip"][measure.removeprefix("ip_")] if measure.startswith("ip_") else facts[measure]
    low, high = facts["intervals"][measure]
    sure = facts.get("against_none", {}).get(measure, {}).get("p_holm", 1.0) < 0.05
    return f" {mean:.3f}{'*' if sure else ' '} ({low:.3f}-{high:.3f}) "


def describe_lead(against: dict[str, Any] | None) -> str:
    """Describe our lead over the best rival and over no re-ranking."""
    if against is None:
        return ""
    lines = []
    for key, other in (("minus_rival", against["rival"]), ("minus_none", "none")):
        parts = [
            f"{title} {100 * lead['mean']:+.2f} ({100 * lead['low']:+.2f} to {100 * lead['high']:+.2f})"
            for title, lead in (("mAP", against[key]["map"]), ("P@1", against[key]["p_at_1"]))
        ]
        lines.append(f"{against['method']} minus {other}, in points: {', '.join(parts)}")
    return "\n".join(lines) + "\n"


def plot(contest: Comparison) -> str:
    """Plot interpolated precision over P, a panel for each recall (Huang et al. 2012, figure 4).

    Re-rankers without a P are level lines.
    """
    panels = []
    for recall in RECALLS:
        series = []
        for name, trial in contest.members.items():
            by_p = contest.by_p.get(name, {})
            series.append((name, [by_p.get(P, trial).mean(f"ip_{recall}") for P in POSITIVES]))
        heights = charts.round_range([height for _, heights in series for height in heights])
        title = f"interpolated precision at recall {recall}"
        width = (0.0, float(max(POSITIVES)))
        panels.append(charts.LinePanel(series, POSITIVES, "P", title, x_range=width, y_range=heights))
    return standalone_svg(charts.line_charts(panels, "interpolated precision over P"))


def report(contest: Comparison, ours: Sequence[str]) -> dict[str, Any]:
    """Print the tables; return their content and more for JSON."""
    none = contest.members["none"]
    result: dict[str, Any] = {"methods": summarise_scores(contest.members, contest.seed)}
    print(f"\n{len(contest.sizes)} queries, parameters as chosen on the other half; 95 % intervals; "
          f"* differs from none, p < 0.05 after Holm\n{table(result['methods'])}")  # fmt: skip
    for name, method in result["methods"].items():
        print(f"{name}: {method['parameters'] or 'its defaults'}, over the {method['scope']}")
    if rerank.resolve_name("auto") in result["methods"]:
        result["methods"]["auto"] = result["methods"][rerank.resolve_name("auto")]
    result["auto"] = lead_over_rival(contest, ours[0], ours)
    print(describe_lead(result["auto"]), end="")
    result["by_p"] = {}
    for name, by_p in contest.by_p.items():
        of_p = summarise_scores({"none": none} | {str(P): trial for P, trial in by_p.items()}, contest.seed)
        result["by_p"][name] = {P: method for P, method in of_p.items() if P != "none"}
        print(f"\n{name} by P\n{table({f'P = {P}': method for P, method in result['by_p'][name].items()})}")
    result["by_class_size"] = {}
    for least, most in CLASS_SIZES:
        part = contest.within(least, most)
        if len(part.sizes):
            title = f"{least}-{most}" if most else f"more than {least - 1}"
            methods, against = (
                summarise_scores(part.members, contest.seed),
                lead_over_rival(part, ours[0], ours),
            )
            result["by_class_size"][title] = {"queries": len(part.sizes), "methods": methods, "auto": against}
            print(
                f"\nclasses of {title} images, {len(part.sizes)} queries\n{table(methods)}\n{describe_lead(against)}"
            )
    return result


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Index, measure and report."""
    unknown = set(options.methods) - set(rerank.names())
    if unknown:
        raise InvalidInput(f"there is no re-ranker {min(unknown)}; there are: {', '.join(rerank.names())}")
    started, relevance = time.perf_counter(), parse_relevance(options.relevance)
    collection = indexed(options, folder)
    judged = judged_only(collection, relevance, options.per_class, folder / "cut", options.seed)
    among = select_candidates(judged)
    first, second = split_halves(among, relevance, options.seed)

    def progress(line: str) -> None:
        print(f"{time.perf_counter() - started:6.0f} s  {line}", file=sys.stderr, flush=True)

    progress(f"{len(among)} images, {options.jobs} processes")
    with open_search_pool(judged.folder, settings.load(), options.jobs) as pool:
        tuning = score_queries(among, relevance, first, options.tuning_queries, pool, options.seed)
        reporting = score_queries(among, relevance, second, options.queries, pool, options.seed)
        contest = compare_methods(options.methods, tuning, reporting, options.seed, progress)
    result = report(contest, options.ours)
    if options.plot:
        options.plot.write_text(plot(contest), encoding="utf-8")
    return {
        "bench": "rerank_quality", "images": len(among), "descriptor": judged.profile.descriptor,
        "relevance": relevance.text, "per_class": options.per_class, "seed": options.seed,
        "tuning_queries": len(tuning.qrels.queries), "queries": len(reporting.qrels.queries),
        "cores": cores(), "seconds": time.perf_counter() - started, **result,
    }  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--data", type=Path, help="folder of the images")
    options.add_argument(
        "--manifest", type=Path, help="CSV file with path and label; default: DATA/manifest.csv"
    )
    options.add_argument(
        "--collection", type=Path, help="collection; created from the images if it does not exist"
    )
    options.add_argument("--queries", type=int, default=400, help="queries to report on")
    options.add_argument("--tuning-queries", type=int, default=200, help="queries to choose parameters with")
    options.add_argument(
        "--per-class", type=int, help="largest number of images per class, patients together"
    )
    options.add_argument("--relevance", default="label", help="as for `cbir evaluate run`")
    options.add_argument(
        "--methods", nargs="+", default=list(rerank.names()), help="re-rankers; default: all"
    )
    options.add_argument(
        "--ours",
        nargs="+",
        default=[rerank.resolve_name("auto")],
        help="methods whose lead over the best other one is reported",
    )
    options.add_argument("--jobs", type=int, default=cores())
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--json", type=Path, help="file to write the figures to")
    options.add_argument("--plot", type=Path, help="SVG file for interpolated precision over P")
    values = options.parse_args()
    if values.data is None and values.collection is None:
        options.error("--data FOLDER or --collection FOLDER is needed")
    for name in ("queries", "tuning_queries", "per_class", "jobs"):
        if (getattr(values, name) or 1) < 1 or getattr(values, name) == 0:
            options.error(f"--{name.replace('_', '-')} must be 1 at least")
    with tempfile.TemporaryDirectory() as scratch:
        try:
            result = run(values, Path(scratch))
        except CbirError as error:
            raise SystemExit(f"error: {error}") from None
    if values.json:
        values.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
