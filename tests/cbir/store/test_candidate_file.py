"""The candidate index beside a snapshot: built by a command, renewed with snapshots, used beyond `exact_limit`."""

from pathlib import Path

import numpy as np
import pytest
from cbir.store.candidate_file import read_candidate_index, write_candidate_index
from typer.testing import CliRunner

from cbir import settings
from cbir.errors import CollectionDamaged, InvalidInput
from cbir.gallery.candidate_index import build_candidate_index
from cbir.gallery.vector_blocks import VectorBlocks
from cbir.main import app
from cbir.search import Request, Searcher
from cbir.store import Collection
from cbir.store.backup import back_up_collection
from cbir.store.filter_conditions import parse_filter
from cbir.store.limited_collection import LimitedCollection
from cbir.store.restore import restore_backup
from cbir.store.verify import verify_collection
from tests.cbir.gallery.test_knn import clustered

LIMITS = settings.load(device="cpu", exact_limit=50, candidates=20, indexed_candidates=20)


def test_file_is_read_as_it_was_written_and_others_are_refused(tmp_path: Path) -> None:
    vectors = clustered(500)
    index = build_candidate_index(VectorBlocks((vectors,)))
    path = tmp_path / "1.candidates"
    checksum = write_candidate_index(path, index)
    back = read_candidate_index(path, checksum, 500, 10)
    for query in vectors[:5]:
        np.testing.assert_array_equal(back.nearest(query, 20, 3), index.nearest(query, 20, 3))
    for count, dimensions in ((501, 10), (500, 11)):
        with pytest.raises(CollectionDamaged, match="does not fit"):
            read_candidate_index(path, checksum, count, dimensions)
    whole = path.read_bytes()
    for content in (b"", b"nothing", whole[: len(whole) // 2], whole[:-1] + b"x"):
        path.write_bytes(content)
        with pytest.raises(CollectionDamaged, match="has changed"):
            read_candidate_index(path, checksum, 500, 10)
    path.unlink()
    with pytest.raises(CollectionDamaged, match="cannot be read"):
        read_candidate_index(path, checksum, 500, 10)


@pytest.fixture
def filled(collection: Collection, entries) -> Collection:
    """200 images with a snapshot; half of them are of ward A."""
    with collection.writer() as writer:
        for ward, start in (("A", 0), ("B", 100)):
            writer.add(entries(start, start + 100, ward=ward))
        writer.finish()
    return collection


def search(collection: Collection, number: int = 3, **request):
    """Search with the vector of an image number; returns numbers of the hits, and the scope."""
    image_id = collection.records([number])[number].image_id
    ranked = Searcher(collection, LIMITS).rank(
        collection.vector(image_id), "0" * 32, Request(k=5, rerank="none", **request)
    )
    return ranked.numbers.tolist(), ranked.reranking.scope


def build_index(folder: Path, *arguments: str) -> str:
    result = CliRunner().invoke(app, ["collection", "build-index", "--collection", str(folder), *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_searches_use_the_index_once_it_is_there(filled: Collection) -> None:
    expected, scope = search(filled)
    assert "index" not in scope
    assert "200" in build_index(filled.folder)
    assert search(filled) == (expected, "the best 20 of 200 by an index and a sample of 20")
    assert not verify_collection(filled)
    build_index(filled.folder, "--drop")
    assert search(filled) == (expected, scope)
    assert not list((filled.folder / "snapshots").glob("*.candidates"))
    assert not verify_collection(filled)


def test_additions_and_deletions_are_seen_and_later_snapshots_have_an_index(
    filled: Collection, entries
) -> None:
    with filled.writer() as writer:
        writer.build_candidates()
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
    assert view.gallery.candidates is not None
    assert len(view.gallery.candidates) == len(view) == 203
    assert len(list((filled.folder / "snapshots").iterdir())) == 3
    assert search(filled, 202)[1] == "the best 20 of 203 by an index and a sample of 20"


def test_filters_and_rights_leave_the_others_out(filled: Collection) -> None:
    with filled.writer() as writer:
        writer.build_candidates()
    hits, scope = search(filled, 150, where=["ward=A"])
    assert max(hits) <= 100
    assert scope == "the best 20 of 100 by an index and a sample of 20"
    limited = LimitedCollection(filled, [parse_filter("ward=A")])
    assert max(search(limited, 7)[0]) <= 100
    assert search(limited, 7)[1] == "the best 20 of 100 by an index and a sample of 20"
    limited.close()


def test_a_damaged_index_is_reported_and_not_used(filled: Collection) -> None:
    with filled.writer() as writer:
        writer.build_candidates()
    expected, _ = search(filled)
    (path,) = (filled.folder / "snapshots").glob("*.candidates")
    damaged = path.with_suffix(".damaged")
    damaged.write_bytes(path.read_bytes()[:-1] + b"x")
    damaged.replace(path)  # in place it would change under `filled`, which has it mapped
    with Collection(filled.folder) as again:
        hits, scope = search(again)
        assert hits == expected
        assert "index" not in scope
        assert again.snapshot_problem is not None
        assert "all images are compared" in again.snapshot_problem
        assert "candidate index" in "".join(verify_collection(again))
        path.unlink()
        with again.writer() as writer:
            writer.finish()
        assert not verify_collection(again)
        assert "index" in search(again)[1]


def test_dropping_again_deletes_what_an_interruption_left(filled: Collection) -> None:
    with filled.writer() as writer:
        writer.build_candidates()
        (path,) = (filled.folder / "snapshots").glob("*.candidates")
        content = path.read_bytes()
        writer.drop_candidates()
        path.write_bytes(content)  # as if the disk had been full before it was deleted
        for _ in range(2):
            writer.drop_candidates()
            assert not list(filled.folder.rglob("*.candidates"))


def test_backups_keep_the_wish_for_an_index_and_erasing_leaves_no_older_one(
    collection: Collection, entries, tmp_path: Path
) -> None:
    with collection.writer() as writer:
        writer.add(entries(0, 30, patient="p1"))
        writer.add(entries(30, 60, patient="p2"))
        writer.finish()
        writer.build_candidates()
    before = {path.name for path in collection.folder.rglob("*.candidates")}
    back_up_collection(collection, tmp_path / "backup", log=True)
    restore_backup(tmp_path / "backup", tmp_path / "restored")
    with Collection(tmp_path / "restored") as restored:
        assert len(restored.view().gallery.candidates) == 60
    with collection.writer() as writer:
        writer.erase_patient(["p1"])
    assert len(collection.view().gallery.candidates) == 30
    assert not before & {path.name for path in collection.folder.rglob("*.candidates")}
    with collection.writer() as writer:
        writer.erase_patient(["p2"])
    assert not list(collection.folder.rglob("*.candidates"))
    with collection.writer() as writer:
        writer.add(entries(100, 110))
        writer.finish()
    assert len(collection.view().gallery.candidates) == 10


def test_an_empty_collection_has_nothing_to_index(collection: Collection) -> None:
    with collection.writer() as writer, pytest.raises(InvalidInput, match="no snapshot"):
        writer.build_candidates()
