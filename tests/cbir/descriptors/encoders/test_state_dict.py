"""Reading of state dicts: real files, hostile pickles, damage."""

import collections
import os
import pickle
import struct
import sys
from types import ModuleType

import numpy as np
import pytest

from cbir.descriptors.encoders.built_in import MAGIC, PROTOCOL, parse_state_dict, weights_path
from cbir.errors import InvalidInput

HEAD = [MAGIC, PROTOCOL, {"little_endian": True}]
TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n"


def storage(key=b"0", kind=b"FloatStorage"):
    """Return opcodes of a storage with a persistent id."""
    return b"(Vstorage\nctorch\n" + kind + b"\nV" + key + b"\nVcpu\nI4\nNtQ"


def tensor(offset=0, shape=(2, 2), strides=(2, 1), kind=b"FloatStorage"):
    """Return opcodes of a tensor."""
    numbers = [
        b"(" + b"".join(b"I%d\n" % number for number in numbers) + b"t" for numbers in (shape, strides)
    ]
    return TENSOR + b"(" + storage(kind=kind) + b"I%d\n" % offset + numbers[0] + numbers[1] + b"I00\nNtR"


def file_of(value, head=HEAD, keys=("0",), data=struct.pack("<q4f", 4, 1, 2, 3, 4)):
    """Return a file with a pickled dictionary {"w": value}, given as opcodes."""
    parts = [pickle.dumps(part, 2) for part in head]
    return (
        b"".join(parts) + b"\x80\x02}X\x01\x00\x00\x00w" + value + b"s." + pickle.dumps(list(keys), 2) + data
    )


def test_real_weights():
    path = weights_path("lite0")
    tensors = parse_state_dict(path.read_bytes(), path.name)
    assert len(tensors) == 296
    assert tensors["_conv_stem.weight"].shape == (32, 3, 3, 3)
    assert tensors["_conv_stem.weight"].dtype == np.float32
    assert tensors["_bn0.num_batches_tracked"].dtype == np.int64
    assert tensors["_fc.weight"].shape == (1000, 1280)
    assert all(np.isfinite(values).all() for values in tensors.values())


def test_small_file():
    assert parse_state_dict(file_of(tensor()), "w")["w"].tolist() == [[1, 2], [3, 4]]
    transposed = tensor(1, (2,), (2,))
    assert parse_state_dict(file_of(transposed), "w")["w"].tolist() == [2, 4]


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("posix", "system"),
        ("builtins", "eval"),
        ("builtins", "getattr"),
        ("torch", "load"),
        ("torch._utils", "_rebuild_tensor"),
        ("torch.storage", "_load_from_bytes"),
        ("collections", "namedtuple"),
        ("numpy", "load"),
        ("cbir.descriptors.encoders.built_in", "parse_state_dict"),
    ],
)
def test_other_globals_are_refused(module, name, tmp_path):
    target = tmp_path / "ran"
    call = b"c%s\n%s\n(V%s\ntR" % (module.encode(), name.encode(), f"touch {target}".encode())
    with pytest.raises(InvalidInput, match=f"w.pth is not a PyTorch state dict.*refers to {module}.{name}"):
        parse_state_dict(file_of(call), "w.pth")
    assert not target.exists()


def test_pickles_before_and_after_the_tensors_are_restricted_too(tmp_path):
    class Hostile:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    for position in range(3):
        head = [*HEAD[:position], Hostile(), *HEAD[position + 1 :]]
        with pytest.raises(InvalidInput, match="refers to"):
            parse_state_dict(file_of(tensor(), head), "w")
    content = file_of(tensor())
    keys = pickle.dumps(["0"], 2)
    with pytest.raises(InvalidInput, match="refers to"):
        parse_state_dict(content.replace(keys, pickle.dumps(Hostile(), 2)), "w")
    assert not (tmp_path / "ran").exists()


def test_modules_are_not_imported(monkeypatch):
    module = ModuleType("torch_extra")
    monkeypatch.setitem(sys.modules, "torch_extra", module)
    module.FloatStorage = collections.OrderedDict
    with pytest.raises(InvalidInput, match="torch_extra"):
        parse_state_dict(file_of(b"ctorch_extra\nFloatStorage\n)R"), "w")


@pytest.mark.parametrize("state", [b"}V__defaults__\n(I1\ntsb0", b"N}V__defaults__\n(I1\nts\x86b0"])
def test_attributes_that_a_pickle_sets_do_not_last(state):
    parse_state_dict(file_of(TENSOR + state + tensor()), "w")
    assert parse_state_dict(file_of(tensor()), "w")["w"].tolist() == [[1, 2], [3, 4]]
    with pytest.raises(InvalidInput):
        parse_state_dict(file_of(TENSOR + b"(" + storage() + b"I0\ntR"), "w")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04",
        b"\x80\x02K\x01.",
        file_of(tensor(), head=[MAGIC, 1002, HEAD[2]]),
        file_of(tensor(), head=[MAGIC, PROTOCOL, {"little_endian": False}]),
        file_of(tensor(), head=[MAGIC, PROTOCOL, []]),
        file_of(b"V1\n"),
        file_of(b"I1\n"),
        file_of(tensor(1)),
        file_of(tensor(-1)),
        file_of(tensor(shape=(3, 2))),
        file_of(tensor(shape=(2,))),
        file_of(tensor(strides=(2, -1))),
        file_of(tensor(shape=(2**40, 2**40))),
        file_of(tensor(kind=b"HalfStorage")),
        file_of(tensor(), keys=()),
        file_of(tensor(), keys=("0", "1")),
        file_of(tensor(), data=struct.pack("<q3f", 4, 1, 2, 3)),
        file_of(tensor(), data=struct.pack("<q", -4)),
        file_of(tensor(), data=struct.pack("<q4f", 2**61, 1, 2, 3, 4)),
        file_of(tensor())[:200],
    ],
)
def test_other_content_is_refused_in_one_line(content):
    with pytest.raises(InvalidInput, match=r"^w\.pth is not a PyTorch state dict that can be read: [^\n]*$"):
        parse_state_dict(content, "w.pth")
