"""Compare TopRank with other losses on how many rare positives rank above every negative.

Knees of grade 4 or malignant breasts are the positives; the training images are thinned to 7 or 97 negatives per
positive (Zheng et al., Top-rank CNN, section 5). Every method trains the same network from the same weights, with the
same number of batches of the same size, and uses the epoch that is best in validation; RankSVM and TopPush train on
the features of the network that cross-entropy trained. Images of a patient stay together; a seed decides the split,
the training images and the initial weights. Finished runs in --out are not repeated. With --encoder, the network is
two fully connected layers on the values of a pretrained encoder, in place of the pictures.

    python bench/toprank.py --data FOLDER --out FOLDER [--task knee] [--ratios 7 97] [--seeds 0 1 2] [--paper]
    python bench/toprank.py --data FOLDER --out FOLDER --encoder lite0-whole --seeds 0 1 2 3 4 5 6 7 8 9
"""

import argparse
import copy
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from intervals import mean_interval
from numpy.typing import NDArray
from torch import nn

from cbir.descriptors import encoders
from cbir.descriptors.networks.backbones import FEATURES, Backbone
from cbir.evaluation.rank_metrics import auc, pos_at_top, roc
from cbir.ingest.manifest import Manifest
from cbir.learn.models.scoring_network import ScoringNetwork, score_pictures
from cbir.learn.severity.severity_networks import principal_projection
from cbir.learn.training.labelled_examples import read_ranker_examples, split_by_positive
from cbir.learn.training.loss_options import LossOptions
from cbir.learn.training.picture_loading import LoadedPictures, load_features, load_pictures
from cbir.learn.training.ranker_training import (
    LAST_LAYERS,
    POWERS,
    RANKING,
    RankerImages,
    RankerRecipe,
    RunOptions,
    refit_last_layer,
    train_ranker,
)

TASKS = {
    "knee": ("grade=4", ("source=knee",)),
    "breast": ("BreastUS-malignant", ("source=busi",)),
    "archive": ("BreastUS-malignant", ()),  # among images of every kind
}
BASELINES = ("pos-at-top", "partial-auc", "cross-entropy", "focal")
SHARES = (0.5, 0.2, 0.3)  # of training, validation and test
PAPER = {"side": 299, "backbone": "fcn10", "epochs": 50, "rate": 0.01, "decay": 0.9}
DIRECTIONS = 256  # of the values of --encoder
RATES = {"pictures": 0.02, "values": 0.1}
FOCAL_FACTOR = 5.0  # of the rate on values, beside that of the recipe
BY_VALIDATION = "toprank, p by validation"
RESAMPLED = 10_000  # times, for the interval of a ratio
MEASURES = ("validation", "pos_at_top", "auc", "at_1_percent", "seconds")

Row = dict[str, Any]
Parts = dict[str, NDArray[np.int64]]


class ValueScorer(ScoringNetwork):
    """Map projected values (n, directions) to scores (n,): TopRank's two fully connected layers."""

    def __init__(self, directions: int) -> None:
        nn.Module.__init__(self)
        self.options = {"directions": directions}
        layer = nn.Sequential(nn.Linear(directions, FEATURES), nn.ReLU())
        self.backbone = Backbone(layer, nn.Identity(), FEATURES, dimensions=None, channels=1)
        self.head = nn.Linear(FEATURES, 1)


def methods() -> Iterator[tuple[str, str, float | None]]:
    """Yield names, methods and p; p infinity is pos-at-top."""
    for p in POWERS:
        yield f"toprank p={p:g}", "toprank", p
    for method in BASELINES:
        yield method, method, None


def thin_training(parts: Parts, positive: NDArray[np.bool_], ratio: int, seed: int) -> Parts:
    """Reduce the training part to `ratio` negatives per positive, with as many of both as possible."""
    random = np.random.default_rng((seed, ratio))
    training = random.permutation(parts["training"])
    positives, negatives = training[positive[training]], training[~positive[training]]
    m = max(1, min(len(positives), len(negatives) // ratio))
    rows = np.concatenate([positives[:m], negatives[: m * ratio]])
    return {**parts, "training": np.sort(rows)}


def make_recipe(
    method: str, p: float | None, images: int, positives: int, args: argparse.Namespace, seed: int
) -> RankerRecipe:
    """Return a recipe with the number of epochs that makes --steps, however long an epoch of the method is."""
    negatives = images - positives
    batches = (
        negatives / min(args.negatives, negatives) if method in RANKING else images / (5 + args.negatives)
    )
    epochs = args.epochs or max(1, round(args.steps / np.ceil(batches)))
    decay = args.decay ** (30 / epochs) if not args.epochs else args.decay  # as much at the end, for all
    rate = args.rate * (FOCAL_FACTOR if args.encoder and method == "focal" else 1.0)
    options = LossOptions(p=p)
    return RankerRecipe(method, epochs, 5, args.negatives, rate, decay, not args.encoder, seed, options)


def measure(
    ranker: ScoringNetwork, pixels: NDArray[Any], positive: NDArray[np.bool_], parts: Parts, device: str
) -> dict[str, float]:
    """Measure Pos@Top in validation and test, AUC and sensitivity at 1 % false positives in the test."""
    scores = score_pictures(ranker, pixels, device)
    test, validation = parts["test"], parts["validation"]
    return {
        "validation": pos_at_top(scores[validation], positive[validation]),
        "pos_at_top": pos_at_top(scores[test], positive[test]),
        "auc": auc(scores[test], positive[test]),
        "at_1_percent": float(roc(scores[test], positive[test]).at(0.01)),
    }


def load(args: argparse.Namespace, paths: list[Path]) -> LoadedPictures:
    """Load pictures, or the values of --encoder, which are cached in --out."""
    if args.encoder:
        return load_features(paths, encoders.get(args.encoder), args.out / "features")
    return load_pictures(paths, args.side)


def project(values: NDArray[np.float16], training: NDArray[np.int64]) -> NDArray[np.float32]:
    """Project values (n, d) to the principal directions (n, DIRECTIONS) of the training images, and to length 1."""
    full = values.astype(np.float32)
    projected = principal_projection(full[training], DIRECTIONS)(full)
    lengths = np.linalg.norm(projected, axis=1, keepdims=True)
    projected /= np.maximum(lengths, np.finfo(np.float32).tiny)
    return projected


def run_missing(args: argparse.Namespace) -> None:
    """Run everything that is not yet in --out."""
    positive_label, where = TASKS[args.task]
    examples = read_ranker_examples(Manifest(args.data / "manifest.csv"), [positive_label], where)
    pictures = load(args, [example.path for example in examples])
    examples = [examples[row] for row in pictures.rows]
    positive = np.array([example.positive for example in examples])
    groups = [
        example.patient or content for example, content in zip(examples, pictures.content_hashes, strict=True)
    ]
    for seed in args.seeds:
        split = split_by_positive(positive.tolist(), groups, SHARES, seed)
        for ratio in args.ratios:
            parts = thin_training(split, positive, ratio, seed)
            inputs = project(pictures.pixels, parts["training"]) if args.encoder else pictures.pixels
            for name, method, p in methods():
                folder = args.out / f"{args.task}-{ratio}-{seed}-{name.replace(' ', '-')}"
                if not folder.with_suffix(".json").exists():
                    run_method(name, method, p, folder, (inputs, positive, parts), args, ratio, seed)


def run_method(
    name: str,
    method: str,
    p: float | None,
    folder: Path,
    task: tuple[NDArray[Any], NDArray[np.bool_], Parts],
    args: argparse.Namespace,
    ratio: int,
    seed: int,
) -> None:
    """Train one method, measure it and the last layers refitted on its features, and write the results."""
    _, positive, parts = task
    training = parts["training"]
    recipe = make_recipe(method, p, len(training), int(positive[training].sum()), args, seed)
    torch.manual_seed(seed)
    ranker = ValueScorer(DIRECTIONS) if args.encoder else ScoringNetwork(args.backbone, args.side)
    started = time.process_time()
    outcome = train_ranker(ranker, RankerImages(*task), recipe, RunOptions(folder, args.device, 15.0))
    record = {
        "task": args.task,
        "ratio": ratio,
        "seed": seed,
        "best_epoch": outcome["best_epoch"],
        "epochs": recipe.epochs,
    }
    record |= {"images": {part: [len(rows), int(positive[rows].sum())] for part, rows in parts.items()}}
    results = [
        {
            "name": name,
            **record,
            **measure(ranker, *task, args.device),
            "seconds": time.process_time() - started,
        }
    ]
    if method == "cross-entropy":
        for last in LAST_LAYERS:
            started, other = time.process_time(), copy.deepcopy(ranker)
            penalty = refit_last_layer(last, other, *task, args.device)
            row = {"name": last, **record, "penalty": penalty, **measure(other, *task, args.device)}
            results.append({**row, "seconds": time.process_time() - started})
    folder.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    shutil.rmtree(folder)
    for row in results:
        print(
            f"{ratio:>3} seed {seed} {row['name']:<16}" + "".join(f"{row[m]:>10.3f}" for m in MEASURES),
            flush=True,
        )


def group_by_name(results: list[Row], ratio: int) -> dict[str, list[Row]]:
    """Return the results of each method by seed; TopRank also with the p that is best in validation."""
    selected = sorted((row for row in results if row["ratio"] == ratio), key=lambda row: row["seed"])
    by_name: dict[str, list[Row]] = {}
    for row in selected:
        by_name.setdefault(row["name"], []).append(row)
    for seed in sorted({row["seed"] for row in selected}):
        candidates = [row for row in selected if row["seed"] == seed and row["name"].startswith("toprank")]
        by_name.setdefault(BY_VALIDATION, []).append(max(candidates, key=lambda row: row["validation"]))
    return by_name


def table(results: list[Row], ratio: int) -> None:
    """Print means over the seeds, with the lowest and highest Pos@Top; TopRank also with the best p in validation."""
    by_name = group_by_name(results, ratio)
    if not by_name:
        return
    best_p = by_name[BY_VALIDATION]
    images = best_p[0]["images"]
    counts = ", ".join(f"{part} {positives} of {count}" for part, (count, positives) in images.items())
    print(f"\n1:{ratio}; positives: {counts}; {len(best_p)} seeds")
    print(
        f"{'':<26}{'Pos@Top':>9}{'lowest':>9}{'highest':>9}{'validation':>12}{'AUC':>8}{'TPR at 1 %':>12}{'s':>6}"
    )
    names = [*(name for name, *_ in methods()), *LAST_LAYERS, BY_VALIDATION]
    for name in (name for name in names if name in by_name):
        rows = by_name[name]
        means = {m: float(np.mean([row[m] for row in rows])) for m in MEASURES}
        top = [row["pos_at_top"] for row in rows]
        print(
            f"{name:<26}{means['pos_at_top']:>9.3f}{min(top):>9.3f}{max(top):>9.3f}{means['validation']:>12.3f}"
            f"{means['auc']:>8.3f}{means['at_1_percent']:>12.3f}{means['seconds']:>6.0f}"
        )


def differences(results: list[Row], ratio: int) -> None:
    """Print TopRank less its rivals, and Pos@Top as a multiple of theirs, with 95 % intervals over the seeds.

    Intervals are Student's t for differences, and percentiles of resampled seeds for the multiple.
    """
    by_name = group_by_name(results, ratio)
    ours = by_name.get(BY_VALIDATION, [])
    if len(ours) < 2:
        return
    print(f"\n{BY_VALIDATION}, against, at 1:{ratio}")
    print(f"{'':<16}{'Pos@Top':>27}{'AUC':>27}{'TPR at 1 %':>27}{'Pos@Top, times':>26}")
    for name in (name for name in (*BASELINES, *LAST_LAYERS) if name in by_name):
        theirs = by_name[name]
        cells = []
        for measured in ("pos_at_top", "auc", "at_1_percent"):
            mean, low, high = mean_interval(
                [a[measured] - b[measured] for a, b in zip(ours, theirs, strict=True)]
            )
            cells.append(f"{mean:>+9.3f} ({low:+.3f} to {high:+.3f})")
        times, low, high = multiple(
            np.array([[row["pos_at_top"] for row in rows] for rows in (ours, theirs)])
        )
        print(f"{name:<16}" + "".join(cells) + f"{times:>9.2f} ({low:.2f} to {high:.2f})")


def multiple(pairs: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the mean of the first row of `pairs` (2, seeds) over that of the second, with its interval."""
    seeds = pairs.shape[1]
    chosen = np.random.default_rng(0).integers(0, seeds, (RESAMPLED, seeds))
    means = np.concatenate([pairs.mean(axis=1)[:, None], pairs[:, chosen].mean(axis=2)], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(means.any(axis=0), means[0] / means[1], 1.0)
    low, high = np.percentile(ratios[1:], (2.5, 97.5), method="nearest")
    return float(ratios[0]), float(low), float(high)


def main() -> None:
    """Run what is missing and print the tables of all results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with manifest.csv")
    parser.add_argument("--out", type=Path, required=True, help="folder for results and checkpoints")
    parser.add_argument("--task", choices=list(TASKS), default="knee")
    parser.add_argument("--ratios", type=int, nargs="+", default=[7, 97])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--side", type=int, default=48, help="pixels")
    parser.add_argument("--backbone", default="toprank")
    parser.add_argument("--encoder", help="pretrained encoder, in place of the backbone")
    parser.add_argument("--negatives", type=int, default=450, help="negatives per batch, beside 5 positives")
    parser.add_argument("--steps", type=int, default=150, help="batches per training")
    parser.add_argument("--epochs", type=int, default=0, help="instead of --steps")
    parser.add_argument("--rate", type=float, help="0.02 for pictures and 0.1 for values if not given")
    parser.add_argument(
        "--decay", type=float, default=0.95, help="learning-rate decay per thirtieth of the training"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--paper", action="store_true", help="sizes of the paper; needs a GPU or a night")
    args = parser.parse_args()
    for name, value in PAPER.items() if args.paper else ():
        setattr(args, name, value)
    args.rate = args.rate or RATES["values" if args.encoder else "pictures"]
    torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    run_missing(args)
    results = [
        row for path in sorted(args.out.glob(f"{args.task}-*.json")) for row in json.loads(path.read_text())
    ]
    for ratio in args.ratios:
        table(results, ratio)
        differences(results, ratio)


if __name__ == "__main__":
    main()
