"""Training the ranker of a study on a real collection."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from cbir.store import Collection
from cbir.store.base import stored_models
from service.features.annotate import study_files, study_plan
from service.features.annotate.study import Study
from service.features.annotate.study_training import train_study
from tests.rights import open_to_others
from tests.service.features.annotate.active.test_study import give_grade, judge_round


def test_learning(tmp_path: Path, indexed: Path) -> None:
    pytest.importorskip("torch")
    from cbir.learn.severity import stored_ranker

    folder = tmp_path / "study"
    settings = study_plan.save_plan(
        folder,
        {"epochs": 1, "steps": 0, "side": 32, "passes": 2, "start": 0.3, "rounds": 2, "grades": (60.0, 80.0)},
    )
    with Collection(indexed) as collection:
        ids = [record.image_id for _, record in collection.iterate()]
    study = Study(folder, ids, settings)
    assert not train_study(indexed, folder, 1, lambda: False), "nothing was judged"
    judge_round(study)
    for image, grade in zip(ids[:4], (60.0, 80.0, 60.0, 80.0), strict=True):
        give_grade(study, image, grade)
    train_study(indexed, folder, 1, lambda: True)
    study.reload_model()
    assert study.model is None, "it was stopped"
    assert train_study(indexed, folder, 1, lambda: False)
    study.reload_model()
    assert study.model is not None
    assert (study.model.after, study.model.judgements) == (1, len(study.judgements))
    assert study.model.ids == tuple(ids)
    assert np.abs(study.model.severity.mean - 70).max() < 20, "on the scale of the grades"
    assert not study.current.provisional
    study.close()
    labelled = Path(shutil.copytree(indexed, tmp_path / "labelled"))
    with Collection(labelled) as collection:
        study_files.copy_ranker_to_collection(study.model, collection)
        assert stored_ranker.load_stored_ranker(collection).side == 32, "where new images look for it"
        assert open_to_others(labelled / stored_models.SEVERITY_FOLDER) == []
        labelled.chmod(0o770)
        study_files.copy_ranker_to_collection(study.model, collection)
    if os.name != "nt":
        modes = [path.stat().st_mode & 0o777 for path in (labelled / stored_models.SEVERITY_FOLDER).iterdir()]
        assert modes == [0o660] * len(modes), "a group that the collection lets in reads its ranker too"


def test_the_strategy_that_needs_the_encoders_features_gets_them(tmp_path: Path, indexed: Path) -> None:
    pytest.importorskip("torch")
    folder = tmp_path / "study"
    settings = study_plan.save_plan(
        folder,
        {
            "strategy": "core-set-encoder",
            "encoder": "lite0",
            "epochs": 1,
            "steps": 0,
            "start": 0.3,
            "rounds": 2,
        },
    )
    with Collection(indexed) as collection:
        ids = [record.image_id for _, record in collection.iterate()]
    study = Study(folder, ids, settings)
    judge_round(study)
    assert train_study(indexed, folder, 1, lambda: False)
    study.reload_model()
    assert study.model is not None
    encoded = study.model.severity.encoder_features
    assert encoded is not None
    assert len(encoded) == len(ids)
    assert np.ptp(encoded, axis=0).max() > 0
    study.close()


def test_grades_of_some_images_alone(tmp_path: Path, indexed: Path) -> None:
    pytest.importorskip("torch")
    with Collection(indexed) as collection:
        records = [record for _, record in collection.iterate()]
    label = records[0].labels["label"]
    ids = [record.image_id for record in records if record.labels["label"] == label]
    settings = study_plan.save_plan(
        tmp_path,
        {
            "epochs": 1,
            "steps": 0,
            "side": 32,
            "passes": 2,
            "grades": (60.0, 80.0),
            "where": (f"label={label}",),
        },
    )
    study = Study(tmp_path, ids, settings)
    for number, image in enumerate(ids[:4]):
        give_grade(study, image, 60.0 + 20 * (number % 2))
    assert train_study(indexed, tmp_path, 0, lambda: False)
    study.reload_model()
    assert study.model is not None
    assert set(study.model.ids) == set(ids) < {record.image_id for record in records}
    assert (study.model.after, study.model.judgements, study.model.entries) == (0, 0, 4)
    assert np.abs(study.model.severity.mean - 70).max() < 20, "on the scale of the grades"
    assert study.round_to_train() is None, "nothing new"
    study.close()
    copy = Path(shutil.copytree(indexed, tmp_path / "collection"))
    with Collection(copy) as collection:
        study_files.copy_ranker_to_collection(study.model, collection)
    assert stored_models.read_severity_conditions(copy) == (f"label={label}",)
