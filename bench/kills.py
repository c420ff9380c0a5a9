"""Kill commands of cbir at random moments (`kill -9`) and check what is left of their collections.

    python bench/kills.py --count 1000 --record kills.jsonl --results bench/results/kills.md

    python bench/kills.py --count 100 --targets postgresql

Index, re-index, serve, receive, compact and erase take turns; `postgresql` has a collection in PostgreSQL with two
services and a command at once, and kills the server too. `pgvector` and `milvus` add a vector index, two workers with
jobs, and erasures; there, one part is killed at a time, Milvus too, and the others go on. After every kill nothing
that was acknowledged may be lost, nothing stored twice, nothing that was deleted come back, in no answer and in no
index, and `cbir collection verify` finds no problem. With `--record` an interrupted campaign goes on where it
stopped, if seed and targets are the same. A kill counts if the command was at work: with the collection open, or, of
a service and a receiver, after its first answer.
"""

import argparse
import json
import os
import platform
import random
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from reliability.cluster_target import MilvusTarget, PgvectorTarget
from reliability.command_targets import CompactTarget, EraseTarget
from reliability.index_targets import IndexTarget, ReindexTarget
from reliability.pictures import PictureFolder
from reliability.postgresql_target import PostgresqlTarget
from reliability.receive_target import ReceiveTarget
from reliability.serve_target import ServeTarget
from reliability.shim import ONE_THREAD
from reliability.target import Target, run_to_end

TARGETS: dict[str, type[Target]] = {
    target.name: target
    for target in (
        IndexTarget,
        ServeTarget,
        CompactTarget,
        ReceiveTarget,
        EraseTarget,
        ReindexTarget,
        PostgresqlTarget,
        PgvectorTarget,
        MilvusTarget,
    )
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
    parser.add_argument("--count", type=int, default=1000, help="kills of processes at work")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=turns())
    parser.add_argument("--record", type=Path, help="file of JSON lines, one a round, to continue from")
    parser.add_argument("--results", type=Path, help="Markdown file for the table")
    parser.add_argument("--keep", type=Path, help="folder for copies of collections with problems")
    options = parser.parse_args()
    os.environ.update(ONE_THREAD)  # of the commands, which are forked
    vars(sys.modules["__main__"]).pop("__file__", None)  # else each of them would import this script
    rounds = read_record(options)
    with tempfile.TemporaryDirectory(dir=scratch()) as name:
        targets = make_targets(Path(name), options.targets)
        try:
            run_rounds(targets, rounds, options)
        finally:
            for target in targets.values():
                target.close()
    print(file=sys.stderr)
    table = summary(rounds, options.seed)
    print(table)
    if options.results:
        options.results.write_text(f"# Kills\n\n{__doc__}\n{table}\n")
    sys.exit(any(each["problems"] for each in rounds))


def run_rounds(targets: dict[str, Target], rounds: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Kill until there are enough kills; add what happened to `rounds` and to the record."""
    while (killed := sum(each["killed"] for each in rounds)) < options.count:
        print(f"\r{killed} of {options.count} kills", end="", file=sys.stderr, flush=True)
        number = len(rounds)
        target = targets[options.targets[number % len(options.targets)]]
        result = kill_once(target, number, options.seed)
        rounds.append(result)
        if result["problems"]:
            print(f"round {number} ({target.name}): {'; '.join(result['problems'])}", file=sys.stderr)
            if options.keep:
                shutil.copytree(target.folder, options.keep / f"round-{number}", dirs_exist_ok=True)
            target.start_again()
        write_record(options, rounds)


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
    options += ["--profile", "huang2012"]  # starts soonest
    if run_to_end([["index", str(pictures.folder), *options]]) != [0]:
        raise SystemExit("the pictures cannot be indexed")
    targets = {}
    for name in dict.fromkeys(names):
        (folder / name).mkdir()
        targets[name] = TARGETS[name](folder / name, folder / "base", pictures)
    return targets


def kill_once(target: Target, number: int, seed: int) -> dict[str, Any]:
    """Have a target work and be killed; return what happened."""
    target.killed = False
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
        "killed": target.killed,
        "acknowledged": dict(ledger.acknowledged - before),
        "interrupted": ledger.interrupted - interrupted,
        "seconds": round(time.monotonic() - started, 2),
        "problems": problems,
        "figures": target.figures,
    }


def read_record(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the rounds of an earlier run of this campaign."""
    if options.record is None or not options.record.exists():
        return []
    rounds: list[dict[str, Any]] = [json.loads(line) for line in options.record.read_text().splitlines()]
    if any(
        each["seed"] != options.seed
        or each["target"] != options.targets[each["number"] % len(options.targets)]
        or "killed" not in each
        for each in rounds
    ):
        raise SystemExit(f"{options.record} belongs to another campaign; name another file")
    return rounds


def write_record(options: argparse.Namespace, rounds: list[dict[str, Any]]) -> None:
    """Append the last round to the record."""
    if options.record is not None:
        with options.record.open("a") as file:
            print(json.dumps(rounds[-1]), file=file)


def summary(rounds: list[dict[str, Any]], seed: int) -> str:
    """Return a Markdown table, one row a target."""
    lines = [
        "| target | rounds | kills | acknowledged | interrupted steps | lost | twice | came back | other | seconds |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    rows = [(name, [each for each in rounds if each["target"] == name]) for name in TARGETS]
    for name, some in [*rows, ("all", rounds)]:
        if some:
            lines.append(f"| {name} | {' | '.join(cells(some))} |")
    system = f"{platform.system()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return "\n".join(lines) + f"\n{followed(rounds)}\nSeed {seed}. {system}, SQLite {sqlite3.sqlite_version}."


def followed(rounds: list[dict[str, Any]]) -> str:
    """Return a sentence about indexes and jobs, if a target has them."""
    figures = [each["figures"] for each in rounds if each.get("figures")]
    if not figures:
        return ""
    seconds = [each["followed_seconds"] for each in figures]
    lost = sum(each["attempts"] > 1 for each in figures)
    return (
        f"\nThe index held what the collection holds, and nothing else, {statistics.median(seconds):.1f} s (median) "
        f"and {max(seconds):.1f} s (longest) after the check began. {lost} of {len(figures)} jobs lost a worker and "
        "were ended by another.\n"
    )


def cells(rounds: list[dict[str, Any]]) -> list[str]:
    """Return the figures of some rounds."""
    acknowledged: Counter[str] = Counter()
    for each in rounds:
        acknowledged.update(each["acknowledged"])
    problems = Counter(column_of(problem) for each in rounds for problem in each["problems"])
    counts = ", ".join(f"{number:,} {kind}" for kind, number in sorted(acknowledged.items())) or "0"
    seconds = sum(each["seconds"] for each in rounds) / len(rounds)
    interrupted = sum(each["interrupted"] for each in rounds)
    killed = sum(each["killed"] for each in rounds)
    wrong = [str(problems[name]) for name in COLUMNS]
    return [f"{len(rounds):,}", f"{killed:,}", counts, f"{interrupted:,}", *wrong, f"{seconds:.1f}"]


def column_of(problem: str) -> str:
    """Return the column of the table that a problem belongs to."""
    return next((column for column in COLUMNS if f" {column}" in problem), "other")


if __name__ == "__main__":
    main()
