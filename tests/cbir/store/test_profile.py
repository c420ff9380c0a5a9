"""Profiles, and the normalisation they ask for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from cbir import descriptors, rerank
from cbir.errors import InvalidInput
from cbir.store.base import profile as profiles
from cbir.store.base.normalisation import fit_statistics, read_statistics


def test_every_descriptor_is_a_profile():
    for name in descriptors.names():
        assert profiles.get(name).descriptor == name


def test_the_hash_changes_with_what_a_vector_means_and_only_then():
    plain = profiles.get("huang2012")
    assert plain.hash == profiles.get("huang2012").hash
    assert plain.hash != profiles.get("tamura").hash
    assert plain.hash != profiles.get("huang2012", {"tamura": 2.0}).hash
    assert plain.hash == plain.model_copy(update={"rerank": {"C": 3.0}}).hash


@pytest.mark.parametrize("weights", [{"unknown": 1.0}, {"tamura": -1.0}, {"tamura": float("nan")}])
def test_weights_that_do_not_fit_are_refused(weights):
    with pytest.raises(InvalidInput, match="profile huang2012"):
        profiles.get("huang2012", weights)


def test_an_unknown_profile_is_told_what_there_is():
    with pytest.raises(InvalidInput, match="huang2012"):
        profiles.get("resnet")


finite = st.floats(-1e6, 1e6, width=32)


@given(arrays.arrays(np.float32, st.tuples(st.integers(1, 40), st.just(6)), elements=finite))
def test_normalised_dimensions_have_mean_0_and_deviation_1_or_0(raw):
    normalised = fit_statistics(raw, profiles.get("tamura")).normalise(raw).astype(np.float64)
    assert np.isfinite(normalised).all()
    spread = raw.astype(np.float64).std(axis=0)
    varied = spread > 1e-3 * np.maximum(np.abs(raw).max(axis=0), 1)
    np.testing.assert_allclose(normalised.mean(axis=0)[varied], 0, atol=0.01)
    np.testing.assert_allclose(normalised.std(axis=0)[varied], 1, atol=0.01)


def test_a_weight_scales_its_parts_squared_distance():
    raw = np.random.default_rng(0).normal(size=(100, 168)).astype(np.float32)
    plain = fit_statistics(raw, profiles.get("huang2012")).normalise(raw)
    weighted = fit_statistics(raw, profiles.get("huang2012", {"tamura": 4.0})).normalise(raw)
    (part,) = (p for p in descriptors.get("huang2012").parts if p.name == "tamura")
    within = slice(part.start, part.stop)
    np.testing.assert_allclose(weighted[:, within], 2 * plain[:, within], rtol=1e-5)
    np.testing.assert_array_equal(np.delete(weighted, within, 1), np.delete(plain, within, 1))


def test_statistics_survive_writing_bit_by_bit():
    raw = np.random.default_rng(0).normal(size=(10, 6)).astype(np.float32)
    fitted = fit_statistics(raw, profiles.get("tamura"))
    read = read_statistics(fitted.to_json())
    np.testing.assert_array_equal(read.mean, fitted.mean)
    np.testing.assert_array_equal(read.scale, fitted.scale)


def test_the_hash_asks_neither_for_the_order_of_weights_nor_for_those_of_1():
    first = profiles.get("huang2012", {"tamura": 2.0, "color_layout": 3.0, "edge_histogram": 1.0})
    assert first.hash == profiles.get("huang2012", {"color_layout": 3.0, "tamura": 2.0}).hash


def test_weights_that_leave_no_distance_are_refused():
    with pytest.raises(InvalidInput, match="distance 0"):
        profiles.get("tamura", {"tamura": 0.0})


def test_projected_vectors_alone_have_settings_of_eprf():
    settings = profiles.get("lite0").rerank
    sure = {"eprf": 1.0, "svm-eprf": 1.0, "fuzzy-eprf": 0.96}
    assert {name: rerank.get_tuned(name, settings, {}).parameters["sure"] for name in sure} == sure
    eprf = rerank.get_tuned("eprf", settings, {}).parameters
    assert (eprf["gamma"], eprf["sharpness"]) == ("auto", 3.5)
    assert rerank.get_tuned("pearson", settings, {}) == rerank.get("pearson", N=200)
    assert rerank.get_tuned("nprf", settings, {}) == rerank.get("nprf", lowest=0.9)
    assert rerank.get_tuned("diffusion", settings, {}) == rerank.get("diffusion")
    assert profiles.get("lite0+huang2012").rerank == profiles.get("huang2012").rerank == {}


def test_embeddings_alone_have_those_of_eprf_and_no_other_method():
    embedding = profiles.Profile(
        name="model", descriptor="embedding:0123456789abcdef:64", normalisation="none"
    )
    settings = profiles.settings_of_new(embedding)
    assert settings == profiles.UNIT_EPRF
    assert rerank.get_tuned("svm-eprf", settings, {}).parameters["P"] == 20
    for method in ("pearson", "nprf", "diffusion"):
        assert rerank.get_tuned(method, settings, {}) == rerank.get(method)
    beside = embedding.model_copy(update={"descriptor": "embedding:0123456789abcdef:64+huang2012"})
    assert profiles.settings_of_new(beside) == {}
