"""Choice between an encoder's values and pictures as what a ranker of severity learns from."""

from typing import Any

from cbir.descriptors.encoder_descriptor import encoder_descriptor_name, encoder_of
from cbir.errors import InvalidInput
from cbir.store import Collection

DEFAULT = "lite0-whole"  # for collections of a descriptor
NO_ENCODER = "none"
OF_PICTURES = ("backbone", "side", "weights")


def default_encoder(collection: Collection) -> str:
    """Return the encoder of a collection, so that nothing needs to be described again, or `lite0-whole`."""
    encoder = encoder_of(collection.profile.descriptor)
    return encoder.name if encoder is not None else DEFAULT


def choose_encoder(collection: Collection, encoder: str | None, options: dict[str, Any]) -> str | None:
    """Return the encoder to learn from, None for pictures.

    Parameters
    ----------
    collection : Collection
    encoder : str, optional
        Its name, or "none". By default the collection's own or `lite0-whole`, unless an option of pictures is given.
    options : dict
        Options of the ranker; None where not given.

    Raises
    ------
    InvalidInput
        If there is no such encoder, or the options are those of pictures.
    """
    of_pictures = [name for name in OF_PICTURES if options.get(name) is not None]
    if encoder == NO_ENCODER or (encoder is None and of_pictures):
        return None
    if of_pictures:
        raise InvalidInput(
            f"--{of_pictures[0]} is for a network that learns from pictures; give --encoder {NO_ENCODER} with it"
        )
    name = encoder or default_encoder(collection)
    encoder_descriptor_name(name)
    return name
