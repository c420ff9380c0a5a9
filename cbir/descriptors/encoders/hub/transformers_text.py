"""Text towers of image-text models of transformers: CLIP, SigLIP and others."""

from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import AutoTokenizer

from cbir.descriptors.encoders.hub.export_text import set_length
from cbir.descriptors.encoders.hub.hub_network import HubText
from cbir.errors import InvalidInput

TOKENIZER = "tokenizer.json"
LONGEST = 512  # tokens; some models have no limit


class TransformersText(nn.Module):
    """The vector of a text, which is compared with those of images."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        arguments = {} if mask is None else {"attention_mask": mask}
        features = cast(Any, self.model).get_text_features(input_ids=tokens, **arguments)
        return cast(Tensor, getattr(features, "pooler_output", features))


def load_transformers_text(model: nn.Module, folder: Path) -> HubText:
    """Load the tokenizer of an image-text model from the folder with its files.

    Raises InvalidInput without one that the library tokenizers can read.
    """
    if not (folder / TOKENIZER).is_file():
        raise InvalidInput(f"{folder} has no {TOKENIZER}")
    library = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    if library.is_fast:
        tokenizer = Tokenizer.from_str(library.backend_tokenizer.to_str())
    longest = getattr(cast(Any, model).config.text_config, "max_position_embeddings", LONGEST)
    length = min(int(longest), int(library.model_max_length), LONGEST)
    if library.pad_token_id is None:
        raise InvalidInput(f"{folder}: its tokenizer has no token for padding")
    set_length(tokenizer, length, int(library.pad_token_id))

    def tokenize(texts: list[str]) -> NDArray[np.int64]:
        options = {"padding": "max_length", "truncation": True, "max_length": length}
        return np.array(library(texts, **options)["input_ids"], np.int64)

    masked = "attention_mask" in library.model_input_names
    return HubText(TransformersText(model).eval(), masked, tokenizer, tokenize, length)
