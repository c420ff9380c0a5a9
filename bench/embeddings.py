"""How well embeddings of every loss find images of their class, against huang2012 and with it, re-ranked and not.

Every loss trains the same network from the same start, as many batches of as many images. A third of the labels is
held out of training. Queries are images of the test part; on seen classes they look among the images for training, on
unseen ones among the images of those classes that lie in the part for training. Patients stay together and are not
compared (where none is named, a picture is its own); a seed draws the split, the labels held out and the start. What
was done is kept in --out and not done again; a training that was stopped goes on.

    python bench/embeddings.py --data FOLDER --out FOLDER [--losses sodeep-map smooth-ap] [--seeds 0 1 2] [--epochs 9]
"""

import argparse
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cbir import descriptors, rerank
from cbir.datasets.manifest import Manifest
from cbir.evaluation.metrics.vector_retrieval import Retrieved
from cbir.gallery import knn, whitening
from cbir.gallery.gallery import Gallery
from cbir.gallery.live_graph import Neighbourhood
from cbir.gallery.ranking import rank
from cbir.images import read_images
from cbir.losses import ORDINAL, names
from cbir.models.embedder import Embedder
from cbir.store import profile, statistics, view
from cbir.training.class_examples import read_class_examples, split_by_class
from cbir.training.embedding_training import (
    EmbeddingData,
    EmbeddingRecipe,
    embed_pictures,
    retrieve_classes,
    train_embedding,
)
from cbir.training.picture_loading import load_pictures
from cbir.training.ranker_examples import PARTS

RIVAL = "huang2012"
UNSEEN = 1 / 3  # of the labels
MEASURES = ("map", "p_at_1", "p_at_10")
Floats = NDArray[np.float32]
Places = NDArray[np.int64]
Parts = tuple[tuple[int, int], ...]  # of a descriptor: start and stop of each


@dataclass(frozen=True, eq=False)
class Images:
    """n images: files, grey pictures (n, side, side), classes (n,) from 0, their names, and groups (n,)."""

    paths: list[Path]
    pixels: NDArray[np.uint8]
    classes: Places
    names: list[str]
    groups: list[str]


@dataclass(frozen=True, eq=False)
class Trial:
    """What one seed decides: material to train with, and queries and gallery of "seen" and "unseen" classes."""

    seed: int
    material: EmbeddingData
    held_out: list[str]
    looked_for: dict[str, tuple[Places, Places]]


def load(args: argparse.Namespace) -> Images:
    """The images of the manifest, kept as small pictures in --out."""
    rows = read_class_examples(Manifest(args.data / "manifest.csv"), "label")
    cache = args.out / f"pictures-{args.side}.npz"
    if not cache.exists():
        found = load_pictures([row.path for row in rows], args.side)
        np.savez(cache, pixels=found.pixels, places=found.places, contents=found.contents)
    with np.load(cache) as kept:
        pixels, places, contents = kept["pixels"], kept["places"], kept["contents"].tolist()
    rows = [rows[place] for place in places]
    called = sorted({row.label for row in rows})
    classes = np.array([called.index(row.label) for row in rows], np.int64)
    groups = [row.patient or content for row, content in zip(rows, contents, strict=True)]
    return Images([row.path for row in rows], pixels, classes, called, groups)


def trial(images: Images, seed: int) -> Trial:
    """Split by patient, hold labels out."""
    parts = split_by_class([images.names[of] for of in images.classes], images.groups, seed=seed)
    count = len(images.names)
    held_out = np.random.default_rng((seed, 3)).permutation(count)[: round(count * UNSEEN)]
    unseen = np.isin(images.classes, held_out)
    known = {name: places[~unseen[places]] for name, places in parts.items()}
    new = {name: places[unseen[places]] for name, places in parts.items()}
    groups = np.unique(images.groups, return_inverse=True)[1].astype(np.int64)
    material = EmbeddingData(images.pixels, images.classes, groups, {part: known[part] for part in PARTS[:2]})
    looked_for = {
        "seen": (known["test"], known["training"]),
        "unseen": (new["test"], new["training"]),
    }
    return Trial(seed, material, sorted(images.names[of] for of in held_out), looked_for)


def measured(
    vectors: Floats, parts: Parts, of: Trial, args: argparse.Namespace
) -> dict[str, dict[str, float]]:
    """mAP, P@1 and P@10 on seen and unseen classes, of all queries, and of --reranked ones re-ranked and not."""
    classes, groups = of.material.classes, of.material.groups
    found = {}
    for kind, (queries, gallery) in of.looked_for.items():
        found[kind] = _told(retrieve_classes(vectors, classes, groups, queries, gallery))
        some = np.random.default_rng((of.seed, 5)).permutation(queries)[: args.reranked]
        if len(some):
            found[f"{kind}, {len(some)} queries"] = _told(retrieve_classes(vectors, classes, groups, some, gallery))
            name = f"{kind}, {len(some)} queries re-ranked by {rerank.resolve_name(args.rerank)}"
            found[name] = reranked(vectors, of, some, gallery, parts, args.rerank)
    return found


def _told(found: Retrieved) -> dict[str, float]:
    return {"map": found.map, "p_at_1": found.p_at_1, "p_at_10": found.p_at_10}


def reranked(
    vectors: Floats, of: Trial, queries: Places, gallery: Places, parts: Parts, name: str
) -> dict[str, float]:
    """The same measures after re-ranking the whole gallery for each query."""
    classes, groups = of.material.classes, of.material.groups
    among = _gallery(vectors[gallery], parts)
    method = rerank.get(name)
    values = []
    for query in queries.tolist():
        rows = np.flatnonzero(groups[gallery] != groups[query])
        scores = method(vectors[query], rank(vectors[query], among, rows), among).scores
        hits = (classes[gallery] == classes[query])[rows[np.argsort(-scores, kind="stable")]]
        if hits.any():
            precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
            values.append((float(precision[hits].mean()), float(hits[0]), float(hits[:10].mean())))
    return dict(zip(MEASURES, np.mean(values, axis=0).tolist(), strict=True))


def _gallery(vectors: Floats, parts: Parts) -> Gallery:
    """With neighbours, as a collection has them."""
    block = np.ascontiguousarray(vectors)
    lie = Neighbourhood(knn.find(block, whitening.fit(block, parts)))
    return Gallery((block,), np.arange(len(block), dtype=np.int64), parts, lie)


def rival_vectors(images: Images, training: Places, args: argparse.Namespace) -> Floats:
    """huang2012 of every image, standardised with the images for training; the raw values are kept in --out."""
    cache = args.out / f"{RIVAL}.npy"
    if not cache.exists():
        describe = descriptors.get(RIVAL)
        np.save(cache, np.array([describe(next(read_images(path))) for path in images.paths], np.float32))
    raw = np.load(cache)
    return statistics.fit(raw[training], profile.get(RIVAL)).normalise(raw)


def with_rival(vectors: Floats, rival: Floats, parts: Parts) -> tuple[Floats, Parts]:
    """Embeddings and huang2012 as the profile MODEL+huang2012 has them, and the parts of that."""
    start = vectors.shape[1]
    weight = np.float32((profile.BESIDE_WEIGHT / rival.shape[1]) ** 0.5)
    moved = tuple((start + begin, start + end) for begin, end in parts)
    scale = np.float32((start + rival.shape[1]) ** 0.5)
    return np.hstack([vectors, rival * weight]) * scale, ((0, start), *moved)


def one_run(loss: str, images: Images, of: Trial, kept: Path, args: argparse.Namespace) -> None:
    """Train and measure one loss, or measure the rival."""
    about: dict[str, Any] = {"loss": loss, "seed": of.seed, "held_out": of.held_out, "side": args.side}
    about["images"] = {part: len(places) for part, places in of.material.parts.items()}
    rival, parts = rival_vectors(images, of.material.parts["training"], args), view.parts(profile.get(RIVAL))
    if loss == RIVAL:
        about["results"] = measured(rival, parts, of, args)
    else:
        recipe = EmbeddingRecipe(
            loss, args.epochs, args.classes, args.images, args.rate, patience=args.epochs, seed=of.seed
        )
        torch.manual_seed(of.seed)
        embedder = Embedder(args.backbone, side=args.side)
        told = train_embedding(embedder, of.material, recipe, kept, args.device, save_every=30.0, told=_say)
        vectors = embed_pictures(embedder, images.pixels, args.device)
        about |= {"backbone": args.backbone, "epochs": args.epochs, **told}
        about["results"] = measured(vectors, (), of, args)
        both = measured(*with_rival(vectors, rival, parts), of, args)
        about["results"] |= {f"{kind}, with {RIVAL}": values for kind, values in both.items()}
    kept.with_name(f"{kept.name}.json").write_text(json.dumps(about, indent=1) + "\n")
    shutil.rmtree(kept, ignore_errors=True)


def _say(history: list[dict[str, float]]) -> None:
    print("  " + ", ".join(f"{name} {value:.4f}" for name, value in history[-1].items()), flush=True)


def table(results: Sequence[dict[str, Any]], kind: str) -> None:
    """A row for each loss and number of epochs: means over the seeds, with the lowest and highest mAP."""
    print(f"\n{kind}\n{'':<28}{'mAP':>8}{'lowest':>8}{'highest':>8}{'P@1':>8}{'P@10':>8}{'seeds':>7}{'s':>7}")
    by_loss: dict[str, list[dict[str, Any]]] = {}
    for row in results:
        if kind in row["results"]:
            name = row["loss"] + (f", {row['epochs']} epochs" if "epochs" in row else "")
            by_loss.setdefault(name, []).append(row)
    for loss, rows in by_loss.items():
        mean = {name: float(np.mean([row["results"][kind][name] for row in rows])) for name in MEASURES}
        maps = [row["results"][kind]["map"] for row in rows]
        seconds = float(np.mean([row.get("seconds", 0.0) for row in rows]))
        print(f"{loss:<28}{mean['map']:>8.3f}{min(maps):>8.3f}{max(maps):>8.3f}{mean['p_at_1']:>8.3f}"
              f"{mean['p_at_10']:>8.3f}{len(rows):>7}{seconds:>7.0f}")  # fmt: skip


def main() -> None:
    """Run what is missing, and print the tables of what there is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with manifest.csv")
    parser.add_argument("--out", type=Path, required=True, help="folder for results and checkpoints")
    parser.add_argument(
        "--losses",
        nargs="+",
        default=[RIVAL, *(name for name in names() if name != ORDINAL)],
        help=f"or {RIVAL}; all if not given",
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--side", type=int, default=64, help="pixels")
    parser.add_argument("--backbone", default="small")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--classes", type=int, default=16, help="of a batch")
    parser.add_argument("--images", type=int, default=8, help="of each class in a batch")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--rerank", default="auto")
    parser.add_argument("--reranked", type=int, default=300, help="queries that are re-ranked, too; 0: none")
    parser.add_argument("--threads", type=int, default=0, help="0: all")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    images = load(args)
    for seed in args.seeds:
        of = trial(images, seed)
        for loss in args.losses:
            kept = args.out / f"{loss}-{args.backbone}-{args.side}-{args.epochs}-{seed}"
            if not kept.with_name(f"{kept.name}.json").exists():
                print(f"{loss}, seed {seed}", flush=True)
                one_run(loss, images, of, kept, args)
    results = [json.loads(path.read_text()) for path in sorted(args.out.glob("*.json"))]
    for kind in dict.fromkeys(kind for row in results for kind in row["results"]):
        table(results, kind)


if __name__ == "__main__":
    main()
