"""`cbir search`: files, csv, contact sheets, regions and windows."""

import csv
import io
import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import cbir
from cbir.api.commands import search_output
from cbir.api.main import app
from cbir.errors import InvalidInput
from cbir.search import Hit, image_links
from cbir.search.contact_sheet import SheetRow, render_sheet
from tests.cbir.evaluation.small_run import draw
from tests.cbir.evaluation.small_run import index as index_drawn


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pictures = tmp_path_factory.mktemp("<pictures>")
    made = index_drawn(tmp_path_factory.mktemp("indexed") / "collection", pictures)
    made.close()
    return made.folder


@pytest.fixture
def query(tmp_path):
    path = tmp_path / "<b>query.png"
    draw(path, 101)
    return path


def search(folder, *arguments, code=0):
    """Run `cbir search` in this process; what it printed."""
    command = ["search", *arguments, "--collection", folder, "--rerank", "none", "-k", "4"]
    done = CliRunner().invoke(app, [str(argument) for argument in command])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.stdout


def hits_of(folder, query, **options):
    with cbir.open(folder) as db:
        return list(db.search(query, k=4, rerank="none", **options))


def test_table_json_and_csv_name_the_files(folder, query):
    hits = hits_of(folder, query)
    assert all(Path(hit.source).is_file() for hit in hits)
    assert [hit["source"] for hit in json.loads(search(folder, query, "--format", "json"))["results"]] == [
        hit.source for hit in hits
    ]
    rows = list(csv.DictReader(io.StringIO(search(folder, query, "--format", "csv"))))
    assert [(row["image_id"], row["source"], float(row["score"])) for row in rows] == [
        (hit.id, hit.source, hit.score) for hit in hits
    ]
    assert hits[0].source in search(folder, query)


def check_page(page, pictures):
    """A page of so many pictures that needs nothing else, and shows text as it is."""
    assert page.count('src="data:image/jpeg;base64,') == pictures
    assert "<script" not in page
    assert "&lt;b&gt;query.png" in page
    assert "<b>query.png" not in page
    assert "&lt;pictures&gt;" in page
    assert not re.search(r"(src|href)=\"(?!data:)", page)
    assert "default-src 'none'; img-src data:; style-src 'sha256-" in page


def test_a_contact_sheet(folder, query, tmp_path, monkeypatch):
    page = search(folder, query, "--format", "html")
    check_page(page, pictures=5)
    opened = []
    monkeypatch.setattr(search_output.webbrowser, "open", opened.append)
    printed = Path(search(folder, query, "--open").strip())
    assert opened == [printed.as_uri()]
    assert printed.read_text(encoding="utf-8") == page
    assert printed.stat().st_mode & 0o077 == 0
    printed.unlink()


def test_a_contact_sheet_of_images_of_the_collection(folder):
    image_id = hits_of(folder, np.zeros((9, 9)))[0].id
    assert search(folder, f"id:{image_id}", "--format", "html").count("<img") == 5


def test_every_text_of_a_sheet_is_escaped():
    hit = Hit(
        rank=1,
        image_id="x",
        score=1,
        distance=0,
        labels={"<i>": "<i>"},
        patient=None,
        dicom=None,
        links=image_links("x"),
        source="<i>",
    )
    rows = [SheetRow("<i>", [None], [hit], "<i>"), SheetRow("<i>", [b"jpeg"], [], "<i>")]
    page = "".join(render_sheet(rows, lambda hit: None, "<i>"))
    assert "<i>" not in page
    assert page.count("&lt;i&gt;") == 2 + 3 + 2 + 2  # titles, hit, names, notes


def test_a_region_and_a_window(folder, query):
    rows = json.loads(search(folder, query, "--region", "4,8,20,16", "--format", "json"))
    assert (rows["query"]["width"], rows["query"]["height"]) == (20, 16)
    expected = [hit.id for hit in hits_of(folder, query, region=(4, 8, 20, 16))]
    assert [hit["image_id"] for hit in rows["results"]] == expected
    image_id = expected[0]
    of_id = json.loads(search(folder, f"id:{image_id}", "--region", "4,8,20,16", "--format", "json"))
    assert of_id["query"]["width"] == 20


def test_a_window_changes_a_dicom_query(folder):
    from pydicom.data import get_testdata_file

    scan = get_testdata_file("CT_small.dcm", download=False)
    with cbir.open(folder) as db:
        windowed = db.describe(scan, cbir.QueryOptions(window=(40, 80)))
        assert not np.array_equal(windowed, db.describe(scan))
    distances = [
        [hit["distance"] for hit in json.loads(search(folder, scan, *window, "--format", "json"))["results"]]
        for window in ((), ("--window=40,80",))
    ]
    assert distances[0] != distances[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--region", "1,2,3"), "--region 1,2,3 is not of the form X,Y,WIDTH,HEIGHT"),
        (("--region", "0.5,0,4,4"), "is not of the form"),
        (("--window", "40,inf"), "--window 40,inf is not of the form CENTER,WIDTH"),
        (("--region", "0,0,99,9"), "is not inside the image"),
        (("--open", "--format", "csv"), "--open shows a page"),
        (("--open", "--output", "hits.csv"), "--open shows pages"),
        (("--output", "hits.txt"), "must end with .csv, .jsonl, .run, .html"),
    ],
)
def test_wrong_options_are_refused(folder, query, arguments, message):
    with pytest.raises(InvalidInput, match=message):
        search(folder, query, *arguments)


def test_a_part_is_for_images(folder):
    image_id = hits_of(folder, np.zeros((9, 9)))[0].id
    with pytest.raises(InvalidInput, match="frame, window: only of a file"):
        search(folder, f"id:{image_id}", "--window", "40,80")
    with pytest.raises(InvalidInput, match="--region is for images"):
        search(folder, "--text", "knee", "--region", "0,0,4,4")


@pytest.mark.slow
def test_a_folder_of_queries_as_a_page(folder, query, tmp_path):
    (query.parent / "damaged.png").write_bytes(b"no picture")
    output = tmp_path / "sheet.html"
    search(folder, query.parent, "--output", output, "--jobs", "1", "--region", "0,0,9,9", code=3)
    page = output.read_text(encoding="utf-8")
    check_page(page, pictures=5)
    assert "damaged.png" in page
    assert "is not a PNG" in page
    assert output.stat().st_mode & 0o077 == 0
    with pytest.raises(InvalidInput, match="pictures is too large"):
        search_output.check_pictures(search_output.MOST_PICTURES + 1)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text elsewhere")
@pytest.mark.parametrize("suffix", [".csv", ".html"])
def test_names_that_are_not_utf8(folder, query, tmp_path, suffix):
    query.rename(query.with_name(os.fsdecode(b"caf\xe9.png")))
    output = tmp_path / f"hits{suffix}"
    search(folder, query.parent, "--output", output, "--jobs", "1")
    assert r"caf\udce9.png" in output.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_batch_names_the_files(folder, query, tmp_path):
    output = tmp_path / "hits.csv"
    search(folder, query, "--output", output, "--jobs", "1")
    with output.open(newline="") as file:
        assert [row["source"] for row in csv.DictReader(file)] == [
            hit.source for hit in hits_of(folder, query)
        ]
    with pytest.raises(InvalidInput, match="--region with --output is for files"):
        search(folder, query, "id:x", "--output", output, "--region", "0,0,9,9")


def test_groups_and_thresholds(folder, query, tmp_path):
    grouped = hits_of(folder, query, group_by="half", group_size=2)
    asked = ("--group-by", "half", "--group-size", "2")
    table = search(folder, query, *asked)
    assert "group" in table.splitlines()[0]
    assert "+22 more" in table
    rows = list(csv.DictReader(io.StringIO(search(folder, query, *asked, "--format", "csv"))))
    assert [(row["image_id"], row["group"], row["more"]) for row in rows] == [
        (hit.id, hit.group.key, "22") for hit in grouped
    ]
    search(folder, query, *asked, "--output", tmp_path / "hits.csv", "--jobs", "1")
    written = list(csv.DictReader(io.StringIO((tmp_path / "hits.csv").read_text())))
    assert [(row["image_id"], row["group"]) for row in written] == [
        (hit.id, hit.group.key) for hit in grouped
    ]
    near = hits_of(folder, query)[:2]
    distance, score = str(near[1].distance + 1e-4), str(near[1].score - 1e-4)
    for option in (("--max-distance", distance), ("--score-threshold", score)):
        found = json.loads(search(folder, query, *option, "--format", "json"))["results"]
        assert [hit["image_id"] for hit in found] == [hit.id for hit in near]
    for wrong in (("--format", "trec"), ("--output", tmp_path / "a.run")):
        with pytest.raises(InvalidInput, match="--group-size: a TREC run is in the order of scores"):
            search(folder, query, *asked, *wrong)
    with pytest.raises(InvalidInput, match="no image has a label 'hlaf'; did you mean 'half'"):
        search(folder, query, "--where", "hlaf=0")


def test_search_by_vector(folder, tmp_path):
    with cbir.open(folder) as db:
        image_id = next(iter(db.images())).image_id
        np.save(tmp_path / "one.npy", db.vector(image_id, raw=True))
    found = json.loads(search(folder, "--vector", tmp_path / "one.npy", "--format", "json"))
    assert found["results"][0]["image_id"] == image_id
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    np.save(tmp_path / "texts.npy", np.array(["x"]))
    (tmp_path / "text.npy").write_text("x")
    (tmp_path / "empty.npy").touch()
    for name, reason in (
        ("none", "cannot be read"), ("text", "is not a NumPy file"), ("empty", "is not a NumPy file"),
        ("objects", "is not a NumPy file"), ("texts", "does not hold one array of numbers"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=reason):
            search(folder, "--vector", tmp_path / f"{name}.npy")
    with pytest.raises(InvalidInput, match="--text: search with it, or with images and --vector"):
        search(folder, "--text", "knee", "--vector", tmp_path / "one.npy")


def test_labels_are_listed(folder):
    def labels(*arguments):
        done = CliRunner().invoke(app, ["collection", "labels", *arguments, "--collection", str(folder)])
        assert done.exit_code == 0, done.output
        return done.stdout

    with cbir.open(folder) as db:
        assert json.loads(labels("--format", "json"))["items"] == [row._asdict() for row in db.labels()]
        values = db.label_values("half", "half=1")
    assert json.loads(labels("half", "--where", "half=1", "--format", "json"))["items"] == [
        row._asdict() for row in values.items
    ]
    assert "from 0 to 1" in labels("half")
    assert "and 1 more values" in labels("half", "--limit", "1")
