"""Text towers of image-text models: a sentence becomes a vector that is compared with those of images."""

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.encoders.encoder_card import EncoderCard
from cbir.descriptors.encoders.encoder_files import read_text_files, text_paths
from cbir.descriptors.networks.onnx_session import open_onnx_session
from cbir.errors import InvalidInput
from cbir.system.remedies import install_command

TOKENS, MASK, VECTOR = "tokens", "mask", "vector"  # inputs and output of the network


class TextTower:
    """Network and tokenizer of an encoder's text tower, run by onnxruntime. Thread-safe.

    Raises InvalidInput if one of them is missing or damaged, or the library tokenizers is not installed.
    """

    def __init__(self, card: EncoderCard, folder: Path) -> None:
        if card.text is None:
            raise InvalidInput(f"the encoder {card.name} has no text tower: it cannot search by text")
        if find_spec("tokenizers") is None:
            raise InvalidInput(f"search by text needs tokenizers: {install_command('text')}")
        from tokenizers import Tokenizer

        files = read_text_files(folder, card)
        self._session: Any = open_onnx_session(files.network)
        self._tokenizer = Tokenizer.from_str(files.tokenizer.decode())
        self._inputs = [tensor.name for tensor in self._session.get_inputs()]

    def describe(self, text: str) -> NDArray[np.float32]:
        """Return the vector (d,) of a text, as the network gives it; a long text is cut."""
        encoding = self._tokenizer.encode(text)
        values = {TOKENS: encoding.ids, MASK: encoding.attention_mask}
        feed = {name: np.array([values[name]], np.int64) for name in self._inputs}
        return np.asarray(self._session.run([VECTOR], feed)[0][0], np.float32)


def has_text_tower(card: EncoderCard, folder: Path) -> bool:
    """Return whether texts can be described: the encoder has a stored text tower, and tokenizers is installed."""
    if card.text is None or find_spec("tokenizers") is None:
        return False
    return all(path.is_file() for path in text_paths(folder, card))


@lru_cache(maxsize=4)
def load_text_tower(card: EncoderCard, folder: Path) -> TextTower:
    """Return the text tower of a card in a folder of encoders, from memory if it was used before."""
    return TextTower(card, folder)
