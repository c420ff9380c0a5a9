"""The pictures of docs/how-it-works.md are those that the script draws, and show what the page says."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from docs_site.draw_pictures import FOLDER, NEAREST, PICTURES, diffuse, graph, two_arcs


@pytest.mark.parametrize("name", PICTURES)
def test_a_committed_picture_is_what_is_drawn(name: str) -> None:
    committed = (FOLDER / name).read_text(encoding="utf-8")
    assert committed == PICTURES[name]().svg(), "run python -m docs_site.draw_pictures"


@pytest.mark.parametrize("name", PICTURES)
def test_text_stays_within_its_picture(name: str) -> None:
    picture = ElementTree.fromstring(PICTURES[name]().svg())
    width, height = float(picture.get("width", 0)), float(picture.get("height", 0))
    texts = picture.findall("{*}text")
    assert texts
    for text in texts:
        half = 0.31 * float(text.get("font-size", 0)) * len(text.text or "")  # 0.62 of the size for a letter
        assert half <= float(text.get("x", 0)) <= width - half, text.text
        assert 0 < float(text.get("y", 0)) < height
    assert re.match(r"\w", picture.findtext("{*}title") or "")


def test_diffusion_stays_on_the_arc_of_the_query_and_distance_does_not() -> None:
    points = two_arcs()
    arc = np.arange(len(points)) <= NEAREST
    distances = ((points - points[0]) ** 2).sum(1)
    by_distance = arc[np.argsort(distances)[: NEAREST + 1]]
    by_diffusion = arc[np.argsort(-diffuse(graph(points)))[: NEAREST + 1]]
    assert by_diffusion.all()
    assert 0.3 < by_distance.mean() < 0.8
