"""Pictures of stripes, and a model trained on them; not to be changed.

Fixtures import what needs torch: pytest loads this file even where torch is not installed.
"""

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from cbir.api.main import app


@pytest.fixture(scope="session")
def material():
    from cbir.learn.training.embedding_training import EmbeddingData
    from cbir.learn.training.labelled_examples import split_by_class
    from tests.cbir.learn.training.stripes import drawn

    pictures, classes = drawn()
    groups = [str(place // 2 * 2 + place % 2) for place in range(len(classes))]
    parts = split_by_class([str(of) for of in classes], groups)
    return EmbeddingData(pictures, classes, np.arange(len(classes)), parts)


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    """A folder of pictures and its manifest."""
    from tests.cbir.learn.training.stripes import drawn

    folder = tmp_path_factory.mktemp("images")
    pictures, classes = drawn(60)
    lines = ["path,label,patient"]
    for place, (picture, of) in enumerate(zip(pictures, classes, strict=True)):
        cv2.imwrite(str(folder / f"{place:02d}.png"), cv2.resize(picture, (64, 48)))
        lines.append(f"{place:02d}.png,kind {of},person {place // 6 * 3 + of}")
    (folder / "manifest.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="session")
def model(images, tmp_path_factory):
    """The folder of a model, trained by the command."""
    from tests.cbir.learn.training.stripes import command

    out = tmp_path_factory.mktemp("trained") / "stripes"
    found = CliRunner().invoke(app, command(images, out, "--epochs", "2"), catch_exceptions=False)
    assert found.exit_code == 0, found.output
    assert "test: mAP" in found.output
    return out
