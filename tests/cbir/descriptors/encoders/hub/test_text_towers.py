"""Text towers of image-text models: texts get the vectors that the libraries give them."""

import open_clip
import pytest
import torch
from open_clip.tokenizer import HFTokenizer
from tokenizers import Tokenizer
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.descriptors import encoders
from cbir.descriptors.encoders.hub.export_network import TRIAL_TEXTS, export_text, normalise_first, set_length
from cbir.descriptors.encoders.hub.hub_network import NetworkFiles
from cbir.descriptors.encoders.hub.open_clip_network import cleaning, load_open_clip_text
from cbir.descriptors.encoders.hub.transformers_network import load_transformers_text
from cbir.errors import InvalidInput
from tests.cbir.descriptors.encoders.hub.text_models import (
    LENGTH,
    SENTENCES,
    save_bert,
    save_clip,
    save_open_clip,
    save_siglip,
)

UNSEEN = ["", "  T2\n\tof the KNEE ", "naïve_text! 12 <x>", "word " * 100]


def check_vectors(name, texts, expected):
    encoder = encoders.get(name)
    assert encoder.has_text
    for text, vector in zip(texts, expected, strict=True):
        assert encoder.describe_text(text) == pytest.approx(vector, rel=1e-3, abs=1e-4)


@pytest.mark.slow
def test_texts_of_siglip(get, tmp_path):
    model, tokenizer = save_siglip(tmp_path / "model")
    card = get("hf:org/model", "--from", tmp_path / "model")
    assert card["text"]["length"] == LENGTH
    texts = [*SENTENCES, *UNSEEN]
    inputs = tokenizer(texts, padding="max_length", truncation=True, max_length=LENGTH, return_tensors="pt")
    inputs = {name: inputs[name] for name in tokenizer.model_input_names if name in inputs}
    inputs.pop("token_type_ids", None)
    with torch.no_grad():
        check_vectors("hf:org/model", texts, model.get_text_features(**inputs).pooler_output.numpy())


@pytest.mark.slow
def test_texts_of_open_clip(get, tmp_path):
    text = {"context_length": 12, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1}
    model = save_open_clip(tmp_path / "model", text)
    card = get("hf:org/model", "--from", tmp_path / "model")
    assert card["text"]["length"] == 12
    tokens = open_clip.SimpleTokenizer(context_length=12)([*SENTENCES, *UNSEEN])
    with torch.no_grad():
        check_vectors("hf:org/model", [*SENTENCES, *UNSEEN], model.encode_text(tokens).numpy())


@pytest.mark.slow
def test_texts_of_a_transformer_in_open_clip(get, tmp_path):
    folder = tmp_path / "model"
    save_bert(folder)
    text = {"hf_model_name": str(folder), "hf_tokenizer_name": str(folder), "hf_model_pretrained": False,
            "hf_proj_type": "mlp", "hf_pooler_type": "cls_last_hidden_state_pooler",
            "context_length": LENGTH}  # fmt: skip
    model = save_open_clip(folder, text, custom=True)
    get("hf:org/model", "--from", folder)
    tokens = HFTokenizer(str(folder), context_length=LENGTH)([*SENTENCES, *UNSEEN])
    with torch.no_grad():
        check_vectors("hf:org/model", [*SENTENCES, *UNSEEN], model.encode_text(tokens).numpy())


def output_of(tmp_path, *arguments):
    command = ["encoder", "get", "hf:org/model", "--from", str(tmp_path), *arguments]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    return result.stderr


@pytest.mark.slow
def test_images_are_described_where_the_text_tower_is_incomplete(tmp_path):
    save_clip(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    assert (
        f"without its text tower, which search by text needs: {tmp_path} has no tokenizer.json"
        in output_of(tmp_path)
    )
    encoder = encoders.get("hf:org/model")
    assert (encoder.has_text, encoder.card.text, encoder.dimensions) == (False, None, 24)
    with pytest.raises(InvalidInput, match=r"hf-org--model has no text tower"):
        encoder.describe_text("knee")


def test_other_tokens_than_the_library_are_refused(tmp_path):
    model, _ = save_clip(tmp_path)
    text = load_transformers_text(model, tmp_path)
    text.tokenizer.normalizer = None  # keeps upper case
    with pytest.raises(InvalidInput, match="its tokenizer gives other tokens than the library"):
        export_text(text, 24)


def test_files_of_another_repository_are_named(tmp_path):
    text = {"hf_model_name": "org/bert", "hf_tokenizer_name": "org/bert"}
    snapshot = NetworkFiles(tmp_path, "", "open_clip_config.json", tmp_path / "weights", "mit")
    message = f"put config.json of https://huggingface.co/org/bert into {tmp_path}"
    with pytest.raises(InvalidInput, match=message):
        load_open_clip_text({"embed_dim": 24, "text_cfg": text}, {}, snapshot, offline=True)
    with pytest.raises(
        InvalidInput, match=r"org/bert cannot be fetched .*; put config.json and tokenizer.json"
    ):
        load_open_clip_text({"embed_dim": 24, "text_cfg": text}, {}, snapshot, offline=False)


def test_canonical_texts_have_the_tokens_of_the_library(tmp_path):
    save_bert(tmp_path)
    library = HFTokenizer(str(tmp_path), context_length=LENGTH, clean="canonicalize")
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    normalise_first(tokenizer, cleaning("canonicalize"))
    set_length(tokenizer, LENGTH, library.tokenizer.pad_token_id)
    texts = [*TRIAL_TEXTS, *UNSEEN, "a-b c_d (e) [f]"]
    assert [tokenizer.encode(text).ids for text in texts] == library(texts).tolist()
