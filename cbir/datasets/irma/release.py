"""A folder of one of the IRMA releases of 2005 to 2009: which images there are, with which labels, and why not."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from cbir.datasets.irma.code_tree import CodeTree
from cbir.datasets.irma.codes import CLUTTER, strip_zeros
from cbir.datasets.irma.label_files import (
    LabelFile,
    is_label_list,
    label_kind,
    read_label_list,
    read_labels_2009,
)
from cbir.errors import InvalidInput, NotFound

YEARS = ("2005", "2006", "2007", "2008", "2009")
ERRATA = {"1121-120-450-700", "1121-120-700-400", "1121-490-913-700"}  # to be dropped from training, 2009
CLASS_FOLDER = re.compile(r"train0*(\d{1,3})", re.IGNORECASE)
SPLIT = re.compile(r"(?i:(?<![a-z])(train|test))|(?<=[a-z])(Train|Test)")


@dataclass(frozen=True)
class IrmaImage:
    """One image. split: "train" or "test"; label: a class or a code, None for a test image without one."""

    path: Path
    image_id: str
    split: str
    label: str | None


@dataclass
class Release:
    """What a reader found, dropped and why.

    labelling: year whose classes (2005, 2006) or codes (2007, 2008) the labels are.
    dropped: for each reason the images, rows or files concerned.
    """

    year: str
    labelling: str
    items: list[IrmaImage] = field(default_factory=list)
    dropped: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def drop(self, reason: str, what: str) -> None:
        """Count something as dropped."""
        self.dropped.setdefault(reason, []).append(what)


def read_release(
    folder: Path, year: str | None = None, labelling: str | None = None, tree: CodeTree | None = None
) -> Release:
    """Read a release, nested or flat, with bare or zero-padded file names.

    year: of the release, recognised by its files where None. labelling: which of the labellings of 2009 to
    use, 2008 where None; for other years it is their own. With a tree, codes that it does not have are dropped.
    Raises NotFound for a missing folder, InvalidInput where it is none of the releases.
    """
    if not folder.is_dir():
        raise NotFound(f"there is no folder {folder}")
    pictures, listings = _walk(folder)
    year = year or _recognise(folder, pictures, listings)
    if year not in YEARS:
        raise InvalidInput(f"there is no release {year}; there are {', '.join(YEARS)}")
    labelling = _labelling(year, labelling)
    release = Release(year, labelling)
    tables = _tables(release, listings)
    _match(release, folder, pictures, tables)
    _drop_unusable(release, tree)
    release.items.sort(key=lambda item: (item.split != "train", len(item.image_id), item.image_id))
    if not release.items:
        reasons = "; ".join(f"{reason}: {len(what)}" for reason, what in release.dropped.items())
        raise InvalidInput(
            f"{folder} has no usable image of the release {year}" + (f" ({reasons})" if reasons else "")
        )
    return release


def _labelling(year: str, wanted: str | None) -> str:
    own = "2008" if year == "2009" else year
    possible = YEARS[:-1] if year == "2009" else (own,)
    if wanted and wanted not in possible:
        raise InvalidInput(f"the release {year} has the labelling {', '.join(possible)}, not {wanted}")
    return wanted or own


def _walk(folder: Path) -> tuple[list[Path], list[Path]]:
    """Images and possible label files, sorted; hidden ones (`._7.png` of a Mac) are passed over."""
    pictures, listings = [], []
    for place, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            suffix = Path(name).suffix.lower()
            if name.startswith("."):
                continue
            if suffix == ".png":
                pictures.append(Path(place) / name)
            elif suffix in (".csv", ".txt") and is_label_list(Path(place) / name):
                listings.append(Path(place) / name)
    return pictures, listings


def _recognise(folder: Path, pictures: list[Path], listings: list[Path]) -> str:
    if any(path.suffix.lower() == ".csv" for path in listings):
        return "2009"
    classes = {label for path in pictures if (label := _class(path))}
    if classes:
        return "2005" if max(map(int, classes)) <= 57 else "2006"
    for path in listings:
        named = re.search(r"200[5-8]", path.name)
        if named:
            return named[0]
    raise InvalidInput(
        f"{folder} is none of the IRMA releases as far as its files tell: no folders Train01 and so on, no "
        "csv, no list of codes with a year in its name; name the year if it is one"
    )


def _class(path: Path) -> str | None:
    """The class that the folder of an image stands for, as in `Train07`."""
    matched = CLASS_FOLDER.fullmatch(path.parent.name)
    return strip_zeros(matched[1]) if matched else None


def _split(name: str) -> str | None:
    found = SPLIT.search(name)
    return (found[1] or found[2]).lower() if found else None


def _tables(release: Release, listings: list[Path]) -> dict[str, LabelFile]:
    """Labels by split, under "" those of files that say nothing about it."""
    tables: dict[str, LabelFile] = {}
    for path in listings:
        split = _split(path.name) or ""
        if path.suffix.lower() != ".csv":
            read_release = read_label_list(path, release.labelling)
        elif release.year == "2009" and split:
            read_release = read_labels_2009(path, split, release.labelling)
        else:
            release.notes.append(f"{path.name} was not read: it is not named as a csv of the release of 2009")
            continue
        release.notes += read_release.notes
        for reason, what in read_release.dropped.items():
            release.dropped.setdefault(reason, []).extend(what)
        if split not in tables:
            tables[split] = read_release
        elif tables[split].labels != read_release.labels:
            raise InvalidInput(f"{path}: another file has labels of the same part; leave one of them")
    return tables


def _match(release: Release, folder: Path, pictures: list[Path], tables: dict[str, LabelFile]) -> None:
    """Bring images and labels together."""
    seen: dict[tuple[str, str], Path] = {}
    for path in pictures:
        image_id = strip_zeros(path.stem)
        split = _split_of(path, folder, image_id, tables)
        if split is None:
            release.drop("image of which neither its folder nor one label file tells the part", str(path))
        elif (split, image_id) in seen:
            release.drop("second image with an id", f"{path} after {seen[split, image_id]}")
        else:
            seen[split, image_id] = path
            _take(release, IrmaImage(path, image_id, split, _class(path)), tables)
    with_image = {image_id for _, image_id in seen}
    for split, listing in tables.items():
        for image_id, label in listing.labels.items():
            missing = (split, image_id) not in seen if split else image_id not in with_image
            if missing and label:
                release.drop("row without an image", image_id)


def _split_of(path: Path, folder: Path, image_id: str, tables: dict[str, LabelFile]) -> str | None:
    """By the nearest folder that says so, else by the one file that lists the image."""
    if _class(path):
        return "train"
    for part in reversed(path.parent.relative_to(folder).parts):
        split = _split(part)
        if split:
            return split
    listed = [split for split, table in tables.items() if image_id in table.labels]
    return (listed[0] or "train") if len(listed) == 1 else None


def _take(release: Release, item: IrmaImage, tables: dict[str, LabelFile]) -> None:
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
    kept = []
    for item in release.items:
        if release.year == "2009" and item.split == "train" and item.label in ERRATA:
            release.drop("code that the organisers asked to leave out of training", item.image_id)
        elif tree and item.label and label_kind(release.labelling) == "code" and not _has(tree, item.label):
            release.drop("code that the tree does not have", f"{item.image_id}: {item.label}")
        else:
            kept.append(item)
    release.items = kept


def _has(tree: CodeTree, code: str) -> bool:
    try:
        return code == CLUTTER or bool(tree.branching(code))
    except InvalidInput:
        return False
