"""The feature of docs/features.md, as a distribution of its own: command, route, page, table and eraser."""

import dataclasses
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cbir.store import Collection
from cbir.system.features import Feature

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "tests" / "example_feature"
SHOW = """
import json, sys
from cbir import settings
from service.app import create_app
from service.routes.openapi import build_openapi

app = create_app(sys.argv[1], settings.load(job_workers=0))
client = app.test_client()
paths = build_openapi(app)["paths"]
print(json.dumps({
    "operation": paths["/v1/notes"]["get"],
    "notes": client.get("/v1/notes").json["notes"],
    "page": client.get("/notes").text,
}))
"""


@pytest.fixture(name="site")
def fixture_site(tmp_path: Path) -> Path:
    """A folder as pip would leave it: the package, and its metadata."""
    folder = tmp_path / "site-packages"
    metadata = folder / "image_notes-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / "image_notes").symlink_to(EXAMPLE / "image_notes")
    groups = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]
    lines = [
        line
        for group, entries in groups.items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))
    ]
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: image-notes\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    return folder


def run(site: Path, *arguments: str | Path) -> str:
    paths = [str(site), str(ROOT)]
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_example_adds_a_command_a_route_a_page_and_a_table(site: Path, writable: Path) -> None:
    cbir = "-m", "cbir.api.main"
    with Collection(writable) as collection:
        row, patient = next((row, key) for row, key in collection.patient_keys().items() if key)
        image_id = collection.image_ids()[row]
    assert "Add a note about an image." in run(site, *cbir, "--help")
    run(site, *cbir, "note", image_id, "of the patient")
    run(site, *cbir, "note", "another-image", "of nobody")
    shown = run(site, "-c", SHOW, writable)
    assert '"operationId": "notes"' in shown
    assert '"x-scope": "search"' in shown
    assert '"notes": ["of the patient", "of nobody"]' in shown
    assert "<li>of the patient</li>" in shown
    assert re.search(r'href=\\"/notes\\" aria-current=\\"page\\">Notes</a>', shown)
    run(site, *cbir, "collection", "erase-patient", "--yes", patient, "--collection", writable)
    shown = run(site, "-c", SHOW, writable)
    assert '"notes": ["of nobody"]' in shown
    state = Path(os.environ["XDG_STATE_HOME"])
    assert not [
        path for path in state.rglob("*") if path.is_file() and b"of the patient" in path.read_bytes()
    ]
    assert run(site, *cbir, "admin", "state", "verify") == "no problems\n"


def test_the_document_shows_the_example_as_it_is() -> None:
    text = (ROOT / "docs" / "features.md").read_text(encoding="utf-8")
    blocks = dict(
        re.findall(r'^```\w+ title="image-notes/([^"]+)"\n(.*?)^```$', text, re.MULTILINE | re.DOTALL)
    )
    assert set(blocks) == {"pyproject.toml", "image_notes/__init__.py", "image_notes/notes.py"}
    for name, block in blocks.items():
        assert block == (EXAMPLE / name).read_text(encoding="utf-8"), name


def test_the_document_names_every_field() -> None:
    text = (ROOT / "docs" / "features.md").read_text(encoding="utf-8")
    fields = [field.name for field in dataclasses.fields(Feature) if field.name != "name"]
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == fields
