"""Collection images as the inputs of a ranker: pictures, or values of an encoder."""

from collections.abc import Callable, Sequence

from cbir.descriptors.encoder_descriptor import encoder_of
from cbir.errors import InvalidInput
from cbir.learn.severity.bayesian_ranker import BayesianRanker
from cbir.learn.severity.encoder_values import read_values
from cbir.learn.severity.grey_images import read_grey_images
from cbir.learn.severity.sampled_ranker import SampledRanker
from cbir.learn.severity.stored_images import Show, StoredImages
from cbir.learn.severity.value_ranker import ValueRanker
from cbir.store import Collection, Record
from cbir.store.records.filter_conditions import Condition


def read_ranker_inputs(
    collection: Collection,
    ranker: SampledRanker,
    where: Sequence[Condition] = (),
    keep: Callable[[Record], bool] = lambda record: True,
    show: Show = lambda done, total: None,
) -> StoredImages:
    """Read what a ranker needs of matching images.

    Parameters
    ----------
    collection : Collection
    ranker : SampledRanker
        Pictures of its side, or values of its encoder.
    where : sequence of Condition
        Conditions on the images.
    keep : callable
        Further condition on the record.
    show : callable
        Progress callback with done and total.

    Returns
    -------
    StoredImages

    Raises
    ------
    InvalidInput
        If there are images but none can be read.
    """
    if isinstance(ranker, ValueRanker):
        encoder = encoder_of(ranker.descriptor)
        if encoder is None:
            raise InvalidInput(f"the ranker learned from {ranker.descriptor!r}, which is not an encoder")
        return read_values(collection, encoder.name, where, keep, show)
    assert isinstance(ranker, BayesianRanker)
    return read_grey_images(collection, ranker.side, where, keep, show)
