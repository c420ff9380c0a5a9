"""`cbir search --output`: many queries in one run."""

import csv
import json
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from cbir import settings
from cbir.api.main import app
from cbir.errors import InvalidInput, NotFound
from cbir.evaluation.batch import AnswerJournal, list_queries, write_answers
from cbir.images import read_images
from cbir.search import Request, Searcher, Stopwatch
from tests.cbir.evaluation.small_run import draw, index
from tests.held_files import hold_opening, release


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return tmp_path_factory.mktemp("pictures")


@pytest.fixture(scope="module")
def collection(tmp_path_factory, pictures):
    return index(tmp_path_factory.mktemp("indexed") / "collection", pictures)


@pytest.fixture
def queries(tmp_path):
    folder = tmp_path / "queries"
    folder.mkdir()
    for number in range(3):
        draw(folder / f"{number}.png", 200 + number)
    return folder


def search(collection, output, *arguments, code=0):
    common = [
        "search",
        "--collection",
        str(collection.folder),
        "--output",
        str(output),
        "--jobs",
        "1",
        "-k",
        "5",
    ]
    done = CliRunner().invoke(app, [*common, *map(str, arguments)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.output


def expected(collection, path, **request):
    answer = Searcher(collection, settings.load()).by_image(
        next(iter(read_images(path))), Request(k=5, **request), Stopwatch()
    )
    return [(hit.rank, hit.image_id, hit.score) for hit in answer.results]


def test_every_file_of_a_folder_is_a_query(collection, queries, tmp_path):
    (queries / "damaged.png").write_bytes(b"no picture")
    (queries / "notes.md").write_text("no image at all")
    output = tmp_path / "hits.csv"
    text = search(collection, output, queries, "--rerank", "none", "--where", "half=0", code=3)
    assert "3 queries answered" in text
    assert "damaged.png" in text
    with output.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for number in range(3):
        path = queries / f"{number}.png"
        own = [
            (int(row["rank"]), row["image_id"], float(row["score"]))
            for row in rows
            if row["query"] == str(path)
        ]
        assert own == expected(collection, path, rerank="none", where=["half=0"])
    assert all("half=0" in row["labels"] for row in rows)
    assert len(rows) == 15
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hits.csv", "queries"]


def test_lists_ids_and_the_other_formats(collection, queries, tmp_path):
    first = next(collection.iterate())[1]
    (tmp_path / "list.txt").write_text(f"queries/1.png\n\nid:{first.image_id}\nqueries/1.png\nmissing.png\n")
    search(
        collection,
        tmp_path / "hits.jsonl",
        tmp_path / "list.txt",
        "id:unknown",
        "--rerank",
        "pearson",
        code=3,
    )
    answers = [json.loads(line) for line in (tmp_path / "hits.jsonl").read_text().splitlines()]
    assert [answer["query"] for answer in answers] == [
        str(queries / "1.png"), f"id:{first.image_id}", str(tmp_path / "missing.png"), "id:unknown",
    ]  # fmt: skip
    hits = [(hit["rank"], hit["image_id"], hit["score"]) for hit in answers[0]["results"]]
    assert hits == expected(collection, queries / "1.png", rerank="pearson")
    assert first.image_id not in [hit["image_id"] for hit in answers[1]["results"]]
    assert answers[1]["results"][0]["labels"]
    assert ["error" in answer for answer in answers] == [False, False, True, True]
    (tmp_path / "list.csv").write_text("path,label\nqueries/1.png,a\nqueries/2.png,b\n")
    search(collection, tmp_path / "hits.run", tmp_path / "list.csv", "--rerank", "none")
    lines = [line.split() for line in (tmp_path / "hits.run").read_text().splitlines()]
    contents = [next(iter(read_images(queries / f"{number}.png"))).content_hash for number in (1, 2)]
    assert [line[0] for line in lines] == [content for content in contents for _ in range(5)]
    assert [line[2] for line in lines[:5]] == [
        image for _, image, _ in expected(collection, queries / "1.png", rerank="none")
    ]


def test_a_list_of_which_nothing_can_be_used_is_an_error(collection, queries, tmp_path):
    (tmp_path / "list.csv").write_text("path\nqueries/missing.png\nqueries/absent.png\n")
    output = tmp_path / "hits.csv"
    with pytest.raises(InvalidInput, match=r"none of the 2 queries can be used.*missing\.png"):
        search(collection, output, tmp_path / "list.csv", "--rerank", "none")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["list.csv", "queries"]


def test_no_cell_is_a_formula(tmp_path):
    hit = {
        "rank": 1,
        "image_id": "a",
        "score": -0.5,
        "distance": 1.0,
        "labels": {"@label": "x"},
        "source": "+1",
    }
    with AnswerJournal(tmp_path / "hits.csv", {}) as journal:
        journal.add({"query": "=1+1.png", "content": "c", "method": "none", "results": [hit]})
        write_answers(journal, tmp_path / "hits.csv")
    with (tmp_path / "hits.csv").open(newline="") as file:
        _, row = csv.reader(file)
    assert row == ["'=1+1.png", "1", "a", "-0.5", "1.0", "'@label=x", "+1"]


def test_one_run_writes_a_journal(tmp_path):
    with AnswerJournal(tmp_path / "hits.csv", {"k": 1}) as journal:
        journal.add({"query": "a"})
        for terms in ({"k": 1}, {"k": 2}):
            with pytest.raises(InvalidInput, match="another search writes"):
                AnswerJournal(tmp_path / "hits.csv", terms)
        assert list(journal.answers()) == [{"query": "a"}]
    with AnswerJournal(tmp_path / "hits.csv", {"k": 1}) as journal:
        assert journal.done == 1
    with AnswerJournal(tmp_path / "hits.csv", {"k": 2}) as journal:
        assert journal.done == 0


def test_an_interrupted_run_continues(collection, queries, tmp_path):
    output = tmp_path / "hits.jsonl"
    options = ("--rerank", "none", "--exclude-patient", "Doe^John", "--region", "0,0,40,40")
    search(collection, output, queries, *options)
    complete = output.read_text()
    lines = complete.splitlines(keepends=True)
    # The journal as it was when a run was killed while it wrote its second answer

    class Stop(Exception):
        pass

    def stop(self, answer):
        raise Stop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AnswerJournal, "add", stop)
        with pytest.raises(Stop):
            search(collection, output, queries, *options)
    journal = tmp_path / "hits.jsonl.unfinished"
    terms = journal.read_text()
    assert "Doe^John" not in terms
    marked = lines[0].replace('"rank": 1', '"rank": 99')
    journal.write_text(terms + marked + lines[1][:30])
    search(collection, output, queries, *options)
    assert output.read_text() == marked + "".join(lines[1:])  # the first answer was not searched again
    assert not journal.exists()
    # Other terms, or a file that has changed, begin again
    for change in (("--rerank", "pearson", *options[2:]), options):
        journal.write_text(terms + marked)
        if change == options:
            draw(queries / "2.png", 300)
        search(collection, output, queries, *change)
        assert '"rank": 99' not in output.read_text()


def test_damage_in_a_journal_is_searched_again(collection, queries, tmp_path):
    output = tmp_path / "hits.jsonl"
    search(collection, output, queries, "--rerank", "none")
    complete = output.read_text()
    lines = complete.splitlines(keepends=True)
    journal = tmp_path / "hits.jsonl.unfinished"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AnswerJournal, "add", lambda *_: exit(3))
        search(collection, output, queries, "--rerank", "none", code=3)
    terms = journal.read_text()
    for damaged in ("\0" * 20 + "\n", "null\n", "{}\n", '{"query": \n'):
        journal.write_text(terms + lines[0] + damaged + lines[2])
        search(collection, output, queries, "--rerank", "none")
        assert output.read_text() == complete


@pytest.mark.slow
def test_ctrl_c_leaves_a_journal_and_no_output(collection, queries, tmp_path, monkeypatch):
    hold_opening(queries / "2.png", monkeypatch)
    command = [sys.executable, "-m", "cbir.api.main", "search", "--collection", collection.folder, queries]
    output, journal = tmp_path / "hits.csv", tmp_path / "hits.csv.unfinished"
    started = subprocess.Popen(
        [*command, "--jobs", "1", "--rerank", "none", "--output", output], stderr=subprocess.PIPE, text=True
    )
    while not (journal.exists() and journal.read_text().count("\n") > 2):
        assert started.poll() is None
        time.sleep(0.02)
    started.send_signal(signal.SIGINT)
    release(queries)  # a thread may be the one that waits
    _, errors = started.communicate(timeout=300)
    (queries / "released").unlink()
    assert started.returncode not in (0, 2)
    assert "Traceback" not in errors
    assert not output.exists()
    assert journal.read_text().count("\n") == 3


def test_what_a_query_list_is(tmp_path):
    draw(tmp_path / "a.png", 1)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.nii.gz").touch()
    assert list_queries([str(tmp_path / "a.png"), "id:x", str(tmp_path / "a.png")], False) == [
        str(tmp_path / "a.png"), "id:x",
    ]  # fmt: skip
    assert list_queries([str(tmp_path)], True) == [str(tmp_path / "b")]
    assert list_queries([str(tmp_path / "b")], True) == [str(tmp_path / "b" / "c.nii.gz")]
    (tmp_path / "b" / "c.nii.gz").unlink()
    assert list_queries([str(tmp_path / "b")], True) == [str(tmp_path / "b")]
    with pytest.raises(NotFound, match="no file or folder"):
        list_queries([str(tmp_path / "missing")], False)
    with pytest.raises(InvalidInput, match="no image to search with"):
        list_queries([str(tmp_path / "b")], False)
    (tmp_path / "list.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="as a list of files"):
        list_queries([str(tmp_path / "list.txt")], False)


def test_wrong_use(collection, queries, tmp_path):
    (tmp_path / "folder.csv").mkdir()
    for output, arguments, reason in (
        ("hits.txt", (queries,), "must end with"),
        ("no/hits.csv", (queries,), "no folder"),
        ("hits.csv", (queries, "--relevant", "x"), "leave out --text, --vector and judgements"),
        ("hits.csv", (queries, "--format", "json"), "--format is for one search"),
        ("folder.csv", (queries,), "is a folder"),
        ("hits.csv", (queries, "--rerank", "magic"), "magic"),
        ("hits.csv", (queries, "--where", "half"), "filter"),
    ):
        with pytest.raises(InvalidInput, match=reason):
            search(collection, tmp_path / output, *arguments)
    assert not list(tmp_path.glob("hits*")) + list(tmp_path.glob("*.unfinished"))
    done = CliRunner().invoke(
        app, ["search", "--collection", str(collection.folder), str(queries), "--jobs", "2"]
    )
    assert isinstance(done.exception, InvalidInput)
