"""Made-up IRMA releases: phantoms in the layout of 2007 and 2009, for trying out and testing without the images."""

import csv
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.evaluation.datasets.irma.codes import AXES, DIGITS
from cbir.evaluation.datasets.irma.label_files import MISSING
from cbir.evaluation.datasets.phantoms import draw_phantom, phantom_classes
from cbir.images.scaling import encode_image
from cbir.system.files import PUBLIC_FILE, atomic_binary, atomic_text, os_errors

RELEASE_YEARS = ("2007", "2009")
FOLDERS = {
    "2007": {"train": "ImageCLEFmed2007_train", "test": "ImageCLEFmed2007_test"},
    "2009": {"train": "ImageCLEFmed2009_train.02", "test": "ImageCLEFmed2009_test.03"},
}
CODES_2007 = "ImageCLEF2007med_codes.txt"
TABLES_2009 = {"train": "ImageCLEFmed2009_train_codes.02.csv", "test": "ImageCLEFmed2009_test_codes.03.csv"}
HEADERS_2009 = {  # the unnamed columns hold what no reader needs
    "train": ["image_id", "", "", "05_class", "", "06_class", "07_irma_code", "08_irma_code"],
    "test": ["image_id", "", "", "", "", "", "", "05_class", "", "06_class", "07_irma_code", "08_irma_code"],
}
CLASSES_2005, CLASSES_2006, CODES_OF_2007 = 57, 116, 116
NOISE = 6  # largest change of a pixel in a variation

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class ReleaseClass:
    """A class of a made-up release.

    code: of its images. region: phantom that shows it. turn: 0 to 7, a rotation by turn % 4 quarters, mirrored from 4
    on, so that eight classes can share a region. train, test: numbers of images.
    """

    code: str
    region: str
    turn: int
    train: int
    test: int


@dataclass(frozen=True)
class _ReleaseImage:
    split: str
    number: int
    class_number: int


def phantom_release_classes(count: int) -> list[ReleaseClass]:
    """Return the classes of the phantoms, as uneven as an archive's, with some `count` images.

    A fifth of them are test images. Each class has at least two training images and a test image.
    """
    regions = phantom_classes()
    if count < 3 * len(regions):
        raise InvalidInput(f"{count} images are too few: at least {3 * len(regions)}, three of each class")
    shares = 1.0 / np.arange(1, len(regions) + 1)
    sizes = np.maximum(np.round(count * shares / shares.sum()), 3).astype(int).tolist()
    tests = [max(size // 5, 1) for size in sizes]
    return [
        ReleaseClass(region.code_of("R" if region.sides else ""), region.name, 0, size - test, test)
        for region, size, test in zip(regions, sizes, tests, strict=True)
    ]


def write_phantom_release(
    path: Path,
    year: str,
    classes: Sequence[ReleaseClass],
    *,
    seed: int = 0,
    size: int = 64,
    distinct: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Write a zip of a made-up release, and beside it a code tree that has its codes.

    Parameters
    ----------
    path : Path
        The zip.
    year : {"2007", "2009"}
        Layout: `<id> <code>` lines, or two csv files with four labellings.
    classes : sequence of ReleaseClass
        Codes and numbers of images. Images have numbers from 1 on in random order, the test images last.
    seed : int
        Of the phantoms and of the order.
    size : int
        Pixels of the longer side, 32 to 4096.
    distinct : int, optional
        Phantoms drawn of each region; further images are variations of them by noise. By default each is drawn.
    on_progress : callable, optional
        Gets the number of images so far, and of all.

    Returns
    -------
    Path
        The code tree, NAME-tree.txt.

    Raises
    ------
    InvalidInput
        For another year, or a file that cannot be written.
    """
    if year not in RELEASE_YEARS:
        raise InvalidInput(f"a made-up release has the layout of {' or '.join(RELEASE_YEARS)}, not of {year}")
    images = _number_images(classes, np.random.default_rng(seed))
    pictures = _DrawnPictures(seed, size, distinct)
    tree = path.with_name(f"{path.stem}-tree.txt")
    with os_errors(f"{path} cannot be written"):
        with (
            atomic_binary(path, permissions=PUBLIC_FILE) as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive,
        ):
            for done, image in enumerate(images, start=1):
                pixels = pictures.draw(classes[image.class_number], image.number)
                name = f"{FOLDERS[year][image.split]}/{image.number}.png"
                archive.writestr(zipfile.ZipInfo(name), encode_image(pixels, ".png"))
                if on_progress is not None:
                    on_progress(done, len(images))
            for name, text in _label_files(year, images, classes):
                archive.writestr(zipfile.ZipInfo(name), text)
        with atomic_text(tree, permissions=PUBLIC_FILE) as text_file:
            text_file.write(code_tree_text([item.code for item in classes]))
    return tree


def code_tree_text(codes: Sequence[str]) -> str:
    """Return the text of a tree that has all these codes, with one child more than they need at each node."""
    axes = zip(*[code.split("-") for code in codes], strict=True)
    lines: list[str] = []
    for axis, parts in zip(AXES, axes, strict=True):
        lines.append(f"**** {axis} ****")
        parents = {"": 0}
        for part in parts:
            for depth, digit in enumerate(part):
                parents[part[:depth]] = max(parents.get(part[:depth], 0), DIGITS.index(digit) + 1)
        for parent, last in sorted(parents.items(), key=lambda item: (len(item[0]), item[0])):
            lines += [f"[{parent}{digit}] {axis} {parent}{digit}" for digit in DIGITS[: last + 1]]
    return "\n".join(lines) + "\n"


class _DrawnPictures:
    """Phantoms of the images of a release."""

    def __init__(self, seed: int, size: int, distinct: int | None) -> None:
        self.seed, self.size, self.distinct = seed, size, distinct
        self._drawn: dict[tuple[str, int], Pixels] = {}

    def draw(self, item: ReleaseClass, number: int) -> Pixels:
        index = number if self.distinct is None else number % self.distinct
        pixels = self._drawn.get((item.region, index))
        if pixels is None:
            pixels = draw_phantom(index, self.seed, self.size, item.region).pixels
            if self.distinct is not None:
                self._drawn[item.region, index] = pixels
        turned = np.rot90(pixels if item.turn < 4 else pixels[:, ::-1], item.turn % 4)
        if self.distinct is not None:
            noise = np.random.default_rng([self.seed, number]).integers(-NOISE, NOISE + 1, turned.shape)
            turned = np.clip(turned + noise, 0, 255).astype(np.uint8)
        return np.ascontiguousarray(turned)


def _number_images(classes: Sequence[ReleaseClass], random: np.random.Generator) -> list[_ReleaseImage]:
    images: list[_ReleaseImage] = []
    for split in ("train", "test"):
        counts = [getattr(item, split) for item in classes]
        members = random.permutation(np.repeat(np.arange(len(classes)), counts))
        images += [_ReleaseImage(split, len(images) + n, m) for n, m in enumerate(members.tolist(), start=1)]
    return images


def _label_files(
    year: str, images: Sequence[_ReleaseImage], classes: Sequence[ReleaseClass]
) -> Iterator[tuple[str, str]]:
    if year == "2007":
        yield (
            CODES_2007,
            "".join(f"   {image.number} {classes[image.class_number].code}\n" for image in images),
        )
        return
    for split, name in TABLES_2009.items():
        text = StringIO()
        table = csv.writer(text, delimiter=";", lineterminator="\n")
        header = HEADERS_2009[split]
        table.writerow(header)
        for image in images:
            if image.split == split:
                labels = _labels_2009(image, classes)
                table.writerow([labels.get(column, "") for column in header])
        yield name, text.getvalue()


def _labels_2009(image: _ReleaseImage, classes: Sequence[ReleaseClass]) -> dict[str, str]:
    """Return the four labellings; the earlier ones have fewer classes, and none for the codes that came later."""
    number, code = image.class_number, classes[image.class_number].code
    return {
        "image_id": str(image.number),
        "05_class": str(number % CLASSES_2005 + 1),
        "06_class": str(number % CLASSES_2006 + 1),
        "07_irma_code": code if number < CODES_OF_2007 else MISSING,
        "08_irma_code": code,
    }
