"""Centre and directions of encoders' values, and the float16 that they are stored in."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from cbir.errors import InvalidInput
from cbir.gallery.knn import learn_directions
from cbir.store import Collection
from cbir.store.base import normalisation
from cbir.store.base.normalisation import (
    Projection,
    fit_projection,
    fit_statistics,
    needs_refit,
    read_statistics,
)
from cbir.store.base.profile import HALF, SINGLE, Profile, VectorFormat
from cbir.store.base.statements import vector_checksum
from cbir.store.upkeep.repair import repair_rows
from cbir.store.upkeep.verify import verify_collection
from tests.cbir.store.conftest import entry

VALUES = 80  # of the descriptor edge_histogram, which stands in for an encoder
PROFILE = Profile(name="p", descriptor="edge_histogram", normalisation="project", components=8)
# Colour layout in place of an encoder, Tamura and edge histogram beside it.
BESIDE = Profile(name="b", descriptor="huang2012", normalisation="project", components=4)


def correlated(count: int, dimensions: int = VALUES, seed: int = 0) -> np.ndarray:
    """Vectors whose values depend on each other, around a common centre."""
    mixing = (
        np.random.default_rng(99).normal(size=(dimensions, dimensions)) / (1 + np.arange(dimensions))[:, None]
    )
    rng = np.random.default_rng(seed)
    return (5 + rng.normal(size=(count, dimensions)) @ mixing).astype(np.float32)


def test_it_is_learned_directions_of_principal_components() -> None:
    raw = correlated(1500)
    fitted = fit_statistics(raw, PROFILE)
    pca = PCA(8 * normalisation.WIDE).fit(raw.astype(np.float64))
    components = pca.transform(raw.astype(np.float64))
    learnt = learn_directions(components.astype(np.float32), pca.explained_variance_, 8)
    expected = components @ learnt
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    normalised = fitted.normalise(raw)
    assert normalised.dtype == np.float32
    assert normalised.shape == (1500, 8)
    np.testing.assert_allclose(
        normalised @ normalised.T, expected @ expected.T, atol=2e-2
    )  # float16 neighbours
    np.testing.assert_allclose(fitted.normalise(raw[7]), normalised[7], atol=1e-5)


def test_neighbours_are_found_among_images_from_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normalisation, "COMPARED", 1000)
    raw = correlated(3000)
    seen = []
    monkeypatch.setattr(
        normalisation,
        "learn_directions",
        lambda values, *rest: seen.append(values) or learn_directions(values, *rest),
    )
    fit_projection(np.array_split(raw, 7), PROFILE, len(raw))
    mean, (values,) = raw.mean(axis=0), seen
    expected = PCA(8 * normalisation.WIDE).fit(raw).transform(raw[::3])
    assert values.shape == (1000, 8 * normalisation.WIDE)
    np.testing.assert_allclose(np.abs(values[:, 0]), np.abs(expected[:, 0]), atol=0.05 * abs(mean).max())


def test_a_few_images_are_centred_alone() -> None:
    raw = correlated(normalisation.LEAST_IMAGES - 1)
    fitted = fit_statistics(raw, PROFILE)
    assert fitted.components is None
    centred = raw - raw.mean(axis=0)
    expected = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    np.testing.assert_allclose(fitted.normalise(raw), expected, atol=1e-5)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(0, 400), max_size=6), st.integers(1000, 2000))
def test_pages_of_any_length_give_the_same(cuts: list[int], most: int) -> None:
    raw = correlated(1200)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(normalisation, "MOST_IMAGES", most)
        whole = fit_projection([raw], PROFILE, len(raw))
        cut = fit_projection(np.split(raw, np.cumsum(cuts).clip(max=1200)), PROFILE, len(raw))
    assert whole.directions is not None
    assert cut.directions is not None
    np.testing.assert_allclose(cut.normalise(raw), whole.normalise(raw), atol=2e-3)


def test_many_images_are_sampled_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normalisation, "MOST_IMAGES", 1000)
    raw = correlated(3000)
    fitted = fit_statistics(raw, PROFILE)
    np.testing.assert_allclose(fitted.mean, raw[::3].mean(axis=0), rtol=1e-5)
    assert fitted.fitted_on == 3000


def test_values_beside_an_encoder_are_standardised() -> None:
    raw = correlated(1500, 168)
    fitted = fit_statistics(raw, BESIDE)
    assert isinstance(fitted, Projection)
    assert fitted.parts == ((0, 4), (4, 4 + len(fitted.scale)))
    squared = fitted.normalise(raw) ** 2
    np.testing.assert_allclose(squared[:, :4].sum(axis=1), 1, rtol=1e-4)
    np.testing.assert_allclose(squared[:, 4:].sum(axis=1).mean(), 1, rtol=1e-3)
    weighted = BESIDE.model_copy(update={"weights": {"edge_histogram_150": 0.25, "color_layout": 4.0}})
    squared = fit_statistics(raw, weighted).normalise(raw) ** 2
    np.testing.assert_allclose(squared[:, :4].sum(axis=1), 4, rtol=1e-4)


@pytest.mark.parametrize("raw", [np.zeros((0, VALUES)), np.ones((1, VALUES)), np.full((1200, VALUES), 3.5)])
def test_nothing_one_image_or_all_alike(raw: np.ndarray) -> None:
    raw = raw.astype(np.float32)
    normalised = fit_statistics(raw, PROFILE).normalise(raw)
    assert np.isfinite(normalised).all()
    assert np.abs(normalised).max(initial=0) <= 1 + 1e-6


@pytest.mark.parametrize("profile", [PROFILE, BESIDE])
@pytest.mark.parametrize("count", [50, 1100])
def test_stored_and_read_back_bit_by_bit(profile: Profile, count: int) -> None:
    raw = correlated(count, VALUES if profile is PROFILE else 168)
    fitted = fit_statistics(raw, profile)
    read = read_statistics(fitted.to_json())
    np.testing.assert_array_equal(read.normalise(raw), fitted.normalise(raw))
    assert (read.fitted_on, read.version, read.components) == (count, 1, fitted.components)


@pytest.mark.parametrize(
    ("fitted_on", "images", "expected"),
    [(5, 9, False), (5, 10, True), (600, 999, False), (600, 1000, True), (1000, 1999, False), (1000, 2000, True),
     (99_999, 199_998, True), (100_000, 10**7, False), (0, 1, False), (0, 2, True)],
)  # fmt: skip
def test_it_is_fitted_again_at_each_doubling(fitted_on: int, images: int, expected: bool) -> None:
    none = np.zeros(0, np.float32)
    fitted = Projection(np.zeros(3, np.float32), None, none, 1.0, fitted_on)
    assert needs_refit(fitted, images) is expected


def test_a_standardised_collection_is_not_fitted_again() -> None:
    assert not needs_refit(
        fit_statistics(correlated(5), Profile(name="e", descriptor="edge_histogram")), 10**6
    )


@given(st.lists(st.floats(-60000, 60000, width=32), min_size=5, max_size=5))
def test_formats_keep_what_they_can(values: list[float]) -> None:
    vector = np.array(values, np.float32)
    single, mixed = VectorFormat(((0, 5, SINGLE),)), VectorFormat(((0, 3, HALF), (3, 5, SINGLE)))
    assert (single.size, mixed.size, mixed.dimensions) == (20, 14, 5)
    np.testing.assert_array_equal(single.decode([single.encode(vector)] * 2), [vector] * 2)
    (read,) = mixed.decode([mixed.encode(vector)])
    np.testing.assert_array_equal(read[:3], vector[:3].astype(np.float16))
    np.testing.assert_array_equal(read[3:], vector[3:])
    assert read.dtype == np.float32


def test_values_beyond_float16_are_refused() -> None:
    with pytest.raises(InvalidInput, match="65504"):
        VectorFormat(((0, 2, HALF),)).encode(np.array([1, 70000], np.float32))


def numbered(first: int, vectors: np.ndarray) -> list:
    return [(entry(first + number)[0], vector) for number, vector in enumerate(vectors)]


@pytest.fixture
def projected(tmp_path: Path) -> Collection:
    """A collection of 1,100 images whose statistics were fitted to the first 600."""
    collection = Collection.create(tmp_path / "projected", PROFILE)
    raw = correlated(1100)
    with collection.writer() as writer:
        writer.add(numbered(0, raw[:600]))
        writer.finish()
    assert collection.statistics().components is None
    assert collection.view().gallery.dimensions == VALUES
    with collection.writer() as writer:
        writer.add(numbered(600, raw[600:]))
    return collection


def test_growing_collections_change_to_principal_directions(projected: Collection) -> None:
    assert projected.view().gallery.dimensions == VALUES  # until the run ends
    with projected.writer() as writer:
        writer.finish()
    fitted = projected.statistics()
    assert (fitted.version, fitted.components, fitted.fitted_on) == (2, 8, 1100)
    view = projected.view()
    assert view.gallery.dimensions == 8
    with projected.writer() as writer:
        writer.add(numbered(1100, correlated(20, seed=1)))
        writer.finish()
    view = projected.view()
    assert projected.statistics().version == 2
    assert len(view.gallery.blocks) == 2
    np.testing.assert_allclose(
        view.gallery.vectors(np.arange(1100, 1120)), fitted.normalise(correlated(20, seed=1)), atol=1e-5
    )
    assert view.gallery.distances(view.statistics.normalise(correlated(1100)[3])).argmin() == 3
    assert verify_collection(projected) == []
    with projected.writer() as writer:
        writer.compact(refit=True)
    assert projected.statistics().version == 3
    assert len(projected.view().gallery.blocks) == 1
    assert verify_collection(projected) == []


def test_another_process_reads_the_same(projected: Collection, tmp_path: Path) -> None:
    with projected.writer() as writer:
        writer.finish()
    with Collection(Path(shutil.copytree(projected.folder, tmp_path / "copy"))) as copy:
        np.testing.assert_array_equal(copy.view().gallery.blocks[0], projected.view().gallery.blocks[0])
        image_id = next(record.image_id for _, record in copy.iterate())
        np.testing.assert_array_equal(copy.vector(image_id), correlated(1100)[0])


def test_a_damaged_vector_is_reported_and_not_made_up(projected: Collection) -> None:
    with projected.writer() as writer:
        writer.finish()
        shutil.rmtree(projected.folder / "last-good")
    with projected._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE vectors SET vector = zeroblob(320) WHERE number = 5")
    (problem,) = verify_collection(projected)
    assert "do not match their checksums" in problem
    repair = repair_rows(projected)
    assert "vectors" in str(repair.lost)


def test_a_vector_that_changed_comes_back_from_the_last_good_copy(projected: Collection) -> None:
    with projected.writer() as writer:
        writer.finish()
    changed = np.zeros(VALUES, np.float32).tobytes()
    with projected._engine.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE vectors SET vector = ?, checksum = ? WHERE number = 5",
            (changed, vector_checksum(5, changed)),
        )
    (problem,) = verify_collection(projected)
    assert "have changed since the snapshot" in problem
    assert "last good copy" in str(repair_rows(projected).restored)
    assert verify_collection(projected) == []


def test_principal_directions_are_compared_as_they_are(projected: Collection) -> None:
    assert projected.view().gallery.space.projection is None
    with projected.writer() as writer:
        writer.finish()
    gallery = projected.view().gallery
    for space in (gallery.space, gallery.space_of(np.arange(100))):
        assert space.projection is None
        np.testing.assert_array_equal(space.centre, 0)
