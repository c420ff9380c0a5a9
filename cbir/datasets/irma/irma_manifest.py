"""An IRMA release as a manifest for `cbir index --labels`."""

from collections.abc import Iterator
from pathlib import Path

from cbir.datasets.irma.code_tree import CodeTree
from cbir.datasets.irma.codes import CLUTTER
from cbir.datasets.irma.label_files import label_kind
from cbir.datasets.irma.release import IrmaImage, Release
from cbir.datasets.manifest_writer import write_manifest


def write_irma_manifest(release: Release, out: Path, tree: CodeTree | None = None, split: str | None = None) -> int:
    """Write path, irma_id, split, label, irma_code or irma_class, and with a tree irma_words; how many rows.

    `label` repeats the code or class: it is what measuring and tuning ask for unless told otherwise.
    """
    of_what = f"irma_{label_kind(release.labelling)}"
    worded = tree is not None and of_what == "irma_code"
    columns = ["irma_id", "split", "label", of_what, *(["irma_words"] if worded else [])]
    chosen = [item for item in release.items if split in (None, item.split)]
    return write_manifest(out, columns, _rows(chosen, of_what, tree if worded else None))


def _rows(items: list[IrmaImage], of_what: str, tree: CodeTree | None) -> Iterator[tuple[Path, dict[str, str]]]:
    for item in items:
        labels = {"irma_id": item.image_id, "split": item.split}
        if item.label:
            labels |= {"label": item.label, of_what: item.label}
            if tree and item.label != CLUTTER:
                labels["irma_words"] = tree.words(item.label)
        yield item.path, labels
