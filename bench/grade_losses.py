"""Compare losses on how well grades are read from the embedding that they train.

Every loss trains the same head, on the values of a pretrained encoder, from the same weights with the same batches;
ordinal regression then reads the grades from the embedding. Images of a patient stay together; a seed decides the
split and the batches. "untrained" is the head before training: the directions of linear discriminant analysis.

    python bench/grade_losses.py --data FOLDER --out FOLDER [--source knee] [--encoder lite0-whole] [--seeds 0 1 2]
"""

import argparse
import tempfile
from copy import deepcopy
from pathlib import Path

import numpy as np
import torch
from intervals import mean_interval

from cbir.descriptors import encoders
from cbir.evaluation.rank_metrics import evaluate_vectors
from cbir.ingest.manifest import Manifest
from cbir.learn.grading.baselines import OrdinalRegression
from cbir.learn.grading.grade_scale import quadratic_kappa
from cbir.learn.losses import ON_GRADES
from cbir.learn.models.scoring_network import apply_network
from cbir.learn.training.embedding_training import (
    EmbeddingData,
    EmbeddingRecipe,
    initial_head,
    train_embedding,
)
from cbir.learn.training.labelled_examples import PARTS, order_classes, read_class_examples, split_by_class
from cbir.learn.training.picture_loading import load_features

UNTRAINED, REFERENCE = "untrained", "ordinal"
LOSSES = (UNTRAINED, *ON_GRADES, "cross-entropy", "multi-similarity")
BATCH = 80  # images, equally many of each grade


def load(args: argparse.Namespace) -> tuple[EmbeddingData, list[str]]:
    """Load the values of all images, without parts, and the patient of each."""
    manifest = Manifest(args.data / "manifest.csv")
    examples = read_class_examples(manifest, "grade", (f"source={args.source}",), numeric=True)
    loaded = load_features(
        [example.path for example in examples], encoders.get(args.encoder), args.out / "features"
    )
    examples = [examples[row] for row in loaded.rows]
    names = order_classes([example.label for example in examples])
    classes = np.array([names.index(example.label) for example in examples], np.int64)
    patients = [
        example.patient or content for example, content in zip(examples, loaded.content_hashes, strict=True)
    ]
    groups = np.unique(patients, return_inverse=True)[1].astype(np.int64)
    return EmbeddingData(loaded.pixels, classes, groups, {}), patients


def measure(loss: str, data: EmbeddingData, args: argparse.Namespace, seed: int) -> dict[str, float]:
    """Train with a loss and grade the test images; return kappa, mean absolute error, and P@10 of the grade."""
    head = deepcopy(initial_head(data, kept=0.0))
    levels = len(np.unique(data.classes))
    if loss != UNTRAINED:
        recipe = EmbeddingRecipe(
            loss, args.epochs, levels, BATCH // levels, args.rate, patience=args.epochs, seed=seed
        )
        torch.manual_seed(seed)
        with tempfile.TemporaryDirectory() as folder:
            train_embedding(head, data, recipe, Path(folder))
    vectors = apply_network(head, data.pictures)
    learned = np.concatenate([data.parts[part] for part in PARTS[:2]])
    test, grades = data.parts["test"], data.classes.astype(np.float64)
    predicted = OrdinalRegression().fit(vectors[learned], grades[learned]).predict(vectors[test])
    found = evaluate_vectors(
        vectors[test],
        data.classes[test],
        vectors[learned],
        data.classes[learned],
        data.groups[test],
        data.groups[learned],
    )
    return {
        "kappa": quadratic_kappa(predicted, grades[test]),
        "MAE": float(np.abs(predicted - grades[test]).mean()),
        "P@10": found.p_at_10,
    }


def main() -> None:
    """Print a row per loss: means over the seeds, and the difference in kappa to REFERENCE."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with manifest.csv")
    parser.add_argument("--out", type=Path, required=True, help="folder for the values of the encoder")
    parser.add_argument("--source", default="knee")
    parser.add_argument("--encoder", default="lite0-whole")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--rate", type=float, default=1e-3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    data, patients = load(args)
    rows: dict[str, list[dict[str, float]]] = {loss: [] for loss in LOSSES}
    for seed in args.seeds:
        parts = split_by_class([str(label) for label in data.classes], patients, seed=seed)
        trial = EmbeddingData(data.pictures, data.classes, data.groups, parts)
        for loss in LOSSES:
            rows[loss].append(measure(loss, trial, args, seed))
            print(f"seed {seed} {loss:<18} {rows[loss][-1]}", flush=True)
    for loss, found in rows.items():
        means = "".join(f"{np.mean([row[name] for row in found]):>9.3f}" for name in found[0])
        gains = [row["kappa"] - other["kappa"] for row, other in zip(found, rows[REFERENCE], strict=True)]
        mean, low, high = mean_interval(gains) if len(gains) > 1 else (gains[0], np.nan, np.nan)
        print(f"{loss:<18}{means}   {mean:+.3f} ({low:+.3f} to {high:+.3f})")


if __name__ == "__main__":
    main()
