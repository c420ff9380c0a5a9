"""Encoders by name: pretrained networks that turn images into vectors."""

from pathlib import Path

from cbir import settings
from cbir.descriptors.encoders import built_in, encoder_files
from cbir.descriptors.encoders.encoder import Encoder
from cbir.descriptors.encoders.encoder_card import EncoderCard
from cbir.descriptors.encoders.hub_address import is_hub_address, parse_hub_address
from cbir.errors import InvalidInput
from cbir.system.remedies import did_you_mean

__all__ = ["Encoder", "EncoderCard", "get", "is_encoder", "names"]


def names(folder: Path | None = None) -> tuple[str, ...]:
    """Return the names of all encoders: built in, then those in `folder`, by default the setting encoder_folder."""
    stored = encoder_files.stored_names(folder or settings.load().encoder_folder)
    return (*built_in.CARDS, *(name for name in stored if name not in built_in.CARDS))


def is_encoder(name: str) -> bool:
    """Return whether a name is that of an encoder, or a network on a hub, stored or not."""
    return is_hub_address(name) or name in names()


def get(name: str, folder: Path | None = None) -> Encoder:
    """Return the encoder called `name`, or the stored one of a network on a hub, such as `hf:ORG/NAME`.

    `folder` is that of stored encoders, by default the setting encoder_folder. Raises InvalidInput if there is no
    such encoder, its card is damaged, or it is not from the hub's network.
    """
    folder = folder or settings.load().encoder_folder
    if is_hub_address(name):
        address = parse_hub_address(name)
        if address.encoder_name not in names(folder):
            raise InvalidInput(f"{address} is not stored yet; fetch it: cbir encoder get {address}")
        card = encoder_files.read_card(folder, address.encoder_name)
        if not address.is_source(card.source):
            raise InvalidInput(
                f"the encoder {card.name} is not {address}: it is from {card.source}; fetch {address} by another "
                f"name, and use that: cbir encoder get {address} --name NAME"
            )
        return Encoder(card, folder)
    if name in built_in.CARDS:
        return Encoder(built_in.CARDS[name], folder)
    if name not in names(folder):
        advice = did_you_mean(name, names(folder)) or encoder_files.unreadable_advice(folder)
        raise InvalidInput(
            f"there is no encoder {name!r}{advice or ';'} choose one of {', '.join(names(folder))}"
        )
    return Encoder(encoder_files.read_card(folder, name), folder)
