"""Hits from Python: as a table, in notebooks, pickled; their pictures."""

import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from pydicom import dcmread
from pydicom.data import get_testdata_file

import cbir
from cbir import descriptors
from cbir.errors import InvalidInput, NotFound
from cbir.images import read_images
from cbir.images.scaling import make_thumbnail
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.records.records import describe_record
from tests.cbir.evaluation.small_run import draw
from tests.cbir.evaluation.small_run import index as index_drawn


def test_hits_as_a_table(db, query):
    hits = db.search(query, k=3)
    table = hits.to_pandas()
    assert list(table.columns[:6]) == ["rank", "image_id", "score", "distance", "source", "patient"]
    assert table["label"].tolist() == [hit.labels.get("label") for hit in hits]
    assert list(db.search(query, where="label=none").to_pandas().columns) == list(table.columns[:6])


def test_a_missing_pandas_is_one_line(db, query, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InvalidInput, match=r"to_pandas needs pandas: pip install '\.\[pandas\]'"):
        db.search(query, k=1).to_pandas()


def test_hits_in_a_notebook_have_pictures_and_escaped_text(db, query, tmp_path):
    hits = db.search(query, k=3)
    hits[0].labels["label"] = "<script>alert(1)</script>"
    html = hits._repr_html_()
    assert html.count('src="data:image/jpeg;base64,') == 3
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert hits.picture(hits[0]).startswith(b"\xff\xd8")


def test_a_notebook_shows_the_first_hits_of_many(db, query, monkeypatch):
    monkeypatch.setattr("cbir.search.answer.MOST_CARDS", 2)
    html = db.search(query, k=5)._repr_html_()
    assert html.count("<img") == 2
    assert "and 3 more" in html


def test_hits_can_be_pickled_without_their_collection(db, query):
    hits = db.search(query, k=2)
    copied = pickle.loads(pickle.dumps(hits))
    assert copied.results == hits.results
    assert copied.picture(copied[0]) is None
    assert hits.picture(hits[0])


def test_a_picture_whose_file_is_gone_is_left_out(folder, tmp_path):
    made = index_drawn(tmp_path / "collection", tmp_path)
    with made, cbir.open(made.folder) as db:
        record = next(iter(db.images()))
        assert db.thumbnail(record.image_id)
        draw(Path(record.source), 999)
        assert db.thumbnail(record.image_id) is None
        hits = db.search(np.zeros((9, 9)), k=1)
        with made.writer() as writer:
            writer.delete([hits[0].id])
        assert hits.picture(hits[0]) is None
        assert "no picture" in hits._repr_html_()


@pytest.mark.slow
def test_a_picture_with_burned_in_text_is_left_out(tmp_path):
    scans = tmp_path / "scans"
    scans.mkdir()
    scan = dcmread(get_testdata_file("CT_small.dcm", download=False))
    scan.BurnedInAnnotation = "YES"
    scan.save_as(scans / "text.dcm")
    draw(scans / "plain.png", 1)
    assert cbir.index(scans, tmp_path / "collection", profile="tamura", jobs=1).indexed == 2
    with cbir.open(tmp_path / "collection") as db:
        ids = {Path(record.source).name: record.image_id for record in db.images()}
        assert db.thumbnail(ids["text.dcm"]) is None  # the text may name the patient
        hits = db.search(np.zeros((9, 9)))
        assert hits._repr_html_().count("<img") == 1


def test_a_region_is_of_the_file_and_not_of_a_stored_thumbnail(tmp_path):
    path = tmp_path / "large.png"
    draw(path, 1, side=300)
    image = next(iter(read_images(path)))
    made = Collection.create(tmp_path / "collection", profiles.get("tamura"))
    record = describe_record(image, source=str(path), source_stamp="1", secret=made.secret)
    with made, made.writer() as writer:
        writer.add(
            [(record, descriptors.get("tamura")(image))],
            in_transaction=lambda transaction, _: transaction.store_thumbnails({1: make_thumbnail(image)}),
        )
    path.unlink()
    with cbir.open(made.folder) as db:
        image_id = next(iter(db.images())).image_id
        assert db.thumbnail(image_id) == make_thumbnail(image)
        with pytest.raises(NotFound, match="is gone or has changed"):
            db.search(image_id, region=(0, 0, 9, 9))
