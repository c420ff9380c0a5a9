"""Options of losses in the train commands: refusals, sorters, parallel losses."""

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.descriptors.networks import model_card
from cbir.errors import InvalidInput, NotFound
from cbir.learn.losses import names
from cbir.learn.losses.score_losses import AbsoluteErrorLoss, SoftMarginLoss
from cbir.learn.models import sorters
from cbir.learn.models.sorters import LstmSorter, PairwiseSorter, save_sorter
from cbir.learn.training.embedding_training import EmbeddingRecipe, train_embedding
from cbir.learn.training.loss_options import LossOptions
from tests.cbir.learn.training.stripes import SHORT, command, made

GIVEN = {
    "sorter": "lstm",
    "tune_sorter": True,
    "form": "paper",
    "margin": 0.3,
    "p": 4.0,
    "temperature": 0.1,
    "alpha": 0.01,
    "gamma": 1.0,
    "parallel": "l1",
    "parallel_epochs": 2,
}
NEEDED = {"parallel_epochs": {"parallel": "l1"}, "tune_sorter": {"sorter": "lstm"}}  # by an option
RANKING = {"parallel", "parallel_epochs"}
TAKEN = {
    "sodeep-spearman": {"sorter", "tune_sorter", "temperature"} | RANKING,
    "sodeep-map": {"sorter", "tune_sorter", "temperature", "form"} | RANKING,
    "sodeep-recall": {"sorter", "tune_sorter", "temperature", "margin"} | RANKING,
    "toprank": {"p"} | RANKING,
    "pos-at-top": RANKING,
    "ranknet": RANKING,
    "s-ndcg": {"form", "alpha"} | RANKING,
    "roadmap": {"temperature"} | RANKING,
    "recall-at-k": {"temperature"} | RANKING,
    "partial-auc": {"margin", "temperature"} | RANKING,
    "triplet": {"margin"},
    "contrastive": {"margin"},
    "smooth-ap": {"temperature"},
    "supcon": {"temperature"},
    "rank-n-contrast": {"temperature"},
    "focal": {"gamma"},
}


@pytest.mark.parametrize("loss", names())
@pytest.mark.parametrize("option", GIVEN)
def test_options_that_a_loss_does_not_take_are_refused_by_name(loss, option):
    options = LossOptions(**{option: GIVEN[option]})
    flag = "--" + option.replace("_", "-")
    if option not in TAKEN.get(loss, set()):
        with pytest.raises(InvalidInput, match=f"the loss {loss} does not take {flag}; it takes "):
            options.build(loss, 4, 3)
        return
    if (loss, option) != ("sodeep-map", "form"):  # GIVEN has a form of s-ndcg
        LossOptions(**{option: GIVEN[option]}, **NEEDED.get(option, {})).build(loss, 4, 3)


def test_options_are_those_of_the_loss():
    loss = LossOptions(sorter="lstm", form="ranks").build("sodeep-map", 4, 3).loss
    assert (loss.sorter.name, loss.form, loss.sorter.frozen) == ("lstm", "ranks", True)
    assert LossOptions(margin=7.0).build("sodeep-recall", 4, 3).loss.margin == 7
    assert LossOptions(p=3.0).build("toprank", 4, 3).loss.p == 3
    assert LossOptions(temperature=0.2).build("sodeep-spearman", 4, 3).loss.sorter.temperature == 0.2
    assert LossOptions(gamma=1.0).build("focal", 4, 3).gamma == 1
    assert isinstance(LossOptions().build("sodeep-recall", 4, 3).loss.sorter, PairwiseSorter)


@pytest.fixture
def trained_sorter(tmp_path):
    sorter = LstmSorter(hidden=8, length=12)
    sorter.start_counting()
    (tmp_path / "mine").mkdir()
    save_sorter(sorter, tmp_path / "mine" / "sorter.safetensors", {})
    return tmp_path / "mine"


def test_sorter_of_a_folder_or_a_file(trained_sorter):
    scores = torch.randn(2, 9, generator=torch.Generator().manual_seed(0))
    ranks = [sorters.load(path)(scores) for path in (trained_sorter, trained_sorter / "sorter.safetensors")]
    assert torch.equal(*ranks)
    facts = LossOptions(sorter=str(trained_sorter), p=float("inf")).facts()
    assert facts["sorter"] == "mine"  # the folder may name a person
    assert len(facts["sorter_sha256"]) == 64
    assert json.dumps(facts, allow_nan=False)


@pytest.mark.parametrize("tuned", [False, True])
def test_a_sorter_is_frozen_unless_tuned(tuned, trained_sorter, material, tmp_path, monkeypatch):
    built = []
    build = LossOptions.build

    def remember(*arguments):
        built.append(build(*arguments))
        return built[-1]

    monkeypatch.setattr(LossOptions, "build", remember)
    options = LossOptions(str(trained_sorter), tuned)
    recipe = EmbeddingRecipe("sodeep-spearman", **SHORT | {"epochs": 1}, options=options)
    train_embedding(made(), material, recipe, tmp_path)
    before = sorters.load(trained_sorter).state_dict()
    after = built[0].loss.sorter.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before) == (not tuned)


@pytest.mark.parametrize(
    ("loss", "options", "message"),
    [
        ("sodeep-map", {"sorter": "quick"}, "no sorter 'quick'"),
        ("sodeep-map", {"sorter": "missing.safetensors"}, "train sorter"),
        ("sodeep-map", {"tune_sorter": True}, "no weights to train"),
        ("sodeep-map", {"sorter": "lstm", "temperature": 0.1}, "for the sorter pairwise, not lstm"),
        ("sodeep-map", {"temperature": 0.0}, "must be above 0"),
        ("sodeep-recall", {"margin": -1.0}, "at least 0"),
        ("sodeep-recall", {"margin": float("nan")}, "at least 0"),
        ("triplet", {"margin": -1.0}, "above 0"),
        ("smooth-ap", {"temperature": float("nan")}, "above 0"),
        ("supcon", {"temperature": 0.0}, "above 0"),
        ("rank-n-contrast", {"temperature": -1.0}, "above 0"),
        ("roadmap", {"temperature": float("inf")}, "above 0"),
        ("recall-at-k", {"temperature": 0.0}, "above 0"),
        ("partial-auc", {"margin": 0.0}, "above 0"),
        ("partial-auc", {"temperature": float("nan")}, "above 0"),
        ("toprank", {"p": 0.5}, "at least 1"),
        ("toprank", {"parallel_epochs": 5}, "needs --parallel"),
        ("s-ndcg", {"alpha": float("inf")}, "finite"),
        ("focal", {"gamma": float("inf")}, "finite"),
        ("sodeep-map", {"temperature": float("inf")}, "finite"),
        ("best", {}, "no loss 'best'"),
    ],
)
def test_values_out_of_range(loss, options, message):
    with pytest.raises((InvalidInput, NotFound), match=message):
        LossOptions(**options).build(loss, 4, 3)


@pytest.mark.parametrize("wrong", [{"parallel": "l2"}, {"parallel_epochs": 0}])
def test_parallel_losses_out_of_range(wrong):
    with pytest.raises(InvalidInput):
        LossOptions(**wrong)


def test_parallel_losses_are_their_formulas():
    scores, relevance = torch.tensor([[0.5, -2.0, 3.0]]), torch.tensor([[1, 0, 2]])
    assert float(AbsoluteErrorLoss()(scores, relevance)) == pytest.approx((0.5 + 2 + 2) / 3)
    expected = np.log1p(np.exp([-0.5, -2, -3])).mean()
    assert float(SoftMarginLoss()(scores, relevance)) == pytest.approx(expected)


def test_a_parallel_loss_is_added_in_the_first_epochs(material, tmp_path):
    losses = []
    for number, options in enumerate((LossOptions(), LossOptions(parallel="l1", parallel_epochs=2))):
        recipe = EmbeddingRecipe("sodeep-recall", **SHORT, rate=1e-9, augment=False, options=options)
        outcome = train_embedding(made(), material, recipe, tmp_path / str(number))
        losses.append([row["loss"] for row in outcome["history"]])
    added = np.subtract(*reversed(losses))
    assert (added[:2] > 0.1).all()
    assert added[2] == pytest.approx(0, abs=1e-3)


def test_the_command_trains_with_a_trained_sorter(trained_sorter, images, tmp_path):
    more = ["--loss", "sodeep-map", "--sorter", str(trained_sorter), "--form", "ranks", "--parallel", "l1"]
    arguments = command(images, tmp_path / "out", *more, "--epochs", "1")
    CliRunner().invoke(app, arguments, catch_exceptions=False)
    card = json.loads((tmp_path / "out" / model_card.EMBEDDING_CARD).read_text())
    assert card["training"]["options"]["form"] == "ranks"
    assert card["training"]["options"]["sorter"] == "mine"
    assert str(tmp_path) not in json.dumps(card["training"])


def test_the_command_refuses_before_it_reads_images(tmp_path):
    (tmp_path / "manifest.csv").write_text("path,label\n")
    found = CliRunner().invoke(app, command(tmp_path, tmp_path / "out", "--margin", "3"))
    assert isinstance(found.exception, InvalidInput)
    assert str(found.exception) == "the loss multi-similarity does not take --margin; it takes no options"
    assert not (tmp_path / "out").exists()
