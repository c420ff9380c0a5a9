"""Who is positive, and who is in which part."""

import numpy as np
import pytest

from cbir.errors import InvalidInput
from cbir.ingest.manifest import Manifest
from cbir.learn.training.labelled_examples import PARTS, read_ranker_examples, split_by_positive

ROWS = """path,label,grade,patient,source
a.png,malignant,2,p1,us
b.png,benign,1,p1,us
c.png,normal,0,p2,us
d.png,,4,p3,xr
e.png,malignant,,,mr
"""


@pytest.fixture
def manifest(tmp_path):
    path = tmp_path / "manifest.csv"
    path.write_text(ROWS)
    return Manifest(path)


def chosen(manifest, *positive, where=()):
    return {e.path.name[0]: e.positive for e in read_ranker_examples(manifest, positive, where)}


def test_a_label_alone(manifest):
    assert chosen(manifest, "malignant") == {"a": True, "b": False, "c": False, "e": True}
    assert [e.patient for e in read_ranker_examples(manifest, ["malignant"])] == ["p1", "p1", "p2", ""]


def test_conditions(manifest):
    assert chosen(manifest, "grade>=2") == {"a": True, "b": False, "c": False, "d": True}
    assert chosen(manifest, "malignant", "grade=4") == {
        "a": True,
        "b": False,
        "c": False,
        "d": True,
        "e": True,
    }
    assert chosen(manifest, "malignant", where=["source=us"]) == {"a": True, "b": False, "c": False}
    assert chosen(manifest, "label!=normal") == {"a": True, "b": True, "c": False, "e": True}


@pytest.mark.parametrize(
    ("positive", "where", "said"),
    [
        (["melanoma"], [], "0 are positive by melanoma.*Values present: benign, malignant, normal"),
        (["malignant"], ["label=malignant"], "of 2 images 2 are positive"),
        (["stage=4"], [], "no column stage; it has label, grade, patient, source"),
        (["malignant"], ["hospital=A"], "no column hospital"),
        (["grade>big"], [], "not a number"),
        ([], [], "at least one"),
    ],
)
def test_what_cannot_be_told_apart(manifest, positive, where, said):
    with pytest.raises(InvalidInput, match=said):
        read_ranker_examples(manifest, positive, where)


def test_patients_stay_together_and_shares_are_kept():
    random = np.random.default_rng(0)
    groups = [f"p{number}" for number in random.integers(0, 300, 1000)]
    positive = random.random(1000) < 0.1
    parts = split_by_positive(positive, groups, seed=3)
    assert sorted(np.concatenate(list(parts.values())).tolist()) == list(range(1000))
    owners = [{groups[place] for place in parts[name]} for name in PARTS]
    assert not (owners[0] & owners[1])
    assert not (owners[0] & owners[2])
    assert not (owners[1] & owners[2])
    for name, share in zip(PARTS, (0.6, 0.2, 0.2), strict=True):
        assert len(parts[name]) == pytest.approx(1000 * share, abs=30)
        assert positive[parts[name]].sum() == pytest.approx(positive.sum() * share, abs=12)


def test_a_seed_decides():
    positive, groups = np.arange(90) < 30, [str(i) for i in range(90)]
    one, same, other = (split_by_positive(positive, groups, seed=seed) for seed in (1, 1, 2))
    assert all((one[name] == same[name]).all() for name in PARTS)
    assert any((one[name] != other[name]).any() for name in PARTS)


def test_the_least_there_can_be():
    parts = split_by_positive([True] * 3 + [False] * 3, list("abcdef"))
    assert all(len(places) == 2 for places in parts.values())


@pytest.mark.parametrize(
    ("positive", "groups", "said"),
    [
        ([True] * 2 + [False] * 9, list("abcdefghijk"), "a positive image; there are 2"),
        ([True] * 9 + [False] * 2, list("abcdefghijk"), "no positive image; there are 2"),
        ([True, False] * 9, ["same"] * 18, "there are 1"),
        ([], [], "there are 0"),
    ],
)
def test_too_few_patients(positive, groups, said):
    with pytest.raises(InvalidInput, match=said):
        split_by_positive(positive, groups)


@pytest.mark.parametrize("shares", [(0.5, 0.5, 0.0), (0.5, 0.5, 0.5), (np.nan, 0.5, 0.5)])
def test_shares_out_of_range(shares):
    with pytest.raises(InvalidInput, match="add up"):
        split_by_positive([True] * 5 + [False] * 5, list("abcdefghij"), shares)
