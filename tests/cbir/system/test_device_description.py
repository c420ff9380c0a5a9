"""Descriptions on a GPU: those of the CPU within the profile's tolerance, and the CPU's when it fails."""

import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from cbir.descriptors import network_descriptors
from cbir.descriptors.network_descriptors import DEVICE_TOLERANCE, EmbeddingDescriptor, descriptor_name
from cbir.descriptors.networks import embedder as models
from cbir.descriptors.networks.embedder import Embedder
from cbir.errors import DeviceFailed
from cbir.learn.models import scoring_network
from cbir.learn.models.scoring_network import apply_network
from cbir.learn.severity import sampled_ranker
from cbir.learn.severity.severity_rankers import ValueRanker
from cbir.learn.training.fine_tuning import run_training_loop
from cbir.system import device, device_failure
from tests.cbir.system.device_errors import ERRORS, failing

HERE = "cuda" if torch.cuda.is_available() else "cpu"  # where torch's form of the network runs
SIDE = 64


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.manual_seed(0)
    made = Embedder("small", side=SIDE, dimensions=32)
    made.train()
    with torch.no_grad():  # statistics of the batch norms
        made(torch.rand(64, 1, SIDE, SIDE))
    path = tmp_path_factory.mktemp("embedding")
    models.save_embedder(made.eval(), path, {})
    return path


@pytest.fixture(scope="module")
def inputs():
    return list(np.random.default_rng(1).integers(0, 256, (150, SIDE, SIDE), np.uint8))


def give_memory(monkeypatch, free):
    """Let a third of `free` bytes be what torch keeps for later."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free - free // 3, 2 * free))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: free // 3 + 5)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 5)


@pytest.fixture
def gpu(monkeypatch):
    """A GPU that passes its trial; the network runs where it can."""
    load = network_descriptors._torch_network
    monkeypatch.setattr(device, "_tried", lambda library, needs_driver=False: None)
    monkeypatch.setattr(device, "gpu_name", lambda: "Test GPU")
    if HERE == "cpu":
        give_memory(monkeypatch, 1 << 34)
    monkeypatch.setattr(network_descriptors, "_torch_network", lambda path, name: load(path, HERE))
    network_descriptors._load_network.cache_clear()
    yield
    network_descriptors._load_network.cache_clear()


def described(folder, inputs, setting):
    return EmbeddingDescriptor(descriptor_name(folder), folder, setting).describe_batch(inputs)


def test_both_devices_are_within_the_tolerance_of_float64(folder, inputs, gpu, monkeypatch):
    pixels = torch.from_numpy(np.stack(inputs)[:, None]).double() / 255
    with torch.inference_mode(), monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "float", torch.Tensor.double)  # networks pool in single precision
        exact = models.load_embedder(folder).double()(pixels).numpy()
    for setting in ("cpu", "cuda"):
        difference = np.abs(described(folder, inputs, setting) - exact).max()
        assert difference < DEVICE_TOLERANCE / 2, setting  # so that two devices differ by less


def test_networks_run_in_full_precision(folder, inputs, gpu, monkeypatch):
    seen = []

    class Asked(torch.nn.Module):
        def forward(self, images):
            seen.append(torch.backends.cudnn.conv.fp32_precision)
            return torch.zeros(len(images), 32)

        features = forward

    monkeypatch.setattr(models, "load_embedder", lambda path: Asked())
    described(folder, inputs, "cuda")
    apply_network(Asked(), np.stack(inputs))
    assert set(seen) == {"ieee"}


def test_embeddings_say_where_they_run(folder, gpu, monkeypatch):
    describe = EmbeddingDescriptor(descriptor_name(folder), folder)
    assert describe.batches_on_gpu()
    assert not EmbeddingDescriptor(describe.name, folder, "cpu").batches_on_gpu()
    monkeypatch.setattr(network_descriptors, "_encoder_input", lambda *_: "an input")  # began as an encoder
    assert not describe.batches_on_gpu()


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("place", ["weights", "network"])
def test_a_failure_leads_to_the_description_of_the_cpu(
    folder, inputs, gpu, monkeypatch, caplog, place, error
):
    expected = described(folder, inputs, "cpu")

    def load(path, name):
        if place == "network":
            return failing(error)
        with device_failure.device_failures("weights of an embedding", name):
            return failing(error)()

    monkeypatch.setattr(network_descriptors, "_torch_network", load)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert (described(folder, inputs, "auto") == expected).all()
    assert len(caplog.records) == 1
    assert device.choose_device("auto").name == "cpu"
    with pytest.raises(DeviceFailed, match=r"^the GPU failed \(.*\): .*; set device=cpu or auto"):
        described(folder, inputs, "cuda")


def test_batches_that_do_not_fit_are_halved(folder, inputs, gpu, monkeypatch):
    expected, run, sizes = (
        described(folder, inputs, "cuda"),
        network_descriptors._torch_network(folder, "cuda"),
        [],
    )

    def small(images):
        sizes.append(len(images))
        if len(images) > 10:
            raise ERRORS["memory"]()
        return run(images)

    network_descriptors._load_network.cache_clear()
    monkeypatch.setattr(network_descriptors, "_torch_network", lambda path, name: small)
    assert described(folder, inputs, "cuda") == pytest.approx(expected, abs=1e-5)
    assert sizes[:5] == [150, 75, 37, 18, 9]
    assert device_failure.failure_count() == 0


class Meter(torch.nn.Module):
    """A network that has room for `room` inputs."""

    def __init__(self, room):
        super().__init__()
        self.room, self.sizes = room, []

    def forward(self, images):
        self.sizes.append(len(images))
        if len(images) > self.room:
            raise ERRORS["memory"]()
        return images.mean(dim=(1, 2, 3))


@pytest.mark.parametrize("free", [1 << 20, 1 << 34])
def test_pictures_are_sent_by_their_bytes(inputs, monkeypatch, free):
    """As many as a part of the free memory holds, and fewer where that was too many."""
    give_memory(monkeypatch, free)
    monkeypatch.setattr(scoring_network, "to_network_input", on_the_cpu(scoring_network.to_network_input))
    network = Meter(40)
    values = apply_network(network, np.stack(inputs), "cuda")
    assert values == pytest.approx(np.stack(inputs).mean(axis=(1, 2)) / 255, abs=1e-6)
    planned = min(free // 4, 1 << 30) // (16 * 4 * SIDE * SIDE)
    assert network.sizes[0] == min(150, max(1, planned))
    assert max(network.sizes[-3:]) <= 40


def on_the_cpu(to_input):
    return lambda pictures, device: to_input(pictures, "cpu")


def test_severity_is_sampled_by_bytes(monkeypatch):
    values = np.random.default_rng(0).standard_normal((60, 8)).astype(np.float32)
    ranker = ValueRanker("tamura", passes=5, epochs=1, steps=4).fit(values, [(0, 1), (2, 3)], [1.0, 0.0])
    expected = ranker.severity(values)
    sizes, run = [], sampled_ranker.in_pieces
    give_memory(monkeypatch, 1 << 15)
    monkeypatch.setattr(
        sampled_ranker, "in_pieces", lambda work, count, size: sizes.append(size) or run(work, count, size)
    )
    monkeypatch.setattr(type(ranker), "batch_tensor", lambda self, inputs: torch.from_numpy(inputs))
    ranker.device = "cuda"
    assert ranker.severity(values).mean == pytest.approx(expected.mean, abs=1e-5)
    assert sizes == [(1 << 15) // 4 // (16 * 5 * values[:1].nbytes)]


class OnGpu(torch.nn.Module):
    """A network that says it is on a GPU."""

    def parameters(self, recurse=True):
        return iter([SimpleNamespace(device=torch.device("cuda"))])


@pytest.mark.parametrize("error", ERRORS)
def test_a_failure_in_training_is_said_in_a_line(error):
    with pytest.raises(DeviceFailed, match=r"^the GPU failed \(step 3 of the training.*\): ") as raised:
        run_training_loop(OnGpu(), None, failing(error), 5, start=3)
    assert "\n" not in str(raised.value)
    with pytest.raises(type(ERRORS[error]())):
        run_training_loop(torch.nn.Linear(1, 1), None, failing(error), 5)
