"""`import cbir`: index, open, search, describe, re-rank and evaluate from Python."""

import inspect
import pydoc
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as PillowImage

import cbir
from cbir import descriptors
from cbir.errors import InvalidInput, NotFound, UnreadableImage
from cbir.images import read_images
from cbir.search import Request, Searcher, Stopwatch
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.base import profile as profiles
from tests.cbir.evaluation.small_run import draw

HEAVY = ("cv2", "faiss", "numpy", "pydicom", "scipy", "sklearn", "sqlalchemy", "torch")


def loaded_modules(statement):
    """The heavy modules that a statement loads, in a process of its own, and its seconds of CPU."""
    timed = f"start = time.process_time(); {statement}; print(time.process_time() - start, *sys.modules)"
    code = f"import sys, time; {timed}"
    seconds, *modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=400
    ).stdout.split()
    return {name for name in HEAVY if name in modules}, float(seconds)


def test_importing_cbir_loads_nothing_heavy():
    modules, seconds = loaded_modules("import cbir")
    assert not modules
    assert seconds < 1


def test_importing_the_client_loads_neither_vectors_nor_images():
    assert not loaded_modules("import cbir; cbir.Client")[0]


def test_every_name_of_the_api_can_be_imported_and_is_documented():
    for name in cbir.OBJECTS:
        assert getattr(cbir, name).__doc__
        assert name in dir(cbir)
    assert not {"Any", "import_module", "OBJECTS", "TYPE_CHECKING"} & set(dir(cbir))
    with pytest.raises(AttributeError, match="no attribute 'serch'"):
        cbir.serch  # noqa: B018


def test_dir_lists_public_names_only():
    names = [name for name in dir(cbir) if not name.startswith("__")]
    assert sorted([*cbir.OBJECTS, "rerank", "search"]) == names
    assert callable(cbir.search)
    assert callable(cbir.rerank)


def test_a_search_opens_and_closes_its_collection(db, query):
    hits = cbir.search(query, collection=db.collection.folder, k=3, where="label=coarse")
    assert [(hit.id, hit.score) for hit in hits] == [
        (hit.id, hit.score) for hit in db.search(query, k=3, where="label=coarse")
    ]
    with pytest.raises(NotFound, match="there is no collection"):
        cbir.search(query, collection="nowhere")
    with pytest.raises(TypeError, match="collection"):
        cbir.search(query)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="no option 'rerenk'"):
        cbir.search(query, db.collection.folder, rerenk="none")  # type: ignore[call-arg]


def test_packages_that_can_be_called_stay_packages():
    code = "import cbir; search = cbir.search; from cbir.search import Hit; print(search is cbir.search, search.Hit)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).startswith("True <class")
    assert cbir.rerank.names() == import_module("cbir.rerank").names()


def test_the_help_of_a_package_is_that_of_its_function():
    shown = pydoc.plain(pydoc.render_doc(cbir.rerank))
    assert "cbir.rerank(query_vectors, gallery_vectors, method='auto', *, k=None, **parameters)" in shown
    assert "Finite numbers, converted to float32." in shown
    for name in ("auto", *cbir.rerank.names()):
        assert f'"{name}"' in shown
    assert str(inspect.signature(cbir.rerank)) == str(inspect.signature(cbir.rerank_vectors))
    assert "cbir.search(query, collection, **options)" in pydoc.plain(pydoc.render_doc(cbir.search))


def test_search_gives_the_hits_of_the_searcher(db, query):
    hits = db.search(query, k=5, rerank="none")
    image = next(iter(read_images(query)))
    expected = Searcher(db.collection, Settings()).by_image(image, Request(k=5, rerank="none"), Stopwatch())
    assert [(hit.id, hit.score) for hit in hits] == [(hit.image_id, hit.score) for hit in expected.results]
    assert len(hits) == 5
    assert hits[0] is hits.results[0]
    assert [hit.rank for hit in hits[1:3]] == [2, 3]
    assert hits.rerank.method == "none"
    assert "5 hits by none" in repr(hits)
    assert Path(hits[0].source).is_file()
    assert hits[0].labels["label"] == "coarse"


def test_queries_of_every_kind_agree(db, query):
    expected = [hit.id for hit in db.search(query, k=4)]
    pillow = PillowImage.open(query)
    for same in (str(query), query.read_bytes(), np.asarray(pillow), pillow, db.read(query), [query]):
        assert [hit.id for hit in db.search(same, k=4)] == expected
    first = expected[0]
    own = [hit.id for hit in db.search(first, k=4)]
    assert first not in own
    assert [hit.id for hit in db.search(f"id:{first}", k=4)] == own
    assert [hit.id for hit in db.search(db.image(first).source, k=4)] == own
    several = db.search([query, first], k=4)
    assert several.rerank.method == "feedback"
    assert [hit.id for hit in db.search(query, examples=[first], k=4)] == [hit.id for hit in several]


def test_filters_judgements_and_parameters(db, query):
    assert {hit.labels["half"] for hit in db.search(query, where="half=0", k=50)} == {"0"}
    assert not len(db.search(query, where=["half=0", "label=none"]))
    assert db.search(query, rerank="eprf", parameters={"P": 4}).rerank.parameters["P"] == 4
    ids = [hit.id for hit in db.search(query, k=3, rerank="none")]
    judged = db.search(query, feedback={ids[2]: 1.0, ids[0]: -1.0}, k=48)
    assert (judged[0].id, judged[-1].id) == (ids[2], ids[0])
    patient = db.image(ids[0]).patient_key
    assert ids[0] not in {hit.id for hit in db.search(query, exclude_patient=patient, k=48)}


def test_a_region_of_a_file_and_of_an_image_of_the_collection(db):
    image_id = next(iter(db.images())).image_id
    of_file = db.search(db.image(image_id).source, region=(4, 8, 20, 16), k=3)
    assert (of_file.query.width, of_file.query.height) == (20, 16)
    assert [hit.id for hit in db.search(image_id, region=(4, 8, 20, 16), k=3)] == [hit.id for hit in of_file]


@pytest.mark.parametrize(
    ("query", "options", "error", "message"),
    [
        ("missing.png", {}, NotFound, "neither a file nor the id of an image"),
        (7, {}, InvalidInput, "a query is a file, the content of one, an array or an image id, not int"),
        (None, {}, InvalidInput, "images are needed"),
        (b"text", {}, UnreadableImage, "is not a PNG"),
        (np.full((4, 4), np.nan), {}, UnreadableImage, "not finite"),
        (np.zeros((2, 2, 2, 2)), {}, UnreadableImage, "has shape"),
        (np.zeros((4, 4)), {"k": 0}, InvalidInput, "^k: "),
        (np.zeros((4, 4)), {"frame": 2}, InvalidInput, "frame, window: only of a file"),
        (np.zeros((4, 4)), {"rerank": "best"}, InvalidInput, "there is no re-ranker 'best'"),
        (np.zeros((4, 4)), {"where": "half"}, InvalidInput, "'half' is not of the form"),
        (np.zeros((4, 4)), {"feedback": {"x": 2.0}}, InvalidInput, "^feedback.0.relevance: "),
        (np.zeros((4, 4)), {"region": (0, 0, 9, 9)}, InvalidInput, "is not inside the image"),
        (np.zeros((4, 4)), {"region": (0, 0, 9)}, InvalidInput, "region: x, y, width, height in pixels, not"),
        (np.zeros((4, 4)), {"region": (0, 0, 1.5, 2)}, InvalidInput, "^region: "),
        (np.zeros((4, 4)), {"window": (40, np.nan)}, InvalidInput, "window: center, width, not"),
        (np.zeros((4, 4)), {"frame": "2"}, InvalidInput, "frame: a whole number, not"),
        (np.zeros((4, 4)), {"text": "knee"}, InvalidInput, "text: search with it or with images"),
        (None, {"text": "knee"}, InvalidInput, "has no text tower"),
        (None, {"text": "knee", "frame": 2}, InvalidInput, "frame: is for a query image"),
        (None, {"examples": ["x"], "region": (0, 0, 2, 2)}, InvalidInput, "region: is for a query image"),
    ],
)
def test_wrong_queries_are_refused(db, query, options, error, message):
    with pytest.raises(error, match=message) as refused:
        db.search(query, **options)
    assert isinstance(refused.value, cbir.CbirError)


def test_vectors(db):
    ids, values = db.vectors()
    raw = db.vectors(raw=True).values
    assert len(ids) == len(db) == len(values)
    assert np.array_equal(raw[3], db.collection.vector(ids[3]))
    statistics = db.collection.view().statistics
    assert np.allclose(values[3], statistics.normalise(raw[3]))
    some = db.vectors("label=fine")
    assert {db.image(image_id).labels["label"] for image_id in some.image_ids} == {"fine"}
    assert np.array_equal(some.values, values[[image_id in some.image_ids for image_id in ids]])
    assert len(db.vectors("label=none").values) == 0


def test_describe(db, query, tmp_path):
    expected = descriptors.get("tamura")(next(iter(read_images(query))))
    assert np.array_equal(cbir.describe(query, "tamura"), expected)
    assert np.array_equal(db.describe(query), expected)
    with pytest.raises(InvalidInput, match="there is no descriptor"):
        cbir.describe(query, tmp_path)  # a folder without a model
    part = cbir.describe(np.asarray(PillowImage.open(query)), "tamura", region=(0, 0, 9, 9))
    assert not np.array_equal(part, expected)
    with pytest.raises(InvalidInput, match="there is no descriptor"):
        cbir.describe(query, "tamara")


def test_threads_share_a_collection(db, query):
    expected, answers = [hit.id for hit in db.search(query, k=3)], []
    threads = [
        threading.Thread(target=lambda: answers.append([hit.id for hit in db.search(query, k=3)]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [expected] * 4


def test_a_collection_that_is_missing_or_empty(tmp_path):
    with pytest.raises(NotFound, match="there is no collection in"):
        cbir.open(tmp_path / "missing")
    Collection.create(tmp_path / "empty", profiles.get("tamura")).close()
    with cbir.open(tmp_path / "empty") as db:
        assert len(db) == 0
        assert db
        assert list(db.search(np.zeros((4, 4)))) == []
        assert db.search(np.zeros((4, 4)))._repr_html_().endswith("<p>No image answers.</p>")


SCRIPT = """
import cbir
print(cbir.index({sources!r}, "collection", labels={labels!r}, profile="tamura", jobs=1).indexed)
print(len(cbir.open("collection").search({query!r}, k=3, where="label=odd")))
"""


@pytest.mark.slow
def test_a_script_without_a_main_guard_indexes_and_searches(folder, tmp_path):
    labels = tmp_path / "labels.csv"
    labels.write_text("path,label\n" + "".join(f"{folder / f'{n}.png'},odd\n" for n in range(1, 12, 2)))
    script = tmp_path / "script.py"
    script.write_text(
        SCRIPT.format(sources=str(folder), labels=str(labels), query=str(folder / "2.png")), encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, timeout=400
    )
    assert done.stdout.split() == ["48", "3"], done.stderr


def test_indexing_refuses_what_it_cannot_use(folder, tmp_path):
    with pytest.raises(NotFound, match="there is no file or folder"):
        cbir.index(tmp_path / "missing", tmp_path / "collection")
    with pytest.raises(InvalidInput, match="jobs: at least 1"):
        cbir.index(folder, tmp_path / "collection", jobs=0)
    with pytest.raises(InvalidInput, match="there is no descriptor"):
        cbir.index(folder, tmp_path / "collection", profile=tmp_path)  # a folder without a model
    labels = tmp_path / "labels.csv"
    labels.write_text("path,label\n0.png,odd\n1.png,odd\n")
    with pytest.raises(InvalidInput, match=r"none of the 2 rows of .* names a file among the sources"):
        cbir.index(folder, tmp_path / "collection", labels, profile="tamura", jobs=1)
    assert not (tmp_path / "collection").exists()


@pytest.mark.slow
def test_evaluation(db, tmp_path):
    evaluation = cbir.evaluate(
        db, "half", ["none", "eprf:P=4"], measures="AP P@1", sample=8, jobs=1, out=tmp_path
    )
    means = evaluation.means
    assert list(means) == ["none", "eprf:P=4"]
    assert means["none"]["P@1"] == pytest.approx(evaluation.result.values[0, 1].mean())
    table = evaluation.to_pandas()
    assert table[["method", "measure"]].values.tolist()[0] == ["none", "AP"]
    assert "8 queries" in repr(evaluation)
    assert "<td>eprf:P=4</td>" in evaluation._repr_html_()
    assert (tmp_path / "runs" / "none.run").is_file()


def test_an_evaluation_that_cannot_be_done_is_refused(db, monkeypatch):
    pytest.importorskip("statsmodels")
    with pytest.raises(InvalidInput, match="no re-ranker 'best'"):
        cbir.evaluate(db, rerank="best")
    with pytest.raises(InvalidInput, match="sample: a whole number, at least 1, not 0"):
        cbir.evaluate(db, sample=0)
    with pytest.raises(InvalidInput, match=r"depth: a whole number, at least 0, not 2\.5"):
        cbir.evaluate(db, depth=2.5)
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(InvalidInput, match=r"an evaluation needs ir_measures: pip install '\.\[evaluate\]'"):
        cbir.evaluate(db)


def test_groups_thresholds_and_any_of(db, query):
    everything = db.search(query, k=48, rerank="none")
    grouped = db.search(query, k=9, rerank="none", group_by="half", group_size=2)
    assert [hit.group.rank for hit in grouped] == [1, 1, 2, 2]
    assert grouped[0].id == everything[0].id
    assert grouped.grouping.by == "half"
    near = db.search(query, k=48, rerank="none", max_distance=everything[9].distance)
    assert [hit.id for hit in near] == [hit.id for hit in everything[:10]]
    assert len(db.search(query, k=48, rerank="none", score_threshold=everything[9].score)) == 10
    assert {hit.labels["half"] for hit in db.search(query, k=48, where=["half=0", "half=1"])} == {"0", "1"}
    assert not db.search(query, where="!half?")
    with pytest.raises(InvalidInput, match="no image has a label 'hlaf'; did you mean 'half'"):
        db.search(query, where="hlaf=0")
    with pytest.raises(InvalidInput, match="group_size: Input should be greater than or equal to 1"):
        db.search(query, group_by="label", group_size=0)
    with pytest.raises(TypeError, match=r"no option 'wher'; there are: k, rerank"):
        db.search(query, wher="half=0")


def test_groups_as_a_table(db, query):
    pytest.importorskip("pandas")
    grouped = db.search(query, k=9, rerank="none", group_by="half", group_size=2)
    assert grouped.to_pandas()[["group", "more"]].iloc[0].tolist() == [grouped[0].labels["half"], 22]


def test_search_by_vector_and_in_batches(db, query):
    hits = db.search(query, k=4, rerank="none")
    by_vector = db.search(vector=db.describe(query), k=4, rerank="none")
    assert [hit.id for hit in by_vector] == [hit.id for hit in hits]
    assert by_vector.query.format == "vector"
    stored = db.vector(hits[0].id, raw=True)
    assert db.search(vector=stored, k=1, rerank="none")[0].id == hits[0].id
    assert db.search(vector=stored, profile=db.profile.hash, k=1)[0].id == hits[0].id
    with pytest.raises(InvalidInput, match="profile: the collection has the profile tamura"):
        db.search(vector=stored, profile="huang2012")
    pair = np.stack([stored, db.vector(hits[1].id, raw=True)])
    several = db.search(vector=pair, k=48, rerank="none")
    assert {hit.id for hit in several[:2]} == {hits[0].id, hits[1].id}
    ids, normalised = db.vectors()
    np.testing.assert_array_equal(db.vector(hits[0].id), normalised[ids.index(hits[0].id)])
    for one in (str(query), b"content", {"query": query}):
        with pytest.raises(TypeError, match="several queries are a list"):
            db.search_batch(one)
    answers = db.search_batch(
        [query, hits[0].id, "nothing.png", {"vector": stored, "k": 1}, b"x"], k=4, rerank="none"
    )
    assert [hit.id for hit in answers[0]] == [hit.id for hit in hits]
    assert [hit.id for hit in answers[1]] == [hit.id for hit in db.search(hits[0].id, k=4, rerank="none")]
    assert isinstance(answers[2], NotFound)
    assert [hit.id for hit in answers[3]] == [hits[0].id]
    assert isinstance(answers[4], UnreadableImage)
    for wrong in ([1.0], np.full(len(stored), np.nan), [], "vector", None):
        with pytest.raises(InvalidInput):
            db.search(vector=wrong)


def test_labels_are_counted(db):
    keys = {row.key: row for row in db.labels()}
    assert keys["half"].images == len(db)
    assert {row.key: row.values for row in db.labels("half=0")}["half"] == 1
    values = db.label_values("half")
    assert (values.minimum, values.maximum) == (0.0, 1.0)
    assert sum(item.images for item in values.items) == len(db)
    assert len(db.label_values("half", limit=1, offset=1).items) == 1


def test_indexing_returns_the_counts_that_its_type_names(tmp_path):
    from cbir.api.index_folder import IndexCounts

    draw(tmp_path / "a.png", 1)
    counts = cbir.index(tmp_path / "a.png", tmp_path / "collection", profile="tamura", jobs=1)
    assert vars(counts).keys() == IndexCounts.__annotations__.keys()
