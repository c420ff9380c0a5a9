"""What every vector index must do, on a real engine each."""

import numpy as np
import pytest
from numpy.typing import NDArray

from cbir.store.index.port import IndexPosition, IndexScope, Neighbours
from cbir.store.records.filter_conditions import Condition, DicomScope, PatientScope, parse_filters
from tests.cbir.store.index.subjects import DIMENSIONS, Subject, is_in_scope, make_images, make_vectors

COUNT = 2000
EVERYTHING = IndexScope()
SCOPES = {
    "half": IndexScope(parse_filters(["grade>=2"])),
    "one in 100": IndexScope(parse_filters(["rare=yes"])),
    "one": IndexScope(parse_filters(["odd=10"])),
    "none": IndexScope(parse_filters(["part=elbow"])),
    "either": IndexScope(parse_filters(["part=knee", "part=HAND"])),
    "case": IndexScope(parse_filters(["part=hand"])),
    "not": IndexScope(parse_filters(["rare!=yes"])),
    "not a number": IndexScope(parse_filters(["odd!=n/a"])),
    "less": IndexScope(parse_filters(["grade<2.5", "grade>0.5"])),
    "at most": IndexScope(parse_filters(["grade<=2.5"])),
    "among texts": IndexScope(parse_filters(["odd>=1000"])),
    "exponent": IndexScope(parse_filters(["grade<1e300"])),
    "infinite": IndexScope(parse_filters(["grade<inf"])),
    "nan": IndexScope(parse_filters(["grade>nan"])),
    "present": IndexScope(parse_filters(["rare?"])),
    "absent": IndexScope(parse_filters(["!odd?"])),
    "patient": IndexScope(of_patients=(PatientScope(f"{3:032x}"),)),
    "other studies": IndexScope(of_patients=(PatientScope(f"{3:032x}", "1.2.1"),)),
    "no patient": IndexScope(of_patients=(PatientScope(None),)),
    "two patients": IndexScope(of_patients=(PatientScope(f"{3:032x}"), PatientScope(f"{5:032x}"))),
    "without patients": IndexScope(without_patients=(f"{3:032x}", f"{5:032x}")),
    "without contents": IndexScope(without_contents=(f"{3:032x}", f"{4:032x}")),
    "outside study": IndexScope(outside=DicomScope("1.2.1")),
    "outside series": IndexScope(outside=DicomScope("1.2.1", "1.2.1.0")),
    "outside instance": IndexScope(outside=DicomScope("1.2.1", "1.2.1.1", "1.2.1.0.1")),
    "outside nothing": IndexScope(outside=DicomScope()),
    "all at once": IndexScope(
        parse_filters(["part=knee", "grade>1", "!rare?"]),
        without_patients=(f"{3:032x}",),
        without_contents=(f"{4:032x}",),
        outside=DicomScope("1.2.1"),
    ),
}


@pytest.fixture
def filled(subject: Subject) -> Subject:
    """An index of 2000 images, searchable."""
    subject.put(make_images(COUNT), make_vectors(COUNT))
    subject.index.finish()
    subject.index.set_position(IndexPosition(1, COUNT, 1))
    return subject


def nearest(
    subject: Subject, query: NDArray[np.float32], k: int, scope: IndexScope = EVERYTHING
) -> Neighbours:
    (found,) = subject.index.nearest(query[None, :], k, scope)
    return found


def assert_exact(found: Neighbours, expected: Neighbours) -> None:
    """All k are found; images that are as far may come in any order."""
    assert len(set(found.numbers.tolist())) == len(found.numbers)
    assert found.numbers.dtype == np.int64
    assert found.distances.dtype == np.float32
    np.testing.assert_allclose(found.distances, expected.distances, rtol=2e-3, atol=2e-3)


def test_finds_nearest_of_all(filled: Subject) -> None:
    queries = make_vectors(20, seed=1)
    found = filled.index.nearest(queries, 50, EVERYTHING)
    assert len(found) == 20
    shared = 0
    for query, neighbours in zip(queries, found, strict=True):
        expected = filled.exact(query, 50)
        shared += len(np.intersect1d(neighbours.numbers, expected.numbers))
        own = np.array([filled.vectors[number] for number in neighbours.numbers.tolist()])
        np.testing.assert_allclose(
            neighbours.distances, np.linalg.norm(own - query, axis=1), rtol=2e-3, atol=2e-3
        )
        assert (np.diff(neighbours.distances) >= 0).all()
    assert shared / (20 * 50) > 0.98


def test_finds_k_in_each_scope(filled: Subject) -> None:
    sizes = {}
    for name, scope in SCOPES.items():
        for query in make_vectors(2, seed=2):
            found, expected = nearest(filled, query, 30, scope), filled.exact(query, 30, scope)
            assert len(found.numbers) == len(expected.numbers), name
            outside = [n for n in found.numbers.tolist() if not is_in_scope(filled.images[n], scope)]
            assert not outside, name
            shared = np.intersect1d(found.numbers, expected.numbers)
            assert len(shared) >= 0.9 * len(expected.numbers), name
        sizes[name] = sum(is_in_scope(image, scope) for image in filled.images.values())
    assert sizes["half"] > 1000
    assert sizes["one in 100"] == 20
    assert sizes["one"] == 1
    assert not sizes["none"]
    assert not sizes["no patient"]
    assert not sizes["two patients"]


def test_returns_all_that_match(filled: Subject) -> None:
    query = make_vectors(1, seed=3)[0]
    for scope in (EVERYTHING, SCOPES["half"], SCOPES["one in 100"]):
        found, expected = nearest(filled, query, 2 * COUNT, scope), filled.exact(query, 2 * COUNT, scope)
        np.testing.assert_array_equal(np.sort(found.numbers), np.sort(expected.numbers))
        assert_exact(found, expected)


def test_reads_vectors_by_number(filled: Subject) -> None:
    numbers, vectors = filled.index.vectors(np.array([9, 3, 3, 700, COUNT + 1, 10**12, -1, 0]))
    assert numbers.tolist() == [3, 9, 700]
    expected = np.array([filled.vectors[number] for number in numbers.tolist()])
    np.testing.assert_allclose(vectors, expected, atol=2e-3)
    assert vectors.dtype == np.float32
    numbers, vectors = filled.index.vectors(np.empty(0, np.int64))
    assert numbers.shape == (0,)
    assert vectors.shape == (0, DIMENSIONS)


def test_empty(subject: Subject) -> None:
    subject.index.finish()
    assert len(subject.index) == 0
    assert subject.index.position() is None
    assert not len(nearest(subject, np.zeros(DIMENSIONS, np.float32), 5).numbers)
    assert not len(nearest(subject, np.zeros(DIMENSIONS, np.float32), 5, SCOPES["half"]).numbers)
    assert not len(subject.index.vectors(np.array([1]))[0])
    subject.index.delete(np.array([1, 2]))
    subject.index.put([], np.empty((0, DIMENSIONS), np.float32))
    assert subject.index.nearest(np.empty((0, DIMENSIONS), np.float32), 5, EVERYTHING) == []


def test_one_image(subject: Subject) -> None:
    subject.put(make_images(1, first=7), make_vectors(1))
    subject.index.finish()
    assert len(subject.index) == 1
    found = nearest(subject, make_vectors(1)[0], 5)
    assert found.numbers.tolist() == [7]
    np.testing.assert_allclose(found.distances, [0], atol=2e-3)


def test_all_alike(subject: Subject) -> None:
    subject.put(make_images(300), np.ones((300, DIMENSIONS), np.float32))
    subject.index.finish()
    found = nearest(subject, np.ones(DIMENSIONS, np.float32), 200)
    assert len(set(found.numbers.tolist())) == 200
    np.testing.assert_allclose(found.distances, 0, atol=2e-3)


def test_replaces_images(filled: Subject) -> None:
    old = filled.vectors[5]
    moved = np.full((1, DIMENSIONS), 20, np.float32)
    filled.put([make_images(1, first=6)[0].__class__(5, "f" * 32, labels={"part": "moved"})], moved)
    assert len(filled.index) == COUNT
    assert nearest(filled, moved[0], 1).numbers.tolist() == [5]
    assert nearest(filled, moved[0], 9, IndexScope((Condition("part", "=", "moved"),))).numbers.tolist() == [
        5
    ]
    assert 5 not in nearest(filled, old, 20).numbers
    np.testing.assert_allclose(filled.index.vectors(np.array([5]))[1], moved, atol=2e-2)


def test_deletes_images(filled: Subject) -> None:
    query = make_vectors(1, seed=4)[0]
    first = nearest(filled, query, 100).numbers.tolist()
    filled.delete(first)
    filled.index.delete(np.array([*first, 10**9]))
    assert len(filled.index) == COUNT - 100
    second = nearest(filled, query, 100)
    assert not set(first) & set(second.numbers.tolist())
    assert len(np.intersect1d(second.numbers, filled.exact(query, 100).numbers)) >= 97
    assert not len(filled.index.vectors(np.array(first))[0])
    assert not set(first) & set(nearest(filled, query, COUNT, SCOPES["half"]).numbers.tolist())


def test_repeats_changes(filled: Subject) -> None:
    again = make_images(600, first=1500)
    vectors = make_vectors(600, seed=5)
    for _ in range(2):
        filled.put(again, vectors)
        filled.delete([1, 2, 1600])
    assert len(filled.index) == 2099 - 3
    query = make_vectors(1, seed=6)[0]
    found = nearest(filled, query, 4000)
    assert_exact(found, filled.exact(query, 4000))


def test_keeps_position(filled: Subject) -> None:
    assert filled.index.position() == IndexPosition(1, COUNT, 1)
    filled.put(make_images(100, first=3000), make_vectors(100, seed=7))
    filled.index.set_position(IndexPosition(2, 3099, 2))
    assert filled.index.position() == IndexPosition(2, 3099, 2)


def test_opened_again(filled: Subject) -> None:
    filled.put(make_images(100, first=3000), make_vectors(100, seed=7))
    filled.delete([1, 2, 3])
    filled.index.set_position(IndexPosition(2, 3099, 2))
    filled.index.close()
    filled.index = filled.opened()
    assert filled.index.position() == IndexPosition(2, 3099, 2)
    assert len(filled.index) == COUNT + 97
    query = make_vectors(1, seed=8)[0]
    assert_exact(nearest(filled, query, 4000), filled.exact(query, 4000))
    filled.put(make_images(1, first=4000), query[None, :])
    assert nearest(filled, query, 1).numbers.tolist() == [4000]


def test_dropped(filled: Subject) -> None:
    filled.index.drop()
    filled.index.drop()
    filled.index.close()
    again = filled.opened()
    assert again.position() is None
    assert len(again) == 0
    again.close()
