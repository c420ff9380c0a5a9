"""Codes of vectors beside a snapshot: written for large ones, renewed with them, and searched first."""

import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cbir import settings
from cbir.errors import CollectionDamaged
from cbir.gallery import code_index
from cbir.gallery.code_index import CodeIndex, build_codes
from cbir.gallery.flat_index import FlatIndex
from cbir.search import Request, Searcher
from cbir.search.view_vectors import EVERYTHING, ViewVectors
from cbir.store import Collection
from cbir.store.index.port import IndexScope
from cbir.store.limited_collection import LimitedCollection
from cbir.store.records.filter_conditions import parse_filter
from cbir.store.snapshot.snapshot import (
    Snapshot,
    allocate_index,
    file_checksum,
    read_codes,
    write_codes,
)
from cbir.store.upkeep.backup import back_up_collection
from cbir.store.upkeep.restore import restore_backup
from cbir.store.upkeep.verify import verify_collection
from cbir.store.views import snapshot_build
from tests.cbir.gallery.test_knn import clustered

FEW = settings.load(device="cpu", indexed_candidates=20, indexed_sample=20)
Entries = Callable[..., Sequence[Any]]


def snapshot_of(vectors: np.ndarray) -> Snapshot:
    flat, matrix = allocate_index(*vectors.shape)
    matrix[:] = vectors
    return Snapshot(vectors, np.arange(len(vectors)), FlatIndex(flat))


def test_file_is_read_as_it_was_written_and_others_are_refused(tmp_path: Path) -> None:
    vectors = clustered(20_000)
    snapshot, codes = snapshot_of(vectors), build_codes(vectors)
    index = CodeIndex(snapshot.flat_index.flat, vectors, codes)
    path = tmp_path / "1.codes"
    checksum = write_codes(path, codes)
    back = read_codes(path, checksum, snapshot)
    for query in vectors[:5]:
        rows = back.nearest(query, 20)
        np.testing.assert_array_equal(rows, index.nearest(query, 20))
        assert 20 < len(rows) < 2000
    for other in (vectors[1:], vectors[:, 1:]):
        with pytest.raises(CollectionDamaged, match="do not fit"):
            read_codes(path, checksum, snapshot_of(np.ascontiguousarray(other)))
    whole = path.read_bytes()
    for content in (b"", b"nothing", whole[: len(whole) // 2], whole[:-1] + b"x"):
        path.write_bytes(content)
        with pytest.raises(CollectionDamaged, match="have changed"):
            read_codes(path, checksum, snapshot)
    path.write_bytes(b"nothing")
    with pytest.raises(CollectionDamaged, match="cannot be read"):
        read_codes(path, file_checksum(path), snapshot)
    path.unlink()
    with pytest.raises(CollectionDamaged, match="cannot be read"):
        read_codes(path, checksum, snapshot)


def test_no_second_copy_of_the_file_stays_in_memory(tmp_path: Path) -> None:
    vectors = clustered(20_000)
    path, snapshot = tmp_path / "1.codes", snapshot_of(vectors)
    checksum = write_codes(path, build_codes(vectors))
    tracemalloc.start()
    try:
        index = read_codes(path, checksum, snapshot)
        kept, _ = tracemalloc.get_traced_memory()  # by Python; FAISS has the codes
    finally:
        tracemalloc.stop()
    assert len(index) == len(vectors)
    assert kept < path.stat().st_size / 2


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a snapshot of 50 images be a large one."""
    monkeypatch.setattr(snapshot_build, "CODES_FROM", 50)


@pytest.fixture
def codes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the codes of few images be searched, and a test fail where vectors are compared in their place."""
    for name, value in {"BESIDE": 1, "LEAST": 50, "MOST_SHARE": 1, "FEWEST": 5}.items():
        monkeypatch.setattr(code_index, name, value)

    def refuse(*_: Any) -> None:
        raise AssertionError("codes did not tell which vectors are the nearest")

    monkeypatch.setattr(FlatIndex, "nearest", refuse)


@pytest.fixture
def filled(collection: Collection, entries: Entries) -> Collection:
    """200 images with a snapshot; half of them are of ward A."""
    with collection.writer() as writer:
        for ward, start in (("A", 0), ("B", 100)):
            writer.add(entries(start, start + 100, ward=ward))
        writer.finish()
    return collection


def search(collection: Collection, number: int = 3, **request: Any) -> tuple[list[int], str, str]:
    """Search with the vector of an image number; returns numbers of the hits, the scope and the index."""
    image_id = collection.records([number])[number].image_id
    ranked = Searcher(collection, FEW).rank(
        collection.vector(image_id), "0" * 32, Request(**{"k": 5, "rerank": "none", **request})
    )
    return ranked.numbers.tolist(), ranked.scope, ranked.index


def codes_files(collection: Collection) -> list[Path]:
    return sorted(collection.folder.rglob("*.codes"))


def test_a_large_snapshot_has_them_and_a_small_one_has_not(
    filled: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, scope, index = search(filled)
    assert (scope, index) == ("the best 5 of 200 by an index", CodeIndex.name)
    assert not verify_collection(filled)
    monkeypatch.setattr(snapshot_build, "CODES_FROM", 1000)
    with filled.writer() as writer:
        writer.compact()
    assert search(filled)[::2] == (found, "flat")
    assert not codes_files(filled)
    assert not verify_collection(filled)
    monkeypatch.setattr(snapshot_build, "CODES_FROM", 50)
    with filled.writer() as writer:
        writer.finish()  # as after an upgrade
    assert search(filled)[::2] == (found, CodeIndex.name)


@pytest.mark.usefixtures("codes_alone")
def test_additions_and_deletions_are_seen(filled: Collection, entries: Entries) -> None:
    with filled.writer() as writer:
        writer.add(entries(200, 204, ward="A"))
    assert search(filled, 202)[0][0] == 202
    hit = search(filled, 3)[0]
    assert hit[0] == 3
    with filled.writer() as writer:
        writer.delete([filled.records([3])[3].image_id])
    assert search(filled, hit[1])[0][0] == hit[1]
    assert 3 not in search(filled, hit[1])[0]
    with filled.writer() as writer:
        writer.compact()
    view = filled.view()
    assert view.gallery.flat_index is not None
    assert len(view.gallery.flat_index) == len(view) == 203
    assert search(filled, 202)[0][0] == 202


@pytest.mark.parametrize("share", [0.0, 9.0], ids=["two looks", "one look"])
def test_around_a_filter_is_what_a_search_without_it_finds(
    filled: Collection, entries: Entries, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    for name, value in {"BESIDE": 1, "LEAST": 50, "FEWEST": 5, "ONE_LOOK": share}.items():
        monkeypatch.setattr(code_index, name, value)
    with filled.writer() as writer:
        writer.add(entries(200, 204, ward="A"))
        writer.delete([filled.records([3])[3].image_id])
    vectors = ViewVectors(filled).for_search()
    scope = IndexScope(where=tuple(filled.conditions(["ward=A"])))
    queries = vectors.view.gallery.vectors(np.array([10, 150, 202]))
    found, around = vectors.nearest_around(queries, 7, scope, 5)
    for each, alone in zip(found, vectors.nearest(queries, 7, scope), strict=True):
        assert each.numbers.tolist() == alone.numbers.tolist()
    wide = [each.numbers for each in vectors.nearest(queries, 5, EVERYTHING)]
    assert around.tolist() == np.unique(wide).tolist()
    assert 3 not in around


def test_filters_and_rights_leave_the_others_out(filled: Collection) -> None:
    hits, scope, _ = search(filled, 150, where=["ward=A"])
    assert max(hits) <= 100
    assert scope == "the best 5 of 100 by an index"
    with LimitedCollection(filled, [parse_filter("ward=A")]) as limited:
        assert max(search(limited, 7)[0]) <= 100
        assert search(limited, 7)[1] == scope


def test_rights_may_leave_nothing_of_the_snapshot(filled: Collection, entries: Entries) -> None:
    with filled.writer() as writer:
        writer.add([*entries(200, 260, ward="Z", part="knee"), *entries(260, 320, ward="Z", part="hip")])
    with LimitedCollection(filled, [parse_filter("ward=Z")]) as limited:
        for method in ("none", "diffusion", "diffusion-eprf"):
            hits, _, _ = search(limited, 210, where=["part=knee"], rerank=method)
            assert hits[0] == 210
            assert all(200 <= hit < 260 for hit in hits)


def test_a_damaged_file_is_reported_and_not_used(filled: Collection) -> None:
    expected = search(filled)[0]
    path = filled.folder / "snapshots" / codes_files(filled)[-1].name
    damaged = path.with_suffix(".damaged")
    damaged.write_bytes(path.read_bytes()[:-1] + b"x")
    damaged.replace(path)  # in place it would change under `filled`, which goes on with what it has read
    with Collection(filled.folder) as again:
        assert search(again)[::2] == (expected, "flat")
        assert again.snapshot_problem is not None
        assert "in place of their codes" in again.snapshot_problem
        assert "the codes" in "".join(verify_collection(again))
        path.unlink()
        with again.writer() as writer:
            writer.finish()
        assert not verify_collection(again)
        assert search(again)[2] == CodeIndex.name


def test_erasing_leaves_no_older_file(collection: Collection, entries: Entries, tmp_path: Path) -> None:
    with collection.writer() as writer:
        writer.add(entries(0, 60, patient="p1"))
        writer.add(entries(60, 120, patient="p2"))
        writer.finish()
    before = {path.name for path in codes_files(collection)}
    assert before
    back_up_collection(collection, tmp_path / "backup", log=True)
    restore_backup(tmp_path / "backup", tmp_path / "restored")
    with Collection(tmp_path / "restored") as restored:
        assert len(restored.view().gallery.flat_index or ()) == 120
    with collection.writer() as writer:
        writer.erase_patient(["p1"])
    assert len(collection.view().gallery.flat_index or ()) == 60
    assert codes_files(collection)
    assert not before & {path.name for path in codes_files(collection)}
    with collection.writer() as writer:
        writer.erase_patient(["p2"])
    assert not codes_files(collection)
