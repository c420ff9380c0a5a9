"""Compare strategies of learning from comparisons (Kadota et al.), and time the estimate of uncertainty.

`table`: the paper's Table 1 with answers from known grades. Five folds by patient; in each, all strategies but
`new-images` start with the same pairs, then select more in rounds. `baseline` selects as many pairs as the others end
with, at once; `all data` as many pairs as there are images; `random` is "w/o UBS" in the paper, `variance` that
of the paper.
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
from collections.abc import Callable, Mapping
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import t
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from cbir import encoders
from cbir.active import strategies
from cbir.active.pair_selection import starting_pairs
from cbir.active.simulation import SimulationPlan, simulate
from cbir.models.linear.grouped_folds import group_folds
from cbir.severity.new_ranker import new_ranker
from cbir.severity.sampled_ranker import SampledRanker
from cbir.training.picture_loading import load_features, load_pictures

FOLDS = 5
START = 0.2
BASELINE, ALL = "baseline", "all data"
OURS = "variance"
IMAGES = 10_000
Row = dict[str, Any]
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
    plan: SimulationPlan,
    method: str,
    fold: int,
    seed: int,
    data: Data,
    make: Callable[[int], SampledRanker],
    settings: dict[str, Any],
    out: Path | None,
) -> Row:
    """What a method reaches in a fold: its rounds, and its scores of the images to test on."""
    name = f"{fold}{f'-{seed}' * bool(seed)}-{method.replace(' ', '-')}{'-calibrated' * plan.calibrate}.json"
    kept = out / name if out else None
    if kept and kept.exists():
        return dict(json.loads(kept.read_text()))
    images, grades, _ = data
    train, test = split(data, fold)
    begin = starting_pairs(
        plan.strategy, len(train), plan.start, np.random.default_rng(number_of(fold, seed))
    )
    started = time.process_time()
    found = simulate(images, grades, train, test, plan, make, begin)
    row = {
        **found.as_dict(),
        "scores": found.rounds[-1].scores.tolist(),
        "cpu": time.process_time() - started,
        "fold": fold,
    }
    row |= {"grades": grades[test].tolist(), "settings": settings}
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(row))
    return row


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
                plan = plan_of(method, chosen.rounds, chosen.step, chosen.calibrate, number_of(fold, seed))
                found[method].append(one(plan, method, fold, seed, data, make, made, chosen.out))
                row = found[method][-1]
                print(
                    f"seed {seed} fold {fold} {method}: {row['overall']:.3f} {row['neighbouring']:.3f} "
                    f"{row['cpu']:.0f} s",
                    flush=True,
                )
    show(found)


def last(row: Row) -> Row:
    """The last round."""
    return dict(row["rounds"][-1])


def show(found: dict[str, list[Row]]) -> None:
    """Means of the folds."""
    accuracies(found)
    if last(found[next(iter(found))][0])["classified"]:
        print("\nafter calibration: precision, recall, F1, accuracy, seconds of a person")
        for method, rows in found.items():
            means = [np.mean([last(row)["classified"][name] for row in rows])
                     for name in ("precision", "recall", "f1", "accuracy")]  # fmt: skip
            seconds = np.mean([last(row)["seconds"] for row in rows])
            print("  ".join([f"{method:14}", *(f"{value:.3f}" for value in means), f"{seconds:,.0f}"]))
        print("\nafter calibration, by fold: precision/recall/F1")
        for method, rows in found.items():
            each = ["/".join(f"{last(row)['classified'][name]:.3f}" for name in ("precision", "recall", "f1"))
                    for row in rows]  # fmt: skip
            print("  ".join([f"{method:14}", *each]))
    for name, key in (("overall by round", "overall"), ("neighbouring by round", "neighbouring")):
        print(f"\n{name}")
        for method, rows in found.items():
            by_round = np.mean([[one[key] for one in row["rounds"]] for row in rows], axis=0)
            print("  ".join([f"{method:14}", *(f"{value:.3f}" for value in by_round)]))
    asked_about(found)
    intervals(found)


def intervals(found: dict[str, list[Row]]) -> None:
    """Print differences to random and to all data in points, with 95 % intervals of Student's t.

    Pairs are folds of one seed; seeds share the test images, so they are averaged within a fold first.
    """
    for other in ("random", ALL):
        if other not in found or len(found[other]) < 2:
            continue
        print(f"\ndifference to {other}: overall, neighbouring")
        for method, rows in found.items():
            if method != other:
                cells = [difference(rows, found[other], name) for name in ("overall", "neighbouring")]
                print("  ".join([f"{method:14}", *cells]))


def difference(rows: list[Row], others: list[Row], name: str) -> str:
    """Return the mean difference in points with its interval over the folds."""
    differences = np.array([row[name] - other[name] for row, other in zip(rows, others, strict=True)])
    folds = [row["fold"] for row in rows]
    means = 100 * np.array([differences[np.equal(folds, fold)].mean() for fold in np.unique(folds)])
    if len(means) < 2:
        return f"{means[0]:+.1f}"
    half = t.ppf(0.975, len(means) - 1) * means.std(ddof=1) / np.sqrt(len(means))
    return f"{means.mean():+.1f} [{means.mean() - half:+.1f}, {means.mean() + half:+.1f}]"


def accuracies(found: dict[str, list[Row]]) -> None:
    """Table 1; p against the paper's method by McNemar's test with Holm's correction, folds together."""
    steps = list(last(found[next(iter(found))][0])["each"])
    p = {near: significance(found, near) for near in (False, True)} if OURS in found else {}
    head = [f"{'method':14}", "pairs", "overall", *steps, "neighbouring", "p overall", "p neighbouring"]
    print("\n" + "  ".join(head))
    for method, rows in found.items():
        values = [np.mean([row["overall"] for row in rows])]
        values += [np.nanmean([last(row)["each"][step] for row in rows]) for step in steps]
        values.append(np.mean([row["neighbouring"] for row in rows]))
        tests = [f"{p[near][method]:.3g}" if method in p.get(near, {}) else "-" for near in (False, True)]
        share = np.mean([last(row)["labelling"] for row in rows])
        print("  ".join([f"{method:14}", f"{share:5.0%}", *(f"{value:.3f}" for value in values), *tests]))


def asked_about(found: dict[str, list[Row]]) -> None:
    """Figures 6 and 7 in numbers."""
    print(
        "\nshare of each grade among the images in pairs, after the last round | median uncertainty of each grade"
    )
    for method, rows in found.items():
        ends = [last(row) for row in rows]
        shares = [np.mean([one["proportions"][grade] for one in ends]) for grade in ends[0]["proportions"]]
        spread = [np.mean([one["uncertainty"][grade][2] for one in ends]) for grade in ends[0]["uncertainty"]]
        images = np.mean([one["images"] for one in ends])
        columns = "  ".join(f"{share:.3f}" for share in shares), "  ".join(f"{of:.3f}" for of in spread)
        print(f"{method:14}  {images:5.0f} images  {columns[0]}  |  {columns[1]}", flush=True)


def drawn_pairs(
    grades: NDArray[np.floating], rng: np.random.Generator, neighbouring: bool = False
) -> NDArray[np.int64]:
    """Draw pairs for a significance test: two grades with equal probability, then an image of each.

    Parameters
    ----------
    grades : (n,) float
    rng : numpy.random.Generator
    neighbouring : bool
        Draw only neighbouring grades.

    Returns
    -------
    (m, 2) int64
        About n pairs, the more severe image first; empty if all grades are equal.
    """
    levels, level_of = np.unique(grades, return_inverse=True)
    rows = [np.flatnonzero(level_of == level) for level in range(len(levels))]
    kinds = list(pairwise(range(len(levels))) if neighbouring else combinations(range(len(levels)), 2))
    if not kinds:
        return np.empty((0, 2), np.int64)
    pairs = {
        (int(rng.choice(rows[high])), int(rng.choice(rows[low])))
        for low, high in (kinds[kind] for kind in rng.integers(0, len(kinds), len(grades)))
    }
    return np.array(sorted(pairs), np.int64)


def right(scores: NDArray[np.floating], pairs: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask (m,) of the `pairs` (m, 2) whose first image, the more severe one, has the higher score."""
    return np.asarray(scores)[pairs[:, 0]] > np.asarray(scores)[pairs[:, 1]]


def mcnemar_holm(ours: NDArray[np.bool_], others: Mapping[str, NDArray[np.bool_]]) -> dict[str, float]:
    """Return the p-values of McNemar's exact test of one method against each other one, Holm-corrected.

    `ours` and the values of `others` are masks (m,) of the correctly ordered pairs.
    """
    if not others:
        return {}
    p = []
    for other in others.values():
        table = [
            [np.sum(ours & other), np.sum(ours & ~other)],
            [np.sum(~ours & other), np.sum(~ours & ~other)],
        ]
        p.append(float(mcnemar(table, exact=True).pvalue))
    return dict(zip(others, map(float, multipletests(p, method="holm")[1]), strict=True))


def significance(found: dict[str, list[Row]], near: bool) -> dict[str, float]:
    """p of the paper's method against each other one, over pairs drawn in every fold."""
    answers: dict[str, list[NDArray[np.bool_]]] = {method: [] for method in found}
    for fold, row in enumerate(found[OURS]):
        pairs = drawn_pairs(np.array(row["grades"]), np.random.default_rng([fold, near]), near)
        for method, rows in found.items():
            answers[method].append(right(np.array(rows[fold]["scores"]), pairs))
    joined = {method: np.concatenate(of) for method, of in answers.items()}
    return mcnemar_holm(joined.pop(OURS), joined)


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
    options.add_argument("--methods", nargs="+", default=[BASELINE, ALL, *strategies.names()])
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
    table(chosen, data, made)


if __name__ == "__main__":
    main()
