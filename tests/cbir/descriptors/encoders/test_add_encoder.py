"""Adding of the user's own networks."""

import hashlib
import json
from contextlib import contextmanager

import numpy as np
import pytest
from typer.testing import CliRunner

from cbir import descriptors
from cbir.api.main import app
from cbir.descriptors import encoders
from cbir.descriptors.encoders import add_encoder as adding
from cbir.descriptors.encoders import encoder_files
from cbir.descriptors.encoders.add_encoder import add_encoder
from cbir.descriptors.encoders.encoder_files import write_network
from cbir.descriptors.encoders.onnx_messages import write_model, write_node, write_tensor
from cbir.errors import InvalidInput, NotFound, UndescribableImage
from cbir.images import Image
from tests.cbir.descriptors.encoders.onnx_models import (
    CHANNELS,
    FAILING,
    SIDE,
    brightness,
    convolution,
    store_brightness,
    vector,
)
from tests.cbir.descriptors.pictures import draw

IMAGE = Image(draw("smooth", (40, 50, 3), 2))


@pytest.fixture
def add(tmp_path, encoder_folder):
    """Add a model with a card, given as bytes and a dictionary."""

    def call(content, card=None, name="own"):
        model, path = tmp_path / "model.onnx", tmp_path / "card.json"
        model.write_bytes(content)
        path.write_text(json.dumps(card))
        return add_encoder(name, model, None if card is None else path, encoder_folder)

    return call


def test_values_are_those_of_the_network(add):
    added = add(convolution())
    encoder = encoders.get("own")
    assert encoder.card == added.card
    assert "own" in encoders.names()
    assert added.assumed[0] == "licence"
    assert "input.mean" in added.assumed
    pixels = encoder.prepare(IMAGE)
    weights = np.random.default_rng(0).normal(size=(CHANNELS, 3, 4, 4)).astype(np.float32)
    normal = (pixels / 255 - adding.MEAN) / adding.DEVIATION
    blocks = normal.reshape(4, 4, 4, 4, 3)  # row, row inside, column, column inside, channel
    maps = np.einsum("aibjc,ocij->oab", blocks, weights)
    windows = [maps[:, a : a + 2, b : b + 2].mean(axis=(1, 2)) for a in (0, 1, 2) for b in (0, 1, 2)]
    assert encoder.describe_batch([pixels])[0] == pytest.approx(np.concatenate(windows), rel=1e-4, abs=1e-4)
    name = descriptors.resolve_descriptor("own").name
    assert name == f"encoder:own:{added.card.hash}:{9 * CHANNELS}"


def test_card_completes_the_network(add):
    card = {
        "title": "Small", "licence": "MIT", "sha256": hashlib.sha256(convolution()).hexdigest(),
        "input": {"fit": "letterbox", "mean": [0, 0, 0], "deviation": [1, 1, 1], "interpolation": "cubic"},
        "outputs": [{"tensor": "maps", "pooling": "global"}, {"tensor": "maps", "grid": 2, "dimensions": 16}],
    }  # fmt: skip
    added = add(convolution(), card)
    assert (added.card.title, added.card.licence, added.card.input.fit) == ("Small", "MIT", "letterbox")
    assert [output.dimensions for output in added.card.outputs] == [4, 16]
    values = encoders.get("own").describe_batch([encoders.get("own").prepare(IMAGE)])[0]
    assert values[:4] == pytest.approx(values[4:].reshape(4, 4).mean(axis=0), rel=1e-4)
    again = add_encoder("copy", *_exported(added, add), encoders.settings.load().encoder_folder)
    assert again.card.hash == added.card.hash
    assert again.assumed == ()


def _exported(added, add):
    """Write what `cbir encoder show --format json` prints as the card of a copy."""
    card = added.path.parent.parent / "copy.json"
    card.write_text(json.dumps({**added.card.model_dump(mode="json"), "name": "copy"}))
    return added.path, card


def test_networks_of_any_size_take_that_of_the_card(add):
    added = add(dynamic(), {"input": {"width": 16, "height": 12}})
    assert added.card.dimensions == 36
    assert encoders.get("own").prepare(IMAGE).shape == (12, 16, 3)
    any_number = convolution().replace(
        b"\x0a\x02\x08\x01\x0a\x02\x08\x03", b"\x0a\x02\x12\x00\x0a\x02\x08\x03"
    )
    assert add(any_number, name="any-number").card.dimensions == 36


def test_vectors_and_grey_networks(add):
    assert add(vector(5)).card.dimensions == 5
    grey = add(convolution(channels=1), name="grey").card.input
    assert (grey.channels, len(grey.mean)) == ("grey", 1)
    assert encoders.get("grey").prepare(IMAGE).shape == (SIDE, SIDE, 1)


def not_finite(value):
    weights = np.zeros((CHANNELS, 3, 4, 4))
    weights[0, 0, 0, 0] = value
    return convolution(weights)


def dynamic():
    """Return a model whose input has any height and width."""
    return convolution().replace(b"\x0a\x02\x08\x10", b"\x0a\x02\x12\x00")


def two_inputs():
    node = write_node("Add", ["images", "other"], "sum")
    shape = (1, 3, SIDE, SIDE)
    return write_model([node], [], {"images": shape, "other": shape}, {"sum": shape})


def two_outputs():
    shape = (1, 3, SIDE, SIDE)
    nodes = [write_node("Relu", ["images"], name) for name in ("first", "second")]
    return write_model(nodes, [], {"images": shape}, {"first": shape, "second": shape})


def flat():
    return write_model(
        [write_node("Relu", ["images"], "out")], [], {"images": (1, 3, SIDE)}, {"out": (1, 3, SIDE)}
    )


def empty_output():
    nodes = [write_node("Flatten", ["images"], "flat"), write_node("MatMul", ["flat", "w"], "vector")]
    weights = write_tensor("w", np.zeros((3 * SIDE * SIDE, 0)))
    return write_model(nodes, [weights], {"images": (1, 3, SIDE, SIDE)}, {"vector": (1, 0)})


def external_data():
    marked = write_tensor("w", np.zeros((4, 3, 4, 4))) + b"\x70\x01"  # data_location = EXTERNAL
    return write_model(
        [write_node("Conv", ["images", "w"], "maps")],
        [marked],
        {"images": (1, 3, 16, 16)},
        {"maps": (1, 4, 13, 13)},
    )


def integers():
    nodes = [write_node("Shape", ["images"], "shape")]
    model = write_model(nodes, [], {"images": (1, 3, SIDE, SIDE)}, {"shape": (4,)})
    before, after = model.rsplit(b"\x08\x01\x12", 1)
    return before + b"\x08\x07\x12" + after  # its type: int64


def failing():
    nodes = [write_node("Reshape", ["images", "size"], "out")]
    return write_model(nodes, [], {"images": (1, 3, SIDE, SIDE)}, {"out": (1, 5)})


SMALL = {"mean": [0.5] * 3, "deviation": [0.5] * 3}


@pytest.mark.parametrize(
    ("content", "card", "message"),
    [
        (b"", None, "cannot be an encoder: onnxruntime cannot load the network"),
        (b"no model at all", None, "is not an ONNX file"),
        (convolution()[:300], None, "is not an ONNX file"),
        (failing(), None, "onnxruntime cannot load the network"),
        (external_data(), None, "keeps its weights in other files; save it as one file"),
        (two_inputs(), None, r"it has 2 inputs \(images, other\), and must have one"),
        (two_outputs(), None, r"it has 2 outputs \(first, second\): name those to use in a card"),
        (
            flat(),
            None,
            r"its input images is 1 x 3 x 16, not 1 x channels x height x width",
        ),
        (
            convolution(np.zeros((4, 2, 4, 4)), shape=(1, 2, 16, 16)),
            None,
            "is 1 x 2 x 16 x 16, not .* 1 or 3",
        ),
        (convolution(shape=(8, 3, 16, 16)), None, "takes 8 images at once"),
        (dynamic(), None, r"its input images is 1 x 3 x \? x \?, of any height: give input.height in a card"),
        (dynamic(), {"input": {"height": 16}}, "of any width: give input.width in a card"),
        (not_finite(np.nan), None, "its output maps is not finite"),
        (not_finite(np.inf), None, "its output maps is not finite"),
        (empty_output(), None, "its output vector is empty"),
        (integers(), None, "its output shape is not of type float32"),
        (
            convolution(),
            {"outputs": [{"tensor": "maps", "dimensions": 35}]},
            "gives 36 values, not 35 as the card says",
        ),
        (
            convolution(),
            {"outputs": [{"tensor": "maps", "pooling": "none"}]},
            "1 x 4 x 4 x 4, no vector: pool it",
        ),
        (vector(), {"outputs": [{"tensor": "vector", "pooling": "grid"}]}, "1 x 5, which cannot be pooled"),
        (convolution(), {"outputs": [{"tensor": "last"}]}, "has no output last; it has maps"),
        (
            convolution(),
            {"outputs": [{"tensor": "maps", "pooling": "median"}]},
            "card: outputs.0.pooling: Input should",
        ),
        (convolution(), {"outputs": "maps"}, "outputs of its card are not a list"),
        (convolution(), {"input": {"width": 32}}, "its input has the width 16, not 32 as the card says"),
        (convolution(), {"input": {"mean": [0.5], "deviation": [1]}}, "card: .*three channels"),
        (
            convolution(channels=1),
            {"input": {**SMALL, "channels": "grey"}},
            "1 channels, and the card 3 means",
        ),
        (
            convolution(),
            {"input": {"deviation": [0, 1, 1]}},
            "card: deviation.0: Input should be greater than 0",
        ),
        (convolution(), {"input": []}, "is not the card of an encoder"),
        (convolution(), {"colour": 1}, "card: colour: Extra inputs are not permitted"),
        (convolution(), {"sha256": "0" * 64}, "is not the file that .* describes: its SHA-256 is"),
        (convolution(), {"name": "other"}, "describes the encoder other, not own"),
        (convolution(), [1], "is not the card of an encoder"),
    ],
)
def test_refused_in_one_line_and_nothing_stored(content, card, message, add, encoder_folder, capfd):
    with pytest.raises(InvalidInput, match=message) as caught:
        add(content, card)
    assert "\n" not in str(caught.value)
    assert not encoder_folder.exists()
    assert "own" not in encoders.names()
    assert capfd.readouterr() == ("", "")


def test_damaged_models_are_refused_or_run(add, capfd):
    """Change some bytes of the structure at random: no other exception, nothing printed."""
    random, refused = np.random.default_rng(0), 0
    for number in range(100):
        content = bytearray((convolution(), vector())[number % 2])
        for position in random.integers(0, 120, 2):
            content[position] = random.integers(256)
        try:
            add(bytes(content), name=f"damaged-{number}")
        except InvalidInput:
            refused += 1
    assert 20 < refused < 100
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["", "Own", "a/b", "../x", "a:b", "a+b", ".a", "x" * 65])
def test_names_that_are_refused(name, add):
    with pytest.raises(InvalidInput, match="an encoder's name has a-z"):
        add(convolution(), name=name)


def test_taken_names_are_refused(add):
    add(convolution())
    for name in ("own", "lite0"):
        with pytest.raises(InvalidInput, match=f"there is an encoder {name} already"):
            add(vector(), name=name)


def test_names_taken_meanwhile_are_refused(add, encoder_folder, monkeypatch):
    card = add(convolution()).card
    lock = encoder_files.hold_folder

    @contextmanager
    def hold_after_another(folder):
        with lock(folder):
            write_network(folder, card.model_copy(update={"name": "other"}), convolution())
            yield

    monkeypatch.setattr(encoder_files, "hold_folder", hold_after_another)
    with pytest.raises(InvalidInput, match="there is an encoder other already"):
        add(vector(), name="other")
    assert encoders.get("other").card.hash == card.hash


def test_missing_and_huge_files(add, tmp_path, encoder_folder, monkeypatch):
    with pytest.raises(NotFound, match="there is no model"):
        add_encoder("own", tmp_path / "none.onnx", None, encoder_folder)
    with (tmp_path / "huge.onnx").open("wb") as file:
        file.truncate(adding.LARGEST_FILE + 1)
    with pytest.raises(InvalidInput, match="is larger than 1024 MiB"):
        add_encoder("own", tmp_path / "huge.onnx", None, encoder_folder)
    with pytest.raises(NotFound, match="there is no card"):
        add_encoder("own", tmp_path / "huge.onnx", tmp_path / "none.json", encoder_folder)


def test_damaged_stored_files_are_reported(add, encoder_folder):
    path = add(convolution()).path
    intact = path.read_bytes()
    pixels = encoders.get("own").prepare(IMAGE)
    path.write_bytes(intact[:-1] + b"?")
    with pytest.raises(InvalidInput, match="is not the file that its card describes"):
        encoders.get("own").describe_batch([pixels])
    path.unlink()
    with pytest.raises(InvalidInput, match="network of the encoder own is missing; add it again"):
        encoders.get("own").describe_batch([pixels])
    path.with_suffix(".json").write_text("{}")
    with pytest.raises(InvalidInput, match="is damaged; remove it, then add the encoder own again"):
        encoders.get("own")


def test_values_that_are_not_finite_are_refused(add, encoder_folder):
    card = add(convolution()).card
    broken = card.model_copy(update={"name": "broken"})
    write_network(encoder_folder, broken, not_finite(np.nan))
    encoder = encoders.get("broken")
    with pytest.raises(UndescribableImage, match="the encoder broken gives values that are not finite"):
        encoder.describe_batch([encoder.prepare(IMAGE)])


@pytest.mark.parametrize("kind", FAILING)
def test_tried_on_uniform_images(kind, add, encoder_folder):
    options, reason = FAILING[kind]
    plain = {"input": {"mean": [0, 0, 0], "deviation": [1, 1, 1]}}
    with pytest.raises(
        InvalidInput, match=f"cannot be an encoder: tried on a {kind} image: the encoder own {reason}"
    ):
        add(brightness(**options), plain)
    assert not encoder_folder.exists()
    assert add(brightness(greatest=65503.0), plain).card.dimensions == 5


@pytest.mark.parametrize("kind", FAILING)
def test_only_the_image_that_the_network_fails_at_is_refused(kind, encoder_folder):
    options, reason = FAILING[kind]
    store_brightness(encoder_folder, kind, **options)
    encoder = encoders.get(kind)
    pixels = np.full((SIDE, SIDE, 3), 0 if kind == "black" else 255, np.uint8)
    assert encoder.describe_batch([255 - pixels]).shape == (1, 5)
    with pytest.raises(UndescribableImage, match=reason):
        encoder.describe_batch([255 - pixels, pixels])


def run(*arguments):
    return CliRunner().invoke(app, ["encoder", *map(str, arguments)])


def test_commands(tmp_path, encoder_folder):
    model = tmp_path / "small.onnx"
    model.write_bytes(convolution())
    added = json.loads(run("add", "own", model, "--format", "json").output)
    assert added["dimensions"] == 36
    assert added["assumed"][0] == "licence"
    shown = json.loads(run("show", "own", "--format", "json").output)
    assert shown == {key: value for key, value in added.items() if key not in ("network", "assumed")}
    assert "hash         " + added["hash"] in run("show", "own").output
    assert "tensor maps, pooling grid" in run("show", "own").output
    rows = json.loads(run("list", "--format", "json").output)
    assert [row["name"] for row in rows] == [
        "lite0",
        "lite0-whole",
        "lite0-global",
        "lite0-max",
        "lite1",
        "lite1-whole",
        "ct-volume",
        "own",
    ]
    assert rows[-1]["status"] == "ready"
    fetched = json.loads(run("get", "own", "--format", "json").output)
    assert fetched == {"name": "own", "hash": added["hash"], "network": added["network"]}
    assert run("get", "lite0").output.strip().startswith(str(encoder_folder / "lite0-"))
    (encoder_folder / f"own-{added['hash']}.json").write_text("")
    assert "is damaged" in " ".join(run("list").output.split())  # long paths wrap the line
