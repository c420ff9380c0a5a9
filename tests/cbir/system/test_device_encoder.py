"""Encoders on a GPU: the vectors of the CPU, for every kind of image, and the CPU when the GPU fails."""

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from cbir.descriptors import descriptor, encoders
from cbir.descriptors.encoders import built_in, device_encoder, device_network, load_content
from cbir.descriptors.encoders.add_encoder import add_encoder
from cbir.descriptors.encoders.device_encoder import FEWEST, LEAST_COSINE, least_cosine
from cbir.descriptors.encoders.device_network import DeviceNetwork, read_known_graph
from cbir.descriptors.encoders.encoder_files import EncoderCard, VolumeInput
from cbir.descriptors.encoders.encoder_network import EncoderNetwork, normalise_pixels
from cbir.descriptors.encoders.network_writers import InflatedResNet
from cbir.descriptors.encoders.onnx_messages import write_model, write_node, write_tensor
from cbir.descriptors.network_descriptors import Concatenated, EncoderDescriptor, encoder_descriptor_name
from cbir.descriptors.networks.model_card import open_onnx_session
from cbir.descriptors.tamura import Tamura
from cbir.errors import DeviceFailed, InvalidInput, UndescribableImage
from cbir.images import Image
from cbir.system import device, device_failure
from tests.cbir.descriptors.encoders.onnx_models import convolution, vector
from tests.cbir.descriptors.encoders.test_inflated_resnet import SHAPE, Network
from tests.cbir.system.device_errors import ERRORS, failing
from tests.drawn_pictures import KINDS, draw
from tests.stand_in_gpu import HERE, has_half, stand_in_gpu  # noqa: F401

OF_IMAGES = [name for name in built_in.CARDS if name != "ct-volume"]
SHAPES = ((1, 1), (1, 300), (2, 2000), (70, 71, 3), (300, 30), (230, 260, 3))
PICTURES = [
    Image(draw(kind, shape, seed)) for seed, (kind, shape) in enumerate(zip(KINDS, SHAPES, strict=True))
]
HALF = pytest.param(
    "float16", marks=pytest.mark.skipif(not has_half(), reason="this CPU has no half precision")
)
PRECISIONS = pytest.mark.parametrize("precision", ["float32", HALF])
NAME = "lite0-max"


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        path = tmp_path_factory.mktemp("encoders")
        for stored in Path(os.environ.get("CBIR_ENCODER_FOLDER", path)).glob("lite*"):  # of the GPU kit
            shutil.copy(stored, path)
        patch.setenv("CBIR_ENCODER_FOLDER", str(path))
        yield path


def available(name):
    """Return an encoder; skip the test where its weights are missing."""
    try:
        encoders.get(name).check_available()
    except InvalidInput as error:
        pytest.skip(str(error))
    return encoders.get(name)


def opened(encoder, precision="float32"):
    graph = read_known_graph(load_content(encoder.card, encoder.folder))
    return DeviceNetwork(graph, encoder.card, HERE, getattr(torch, precision))


def described(name, inputs, setting="auto"):
    return EncoderDescriptor(encoder_descriptor_name(name), setting).describe_batch(inputs)


@pytest.fixture(scope="module")
def inputs():
    encoder = encoders.get(NAME)
    return [encoder.prepare(Image(draw("smooth", (60, 80), seed))) for seed in range(FEWEST + 2)]


@PRECISIONS
@pytest.mark.parametrize("name", OF_IMAGES)
def test_vectors_are_those_of_the_cpu(name, precision):
    encoder = available(name)
    prepared = [encoder.prepare(picture) for picture in PICTURES]
    vectors, expected = opened(encoder, precision).describe(prepared), encoder.describe_batch(prepared)
    assert vectors.dtype == np.float32
    assert vectors.shape == expected.shape
    if precision == "float32":
        np.testing.assert_allclose(vectors, expected, rtol=1e-4, atol=1e-3)
    assert least_cosine(vectors, expected) >= (LEAST_COSINE if precision == "float32" else 0.998)


@pytest.mark.parametrize("name", OF_IMAGES)
def test_hard_images_have_the_vectors_of_the_cpu_too(name, stand_in_gpu):  # noqa: F811
    """Uniform ones and faint slopes: the precision that is chosen must do for all."""
    encoder = available(name)
    slope = np.linspace(0, 1, 200).repeat(180).reshape(200, 180)
    hard = [
        low + high * slope
        for low, high in ((90, 8), (30, 8), (70, 24), (40, 48), (100, 96), (64, 0), (255, 0))
    ]
    prepared = [encoder.prepare(Image(pixels.astype(np.uint8))) for pixels in hard]
    prepared += [encoder.prepare(picture) for picture in PICTURES]
    assert EncoderDescriptor(encoder_descriptor_name(name), "cuda").batches_on_gpu()
    assert least_cosine(described(name, prepared, "cuda"), encoder.describe_batch(prepared)) >= LEAST_COSINE


@PRECISIONS
def test_volumes(precision):
    torch.manual_seed(0)
    network = Network().eval()
    weights = {name: values.numpy() for name, values in network.state_dict().items()}
    content = InflatedResNet(weights, SHAPE).write()
    depth, width, height = SHAPE
    shape = VolumeInput.model_construct(
        width=width, height=height, depth=depth, spacing=(1, 1, 1), low=-900, high=900
    )
    values = built_in.CT_VOLUME.outputs[0].model_copy(update={"dimensions": 40})
    card = built_in.CT_VOLUME.model_copy(update={"input": shape, "outputs": (values,)})
    random = np.random.default_rng(0)
    volumes = [random.integers(-1000, 1000, (width, height, depth), np.int16) for _ in range(3)]
    on_cpu = EncoderNetwork(open_onnx_session(content), card)
    vectors = DeviceNetwork(read_known_graph(content), card, HERE, getattr(torch, precision)).describe(
        volumes
    )
    assert least_cosine(vectors, np.stack([on_cpu.describe(volume) for volume in volumes])) >= LEAST_COSINE


@pytest.mark.parametrize("name", OF_IMAGES)
def test_inputs_are_equal_to_the_bit(name):
    encoder = available(name)
    prepared = [encoder.prepare(picture) for picture in PICTURES]
    on_device = opened(encoder).normalise(prepared)
    assert on_device.is_contiguous(memory_format=torch.channels_last)
    expected = np.concatenate([normalise_pixels(pixels, encoder.card.input) for pixels in prepared])
    assert on_device.cpu().numpy().tobytes() == expected.tobytes()


def test_activations_are_dropped_after_their_last_use():
    network = opened(encoders.get(NAME))
    kept, alive, most = {"middle", "late", "last"}, {network._source}, 0
    for node, unused in zip(network._nodes, network._last_uses, strict=True):
        assert alive >= set(node.inputs) - network._weights.keys()
        alive.add(node.output)
        most = max(most, len(alive - kept))
        alive -= set(unused)
    assert alive == kept
    assert most <= 3  # the input of a block, for its shortcut, and input and output of a layer


def test_batches_of_any_size(monkeypatch, inputs, stand_in_gpu):  # noqa: F811
    """What is described together does not matter, nor whether it fits in one go."""
    monkeypatch.setattr(device_encoder, "PRECISIONS", ("float32",))
    expected = encoders.get(NAME).describe_batch(inputs)
    sizes, describe = [], DeviceNetwork._describe

    def small(self, pixels):
        sizes.append(len(pixels))
        if len(pixels) > 3:
            raise ERRORS["memory"]()
        return describe(self, pixels)

    np.testing.assert_allclose(described(NAME, inputs), expected, rtol=1e-4, atol=1e-3)
    monkeypatch.setattr(device_network, "IMAGES_TOGETHER", 8)
    np.testing.assert_allclose(described(NAME, inputs), expected, rtol=1e-4, atol=1e-3)
    monkeypatch.setattr(DeviceNetwork, "_describe", small)
    np.testing.assert_allclose(described(NAME, inputs), expected, rtol=1e-4, atol=1e-3)
    assert sizes[:4] == [8, 4, 2, 2]
    assert device_failure.failure_count() == 0
    assert opened(encoders.get(NAME)).describe([]).shape == (0, encoders.get(NAME).dimensions)


def test_many_images_go_to_the_gpu_and_few_do_not(inputs, stand_in_gpu, monkeypatch):  # noqa: F811
    seen, describe = [], DeviceNetwork.describe
    monkeypatch.setattr(
        DeviceNetwork, "describe", lambda self, rows: (seen.append(len(rows)), describe(self, rows))[1]
    )
    describe_images = EncoderDescriptor(encoder_descriptor_name(NAME))
    assert describe_images.batches_on_gpu()
    seen.clear()  # of the trial
    on_cpu = encoders.get(NAME).describe_batch(inputs)
    assert (describe_images.describe_batch(inputs[: FEWEST - 1]) == on_cpu[: FEWEST - 1]).all()
    assert seen == []
    assert least_cosine(describe_images.describe_batch(inputs), on_cpu) >= LEAST_COSINE
    assert seen == [len(inputs)]
    both = Concatenated(describe_images, Tamura())
    assert both.batches_on_gpu()
    assert isinstance(both, descriptor.Batched)
    assert not EncoderDescriptor(describe_images.name, "cpu").batches_on_gpu()


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("place", ["_place", "_run"])
def test_a_failure_leads_to_the_cpu(inputs, stand_in_gpu, monkeypatch, caplog, place, error):  # noqa: F811
    expected = encoders.get(NAME).describe_batch(inputs)
    monkeypatch.setattr(DeviceNetwork, place, failing(error))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert (described(NAME, inputs) == expected).all()
    assert len(caplog.records) == 1
    assert device.choose_device("auto").name == "cpu"
    with pytest.raises(DeviceFailed, match=r"^the GPU failed \(.*\): .*; set device=cpu or auto") as raised:
        described(NAME, inputs, "cuda")
    assert "\n" not in str(raised.value)


def test_a_failure_after_the_trial(inputs, stand_in_gpu, monkeypatch):  # noqa: F811
    expected = encoders.get(NAME).describe_batch(inputs)
    assert EncoderDescriptor(encoder_descriptor_name(NAME)).batches_on_gpu()
    monkeypatch.setattr(DeviceNetwork, "describe", failing("sticky"))
    assert (described(NAME, inputs) == expected).all()
    assert device_encoder._load_network.cache_info().currsize == 0  # its weights are freed
    assert not EncoderDescriptor(encoder_descriptor_name(NAME)).batches_on_gpu()


def added(tmp_path, name, content):
    """Add an encoder; return prepared images for it."""
    model, card = tmp_path / "model.onnx", tmp_path / "card.json"
    model.write_bytes(content)
    card.write_text('{"outputs": [{"tensor": "maps", "pooling": "global", "dimensions": 4}]}')
    add_encoder(name, model, card if b"maps" in content else None, encoders.get(NAME).folder)
    encoder = encoders.get(name)
    return [encoder.prepare(Image(draw("noise", (20, 20), seed))) for seed in range(FEWEST)]


def test_networks_of_users_with_known_layers(tmp_path, stand_in_gpu):  # noqa: F811
    prepared = added(tmp_path, "known", convolution())
    assert EncoderDescriptor(encoder_descriptor_name("known"), "cuda").batches_on_gpu()
    expected = encoders.get("known").describe_batch(prepared)
    assert least_cosine(described("known", prepared, "cuda"), expected) >= LEAST_COSINE


def test_other_networks_stay_on_the_cpu_and_say_so_once(tmp_path, stand_in_gpu, caplog):  # noqa: F811
    prepared = added(tmp_path, "product", vector())
    for setting in ("auto", "cuda"):
        assert not EncoderDescriptor(encoder_descriptor_name("product"), setting).batches_on_gpu()
        assert (
            described("product", prepared, setting) == encoders.get("product").describe_batch(prepared)
        ).all()
    (record,) = caplog.records
    assert record.message == (
        "the CPU describes images by the encoder product, not the GPU: it has layers of the kind MatMul"
    )
    assert device_failure.failure_count() == 0


@pytest.mark.parametrize("attribute", [{"ceil_mode": 1}, {"dilations": (2, 2)}, {"other": 3}])
def test_layers_with_unknown_attributes(attribute):
    node = write_node("MaxPool", ["images"], "maps", kernel_shape=(2, 2), **attribute)
    with pytest.raises(ValueError, match=f"its layer maps has the attribute {next(iter(attribute))}"):
        read_known_graph(write_model([node], [], {"images": (1, 1, 8, 8)}, {"maps": (1, 1, 7, 7)}))


@pytest.mark.parametrize("pads", [(1, 0, 1, 0), (0, 1, 1, 0)])
def test_uneven_padding_is_that_of_onnx(pads):
    random = np.random.default_rng(0)
    weight = random.normal(size=(2, 3, 3, 3))
    nodes = [
        write_node("Conv", ["images", "w"], "conv", pads=(0, 1, 2, 1), strides=(2, 1), kernel_shape=(3, 3)),
        write_node("MaxPool", ["conv"], "maps", pads=pads, kernel_shape=(2, 2), strides=(1, 1)),
    ]
    shapes = {"images": (1, 3, 9, 8)}, {"maps": None}
    sides = 3 + pads[0] + pads[2], 7 + pads[1] + pads[3]
    content = write_model(nodes, [write_tensor("w", weight)], shapes[0], {"maps": (1, 2, *sides)})
    images = random.normal(size=(1, 3, 9, 8)).astype(np.float32)
    expected = open_onnx_session(content).run(None, {"images": images})[0]
    card = EncoderCard.model_construct(outputs=(), input=encoders.get(NAME).card.input)
    network = DeviceNetwork(read_known_graph(content), card, HERE, torch.float32)
    network._last_uses = [[], []]
    maps = network._run(torch.from_numpy(images).to(HERE))["maps"]
    np.testing.assert_allclose(maps.cpu().numpy(), expected, rtol=1e-4, atol=1e-5)


def test_a_gpu_with_other_vectors_is_not_used(inputs, stand_in_gpu, monkeypatch, caplog):  # noqa: F811
    run = DeviceNetwork._run
    monkeypatch.setattr(
        DeviceNetwork, "_run", lambda self, source: {k: v.roll(1, 1) for k, v in run(self, source).items()}
    )
    expected = encoders.get(NAME).describe_batch(inputs)
    assert (described(NAME, inputs) == expected).all()
    (record,) = caplog.records
    assert "its vectors differ there (cosine " in record.message


def test_half_precision_that_does_not_do_gives_way_to_single(inputs, stand_in_gpu, monkeypatch):  # noqa: F811
    monkeypatch.setattr(device_encoder, "PRECISIONS", ("bfloat16", "float32"))
    expected = encoders.get(NAME).describe_batch(inputs)
    np.testing.assert_allclose(described(NAME, inputs), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e9])
def test_values_that_cannot_be_stored_are_those_of_the_cpu(inputs, stand_in_gpu, monkeypatch, value):  # noqa: F811
    expected = encoders.get(NAME).describe_batch(inputs)
    assert EncoderDescriptor(encoder_descriptor_name(NAME)).batches_on_gpu()
    describe = DeviceNetwork.describe

    def broken(self, pixels):
        vectors = describe(self, pixels)
        vectors[3, 5] = value
        return vectors

    monkeypatch.setattr(DeviceNetwork, "describe", broken)
    vectors = described(NAME, inputs)
    assert (vectors[3] == expected[3]).all()
    assert least_cosine(vectors, expected) >= LEAST_COSINE
    monkeypatch.setattr(encoders.Encoder, "describe_batch", failing_with(UndescribableImage("not finite")))
    with pytest.raises(UndescribableImage, match="not finite"):
        described(NAME, inputs)


def failing_with(error):
    def fail(*_):
        raise error

    return fail


def test_without_a_gpu(inputs, monkeypatch):
    monkeypatch.setattr(device, "_results", {})
    if HERE == "cpu":
        with pytest.raises(
            InvalidInput, match=r"^device=cuda: .*; set device=cpu or auto to compute on the CPU$"
        ):
            described(NAME, inputs, "cuda")
        assert (described(NAME, inputs) == encoders.get(NAME).describe_batch(inputs)).all()


def test_encoders_do_without_torch(folder):
    """Where it is not installed, or there is no GPU, it is not imported, and all works."""
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np\n"
        "from pathlib import Path\n"
        "from cbir.system import device\n"
        "device.DRIVERS = (Path('/'),) if sys.argv[1] == 'driver' else ()\n"
        "device.find_spec = lambda name: None\n"
        "from cbir.descriptors.network_descriptors import EncoderDescriptor, encoder_descriptor_name\n"
        "describe = EncoderDescriptor(encoder_descriptor_name('lite0-max'))\n"
        "print(describe.batches_on_gpu(), describe.describe_batch([np.zeros((224, 224, 3), np.uint8)] * 9).shape)"
    )
    for machine in ("driver", "no driver"):
        done = subprocess.run([sys.executable, "-c", program, machine], capture_output=True, text=True)
        assert (done.stdout, done.stderr) == ("False (9, 2800)\n", "")
