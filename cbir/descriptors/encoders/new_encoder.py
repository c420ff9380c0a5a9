"""Checks that every new encoder passes, and its storing."""

from pathlib import Path

import numpy as np

from cbir.descriptors import encoders
from cbir.descriptors.encoders import encoder_files
from cbir.descriptors.encoders.encoder_card import NAME, EncoderCard
from cbir.descriptors.encoders.encoder_network import EncoderNetwork
from cbir.descriptors.encoders.fit_volume import fit_input
from cbir.errors import InvalidInput, UndescribableImage
from cbir.images import Image


def check_name(name: str, folder: Path) -> None:
    """Raise InvalidInput unless a new encoder in `folder` can have this name."""
    if not NAME.fullmatch(name):
        raise InvalidInput(f"an encoder's name has a-z, 0-9, '_', '.' and '-', 64 at most; not {name!r}")
    if name in encoders.names(folder):
        raise InvalidInput(
            f"there is an encoder {name} already; choose another name, for a network of a hub with --name"
        )


def check_values(network: EncoderNetwork, card: EncoderCard) -> None:
    """Raise InvalidInput unless a network gives values that can be stored for images of all kinds."""
    for title, image in trial_images().items():
        try:
            network.describe(fit_input(image, card))
        except UndescribableImage as error:
            raise InvalidInput(f"tried on a {title} image: {error}") from error


def store_new(
    card: EncoderCard, content: bytes, folder: Path, text: encoder_files.TextFiles | None = None
) -> Path:
    """Store a new encoder.

    Parameters
    ----------
    card : EncoderCard
        Its card.
    content : bytes
        The ONNX network.
    folder : Path
        Folder of encoders.
    text : TextFiles, optional
        Text tower that the card describes.

    Returns
    -------
    Path
        Path of the network.

    Raises
    ------
    InvalidInput
        If its name is taken.
    """
    with encoder_files.hold_folder(folder):
        check_name(card.name, folder)
        return encoder_files.write_network(folder, card, content, text)


def trial_images() -> dict[str, Image]:
    """Return images that a new network is tried on, by what they show."""
    noise = np.random.default_rng(0).integers(0, 256, (96, 128, 3), np.uint8)
    slope = np.linspace(0, 255, 96 * 128).astype(np.uint8).reshape(96, 128)
    uniform = {"black": np.zeros((96, 128), np.uint8), "white": np.full((96, 128), 255, np.uint8)}
    return {title: Image(pixels) for title, pixels in {"random": noise, "smooth": slope, **uniform}.items()}
