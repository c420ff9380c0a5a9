"""A collection as a folder that FiftyOne reads: pictures, labels and vectors."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.images import Image
from cbir.images.scaling import encode_image
from cbir.ingest.checks.burned_in_text import find_burned_in_text, reader_path
from cbir.ingest.checks.pixel_checks import findings_of
from cbir.learn.severity.stored_images import read_stored_image
from cbir.settings import Settings
from cbir.store import Collection, Record
from cbir.store.base.collection_folder import restrict_files
from cbir.store.base.damage import raise_when_full
from cbir.system.files import OWNER_FOLDER, atomic_text, write_bytes
from service.features.fiftyone import fiftyone_documents as documents


@dataclass(frozen=True)
class ShownPictures:
    """The pictures of a collection that have no text in the pixels.

    Text is what DICOM declares, the intake check found, or, with `find_text`, a look at the picture finds; that needs
    a package, and raises InvalidInput without it. max_pixels: of the largest file.
    """

    collection: Collection
    max_pixels: int
    find_text: bool = False

    def __post_init__(self) -> None:
        if self.find_text:
            reader_path()

    def read(self, record: Record) -> Image | None:
        """Return an image, or its thumbnail if the file is gone; None without both or with text in it."""
        if record.burned_in or "text" in findings_of(record):
            return None
        image = read_stored_image(self.collection, record, self.max_pixels)
        has_text = image is not None and self.find_text and find_burned_in_text(image.grey) is not None
        return None if has_text else image


AT_ONCE = 500  # records


class WrittenSamples(NamedTuple):
    """Numbers of samples, and of images left out: with text in the pixels, or without a file."""

    samples: int
    left_out: int


def write_fiftyone_folder(
    collection: Collection,
    folder: Path,
    settings: Settings,
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    find_text: bool = False,
) -> WrittenSamples:
    """Write metadata.json, samples.json and data/ for their owner alone; the folder appears when all is done.

    Each sample has the image's id, its patient key, its labels as classifications and its vector as searches compare
    it: the Euclidean distances are those of the list before re-ranking. FiftyOne sorts by them with the run `cbir`.

    Parameters
    ----------
    collection : Collection
    folder : Path
        Folder that does not exist, or is empty.
    settings : Settings
        Limits.
    progress : callable
        Called with the images done and in all; what it raises ends the export.
    find_text : bool
        As of `ShownPictures`.

    Raises
    ------
    InvalidInput
        If the folder is not empty, the collection has too many vectors to load, or a package is missing.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInput(f"{folder} exists and is not an empty folder; name another")
    if len(collection) > settings.exact_limit:
        limit = settings.exact_limit
        raise InvalidInput(
            f"an export reads all vectors: it works up to {limit} images (setting exact_limit)"
        )
    pictures = ShownPictures(collection, settings.max_pixels, find_text)
    partial = folder.absolute().with_name(f"{folder.absolute().name}.partial")
    with raise_when_full(folder.absolute().parent):
        shutil.rmtree(partial, ignore_errors=True)  # of an interrupted export, perhaps of other images
        partial.mkdir(parents=True, mode=OWNER_FOLDER)
        (partial / "data").mkdir(mode=OWNER_FOLDER)
        names, at = documents.field_names(collection.label_keys()), datetime.now(UTC)
        written = total = 0
        with atomic_text(partial / "samples.json") as file:
            file.write('{"samples": [')
            for total, (record, vector) in enumerate(_records(collection), start=1):
                image = pictures.read(record)
                if image is not None:
                    file.write(",\n" if written else "\n")
                    labels = {names[key]: value for key, value in record.labels.items() if key in names}
                    json.dump(_write_sample(partial, record, image, labels, vector, at), file)
                    written += 1
                progress(total, len(collection))
            file.write("\n]}\n")
        document = documents.dataset_document(folder.absolute().name, names.values(), at)
        with atomic_text(partial / "metadata.json") as file:
            json.dump(document, file, indent=1)
        (partial / "brain").mkdir(mode=OWNER_FOLDER)
        with atomic_text(partial / "brain" / f"{documents.BRAIN_KEY}.json") as file:
            json.dump(documents.SIMILARITY, file)
        restrict_files(partial)
        partial.replace(folder)  # over an empty folder at most
    return WrittenSamples(written, total - written)


def _records(collection: Collection) -> Iterator[tuple[Record, NDArray[np.float32]]]:
    """Yield the images of a collection with their vectors, in its order."""
    view = collection.view()
    rows = np.arange(len(view.gallery)) if view.rows is None else view.rows
    for start in range(0, len(rows), AT_ONCE):
        part = rows[start : start + AT_ONCE]
        vectors, numbers = view.gallery.vectors(part), view.gallery.ids[part].tolist()
        records = collection.records(numbers)
        for number, vector in zip(numbers, vectors, strict=True):
            if number in records:  # else deleted meanwhile
                yield records[number], np.asarray(vector, np.float32)


def _write_sample(
    folder: Path,
    record: Record,
    image: Image,
    labels: dict[str, str],
    vector: NDArray[np.float32],
    at: datetime,
) -> documents.Document:
    """Write the picture of a sample, and return its document. `at`: time of the export; others as there."""
    path, data = f"data/{record.image_id}.png", encode_image(image.pixels, ".png")
    write_bytes(folder / path, data)
    picture = {
        "size_bytes": len(data),
        "mime_type": "image/png",
        "width": image.width,
        "height": image.height,
    }
    picture["num_channels"] = 1 if image.pixels.ndim == 2 else 3
    return documents.sample_document(path, picture, labels, vector, (record.image_id, record.patient_key), at)
