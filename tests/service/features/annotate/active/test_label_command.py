"""`cbir annotate label`: what a study has learnt, in its collection."""

import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.errors import InvalidInput, NotFound
from cbir.learn.severity import stored_ranker
from cbir.learn.severity.severity_rankers import BayesianRanker
from cbir.learn.severity.stored_images import read_grey_images
from cbir.learn.severity.stored_ranker import LABEL
from cbir.store.base.stored_models import read_severity_conditions
from service.features.annotate import study_files, study_plan
from tests.service.features.annotate.active.drawn import SIDE, collection_of, draw, judged


def label(collection, study):
    arguments = ["annotate", "label", "--collection", str(collection), "--study-dir", str(study)]
    return CliRunner().invoke(app, arguments)


def test_labels_and_ranker_go_into_the_collection(tmp_path):
    pictures, grades = draw(12)
    made = collection_of(tmp_path, pictures, grades)
    study = tmp_path / "study"
    study_plan.save_plan(study, {})
    found = label(made.folder, study)
    assert isinstance(found.exception, InvalidInput)
    with pytest.raises(NotFound):
        stored_ranker.load_stored_ranker(made)
    seen = read_grey_images(made, SIDE)
    ranker = BayesianRanker("toprank", SIDE, epochs=1, steps=0, passes=3).fit(seen.inputs, *judged(grades, 8))
    severity = ranker.severity(seen.inputs)
    ids = [record.image_id for record in seen.records]
    study_files.store_trained_model(study, ranker, 2, 8, ids, severity, where=["source=drawn"])
    study_plan.save_plan(study, {"where": ("source=other",)})  # since the training
    assert "12 images" in label(made.folder, study).output
    np.testing.assert_allclose([made.numeric_labels(LABEL)[name] for name in ids], severity.mean, atol=1e-4)
    assert read_severity_conditions(made.folder) == ("source=drawn",)
    shutil.rmtree(study)
    np.testing.assert_array_equal(
        stored_ranker.load_stored_ranker(made).severity(seen.inputs).mean, severity.mean
    )
