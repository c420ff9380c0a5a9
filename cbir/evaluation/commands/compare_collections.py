"""`cbir collection compare`."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from cbir import settings
from cbir.store.collection_address import address_or_folder, collection_folder
from cbir.system.console import OutputFormat, Printed, StageBars, echo, print_json, results_console

if TYPE_CHECKING:
    from cbir.evaluation.collection_comparison import Comparison
    from cbir.store import Collection

QUARTILES = {"min": 0.0, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "max": 1.0}


def compare_collections(
    a: Annotated[
        Path,
        Argument(parser=collection_folder, metavar="A", help="Folder or address of a collection."),
    ],
    b: Annotated[
        Path,
        Argument(
            parser=collection_folder,
            metavar="B",
            help="Folder or address of a collection of the same images with another profile.",
        ),
    ],
    queries: Annotated[int, Option(min=1, help="Number of query images.")] = 50,
    seed: Annotated[int, Option(help="Random seed of their choice.")] = 0,
    k: Annotated[int, Option("-k", "--k", min=1, help="Number of answers to compare.")] = 10,
    rerank: Annotated[str, Option(help="Re-ranker of both: none, auto, ...")] = "none",
    label: Annotated[
        list[str] | None,
        Option(help="Label that relevant images share. Repeatable. [default: the most frequent]"),
    ] = None,
    report: Annotated[
        Path | None, Option(help="Write an HTML report with pictures of the queries that differ most.")
    ] = None,
    format: Printed = OutputFormat.text,
) -> None:
    """Search in two collections with the same images, and compare answers, quality and time.

    Images of the query's own patient are left out, and those that only one of the collections has. Where images have
    labels, P@k and mAP are compared by a paired randomisation test.
    """
    from cbir.evaluation import collection_comparison
    from cbir.evaluation.report.comparison_report import write_comparison_report
    from cbir.store import Collection

    loaded = settings.load()
    with Collection(a) as first, Collection(b) as second, StageBars() as bars:
        comparison = collection_comparison.compare_collections(
            first,
            second,
            loaded,
            queries=queries,
            seed=seed,
            k=k,
            rerank=rerank,
            label_keys=label or (),
            progress=lambda done, total: bars.show("queries", done, total),
        )
        facts = _facts(comparison, first, second) | {"k": k, "seed": seed, "rerank": rerank}
        if report:
            write_comparison_report(report, comparison, first, facts, loaded.max_pixels)
    if format is OutputFormat.json:
        print_json(facts)
    else:
        _print_comparison(facts)


def _facts(comparison: "Comparison", first: "Collection", second: "Collection") -> dict[str, Any]:
    import numpy as np

    sides = {
        name: {
            "folder": address_or_folder(collection.folder),
            "profile": collection.profile.name,
            "images": comparison.images[side],
            "milliseconds": comparison.milliseconds[side],
        }
        for side, (name, collection) in enumerate((("a", first), ("b", second)))
    }
    quartiles = np.quantile(comparison.overlaps, list(QUARTILES.values())).tolist()
    return {
        **sides,
        "images_in_both": comparison.in_both,
        "queries": len(comparison.queries),
        "skipped": comparison.skipped,
        "overlap": {
            "mean": float(comparison.overlaps.mean()),
            **dict(zip(QUARTILES, quartiles, strict=True)),
        },
        "rank_correlation": comparison.correlation,
        "labels": [dataclasses.asdict(label) for label in comparison.labels],
        "most_different": [dataclasses.asdict(query) for query in comparison.most_different()],
    }


def _print_comparison(facts: dict[str, Any]) -> None:
    from rich.table import Table

    for side in ("a", "b"):
        values = facts[side]
        echo(
            f"{side}  {values['folder']}: {values['profile']}, {values['images']} images, "
            f"{values['milliseconds']:.1f} ms a query"
        )
    k, correlation = facts["k"], facts["rank_correlation"]
    echo(
        f"{facts['queries']} queries among {facts['images_in_both']} images that both have, rerank {facts['rerank']}"
    )
    if facts["skipped"]:
        echo(f"{facts['skipped']} queries were skipped: their images were deleted meanwhile")
    overlap = ", ".join(f"{name} {value:.2f}" for name, value in facts["overlap"].items())
    echo(f"overlap of the first {k}: {overlap}")
    echo(
        f"rank correlation of the shared: {'-' if correlation is None else f'{correlation:.2f}'} (Kendall's tau)"
    )
    console = results_console()
    if facts["labels"]:
        table = Table("label", "queries", "metric", "a", "b", "b - a (95 %)", "p")
        for label in facts["labels"]:
            for metric in label["metrics"]:
                interval = (
                    f"{metric['b'] - metric['a']:+z.3f} ({metric['low']:+z.3f} to {metric['high']:+z.3f})"
                )
                values = f"{metric['a']:.3f}", f"{metric['b']:.3f}", interval, f"{metric['p']:.4f}"
                table.add_row(label["label"], str(label["queries"]), metric["name"], *values)
        console.print(table)
    table = Table("query", "overlap", "first of a", "first of b", title="queries that differ most")
    for query in facts["most_different"]:
        first = [(query[side] or ["-"])[0] for side in ("a", "b")]
        table.add_row(query["image_id"], f"{query['overlap']:.2f}", *first)
    console.print(table)
