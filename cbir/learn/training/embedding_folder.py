"""Train an embedding from a manifest into a folder with its weights, card, report and training history."""

import csv
from collections import Counter
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision

import cbir
from cbir.descriptors import encoders
from cbir.descriptors.networks.embedder import KEPT, Embedder, EmbeddingHead, save_embedder
from cbir.evaluation.report.charts import require_matplotlib
from cbir.ingest.manifest import Manifest
from cbir.learn.losses import ON_GRADES
from cbir.learn.models.scoring_network import apply_network
from cbir.learn.training.embedding_export import (
    ReportedEmbedding,
    save_encoder_embedding,
    write_embedding_report,
)
from cbir.learn.training.embedding_training import (
    EmbeddingData,
    EmbeddingRecipe,
    evaluate_embedding,
    initial_head,
    train_embedding,
)
from cbir.learn.training.fine_tuning import (
    FineTuning,
    build_trainable,
    check_trainable,
    fine_tuning_notes,
    load_trainable_pictures,
    trained_encoder,
)
from cbir.learn.training.labelled_examples import (
    ClassExample,
    Parts,
    order_classes,
    read_class_examples,
    split_by_class,
)
from cbir.learn.training.picture_loading import (
    StageCallback,
    TrainingImages,
    load_training_features,
    load_training_images,
)
from cbir.learn.training.training_run import History
from cbir.system.files import atomic_text, file_sha256, private_folder

INTENDED_USE = (
    "Research: finding images that look alike, among images of the kinds it was trained on. Not a medical device. "
    "On images of other kinds, devices or populations nothing is known of its vectors."
)


@dataclass(frozen=True)
class EmbeddingTask:
    """Images to learn from, and the network to train.

    Attributes
    ----------
    manifest : Path
        CSV file with a column path, and labels.
    column : str
        Column of the classes.
    where : tuple of str
        Conditions that a row must fulfil.
    backbone, pooling, dimensions, side, weights
        See `Embedder`.
    encoder : str, optional
        Pretrained encoder in place of the backbone: a head with `dimensions` is trained on its values.
    kept : float
        See `EmbeddingHead`.
    fine_tuning : FineTuning, optional
        Train blocks of the encoder too, from this head.
    """

    manifest: Path
    column: str = "label"
    where: tuple[str, ...] = ()
    backbone: str = "small"
    pooling: str = "gem"
    dimensions: int = 128
    side: int = 64
    weights: str | None = None
    encoder: str | None = None
    kept: float = KEPT
    fine_tuning: FineTuning | None = None


def train_embedding_folder(
    task: EmbeddingTask,
    recipe: EmbeddingRecipe,
    folder: Path,
    device: str = "cpu",
    save_every: float = 60.0,
    show: StageCallback = lambda stage, done, total, text: None,
) -> dict[str, Any]:
    """Train an embedding and write weights, card, report.html, split.csv, history.csv and TensorBoard events.

    Of the patients (of the pictures, if none are named) 60 % are for training, 20 % each for validation and test,
    class by class.

    Parameters
    ----------
    task : EmbeddingTask
        Images and network.
    recipe : EmbeddingRecipe
        Options of the training; its seed also decides the split.
    folder : Path
        Folder for checkpoint and results; created.
    device : str
        cpu or cuda.
    save_every : float
        Seconds between checkpoints.
    show : callable
        Receives the stage, steps done, all steps and a text.

    Returns
    -------
    dict
        Content of the card, and "notes" for the user.

    Raises
    ------
    InvalidInput
        If an option or the images do not fit.
    NotFound
        If files are missing.
    """
    require_matplotlib()  # for the report
    recipe.options.build(
        recipe.loss, task.dimensions, classes=2
    )  # refuses what does not fit before long work
    examples = read_class_examples(Manifest(task.manifest), task.column, task.where, recipe.loss in ON_GRADES)
    encoder = encoders.get(task.encoder) if task.encoder else None
    if encoder and task.fine_tuning:
        check_trainable(encoder.name)
    images = (
        load_training_features(examples, encoder, show)
        if encoder
        else load_training_images(examples, task.side, show)
    )
    names = order_classes([example.label for example in images.examples])
    data = _embedding_data(images, names, recipe.seed)
    torch.manual_seed(recipe.seed)
    embedder: Embedder | EmbeddingHead = (
        initial_head(data, task.dimensions, task.kept)
        if encoder
        else Embedder(task.backbone, task.pooling, task.dimensions, task.side, task.weights)
    )
    private_folder(folder)
    _write_split(folder, task, images.examples, data.parts)

    def progress(step: int, steps: int, loss: float, best: float) -> None:
        show("training", step, steps, f"loss {loss:.4f}" + (f", mAP {best:.3f}" if best >= 0 else ""))

    outcome = train_embedding(
        embedder, data, recipe, folder, device, save_every, progress, partial(_write_history, folder)
    )
    notes = images.notes()
    if encoder and task.fine_tuning:
        head_outcome, paths = outcome, [example.path for example in images.examples]
        data = replace(data, pictures=load_trainable_pictures(paths, encoder, show))
        embedder = build_trainable(encoder, embedder, task.fine_tuning.blocks)
        outcome = train_embedding(
            embedder, data, task.fine_tuning.recipe(recipe), folder / "fine-tuning", device, save_every, progress,
            partial(_write_history, folder),
        )  # fmt: skip
        notes += fine_tuning_notes(head_outcome, outcome)
    show("testing", 0, 1, "")
    vectors = apply_network(embedder, data.pictures, device)
    facts = {
        "data": _describe_data(task, images, data.parts),
        "training": asdict(recipe)
        | {"options": recipe.options.facts(), "weights": task.weights, "device": device}
        | {"fine_tuning": asdict(task.fine_tuning) if task.fine_tuning else None}
        | {name: outcome[name] for name in ("best_epoch", "seconds", "images_a_second")},
        "results": {name: _measure(vectors, data, name) for name in ("validation", "test")},
        "intended_use": INTENDED_USE,
        "versions": {"cbir": cbir.__version__, "torch": torch.__version__, "torchvision": torchvision.__version__},
    }  # fmt: skip
    if isinstance(embedder, Embedder):
        save_embedder(embedder, folder, facts if encoder is None else {**facts, **trained_encoder(encoder)})
    elif encoder:
        save_encoder_embedding(embedder, encoder, folder, facts)
    reported = ReportedEmbedding(vectors, data, names, images)
    title = f"Embedding of {task.column}"
    write_embedding_report(folder, title, reported, outcome["history"], facts, recipe.seed)
    show("testing", 1, 1, "")
    return {**facts, "notes": notes}


def _embedding_data(images: TrainingImages[ClassExample], names: list[str], seed: int) -> EmbeddingData:
    labels = [example.label for example in images.examples]
    classes = np.array([names.index(label) for label in labels], np.int64)
    parts = split_by_class(labels, images.groups, seed=seed)
    groups = np.unique(images.groups, return_inverse=True)[1].astype(np.int64)
    return EmbeddingData(images.pictures.pixels, classes, groups, parts)


def _describe_data(task: EmbeddingTask, images: TrainingImages[ClassExample], parts: Parts) -> dict[str, Any]:
    by_patient = "patient where one is named, else by picture"
    return {
        "manifest_sha256": file_sha256(task.manifest),
        "column": task.column,
        "where": list(task.where),
        "classes": dict(Counter(example.label for example in images.examples)),
        "images": {name: len(rows) for name, rows in parts.items()},
        "split_by": by_patient if images.has_patients else "picture: no patients are named",
    }


def _measure(vectors: Any, data: EmbeddingData, part: str) -> dict[str, float]:
    scores = evaluate_embedding(vectors, data, data.parts[part], data.parts["training"])
    return {name: round(getattr(scores, name), 4) for name in ("map", "p_at_1", "p_at_10")}


def _write_split(folder: Path, task: EmbeddingTask, examples: list[ClassExample], parts: Parts) -> None:
    """Write split.csv: a manifest of the readable images with their part, which `cbir index --labels` accepts.

    Patients are numbered; the hash before the number keeps those of different manifests apart.
    """
    manifest = file_sha256(task.manifest)[:12]
    named = dict.fromkeys(example.patient for example in examples if example.patient)
    pseudonyms = {patient: f"{manifest}-{number}" for number, patient in enumerate(named, 1)}
    part_of = {int(row): name for name, rows in parts.items() for row in rows}
    columns = dict.fromkeys(["path", *(name for example in examples for name in example.labels), "split"])
    with atomic_text(folder / "split.csv") as file:
        writer = csv.DictWriter(file, list(columns))
        writer.writeheader()
        for row, example in enumerate(examples):
            row_of_file = example.labels | {"path": example.path, "split": part_of[row]}
            if example.patient:
                row_of_file["patient"] = pseudonyms[example.patient]
            writer.writerow(row_of_file)


def _write_history(folder: Path, history: History) -> None:
    """Write the epochs to history.csv, and for TensorBoard."""
    with atomic_text(folder / "history.csv") as file:
        writer = csv.DictWriter(file, ["epoch", *history[0]])
        writer.writeheader()
        writer.writerows({"epoch": epoch, **row} for epoch, row in enumerate(history, 1))
    from torch.utils.tensorboard import SummaryWriter

    events = folder / "events"
    private_folder(events)  # TensorBoard would let everyone read them
    for old in events.glob("events.*"):
        old.unlink()
    with closing(SummaryWriter(str(events))) as board:
        for epoch, row in enumerate(history, 1):
            for name, value in row.items():
                board.add_scalar(name, value, epoch)
