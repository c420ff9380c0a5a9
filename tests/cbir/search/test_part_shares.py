"""Shares of colour, edges and texture in a distance, and maps of edges."""

import numpy as np
import pytest

from cbir import descriptors
from cbir.errors import InvalidInput
from cbir.images import Image
from cbir.search.explanation import explain_parts, explaining_encoder, region_area
from cbir.store.base import profile as profiles
from cbir.store.base.normalisation import fit_statistics


@pytest.fixture(scope="module")
def raw():
    describe = descriptors.get("huang2012")
    random = np.random.default_rng(0)
    pictures = [random.integers(0, high, (64, 64, 3), np.uint8) for high in (20, 90, 160, 256)]
    return np.stack([describe(Image(picture)) for picture in pictures])


def test_shares_are_those_of_the_squared_distance(raw):
    profile = profiles.get("huang2012", {"tamura": 2.0})
    statistics = fit_statistics(raw, profile)
    shares = explain_parts(profile, statistics, raw[0], raw[3]).shares
    deviations = raw.astype(float).std(axis=0)
    parts = {"color_layout": (0, 12, 1), "tamura": (12, 18, 2), "edge_histogram": (18, 168, 1)}
    squares = {
        name: weight
        * sum(
            ((raw[0, i] - raw[3, i]) / deviations[i]) ** 2
            for i in range(start, stop)
            if deviations[i] > 1e-6 * max(abs(raw[:, i].mean()), 1)
        )
        for name, (start, stop, weight) in parts.items()
    }
    assert shares == pytest.approx(
        {name: value / sum(squares.values()) for name, value in squares.items()}, abs=1e-4
    )
    assert sum(shares.values()) == pytest.approx(1)


def test_equal_vectors_have_no_shares(raw):
    profile = profiles.get("huang2012")
    shares = explain_parts(profile, fit_statistics(raw, profile), raw[0], raw[0]).shares
    assert set(shares.values()) == {0.0}


def test_edges_of_stripes():
    pixels = np.zeros((128, 128), np.uint8)
    pixels[:, :64] = np.tile([0, 255], 32)  # vertical stripes on the left
    raw = descriptors.get("huang2012")(Image(pixels))
    profile = profiles.get("huang2012")
    edges = explain_parts(profile, fit_statistics(raw[None], profile), raw, raw).answer_edges
    assert edges.shape == (4, 4, 5)
    assert edges[:, 0, 0].min() > 0.3  # vertical
    assert edges[:, 3].max() < 0.05


def test_quantised_edges_become_shares(raw):
    image = Image(np.random.default_rng(1).integers(0, 256, (64, 64), np.uint8))
    quantised, shares = descriptors.get("edge_histogram"), descriptors.get("huang2012")
    one, other = profiles.get("edge_histogram"), profiles.get("huang2012")
    first, second = quantised(image), shares(image)
    edges = explain_parts(one, fit_statistics(first[None], one), first, first).query_edges
    expected = explain_parts(other, fit_statistics(second[None], other), second, second).query_edges
    assert edges == pytest.approx(expected)


def test_profiles_without_explanation_are_refused():
    assert explaining_encoder(profiles.get("huang2012")) is None
    with pytest.raises(InvalidInput, match="no explanation"):
        explaining_encoder(profiles.get("tamura"))


@pytest.mark.parametrize("region", [(0, 0, 0, 5), (-1, 0, 5, 5), (5, 5, 96, 1), (0, 0, 100, 51)])
def test_regions_outside_are_refused(region):
    with pytest.raises(InvalidInput, match="not inside the image"):
        region_area(region, 100, 50)


def test_a_region_of_one_pixel():
    assert region_area((99, 49, 1, 1), 100, 50) == (0.99, 0.98, 0.01, 0.02)
