"""`cbir collection verify --erased` also searches what features have stored, and says what it could not search."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cbir.store import Collection
from cbir.store.erasure import erase_everywhere, load_erasers
from cbir.system.features import Feature, features
from service.state.database import open_state
from tests import benches
from tests.service.conftest import command

contents = benches.loaded("state_contents")
JUDGED = (
    '{"kind": "grade", "name": "abcdefgh", "at": "2026-03-02T10:00:00Z", "who": "mia", "seconds": 1, "image": "%s", '
    '"grade": 1}\n'
)


@pytest.fixture
def patient(writable: Path) -> str:
    with Collection(writable) as opened:
        return next(key for key in opened.patient_keys().values() if key)


@pytest.fixture
def state(writable: Path, patient: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Something of every kind about images of a patient, who is then erased from the collection alone."""
    with Collection(writable) as opened, opened.writer() as writer:
        images = writer.images_of(patient)
        monkeypatch.setattr(contents, "IMAGES", [*images, *(f"{number:032x}" for number in range(6))])
        contents.make_state(tmp_path / "state")
        writer.erase_patient([patient])
    study = tmp_path / "studies" / "knees"
    study.mkdir(parents=True)
    header = '{"kind": "cbir judgements", "version": 1}\n'
    (study / "judgements.jsonl").write_text(header + JUDGED % images[0])
    return tmp_path / "state"


def verify(writable: Path, patient: str, state: Path, **more: Path) -> tuple[int, str]:
    segmentations = {"CBIR_STATE_FOLDER": state, "CBIR_ANNOTATION_FOLDER": state / "segmentations"}
    options = ("collection", "verify", "--collection", writable, "--erased", patient)
    code, out, err = command(*options, **segmentations, **more)
    assert patient not in out + err
    return code, out


def test_what_features_have_stored_is_found(writable: Path, patient: str, state: Path) -> None:
    with Collection(writable) as opened:
        assert patient not in opened.patient_keys().values()
    code, out = verify(writable, patient, state, CBIR_ANNOTATION_STUDIES=state.with_name("studies"))
    assert code == 1
    lines = {line.partition(":")[0]: line for line in out.splitlines()}
    places = {"saved cases", "cohorts", "usage log", "reader studies", "segmentations"}
    assert lines.keys() == places | {"annotation study knees"}
    assert lines["annotation study knees"].startswith(
        "annotation study knees: 1 erased images or keys are left"
    )
    active = contents.state_settings(state)
    for _, erase in load_erasers():
        erase(active, [patient], contents.IMAGES)
    assert verify(writable, patient, state) == (0, "no problems\n")


def test_a_state_that_cannot_be_opened_is_not_called_clean(writable: Path, patient: str, state: Path) -> None:
    (writable / "left").write_text(patient)
    (state / "state.sqlite").write_bytes(b"not a database" * 100)
    code, out = verify(writable, patient, state)
    assert code == 1
    assert "left still contains the patient's key" in out
    assert "segmentations: " in out
    for name in ("saved", "usage", "annotate"):
        assert f"not verified: what the feature {name} has stored (" in out


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda feature: Feature(name="saved", eraser=feature.eraser), "it does not tell what it has stored"),
        (
            lambda feature: Feature(name="saved", eraser=feature.eraser, mentions="builtins:none"),
            "cannot be loaded",
        ),
    ],
)
def test_a_feature_that_cannot_tell_is_not_called_clean(
    writable: Path,
    patient: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    change: Callable[[Feature], Feature],
    reason: str,
) -> None:
    changed = tuple(change(feature) if feature.name == "saved" else feature for feature in features())
    monkeypatch.setattr("cbir.store.erasure.features", lambda: changed)
    with Collection(writable) as opened, opened.writer() as writer:
        writer.erase_patient([patient])
    code, out = verify(writable, patient, tmp_path / "state")
    assert code == 1
    assert "not verified: what the feature saved has stored (" in out
    assert reason in out


def test_every_feature_with_an_eraser_tells_what_it_has_stored() -> None:
    assert all(feature.mentions for feature in features() if feature.eraser)


def test_images_that_are_there_are_no_traces(writable: Path, patient: str, tmp_path: Path) -> None:
    with Collection(writable) as opened, opened.writer() as writer:
        active, keys = contents.state_settings(tmp_path / "state"), opened.patient_keys()
        other = next(image for number, image in opened.image_ids().items() if keys[number] != patient)
        open_state(active).check()
        contents.store_segmentation(active, other, "final", ".nrrd", b"of another patient")
        writer.erase_patient([patient])
    assert verify(writable, patient, tmp_path / "state") == (0, "no problems\n")


def test_what_is_stored_about_images_deleted_earlier_is_erased(
    writable: Path, patient: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collection(writable) as opened, opened.writer() as writer:
        images = writer.images_of(patient)
        monkeypatch.setattr(contents, "IMAGES", [*images, *(f"{number:032x}" for number in range(6))])
        contents.make_state(tmp_path / "state")
        writer.delete(images[:1])
        erase_everywhere(writer, contents.state_settings(tmp_path / "state"), [patient])
        assert writer.images_of(patient) == []
    assert verify(writable, patient, tmp_path / "state") == (0, "no problems\n")
