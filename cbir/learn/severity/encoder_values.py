"""Values that a pretrained encoder gives of collection images: its own vectors, or computed from the files."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from cbir import settings
from cbir.descriptors import encoders
from cbir.descriptors.encoder_descriptor import encoder_descriptor_name
from cbir.descriptors.encoders.feature_cache import FeatureCache
from cbir.learn.severity.grey_images import read_stored_image
from cbir.learn.severity.stored_images import Show, StoredImages, matching_records, read_images_of
from cbir.store import Collection, Record
from cbir.store.records.filter_conditions import Condition


def read_values(
    collection: Collection,
    encoder: str,
    where: Sequence[Condition] = (),
    keep: Callable[[Record], bool] = lambda record: True,
    show: Show = lambda done, total: None,
) -> StoredImages:
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
    StoredImages
        Values (n, d) float32.

    Raises
    ------
    InvalidInput
        If there is no such encoder, or there are images but none can be described.
    """
    numbered = matching_records(collection, where, keep)
    records = [record for _, record in numbered]
    if collection.profile.descriptor == encoder_descriptor_name(encoder):
        vectors = collection.raw_vectors(np.array([number for number, _ in numbered], np.int64))
        show(len(records), len(records))
        return StoredImages(vectors, records, [])
    return _describe_files(collection, encoder, records, show)


def _describe_files(collection: Collection, encoder: str, records: list[Record], show: Show) -> StoredImages:
    loaded, described = settings.load(), encoders.get(encoder)
    with FeatureCache(described, loaded.feature_folder) as cache:

        def describe(record: Record) -> NDArray[np.float16] | None:
            image = read_stored_image(collection, record, loaded.max_pixels)
            return None if image is None else cache.describe(image)

        return read_images_of(records, describe, (described.dimensions,), np.float32, show)
