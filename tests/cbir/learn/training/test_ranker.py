"""Training rankers: `cbir train ranker`, `cbir train rank`, and what they stand on."""

import json
import math
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import cv2
import numpy as np
import pytest
import torch
from scipy.stats import false_discovery_control
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.errors import CbirError, InvalidInput, NotFound
from cbir.evaluation.rank_metrics import auc
from cbir.learn.losses import PosAtTopLoss, TopRankLoss
from cbir.learn.models import scoring_network
from cbir.learn.models.linear_rankers import TopPush
from cbir.learn.models.scoring_network import ScoringNetwork, picture_features, score_pictures
from cbir.learn.training import fine_tuning
from cbir.learn.training.labelled_examples import split_by_positive
from cbir.learn.training.loss_options import LossOptions
from cbir.learn.training.ranker_training import (
    LAST_LAYERS,
    METHODS,
    RankerImages,
    RankerRecipe,
    RunOptions,
    recipe_loss,
    refit_last_layer,
    train_ranker,
)
from tests.rights import open_to_others

torch.set_num_threads(1)  # the work is small, and other tests want the cores

SIDE = 32
SHORT = {"epochs": 3, "positives": 4, "negatives": 20, "rate": 0.02}


def drawn(count=150, seed=0):
    """Grey noise; a fifth of the pictures, the positives, have a bright spot somewhere."""
    random = np.random.default_rng(seed)
    pictures = random.integers(0, 110, (count, SIDE, SIDE), dtype=np.uint8)
    positive = np.arange(count) % 5 == 0
    for place in np.flatnonzero(positive):
        row, column = random.integers(4, SIDE - 12, 2)
        pictures[place, row : row + 8, column : column + 8] = 220
    return pictures, positive


@pytest.fixture(scope="module")
def task():
    pictures, positive = drawn()
    parts = split_by_positive(positive.tolist(), [str(i) for i in range(len(positive))])
    return RankerImages(pictures, positive, parts)


def made(seed=0):
    torch.manual_seed(seed)
    return ScoringNetwork("toprank", SIDE)


def weights_of(ranker):
    return torch.cat([value.flatten().float() for value in ranker.state_dict().values()])


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns(method, task, tmp_path):
    pictures, positive, parts = task
    ranker = made()
    told = train_ranker(ranker, task, RankerRecipe(method, **SHORT | {"epochs": 8}), RunOptions(tmp_path))
    test = parts["test"]
    assert auc(score_pictures(ranker, pictures[test]), positive[test]) > 0.9
    assert len(told["history"]) == 8
    assert 1 <= told["best_epoch"] <= 8
    assert ("penalty" in told) == (method in LAST_LAYERS)
    best = max(told["history"], key=lambda row: (row["pos_at_top"], row["auc"]))
    assert told["history"][told["best_epoch"] - 1] == best


def test_loss_options_reach_the_loss(task, tmp_path):
    steep = LossOptions(sorter="handcrafted", form="ranks", parallel="soft-margin")
    histories = []
    for number, options in enumerate((LossOptions(), replace(steep, parallel=None), steep)):
        recipe = RankerRecipe("sodeep-map", **SHORT, options=options)
        outcome = train_ranker(made(), task, recipe, RunOptions(tmp_path / str(number)))
        histories.append([row["loss"] for row in outcome["history"]])
    plain, alone, aided = histories
    assert abs(plain[0] - alone[0]) > 0.1  # the logarithm of a precision, or a rank
    assert aided[0] > alone[0] + 0.3  # log 2 of a score of 0
    assert abs(aided[1] - alone[1]) < 0.3  # in the first epoch only


@pytest.mark.parametrize("method", ["toprank", "cross-entropy"])
def test_going_on_gives_what_never_stopping_gives(method, task, tmp_path):
    class Killed(Exception):
        pass

    def stop(step, steps, loss, reached):
        if step == 7:
            raise Killed

    recipe = RankerRecipe(method, **SHORT)
    whole, stopped, again = made(), made(), made(9)
    train_ranker(whole, task, recipe, RunOptions(tmp_path / "whole"))
    with pytest.raises(Killed):
        train_ranker(stopped, task, recipe, RunOptions(tmp_path / "stopped", save_every=0.0, progress=stop))
    steps = []
    train_ranker(
        again, task, recipe, RunOptions(tmp_path / "stopped", progress=lambda *told: steps.append(told[0]))
    )
    assert steps[0] == 7  # the step that was stopped before it was saved
    assert torch.equal(weights_of(again), weights_of(whole))


def test_a_seed_decides(task, tmp_path):
    one, same, other = made(), made(), made()
    train_ranker(one, task, RankerRecipe(**SHORT), RunOptions(tmp_path / "one"))
    train_ranker(same, task, RankerRecipe(**SHORT), RunOptions(tmp_path / "same"))
    train_ranker(other, task, RankerRecipe(**SHORT, seed=1), RunOptions(tmp_path / "other"))
    assert torch.equal(weights_of(one), weights_of(same))
    assert not torch.equal(weights_of(one), weights_of(other))


def test_a_checkpoint_of_another_training_is_refused(task, tmp_path):
    train_ranker(made(), task, RankerRecipe(**SHORT), RunOptions(tmp_path))
    for other in (RankerRecipe(**SHORT, options=LossOptions(p=2.0)), RankerRecipe("focal", **SHORT)):
        with pytest.raises(InvalidInput, match="another training"):
            train_ranker(made(), task, other, RunOptions(tmp_path))
    with pytest.raises(InvalidInput, match="another training"):
        train_ranker(
            made(), task._replace(pictures=255 - task.pictures), RankerRecipe(**SHORT), RunOptions(tmp_path)
        )


def test_a_checkpoint_of_another_version_is_refused(task, tmp_path):
    train_ranker(made(), task, RankerRecipe(**SHORT), RunOptions(tmp_path))
    state = fine_tuning.read_checkpoint(tmp_path / "checkpoint.pt")
    del state["form"]
    fine_tuning.write_checkpoint(tmp_path / "checkpoint.pt", state)
    with pytest.raises(InvalidInput, match="another version of cbir"):
        train_ranker(made(), task, RankerRecipe(**SHORT), RunOptions(tmp_path))


def test_a_rate_far_too_high_is_told(task, tmp_path):
    with pytest.raises(InvalidInput, match=r"lower rate|not numbers"):
        train_ranker(
            made(), task, RankerRecipe("cross-entropy", **SHORT | {"rate": 1e30}), RunOptions(tmp_path)
        )


def test_the_losses_of_the_paper():
    positive = np.arange(40) < 8
    assert isinstance(recipe_loss(RankerRecipe(options=LossOptions(p=math.inf)), positive), TopRankLoss)
    assert isinstance(recipe_loss(RankerRecipe("pos-at-top"), positive), PosAtTopLoss)
    others, relevant = recipe_loss(RankerRecipe("cross-entropy"), positive).weights
    assert others / relevant == pytest.approx(8 / 32)
    assert 8 * relevant + 32 * others == pytest.approx(40)
    focal = recipe_loss(RankerRecipe("focal"), positive)
    assert (focal.gamma, focal.weights) == (2.0, (0.75, 0.25))


def test_the_last_layer_is_the_linear_ranker(task):
    pictures, positive, parts = task
    ranker = made().eval()
    penalty = refit_last_layer("top-push", ranker, pictures, positive, parts)
    training, test = parts["training"], parts["test"]
    linear = TopPush(penalty).fit(
        picture_features(ranker, pictures[training]), positive[training].astype(int)
    )
    expected = linear.predict(picture_features(ranker, pictures[test]))
    assert score_pictures(ranker, pictures[test]) == pytest.approx(expected, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"method": "best"},
        {"epochs": 0},
        {"rate": 0},
        {"decay": 1.5},
        {"positives": 0},
        {"negatives": 0},
        {"seed": -1},
        {"seed": 1024},
    ],
)
def test_recipes_out_of_range(wrong):
    with pytest.raises(InvalidInput):
        RankerRecipe(**wrong)


class TestFiles:
    def test_read_again(self, task, tmp_path):
        ranker = made().eval()
        scoring_network.save_scoring_network(ranker, tmp_path, {"results": {}})
        found, card = scoring_network.load_scoring_network(tmp_path)
        assert card["ranker"] == {"backbone": "toprank", "side": SIDE}
        assert (score_pictures(found, task[0]) == score_pictures(ranker, task[0])).all()
        with pytest.raises(InvalidInput, match="negatives"):
            scoring_network.highest_negative_score(card)

    def test_other_weights(self, tmp_path):
        scoring_network.save_scoring_network(made(), tmp_path, {})
        content = (tmp_path / "ranker.safetensors").read_bytes()
        (tmp_path / "ranker.safetensors").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(InvalidInput, match="not the file that its card describes"):
            scoring_network.load_scoring_network(tmp_path)

    def test_missing(self, tmp_path):
        with pytest.raises(NotFound, match="cbir train ranker"):
            scoring_network.load_scoring_network(tmp_path)
        scoring_network.save_scoring_network(made(), tmp_path, {})
        (tmp_path / "ranker.safetensors").unlink()
        with pytest.raises(NotFound, match="no weights"):
            scoring_network.load_scoring_network(tmp_path)

    @pytest.mark.parametrize(
        "card",
        [
            "",
            "[]",
            '{"sha256": "0"}',
            '{"sha256": "0", "ranker": {"backbone": "toprank", "side": 1000000}}',
            '{"sha256": "0", "ranker": {"backbone": 5, "side": 32}}',
            '{"sha256": 0, "ranker": {"backbone": "toprank", "side": 32}}',
        ],
    )
    def test_what_is_no_card(self, card, tmp_path):
        scoring_network.save_scoring_network(made(), tmp_path, {})
        (tmp_path / "ranker.json").write_text(card)
        with pytest.raises(InvalidInput, match="not the card"):
            scoring_network.load_scoring_network(tmp_path)

    @pytest.mark.parametrize(
        "other", [{"backbone": "no such", "side": 32}, {"backbone": "toprank", "side": 32, "x": 1}]
    )
    def test_a_card_that_does_not_fit(self, other, tmp_path):
        scoring_network.save_scoring_network(made(), tmp_path, {})
        card = json.loads((tmp_path / "ranker.json").read_text())
        (tmp_path / "ranker.json").write_text(json.dumps(card | {"ranker": other}))
        with pytest.raises(CbirError):
            scoring_network.load_scoring_network(tmp_path)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A manifest with images, two of a patient, and one that is none."""
    folder = tmp_path_factory.mktemp("images")
    pictures, positive = drawn(80)
    lines = ["path,label,patient,source"]
    for number, picture in enumerate(pictures):
        cv2.imwrite(str(folder / f"{number}.png"), np.kron(picture, np.ones((2, 2), np.uint8)))
        lines.append(f"{number}.png,{'malignant' if positive[number] else 'benign'},Doe-{number // 2},us")
    (folder / "80.png").write_bytes(b"no picture")
    lines += ["80.png,benign,,us", "81.png,malignant,,ct"]
    (folder / "manifest.csv").write_text("\n".join(lines))
    return folder


OPTIONS = [
    "--side", "32", "--epochs", "4", "--negatives", "10", "--rate", "0.02", "--threads", "1",
]  # fmt: skip


def command(files, out, *more):
    return [
        "train", "ranker", "--data", str(files / "manifest.csv"), "--positive", "malignant",
        "--where", "source=us", "--out", str(out), *OPTIONS, *more,
    ]  # fmt: skip


@pytest.fixture(scope="module")
def trained(files, tmp_path_factory):
    out = tmp_path_factory.mktemp("trained")
    return out, CliRunner().invoke(app, command(files, out), catch_exceptions=False)


def test_the_command(files, trained):
    out, result = trained
    assert result.exit_code == 0
    assert "test: " in result.stdout
    assert "80.png" in result.stderr
    report = json.loads((out / "report.json").read_text())
    assert {name: of["images"] for name, of in report["parts"].items()} == pytest.approx(
        {"training": 48, "validation": 16, "test": 16}, abs=3
    )
    assert len(report["first"]) == 10
    assert all(len(first["image_id"]) == 32 for first in report["first"])
    assert report["roc"]["true_positives"][-1] == 1.0
    assert report["training"]["method"] == "toprank"
    best = max(report["powers"], key=lambda row: (row["pos_at_top"], row["auc"]))
    assert [row["p"] for row in report["powers"]] == [2, 4, 8, 16, 32, 64]
    assert report["p"] == best["p"]
    assert f"p by validation: {best['p']:g}" in result.stdout
    assert report["history"][report["best_epoch"] - 1]["pos_at_top"] == best["pos_at_top"]
    assert report["parts"]["validation"]["pos_at_top"] == pytest.approx(best["pos_at_top"])
    card = json.loads((out / "ranker.json").read_text())
    assert card["results"] == report["parts"]
    assert "Not a medical device" in card["intended_use"]
    for name in ("report.html", "report.json", "ranker.json"):
        assert "Doe" not in (out / name).read_text()


def test_only_the_owner_reads_the_folder(trained):
    assert open_to_others(trained[0]) == []


def test_the_page_stands_alone(trained):
    page = (trained[0] / "report.html").read_text()
    assert page.count('src="data:image/jpeg') == 10
    assert page.count("src=") == 10
    for outside in ("http://", "https://", "<script", "<link", "url("):
        assert outside not in page.replace('xmlns="http://www.w3.org/2000/svg"', "").replace("url(#", "")
    words = [
        "Pos@Top",
        "AUC",
        "Not a medical device",
        "protect this file",
        "Choice of p",
        "Map of training",
        "Map of test",
    ]
    for word in (*words, "log2 p", "loss of training", "positive above every negative"):
        assert word in page


def test_ranking_files(files, trained):
    out, _ = trained
    result = CliRunner().invoke(app, ["train", "rank", str(out), str(files)], catch_exceptions=False)
    assert result.exit_code == 3  # one of them is no picture
    assert "80.png" in result.stderr
    header, *lines = result.stdout.splitlines()
    assert header == "score,top,path"
    assert len(lines) == 80
    scores = [float(line.split(",")[0]) for line in lines]
    assert scores == sorted(scores, reverse=True)
    result = CliRunner().invoke(app, ["train", "rank", str(out), str(files / "0.png"), "--format", "json"])
    assert result.exit_code == 0
    (row,) = json.loads(result.stdout)
    assert row["path"] == str(files / "0.png")
    assert f"{row['score']:.6g}" in {line.split(",")[0] for line in lines if line.endswith("/0.png")}
    card = json.loads((out / "ranker.json").read_text())
    assert row["top"] == (row["score"] > scoring_network.highest_negative_score(card))


def test_ranking_files_at_a_false_discovery_rate(files, trained):
    out, _ = trained
    card = json.loads((out / "ranker.json").read_text())
    negatives = card["negative_scores"]
    part = card["results"]["test"]
    assert len(negatives) == part["images"] - part["positives"]
    assert max(negatives) == part["highest_negative"]
    assert negatives == sorted(negatives)
    for fdr in (0.5, 0.01):
        command = ["rank", str(out), str(files), "--format", "json", "--fdr", str(fdr)]
        result = CliRunner().invoke(app, command, catch_exceptions=False)
        rows = json.loads(result.stdout)
        above = [1 + sum(negative >= row["score"] for negative in negatives) for row in rows]
        p = np.array(above) / (len(negatives) + 1)
        assert [row["top"] for row in rows] == (false_discovery_control(p) <= fdr + 1e-9).tolist()
        count = sum(row["top"] for row in rows)
        said = (
            f"{count} of 80 images are top"
            if count
            else f"it takes 99 negatives in the ranker's test, which has {len(negatives)}"
        )
        assert said in result.stderr
        assert bool(count) == (fdr == 0.5)


@pytest.mark.parametrize("fdr", ["0", "1", "nan"])
def test_false_discovery_rates_out_of_range(fdr, files, trained):
    result = CliRunner().invoke(app, ["train", "rank", str(trained[0]), str(files), "--fdr", fdr])
    assert isinstance(result.exception, InvalidInput)
    assert "must be above 0 and below 1" in str(result.exception)


@pytest.mark.parametrize("scores", [None, [], ["high"], [float("inf")], 3])
def test_a_ranker_without_scores_of_negatives(scores, trained):
    card = json.loads((trained[0] / "ranker.json").read_text())
    with pytest.raises(InvalidInput, match="train the ranker again"):
        scoring_network.negative_scores({**card, "negative_scores": scores})


def test_a_folder_without_images_is_not_ranked(files, trained, tmp_path):
    result = CliRunner().invoke(app, ["train", "rank", str(trained[0]), str(files), str(tmp_path)])
    assert isinstance(result.exception, InvalidInput)
    assert f"{tmp_path} has no image files" in str(result.exception)


def test_a_ranked_file_whose_name_is_a_formula(files, trained, tmp_path, monkeypatch):
    shutil.copy(files / "0.png", tmp_path / "=1+1;@2.png")
    monkeypatch.chdir(tmp_path)
    command = ["train", "rank", str(trained[0]), "=1+1;@2.png"]
    line = CliRunner().invoke(app, command, catch_exceptions=False).stdout.splitlines()[1]
    assert line.endswith("/=1+1;'@2.png")
    (row,) = json.loads(CliRunner().invoke(app, [*command, "--format", "json"]).stdout)
    assert row["path"].endswith("/=1+1;@2.png")


def test_killed_and_gone_on_with(files, trained, tmp_path):
    out, _ = trained
    arguments = [sys.executable, "-m", "cbir.api.main", *command(files, tmp_path, "--save-every", "0")]
    process = subprocess.Popen(arguments, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 100
    while len(list(tmp_path.glob("p-*/checkpoint.pt"))) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "ranker.safetensors").exists()
    assert CliRunner().invoke(app, command(files, tmp_path, "--save-every", "0")).exit_code == 0
    assert (tmp_path / "ranker.safetensors").read_bytes() == (out / "ranker.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--method", "best"], "no method 'best'"),
        (["--method", "focal", "--p", "4"], "focal does not take --p; it takes --gamma"),
        (["--method", "top-push", "--sorter", "cnn"], "top-push does not take --sorter; it takes no options"),
        (["--p", "0.5"], "at least 1"),
        (["--loss", "sodeep-map", "--form", "best"], "'best'"),
        (["--positive", "stage=4"], "no column stage"),
        (["--where", "source!=us"], "of 0 images 0 are positive"),
        (["--device", "tpu9"], "no device"),
        (["--backbone", "no such"], "no such"),
    ],
)
def test_what_cannot_be_trained(more, said, files, tmp_path):
    result = CliRunner().invoke(app, command(files, tmp_path / "out", *more))
    assert isinstance(result.exception, CbirError)
    assert said in str(result.exception)
