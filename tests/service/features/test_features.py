"""Features of other distributions: what is refused, and that an erasure leaves none out."""

import re
from contextlib import nullcontext
from pathlib import Path

import pytest

from cbir import settings
from cbir.store import Collection
from cbir.store.erasure import EraserFailed, erase_deleted
from cbir.system.features import Feature, FeatureUnusable, features
from service.app import create_app
from service.collections.app_state import EXTENSION
from service.languages.catalogues import Language, folders
from service.pages.page_files import page_tags
from service.state.schema import tables
from tests.installed_features import InstalledFeatures, fixture_install_feature
from tests.service.conftest import command, problem

__all__ = ["fixture_install_feature"]

OWN = {
    "annotate", "audit", "explain", "federation", "fiftyone", "grade", "label-studio", "map", "monailabel", "oidc",
    "report", "saved", "similar", "usage",
}  # fmt: skip
ERASER = """
FEATURE = Feature(name="notes", mentions="notes:mention", eraser="notes:erase")

def mention(settings):
    return {{}}

def erase(settings, keys, image_ids):
    {body}
"""
TABLE = """
from sqlalchemy import Column, Table, Text
from service.state.schema import tables

if "notes" not in tables.tables:
    notes = Table("notes", tables, Column("image", Text, primary_key=True), Column("note", Text))
"""


def patient_of(folder: Path) -> str:
    with Collection(folder) as collection:
        return next(key for key in collection.patient_keys().values() if key)


def images_of(folder: Path) -> int:
    with Collection(folder) as collection:
        return len(collection)


def refused_erasure(folder: Path) -> str:
    """Return what `cbir collection erase-patient` prints when it is refused, and erases nothing."""
    patient, images = patient_of(folder), images_of(folder)
    code, printed, error = command("collection", "erase-patient", "--yes", patient, "--collection", folder)
    assert code == 2
    assert "erased" not in printed
    assert patient not in error
    assert images_of(folder) == images
    return error


def test_our_features_are_installed() -> None:
    assert {feature.name for feature in features()} == OWN


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("FEATURE = Feature(name='notes', tables=('notes',))", "it stores data, and names no eraser"),
        ("FEATURE = Feature(name='notes', checks={'notes': 'notes:check'})", "names no eraser"),
        ("import package_that_is_missing", "No module named 'package_that_is_missing'"),
        ("raise RuntimeError('of patient P1')", "RuntimeError at "),
        ("FEATURE = Feature(name='other')", "notes:FEATURE is no Feature of this name"),
        ("FEATURE = 'notes'", "is no Feature"),
    ],
)
def test_a_feature_that_cannot_be_imported_fails_start_and_erasures(
    writable: Path, install_feature: InstalledFeatures, source: str, reason: str
) -> None:
    install_feature("notes", source)
    with pytest.raises(FeatureUnusable, match=r"^feature notes: ") as refused:
        create_app(writable, settings.load(job_workers=0))
    assert reason in str(refused.value)
    assert "P1" not in str(refused.value)
    error = refused_erasure(writable)
    assert error.startswith("cbir: feature notes: ")
    assert error.count("\n") == 1


def test_an_eraser_that_cannot_be_imported_fails_start_and_erasures(
    writable: Path, install_feature: InstalledFeatures
) -> None:
    install_feature("notes", 'FEATURE = Feature(name="notes", eraser="notes:no_such_function")')
    with pytest.raises(FeatureUnusable, match="feature notes: notes:no_such_function cannot be loaded"):
        create_app(writable, settings.load(job_workers=0))
    assert "notes:no_such_function cannot be loaded" in refused_erasure(writable)


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ("jobs={'index': 'notes:OTHER'}", "there is another kind of job index"),
        ("access='notes:OTHER'", "there is another access rule of GET /v1/images"),
        ("routes=('notes:no_such_blueprint',)", "notes:no_such_blueprint cannot be loaded"),
        ("menu=('notes:no_such_page',)", "notes:no_such_page cannot be loaded"),
        (
            "tables=('notes.no_such_module',), eraser='builtins:print'",
            "notes.no_such_module cannot be loaded",
        ),
        ("page_modules={'search': ('note.js',)}", "there is no page search, or no file static/note.js"),
        ("pages={'notes': ('note.js',)}", "there is no page notes, or no file static/note.js"),
        ("pages={'search': ('page.css', 'theme.js')}", "there is another page search"),
        ("pages={'saved': ('page.css', 'theme.js')}", "there is another page saved"),
    ],
)
def test_a_feature_that_does_not_fit_fails_start(
    writable: Path, install_feature: InstalledFeatures, declared: str, reason: str
) -> None:
    install_feature(
        "notes", f"OTHER = {{'GET /v1/images': None}}\nFEATURE = Feature(name='notes', {declared})"
    )
    with pytest.raises(FeatureUnusable, match=f"feature notes: {reason}"):
        create_app(writable, settings.load(job_workers=0))


def test_a_feature_brings_files_and_parts_of_pages(
    writable: Path, install_feature: InstalledFeatures
) -> None:
    file = install_feature.folder / "static" / "notes" / "note.js"
    file.parent.mkdir(parents=True)
    file.write_text("// notes")
    (install_feature.folder / "languages").mkdir()
    (install_feature.folder / "languages" / "de.po").write_text('msgid "A note"\nmsgstr "Eine Notiz"\n')
    declared = (
        "package='notes', page_facts='notes:note_facts', "
        "page_modules={'search': ('notes/note.js',), 'browse': ('notes/note.js',)}, "
        "pages={'notes': ('page.css', 'notes/note.js')}"
    )
    install_feature(
        "notes", f"def note_facts(*_): return {{'most': 7}}\nFEATURE = Feature(name='notes', {declared})"
    )
    assert Language("de", folders()).translations.gettext("A note") == "Eine Notiz"
    app = create_app(writable, settings.load(job_workers=0))
    client = app.test_client()
    with app.test_request_context():
        assert re.findall('/static/([^"]+)', page_tags("notes")) == ["page.css", "notes/note.js"]
    with client.get("/static/notes/note.js") as answer, client.get("/static/theme.js") as other:
        assert answer.text == "// notes"
        assert answer.headers["Cache-Control"] == other.headers["Cache-Control"]
    assert client.get("/static/notes/../notes.py").status_code == 404
    for address, script in (("/", "search"), ("/browse", "browse")):
        page = client.get(address).text
        assert page.index("/static/notes/note.js") < page.index(f"/static/{script}/{script}.js")
        assert '"notes": {"most": 7}' in page


@pytest.mark.parametrize("name", ["static/theme.js", "static/map/map.js", "templates/index.html"])
def test_a_file_that_another_feature_or_the_core_has_fails_start(
    writable: Path, install_feature: InstalledFeatures, name: str
) -> None:
    file = install_feature.folder / name
    file.parent.mkdir(parents=True)
    file.touch()
    install_feature("notes", "FEATURE = Feature(name='notes', package='notes')")
    with pytest.raises(FeatureUnusable, match=f"feature notes: there is another file {name}"):
        create_app(writable, settings.load(job_workers=0))


def test_two_features_of_one_name_fail_start(install_feature: InstalledFeatures) -> None:
    install_feature("notes", 'FEATURE = Feature(name="notes")')
    install_feature("more", 'FEATURE = Feature(name="notes", erases_deleted=True)')
    entries = install_feature.folder / "more-1.0.dist-info" / "entry_points.txt"
    entries.write_text("[cbir.features]\nnotes = more:FEATURE\n")
    with pytest.raises(FeatureUnusable, match="two packages bring a feature notes"):
        features()


def test_a_table_that_is_not_declared_fails_start(writable: Path, install_feature: InstalledFeatures) -> None:
    install_feature("notes", TABLE + 'FEATURE = Feature(name="notes")')
    try:
        with pytest.raises(FeatureUnusable, match="the table notes belongs to no feature"):
            create_app(writable, settings.load(job_workers=0))
    finally:
        tables.remove(tables.tables["notes"])


def test_an_eraser_of_an_earlier_version_is_not_left_out(
    writable: Path, install_feature: InstalledFeatures
) -> None:
    install_feature("notes", ERASER.format(body="pass"))
    entries = install_feature.folder / "notes-1.0.dist-info" / "entry_points.txt"
    entries.write_text("[cbir.erasers]\nnotes = notes:erase\n")
    assert "notes:erase is an eraser for an earlier version" in refused_erasure(writable)


def test_an_eraser_that_raises_fails_the_erasure(writable: Path, install_feature: InstalledFeatures) -> None:
    install_feature("notes", ERASER.format(body="raise RuntimeError(f'no row of {keys}')"))
    error = refused_erasure(writable)
    assert error.startswith("cbir: nothing counts as erased: the feature notes failed (RuntimeError at ")
    client = create_app(writable, settings.load(job_workers=0)).test_client()
    patient, images = patient_of(writable), images_of(writable)
    answer = client.delete(f"/v1/patients/{patient}")
    assert "the feature notes failed" in problem(answer, 500)
    assert patient not in answer.text
    assert images_of(writable) == images


def test_what_was_stored_meanwhile_is_erased_by_a_repetition(
    writable: Path, install_feature: InstalledFeatures
) -> None:
    calls, works = install_feature.folder / "calls", install_feature.folder / "works"
    calls.touch()
    body = (
        f"calls = __import__('pathlib').Path({str(calls)!r})\n"
        "    calls.write_text(calls.read_text() + f'{sorted(image_ids)}\\n')\n"
        f"    assert calls.read_text().count('\\n') == 1 or calls.with_name({works.name!r}).exists()"
    )
    install_feature("notes", ERASER.format(body=body))
    app = create_app(writable, settings.load(job_workers=0))
    client, thumbnails = app.test_client(), app.extensions[EXTENSION].thumbnails
    listed = client.get("/v1/images").json["items"]
    patient = next(item["patient_key"] for item in listed if item["patient_key"])
    ids = sorted(item["image_id"] for item in listed if item["patient_key"] == patient)
    assert client.get(f"/v1/images/{ids[0]}/thumbnail").status_code == 200
    failure = problem(client.delete(f"/v1/patients/{patient}"), 500)
    assert failure.startswith(
        "the images are erased, but perhaps not what was stored about them meanwhile: the fea"
    )
    assert patient not in failure
    assert thumbnails.size == 0
    assert images_of(writable) == len(listed) - len(ids)
    verification = ("collection", "verify", "--erased", patient, "--collection", writable)
    assert (
        "unfinished_erasure.json still contains the patient's key; erase the patient again"
        in command(*verification)[1]
    )
    works.touch()
    assert client.delete(f"/v1/patients/{patient}").json["erased"] == len(ids)
    assert calls.read_text() == f"{ids}\n" * 4
    assert command(*verification)[:2] == (0, "no problems\n")


def test_an_eraser_gets_keys_and_images(writable: Path, install_feature: InstalledFeatures) -> None:
    note = install_feature.folder / "erased"
    body = f"__import__('pathlib').Path({str(note)!r}).write_text(f'{{keys}} {{image_ids}}')"
    install_feature("notes", ERASER.format(body=body))
    patient = patient_of(writable)
    with Collection(writable) as collection:
        rows = [row for row, key in collection.patient_keys().items() if key == patient]
        ids = [collection.image_ids()[row] for row in rows]
    code, *_ = command("collection", "erase-patient", "--yes", patient, "--collection", writable)
    assert code == 0
    written = note.read_text()
    assert all(name in written for name in [patient, *ids])


@pytest.mark.parametrize("asks", [True, False])
def test_deleted_images_reach_the_erasers_that_ask_for_them(
    install_feature: InstalledFeatures, asks: bool
) -> None:
    source = ERASER.format(body="raise ValueError")
    install_feature("notes", source.replace('erase")', f'erase", erases_deleted={asks})'))
    with pytest.raises(EraserFailed, match="the feature notes failed") if asks else nullcontext():
        erase_deleted(settings.load(), ["abc"])


def test_images_stay_until_what_belongs_to_them_is_erased(
    writable: Path, install_feature: InstalledFeatures
) -> None:
    install_feature(
        "notes", ERASER.format(body="raise ValueError").replace('erase")', 'erase", erases_deleted=True)')
    )
    with Collection(writable) as collection:
        image_id, another, *_ = collection.image_ids().values()
    client = create_app(writable, settings.load(job_workers=0)).test_client()
    assert "the feature notes failed" in problem(client.delete(f"/v1/images/{image_id}"), 500)
    answer = client.post("/v1/images/delete", json={"ids": [image_id, another]})
    assert "the feature notes failed" in problem(answer, 500)
    code, _, error = command("collection", "delete", "--yes", image_id, "--collection", writable)
    assert code == 2
    assert "the feature notes failed" in error
    with Collection(writable) as collection:
        assert {image_id, another} <= set(collection.image_ids().values())


def test_a_reference_says_what_it_is_of() -> None:
    with pytest.raises(FeatureUnusable, match="feature notes: json:no_such cannot be loaded"):
        Feature(name="notes").load("json:no_such")
