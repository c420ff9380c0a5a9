"""A pretrained network that is trained further on graded pictures."""

import cv2
import numpy as np
import pytest
from sklearn.base import clone

from cbir.descriptors.encoders import built_in
from cbir.descriptors.encoders.encoder_network import normalise_pixels, run_session
from cbir.descriptors.encoders.network_writers import EfficientNetLite
from cbir.descriptors.networks.model_card import open_onnx_session
from cbir.errors import InvalidInput
from cbir.learn.grading import make_ranker
from cbir.learn.grading.cnn_ranker import TunedCnnRanker
from cbir.learn.grading.grade_scale import expected_grade_scale, nearest_level, quadratic_kappa
from cbir.learn.grading.interpolation import GradeInterpolator, left_out_scores
from cbir.learn.grading.picture_maps import (
    HEAD,
    LARGEST,
    WINDOWS,
    GradingNetwork,
    PictureMaps,
    check_size,
    cut_window,
    mean_and_max,
    network_input,
)
from cbir.learn.grading.stored_grading import PackedTensor, pack

torch = pytest.importorskip("torch", reason="torch, of the extra deep, is not installed")
torch.set_num_threads(1)

from torch.optim.optimizer import register_optimizer_step_post_hook  # noqa: E402

from cbir.descriptors.networks.efficientnet_lite_network import EfficientNetLiteNetwork  # noqa: E402
from cbir.learn.training.ordinal_tuning import (  # noqa: E402
    LiteTail,
    TuningOptions,
    tune_on_grades,
)

ENCODER = "lite0-max"


def drawn(count, seed=0, half=slice(0, 64)):
    """Noise that coarsens with its grade, 0 to 2, in one half of the rows, (count, 64, 64), and the grades."""
    random = np.random.default_rng(seed)
    grades = np.arange(count) % 3
    noise = random.integers(0, 256, (count, 64, 64), dtype=np.uint8)
    pictures = noise.copy()
    for picture, grade in zip(pictures, grades, strict=True):
        picture[half] = cv2.GaussianBlur(picture, (0, 0), 0.4 + grade)[half]
    return pictures, grades.astype(float)


@pytest.fixture(scope="module")
def weights():
    return built_in.read_lite_weights(ENCODER)[0]


@pytest.fixture(scope="module")
def fitted():
    pictures, grades = drawn(36)
    maps = PictureMaps(pictures, ENCODER)
    ranker = make_ranker("cnn", encoder=ENCODER, window="whole", epochs=8, rate=1e-3, networks=1)
    return ranker.fit(maps, grades), maps, grades


def test_tail_is_the_network(weights):
    whole = EfficientNetLiteNetwork(0, (5, 7)).eval()
    names = whole.state_dict()
    whole.load_state_dict(
        {name: torch.from_numpy(np.array(weights[name])) for name in names if name in weights}, False
    )
    with torch.inference_mode():
        middle, last = whole(torch.rand(2, 1, 64, 64))
        tail = LiteTail(weights, 0, 4, trained=5)
        maps = tail(middle.flatten(2).transpose(0, 1))
        again = LiteTail(tail.tensors(), 0, 4, trained=5)(middle.flatten(2).transpose(0, 1))
    expected = last.flatten(2).transpose(0, 1)
    assert float((maps - expected).abs().max()) < 1e-3 * float(expected.abs().max())
    assert torch.allclose(again, maps, atol=1e-4)


def test_trunk_and_tuned_tail_are_the_network(fitted):
    ranker = fitted[0]
    (network,) = ranker.network_.networks
    weights, source = built_in.read_lite_weights(ENCODER)
    tuned = {name: values for name, values in network.tensors.items() if name not in HEAD}
    session = open_onnx_session(EfficientNetLite({**weights, **tuned}, source.side, 0).write({"last"}))
    picture = drawn(1, seed=3)[0][0]
    card = built_in.CARDS[ENCODER].input
    pixels = normalise_pixels(network_input(picture, "whole", card.width, mirrored=False), card)
    values = mean_and_max(run_session(session, ["last"], pixels)["last"])
    scale, shift, weight, bias = (np.asarray(network.tensors[name], np.float64) for name in HEAD)
    normal = (values - values.mean()) / np.sqrt(values.var() + 1e-5)
    expected = (1 / (1 + np.exp(-(weight @ (normal[0] * scale + shift) + bias)))).sum()
    assert ranker.network_.grade(picture)[0] == pytest.approx(expected, abs=2e-3)  # maps are float16
    assert ranker.predict(picture[None])[0] == ranker.network_.grade(picture)[0]


def test_frozen_blocks(weights):
    tail = LiteTail(weights, 0, 4, trained=2)
    trained = [
        any(value.requires_grad for value in block.parameters()) for block in tail.children().__next__()
    ]
    assert trained == [False, False, False, True, True]
    tensors = tune_on_grades(
        weights,
        0,
        lambda rows, mirrored: np.random.default_rng(0).random((len(rows), 112, 4, 4)).astype(np.float16),
        4,
        np.array([[False], [True]] * 2),
        TuningOptions(blocks=2, epochs=2, rate=1e-2, mirror=False, seed=0),
    )
    before = tail.tensors()
    name = "_blocks.{}._project_conv.weight"
    assert np.array_equal(tensors[name.format(11)], before[name.format(11)])
    assert not np.array_equal(tensors[name.format(15)], before[name.format(15)])


def test_rates_of_blocks_and_head_and_the_moving_average(weights):
    """The rate rises over 30 steps and falls along a cosine; the head starts at the shares of the thresholds."""
    rates, biases, steps = [], [], 34

    def note(optimizer, *_):
        blocks, head = optimizer.param_groups
        rates.append((blocks["lr"], head["lr"]))
        biases.append(head["params"][-1].detach().clone())

    hook = register_optimizer_step_post_hook(note)
    try:
        tensors = tune_on_grades(
            weights,
            0,
            lambda rows, mirrored: np.random.default_rng(0).random((len(rows), 112, 2, 2)).astype(np.float16),
            2,
            np.array([[False], [True], [False], [False]]),
            TuningOptions(blocks=1, epochs=steps, rate=1e-2, mirror=False, seed=0),
        )
    finally:
        hook.remove()
    expected = [
        0.01 * min(1, (step + 1) / 30) * (1 + np.cos(np.pi * step / steps)) / 2 for step in range(steps)
    ]
    np.testing.assert_allclose(rates, np.outer(expected, [1, 3]))
    mean = torch.logit(torch.tensor([0.25]))
    for done, bias in enumerate(biases, 1):
        kept = min(0.99, done / (done + 10))
        mean = kept * mean + (1 - kept) * bias
    np.testing.assert_allclose(tensors["head.output.bias"], mean, rtol=1e-5)
    assert abs(float(mean - biases[-1])) > 1e-4


@pytest.mark.slow
def test_training_that_diverges_is_an_error(weights):
    with pytest.raises(InvalidInput, match="infinite; use a lower rate"):
        tune_on_grades(
            weights,
            0,
            lambda rows, mirrored: np.full((len(rows), 112, 4, 4), np.nan, np.float16),
            4,
            np.array([[False], [True]] * 2),
            TuningOptions(blocks=1, epochs=1, rate=1e-2, mirror=False, seed=0),
        )


def test_samples_are_of_the_view_and_alike_in_views_of_the_same_pictures():
    whole = PictureMaps(np.zeros((300, 8, 8), np.uint8), ENCODER)
    small = np.arange(290, 300)
    assert np.array_equal(whole[small].sample(400, 0), np.arange(10))
    halves = [np.arange(200), np.arange(100, 300)]
    drawn_rows = [set(rows[whole[rows].sample(100, 0)].tolist()) for rows in halves]
    assert [len(rows) for rows in drawn_rows] == [100, 100]
    assert len(drawn_rows[0] & drawn_rows[1]) > 35  # 25 if drawn independently


def test_it_orders_pictures_that_it_has_not_seen(fitted):
    ranker, _, _ = fitted
    pictures, grades = drawn(12, seed=1)
    scores = ranker.predict(pictures)
    above = (scores[:, None] > scores) == (grades[:, None] > grades)
    assert above[grades[:, None] != grades].mean() > 0.95


@pytest.mark.slow
def test_seeds_and_mirror_images(fitted):
    _, maps, grades = fitted
    options = {"encoder": ENCODER, "window": "whole", "epochs": 1, "networks": 1}
    one, same, other, mirrored = (
        make_ranker("cnn", **options, **more).fit(maps, grades)
        for more in ({}, {}, {"seed": 1}, {"mirror": True})
    )
    view = maps[np.arange(4)]
    assert np.array_equal(one.predict(view), same.predict(view))
    assert not np.array_equal(one.predict(view), other.predict(view))
    flipped = np.ascontiguousarray(drawn(36)[0][:4, :, ::-1])
    assert np.allclose(mirrored.predict(view), mirrored.predict(flipped), atol=1e-6)
    assert not np.allclose(one.predict(view), one.predict(flipped), atol=1e-6)


@pytest.mark.slow
def test_the_window_with_the_signal_is_chosen():
    pictures, grades = drawn(30, half=slice(32, 64))
    maps = PictureMaps(pictures, ENCODER)
    ranker = make_ranker("cnn", encoder=ENCODER, epochs=1, blocks=1, networks=3).fit(maps, grades)
    first, second = ranker.window_.split(",")
    assert (first, second) == ("lower", "whole")
    assert [network.window for network in ranker.network_.networks] == [first, second, first]


@pytest.mark.slow
def test_the_mean_of_networks(fitted):
    """Each network is one with a seed and a window of its own."""
    _, maps, grades = fitted
    options = {"encoder": ENCODER, "epochs": 1, "blocks": 1}
    both = make_ranker("cnn", **options, networks=2, window="whole,lower", seed=4).fit(maps, grades)
    parts = [
        make_ranker("cnn", **options, networks=1, window=window, seed=seed).fit(maps, grades)
        for window, seed in (("whole", 4), ("lower", 5))
    ]
    one, other = (part.predict(maps) for part in parts)
    assert not np.allclose(one, other, atol=1e-6)
    assert np.allclose(both.predict(maps), (one + other) / 2)
    scale = expected_grade_scale((one + other) / 2, grades, np.arange(3.0))
    assert np.allclose(both.grade_scale_.scores, scale.scores)


@pytest.mark.slow
def test_the_interval(fitted):
    """It comes from left-out groups; with too few of them it is the whole range."""
    maps, grades = fitted[1][np.arange(18)], fitted[2][:18]
    ranker = make_ranker("cnn", encoder=ENCODER, window="whole", epochs=1, blocks=1, networks=1)
    few = GradeInterpolator(ranker, "thresholds").fit(maps, grades, np.arange(len(grades)) % 4)
    assert few.scale_.half_widths.tolist() == [2, 2, 2]
    many = GradeInterpolator(ranker, "thresholds").fit(maps, grades, np.arange(len(grades)) // 3)
    assert many.error_ < 2
    assert many.locate(maps[np.arange(1)])[0].high <= 2
    plain = GradeInterpolator(ranker, "thresholds", coverage=None).fit(maps, grades)
    assert np.isnan(plain.locate(maps[np.arange(1)])[0].low)
    two = clone(ranker).set_params(networks=2)
    assert np.array_equal(
        *(left_out_scores(of, maps, grades, np.arange(len(grades))) for of in (ranker, two))
    )


def test_windows():
    picture = np.arange(100, dtype=np.uint8).reshape(10, 10)
    assert np.array_equal(cut_window(picture, "whole", 10), picture)
    assert np.array_equal(
        cut_window(picture, "upper", 5), cv2.resize(picture[:5], (5, 5), interpolation=cv2.INTER_AREA)
    )
    for window in WINDOWS.values():
        assert 0 <= window.top < window.bottom <= 1
        assert 0 <= window.left < window.right <= 1


def test_expected_grades_are_rounded():
    levels = np.array([0.0, 1.0, 4.0])
    scale = expected_grade_scale(levels, levels, levels)
    assert np.array_equal(
        np.rint(scale.grades(np.array([-1.0, 0.4, 0.6, 2.4, 2.6, 9.0]))), [0, 0, 1, 2, 3, 4]
    )
    assert np.array_equal(scale.grades(levels), levels)


@pytest.mark.parametrize(("shrunk", "factor"), [(0.64, 1.25), (0.1, 2), (1.5, 1), (0.0, 1)])
def test_expected_grades_are_stretched(shrunk, factor):
    """By the root of the missing spread, at most 2; the mean of the scores becomes that of the grades."""
    grades, levels = np.array([0.0, 0, 1, 2, 2, 2]), np.array([0.0, 1, 2])
    scores = 0.3 + shrunk * grades
    scale = expected_grade_scale(scores, grades, levels)
    expected = scores.mean() + (np.array([0, 0.5, 1.5, 2]) - grades.mean()) / factor
    assert np.allclose(scale.scores, expected)


def test_half_the_stretch_has_most_of_both():
    """Of the gain of kappa by the whole stretch it has three quarters, and costs a quarter of the squared error."""
    random = np.random.default_rng(0)
    grades = np.clip(np.rint(2 + random.normal(size=20_000)), 0, 4)
    noisy = grades + random.normal(size=len(grades))
    scores = grades.mean() + 0.5 * (noisy - noisy.mean())  # calibrated: the grades' slope on them is 1
    levels = np.arange(5.0)
    spread = grades.std() / scores.std()
    kappas, errors = [], []
    for factor in (1, spread**0.5, spread):
        stretched = scores.mean() + factor * (scores - scores.mean())
        kappas.append(quadratic_kappa(stretched, grades))
        errors.append(np.mean((stretched - grades) ** 2))
    gains, costs = np.subtract(kappas, kappas[0]), np.subtract(errors, errors[0])
    assert 0.7 < gains[1] / gains[2] < 0.85
    assert 0.15 < costs[1] / costs[2] < 0.3
    scale = expected_grade_scale(scores, grades, levels)
    half = scores.mean() + spread**0.5 * (scores - scores.mean())
    assert np.array_equal(nearest_level(scale.grades(scores), levels), nearest_level(half, levels))


@pytest.mark.parametrize(
    "options",
    [
        {"window": "left"},
        {"window": "whole,"},
        {"networks": 0},
        {"blocks": 0},
        {"epochs": 0},
        {"rate": 0.0},
        {"encoder": "ct-volume"},
    ],
)
def test_options_that_do_not_fit(options):
    with pytest.raises(InvalidInput):
        make_ranker("cnn", **{"encoder": ENCODER, "window": "whole", **options}).fit(*drawn(6))


@pytest.mark.parametrize(
    ("pictures", "grades", "why"),
    [
        (np.zeros((2, 8, 9), np.uint8), [0, 1], "square grey pictures"),
        (np.zeros((2, 8, 8)), [0, 1], "square grey pictures"),
        (np.zeros((2, 8, 8), np.uint8), [1, 1], "there are 1"),
        (np.zeros((30, 8, 8), np.uint8), np.arange(30), "there are 30"),
        (np.zeros((2, 8, 8), np.uint8), [0, np.nan], "finite"),
        (np.zeros((2, 8, 8), np.uint8), [0, 1, 2], "as many grades"),
        (np.zeros((0, 8, 8), np.uint8), [], "no graded images"),
    ],
)
def test_input_that_does_not_fit(pictures, grades, why):
    with pytest.raises(InvalidInput, match=why):
        TunedCnnRanker(ENCODER).fit(pictures, grades)


def test_too_many_pictures():
    check_size(LARGEST >> 16, 256)
    with pytest.raises(InvalidInput, match="smaller side"):
        check_size((LARGEST >> 16) + 1, 256)


def test_a_clone():
    made = make_ranker("cnn", encoder=ENCODER, mirror=True, window="centre")
    assert clone(made).get_params() == made.get_params()


def test_tensors_that_do_not_fit(weights):
    head = {name: np.zeros((1, 640), np.float16) for name in HEAD}
    name = "_blocks.15._project_conv.weight"
    for tensors in (
        {},
        {**head, name: np.zeros((2, 2), np.float16)},
        {**head, "other": np.zeros(1, np.float16)},
    ):
        with pytest.raises(InvalidInput, match="do not fit the encoder"):
            GradingNetwork(ENCODER, tensors, np.arange(2.0), "whole", mirror=False)


def test_packed_tensors():
    values = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float16)
    packed = pack(values)
    assert np.array_equal(PackedTensor.model_validate_json(packed.model_dump_json()).array(), values)
    for damaged in ({"shape": (4, 4)}, {"data": "%"}, {"data": pack(np.full((3, 4), np.nan)).data}):
        with pytest.raises(InvalidInput, match="grade fit` again"):
            packed.model_copy(update=damaged).array()
