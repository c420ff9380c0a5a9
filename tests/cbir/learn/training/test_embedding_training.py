"""Training embeddings, and the split of their images."""

import numpy as np
import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from cbir.errors import InvalidInput
from cbir.learn.models.scoring_network import apply_network
from cbir.learn.training.embedding_training import EmbeddingRecipe, evaluate_embedding, train_embedding
from cbir.learn.training.labelled_examples import split_by_class
from tests.cbir.learn.training.stripes import SHORT, made, weights_of


class TestTraining:
    @pytest.mark.parametrize("loss", ["sodeep-map", "triplet", "cross-entropy"])
    def test_a_class_comes_together(self, loss, material, tmp_path):
        network = made()
        told = train_embedding(network, material, EmbeddingRecipe(loss, **SHORT | {"epochs": 8}), tmp_path)
        vectors = apply_network(network, material.pictures)
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-5)
        found = evaluate_embedding(vectors, material, material.parts["test"], material.parts["training"])
        assert found.map > 0.6  # by chance 0.35
        best = max(row["map"] for row in told["history"])
        assert told["history"][told["best_epoch"] - 1]["map"] == best

    def test_going_on_gives_what_never_stopping_gives(self, material, tmp_path):
        class Stopped(Exception):
            pass

        def stop(step, steps, loss, reached):
            if step == 6:
                raise Stopped

        recipe = EmbeddingRecipe(**SHORT)
        whole, stopped, again = made(), made(), made(9)
        first = train_embedding(whole, material, recipe, tmp_path / "whole")
        with pytest.raises(Stopped):
            train_embedding(stopped, material, recipe, tmp_path / "stopped", save_every=0.0, progress=stop)
        steps = []
        second = train_embedding(
            again, material, recipe, tmp_path / "stopped", progress=lambda *told: steps.append(told[0])
        )
        assert steps[0] == 6  # the step that was stopped before it was saved
        assert torch.equal(weights_of(again), weights_of(whole))
        assert first["history"] == second["history"]

    def test_the_rate_rises_for_a_twentieth_of_the_steps_and_falls_along_a_cosine(self, material, tmp_path):
        rates, recipe = [], EmbeddingRecipe(**SHORT | {"images": 2}, rate=1e-4, trunk=0.5)
        hook = register_optimizer_step_post_hook(
            lambda optimizer, *_: rates.append([group["lr"] for group in optimizer.param_groups])
        )
        try:
            train_embedding(made(), material, recipe, tmp_path)
        finally:
            hook.remove()
        shares = np.arange(1, len(rates) + 1) / len(rates)
        falling = 0.5 * (1 + np.cos(np.pi * (shares - 0.05) / 0.95))
        expected = 1e-4 * np.where(shares < 0.05, shares / 0.05, falling)
        np.testing.assert_allclose(rates, np.outer(expected, [1, 0.5, 1]), atol=1e-12)  # head, trunk, loss
        assert shares[0] < 0.05

    def test_a_seed_decides(self, material, tmp_path):
        one, same, other = made(), made(), made()
        short = SHORT | {"epochs": 1}
        train_embedding(one, material, EmbeddingRecipe(**short), tmp_path / "one")
        train_embedding(same, material, EmbeddingRecipe(**short), tmp_path / "same")
        train_embedding(other, material, EmbeddingRecipe(**short, seed=1), tmp_path / "other")
        assert torch.equal(weights_of(one), weights_of(same))
        assert not torch.equal(weights_of(one), weights_of(other))

    def test_a_checkpoint_of_another_training_is_refused(self, material, tmp_path):
        train_embedding(made(), material, EmbeddingRecipe(**SHORT | {"epochs": 1}), tmp_path)
        with pytest.raises(InvalidInput, match="another training"):
            train_embedding(made(), material, EmbeddingRecipe(**SHORT), tmp_path)

    def test_patience_ends_it(self, material, tmp_path):
        recipe = EmbeddingRecipe(**SHORT | {"epochs": 30, "rate": 1e-9, "patience": 2})
        told = train_embedding(made(), material, recipe, tmp_path)
        assert len(told["history"]) < 30
        assert len(told["history"]) - told["best_epoch"] == 2

    @pytest.mark.parametrize(
        "wrong", [{"epochs": 0}, {"rate": 0}, {"patience": 0}, {"weight_decay": -1}, {"seed": -1}]
    )
    def test_recipes_out_of_range(self, wrong):
        with pytest.raises(InvalidInput):
            EmbeddingRecipe(**wrong)

    def test_an_unknown_loss_is_told(self, material, tmp_path):
        with pytest.raises(InvalidInput, match="no loss"):
            train_embedding(made(), material, EmbeddingRecipe("best", **SHORT), tmp_path)


class TestSplit:
    def test_groups_stay_together_and_classes_are_everywhere(self):
        random = np.random.default_rng(0)
        labels = [str(of) for of in random.integers(0, 4, 300)]
        groups = [str(of) for of in random.integers(0, 90, 300)]
        parts = split_by_class(labels, groups)
        assert sorted(np.concatenate(list(parts.values())).tolist()) == list(range(300))
        for one, other in (("training", "validation"), ("training", "test"), ("validation", "test")):
            assert not {groups[i] for i in parts[one]} & {groups[i] for i in parts[other]}
        for chosen in parts.values():
            assert {labels[i] for i in chosen} == set("0123")
        assert 0.5 < len(parts["training"]) / 300 < 0.7

    def test_too_few(self):
        with pytest.raises(InvalidInput, match="too few"):
            split_by_class(["a", "b"], ["1", "2"])


@pytest.mark.parametrize(
    ("shape", "largest"),
    [((600, 40), 256), ((300, 64, 64), 256), ((20, 224, 224, 3), 6), ((2, 1024, 1024, 3), 1)],
)
def test_large_pictures_pass_in_smaller_batches(shape, largest):
    class Means(torch.nn.Module):
        def forward(self, images):
            sizes.append(len(images))
            return images.flatten(1).mean(dim=1, keepdim=True)

    sizes = []
    pictures = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    means = pictures.reshape(len(pictures), -1).mean(axis=1) / (1 if len(shape) == 2 else 255)
    assert apply_network(Means(), pictures)[:, 0] == pytest.approx(means, rel=1e-4)
    assert (sizes[0], sum(sizes)) == (largest, len(pictures))
