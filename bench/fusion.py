"""Measure what fusion of runs gains: of two descriptors, and of an order and its re-ranking.

Every N-th image of DATA/composite/manifest.csv is indexed with each profile; a sample of the images queries the
others, without those of its patient. Fused runs are compared with the first run in the same table.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

METHODS = {"rrf": ["--method", "rrf"], "min-max": ["--method", "weighted"]}
METHODS["z-score"] = [*METHODS["min-max"], "--scale", "z-score"]
METHODS["z-score 4:1"] = [*METHODS["z-score"], "--weights", "4,1"]


def cbir(*arguments: object) -> None:
    subprocess.run(
        [sys.executable, "-m", "cbir.api.main", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL
    )


def write_part(data: Path, every: int, out: Path) -> None:
    """Write every N-th row of the manifest, with absolute paths."""
    folder = data / "composite"
    with (folder / "manifest.csv").open(newline="") as file, out.open("w", newline="") as part:
        rows = csv.DictReader(file)
        table = csv.DictWriter(part, rows.fieldnames or [])
        table.writeheader()
        for number, row in enumerate(rows):
            if number % every == 0:
                table.writerow(row | {"path": os.path.abspath(folder / row["path"])})


def search(collection: Path, out: Path, options: argparse.Namespace, *more: object) -> dict[str, Any]:
    """Run an evaluation, and return its summary."""
    cbir(
        "evaluate", "run", "--collection", collection, "--out", out, "--rerank", f"none {options.rerank}",
        "--measures", options.measures, "--sample", options.queries, "--no-pictures", *more,
    )  # fmt: skip
    summary: dict[str, Any] = json.loads((out / "summary.json").read_text())
    return summary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--every", type=int, default=6)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--profiles", nargs=2, default=["lite0-max", "huang2012"])
    parser.add_argument("--rerank", default="diffusion")
    parser.add_argument("--measures", default="AP P@1 P@10 nDCG@10")
    parser.add_argument("--work", type=Path, help="folder to keep; an interrupted run continues there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work = options.work or Path(name)
        work.mkdir(exist_ok=True)
        part = work / "part.csv"
        write_part(options.data, options.every, part)
        paths = [row["path"] for row in csv.DictReader(part.open(newline=""))]
        runs: dict[str, Path] = {}
        for profile in options.profiles:
            collection, out = work / profile, work / f"{profile}-results"
            cbir(
                "index",
                *paths,
                "--collection",
                collection,
                "--labels",
                part,
                "--profile",
                profile,
                "--duplicates",
            )
            search(collection, out, options)
            for method in ("none", options.rerank):
                runs[f"{profile} {method}"] = out / "runs" / f"{method}.run"
        first, second = options.profiles
        pairs = [
            (f"{first} none", f"{second} none"),
            (f"{first} none", f"{first} {options.rerank}"),
            (f"{first} {options.rerank}", f"{second} {options.rerank}"),
        ]
        files = []
        for profile_method in (f"{second} none", f"{second} {options.rerank}"):
            files.append(work / f"{profile_method.replace(' ', '-')}.run")
            files[-1].write_bytes(runs[profile_method].read_bytes())
        for pair in pairs:
            for fusion, arguments in METHODS.items():
                files.append(work / f"{fusion.replace(' ', '-')}({'+'.join(pair).replace(' ', '-')}).run")
                cbir("evaluate", "fuse", *(runs[name] for name in pair), "--out", files[-1], *arguments)
        given = [argument for file in files for argument in ("--run", file)]
        summary = search(work / first, work / "fused", options, *given)
    print_table(summary, options)


def print_table(summary: dict[str, Any], options: argparse.Namespace) -> None:
    names = list(summary["runs"][0]["measures"])
    print(f"{summary['collection']['images']} images, {summary['queries']['evaluated']} queries; first two: "
          f"{options.profiles[0]}; *: p < 0.05 after Holm, to the first\n")  # fmt: skip
    print(f"| run | {' | '.join(names)} |\n|{' --- |' * (len(names) + 1)}")
    for run in summary["runs"]:
        cells = [
            f"{value['mean']:.4f}{'*' if value.get('p_holm', 1) < 0.05 else ''}"
            for value in run["measures"].values()
        ]
        print(f"| {run['name']} | {' | '.join(cells)} |")
    means = {run["name"]: {k: v["mean"] for k, v in run["measures"].items()} for run in summary["runs"]}
    print(json.dumps({"bench": "fusion", "images": summary["collection"]["images"], "results": means}))


if __name__ == "__main__":
    main()
