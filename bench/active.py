"""Compare strategies of learning from comparisons (Kadota et al.), and time the estimate of uncertainty.

`table`: the paper's Table 1 with answers from known grades. Five folds by patient; in each, all strategies but
`new-images` start with the same pairs, then select more in rounds. `baseline` selects as many pairs as the others end
with, at once; `all data` as many pairs as there are images; `random` is "w/o UBS" in the paper, `variance` that
of the paper. With --calibrate, Tables 2 and 3: grades are learned too; `conventional` is a classifier that learns the
grades of all images.
`speed`: mean and variance of T = 30 passes over 10,000 images, compared with T calls with one pass each.

    python bench/active.py table --data FOLDER --source knee [--folds 1] [--quick] [--out OUT]
    python bench/active.py speed [--encoder lite0-max] [--threads 2] [--device cuda]

FOLDER has a manifest.csv with path, grade, patient and source. The paper's sizes: --rounds 6 --step 0.05
--backbone densenet169 --side 224 --rate 1e-5 --device cuda --weights FILE. Results of a method and fold in OUT are
not computed again.
"""

import argparse
import csv
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from active_tables import ALL, CONVENTIONAL, Row, classify, show
from numpy.typing import NDArray

from cbir.descriptors import encoders
from cbir.evaluation.significance import group_folds
from cbir.learn.severity.sampled_ranker import SampledRanker
from cbir.learn.severity.severity_rankers import new_ranker
from cbir.learn.training.picture_loading import load_features, load_pictures
from service.features.annotate.active import strategies
from service.features.annotate.active.pair_selection import starting_pairs
from service.features.annotate.active.severity_grades import compare_grades, cost, relative_accuracy
from service.features.annotate.active.simulation import SimulationPlan, simulate

FOLDS = 5
START = 0.2
BASELINE = "baseline"
IMAGES = 10_000
Data = tuple[NDArray[Any], NDArray[np.float64], NDArray[np.int64]]


def plan_of(method: str, rounds: int, step: float, calibrate: bool, seed: int) -> SimulationPlan:
    """Baselines ask once; strategies in rounds."""
    if method == BASELINE:
        return SimulationPlan("random", 0, START + step * rounds, step, calibrate=calibrate, seed=seed)
    if method == ALL:
        return SimulationPlan("random", 0, 1.0, step, calibrate=calibrate, seed=seed)
    return SimulationPlan(method, rounds, START, step, calibrate=calibrate, seed=seed)


def graded(folder: Path, source: str | None, side: int, encoder: str | None) -> Data:
    """Pictures (n, side, side) or values (n, d) of an encoder, grades (n,) and numbers of patients (n,)."""
    with (folder / "manifest.csv").open(newline="") as file:
        lines = [
            line for line in csv.DictReader(file) if line["grade"] and source in (None, line.get("source"))
        ]
    paths = [folder / line["path"] for line in lines]
    read = load_features(paths, encoders.get(encoder)) if encoder else load_pictures(paths, side)
    lines = [lines[row] for row in read.rows]
    patients = np.unique([line["patient"] or line["path"] for line in lines], return_inverse=True)[1]
    images = read.pixels.astype(np.float32) if encoder else read.pixels
    return images, np.array([float(line["grade"]) for line in lines]), patients


def one(
    chosen: argparse.Namespace,
    method: str,
    fold: int,
    seed: int,
    data: Data,
    make: Callable[[int], SampledRanker],
    settings: dict[str, Any],
) -> Row:
    """Return what a method reaches in a fold: its rounds, and its scores of the images to test on."""
    name = (
        f"{fold}{f'-{seed}' * bool(seed)}-{method.replace(' ', '-')}{'-calibrated' * chosen.calibrate}.json"
    )
    kept = chosen.out / name if chosen.out else None
    if kept and kept.exists():
        return dict(json.loads(kept.read_text()))
    started, test = time.process_time(), split(data, fold)[1]
    if method == CONVENTIONAL:
        row = conventional(data, fold, make(0))
    else:
        plan = plan_of(method, chosen.rounds, chosen.step, chosen.calibrate, number_of(fold, seed))
        row = simulated(plan, data, fold, make)
    row |= {"cpu": time.process_time() - started, "fold": fold}
    row |= {"grades": data[1][test].tolist(), "settings": settings}
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(row))
    return row


def simulated(plan: SimulationPlan, data: Data, fold: int, make: Callable[[int], SampledRanker]) -> Row:
    """Return the rounds of a strategy, and its scores of the test images."""
    train, test = split(data, fold)
    begin = starting_pairs(plan.strategy, len(train), plan.start, np.random.default_rng(plan.seed))
    found = simulate(data[0], data[1], train, test, plan, make, begin)
    return {**found.as_dict(), "scores": found.rounds[-1].scores.tolist()}


def conventional(data: Data, fold: int, ranker: SampledRanker) -> Row:
    """Return the grades of a classifier that learned the grades of all images, and the order they give."""
    (images, grades, _), (train, test) = data, split(data, fold)
    predicted, expected = classify(ranker, images[train], grades[train], images[test])
    end = {"classified": compare_grades(predicted, grades[test]), "classified_by_thresholds": None}
    end["seconds"] = cost(0, len(train))
    return {**relative_accuracy(expected, grades[test]), "rounds": [end], "scores": expected.tolist()}


def number_of(fold: int, seed: int) -> int:
    """Return a number for the random choices of a fold and a seed."""
    return fold + 1000 * seed


def split(data: Data, fold: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows for training and test of a fold by patient."""
    return list(group_folds(data[1], data[2], FOLDS, 0))[fold]


def table(chosen: argparse.Namespace, data: Data, made: dict[str, Any]) -> None:
    """Prints Table 1 after every fold, and what each strategy asked about."""
    found: dict[str, list[Row]] = {method: [] for method in chosen.methods}
    for seed in chosen.seeds:
        for fold in range(chosen.folds):
            ranker = new_ranker(chosen.encoder, {**made, "seed": number_of(fold, seed)})
            make = ranker.copies(data[0][split(data, fold)[0]])
            for method in chosen.methods:
                found[method].append(one(chosen, method, fold, seed, data, make, made))
                row = found[method][-1]
                print(
                    f"seed {seed} fold {fold} {method}: {row['overall']:.3f} {row['neighbouring']:.3f} "
                    f"{row['cpu']:.0f} s",
                    flush=True,
                )
    show(found)


def speed(made: dict[str, Any], images: int, encoder: str | None) -> None:
    """Seconds for all images with T passes at once, and with T calls of one pass."""
    side, rng = made["side"], np.random.default_rng(0)
    if encoder:
        inputs: NDArray[Any] = rng.normal(size=(images, encoders.get(encoder).dimensions)).astype(np.float32)
    else:
        inputs = rng.integers(0, 256, (images, side, side), np.uint8)
    ranker = new_ranker(encoder, {**made, "epochs": 1, "steps": 0})
    ranker.fit(inputs[:32], [[0, 1], [2, 3]], [1, 0])
    ranker.severity(inputs[:64])
    started, used = time.perf_counter(), time.process_time()
    ranker.severity(inputs)
    wall, cpu = time.perf_counter() - started, time.process_time() - used
    what = f"values of {encoder}" if encoder else f"{made.get('backbone', 'small')} at {side}"
    print(f"{images} images, T = {ranker.passes}, {what}: {wall:.1f} s, {cpu:.1f} s of CPU")
    clock = time.process_time if made["device"] == "cpu" else time.perf_counter  # the CPU may be shared
    for few in (1, 8, 64):
        at_once = _seconds(lambda few=few: ranker.severity(inputs[:few]), clock)
        whole, ranker.passes = ranker.passes, 1  # a call with one pass
        singles = whole * _seconds(lambda few=few: ranker.severity(inputs[:few]), clock)
        ranker.passes = whole
        print(f"{few} images: T at once {at_once:.3f} s, T calls {singles:.3f} s ({at_once / singles:.0%})")


def _seconds(work: Any, clock: Callable[[], float]) -> float:
    """The quickest of five."""
    work()
    taken = []
    for _ in range(5):
        started = clock()
        work()
        taken.append(clock() - started)
    return min(taken)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("part", choices=["table", "speed"])
    options.add_argument("--data", type=Path)
    options.add_argument("--source")
    options.add_argument("--out", type=Path, help="folder for results")
    options.add_argument("--folds", type=int, default=FOLDS)
    options.add_argument("--methods", nargs="+", help="by default all")
    options.add_argument("--quick", action="store_true", help="smoke test: 600 images, 4 epochs")
    options.add_argument("--rounds", type=int, default=6)
    options.add_argument(
        "--step", type=float, default=0.05, help="share of the images selected in each round"
    )
    options.add_argument("--calibrate", action="store_true", help="also train on grades: Tables 2 and 3")
    options.add_argument("--seeds", type=int, nargs="+", default=[0], help="repeat all folds with each")
    options.add_argument("--encoder", help="learn from its values, frozen, instead of pictures")
    options.add_argument("--backbone", help="network on pictures, by default small")
    options.add_argument(
        "--weights", help="its initial weights: a file, or the folder of a trained embedding"
    )
    options.add_argument("--side", type=int, default=64)
    options.add_argument("--epochs", type=int)
    options.add_argument("--steps", type=int, help="minimum number of batches of each training")
    options.add_argument("--rate", type=float)
    options.add_argument("--device", default="cpu")
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--images", type=int, default=IMAGES)
    chosen = options.parse_args()
    torch.set_num_threads(chosen.threads)
    names = ("backbone", "weights", "side", "epochs", "steps", "rate", "device")
    made = {name: value for name in names if (value := getattr(chosen, name)) is not None}
    if chosen.part == "speed":
        speed(made, chosen.images, chosen.encoder)
        return
    if chosen.data is None:
        options.error("--data is needed")
    data = graded(chosen.data, chosen.source, chosen.side, chosen.encoder)
    if chosen.quick:
        patients = np.unique(data[2])
        some = np.isin(data[2], np.random.default_rng(0).permutation(patients)[: 300 * len(patients) // 1000])
        data, made["epochs"] = (data[0][some], data[1][some], data[2][some]), 4
        made["steps"] = 0
    chosen.methods = chosen.methods or default_methods(chosen)
    table(chosen, data, made)


def default_methods(chosen: argparse.Namespace) -> list[str]:
    """Return all methods that the options allow."""
    names = [
        name for name in strategies.names() if chosen.encoder or not strategies.strategy(name).needs_encoder
    ]
    return [BASELINE, ALL, *([CONVENTIONAL] if chosen.calibrate else []), *names]


if __name__ == "__main__":
    main()
