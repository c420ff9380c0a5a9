"""The graph of neighbours of a collection behind an index: built, read, outgrown, replaced, deleted."""

import re
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cbir import settings
from cbir.errors import IndexUnavailable
from cbir.gallery.numbered_graph import NumberedGraph
from cbir.search import Request, Searcher, Stopwatch
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.index import follow_index, stored_neighbours
from cbir.store.index.follow_index import IndexThread, NeighbourThread
from cbir.store.index.stored_neighbours import build_neighbours
from cbir.store.writing import image_remover
from cbir.system.files import try_lock
from tests.cbir.store.conftest import entry
from tests.cbir.store.index.followed import Followed, make_entries


@pytest.fixture
def filled(hnsw: Followed) -> Followed:
    return hnsw.filled(60)


def path_of(followed: Followed) -> Path:
    return followed.collection.folder / "vector_index" / "hnsw.neighbours"


def test_the_graph_is_that_of_the_snapshot(filled: Followed) -> None:
    assert filled.index.vectors.graph() is None
    assert filled.index.neighbours.update()
    stored = filled.index.vectors.graph()
    assert stored is not None
    gallery = filled.collection.view().gallery
    assert gallery.neighbourhood is not None
    graph, _ = gallery.neighbourhood.covering(gallery)
    np.testing.assert_array_equal(stored.numbers, gallery.ids)
    part = stored.part(np.arange(60))
    np.testing.assert_allclose(part.weights.toarray(), graph.weights.toarray(), rtol=1e-4, atol=1e-6)
    assert filled.index.status().linked == filled.opened().status().linked == 60
    assert path_of(filled).stat().st_mode & 0o077 == 0


def test_every_kind_of_index_has_a_graph(followed: Followed) -> None:
    followed.filled(30)
    with followed.collection.writer() as writer:
        writer.delete(followed.ids()[:3])
    followed.index.follower.follow()
    assert followed.index.neighbours.update()
    stored = followed.opened().vectors.graph()
    assert stored is not None
    assert stored.numbers.tolist() == sorted(followed.collection.image_ids())


def test_a_graph_that_fits_is_not_built_again(filled: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    filled.index.neighbours.update()
    with filled.collection.writer() as writer:
        writer.add(make_entries(60, 70))
    filled.index.follower.follow()
    monkeypatch.setattr(stored_neighbours, "build_neighbours", None)
    for index in (filled.index, filled.opened()):
        assert not index.neighbours.is_due()
        assert index.neighbours.update()


def test_a_graph_that_is_outgrown_is_built_again(filled: Followed) -> None:
    filled.index.neighbours.update()
    with filled.collection.writer() as writer:
        writer.delete(filled.ids()[:5])
        writer.add(make_entries(60, 75))
    filled.index.follower.follow()
    assert filled.index.neighbours.is_due()
    filled.index.neighbours.update()
    assert filled.opened().status().linked == 70


def test_another_edition_needs_another_graph(filled: Followed) -> None:
    filled.index.neighbours.update()
    filled.index.follower.follow(rebuild=True)
    assert filled.index.vectors.graph() is None
    assert filled.index.status().linked is None
    filled.index.neighbours.update()
    assert filled.index.vectors.graph() is not None


def test_a_damaged_graph_is_built_again(filled: Followed, caplog: pytest.LogCaptureFixture) -> None:
    filled.index.neighbours.update()
    path_of(filled).write_bytes(path_of(filled).read_bytes()[:-100])
    opened = filled.opened()
    assert opened.vectors.graph() is None
    assert "hnsw.neighbours has changed since it was written; it is built again" in caplog.text
    opened.neighbours.update()
    assert opened.vectors.graph() is not None


def test_erasing_a_patient_deletes_the_graph(filled: Followed) -> None:
    filled.index.neighbours.update()
    with filled.collection.writer() as writer:
        writer.erase_patient([f"{3:032x}"])
        assert not path_of(filled).exists()
    filled.index.follower.follow()
    filled.index.neighbours.update()
    assert filled.opened().status().linked == 51


def while_building(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let something happen once the vectors of a graph are read."""

    def build_and_act(*given: Any) -> NumberedGraph:
        graph = build_neighbours(*given)
        act()
        return graph

    monkeypatch.setattr(stored_neighbours, "build_neighbours", build_and_act)


def test_a_graph_built_while_a_patient_is_erased_is_not_kept(
    filled: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def erase() -> None:
        with filled.collection.writer() as writer:
            writer.erase_patient([f"{3:032x}"])

    while_building(monkeypatch, erase)
    filled.index.neighbours.update()
    assert not path_of(filled).exists()
    monkeypatch.undo()
    filled.index.neighbours.update()
    assert filled.index.status().linked == 51


def test_a_graph_of_before_an_erasure_elsewhere_is_deleted(filled: Followed) -> None:
    filled.index.neighbours.update()
    graph = path_of(filled).read_bytes()
    with filled.collection.writer() as writer:
        writer.erase_patient([f"{3:032x}"])
    path_of(filled).write_bytes(graph)  # as on a machine of its own
    assert filled.index.neighbours.is_due()
    assert not path_of(filled).exists()


def test_a_graph_written_within_the_transaction_of_an_erasure_is_deleted(
    filled: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.index.neighbours.update()
    graph = path_of(filled).read_bytes()
    monkeypatch.setattr(image_remover, "note_erasure", lambda _: path_of(filled).write_bytes(graph))
    with filled.collection.writer() as writer:
        writer.erase_patient([f"{3:032x}"])
    assert not path_of(filled).exists()


def test_erasing_deletes_what_a_killed_build_left(filled: Followed) -> None:
    filled.index.neighbours.update()
    left = path_of(filled).with_suffix(".neighbours.partial")
    path_of(filled).rename(left)
    with filled.collection.writer() as writer:
        writer.erase_patient([f"{3:032x}"])
    assert not left.exists()


def test_a_graph_of_an_index_dropped_meanwhile_is_not_kept(
    filled: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    while_building(monkeypatch, filled.opened().follower.drop)
    filled.index.neighbours.update()
    assert not path_of(filled).exists()


def test_a_deleted_graph_is_closed(filled: Followed) -> None:
    filled.index.neighbours.update()
    graph = weakref.ref(filled.index.vectors.graph())
    assert not filled.index.neighbours.is_due()
    path_of(filled).unlink()
    assert filled.index.vectors.graph() is None
    assert graph() is None


def test_a_large_collection_has_a_graph_if_the_user_requests_it(filled: Followed) -> None:
    limited = Followed(filled.collection, filled.settings.model_copy(update={"graph_limit": 59}))
    with pytest.raises(IndexUnavailable, match=r"more than 59 images \(setting graph_limit\)"):
        limited.index.neighbours.update()
    assert limited.index.neighbours.update(requested=True)
    assert limited.index.status().linked == 60
    assert limited.index.neighbours.update()


def test_without_a_limit_there_is_no_graph(filled: Followed) -> None:
    filled.index.neighbours.update()
    without = Followed(filled.collection, filled.settings.model_copy(update={"graph_limit": 0}))
    assert without.index.vectors.graph() is None
    assert not without.index.neighbours.is_due()
    assert without.index.neighbours.update(requested=True)
    assert not path_of(filled).exists()


def test_the_graph_of_a_dropped_index_is_deleted(filled: Followed) -> None:
    filled.index.neighbours.update()
    filled.index.follower.drop()
    assert filled.index.neighbours.update()
    assert not path_of(filled).exists()


def test_two_processes_do_not_build_it_at_a_time(filled: Followed) -> None:
    path_of(filled).parent.mkdir(exist_ok=True)
    with path_of(filled).with_suffix(".neighbours-lock").open("ab") as file:
        assert try_lock(file.fileno())
        assert not filled.index.neighbours.update()
    assert filled.index.neighbours.update()


def test_a_graph_that_cannot_be_written_leaves_nothing(
    filled: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stored_neighbours, "write_neighbours", full)
    with pytest.raises(
        IndexUnavailable, match=r"hnsw\.neighbours cannot be written: No space left on device"
    ):
        filled.index.neighbours.update()
    assert filled.index.vectors.graph() is None


def test_vectors_of_networks_are_linked_as_they_are(hnsw: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(hnsw.collection.profile), "is_projected", True)
    hnsw.filled(30)
    assert hnsw.index.neighbours.is_due()
    hnsw.index.neighbours.update()
    graph = hnsw.index.vectors.graph()
    assert graph is not None
    assert graph.space.projection is None


def wait_for_thread(name: str) -> None:
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(60)


def test_a_service_builds_it_in_the_background(filled: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()
    monkeypatch.setattr(follow_index, "FOLLOW_SECONDS", 0.01)

    def note_and_build(*given: Any) -> NumberedGraph:
        begun.set()
        return build_neighbours(*given)

    monkeypatch.setattr(stored_neighbours, "build_neighbours", note_and_build)
    index = filled.opened()
    thread = IndexThread("hospital", index)
    assert begun.wait(60)
    wait_for_thread("neighbours of hospital")
    thread.stop()
    assert index.vectors.graph() is not None


def test_a_build_ends_when_the_service_does(filled: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait_and_build(*given: Any) -> NumberedGraph:
        begun.set()
        go_on.wait(60)
        return build_neighbours(*given)

    monkeypatch.setattr(stored_neighbours, "build_neighbours", wait_and_build)
    thread = IndexThread("hospital", filled.opened())
    assert begun.wait(60)
    thread.stop()
    go_on.set()
    wait_for_thread("neighbours of hospital")
    assert not path_of(filled).exists()


def test_a_build_that_fails_is_logged_without_the_text_of_the_error(
    filled: Followed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_given: object) -> None:
        raise ValueError("secret.dcm")

    monkeypatch.setattr(stored_neighbours, "build_neighbours", fail)
    thread = NeighbourThread("hospital")
    thread.update(filled.index.neighbours)
    wait_for_thread("neighbours of hospital")
    message = r"collection hospital: the graph of neighbours is not built: ValueError at \S+\.py:\d+"
    assert re.fullmatch(message, caplog.messages[-1])
    thread.update(filled.index.neighbours)
    assert not [thread for thread in threading.enumerate() if thread.name == "neighbours of hospital"]


def test_answers_say_that_relevance_flows_among_candidates_alone(tmp_path: Path) -> None:
    loaded = settings.load(device="cpu", index="hnsw", indexed_candidates=30, indexed_sample=30)
    with Collection.create(tmp_path / "collection", profiles.get("tamura")) as collection:
        with collection.writer() as writer:
            writer.add([entry(n) for n in range(150)])
            writer.finish()
        searcher = Searcher(collection, loaded)
        assert searcher.vector_index is not None
        searcher.vector_index.follower.follow()
        image_id = next(iter(collection.iterate()))[1].image_id

        def notes(method: str) -> str:
            return " ".join(searcher.by_id(image_id, Request(rerank=method), Stopwatch()).rerank.notes)

        assert "is not built yet" in notes("diffusion")
        assert "is not built yet" not in notes("eprf")
        searcher.vector_index.neighbours.update()
        assert "is not built yet" not in notes("diffusion")
