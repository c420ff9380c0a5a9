"""Values that a pretrained encoder gives of collection images: its own vectors, or computed from the files."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from cbir import encoders, settings
from cbir.descriptors.encoder_descriptor import encoder_descriptor_name
from cbir.encoders.feature_cache import FeatureCache
from cbir.errors import InvalidInput
from cbir.severity.grey_images import read_stored_image
from cbir.store import Collection, Record
from cbir.store.filter_conditions import Condition
from cbir.threads import cores

Show = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class EncodedImages:
    """Values (n, d) float32 with their records, and the ids of images that could not be described."""

    values: NDArray[np.float32]
    records: list[Record]
    missing: list[str]


def read_values(
    collection: Collection,
    encoder: str,
    where: Sequence[Condition] = (),
    keep: Callable[[Record], bool] = lambda record: True,
    show: Show = lambda done, total: None,
) -> EncodedImages:
    """Read or compute the values of matching images.

    Parameters
    ----------
    collection : Collection
    encoder : str
        Name of an encoder. If the vectors of the collection are its values, they are used; else the files are
        described, in parallel, each image once (setting `feature_folder`).
    where : sequence of Condition
        Conditions on the images.
    keep : callable
        Further condition on the record.
    show : callable
        Progress callback with done and total.

    Returns
    -------
    EncodedImages

    Raises
    ------
    InvalidInput
        If there is no such encoder, or there are images but none can be described.
    """
    numbered: list[tuple[int, Record]] = []
    after = 0
    while page := collection.page(after, 2000, where):
        numbered += [(number, record) for number, record in page if keep(record)]
        after = page[-1][0]
    records = [record for _, record in numbered]
    if collection.profile.descriptor == encoder_descriptor_name(encoder):
        vectors = collection.raw_vectors(np.array([number for number, _ in numbered], np.int64))
        show(len(records), len(records))
        return EncodedImages(vectors, records, [])
    return _describe_files(collection, encoder, records, show)


def _describe_files(collection: Collection, encoder: str, records: list[Record], show: Show) -> EncodedImages:
    loaded, described = settings.load(), encoders.get(encoder)
    values = np.zeros((len(records), described.dimensions), np.float32)
    readable = np.zeros(len(records), bool)
    with FeatureCache(described, loaded.feature_folder) as cache, ThreadPoolExecutor(cores()) as executor:

        def describe(record: Record) -> NDArray[np.float16] | None:
            image = read_stored_image(collection, record, loaded.max_pixels)
            return None if image is None else cache.describe(image)

        for row, vector in enumerate(executor.map(describe, records)):
            show(row + 1, len(records))
            if vector is not None:
                values[row], readable[row] = vector, True
    if records and not readable.any():
        raise InvalidInput(
            f"none of {len(records)} images has a picture: their files were moved or deleted, and there are no "
            "thumbnails; restore the files, or index them at their new path"
        )
    missing = [record.image_id for record in compress(records, ~readable)]
    return EncodedImages(values[readable], list(compress(records, readable)), missing)
