"""`cbir annotate label`: what a study has learnt, in its collection."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.errors import CbirError, InvalidInput, NotFound
from cbir.learn.severity import stored_ranker
from cbir.learn.severity.severity_rankers import BayesianRanker
from cbir.learn.severity.stored_images import read_grey_images
from cbir.learn.severity.stored_ranker import LABEL
from cbir.store.base.stored_models import SEVERITY_FOLDER, read_severity_conditions
from service.features.annotate import study_files, study_plan
from tests.service.features.annotate.active.drawn import SIDE, collection_of, draw, judged


def label(collection, study):
    arguments = ["annotate", "label", "--collection", str(collection), "--study-dir", str(study)]
    return CliRunner().invoke(app, arguments)


def trained(made, study, grades):
    """Store a trained ranker in the study; return its images, their ids and severity."""
    seen = read_grey_images(made, SIDE)
    ranker = BayesianRanker("toprank", SIDE, epochs=1, steps=0, passes=3).fit(seen.inputs, *judged(grades, 8))
    severity = ranker.severity(seen.inputs)
    ids = [record.image_id for record in seen.records]
    study_files.store_trained_model(study, ranker, 2, 8, ids, severity, where=["source=drawn"])
    study_plan.save_plan(study, {"where": ("source=other",)})  # since the training
    return seen, ids, severity


def test_labels_and_ranker_go_into_the_collection(tmp_path):
    pictures, grades = draw(12)
    made = collection_of(tmp_path, pictures, grades)
    study = tmp_path / "study"
    study_plan.save_plan(study, {})
    found = label(made.folder, study)
    assert isinstance(found.exception, InvalidInput)
    with pytest.raises(NotFound):
        stored_ranker.load_stored_ranker(made)
    seen, ids, severity = trained(made, study, grades)
    assert "12 images" in label(made.folder, study).output
    np.testing.assert_allclose([made.numeric_labels(LABEL)[name] for name in ids], severity.mean, atol=1e-4)
    assert read_severity_conditions(made.folder) == ("source=drawn",)
    shutil.rmtree(study)
    np.testing.assert_array_equal(
        stored_ranker.load_stored_ranker(made).severity(seen.inputs).mean, severity.mean
    )


def _cut(path):
    path.write_bytes(path.read_bytes()[:-9])


def _replace_by_folder(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("name", study_files.RANKER)
@pytest.mark.parametrize("damage", [_cut, Path.unlink, _replace_by_folder])
def test_a_damaged_ranker_does_not_replace_the_one_of_the_collection(tmp_path, name, damage):
    pictures, grades = draw(12)
    made = collection_of(tmp_path, pictures, grades)
    study = tmp_path / "study"
    study_plan.save_plan(study, {})
    trained(made, study, grades)
    label(made.folder, study)
    stored = made.folder / SEVERITY_FOLDER
    before = {path.name: path.read_bytes() for path in stored.iterdir()}
    model = study_files.latest_model(study)
    damage(model.folder / name)
    assert isinstance(label(made.folder, study).exception, CbirError)
    with pytest.raises(CbirError, match=name):  # as the page does, without torch
        study_files.copy_ranker_to_collection(model, made)
    assert {path.name: path.read_bytes() for path in stored.iterdir()} == before
