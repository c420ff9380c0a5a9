"""Kill commands of cbir at random moments (`kill -9`) and check what is left of their collections.

    python bench/kills.py --count 1000 --record kills.jsonl --results bench/results/kills.md

Index, re-index, serve, receive, compact and erase take turns. After every kill nothing that was acknowledged may be
lost, nothing stored twice, nothing that was deleted come back, and `cbir collection verify` finds no problem. With
`--record` an interrupted campaign goes on where it stopped, if seed and targets are the same.
"""

import argparse
import json
import os
import platform
import random
import shutil
import sqlite3
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from reliability.command_targets import CompactTarget, EraseTarget
from reliability.index_targets import IndexTarget, ReindexTarget
from reliability.pictures import PictureFolder
from reliability.receive_target import ReceiveTarget
from reliability.serve_target import ServeTarget
from reliability.shim import ONE_THREAD
from reliability.target import Target, run_to_end

TARGETS: dict[str, type[Target]] = {
    target.name: target
    for target in (IndexTarget, ServeTarget, CompactTarget, ReceiveTarget, EraseTarget, ReindexTarget)
}
# Those that start quickly take more turns.
TURNS = {"index": 3, "serve": 2, "compact": 4, "receive": 2, "erase": 4, "re-index": 2}
BASE_PICTURES = 24
COLUMNS = "lost", "twice", "back", "other"


def main() -> None:
    """Run the campaign; exit code 1 if a kill left a problem."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1000, help="kills in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=turns())
    parser.add_argument("--record", type=Path, help="file of JSON lines, one a kill, to continue from")
    parser.add_argument("--results", type=Path, help="Markdown file for the table")
    parser.add_argument("--keep", type=Path, help="folder for copies of collections with problems")
    options = parser.parse_args()
    os.environ.update(ONE_THREAD)  # of the commands, which are forked
    vars(sys.modules["__main__"]).pop("__file__", None)  # else each of them would import this script
    kills = read_record(options)
    with tempfile.TemporaryDirectory(dir=scratch()) as name:
        targets = make_targets(Path(name), options.targets)
        for number in range(len(kills), options.count):
            target = targets[options.targets[number % len(options.targets)]]
            kill = kill_once(target, number, options.seed)
            kills.append(kill)
            if kill["problems"]:
                print(f"kill {number} ({target.name}): {'; '.join(kill['problems'])}", file=sys.stderr)
                if options.keep:
                    shutil.copytree(target.folder, options.keep / f"kill-{number}", dirs_exist_ok=True)
                target.start_again()
            write_record(options, kills)
            print(f"\r{number + 1} of {options.count} kills", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    table = summary(kills, options.seed)
    print(table)
    if options.results:
        options.results.write_text(f"# Kills\n\n{__doc__}\n{table}\n")
    sys.exit(any(kill["problems"] for kill in kills))


def turns() -> list[str]:
    """Return the names of the targets in the order of a round."""
    rounds = max(TURNS.values())
    return [name for number in range(rounds) for name, share in TURNS.items() if number < share]


def scratch() -> str | None:
    """Return the folder for collections: in memory, since a killed process loses nothing that it has written."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def make_targets(folder: Path, names: list[str]) -> dict[str, Target]:
    """Index the collection that most targets begin with, and make the targets."""
    numbers = iter(range(1, 1 + BASE_PICTURES))
    pictures = PictureFolder(folder / "pictures", BASE_PICTURES, numbers)
    options = ["--labels", str(pictures.manifest), "--collection", str(folder / "base"), "--jobs", "1"]
    if run_to_end([["index", str(pictures.folder), *options]]) != [0]:
        raise SystemExit("the pictures cannot be indexed")
    targets = {}
    for name in dict.fromkeys(names):
        (folder / name).mkdir()
        targets[name] = TARGETS[name](folder / name, folder / "base", pictures)
    return targets


def kill_once(target: Target, number: int, seed: int) -> dict[str, Any]:
    """Kill a target; return what happened."""
    ledger, started = target.ledger, time.monotonic()
    before, interrupted = ledger.acknowledged.copy(), ledger.interrupted
    try:
        problems = target.kill_once(random.Random(f"{seed}/{number}"))
    except Exception:
        problems = [" ".join(traceback.format_exc(limit=-3).split())]
    return {
        "number": number,
        "seed": seed,
        "target": target.name,
        "acknowledged": dict(ledger.acknowledged - before),
        "interrupted": ledger.interrupted - interrupted,
        "seconds": round(time.monotonic() - started, 2),
        "problems": problems,
    }


def read_record(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the kills of an earlier run of this campaign."""
    if options.record is None or not options.record.exists():
        return []
    kills = [json.loads(line) for line in options.record.read_text().splitlines()]
    if any(
        kill["seed"] != options.seed
        or kill["target"] != options.targets[kill["number"] % len(options.targets)]
        for kill in kills
    ):
        raise SystemExit(f"{options.record} belongs to another campaign; name another file")
    return kills


def write_record(options: argparse.Namespace, kills: list[dict[str, Any]]) -> None:
    """Append the last kill to the record."""
    if options.record is not None:
        with options.record.open("a") as file:
            print(json.dumps(kills[-1]), file=file)


def summary(kills: list[dict[str, Any]], seed: int) -> str:
    """Return a Markdown table, one row a target."""
    lines = [
        "| target | kills | acknowledged | interrupted steps | lost | twice | came back | other | seconds |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    rows = [(name, [kill for kill in kills if kill["target"] == name]) for name in TARGETS]
    for name, some in [*rows, ("all", kills)]:
        if some:
            lines.append(f"| {name} | {' | '.join(cells(some))} |")
    system = f"{platform.system()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return "\n".join(lines) + f"\n\nSeed {seed}. {system}, SQLite {sqlite3.sqlite_version}."


def cells(kills: list[dict[str, Any]]) -> list[str]:
    """Return the figures of some kills."""
    acknowledged: Counter[str] = Counter()
    for kill in kills:
        acknowledged.update(kill["acknowledged"])
    problems = Counter(column_of(problem) for kill in kills for problem in kill["problems"])
    counts = ", ".join(f"{number:,} {kind}" for kind, number in sorted(acknowledged.items())) or "0"
    seconds = sum(kill["seconds"] for kill in kills) / len(kills)
    interrupted = sum(kill["interrupted"] for kill in kills)
    wrong = [str(problems[name]) for name in COLUMNS]
    return [f"{len(kills):,}", counts, f"{interrupted:,}", *wrong, f"{seconds:.1f}"]


def column_of(problem: str) -> str:
    """Return the column of the table that a problem belongs to."""
    return next((column for column in COLUMNS if f" {column}" in problem), "other")


if __name__ == "__main__":
    main()
