"""`cbir annotate label`: what a study has learnt, in its collection."""

import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from cbir.active import stored
from cbir.active.bayesian import BayesianRanker
from cbir.active.labels import severities
from cbir.active.pictures import read_pictures
from cbir.active.study import models, plan
from cbir.errors import InvalidInput, NotFound
from cbir.main import app
from tests.cbir.active.drawn import SIDE, collection_of, draw, judged


def label(collection, study):
    arguments = ["annotate", "label", "--collection", str(collection), "--study-dir", str(study)]
    return CliRunner().invoke(app, arguments)


def test_labels_and_ranker_go_into_the_collection(tmp_path):
    pictures, grades = draw(12)
    made = collection_of(tmp_path, pictures, grades)
    study = tmp_path / "study"
    plan.settle(study, {})
    found = label(made.folder, study)
    assert isinstance(found.exception, InvalidInput)
    with pytest.raises(NotFound):
        stored.kept(made)
    seen = read_pictures(made, SIDE)
    ranker = BayesianRanker("toprank", SIDE, epochs=1, steps=0, passes=3).fit(seen.pixels, *judged(grades, 8))
    severity = ranker.severity(seen.pixels)
    ids = [record.image_id for record in seen.records]
    models.keep(study, ranker, 2, 8, ids, severity)
    assert "12 images" in label(made.folder, study).output
    np.testing.assert_allclose([severities(made)[name] for name in ids], severity.mean, atol=1e-4)
    shutil.rmtree(study)
    np.testing.assert_array_equal(stored.kept(made).severity(seen.pixels).mean, severity.mean)
