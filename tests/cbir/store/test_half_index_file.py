"""Vectors in half precision beside a snapshot: written for large ones, renewed with them, and searched first."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cbir import settings
from cbir.errors import CollectionDamaged
from cbir.gallery.flat_index import build_half_index
from cbir.search import Request, Searcher
from cbir.store import Collection
from cbir.store.limited_collection import LimitedCollection
from cbir.store.records.filter_conditions import parse_filter
from cbir.store.snapshot.snapshot import read_half_index, write_half_index
from cbir.store.upkeep.backup import back_up_collection
from cbir.store.upkeep.restore import restore_backup
from cbir.store.upkeep.verify import verify_collection
from cbir.store.views import snapshot_build
from tests.cbir.gallery.test_knn import clustered

FEW = settings.load(device="cpu", indexed_candidates=20, indexed_sample=20)
Entries = Callable[..., Sequence[Any]]


def test_file_is_read_as_it_was_written_and_others_are_refused(tmp_path: Path) -> None:
    vectors = clustered(500)
    index = build_half_index(vectors)
    path = tmp_path / "1.half"
    checksum = write_half_index(path, index)
    back = read_half_index(path, checksum, 500, 10)
    assert back.precision == "half"
    for query in vectors[:5]:
        np.testing.assert_array_equal(back.nearest(query, 20), index.nearest(query, 20))
    for count, dimensions in ((501, 10), (500, 11)):
        with pytest.raises(CollectionDamaged, match="does not fit"):
            read_half_index(path, checksum, count, dimensions)
    whole = path.read_bytes()
    for content in (b"", b"nothing", whole[: len(whole) // 2], whole[:-1] + b"x"):
        path.write_bytes(content)
        with pytest.raises(CollectionDamaged, match="has changed"):
            read_half_index(path, checksum, 500, 10)
    path.unlink()
    with pytest.raises(CollectionDamaged, match="cannot be read"):
        read_half_index(path, checksum, 500, 10)


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a snapshot of 50 images be a large one."""
    monkeypatch.setattr(snapshot_build, "HALVES_FROM", 50)


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
        collection.vector(image_id), "0" * 32, Request(k=5, rerank="none", **request)
    )
    return ranked.numbers.tolist(), ranked.scope, ranked.index


def halves(collection: Collection) -> list[Path]:
    return sorted(collection.folder.rglob("*.half"))


def test_a_large_snapshot_has_them_and_a_small_one_has_not(
    filled: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, scope, index = search(filled)
    assert (scope, index) == ("the best 5 of 200 by an index", "flat, in half precision")
    assert not verify_collection(filled)
    monkeypatch.setattr(snapshot_build, "HALVES_FROM", 1000)
    with filled.writer() as writer:
        writer.compact()
    assert search(filled)[::2] == (found, "flat")
    assert not halves(filled)
    assert not verify_collection(filled)
    monkeypatch.setattr(snapshot_build, "HALVES_FROM", 50)
    with filled.writer() as writer:
        writer.finish()  # as after an upgrade
    assert search(filled)[::2] == (found, "flat, in half precision")


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
    assert view.gallery.index is not None
    assert len(view.gallery.index) == len(view) == 203
    assert search(filled, 202)[0][0] == 202


def test_filters_and_rights_leave_the_others_out(filled: Collection) -> None:
    hits, scope, _ = search(filled, 150, where=["ward=A"])
    assert max(hits) <= 100
    assert scope == "the best 5 of 100 by an index"
    with LimitedCollection(filled, [parse_filter("ward=A")]) as limited:
        assert max(search(limited, 7)[0]) <= 100
        assert search(limited, 7)[1] == scope


def test_a_damaged_file_is_reported_and_not_used(filled: Collection) -> None:
    expected = search(filled)[0]
    path = filled.folder / "snapshots" / halves(filled)[-1].name
    damaged = path.with_suffix(".damaged")
    damaged.write_bytes(path.read_bytes()[:-1] + b"x")
    damaged.replace(path)  # in place it would change under `filled`, which has it mapped
    with Collection(filled.folder) as again:
        assert search(again)[::2] == (expected, "flat")
        assert again.snapshot_problem is not None
        assert "single precision" in again.snapshot_problem
        assert "the index" in "".join(verify_collection(again))
        path.unlink()
        with again.writer() as writer:
            writer.finish()
        assert not verify_collection(again)
        assert search(again)[2] == "flat, in half precision"


def test_erasing_leaves_no_older_file(collection: Collection, entries: Entries, tmp_path: Path) -> None:
    with collection.writer() as writer:
        writer.add(entries(0, 60, patient="p1"))
        writer.add(entries(60, 120, patient="p2"))
        writer.finish()
    before = {path.name for path in halves(collection)}
    assert before
    back_up_collection(collection, tmp_path / "backup", log=True)
    restore_backup(tmp_path / "backup", tmp_path / "restored")
    with Collection(tmp_path / "restored") as restored:
        assert len(restored.view().gallery.index or ()) == 120
    with collection.writer() as writer:
        writer.erase_patient(["p1"])
    assert len(collection.view().gallery.index or ()) == 60
    assert halves(collection)
    assert not before & {path.name for path in halves(collection)}
    with collection.writer() as writer:
        writer.erase_patient(["p2"])
    assert not halves(collection)
