"""The plan of a study: kept with it, checked, and followed by the ranker."""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from cbir.errors import InvalidInput
from service.features.annotate import study_plan, study_training
from service.features.annotate.study import Study
from service.features.annotate.study_training import train_study
from tests.service.features.annotate.active.test_study import judge_round


def test_the_plan_is_kept(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no study"):
        study_plan.read_plan(tmp_path)
    begun = study_plan.save_plan(tmp_path, {"question": "Whose knee is worse?", "rounds": None})
    assert (begun.question, begun.rounds) == ("Whose knee is worse?", 6)
    assert (
        study_plan.save_plan(tmp_path, {"rounds": 9})
        == begun.model_copy(update={"rounds": 9})
        == study_plan.read_plan(tmp_path)
    )
    for wrong in (
        {"step": 2.0},
        {"strategy": "magic"},
        {"rounds": 0},
        {"question": ""},
        {"grades": (1.0,)},
        {"grades": (2.0, 1.0)},
        {"grades": (0.0, math.inf)},
        {"grades": tuple(range(13))},
    ):
        with pytest.raises(InvalidInput):
            study_plan.save_plan(tmp_path, wrong)
    (tmp_path / study_plan.FILE).write_text("{}x")
    with pytest.raises(InvalidInput, match="not a plan"):
        study_plan.save_plan(tmp_path, {})


def test_a_plan_of_before_there_were_steps_and_weights(tmp_path: Path) -> None:
    kept = study_plan.save_plan(tmp_path, {"epochs": 3})
    lines = json.loads((tmp_path / study_plan.FILE).read_text())
    del lines["steps"], lines["weights"], lines["encoder"], lines["grades"]
    (tmp_path / study_plan.FILE).write_text(json.dumps(lines))
    assert study_plan.read_plan(tmp_path) == kept
    pytest.importorskip("torch")
    ranker = study_training._new_ranker(kept)
    assert (ranker.side, ranker.epochs, ranker.steps, ranker.weights) == (64, 3, 1000, None), "of pictures"


def test_weights_are_kept_until_there_are_to_be_none(tmp_path: Path) -> None:
    study_plan.save_plan(tmp_path, {"weights": "model"})
    assert study_plan.save_plan(tmp_path, {"rounds": 3}).weights == "model"
    assert study_plan.resolve_plan(tmp_path, {"weights": "none"}).weights is None
    assert study_plan.read_plan(tmp_path).weights == "model"
    assert study_plan.save_plan(tmp_path, {"weights": "none"}).weights is None
    assert study_plan.read_plan(tmp_path).weights is None


def test_the_ranker_learns_as_the_plan_says(tmp_path: Path, indexed: Path) -> None:
    pytest.importorskip("torch")
    from cbir.learn.severity import severity_rankers
    from cbir.store import Collection

    said = {
        "epochs": 2,
        "steps": 5,
        "side": 32,
        "passes": 2,
        "weights": "model",
        "seed": 4,
        "backbone": "toprank",
    }
    settings = study_plan.save_plan(tmp_path, said)
    with Collection(indexed) as collection:
        ids = [record.image_id for _, record in collection.iterate()]
    study = Study(tmp_path, ids, settings)
    judge_round(study)
    study.close()
    made = []

    class Noted(severity_rankers.BayesianRanker):
        def fit(self, *_: Any, **__: Any) -> Any:
            made.append(asdict(self))
            raise InvalidInput("enough")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(severity_rankers, "BayesianRanker", Noted)
        with pytest.raises(InvalidInput, match="enough"):
            train_study(indexed, tmp_path, 1, lambda: False)
    assert {name: made[0][name] for name in said} == said
