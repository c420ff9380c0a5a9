"""`cbir collection build-index` and the other commands with a vector index."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.errors import CollectionBusy, InvalidInput
from cbir.store import Collection
from cbir.store.base import profile as profiles
from tests.cbir.store.index.followed import Followed, make_entries


@pytest.fixture(autouse=True)
def _hnsw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CBIR_INDEX", "hnsw")


def run(*arguments: str) -> dict[str, object]:
    """Run a command under `cbir collection`; what it prints as JSON."""
    result = CliRunner().invoke(app, ["collection", *arguments, "--format", "json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_build_rebuild_and_drop(hnsw: Followed):
    folder = str(hnsw.collection.folder)
    with hnsw.collection.writer() as writer:
        writer.add(make_entries(0, 30))
        writer.finish()
    built = run("build-index", "--collection", folder)
    assert (built["kind"], built["images"], built["lacking"]) == ("hnsw", 30, 0)
    assert run("build-index", "--collection", folder)["edition"] == built["edition"]
    rebuilt = run("build-index", "--rebuild", "--collection", folder)
    assert rebuilt["edition"] != built["edition"]
    assert run("info", "--collection", folder)["index"]["edition"] == rebuilt["edition"]
    assert "edition" not in run("build-index", "--drop", "--collection", folder)
    assert "not built yet" in run("info", "--collection", folder)["index"]["problem"]
    assert not list((hnsw.collection.folder / "vector_index").glob("cbir_*"))


def test_deleting_and_erasing_reach_the_index(hnsw: Followed):
    hnsw.filled(30)
    folder = str(hnsw.collection.folder)
    run("delete", "--collection", folder, hnsw.ids()[4], "--yes")
    assert hnsw.opened().status().images == 29
    run("erase-patient", "--collection", folder, f"{3:032x}", "--yes")
    status = hnsw.opened().status()
    assert (status.images, status.behind) == (25, 0)


def test_refused_builds(hnsw: Followed, monkeypatch: pytest.MonkeyPatch):
    folder = str(hnsw.collection.folder)
    with pytest.raises(InvalidInput, match="has no snapshot to index"):
        run("build-index", "--collection", folder)
    hnsw.filled(10)
    with hnsw.index.current.editions.lock(), pytest.raises(CollectionBusy, match="another process"):
        run("build-index", "--collection", folder)
    for index in ("auto", "flat"):
        monkeypatch.setenv("CBIR_INDEX", index)
        with pytest.raises(InvalidInput, match=f"the setting index is {index}, .* needs no other index"):
            run("build-index", "--collection", folder)


def test_index_that_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "collection"
    Collection.create(folder, profiles.get("tamura")).close()
    monkeypatch.setenv("CBIR_INDEX", "pgvector")
    with pytest.raises(InvalidInput, match="pgvector is for collections in PostgreSQL"):
        run("info", "--collection", str(folder))
    monkeypatch.setenv("CBIR_INDEX", "exact")
    with pytest.raises(InvalidInput, match="exact is called flat now"):
        run("info", "--collection", str(folder))
    for wrong in ("faiss", "milvus://host", "milvus://user:secret@host:1"):
        monkeypatch.setenv("CBIR_INDEX", wrong)
        with pytest.raises(InvalidInput, match="setting index") as error:
            run("info", "--collection", str(folder))
        assert "secret" not in str(error.value)


def test_commands_go_on_while_the_index_is_down(hnsw: Followed, monkeypatch: pytest.MonkeyPatch):
    hnsw.filled(10)
    monkeypatch.setenv("CBIR_INDEX", "milvus://127.0.0.1:9")
    folder = str(hnsw.collection.folder)
    arguments = ["collection", "delete", "--collection", folder, hnsw.ids()[0], "--yes"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "the vector index has not followed" in result.stderr


def test_commands_leave_the_graph_of_a_large_collection_to_build_index(
    hnsw: Followed, monkeypatch: pytest.MonkeyPatch
):
    hnsw.filled(10)
    folder = str(hnsw.collection.folder)
    monkeypatch.setenv("CBIR_GRAPH_LIMIT", "8")
    deleting = ["collection", "delete", "--collection", folder, hnsw.ids()[4], "--yes"]
    result = CliRunner().invoke(app, deleting, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "the graph of neighbours is not built: the collection has more than 8 images" in result.stderr
    assert run("build-index", "--collection", folder)["linked"] == 9
