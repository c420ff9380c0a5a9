"""Folder of encoders on disk: `NAME-HASH.onnx`, the network, and `NAME-HASH.json`, its card and hash.

An image-text model has its text tower beside it: `NAME-HASH.text.onnx` and `NAME-HASH.tokenizer`.

The card is written last and makes the encoder exist. Both are replaced as a whole, so that a reader needs no lock.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from cbir.descriptors.encoders.encoder_card import EncoderCard
from cbir.descriptors.networks.model_card import LARGEST_CARD, read_verified
from cbir.errors import InvalidInput
from cbir.system.files import PUBLIC_FILE, wait_lock, write_bytes

LARGEST_NETWORK = (1 << 31) - 1  # bytes; ONNX files have no more
LARGEST_TOKENIZER = 1 << 27


class TextFiles(NamedTuple):
    """Text tower: an ONNX network, and the JSON of its tokenizer."""

    network: bytes
    tokenizer: bytes


def network_path(folder: Path, card: EncoderCard) -> Path:
    """Return the path of the network in the folder of encoders."""
    return folder / f"{card.name}-{card.hash}.onnx"


def stored_names(folder: Path) -> list[str]:
    """Return the names of the stored encoders, sorted; none if the folder cannot be read."""
    try:
        return sorted({path.stem.rpartition("-")[0] for path in folder.glob("*-*.json")})
    except OSError:  # often a home folder of another user; the built-in encoders need none
        return []


def unreadable_advice(folder: Path) -> str:
    """Return the end of a sentence about a missing encoder, if the folder cannot be read; else ""."""
    try:
        os.scandir(folder).close()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f": {folder} cannot be read ({error.strerror}; setting encoder_folder);"
    return ""


def is_stored(folder: Path, card: EncoderCard) -> bool:
    """Return whether the folder has the network of a card, and can be read."""
    try:
        return network_path(folder, card).is_file()
    except OSError:
        return False


def read_card(folder: Path, name: str) -> EncoderCard:
    """Return the card of a stored encoder; raise InvalidInput if it is damaged."""
    for path in sorted(folder.glob(f"{name}-*.json")):
        if path.stem.rpartition("-")[0] == name:
            card, _ = _read(path)
            if card is None or card.name != name or network_path(folder, card).stem != path.stem:
                raise InvalidInput(f"{path} is damaged; remove it, then add the encoder {name} again")
            return card
    raise InvalidInput(f"there is no encoder {name} in {folder}")


def read_network(folder: Path, card: EncoderCard) -> bytes | None:
    """Return the stored ONNX network of a card, checked; None if there is none.

    Raises InvalidInput if it is not the network that was stored.
    """
    path = network_path(folder, card)
    stored, sha256 = _read(path.with_suffix(".json"))
    if not is_stored(folder, card) or stored is None:
        return None
    if stored.hash != card.hash:
        raise InvalidInput(f"{path} belongs to another card")
    return read_verified(path, sha256, LARGEST_NETWORK)


def read_text_files(folder: Path, card: EncoderCard) -> TextFiles:
    """Return the stored text tower of a card that has one, checked.

    Raises NotFound if a file is missing, InvalidInput if it is not the one that was stored.
    """
    assert card.text is not None
    network, tokenizer = text_paths(folder, card)
    return TextFiles(
        read_verified(network, card.text.sha256, LARGEST_NETWORK),
        read_verified(tokenizer, card.text.tokenizer_sha256, LARGEST_TOKENIZER),
    )


def text_paths(folder: Path, card: EncoderCard) -> tuple[Path, Path]:
    """Return the paths of the network and the tokenizer of a text tower."""
    name = f"{card.name}-{card.hash}"
    return folder / f"{name}.text.onnx", folder / f"{name}.tokenizer"


def write_network(folder: Path, card: EncoderCard, network: bytes, text: TextFiles | None = None) -> Path:
    """Store an ONNX network in a folder of encoders.

    Parameters
    ----------
    folder : Path
        The folder.
    card : EncoderCard
        Card of the network.
    network : bytes
        The ONNX file.
    text : TextFiles, optional
        Text tower that the card describes.

    Returns
    -------
    Path
        Path of the network.
    """
    path = network_path(folder, card)
    fields = card.model_dump(mode="json", exclude_none=True)  # None: a field that older versions do not know
    content = {"card": fields, "network_sha256": hashlib.sha256(network).hexdigest()}
    suffix = f".{os.getpid()}.partial"
    for text_path, file in zip(text_paths(folder, card), text or (), strict=False):
        write_bytes(text_path, file, permissions=PUBLIC_FILE, suffix=suffix)
    write_bytes(path, network, permissions=PUBLIC_FILE, suffix=suffix)
    write_bytes(
        path.with_suffix(".json"),
        json.dumps(content, indent=1).encode(),
        permissions=PUBLIC_FILE,
        suffix=suffix,
    )
    return path


def load_or_make(folder: Path, card: EncoderCard, make: Callable[[], bytes]) -> bytes:
    """Return the stored network of a card; make and store it if there is none or it is damaged.

    Parameters
    ----------
    folder : Path
        Folder of encoders; created if missing.
    card : EncoderCard
        Card of the encoder.
    make : callable
        Returns the ONNX network. Only one process at a time calls it.

    Returns
    -------
    bytes
        The network, which is only not stored where the folder cannot be written.
    """
    network = _intact(folder, card)
    if network is not None:
        return network
    try:
        with hold_folder(folder):
            network = _intact(folder, card)
            if network is None:
                network = make()
                write_network(folder, card, network)
            return network
    except OSError:
        return network or make()


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of the folder, which is created if missing, against other processes that write to it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("ab") as file:
        wait_lock(file.fileno())
        yield


def _intact(folder: Path, card: EncoderCard) -> bytes | None:
    try:
        return read_network(folder, card)
    except InvalidInput:
        return None


def _read(path: Path) -> tuple[EncoderCard | None, str]:
    """Return the card and the network's hash in a file, None without a file that holds them."""
    try:
        if path.stat().st_size > LARGEST_CARD:
            return None, ""
        content = json.loads(path.read_bytes())
        return EncoderCard.model_validate(content["card"]), str(content["network_sha256"])
    except (OSError, ValueError, KeyError, TypeError, ValidationError):
        return None, ""
