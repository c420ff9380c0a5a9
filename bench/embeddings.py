"""Compare embeddings of every loss with huang2012, and combined with it, with and without re-ranking.

Every loss trains the same network from the same weights, with the same number of batches of the same size; with
--encoder, a head on the values of a pretrained encoder, which is measured untouched too. A third of the labels is
held out from training. Queries are test images; on seen classes they search the training images, on unseen classes
the images of those classes in the training part. Images of a patient stay together and are not compared (without a
patient, each picture is a group of its own). A seed decides the split, the held-out labels and the initial weights.
Finished runs in --out are not repeated; a training that was interrupted continues.

    python bench/embeddings.py --data FOLDER --out FOLDER [--losses sodeep-map smooth-ap] [--seeds 0 1 2] [--epochs 9]
    python bench/embeddings.py --data FOLDER --out FOLDER --encoder lite0-whole --epochs 10 --rate 5e-4
    python bench/embeddings.py --data FOLDER --out FOLDER --encoder lite0-whole --sodeep --classes 8 --images 6
    python bench/embeddings.py --data FOLDER --out FOLDER --encoder lite0 --fine-tune 4 --fine-tune-side 96

--fine-tune trains the encoder's last blocks too, from the head, and compares both on the same queries.
"""

import argparse
import json
import re
import shutil
import time
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from intervals import mean_interval
from numpy.typing import NDArray

from cbir import descriptors, rerank
from cbir.descriptors import encoders
from cbir.descriptors.networks.embedder import KEPT, Embedder, EmbeddingHead
from cbir.evaluation.rank_metrics import RetrievalScores
from cbir.evaluation.significance import bootstrap_intervals
from cbir.gallery import knn
from cbir.gallery import vector_blocks as whitening
from cbir.gallery.gallery import Gallery, rank
from cbir.gallery.knn_graph import Neighbourhood
from cbir.images import read_images
from cbir.ingest.manifest import Manifest
from cbir.learn.losses import ON_GRADES, names
from cbir.learn.models.scoring_network import apply_network
from cbir.learn.training.embedding_training import (
    EmbeddingData,
    EmbeddingRecipe,
    evaluate_embedding,
    initial_head,
    train_embedding,
)
from cbir.learn.training.fine_tuning import FineTuning, build_trainable, load_trainable_pictures
from cbir.learn.training.labelled_examples import PARTS, ClassExample, read_class_examples, split_by_class
from cbir.learn.training.loss_options import LossOptions
from cbir.learn.training.picture_loading import load_features, load_pictures
from cbir.store.base import normalisation, profile

BASELINE = "huang2012"
# Forms of the SoDeep paper by equation, with the sorters of the paper and with the project's own
FORMS = {
    "eq. 7 (mAP)": ("sodeep-map", LossOptions(form="ranks")),
    "eq. 4 (Spearman)": ("sodeep-spearman", LossOptions()),
    "eqs. 9, 10 (recall)": ("sodeep-recall", LossOptions()),
}
PAPER_SORTERS, OWN_SORTER = ("lstm", "cnn", "handcrafted"), "pairwise"
OWN = {
    "own form precision, own sorter": ("sodeep-map", LossOptions(form="precision")),
    "own form log, own sorter": ("sodeep-map", LossOptions()),
}
VARIANTS = {
    **{
        f"{form}, {'own sorter' if sorter == OWN_SORTER else sorter}": (loss, replace(options, sorter=sorter))
        for sorter in (*PAPER_SORTERS, OWN_SORTER)
        for form, (loss, options) in FORMS.items()
    },
    "eq. 7 (mAP), lstm, L1 in epoch 1": ("sodeep-map", LossOptions("lstm", form="ranks", parallel="l1")),
    "eq. 7 (mAP), lstm, L1 throughout": (
        "sodeep-map", LossOptions("lstm", form="ranks", parallel="l1", parallel_epochs=1000),
    ),
    **OWN,
}  # fmt: skip
UNSEEN = 1 / 3  # of the labels
MEASURES = ("map", "p_at_1", "p_at_10")
Floats = NDArray[np.float32]
Rows = NDArray[np.int64]
Bounds = tuple[tuple[int, int], ...]  # start and stop of each part of a descriptor


@dataclass(frozen=True, eq=False)
class Images:
    """Files, grey pictures (n, side, side), classes (n,) from 0, class names, and groups (n,)."""

    paths: list[Path]
    pixels: NDArray[np.uint8]
    classes: Rows
    names: list[str]
    groups: list[str]


@dataclass(frozen=True, eq=False)
class Trial:
    """Data of one seed: training data, labels held out, and queries and gallery of "seen" and "unseen" classes."""

    seed: int
    data: EmbeddingData
    held_out: list[str]
    searches: dict[str, tuple[Rows, Rows]]


def load(args: argparse.Namespace) -> Images:
    """Load the images of the manifest; small pictures are cached in --out."""
    examples = read_class_examples(Manifest(args.data / "manifest.csv"), "label")
    if args.per_label:
        examples = thin_labels(examples, args.per_label)
    cache = args.out / f"pictures-{args.side}.npz"
    if not cache.exists():
        pictures = load_pictures([example.path for example in examples], args.side)
        np.savez(cache, pixels=pictures.pixels, places=pictures.rows, contents=pictures.content_hashes)
    with np.load(cache) as arrays:
        pixels, rows, contents = arrays["pixels"], arrays["places"], arrays["contents"].tolist()
    examples = [examples[row] for row in rows]
    class_names = sorted({example.label for example in examples})
    classes = np.array([class_names.index(example.label) for example in examples], np.int64)
    groups = [example.patient or content for example, content in zip(examples, contents, strict=True)]
    return Images([example.path for example in examples], pixels, classes, class_names, groups)


def thin_labels(examples: list[ClassExample], count: int) -> list[ClassExample]:
    """Return at most `count` random examples of each label, in their order."""
    order = np.random.default_rng(0).permutation(len(examples)).tolist()
    kept: dict[str, list[int]] = {}
    for row in order:
        kept.setdefault(examples[row].label, []).append(row)
    return [examples[row] for row in sorted(row for rows in kept.values() for row in rows[:count])]


def make_trial(images: Images, seed: int) -> Trial:
    """Split by patient and hold labels out."""
    parts = split_by_class([images.names[number] for number in images.classes], images.groups, seed=seed)
    count = len(images.names)
    held_out = np.random.default_rng((seed, 3)).permutation(count)[: round(count * UNSEEN)]
    unseen = np.isin(images.classes, held_out)
    seen_parts = {name: rows[~unseen[rows]] for name, rows in parts.items()}
    unseen_parts = {name: rows[unseen[rows]] for name, rows in parts.items()}
    groups = np.unique(images.groups, return_inverse=True)[1].astype(np.int64)
    parts_to_train = {part: seen_parts[part] for part in PARTS[:2]}
    data = EmbeddingData(images.pixels, images.classes, groups, parts_to_train)
    searches = {
        "seen": (seen_parts["test"], seen_parts["training"]),
        "unseen": (unseen_parts["test"], unseen_parts["training"]),
    }
    return Trial(seed, data, sorted(images.names[number] for number in held_out), searches)


def measure(
    vectors: Floats, bounds: Bounds, trial: Trial, args: argparse.Namespace
) -> dict[str, dict[str, float]]:
    """Measure mAP, P@1 and P@10 on seen and unseen classes: all queries, and --reranked ones with re-ranking."""
    results = {}
    for kind, (queries, gallery) in trial.searches.items():
        results[kind] = _measures(evaluate_embedding(vectors, trial.data, queries, gallery))
        sample = np.random.default_rng((trial.seed, 5)).permutation(queries)[: args.reranked]
        if len(sample):
            scores = evaluate_embedding(vectors, trial.data, sample, gallery)
            results[f"{kind}, {len(sample)} queries"] = _measures(scores)
            name = f"{kind}, {len(sample)} queries re-ranked by {rerank.resolve_name(args.rerank)}"
            results[name] = measure_reranked(vectors, trial, sample, gallery, bounds, args.rerank)
    return results


def _measures(scores: RetrievalScores) -> dict[str, float]:
    return {"map": scores.map, "p_at_1": scores.p_at_1, "p_at_10": scores.p_at_10}


def measure_reranked(
    vectors: Floats, trial: Trial, queries: Rows, gallery: Rows, bounds: Bounds, name: str
) -> dict[str, float]:
    """Measure the same after re-ranking the whole gallery for each query."""
    classes, groups = trial.data.classes, trial.data.groups
    searched = _gallery(vectors[gallery], bounds)
    method = rerank.get(name)
    values = []
    for query in queries.tolist():
        rows = np.flatnonzero(groups[gallery] != groups[query])
        scores = method(vectors[query], rank(vectors[query], searched, rows), searched).scores
        hits = (classes[gallery] == classes[query])[rows[np.argsort(-scores, kind="stable")]]
        if hits.any():
            precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
            values.append((float(precision[hits].mean()), float(hits[0]), float(hits[:10].mean())))
    return dict(zip(MEASURES, np.mean(values, axis=0).tolist(), strict=True))


def _gallery(vectors: Floats, bounds: Bounds) -> Gallery:
    """Build a gallery with its k-NN graph, as a collection does."""
    block = np.ascontiguousarray(vectors)
    graph = Neighbourhood(knn.find_neighbours(block, whitening.fit_space(block, bounds)))
    return Gallery((block,), np.arange(len(block), dtype=np.int64), bounds, graph)


def baseline_vectors(images: Images, training: Rows, args: argparse.Namespace) -> tuple[Floats, Bounds]:
    """Describe every image by huang2012, standardised on the training images; raw values are cached in --out.

    Returns vectors and the bounds of their parts.
    """
    cache = args.out / f"{BASELINE}.npy"
    if not cache.exists():
        describe = descriptors.get(BASELINE)
        np.save(cache, np.array([describe(next(read_images(path))) for path in images.paths], np.float32))
    raw = np.load(cache)
    statistics = normalisation.fit_statistics(raw[training], profile.get(BASELINE))
    return statistics.normalise(raw), normalisation.part_bounds(profile.get(BASELINE), statistics)


def values_file(args: argparse.Namespace) -> Path:
    """Return the file of the values of --encoder."""
    side: str = f"-{args.fine_tune_side}" * bool(args.fine_tune_side)
    return Path(args.out / f"{args.encoder}{side}.npy")


def encoder_values(images: Images, args: argparse.Namespace) -> NDArray[np.float16]:
    """Describe every image by --encoder, at --fine-tune-side if given; values are cached in --out."""
    cache = values_file(args)
    if not cache.exists():
        encoder = encoders.get(args.encoder)
        if args.fine_tune_side:
            backbone = build_trainable(encoder, EmbeddingHead(encoder.dimensions), 1).backbone
            backbone.projection = None
            np.save(cache, apply_network(backbone, trainable_pictures(images, args)).astype(np.float16))
        else:
            np.save(cache, load_features(images.paths, encoder, args.out / "features").pixels)
    values: NDArray[np.float16] = np.load(cache)
    return values


def untouched_vectors(images: Images, trial: Trial, args: argparse.Namespace) -> Floats:
    """Project the values of --encoder as a collection of all training images does, those of unseen classes too."""
    raw = encoder_values(images, args).astype(np.float32)
    collection = np.concatenate([gallery for _, gallery in trial.searches.values()])
    return normalisation.fit_statistics(raw[collection], profile.get(args.encoder)).normalise(raw)


def combine(vectors: Floats, baseline: Floats, bounds: Bounds) -> tuple[Floats, Bounds]:
    """Combine embeddings and huang2012 as the profile MODEL+huang2012 does; return vectors and bounds."""
    start = vectors.shape[1]
    weight = np.float32((profile.BESIDE_WEIGHT / baseline.shape[1]) ** 0.5)
    shifted = tuple((start + begin, start + end) for begin, end in bounds)
    scale = np.float32((start + baseline.shape[1]) ** 0.5)
    return np.hstack([vectors, baseline * weight]) * scale, ((0, start), *shifted)


def run_loss(loss: str, images: Images, trial: Trial, folder: Path, args: argparse.Namespace) -> None:
    """Train and measure one loss, or measure the baseline."""
    data = trial.data
    record: dict[str, Any] = {"loss": loss, "seed": trial.seed, "held_out": trial.held_out, "side": args.side}
    record["images"] = {part: len(rows) for part, rows in data.parts.items()}
    if loss == BASELINE:
        record["results"] = measure(*baseline_vectors(images, data.parts["training"], args), trial, args)
    elif loss == args.encoder:
        record["results"] = measure(untouched_vectors(images, trial, args), (), trial, args)
    else:
        name, options = VARIANTS.get(loss, (loss, LossOptions()))
        recipe = EmbeddingRecipe(
            name, args.epochs, args.classes, args.images, args.rate, patience=args.epochs, seed=trial.seed,
            options=options,
        )  # fmt: skip
        torch.manual_seed(trial.seed)
        started = time.process_time()
        embedder: Embedder | EmbeddingHead
        if args.encoder:
            data = replace(data, pictures=encoder_values(images, args))
            embedder = deepcopy(_start(trial, values_file(args), args.kept))
        else:
            embedder = Embedder(args.backbone, side=args.side)
        outcome = train_embedding(
            embedder, data, recipe, folder, args.device, save_every=30.0, on_epoch=print_epoch
        )
        vectors = apply_network(embedder, data.pictures, args.device)
        record |= {"backbone": args.encoder or args.backbone, "epochs": args.epochs, **outcome}
        record["cpu"] = time.process_time() - started
        record["results"] = measure(vectors, (), trial, args)
        if args.fine_tune:
            assert isinstance(embedder, EmbeddingHead)
            record |= fine_tune(embedder, vectors, recipe, images, trial, folder, args)
        if not args.alone:
            baseline, bounds = baseline_vectors(images, data.parts["training"], args)
            combined = measure(*combine(vectors, baseline, bounds), trial, args)
            record["results"] |= {f"{kind}, with {BASELINE}": values for kind, values in combined.items()}
    folder.with_name(f"{folder.name}.json").write_text(json.dumps(record, indent=1) + "\n")
    shutil.rmtree(folder, ignore_errors=True)


def trainable_pictures(images: Images, args: argparse.Namespace) -> NDArray[np.uint8]:
    """Load the images as --encoder takes them, or as small as --fine-tune-side; pictures are cached in --out."""
    cache = args.out / f"{args.encoder}-pictures.npy"
    if not cache.exists():
        np.save(cache, load_trainable_pictures(images.paths, encoders.get(args.encoder)))
    pictures: NDArray[np.uint8] = np.load(cache)
    if side := args.fine_tune_side:
        pictures = np.array([cv2.resize(one, (side, side), interpolation=cv2.INTER_AREA) for one in pictures])
    return pictures


def fine_tune(
    head: EmbeddingHead,
    frozen: Floats,
    recipe: EmbeddingRecipe,
    images: Images,
    trial: Trial,
    folder: Path,
    args: argparse.Namespace,
) -> dict[str, Any]:
    """Train the last blocks of the encoder from a head, as `cbir train embedding` does.

    Returns the outcome, and AP and P@1 of each query with the `frozen` vectors and those of the trained encoder.
    """
    encoder, tuning = encoders.get(args.encoder), FineTuning(args.fine_tune, args.fine_tune_epochs)
    data = replace(trial.data, pictures=trainable_pictures(images, args))
    started = time.process_time()
    embedder = build_trainable(encoder, head, tuning.blocks)
    outcome = train_embedding(
        embedder, data, tuning.recipe(recipe), folder / "fine-tuning", args.device, save_every=30.0,
        on_epoch=print_epoch,
    )  # fmt: skip
    cpu = time.process_time() - started
    rows = np.unique(np.concatenate([part for search in trial.searches.values() for part in search]))
    tuned = np.zeros_like(frozen)
    tuned[rows] = apply_network(embedder, data.pictures[rows], args.device)
    queries = {
        kind: [query_measures(vectors, trial, kind) for vectors in (frozen, tuned)] for kind in trial.searches
    }
    return {"fine_tuning": outcome | {"blocks": tuning.blocks, "cpu": cpu}, "queries": queries}


def query_measures(vectors: Floats, trial: Trial, kind: str) -> list[list[float]]:
    """Return AP and P@1 of each query that has a relevant image."""
    queries, gallery = trial.searches[kind]
    scores = [evaluate_embedding(vectors, trial.data, query, gallery) for query in queries[:, None]]
    return [[score.map, score.p_at_1] for score in scores if np.isfinite(score.map)]


@lru_cache(maxsize=1)
def _start(trial: Trial, values: Path, kept: float) -> EmbeddingHead:
    """Return the head of a trial before training, which is the same for all losses."""
    return initial_head(replace(trial.data, pictures=np.load(values)), kept=kept)


def print_epoch(history: list[dict[str, float]]) -> None:
    """Print the measures of the last epoch."""
    print("  " + ", ".join(f"{name} {value:.4f}" for name, value in history[-1].items()), flush=True)


def table(results: Sequence[dict[str, Any]], kind: str) -> None:
    """Print a row per loss and number of epochs: means over the seeds, with the lowest and highest mAP."""
    print(f"\n{kind}\n{'':<64}{'mAP':>8}{'lowest':>8}{'highest':>8}{'P@1':>8}{'P@10':>8}{'seeds':>7}{'s':>7}")
    by_loss: dict[str, list[dict[str, Any]]] = {}
    for row in results:
        if kind in row["results"]:
            name = row["loss"] + (f", {row['backbone']}, {row['epochs']} epochs" if "epochs" in row else "")
            by_loss.setdefault(name, []).append(row)
    for loss, rows in by_loss.items():
        mean = {name: float(np.mean([row["results"][kind][name] for row in rows])) for name in MEASURES}
        maps = [row["results"][kind]["map"] for row in rows]
        seconds = float(np.mean([row.get("seconds", 0.0) for row in rows]))
        print(f"{loss:<64}{mean['map']:>8.3f}{min(maps):>8.3f}{max(maps):>8.3f}{mean['p_at_1']:>8.3f}"
              f"{mean['p_at_10']:>8.3f}{len(rows):>7}{seconds:>7.0f}")  # fmt: skip


def differences(results: Sequence[dict[str, Any]], kind: str, reference: str) -> None:
    """Print the difference in mAP of each loss to `reference`: mean over common seeds, and its 95 % interval (t)."""
    by_loss: dict[str, dict[int, float]] = {}
    for row in results:
        if "epochs" in row and kind in row["results"]:
            by_loss.setdefault(row["loss"], {})[row["seed"]] = row["results"][kind]["map"]
    for loss, maps in by_loss.items():
        seeds = sorted(set(maps) & set(by_loss.get(reference, {})))
        if loss != reference and len(seeds) > 1:
            mean, low, high = mean_interval([maps[seed] - by_loss[reference][seed] for seed in seeds])
            print(f"{loss:<40} {kind:<8} {mean:+.3f} ({low:+.3f} to {high:+.3f}) against {reference}, "
                  f"{len(seeds)} seeds")  # fmt: skip


def fine_tuning_table(results: Sequence[dict[str, Any]], kind: str) -> None:
    """Print mAP and P@1 of frozen and trained encoders and their difference, with 95 % bootstrap intervals.

    Queries of all seeds are drawn again, not trainings. The last columns are CPU seconds of head and blocks.
    """
    by_loss: dict[str, list[dict[str, Any]]] = {}
    for row in results:
        if kind in row.get("queries", {}):
            by_loss.setdefault(row["loss"], []).append(row)
    for loss, rows in by_loss.items():
        frozen, tuned = np.concatenate([np.array(row["queries"][kind]) for row in rows], axis=1)
        cells = [
            _interval(values, sign) for values, sign in ((frozen, ""), (tuned, ""), (tuned - frozen, "+"))
        ]
        head, blocks = (
            np.mean([part["cpu"] for part in parts]) for parts in (rows, [r["fine_tuning"] for r in rows])
        )
        print(f"| {loss} | {kind} | {' | '.join(cells)} | {head:.0f} | {blocks:.0f} |")


def _interval(values: NDArray[np.float64], sign: str) -> str:
    """Format the means of AP and P@1, (queries, 2), with their intervals."""
    low, high = bootstrap_intervals(values.T)
    return " | ".join(
        f"{mean:{sign}.3f} ({start:{sign}.3f} to {end:{sign}.3f})"
        for mean, start, end in zip(values.mean(axis=0), low, high, strict=True)
    )


def main() -> None:
    """Run what is missing and print the tables of all results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with manifest.csv")
    parser.add_argument("--out", type=Path, required=True, help="folder for results and checkpoints")
    parser.add_argument(
        "--losses",
        nargs="+",
        help=f"or {BASELINE}, or the encoder; all if not given",
    )
    parser.add_argument(
        "--sodeep", action="store_true", help="the paper's forms and sorters, and the project's own"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--per-label", type=int, default=0, help="most images of a label; 0: all")
    parser.add_argument("--side", type=int, default=64, help="pixels")
    parser.add_argument("--backbone", default="small")
    parser.add_argument("--encoder", help="pretrained encoder, in place of the backbone")
    parser.add_argument(
        "--fine-tune", type=int, default=0, help="last blocks of --encoder to train too; 0: none"
    )
    parser.add_argument("--fine-tune-epochs", type=int, default=3)
    parser.add_argument(
        "--fine-tune-side", type=int, default=0, help="pixels, for frozen values too; 0: the encoder's own"
    )
    parser.add_argument("--kept", type=float, default=KEPT, help="share of the vector that is not trained")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--classes", type=int, default=16, help="classes per batch")
    parser.add_argument("--images", type=int, default=8, help="images of each class per batch")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--rerank", default="auto")
    parser.add_argument("--reranked", type=int, default=300, help="number of queries to re-rank; 0: none")
    parser.add_argument("--alone", action="store_true", help=f"do not combine embeddings with {BASELINE}")
    parser.add_argument("--reference", default="multi-similarity", help="loss that others are compared with")
    parser.add_argument("--threads", type=int, default=0, help="0: all")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    if args.sodeep:
        args.losses = [*VARIANTS, "smooth-ap", "multi-similarity"]
    if args.fine_tune and not args.encoder:
        parser.error("--fine-tune is for a pretrained --encoder")
    args.losses = args.losses or [
        BASELINE, *filter(None, [args.encoder]), *(name for name in names() if name not in ON_GRADES)
    ]  # fmt: skip
    args.out.mkdir(parents=True, exist_ok=True)
    images = load(args)
    for seed in args.seeds:
        trial = make_trial(images, seed)
        for loss in args.losses:
            network = args.encoder or f"{args.backbone}-{args.side}"
            network += f"-tuned-{args.fine_tune}-{args.fine_tune_side}" * bool(args.fine_tune)
            folder = args.out / f"{re.sub('[^a-z0-9]+', '-', loss.lower())}-{network}-{args.epochs}-{seed}"
            if not folder.with_name(f"{folder.name}.json").exists():
                print(f"{loss}, seed {seed}", flush=True)
                run_loss(loss, images, trial, folder, args)
    results = [json.loads(path.read_text()) for path in sorted(args.out.glob("*.json"))]
    for kind in dict.fromkeys(kind for row in results for kind in row["results"]):
        table(results, kind)
    for kind in ("seen", "unseen"):
        differences(results, kind, args.reference)
    for kind in ("seen", "unseen"):
        fine_tuning_table(results, kind)


if __name__ == "__main__":
    main()
