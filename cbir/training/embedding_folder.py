"""From a manifest to a folder with a trained embedding, its card and its report."""

import csv
import hashlib
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision
from numpy.typing import NDArray

import cbir
from cbir import settings
from cbir.datasets.manifest import Manifest
from cbir.errors import InvalidInput
from cbir.images import Limits
from cbir.losses import ORDINAL
from cbir.models.embedder import Embedder, save_embedder
from cbir.training.class_examples import (
    ClassExample,
    order_classes,
    read_class_examples,
    require_numeric_classes,
    split_by_class,
)
from cbir.training.embedding_report import ReportedEmbedding, write_embedding_report
from cbir.training.embedding_training import (
    EmbeddingData,
    EmbeddingRecipe,
    embed_pictures,
    retrieve_classes,
    train_embedding,
)
from cbir.training.picture_loading import LoadedPictures, load_pictures

NAMED = 5  # files that could not be read and are named
INTENDED_USE = (
    "Research: finding images that look alike, among images of the kinds it was trained on. Not a medical device. "
    "On images of other kinds, devices or populations nothing is known of its vectors."
)
Show = Callable[[str, int, int, str], None]


@dataclass(frozen=True)
class EmbeddingTask:
    """What to learn. column: of the manifest, whose values are the classes; where: conditions that rows must fulfil.

    backbone, pooling, dimensions, side, weights: as `Embedder` takes them.
    """

    manifest: Path
    column: str = "label"
    where: tuple[str, ...] = ()
    backbone: str = "small"
    pooling: str = "gem"
    dimensions: int = 128
    side: int = 64
    weights: str | None = None


def train_embedding_folder(
    task: EmbeddingTask,
    recipe: EmbeddingRecipe,
    folder: Path,
    device: str = "cpu",
    save_every: float = 60.0,
    show: Show = lambda stage, done, total, told: None,
) -> dict[str, Any]:
    """Train an embedding; into `folder` go weights, card, report.html, split.csv, history.csv, TensorBoard's events.

    60 % of the patients (of the pictures, where none are named) are for training, 20 for validation, 20 for the test,
    each class on its own. Returns the card, and "notes" for the person. show: is told stage, steps done, steps in
    all, and a few words. Raises InvalidInput for what does not fit, NotFound where files are missing.
    """
    rows = read_class_examples(Manifest(task.manifest), task.column, task.where)
    if recipe.loss == ORDINAL:
        require_numeric_classes([row.label for row in rows], task.column)
    limits = Limits(pixels=settings.load().max_pixels)
    paths = [row.path for row in rows]
    pictures = load_pictures(paths, task.side, limits, lambda done: show("reading", done, len(paths), ""))
    if len(pictures.refused) > len(pictures.places):
        raise InvalidInput(f"most files cannot be read; the first: {pictures.refused[0]}")
    rows = [rows[place] for place in pictures.places]
    material, names, known = _material(rows, pictures, recipe.seed)
    torch.manual_seed(recipe.seed)
    embedder = Embedder(task.backbone, task.pooling, task.dimensions, task.side, task.weights)
    folder.mkdir(parents=True, exist_ok=True)

    def progress(step: int, steps: int, loss: float, reached: float) -> None:
        show("training", step, steps, f"loss {loss:.4f}" + (f", mAP {reached:.3f}" if reached >= 0 else ""))

    _keep_split(folder, rows, material.parts)
    told = train_embedding(
        embedder, material, recipe, folder, device, save_every, progress, partial(_keep_history, folder)
    )
    show("testing", 0, 1, "")
    vectors = embed_pictures(embedder, pictures.pixels, device)
    parts = material.parts
    results = {
        name: _measured(retrieve_classes(vectors, material.classes, material.groups, parts[name], parts["training"]))
        for name in ("validation", "test")
    }
    facts = {
        "data": {
            "manifest_sha256": hashlib.sha256(task.manifest.read_bytes()).hexdigest(),
            "column": task.column,
            "where": list(task.where),
            "classes": dict(Counter(row.label for row in rows)),
            "images": {name: len(places) for name, places in parts.items()},
            "split_by": "patient where one is named, else by picture" if known else "picture: no patients are named",
        },
        "training": asdict(recipe) | {"weights": task.weights, "device": device}
        | {name: told[name] for name in ("best_epoch", "seconds", "images_a_second")},
        "results": results,
        "intended_use": INTENDED_USE,
        "versions": {"cbir": cbir.__version__, "torch": torch.__version__, "torchvision": torchvision.__version__},
    }  # fmt: skip
    save_embedder(embedder, folder, facts)
    shown = ReportedEmbedding(vectors, material, names, paths=[row.path for row in rows], contents=pictures.contents,
                  burned_in=pictures.burned_in)  # fmt: skip
    write_embedding_report(folder, f"Embedding of {task.column}", shown, told["history"], facts, limits.pixels, recipe.seed)
    show("testing", 1, 1, "")
    return {**facts, "notes": _notes(pictures.refused, known)}


def _material(rows: list[ClassExample], pictures: LoadedPictures, seed: int) -> tuple[EmbeddingData, list[str], bool]:
    """What is trained with, the names of the classes, and whether any patient is known."""
    people = [row.patient or header for row, header in zip(rows, pictures.patients, strict=True)]
    groups = [
        person or f"picture {content}" for person, content in zip(people, pictures.contents, strict=True)
    ]
    names = order_classes([row.label for row in rows])
    number = {name: place for place, name in enumerate(names)}
    classes = np.array([number[row.label] for row in rows], np.int64)
    parts = split_by_class([row.label for row in rows], groups, seed=seed)
    numbered = np.unique(groups, return_inverse=True)[1].astype(np.int64)
    return EmbeddingData(pictures.pixels, classes, numbered, parts), names, any(people)


def _measured(found: Any) -> dict[str, float]:
    return {"map": round(found.map, 4), "p_at_1": round(found.p_at_1, 4), "p_at_10": round(found.p_at_10, 4)}


def _keep_split(folder: Path, rows: list[ClassExample], parts: dict[str, NDArray[np.int64]]) -> None:
    """The manifest of the images that were read, and the part of each; `cbir index --labels` takes it."""
    part = {int(place): name for name, places in parts.items() for place in places}
    columns = dict.fromkeys(["path", *(name for row in rows for name in row.labels), "split"])
    with (folder / "split.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(columns))
        writer.writeheader()
        for place, row in enumerate(rows):
            writer.writerow(row.labels | {"path": row.path, "split": part[place]})


def _keep_history(folder: Path, history: list[dict[str, float]]) -> None:
    """The epochs as csv, and for TensorBoard."""
    with (folder / "history.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["epoch", *history[0]])
        writer.writeheader()
        writer.writerows({"epoch": epoch, **row} for epoch, row in enumerate(history, 1))
    from torch.utils.tensorboard import SummaryWriter

    events = folder / "events"
    for old in events.glob("events.*"):
        old.unlink()
    with closing(SummaryWriter(str(events))) as board:
        for epoch, row in enumerate(history, 1):
            for name, value in row.items():
                board.add_scalar(name, value, epoch)


def _notes(refused: list[str], known: bool) -> list[str]:
    """What the person should know about the images."""
    notes = [f"left out: {line}" for line in refused[:NAMED]]
    if len(refused) > NAMED:
        notes.append(f"left out: {len(refused) - NAMED} more files that cannot be read")
    if not known:
        notes.append(
            "no patients are known: images of one patient may stand in training and test, which flatters"
        )
    return notes
