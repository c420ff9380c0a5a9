"""A method whose order changes gets another version, and tables of results name the versions that they hold of."""

import re
from pathlib import Path

import numpy as np
import pytest

from cbir.gallery.gallery import Gallery, rank
from cbir.rerank import RERANKERS
from cbir.rerank.ranked import rerank_top

ROOT = Path(__file__).parents[3]
MEASURED = re.compile(r"^Measured with (.+)\.$", re.MULTILINE)
# Files whose tables compare methods; others may name versions too.
COMPARING = (
    "docs/results.md",
    *(f"bench/results/{name}.md" for name in ("left_out_sources", "memberships", "rerank_quality")),
)

# The first answers of each method and version: whoever changes a line raises its version.
FIRST_ANSWERS = {
    ("none", 1): [11, 2, 35, 5, 26, 8, 9, 14],
    ("diffusion", 1): [11, 9, 7, 35, 5, 2, 13, 4],
    ("pearson", 1): [11, 35, 2, 5, 26, 9, 8, 14],
    ("eprf", 1): [11, 35, 2, 5, 26, 9, 34, 13],
    ("nsu-eprf", 1): [11, 2, 35, 5, 26, 8, 9, 14],
    ("svm-eprf", 1): [11, 35, 2, 5, 26, 9, 34, 13],
    ("fuzzy-eprf", 1): [2, 9, 11, 26, 5, 21, 8, 25],
    ("diffusion-eprf", 1): [11, 2, 5, 9, 35, 13, 4, 7],
    ("pc", 1): [11, 2, 5, 26, 9, 35, 21, 10],
    ("nprf", 1): [11, 2, 35, 5, 26, 8, 9, 14],
    ("k-reciprocal", 1): [35, 11, 5, 2, 9, 33, 4, 13],
    ("aqe", 1): [11, 2, 9, 5, 8, 26, 14, 21],
}


@pytest.mark.parametrize("kind", RERANKERS, ids=lambda kind: kind.name)
def test_another_order_is_another_version(kind):
    random = np.random.default_rng(7)
    centres = random.normal(size=(4, 6)).round(3)
    vectors = (np.repeat(centres, 20, axis=0) + random.normal(scale=0.7, size=(80, 6))).round(3)
    gallery = Gallery((vectors.astype(np.float32),), np.arange(80), projected=True)
    query = (centres[0] + 0.4).astype(np.float32)
    answers = rerank_top(kind(), query, rank(query, gallery), gallery, 8).numbers.tolist()
    stated = FIRST_ANSWERS.get((kind.name, kind.version))
    assert stated == answers, (
        f"FIRST_ANSWERS needs a line for a new version or method: {(kind.name, kind.version)}: {answers}"
    )


@pytest.mark.parametrize("name", COMPARING)
def test_tables_are_of_todays_methods(name):
    measured = MEASURED.search((ROOT / name).read_text())
    assert measured, f"{name} says with which versions of the methods it was measured"
    stated = dict(re.findall(r"`([a-z-]+)` (\d+)", measured[1]))
    today = {kind.name: str(kind.version) for kind in RERANKERS}
    assert stated
    assert stated == {method: today[method] for method in stated}, f"measure {name} again"
