"""Manifest of an IRMA release, for `cbir index --labels`."""

from collections.abc import Iterator
from pathlib import Path

from cbir.evaluation.datasets.irma.code_tree import CodeTree
from cbir.evaluation.datasets.irma.codes import CLUTTER
from cbir.evaluation.datasets.irma.label_files import label_kind
from cbir.evaluation.datasets.irma.release import IrmaImage, Release
from cbir.evaluation.datasets.manifest_writer import write_manifest


def write_irma_manifest(
    release: Release, out: Path, tree: CodeTree | None = None, split: str | None = None
) -> int:
    """Write path, irma_id, split, label, irma_code or irma_class, and with a tree irma_words.

    Parameters
    ----------
    release : Release
    out : Path
        The csv.
    tree : CodeTree, optional
        For codes in words.
    split : {"train", "test"}, optional
        By default both.

    Returns
    -------
    int
        Number of rows. `label` repeats the code or class: it is the default of evaluation and tuning.
    """
    label_name = f"irma_{label_kind(release.labelling)}"
    with_words = tree is not None and label_name == "irma_code"
    columns = ["irma_id", "split", "label", label_name, *(["irma_words"] if with_words else [])]
    items = [item for item in release.items if split in (None, item.split)]
    return write_manifest(out, columns, _rows(items, label_name, tree if with_words else None))


def _rows(
    items: list[IrmaImage], label_name: str, tree: CodeTree | None
) -> Iterator[tuple[Path, dict[str, str]]]:
    for item in items:
        labels = {"irma_id": item.image_id, "split": item.split}
        if item.label:
            labels |= {"label": item.label, label_name: item.label}
            if tree and item.label != CLUTTER:
                labels["irma_words"] = tree.words(item.label)
        yield item.path, labels
