"""Training sorters: `cbir train sorter` and what it stands on."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import rankdata
from torch.optim.optimizer import register_optimizer_step_pre_hook
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.errors import InvalidInput
from cbir.learn.models import sorters
from cbir.learn.models.sorters import CnnSorter, HandcraftedSorter, LstmSorter
from cbir.learn.models.sorters.trainable_sorters import draw_scores
from cbir.learn.training import fine_tuning, sorter_training
from cbir.learn.training.sorter_training import SorterRecipe, measure_sorter, train_sorter

torch.set_num_threads(1)  # the work is small, and other tests want the cores

SHORT = SorterRecipe(epochs=0.004, batch=20, rate=1e-3)  # 20 steps


def small(kind=LstmSorter):
    torch.manual_seed(0)
    return kind(8, length=12) if kind is CnnSorter else kind(8, 1, 12)


def weights_of(sorter):
    return torch.cat([value.flatten().float() for value in sorter.state_dict().values()])


@pytest.mark.parametrize("kind", [LstmSorter, CnnSorter])
def test_training_lowers_the_error(kind, tmp_path):
    sorter = small(kind)
    errors = []
    train_sorter(
        sorter,
        SorterRecipe("random", 0.08, 40, 3e-3),
        tmp_path,
        progress=lambda step, error: errors.append(error),
    )
    assert len(errors) == 200
    assert errors[-1] < 0.7 * errors[0]


def test_statistics_stay_those_of_counting(tmp_path):
    """The counts rely on them; what reads the counts is trained."""
    sorter, start = small(CnnSorter), small(CnnSorter)
    start.start_counting()
    train_sorter(sorter, SHORT, tmp_path)
    before, after = start.state_dict(), sorter.state_dict()
    statistics = [name for name in before if name.endswith(("running_mean", "running_var"))]
    assert len(statistics) == 16
    assert all(torch.equal(before[name], after[name]) for name in statistics)
    assert not torch.equal(before["last.weight"], after["last.weight"])


def test_gradients_have_length_1_at_most(tmp_path):
    lengths = []
    hook = register_optimizer_step_pre_hook(
        lambda optimizer, *_: lengths.append(
            float(torch.cat([one.grad.flatten() for one in optimizer.param_groups[0]["params"]]).norm())
        )
    )
    try:
        recipe = SorterRecipe("random", epochs=0.004, batch=20, slope=1000.0)
        train_sorter(small(), recipe, tmp_path)
    finally:
        hook.remove()
    assert max(lengths) == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("kind", [LstmSorter, CnnSorter])
def test_counting_is_a_good_start(kind):
    options = {"length": 20} | ({"channels": 64} if kind is CnnSorter else {"hidden": 32})
    sorter = kind(**options)
    sorter.start_counting()
    assert measure_sorter(sorter.eval(), length=20, count=200)["error_in_positions"] < 0.8
    with torch.no_grad():
        ranks = sorter(torch.linspace(1, -1, 20)[None])
    assert float(ranks.mean()) == pytest.approx(10.5, abs=0.2), "too high as often as too low"


def test_the_rate_is_halved_each_so_many_epochs():
    recipe = SorterRecipe(batch=500, rate=1e-3, halve_every=2.0)  # 200 steps are an epoch of 100,000 vectors
    rates = [recipe.rate_at(step) for step in (0, 200, 400, 800)]
    assert rates == pytest.approx([1e-3, 1e-3 / 2**0.5, 5e-4, 2.5e-4])
    assert replace(recipe, epochs=3).steps == 600
    assert SorterRecipe(batch=128).steps == 6250  # 8 epochs


def test_the_error_is_the_mean_absolute_distance_from_the_rank():
    recipe, sorter = SorterRecipe(slope=0.0, batch=8), small().eval()
    drawn = []

    class Recording(LstmSorter):
        def ranks(self, scores):
            drawn.append(scores)
            return super().ranks(scores)

    recording = Recording(8, 1, 12)
    recording.load_state_dict(sorter.state_dict())
    loss = sorter_training.batch_error(recording, recipe, 3, "cpu")
    expected = [
        abs(rank - true)
        for vector in drawn[0]
        for rank, true in zip(sorter(vector[None])[0].tolist(), rankdata(-vector.numpy()), strict=True)
    ]
    assert float(loss.detach()) == pytest.approx(np.mean(expected) / 12, rel=1e-5)


def test_slopes_that_fall_too_slowly_cost():
    scores = 2 * torch.rand(200, 40, generator=torch.Generator().manual_seed(0)) - 1

    def cost(sorter):
        error = sorter_training.slope_error(sorter, scores, sorter(scores), torch.Generator().manual_seed(1))
        return float(error) / 40

    class Rising(HandcraftedSorter):
        def ranks(self, scores):
            return 41 - super().ranks(scores)

    class Level(HandcraftedSorter):
        def ranks(self, scores):
            return torch.zeros_like(scores)

    falling = cost(HandcraftedSorter(steepness=40.0))
    assert falling < 0.1 * cost(Level())
    assert cost(Level()) < 0.6 * cost(Rising())
    # half of the density of 40 scores over a range of 2, less what is beyond the ends
    assert cost(Level()) == pytest.approx(0.25, abs=0.03)


def test_training_with_slopes_gives_slopes(tmp_path):
    shares = []
    for slope in (0.0, 0.3):
        torch.manual_seed(0)
        sorter = CnnSorter(16, 12)
        recipe = SorterRecipe(epochs=0.1, batch=100, rate=2e-3, slope=slope)
        train_sorter(sorter, recipe, tmp_path / str(slope))
        scores = torch.rand(100, 12, generator=torch.Generator().manual_seed(1), requires_grad=True)
        sorter(scores)[:, 0].sum().backward()
        shares.append(float((scores.grad[:, 0] < 0).float().mean()))
    assert shares[1] > 0.85
    assert shares[1] > shares[0] + 0.1


@pytest.mark.parametrize(("channels", "length"), [(8, 12), (64, 100)])
def test_counts_in_closed_form_are_those_of_the_network(channels, length):
    sorter = CnnSorter(channels, length)
    sorter.start_counting()
    sorter.eval()
    for d in (2, length // 3, length - 1, length):
        scores = torch.rand(3, d, generator=torch.Generator().manual_seed(d))
        torch.testing.assert_close(sorter.ranks_from_counts(scores), sorter(scores), rtol=1e-3, atol=5e-3)


@pytest.mark.parametrize("kind", [LstmSorter, CnnSorter])
def test_going_on_gives_what_never_stopping_gives(kind, tmp_path):
    class Killed(Exception):
        pass

    def stop(step, error):
        if step == 13:
            raise Killed

    whole, stopped = small(kind), small(kind)
    train_sorter(whole, SHORT, tmp_path / "whole")
    with pytest.raises(Killed):
        train_sorter(stopped, SHORT, tmp_path / "stopped", save_every=0.0, progress=stop)
    steps = []
    again = small(kind)
    train_sorter(again, SHORT, tmp_path / "stopped", progress=lambda step, error: steps.append(step))
    assert steps == list(range(14, 21)) or steps == list(range(13, 21))
    assert torch.equal(weights_of(again), weights_of(whole))


def test_another_seed_gives_another_sorter(tmp_path):
    one, other = small(), small()
    train_sorter(one, SHORT, tmp_path / "one")
    train_sorter(other, SorterRecipe(epochs=0.004, batch=20, rate=1e-3, seed=1), tmp_path / "other")
    assert not torch.equal(weights_of(one), weights_of(other))


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    train_sorter(small(), SHORT, tmp_path)
    with pytest.raises(InvalidInput, match="another training"):
        train_sorter(small(), SorterRecipe(epochs=1), tmp_path)
    with pytest.raises(InvalidInput, match="another training"):
        train_sorter(small(CnnSorter), SHORT, tmp_path)


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04broken"])
def test_what_is_no_checkpoint(content, tmp_path):
    (tmp_path / "checkpoint.pt").write_bytes(content)
    with pytest.raises(InvalidInput, match="not a checkpoint"):
        train_sorter(small(), SHORT, tmp_path)


def test_no_code_runs_from_a_checkpoint(tmp_path):
    class Harmful:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    path = tmp_path / "checkpoint.pt"
    torch.save({"model": Harmful()}, path)
    with pytest.raises(InvalidInput):
        fine_tuning.read_checkpoint(path)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": 0},
        {"epochs": float("inf")},
        {"rate": float("inf")},
        {"batch": 1},
        {"rate": -1},
        {"halve_every": 0},
        {"seed": -1},
        {"seed": 1024},
        {"start": "best"},
        {"slope": -0.1},
        {"slope": float("nan")},
    ],
)
def test_recipes_out_of_range(wrong):
    with pytest.raises(InvalidInput):
        SorterRecipe(**wrong)


ARGUMENTS = ("train", "sorter", "--length", "12", "--batch", "20", "--threads", "1")
SMALL = ("--hidden", "8")


def test_the_command(tmp_path):
    done = CliRunner().invoke(app, [*ARGUMENTS, *SMALL, "--epochs", "0.004", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    card = json.loads((tmp_path / "sorter.json").read_text())
    assert card == json.loads(done.stdout)
    assert card["held_out"] == {"vectors": 10_000, "length": 12}
    assert card["training"]["epochs"] == 0.004
    assert sorters.load(tmp_path / "sorter.safetensors")(torch.rand(2, 12)).shape == (2, 12)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--epochs", "0"], "must be above 0"),
        (["--seed", "-1"], "the seed must be"),
        (["--hidden", "2"], "at least 4 hidden units"),
        (["--kind", "cnn", "--channels", "9"], "an even number of channels"),
        (["--kind", "cnn", "--blocks", "1"], "has 2 to 12 blocks, not 1"),
        (["--kind", "lstm", "--blocks", "4"], "--blocks: for --kind cnn, not lstm"),
        (["--kind", "lstm", "--channels", "8"], "--channels: for --kind cnn, not lstm"),
        (["--kind", "cnn", "--hidden", "8"], "--hidden: for --kind lstm, not cnn"),
        (["--kind", "cnn", "--layers", "2"], "--layers: for --kind lstm, not cnn"),
        (
            ["--kind", "cnn", "--blocks", "6"],
            "only a convolutional sorter of 8 blocks can start from counting",
        ),
        (["--layers", "2"], "only an LSTM of one layer can start from counting"),
        (["--device", "cuda:99"], "there is no device 'cuda:99'"),
        (["--device", "abacus"], "there is no device 'abacus'"),
    ],
)
def test_options_that_do_not_fit(options, told, tmp_path):
    others = dict(zip(ARGUMENTS[2::2], ARGUMENTS[3::2], strict=True)) | dict([options[-2:]])
    arguments = [*ARGUMENTS[:2], *options[:-2], *itertools.chain(*others.items())]
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "new")])
    assert isinstance(done.exception, InvalidInput)
    assert told in str(done.exception)
    assert not (tmp_path / "new").exists()


def test_without_torch(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    done = CliRunner().invoke(app, [*ARGUMENTS, *SMALL, "--out", str(tmp_path)])
    assert isinstance(done.exception, InvalidInput)
    assert "pip install '.[deep]'" in str(done.exception)


def test_killed_while_training(tmp_path):
    command = [
        sys.executable,
        "-m",
        "cbir.api.main",
        *ARGUMENTS,
        *SMALL,
        "--epochs",
        "100",
        "--out",
        str(tmp_path),
    ]
    command += ["--save-every", "0"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until = time.monotonic() + 120
        while not (tmp_path / "checkpoint.pt").exists() and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.3)
        process.send_signal(signal.SIGKILL)
    state = fine_tuning.read_checkpoint(tmp_path / "checkpoint.pt")
    assert state is not None
    assert state["step"] > 0


class TestBatches:
    """Scores of the batches of a training, which depend on seed and step alone."""

    @staticmethod
    def drawn(recipe, step):
        batches = []

        class Recording(LstmSorter):
            def ranks(self, scores):
                batches.append(scores)
                return super().ranks(scores)

        sorter_training.batch_error(Recording(4, 1, 12), replace(recipe, slope=0.0), step, "cpu")
        return batches[0]

    def test_a_fifth_is_shorter_and_a_twentieth_of_the_vectors_is_rounded(self):
        batches = [self.drawn(SorterRecipe(batch=40), step) for step in range(200)]
        lengths = np.array([batch.shape[1] for batch in batches])
        assert 0.12 < np.mean(lengths < 12) < 0.28
        assert lengths.min() == 2
        on_grid = np.mean([((8 * batch).round() == 8 * batch).all(dim=1).float().mean() for batch in batches])
        assert on_grid == pytest.approx(0.05, abs=0.012)
        tied = [batch[:2] for batch in batches if batch.shape[1] == 12]
        assert np.mean([len(vector.unique()) < 12 for batch in tied for vector in batch]) > 0.6

    def test_seed_and_step_decide(self):
        recipe = SorterRecipe(batch=4)
        assert torch.equal(self.drawn(recipe, 3), self.drawn(recipe, 3))
        for other, step in ((recipe, 4), (replace(recipe, seed=1), 3)):
            assert not torch.equal(self.drawn(recipe, 3)[2:, :2], self.drawn(other, step)[2:, :2])

    def test_held_out_vectors_are_drawn_with_a_seed_that_no_batch_has(self, monkeypatch):
        seeds = []

        def noting(count, length, generator):
            seeds.append(generator.initial_seed())
            return draw_scores(count, length, generator)

        monkeypatch.setattr(sorter_training, "draw_scores", noting)
        measure_sorter(HandcraftedSorter(), length=12, count=20)
        of_held_out = seeds.pop()
        for step in (0, 1, 9, (1 << 21) - 1, 1 << 21):  # the seed has 32 bits: the last begins again
            for seed in (0, 1, 1023):
                sorter_training.batch_error(small(), SorterRecipe(batch=4, slope=0.0, seed=seed), step, "cpu")
        assert of_held_out % 2 == 0
        assert len(seeds) == 15
        assert all(seed % 2 == 1 for seed in seeds)
        assert len(set(seeds[:-3])) == 12, "other steps and seeds, other vectors"

    def test_slopes_are_a_share_of_the_length_as_the_error_is(self):
        class Level(LstmSorter):
            def ranks(self, scores):
                return torch.zeros_like(scores)

        with_slopes, without = (
            float(
                sorter_training.batch_error(Level(4, 1, 40), SorterRecipe(batch=200, slope=slope), 3, "cpu")
            )
            for slope in (1.0, 0.0)
        )
        assert with_slopes - without == pytest.approx(0.25, abs=0.15)  # see slopes that fall too slowly
