"""Does TopRank put more rare positives above every negative than its rivals do?

Knees of grade 4 or malignant breasts are the positives; the training images are cut down so that there are 7 or 97
negatives to each (Zheng et al., Top-rank CNN, section 5). Every method trains the same network from the same start,
as many steps of as many images, and keeps the epoch that is best on the images for validation; RankSVM and TopPush
learn on the features of the network that cross-entropy trained. Patients stay together; a seed draws the split, the
training images and the start. What was done is kept in --out and not done again.

    python bench/toprank.py --data FOLDER --out FOLDER [--task knee] [--ratios 7 97] [--seeds 0 1 2] [--paper]
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
from numpy.typing import NDArray

from cbir.datasets.manifest import Manifest
from cbir.evaluation.metrics.roc import auc, roc
from cbir.evaluation.metrics.top_precision import pos_at_top
from cbir.models.scoring_network import ScoringNetwork
from cbir.training.last_layer import LAST_LAYERS, refit_last_layer
from cbir.training.network_scoring import score_pictures
from cbir.training.picture_loading import load_pictures
from cbir.training.ranker_examples import read_ranker_examples, split_by_positive
from cbir.training.ranker_training import RANKING, RankerRecipe, train_ranker

TASKS = {
    "knee": ("grade=4", ("source=knee",)),
    "breast": ("BreastUS-malignant", ("source=busi",)),
    "archive": ("BreastUS-malignant", ()),  # among images of every kind
}
PS = (2.0, 8.0, 16.0, 32.0, 64.0)  # infinity is pos-at-top
RIVALS = ("pos-at-top", "cross-entropy", "focal")
SHARES = (0.5, 0.2, 0.3)  # of training, validation and test
PAPER = {"side": 299, "backbone": "fcn10", "negatives": 450, "epochs": 50, "rate": 0.01, "decay": 0.9}
MEASURES = ("validation", "pos_at_top", "auc", "at_1_percent", "seconds")

Parts = dict[str, NDArray[np.int64]]


def contestants() -> Iterator[tuple[str, str, float]]:
    """Names, methods and p."""
    for p in PS:
        yield f"toprank p={p:g}", "toprank", p
    for method in RIVALS:
        yield method, method, 16.0


def thinned(parts: Parts, positive: NDArray[np.bool_], ratio: int, seed: int) -> Parts:
    """The parts, the one for training with `ratio` negatives to each positive, as many of both as there can be."""
    random = np.random.default_rng((seed, ratio))
    training = random.permutation(parts["training"])
    positives, negatives = training[positive[training]], training[~positive[training]]
    m = max(1, min(len(positives), len(negatives) // ratio))
    kept = np.concatenate([positives[:m], negatives[: m * ratio]])
    return {**parts, "training": np.sort(kept)}


def recipe_of(
    method: str, p: float, images: int, positives: int, args: argparse.Namespace, seed: int
) -> RankerRecipe:
    """As many epochs as make --steps, whatever the method's epoch is."""
    negatives = images - positives
    batches = (
        negatives / min(args.negatives, negatives) if method in RANKING else images / (5 + args.negatives)
    )
    epochs = args.epochs or max(1, round(args.steps / np.ceil(batches)))
    decay = args.decay ** (30 / epochs) if not args.epochs else args.decay  # as much at the end, for all
    return RankerRecipe(method, p, epochs, 5, args.negatives, args.rate, decay, True, seed)


def found(
    ranker: ScoringNetwork, pixels: NDArray[np.uint8], positive: NDArray[np.bool_], parts: Parts, device: str
) -> dict[str, float]:
    """Pos@Top on validation and test; AUC and the share found at 1 % of false positives on the test."""
    scores = score_pictures(ranker, pixels, device)
    test, validation = parts["test"], parts["validation"]
    return {
        "validation": pos_at_top(scores[validation], positive[validation]),
        "pos_at_top": pos_at_top(scores[test], positive[test]),
        "auc": auc(scores[test], positive[test]),
        "at_1_percent": float(roc(scores[test], positive[test]).at(0.01)),
    }


def compete(args: argparse.Namespace) -> None:
    """Every run that is not yet in --out."""
    wanted, where = TASKS[args.task]
    rows = read_ranker_examples(Manifest(args.data / "manifest.csv"), [wanted], where)
    pictures = load_pictures([row.path for row in rows], args.side)
    chosen = [rows[place] for place in pictures.places]
    positive = np.array([row.positive for row in chosen])
    groups = [row.patient or content for row, content in zip(chosen, pictures.contents, strict=True)]
    for seed in args.seeds:
        whole = split_by_positive(positive.tolist(), groups, SHARES, seed)
        for ratio in args.ratios:
            parts = thinned(whole, positive, ratio, seed)
            for name, method, p in contestants():
                kept = args.out / f"{args.task}-{ratio}-{seed}-{name.replace(' ', '-')}"
                if not kept.with_suffix(".json").exists():
                    one_run(name, method, p, kept, (pictures.pixels, positive, parts), args, ratio, seed)


def one_run(
    name: str,
    method: str,
    p: float,
    kept: Path,
    task: tuple[NDArray[np.uint8], NDArray[np.bool_], Parts],
    args: argparse.Namespace,
    ratio: int,
    seed: int,
) -> None:
    """Train, measure, and write the results of one method, and of the last layers learnt on its features."""
    _, positive, parts = task
    training = parts["training"]
    recipe = recipe_of(method, p, len(training), int(positive[training].sum()), args, seed)
    torch.manual_seed(seed)
    ranker = ScoringNetwork(args.backbone, args.side)
    started = time.process_time()
    told = train_ranker(ranker, *task, recipe, kept, args.device, save_every=15.0)
    about = {
        "task": args.task,
        "ratio": ratio,
        "seed": seed,
        "best_epoch": told["best_epoch"],
        "epochs": recipe.epochs,
    }
    about |= {"images": {part: [len(of), int(positive[of].sum())] for part, of in parts.items()}}
    results = [
        {"name": name, **about, **found(ranker, *task, args.device), "seconds": time.process_time() - started}
    ]
    if method == "cross-entropy":
        for last in LAST_LAYERS:
            started, other = time.process_time(), copy.deepcopy(ranker)
            penalty = refit_last_layer(last, other, *task, args.device)
            row = {"name": last, **about, "penalty": penalty, **found(other, *task, args.device)}
            results.append({**row, "seconds": time.process_time() - started})
    kept.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    shutil.rmtree(kept)
    for row in results:
        print(
            f"{ratio:>3} seed {seed} {row['name']:<16}" + "".join(f"{row[m]:>10.3f}" for m in MEASURES),
            flush=True,
        )


def table(results: list[dict[str, Any]], ratio: int) -> None:
    """Means over the seeds, with the lowest and highest Pos@Top; TopRank also with the p best on validation."""
    of_ratio = [row for row in results if row["ratio"] == ratio]
    if not of_ratio:
        return
    best_p = []
    for seed in sorted({row["seed"] for row in of_ratio}):
        tried = [row for row in of_ratio if row["seed"] == seed and row["name"].startswith("toprank")]
        best_p.append({**max(tried, key=lambda row: row["validation"]), "name": "toprank, p by validation"})
    by_name: dict[str, list[dict[str, Any]]] = {}
    for row in of_ratio + best_p:
        by_name.setdefault(row["name"], []).append(row)
    images = of_ratio[0]["images"]
    told = ", ".join(f"{part} {positives} of {count}" for part, (count, positives) in images.items())
    print(f"\n1:{ratio}; positives: {told}; {len(best_p)} seeds")
    print(
        f"{'':<26}{'Pos@Top':>9}{'lowest':>9}{'highest':>9}{'validation':>12}{'AUC':>8}{'TPR at 1 %':>12}{'s':>6}"
    )
    names = [*(name for name, *_ in contestants()), *LAST_LAYERS, best_p[0]["name"]]
    for name in (name for name in names if name in by_name):
        rows = by_name[name]
        means = {m: float(np.mean([row[m] for row in rows])) for m in MEASURES}
        top = [row["pos_at_top"] for row in rows]
        print(
            f"{name:<26}{means['pos_at_top']:>9.3f}{min(top):>9.3f}{max(top):>9.3f}{means['validation']:>12.3f}"
            f"{means['auc']:>8.3f}{means['at_1_percent']:>12.3f}{means['seconds']:>6.0f}"
        )


def main() -> None:
    """Run what is missing, and print the tables of what there is."""
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
    parser.add_argument("--negatives", type=int, default=50, help="of a batch, beside 5 positives")
    parser.add_argument("--steps", type=int, default=150, help="batches of a training")
    parser.add_argument("--epochs", type=int, default=0, help="instead of --steps")
    parser.add_argument("--rate", type=float, default=0.02)
    parser.add_argument(
        "--decay", type=float, default=0.95, help="of the rate, after a thirtieth of the training"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--paper", action="store_true", help="sizes of the paper; wants a GPU or a night")
    args = parser.parse_args()
    for name, value in PAPER.items() if args.paper else ():
        setattr(args, name, value)
    torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    compete(args)
    results = [
        row for path in sorted(args.out.glob(f"{args.task}-*.json")) for row in json.loads(path.read_text())
    ]
    for ratio in args.ratios:
        table(results, ratio)


if __name__ == "__main__":
    main()
