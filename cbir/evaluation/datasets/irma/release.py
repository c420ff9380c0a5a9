"""Reader of the IRMA releases of 2005 to 2009: images, labels, reasons why some are dropped, and their manifest."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cbir.errors import InvalidInput, NotFound
from cbir.evaluation.datasets.dataset_manifests import write_manifest
from cbir.evaluation.datasets.irma import label_files
from cbir.evaluation.datasets.irma.codes import CLUTTER, CodeTree, strip_zeros
from cbir.evaluation.datasets.irma.label_files import DropLog, LabelFile, label_kind

YEARS = ("2005", "2006", "2007", "2008", "2009")

ERRATA = {"1121-120-450-700", "1121-120-700-400", "1121-490-913-700"}  # to be dropped from training, 2009

CLASS_FOLDER = re.compile(r"train0*(\d{1,3})", re.IGNORECASE)

SPLIT = re.compile(r"(?i:(?<![a-z])(train|test))|(?<=[a-z])(Train|Test)")


@dataclass(frozen=True)
class IrmaImage:
    """One image.

    split: "train" or "test". label: a class or a code, None for a test image without one.
    """

    path: Path
    image_id: str
    split: str
    label: str | None


@dataclass
class Release(DropLog):
    """Images of a release.

    labelling: year of the classes (2005, 2006) or codes (2007, 2008). dropped: images, rows or files by reason.
    """

    year: str
    labelling: str
    items: list[IrmaImage] = field(default_factory=list)


def read_release(
    folder: Path, year: str | None = None, labelling: str | None = None, tree: CodeTree | None = None
) -> Release:
    """Read a release, nested or flat, with or without leading zeros in file names.

    Parameters
    ----------
    folder : Path
    year : str, optional
        Recognised by its files by default.
    labelling : str, optional
        Of the release of 2009, by default 2008; other years have one.
    tree : CodeTree, optional
        Codes that it lacks are dropped.

    Raises
    ------
    NotFound
        If the folder is missing.
    InvalidInput
        If the folder is not a release, or has no usable image.
    """
    if not folder.is_dir():
        raise NotFound(f"there is no folder {folder}")
    images, lists = _find_files(folder)
    year = year or _recognise_year(folder, images, lists)
    if year not in YEARS:
        raise InvalidInput(f"unknown release {year}; the releases are {', '.join(YEARS)}")
    labelling = _resolve_labelling(year, labelling)
    release = Release(year, labelling)
    tables = _read_tables(release, lists)
    _match(release, folder, images, tables)
    _drop_unusable(release, tree)
    release.items.sort(key=lambda item: (item.split != "train", len(item.image_id), item.image_id))
    if not release.items:
        reasons = "; ".join(f"{reason}: {len(dropped)}" for reason, dropped in release.dropped.items())
        raise InvalidInput(
            f"{folder} has no usable image of the release {year}" + (f" ({reasons})" if reasons else "")
        )
    return release


def _resolve_labelling(year: str, labelling: str | None) -> str:
    default = "2008" if year == "2009" else year
    possible = YEARS[:-1] if year == "2009" else (default,)
    if labelling and labelling not in possible:
        raise InvalidInput(f"the release {year} has the labelling {', '.join(possible)}, not {labelling}")
    return labelling or default


def _find_files(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return images and possible label files, sorted, without hidden ones (`._7.png` of macOS)."""
    images, lists = [], []
    for parent, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            path, suffix = Path(parent, name), Path(name).suffix.lower()
            if suffix == ".png" and not name.startswith("."):
                images.append(path)
            elif suffix in (".csv", ".txt") and not name.startswith(".") and label_files.is_label_list(path):
                lists.append(path)
    return images, lists


def _recognise_year(folder: Path, images: list[Path], lists: list[Path]) -> str:
    if any(path.suffix.lower() == ".csv" for path in lists):
        return "2009"
    classes = {label for path in images if (label := _class(path))}
    if classes:
        return "2005" if max(map(int, classes)) <= 57 else "2006"
    for path in lists:
        if year := re.search(r"200[5-8]", path.name):
            return year[0]
    raise InvalidInput(
        f"{folder} is not recognised as an IRMA release: it has no folders Train01 and so on, no csv, and "
        "no list of codes with a year in its name; if it is one, name the year"
    )


def _class(path: Path) -> str | None:
    """Return the class that the folder of an image is named by, as in `Train07`."""
    matched = CLASS_FOLDER.fullmatch(path.parent.name)
    return strip_zeros(matched[1]) if matched else None


def _split(name: str) -> str | None:
    match = SPLIT.search(name)
    return (match[1] or match[2]).lower() if match else None


def _read_tables(release: Release, lists: list[Path]) -> dict[str, LabelFile]:
    """Return labels by split, "" for files that do not name one."""
    tables: dict[str, LabelFile] = {}
    for path in lists:
        split = _split(path.name) or ""
        if path.suffix.lower() != ".csv":
            table = label_files.read_label_list(path, release.labelling)
        elif release.year == "2009" and split:
            table = label_files.read_labels_2009(path, split, release.labelling)
        else:
            release.notes.append(
                f"{path.name} was not read: its name is not that of a csv of the release of 2009"
            )
            continue
        release.notes += table.notes
        for reason, items in table.dropped.items():
            release.dropped.setdefault(reason, []).extend(items)
        if split not in tables:
            tables[split] = table
        elif tables[split].labels != table.labels:
            raise InvalidInput(f"{path}: another file has labels of the same split; remove one of them")
    return tables


def _match(release: Release, folder: Path, images: list[Path], tables: dict[str, LabelFile]) -> None:
    """Join images and labels."""
    seen: dict[tuple[str, str], Path] = {}
    for path in images:
        image_id = strip_zeros(path.stem)
        split = _split_of(path, folder, image_id, tables)
        if split is None:
            release.drop("image whose split neither its folder nor one label file names", str(path))
        elif (split, image_id) in seen:
            release.drop("second image with an id", f"{path} after {seen[split, image_id]}")
        else:
            seen[split, image_id] = path
            _add_image(release, IrmaImage(path, image_id, split, _class(path)), tables)
    with_image = {image_id for _, image_id in seen}
    for split, listing in tables.items():
        for image_id, label in listing.labels.items():
            missing = (split, image_id) not in seen if split else image_id not in with_image
            if missing and label:
                release.drop("row without an image", image_id)


def _split_of(path: Path, folder: Path, image_id: str, tables: dict[str, LabelFile]) -> str | None:
    """Return the split that the nearest folder names, else that of the one file with the image."""
    if _class(path):
        return "train"
    for part in reversed(path.parent.relative_to(folder).parts):
        if split := _split(part):
            return split
    splits = [split for split, table in tables.items() if image_id in table.labels]
    return (splits[0] or "train") if len(splits) == 1 else None


def _add_image(release: Release, item: IrmaImage, tables: dict[str, LabelFile]) -> None:
    if item.label:
        release.items.append(item)
        return
    for split in (item.split, ""):
        if split in tables and item.image_id in tables[split].labels:
            label = tables[split].labels[item.image_id]
            if label:  # otherwise its row has been counted as dropped
                release.items.append(IrmaImage(item.path, item.image_id, item.split, label))
            return
    if item.split == "test":
        release.items.append(item)
    else:
        release.drop("training image without a label", str(item.path))


def _drop_unusable(release: Release, tree: CodeTree | None) -> None:
    """Drop the organisers' errata of 2009, and codes that the tree does not have."""
    usable, with_codes = [], label_files.label_kind(release.labelling) == "code"
    for item in release.items:
        if release.year == "2009" and item.split == "train" and item.label in ERRATA:
            release.drop("code that the organisers excluded from training", item.image_id)
        elif tree and item.label and with_codes and not _has_code(tree, item.label):
            release.drop("code that the tree lacks", f"{item.image_id}: {item.label}")
        else:
            usable.append(item)
    release.items = usable


def _has_code(tree: CodeTree, code: str) -> bool:
    try:
        return code == CLUTTER or bool(tree.branching(code))
    except InvalidInput:
        return False


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
