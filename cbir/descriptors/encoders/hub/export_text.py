"""Export of text towers to ONNX, with their tokenizers; both are compared with the library."""

import hashlib

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, normalizers
from tokenizers.normalizers import Normalizer

from cbir.descriptors.encoders.encoder_card import TextCard
from cbir.descriptors.encoders.encoder_files import TextFiles
from cbir.descriptors.encoders.hub.export_network import check_equal, write_onnx
from cbir.descriptors.encoders.hub.hub_network import HubText
from cbir.descriptors.encoders.text_tower import MASK, TOKENS, VECTOR
from cbir.descriptors.networks.onnx_session import open_onnx_session
from cbir.errors import InvalidInput

# Upper case, marks, digits, white space, an accent, and a text that is cut
TRIAL_TEXTS = [
    "chest radiograph",
    "  MR of the left Knee,\n T2-weighted; axial_slice #3\t(5 mm) ",
    "Überlagerung: café, 5 µm – 50 %",
    "a b " * 1500,
]


def set_length(tokenizer: Tokenizer, length: int, padding: int) -> None:
    """Let a tokenizer cut and pad all texts to `length` tokens; `padding` is the token that fills them."""
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(length=length, pad_id=padding, pad_token=tokenizer.id_to_token(padding) or "!")


def normalise_first(tokenizer: Tokenizer, steps: list[Normalizer]) -> None:
    """Let a tokenizer take `steps` before its own normalisation."""
    own = [tokenizer.normalizer] if tokenizer.normalizer is not None else []
    tokenizer.normalizer = normalizers.Sequence([*steps, *own])


def white_space() -> list[Normalizer]:
    """Return the steps that reduce white space to single blanks."""
    return [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]


def export_text(text: HubText, dimensions: int) -> tuple[TextCard, TextFiles]:
    """Export a text tower whose vectors have as many values as those of images, `dimensions`.

    Raises InvalidInput if its values as ONNX are not those of torch, or its tokens not those of the library.
    """
    encodings = text.tokenizer.encode_batch(TRIAL_TEXTS)
    tokens = np.array([encoding.ids for encoding in encodings], np.int64)
    if not np.array_equal(tokens, text.tokenize(TRIAL_TEXTS)):
        raise InvalidInput("its tokenizer gives other tokens than the library")
    masks = np.array([encoding.attention_mask for encoding in encodings], np.int64)
    arrays = {TOKENS: tokens, MASK: masks} if text.masked else {TOKENS: tokens}
    feeds = [{name: array[row : row + 1] for name, array in arrays.items()} for row in range(len(tokens))]
    network = write_onnx(text.network, feeds[0], VECTOR)
    session = open_onnx_session(network)
    names = [tensor.name for tensor in session.get_inputs()]
    for feed in feeds:
        with torch.no_grad():
            expected = text.network(*map(torch.from_numpy, feed.values())).numpy()
        if expected.shape != (1, dimensions):
            raise InvalidInput(f"it gives {expected.shape} values, and the image tower {dimensions}")
        check_equal(expected, session.run([VECTOR], {name: feed[name] for name in names})[0])
    tokenizer = text.tokenizer.to_str().encode()
    sha256, tokenizer_sha256 = (hashlib.sha256(file).hexdigest() for file in (network, tokenizer))
    card = TextCard(sha256=sha256, tokenizer_sha256=tokenizer_sha256, length=text.length)
    return card, TextFiles(network, tokenizer)
