"""Queries from a csv, and samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbir.errors import InvalidInput, UnreadableImage
from cbir.evaluation.qrels import queries_from_files, read_query_list, sample_queries, unique_names
from cbir.evaluation.relevance import parse_relevance
from cbir.ingest.description import DescribedFile, refused_file
from cbir.store import Record


@given(st.lists(st.sampled_from(["", "a", "b", "c"])), st.one_of(st.none(), st.integers(1, 30)))
def test_a_sample_is_even_over_the_classes(labels, sample):
    said = [{"label": label} for label in labels]
    if not any(labels):
        with pytest.raises(InvalidInput, match="needs: label"):
            sample_queries(said, parse_relevance("label"), sample, 0)
        return
    drawn = sample_queries(said, parse_relevance("label"), sample, 0)
    assert drawn == sorted(set(drawn))
    assert all(labels[place] for place in drawn)
    there = sum(map(bool, labels))
    assert len(drawn) == (there if sample is None else min(sample, there))
    taken = {label: [labels[place] for place in drawn].count(label) for label in set(labels) - {""}}
    left = [taken[label] for label in taken if taken[label] < labels.count(label)]
    assert not left or max(taken.values()) - min(left) <= 1
    assert drawn == sample_queries(said, parse_relevance("label"), sample, 0)


def test_the_seed_decides():
    said = [{"label": "a"}] * 200
    assert sample_queries(said, parse_relevance("label"), 20, 0) != sample_queries(
        said, parse_relevance("label"), 20, 1
    )


def test_a_csv_names_files_and_labels(tmp_path):
    path = tmp_path / "queries.csv"
    path.write_text("path,label,patient\nb/2.png,x,p\n1.png,,\n")
    entries = read_query_list(path)
    assert [file for file, _ in entries] == [tmp_path.resolve() / "b/2.png", tmp_path.resolve() / "1.png"]
    assert [labels for _, labels in entries] == [{"label": "x", "patient": "p"}, {}]


def test_a_csv_as_it_comes(tmp_path):
    """Blanks in the header, links, a byte order mark, Windows line ends: as `cbir index --labels` takes them."""
    (tmp_path / "1.png").write_text("")
    (tmp_path / "link.png").symlink_to(tmp_path / "1.png")
    path = tmp_path / "queries.csv"
    path.write_bytes("\ufeffpath , label\r\nlink.png,x\r\nb/../1.png, y\r\n".encode())
    assert [(file.name, labels) for file, labels in read_query_list(path)] == [
        ("link.png", {"label": "x"}),
        ("1.png", {"label": "y"}),
    ]


def described_file(content, patient=None):
    record = Record(content, "/1.png", "1", "png", 8, 8, patient_key=patient)
    return DescribedFile((record,), (np.zeros(6, np.float32),))


@pytest.mark.parametrize("text", ["path,label\n", "label\nx\n", ""])
def test_a_csv_without_queries_is_refused(tmp_path, text):
    path = tmp_path / "queries.csv"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=r"queries\.csv"):
        read_query_list(path)


def test_queries_of_files_have_keys_for_patients_and_ids_for_names(tmp_path):
    entries = [(tmp_path / f"{n}.png", {"label": "a", "patient": "Doe, Jane"}) for n in range(3)]
    described = [described_file(content) for content in ("aa", "aa")]
    first, second = queries_from_files(entries, [0, 2], described, b"secret")
    assert (first.name, second.name) == ("aa", "aa-2")
    assert first.patient == second.patient
    assert "Doe" not in str(first)
    assert (first.row, second.row) == (1, 3)


def test_the_patient_of_the_csv_comes_before_that_of_dicom(tmp_path):
    entries = [(tmp_path / "1.dcm", {"label": "a"}), (tmp_path / "2.dcm", {"label": "a", "patient": "Doe"})]
    described = [described_file(content, "key") for content in ("aa", "bb")]
    first, second = queries_from_files(entries, [0, 1], described, b"secret")
    assert first.patient == "key"
    assert second.patient not in (None, "key", "Doe")


def test_files_that_cannot_be_read_are_named_together(tmp_path):
    entries = [(tmp_path / f"{n}.png", {"label": "a"}) for n in range(3)]
    described = [
        refused_file("empty"),
        described_file("aa"),
        refused_file("damaged"),
    ]
    with pytest.raises(UnreadableImage, match=r"2 query files.*0\.png: empty.*2\.png: damaged"):
        queries_from_files(entries, [0, 1, 2], described, b"secret")


def test_unique():
    assert unique_names(["a", "b", "a", "a"]) == ["a", "b", "a-2", "a-3"]
