"""Pooling of maps against a slow, obvious form; cards that are refused."""

import json

import numpy as np
import pytest
from pydantic import ValidationError

from cbir.descriptors.encoders.built_in import CARDS
from cbir.descriptors.encoders.encoder_files import EncoderCard, EncoderOutput
from cbir.descriptors.encoders.encoder_network import pool, pooling_matrix
from cbir.errors import InvalidInput


@pytest.mark.parametrize("shape", [(1, 5, 14, 14), (1, 3, 7, 10), (1, 2, 2, 1), (1, 4, 1, 1)])
@pytest.mark.parametrize(("grid", "window"), [(1, 1.0), (2, 0.6), (3, 0.5), (4, 0.1)])
def test_windows(shape, grid, window):
    maps = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    output = EncoderOutput(
        tensor="x", pooling="grid", grid=grid, window=window, dimensions=grid**2 * shape[1]
    )
    expected = []
    lengths = [max(1, round(side * window)) for side in shape[2:]]
    for row in range(grid):
        for column in range(grid):
            top, left = (
                round((side - length) * step / max(grid - 1, 1))
                for side, length, step in zip(shape[2:], lengths, (row, column), strict=True)
            )
            expected.extend(maps[0, :, top : top + lengths[0], left : left + lengths[1]].mean(axis=(1, 2)))
    assert pool(maps, pooling_matrix(output, shape)) == pytest.approx(np.array(expected), abs=1e-5)


def test_windows_of_a_grid_cover_the_map():
    outputs = [output for card in CARDS.values() for output in card.outputs]
    for output in (output for output in outputs if output.pooling in ("grid", "global")):
        channels, side = {"middle": (112, 14), "last": (320, 7)}[output.tensor]
        weights = pooling_matrix(output, (1, channels, side, side))
        assert (weights.sum(axis=0) > 0).all()
        assert weights.sum(axis=1) == pytest.approx(np.ones(len(weights)))


def test_global_mean():
    maps = np.random.default_rng(0).normal(size=(1, 6, 5, 4)).astype(np.float32)
    output = EncoderOutput(tensor="x", pooling="global", dimensions=6)
    assert pool(maps, pooling_matrix(output, maps.shape)) == pytest.approx(
        maps.mean(axis=(0, 2, 3)), abs=1e-6
    )


def test_maximum_of_each_channel():
    maps = np.random.default_rng(0).normal(size=(1, 6, 5, 4)).astype(np.float32) - 3
    output = EncoderOutput(tensor="x", pooling="max", dimensions=6)
    expected = [max(value for row in channel for value in row) for channel in maps[0].tolist()]
    assert pool(maps, pooling_matrix(output, maps.shape)).tolist() == expected
    maps[0, 2, 1, 3] = np.nan  # not hidden by larger values: such an image is refused
    assert np.isnan(pool(maps, None)[2])
    with pytest.raises(InvalidInput, match="gives 6 values, not 24"):
        pooling_matrix(output.model_copy(update={"dimensions": 24}), maps.shape)


def test_cards_survive_json():
    for card in CARDS.values():
        copy = EncoderCard.model_validate(json.loads(card.model_dump_json()))
        assert copy == card
        assert copy.hash == card.hash


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "Lite 0"),
        ("sha256", "abc"),
        ("outputs", []),
        ("input", {"width": 0}),
        ("input", {"width": 100_000}),
        ("input", {"mean": [0.5, 0.5]}),
        ("input", {"mean": [float("nan"), 0, 0]}),
        ("input", {"deviation": [1, 1, -1]}),
        ("input", {"fit": "stretch"}),
        ("input", {"scale": 0}),
        ("outputs", [{"tensor": "x", "pooling": "none", "dimensions": 20_000}]),
        ("outputs", [{"tensor": "x", "pooling": "none", "dimensions": 10_000}] * 2),
        ("outputs", [{"tensor": "x", "pooling": "grid", "window": 0, "dimensions": 1}]),
        ("network", "x"),
    ],
)
def test_impossible_cards(field, value):
    fields = CARDS["lite0"].model_dump()
    fields[field] = {**fields["input"], **value} if field == "input" else value
    with pytest.raises(ValidationError):
        EncoderCard.model_validate(fields)
