"""Collections of many images made of few, for the time that the search for duplicates takes."""

import numpy as np
import pytest

from cbir.evaluation.datasets.phantoms import draw_phantom
from cbir.store import Collection
from cbir.store.base import profile as profiles
from service.features.audit.duplicates import find_duplicates
from tests.benches import loaded
from tests.service.features.audit.test_duplicates import add

many_images = loaded("many_images")
SOURCES = 12


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Forty images of twelve, a third of them changed copies; with the folder that they are in."""
    monkeypatch.setattr(many_images, "COPIED", 0.5)
    with Collection.create(tmp_path / "few", profiles.get("tamura")) as few:
        add(few, tmp_path / "files", [draw_phantom(index, size=64).pixels for index in range(SOURCES)])
        many_images.make_images(few, 40, tmp_path / "many", seed=3)
    with Collection(tmp_path / "many" / "collection") as collection:
        yield collection, tmp_path


def test_images_are_made_of_those_that_are_there(made):
    collection, folder = made
    records = [record for _, record in collection.iterate()]
    assert len(records) == len({record.content_hash for record in records}) == 40
    assert {str(path) for path in (folder / "files").iterdir()} < {record.source for record in records}
    vectors = collection.raw_vectors(collection.view().gallery.ids)
    copied = np.flatnonzero([record.source.endswith("-copy.jpg") for record in records])
    assert len(copied) > 3
    lengths = np.linalg.norm(vectors[copied - 1], axis=1)  # each follows the picture that it is a copy of
    noise = np.linalg.norm(vectors[copied] - vectors[copied - 1], axis=1)
    assert noise == pytest.approx(many_images.NEAR * lengths, rel=1e-3)
    sources, between = vectors[:SOURCES], np.delete(vectors, copied, axis=0)
    assert (between >= sources.min(axis=0) - 0.1).all()
    assert (between <= sources.max(axis=0) + 0.1).all()


def test_only_changed_copies_are_duplicates(made):
    collection, _ = made
    groups = find_duplicates(collection).groups
    names = [sorted(member.source[-15:] for member in group.members) for group in groups]
    assert any("copy" in name for group in names for name in group)
    for group in names:
        assert len({name.replace("-copy", "")[-10:] for name in group}) == 1


def test_a_warped_picture_is_drawn_again_alike():
    pixels = draw_phantom(1, size=64).pixels
    first, second = (many_images.warp(pixels, np.random.default_rng(2)) for _ in range(2))
    assert first.shape == pixels.shape
    assert np.array_equal(first, second)
    assert not np.array_equal(first, many_images.warp(pixels, np.random.default_rng(3)))
