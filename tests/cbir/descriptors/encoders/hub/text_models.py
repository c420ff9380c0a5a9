"""Small image-text models with random weights, made by transformers and open_clip, and their tokenizers."""

import json

import open_clip
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from tests.cbir.descriptors.encoders.hub.test_transformers import CROP, SMALL, SQUASH, save

SENTENCES = [
    "chest radiograph, frontal view", "MR of the left knee, T2 weighted", "skin lesion: café, 5 µm – 50 %",
    "axial slice of the abdomen with contrast", "a red blood cell", "ultrasound of the breast #3",
]  # fmt: skip
LENGTH = 16
TEXT = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
        "max_position_embeddings": LENGTH}  # fmt: skip


def train_tokenizer(lowercase=True):
    """Train byte pairs on the sentences; a text is `<s> words </s>`."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    if lowercase:
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<unk>", "<pad>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    ids = [(name, tokenizer.token_to_id(name)) for name in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ids)
    return tokenizer


def save_tokenizer(folder, **options):
    """Write a trained tokenizer as the hub has it; return it as transformers reads it."""
    library = transformers.PreTrainedTokenizerFast(
        tokenizer_object=train_tokenizer(), pad_token="<pad>", bos_token="<s>", eos_token="</s>",
        unk_token="<unk>", model_max_length=LENGTH, **options,
    )  # fmt: skip
    library.save_pretrained(folder)
    return library


def save_clip(folder):
    """Write a CLIP with its tokenizer; return both."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = save_tokenizer(folder)
    text = {**TEXT, "vocab_size": len(tokenizer), "eos_token_id": tokenizer.eos_token_id,
            "bos_token_id": tokenizer.bos_token_id, "pad_token_id": tokenizer.pad_token_id}  # fmt: skip
    config = transformers.CLIPConfig(vision_config=SMALL, text_config=text, projection_dim=24)
    return save(folder, config, CROP), tokenizer


def save_siglip(folder):
    """Write a SigLIP, whose texts are padded and not masked, with its tokenizer; return both."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = save_tokenizer(folder, model_input_names=["input_ids"])
    text = {**TEXT, "hidden_size": 32, "vocab_size": len(tokenizer)}
    config = transformers.SiglipConfig(vision_config=SMALL, text_config=text)
    return save(folder, config, SQUASH), tokenizer


def save_open_clip(folder, text_cfg, custom=False):
    """Write an image-text model of open_clip with random weights as the hub has it; return it."""
    torch.manual_seed(0)
    vision = {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8}
    config = {"embed_dim": 24, "vision_cfg": vision, "text_cfg": text_cfg}
    folder.mkdir(parents=True, exist_ok=True)
    model = (open_clip.CustomTextCLIP if custom else open_clip.CLIP)(**config).eval()
    if custom:
        text_cfg = {**text_cfg, "hf_model_name": "org/bert", "hf_tokenizer_name": "org/bert"}
    fields = {"model_cfg": {**config, "text_cfg": text_cfg}, "preprocess_cfg": {"resize_mode": "squash"}}
    (folder / "open_clip_config.json").write_text(json.dumps(fields))
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    return model


def save_bert(folder):
    """Write the configuration and the tokenizer of a BERT, as BiomedCLIP's text tower has them."""
    tokenizer = save_tokenizer(folder)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=LENGTH, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    config.save_pretrained(folder)
    return tokenizer
