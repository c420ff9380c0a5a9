"""PyTorch state dicts read without torch, and without running anything that a pickle asks for.

Reads both file formats of `torch.save`. Before version 1.6: five pickles (magic number, protocol, system, the
dictionary of tensors, keys of the storages), then the storages, each a count of its elements and their bytes. Since
then: a ZIP archive, uncompressed, of the pickle NAME/data.pkl and the storages NAME/data/KEY.
"""

import pickle
import zipfile
from collections import OrderedDict
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
