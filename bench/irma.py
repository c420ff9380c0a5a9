"""Score a made-up IRMA release with each re-ranker, from its zip, by `cbir irma evaluate`.

The release has the layout of 2007 or 2009, the 193 codes of 2009 and a share of their images; the pictures are
phantoms, eight codes sharing a region in eight orientations, and the code tree is made up. So the scores show that
everything from the zip to the score works, and compare the methods; they do not compare with published ones.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from cbir.evaluation.datasets.irma.phantom_release import write_phantom_release
from tests.cbir.evaluation.datasets.irma_reference import reference_classes


def evaluate(release: Path, tree: Path, out: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run the command, and return its results."""
    command = [sys.executable, "-m", "cbir.api.main", "irma", "evaluate", str(release), "--tree", str(tree)]
    command += [
        "--out",
        str(out),
        "--profile",
        options.profile,
        "--rerank",
        options.rerank,
        "--format",
        "json",
    ]
    command += ["--sample", str(options.sample)]
    if options.jobs:
        command += ["--jobs", str(options.jobs)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def print_table(year: str, facts: dict[str, Any], seconds: float) -> None:
    print(
        f"\nIRMA {year}: {facts['train']} training and {facts['test']} test images, rule of {facts['rule']}, "
        f"{seconds:.0f} s from zip to scores\n"
    )
    print("| method | error | per image | expected per image | neighbours |\n| --- | --- | --- | --- | --- |")
    for result in facts["results"]:
        score = result["measured"]
        print(
            f"| {result['method']} | {score['error']:.2f} | {score['normalised']:.4f} "
            f"| {result['estimated_normalised']:.4f} | {result['neighbours']} |"
        )
    for name, error in facts["results"][0]["measured"]["baselines"].items():
        print(f"| {name.replace('_', ' ')} | {error:.2f} | {error / facts['test']:.4f} | | |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--years", nargs="+", default=["2007", "2009"])
    parser.add_argument(
        "--share", type=float, default=0.1, help="of the images of each class; 1: as published"
    )
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--distinct", type=int, default=20, help="phantoms drawn of each region")
    parser.add_argument("--profile", default="huang2012")
    parser.add_argument("--rerank", default="all")
    parser.add_argument("--sample", type=int, default=1000, help="training images that the vote is chosen on")
    parser.add_argument("--jobs", type=int)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for year in options.years:
            release = Path(name) / f"{year}.zip"
            classes = reference_classes(options.share)
            tree = write_phantom_release(release, year, classes, size=options.size, distinct=options.distinct)
            started = time.perf_counter()
            facts = evaluate(release, tree, Path(name) / year, options)
            seconds = time.perf_counter() - started
            print_table(year, facts, seconds)
            row = {"year": year, "share": options.share, "profile": options.profile, "seconds": seconds}
            print(json.dumps({"bench": "irma", **row, "results": facts["results"]}))


if __name__ == "__main__":
    main()
