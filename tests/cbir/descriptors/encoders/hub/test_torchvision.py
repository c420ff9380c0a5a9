"""Classifiers of torchvision as encoders: published file names, fetched from a server of the test."""

import http.server
import threading
from functools import partial

import pytest
import torch
import torchvision.models
from PIL import Image as PillowImage
from torchvision.transforms._presets import ImageClassification

from cbir import descriptors
from cbir.descriptors import encoders
from cbir.errors import InvalidInput
from cbir.images import Image
from cbir.system.files import file_sha256
from tests.cbir.descriptors.pictures import draw

NAME = "squeezenet1_1"  # the smallest
PIXELS = draw("smooth", (250, 250, 3), 3)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return torchvision.models.get_model(NAME, weights=None).eval()


@pytest.fixture
def published(model, tmp_path, monkeypatch):
    """Publish weights under the name that their hash gives, on a server of the test; return the file."""
    path = tmp_path / "published" / "weights.pth"
    path.parent.mkdir()
    torch.save(model.state_dict(), path)
    path = path.rename(path.with_name(f"{NAME}-{file_sha256(path)[:8]}.pth"))
    handler = partial(Silent, directory=path.parent)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        url = f"http://127.0.0.1:{server.server_port}/{path.name}"
        monkeypatch.setattr(torchvision.models.SqueezeNet1_1_Weights.DEFAULT.value, "url", url)
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        yield path
        server.shutdown()


class Silent(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, without a log."""

    def log_message(self, *arguments):
        """Print nothing."""


@pytest.mark.slow
def test_fetched_network_is_a_profile(get, published, model, tmp_path):
    card = get(f"torchvision:{NAME}")
    stored = tmp_path / "torch" / "hub" / "checkpoints" / published.name
    assert card["sha256"] == file_sha256(stored) == file_sha256(published)
    assert (card["name"], card["dimensions"]) == ("torchvision-squeezenet1_1", 512 * 9)
    assert published.name in card["source"]
    encoder = encoders.get(f"torchvision:{NAME}")
    values = encoder.describe_batch([encoder.prepare(Image(PIXELS))])[0].reshape(9, 512)
    pixels = ImageClassification(crop_size=224, resize_size=224)(PillowImage.fromarray(PIXELS))[None]
    with torch.no_grad():
        maps = model.features(pixels)[0]
    expected = maps[:, :6, :6].mean((1, 2)).numpy()
    assert values[0] == pytest.approx(expected, abs=0.02 * float(expected.max()))
    resolved = descriptors.resolve_descriptor(f"torchvision:{NAME}+huang2012")
    assert resolved.title == f"torchvision:{NAME}+huang2012"
    assert resolved.name == f"encoder:torchvision-{NAME}:{card['hash']}:4608+huang2012"
    assert get(f"torchvision:{NAME}")["network"] == card["network"]  # not fetched again
    with pytest.raises(InvalidInput, match=r"there is an encoder torchvision-squeezenet1_1 already.*--name"):
        get(f"torchvision:{NAME}", "--fit", "squash")


@pytest.mark.slow
def test_own_weights_are_read_from_a_folder(get, model, tmp_path):
    torch.save(model.state_dict(), tmp_path / "own.pth")
    card = get(f"torchvision:{NAME}", "--from", tmp_path, "--fit", "squash", "--grid", 2, "--name", "own")
    assert (card["input"]["fit"], card["dimensions"], card["outputs"][0]["grid"]) == ("squash", 2048, 2)
    assert card["source"] == f"torchvision:{NAME}, own.pth"
    assert encoders.get("own").card.sha256 == file_sha256(tmp_path / "own.pth")


def test_damaged_download_is_refused(get, published, tmp_path):
    published.write_bytes(published.read_bytes()[:-1])
    with pytest.raises(InvalidInput, match="cannot be fetched: invalid hash value"):
        get(f"torchvision:{NAME}")
    checkpoints = tmp_path / "torch" / "hub" / "checkpoints"
    assert list(checkpoints.iterdir()) == []
    (checkpoints / published.name).write_bytes(b"nothing")
    with pytest.raises(InvalidInput, match=f"{published.name} is damaged"):
        get(f"torchvision:{NAME}")


def test_without_the_server_the_file_is_named(get, monkeypatch, tmp_path):
    url = "http://127.0.0.1:9/squeezenet1_1-12345678.pth"
    monkeypatch.setattr(torchvision.models.SqueezeNet1_1_Weights.DEFAULT.value, "url", url)
    checkpoints = tmp_path / "torch" / "hub" / "checkpoints"
    with pytest.raises(
        InvalidInput, match=rf"refused.*; put {url} into {checkpoints}, or into a folder for --from"
    ):
        get(f"torchvision:{NAME}")


def test_unknown_networks_and_files_are_refused(get, model, tmp_path):
    with pytest.raises(InvalidInput, match=r"torchvision has no network 'resnet19'; it has resnet18"):
        get("torchvision:resnet19")
    with pytest.raises(InvalidInput, match=r"has no file with weights .*; put squeezenet1_1-\w+.pth there"):
        get(f"torchvision:{NAME}", "--from", tmp_path)
    torch.save(model.state_dict(), tmp_path / "own.pth")
    with pytest.raises(InvalidInput, match=r"own.pth has no weights 'conv1.weight' and \d+ more"):
        get("torchvision:resnet18", "--from", tmp_path)
    with pytest.raises(InvalidInput, match=r"an encoder's name has a-z.*not 'Upper'"):
        get("torchvision:resnet18", "--from", tmp_path, "--name", "Upper")
    with pytest.raises(InvalidInput, match=r"there is an encoder lite0 already"):
        get("torchvision:resnet18", "--from", tmp_path, "--name", "lite0")
    with pytest.raises(InvalidInput, match=r"lite0 is not on a hub"):
        get("lite0", "--from", tmp_path)
