"""Every command in an environment without extras: it works, or names the extra that it needs in one line."""

import json
import subprocess
import sys

import cv2
import numpy as np
import pytest
import tifffile
import typer.core
import typer.main

from cbir.api.main import app
from tests.bare_environment import run_bare
from tests.cbir.images.synthetic_dicom import dicom_set, written

RUN = """
import contextlib, io, json, sys
from cbir.api.main import main

for line in open("commands.txt"):
    out, error, code = io.StringIO(), io.StringIO(), 0
    sys.argv = ["cbir", *line.split()]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        except BaseException as bug:
            code = repr(bug)
    print(json.dumps([code, out.getvalue(), error.getvalue()]))
"""
WORKS = """
dataset phantoms scans --count 24 --size 64
dataset phantoms lenses --slit-lamp --count 12 --size 96
index files scans --labels scans/manifest.csv --collection collection --profile huang2012 --jobs 1
index files lenses --labels lenses/manifest.csv --collection graded --profile huang2012 --jobs 1
admin config
collection audit --collection collection --out audit-report
admin federate list
admin federate export-transform --collection collection transform.json
describe scans/phantom-000003.png --descriptor tamura
search scans/phantom-000003.png --collection collection -k 2
search scans/phantom-000003.png --collection collection --rerank eprf
search scans/phantom-000003.png --collection collection --format html
search scans --collection collection --output hits.csv
collection info --collection collection
collection verify --collection collection
collection labels --collection collection
collection quarantine --collection collection
annotate to-label-studio --collection collection --study-dir paired --out tasks
collection compact --collection collection
collection export --collection collection export
collection to-fiftyone --collection collection voxels
dataset fiftyone voxels voxels.csv
collection backup --collection collection backup
collection restore backup restored
collection compare collection restored --label anatomy
collection copy collection copied
collection redescribe tamura --collection collection --profile tamura
collection alias current.alias collection
collection delete --collection restored --where label=chest-pa --yes
collection erase-patient --collection restored PH0000-0000001 --yes
encoder list
encoder show lite0-max
grade slit-lamp fit lenses/outlines.csv --out lens-model
grade slit-lamp features lenses/lens-000003.png --model lens-model
grade fit --collection graded --ranker ranking-svm
grade predict lenses/lens-000003.png --collection graded
grade evaluate --collection graded --ranker ranking-svm --folds 2
irma phantoms irma
admin token create --scope search
admin token list
evaluate study create first --collection collection --a none --b diffusion --queries 2 -k 3
evaluate study list
evaluate study export first answers.csv
evaluate study create second --collection collection --a none --b diffusion --queries 1 -k 2
evaluate study delete second --yes
admin usage show
admin usage export usage.csv
admin usage delete --yes
"""
REFUSED = """
collection build-index --collection collection
admin federate adopt-transform --collection collection missing.json
collection tune --collection graded
collection regions --collection collection
annotate agreement --study-dir missing
annotate export answers.json --study-dir missing
annotate from-label-studio missing.json --study-dir missing
irma manifest missing out
dataset medmnist missing.npz out
encoder add mine missing.onnx
evaluate fuse missing.run --out fused.run
irma evaluate missing --out irma-results
irma score --tree missing --truth missing --run missing
irma answer --collection missing --queries missing --out missing.run
search --collection collection --text chest
admin state copy
search --study 1.2.3 --collection collection
admin token revoke missing
"""
NEEDS = """
annotate label --collection graded --study-dir missing : deep
encoder get hf:microsoft/rad-dino : hub
train rank missing scans : deep
annotate serve --collection graded : deep,serve
admin audit-log export : serve
admin audit-log verify : serve
admin audit-log head : serve
admin federate check --collection collection : serve
admin federate search scans/phantom-000003.png --collection collection : serve
serve --collection collection : serve
admin state verify : serve
admin worker --collection collection : serve
annotate simulate --collection graded : deep
collection audit --collection collection --privacy --out private : privacy
encoder get torchvision:resnet18 : hub
annotate to-label-studio --collection collection --study-dir unread --out unread-tasks --find-text : intake
collection to-fiftyone --collection collection unread-voxels --find-text : intake
collection map --collection collection : map
collection info --collection postgresql+psycopg://cbir@localhost/images : postgres
collection copy collection postgresql+psycopg://cbir@localhost/images?collection=copied : postgres
evaluate study report first : evaluate
evaluate replay --collection collection --log missing.csv --rerank none --out replay : evaluate
evaluate run --collection collection --out results : evaluate
grade evaluate --collection graded --ranker cnn : deep
index files scans --collection collection --ray local : ray
index files s3://bucket/images --collection collection : remote
index files xnat://BONES --collection collection : client
index dicomweb http://127.0.0.1:1/dicom-web --collection collection : pacs
receive --collection collection : pacs
search --report scans/phantom-000003.png --collection collection --out report.dcm : pacs
train embedding --data scans/manifest.csv --out model : deep
train ranker --data scans/manifest.csv --positive chest-pa --out model : deep
train sorter --out model : deep
"""


def lines(text):
    return text.strip().splitlines()


def leaves(command, path=""):
    """Yield the names of all commands below one."""
    if not isinstance(command, typer.core.TyperGroup):
        yield path.strip()
        return
    for name in command.list_commands(None):
        yield from leaves(command.get_command(None, name), f"{path} {name}")


def test_the_lists_have_every_command():
    listed = lines(WORKS + REFUSED + NEEDS)
    missing = [
        name
        for name in leaves(typer.main.get_command(app))
        if not any(f"{line} ".startswith(f"{name} ") for line in listed)
    ]
    assert missing == []


@pytest.mark.slow
def test_every_command_without_extras(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CBIR_STATE_FOLDER", str(tmp_path / "state"))
    needs = dict(line.split(" : ") for line in lines(NEEDS))
    commands = [*lines(WORKS), *lines(REFUSED), *needs]
    (tmp_path / "commands.txt").write_text("\n".join(commands))
    results = dict(zip(commands, map(json.loads, lines(run_bare("-c", RUN)[0])), strict=True))
    for command in lines(WORKS):
        assert results[command][0] == 0, (command, results[command])
    for command in lines(REFUSED):
        code, _, error = results[command]
        assert code == 2, (command, error)
        assert "pip install" not in error
    for command, extra in needs.items():
        code, _, error = results[command]
        assert code == 2, (command, error)
        assert f"pip install '.[{extra}]'" in error.splitlines()[-1], command
        assert "Traceback" not in error


def test_the_reader_of_objects_is_imported_without_the_extra_client():
    code = "import sys; sys.modules['httpx'] = None; import cbir.ingest.object_store"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr


MAIN = "import sys; from cbir.api.main import main; sys.argv[0] = 'cbir'; main()"
API = """
import cbir, sys
import cbir.system.remedies
from service.client import messages
cbir.index("scans", "second", profile="tamura")
with cbir.open("collection") as db:
    print([hit.rank for hit in db.search("scans/d.dcm", k=3)])
print(sorted({"flask", "werkzeug", "babel", "httpx"} & set(sys.modules)))
"""


@pytest.mark.slow
def test_files_of_every_kind_are_indexed_and_searched_without_extras(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scans = tmp_path / "scans"
    scans.mkdir()
    rows = np.random.default_rng(0).integers(0, 256, (4, 48, 40), dtype=np.uint8)
    for name, grey in zip(("a.png", "b.jpg"), rows, strict=False):
        assert cv2.imwrite(str(scans / name), grey)
    tifffile.imwrite(scans / "c.tif", rows[2].astype(np.uint16) * 200, compression="zlib")
    (scans / "d.dcm").write_bytes(written(dicom_set(rows[3].astype(np.int16), PatientID="P1")))
    run_bare("-c", MAIN, "index", "scans", "--collection", "collection", "--jobs", "1")
    for name in sorted(path.name for path in scans.iterdir()):
        found, _ = run_bare("-c", MAIN, "search", f"scans/{name}", "--collection", "collection", "-k", "3")
        assert found.count("/scans/") == 3, name
    assert lines(run_bare("-c", API)[0])[-2:] == ["[1, 2, 3]", "[]"]
