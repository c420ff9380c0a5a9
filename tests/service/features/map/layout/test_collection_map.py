"""Maps of small collections: what they keep, when they are computed again, and what is refused."""

import numpy as np
import pytest

from cbir.errors import CollectionDamaged, InvalidInput
from cbir.gallery.vector_blocks import spread_rows
from cbir.store import Collection, Record
from cbir.store.base import metadata
from cbir.store.base import profile as profiles
from cbir.store.snapshot.derived_files import MAP_FILE, StoredMap, drop_map, read_map, write_map
from service.features.map import collection_map as maps
from service.features.map import tsne

CLUSTERS, EACH = 3, 20


def add(collection, vectors, first=0, patient=None):
    """Add images with these vectors, numbered from `first`."""
    entries = [
        (
            Record(
                content_hash=f"{first + row:032x}", source=f"/{first + row}.png", source_stamp="1", format="png",
                width=1, height=1, patient_key=patient,
            ),
            vector,
        )
        for row, vector in enumerate(vectors.astype(np.float32))
    ]  # fmt: skip
    with collection.writer() as writer:
        return writer.add(entries)


def clusters(count=EACH, seed=0):
    """Vectors around three centres, one cluster after the other."""
    random = np.random.default_rng(seed)
    centres = np.repeat(np.eye(CLUSTERS, 6) * 40, count, axis=0)
    return centres + random.normal(size=(CLUSTERS * count, 6))


@pytest.fixture
def collection(tmp_path):
    created = Collection.create(tmp_path / "collection", profiles.get("tamura"))
    yield created
    created.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A collection of three clusters with a snapshot, and its map; not to be changed."""
    created = Collection.create(tmp_path_factory.mktemp("map") / "collection", profiles.get("tamura"))
    add(created, clusters())
    with created.writer() as writer:
        writer.snapshot()
    yield created, maps.compute_map(created.view(), created.profile)
    created.close()


def own_cluster(positions, of):
    """Share of images whose nearest other on the map is of their own cluster."""
    distances = np.linalg.norm(positions[:, None] - positions[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    return np.mean(of[distances.argmin(axis=1)] == of)


OF = np.repeat(np.arange(CLUSTERS), EACH)


def test_similar_images_lie_together(shared):
    _, stored = shared
    assert own_cluster(stored.positions, OF) == 1
    assert np.abs(stored.positions).max() == pytest.approx(1)
    assert stored.positions.dtype == np.float32


def test_the_same_images_give_the_same_map(shared):
    collection, stored = shared
    again = maps.compute_map(collection.view(), collection.profile)
    np.testing.assert_array_equal(again.positions, stored.positions)


def test_a_sample_is_laid_out_first_and_all_are_placed_and_refined(shared):
    collection, _ = shared
    steps = []
    stored = maps.compute_map(
        collection.view(), collection.profile, lambda *step: steps.append(step), first=30
    )
    assert own_cluster(stored.positions, OF) == 1
    assert len(stored) == CLUSTERS * EACH
    assert steps == sorted(steps)
    assert steps[-1] == (600, 600)


def test_before_they_are_refined_the_others_lie_beside_images_of_the_sample(shared, monkeypatch):
    collection, _ = shared
    monkeypatch.setattr(maps, "REFINING", ())
    positions = maps.compute_map(collection.view(), collection.profile, first=30).positions
    sampled = spread_rows(len(positions), 30)
    others = np.setdiff1d(np.arange(len(positions)), sampled)
    distances = np.linalg.norm(positions[others, None] - positions[sampled][None], axis=2)
    assert np.mean(OF[sampled][distances.argmin(axis=1)] == OF[others]) == 1


@pytest.mark.parametrize("count", [0, 1, 2, 7, 9])
def test_few_images(collection, count):
    if count:
        add(collection, clusters()[:count])
    stored = maps.compute_map(collection.view(), collection.profile)
    assert stored.positions.shape == (count, 2)
    assert np.isfinite(stored.positions).all()
    np.testing.assert_array_equal(maps.current_places(collection.view(), stored), stored.positions)


def test_images_that_are_all_alike(collection):
    add(collection, np.ones((12, 6)))
    assert np.isfinite(maps.compute_map(collection.view(), collection.profile).positions).all()


def test_what_progress_raises_ends_the_computation(shared):
    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        maps.compute_map(shared[0].view(), shared[0].profile, stop)


def test_added_images_are_placed_at_once_and_deleted_ones_left_out(collection):
    ids = add(collection, clusters())
    with collection.writer() as writer:
        writer.snapshot()
    stored = maps.compute_map(collection.view(), collection.profile)
    add(collection, clusters(2, seed=1), first=1000)
    view = collection.view()
    positions = maps.current_places(view, stored)
    np.testing.assert_array_equal(positions[: len(stored)], stored.positions)
    assert own_cluster(positions, np.concatenate([OF, np.repeat(np.arange(CLUSTERS), 2)])) == 1
    assert not maps.is_outdated(view, collection.profile, stored)
    with collection.writer() as writer:
        writer.delete([str(name) for name in collection.image_ids().values()][:3])
    fewer = maps.compute_map(collection.view(), collection.profile)
    assert len(fewer) == CLUSTERS * EACH + 6 - 3
    assert fewer.numbers.tolist() == sorted(collection.image_ids())
    assert not maps.is_outdated(collection.view(), collection.profile, stored)
    assert ids is not None


def test_a_map_is_outdated_when_images_have_doubled_or_the_transform_changed(collection):
    add(collection, clusters())
    with collection.writer() as writer:
        writer.snapshot()
    stored = maps.compute_map(collection.view(), collection.profile)
    add(collection, clusters(EACH + 1, seed=1), first=1000)
    assert maps.is_outdated(collection.view(), collection.profile, stored)
    newer = maps.compute_map(collection.view(), collection.profile)
    assert not maps.is_outdated(collection.view(), collection.profile, newer)
    with collection.writer() as writer:
        writer.snapshot(refit=True)
    assert maps.is_outdated(collection.view(), collection.profile, newer)


def test_a_file_gives_back_the_map_and_damage_is_named(tmp_path):
    assert read_map(tmp_path) is None
    stored = StoredMap(np.array([2, 5]), np.array([[0.5, -1], [1, 0]], np.float32), "profile é")
    write_map(tmp_path, stored)
    again = read_map(tmp_path)
    assert again is not None
    assert again.transform == stored.transform
    np.testing.assert_array_equal(again.numbers, stored.numbers)
    np.testing.assert_array_equal(again.positions, stored.positions)
    for numbers, positions in (
        ([5, 2], [[0, 0], [1, 1]]),
        ([2, 5], [[0, 0], [np.nan, 1]]),
        ([2, 5], [[0, 0]]),
    ):
        write_map(tmp_path, StoredMap(np.array(numbers), np.array(positions, np.float32), ""))
        with pytest.raises(CollectionDamaged, match="cbir collection map"):
            read_map(tmp_path)
    (tmp_path / MAP_FILE).write_bytes(b"no archive")
    with pytest.raises(CollectionDamaged, match="cbir collection map"):
        read_map(tmp_path)
    drop_map(tmp_path)
    drop_map(tmp_path)
    assert read_map(tmp_path) is None


def test_erasing_a_patient_deletes_the_map(collection):
    add(collection, clusters(4))
    add(collection, clusters(1, seed=2), first=100, patient="0" * 32)
    write_map(collection.folder, maps.compute_map(collection.view(), collection.profile))
    with collection.writer() as writer:
        writer.erase_patient(["0" * 32])
    assert read_map(collection.folder) is None


def test_images_that_are_gone_when_the_map_is_stored_are_left_out(collection):
    add(collection, clusters(4))
    add(collection, clusters(1, seed=2), first=100, patient="0" * 32)
    computed = maps.compute_map(collection.view(), collection.profile)
    with collection.writer() as writer:
        writer.delete([next(iter(collection.image_ids().values()))])
        writer.erase_patient(["0" * 32])
    maps.store_map(collection, computed)
    stored = read_map(collection.folder)
    assert stored is not None
    kept = np.isin(computed.numbers, stored.numbers)
    assert (~kept).sum() == 1 + CLUSTERS
    np.testing.assert_array_equal(stored.positions, computed.positions[kept])


def test_a_map_that_is_stored_while_a_patient_is_erased_is_deleted(collection, monkeypatch):
    add(collection, clusters(4))
    add(collection, clusters(1, seed=2), first=100, patient="0" * 32)
    computed = maps.compute_map(collection.view(), collection.profile)
    bump = metadata.bump_generation

    def store_meanwhile(connection):
        monkeypatch.setattr(metadata, "bump_generation", bump)  # compaction calls it again
        write_map(collection.folder, computed)
        bump(connection)

    with collection.writer() as writer:
        monkeypatch.setattr(metadata, "bump_generation", store_meanwhile)
        writer.erase_patient(["0" * 32])
    assert read_map(collection.folder) is None


def test_a_missing_package_is_one_line(shared, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "openTSNE", None)
    with pytest.raises(InvalidInput, match=r"^this needs openTSNE: pip install '.\[map\]'[^\n]*$"):
        maps.compute_map(shared[0].view(), shared[0].profile)
    assert not tsne.is_installed()
