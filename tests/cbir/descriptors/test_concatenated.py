"""Trained embedding concatenated with a descriptor: MODEL+DESCRIPTOR as a profile."""

import json
import shutil

import cv2
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from cbir import descriptors
from cbir.api.main import app
from cbir.descriptors.descriptor import Batched
from cbir.descriptors.networks import embedder, model_card
from cbir.errors import InvalidInput
from cbir.images import Limits, read_images
from cbir.ingest.description import DescribeTask
from cbir.store import Collection
from cbir.store.base import normalisation
from cbir.store.base import profile as profiles
from cbir.store.base.stored_models import model_problem
from indexer.describe_files import FileTask, describe_files
from tests.benches import loaded

SIZE = 16  # of the embedding


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Untrained network."""
    folder = tmp_path_factory.mktemp("models") / "stripes"
    folder.mkdir()
    torch.manual_seed(0)
    embedder.save_embedder(embedder.Embedder("toprank", dimensions=SIZE, side=32), folder, {})
    return folder


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    random = np.random.default_rng(0)
    for position in range(12):
        soft = cv2.GaussianBlur(random.integers(0, 256, (48, 40), np.uint8), (0, 0), 1 + position / 4)
        cv2.imwrite(str(folder / f"{position:02d}.png"), soft)
    return folder


def run(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def test_values_are_concatenated(model, images):
    describe = profiles.get(f"{model}+color_layout").load_descriptor()
    pictures = [next(read_images(images / f"{position:02d}.png")) for position in range(5)]
    assert isinstance(describe, Batched)
    together = describe.describe_batch([describe.prepare(picture) for picture in pictures])
    alone = np.array([describe(picture) for picture in pictures])
    network = profiles.get(str(model)).load_descriptor()
    assert together == pytest.approx(alone, abs=1e-5)
    assert together[:, :SIZE] == pytest.approx(np.array([network(picture) for picture in pictures]), abs=1e-5)
    assert (together[:, SIZE:] == [descriptors.get("color_layout")(picture) for picture in pictures]).all()
    assert describe.describe_batch([]).shape == (0, SIZE + 12)
    parts = [(part.name, part.start, part.stop) for part in describe.parts]
    assert parts == [("embedding", 0, SIZE), ("color_layout", SIZE, SIZE + 12)]


def test_only_the_other_descriptor_is_weighted(model, images):
    profile = profiles.get(f"{model}+edge_histogram")
    describe = profile.load_descriptor()
    raw = np.array([describe(next(read_images(path))) for path in sorted(images.iterdir())])
    result = normalisation.fit_statistics(raw, profile).normalise(raw)
    assert profile.normalisation == "beside"
    assert (result[:, :SIZE] ** 2).sum(axis=1) == pytest.approx(
        np.full(len(raw), describe.dimensions), rel=1e-4
    )
    assert result[:, :SIZE] == pytest.approx(raw[:, :SIZE] * describe.dimensions**0.5, rel=1e-5)
    varying = (raw[:, SIZE:].std(axis=0) > 0).mean()
    assert varying > 0.5
    squared = (result[:, SIZE:] ** 2).sum(axis=1).mean() / describe.dimensions
    assert squared == pytest.approx(profiles.BESIDE_WEIGHT * varying, rel=1e-3)
    heavier = normalisation.fit_statistics(
        raw, profiles.get(f"{model}+edge_histogram", {"edge_histogram": 2.0})
    )
    squared = (heavier.normalise(raw)[:, SIZE:] ** 2).sum(axis=1).mean() / describe.dimensions
    assert squared == pytest.approx(2 * varying, rel=1e-3)
    none = normalisation.fit_statistics(raw[:0], profile)
    assert np.isfinite(none.normalise(raw)).all()


def test_profiles_and_their_names(model):
    both = profiles.get(f"{model}+huang2012")
    assert both.name == "stripes+huang2012"
    assert both.hash not in {profiles.get(str(model)).hash, profiles.get(f"{model}+tamura").hash}
    assert both.weights == dict.fromkeys(("color_layout", "tamura", "edge_histogram"), profiles.BESIDE_WEIGHT)


def test_a_folder_with_a_plus_in_its_name(model, tmp_path):
    folder = shutil.copytree(model, tmp_path / "knees+tamura")
    assert profiles.get(str(folder)).descriptor == profiles.get(str(model)).descriptor


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("{model}+Huang2012", "there is no descriptor 'Huang2012'"),
        ("{model}+", "there is no descriptor ''"),
        ("{nothing}+huang2012", "no trained embedding in .*nothing"),
        ("{nothing}+huang", "there is no descriptor 'huang'"),
        ("{model}+huang2012+tamura", r"no trained embedding in .*stripes\+huang2012"),
        ("+tamura", "there is no descriptor '\\+tamura'"),
        ("tamura+", "there is no descriptor ''"),
    ],
)
def test_unknown_profiles_are_refused(name, message, model, tmp_path, monkeypatch):
    monkeypatch.chdir(model)  # where an empty name of a folder would be one
    with pytest.raises(InvalidInput, match=message):
        profiles.get(name.format(model=model, nothing=tmp_path / "nothing"))


def test_title_is_the_folder_name_for_any_spelling_of_the_path(model, tmp_path, monkeypatch):
    monkeypatch.chdir(model)
    for folder in (".", "../stripes", f"{model}/", f"{model}//.", str(model)):
        assert profiles.get(f"{folder}+tamura").name == "stripes+tamura"
        assert profiles.get(folder).name == "stripes"


def test_unknown_part_is_refused(model):
    with pytest.raises(
        InvalidInput, match=r"stripes\+tamura has no part huang2012; it has embedding, tamura"
    ):
        profiles.get(f"{model}+tamura", {"huang2012": 1.0})


def test_benchmark_weights_like_a_collection(model, images):
    bench = loaded("embeddings")
    profile = profiles.get(f"{model}+edge_histogram")
    describe = profile.load_descriptor()
    raw = np.array([describe(next(read_images(path))) for path in sorted(images.iterdir())])
    alone = profiles.get("edge_histogram")
    rival = normalisation.fit_statistics(raw[:, SIZE:], alone).normalise(raw[:, SIZE:])
    both, parts = bench.combine(raw[:, :SIZE], rival, ((0, rival.shape[1]),))
    assert both == pytest.approx(normalisation.fit_statistics(raw, profile).normalise(raw), abs=1e-5)
    assert parts == tuple((part.start, part.stop) for part in describe.parts)


def test_files_of_one_batch_keep_their_vectors(model, images, tmp_path):
    frames = [cv2.imread(str(images / f"{position:02d}.png"), cv2.IMREAD_GRAYSCALE) for position in (3, 4, 5)]
    cv2.imwritemulti(str(tmp_path / "three.tiff"), frames)
    (tmp_path / "broken.png").write_bytes(b"no image")
    paths = [
        images / "00.png",
        tmp_path / "broken.png",
        tmp_path / "three.tiff",
        tmp_path / "none",
        images / "01.png",
    ]
    profile = profiles.get(f"{model}+tamura")
    files = describe_files(paths, FileTask(DescribeTask(profile, bytes(32), Limits())))
    assert [len(file.records) for file in files] == [1, 0, 3, 0, 1]
    assert [file.refused is None for file in files] == [True, False, True, False, True]
    describe = profile.load_descriptor()
    expected = [describe(image) for path in (paths[0], paths[2], paths[4]) for image in read_images(path)]
    got = np.concatenate([file.vectors for file in files if file.vectors])
    assert got == pytest.approx(np.array(expected), abs=1e-4)


def test_indexed_searched_and_verified_without_the_original(model, images, tmp_path):
    stored, collection = shutil.copytree(model, tmp_path / "stripes"), tmp_path / "c"
    run("index", images, "--profile", f"{stored}+huang2012", "--collection", collection)
    shutil.rmtree(stored)
    digest = model_card.read_embedding_card(model)["sha256"][:16]
    with Collection(collection) as opened:
        assert opened.profile.descriptor == f"embedding:{digest}:{SIZE}+huang2012"
        assert model_problem(collection, opened.profile) is None
    answer = json.loads(run("search", images / "07.png", "--collection", collection, "--format", "json"))
    assert len(answer["results"]) == 11  # all but the query itself
    run("collection", "verify", "--collection", collection)
    described = run("describe", images / "07.png", "--descriptor", f"{model}+huang2012", "--format", "json")
    assert len(json.loads(described)["values"]) == SIZE + 168
