"""`cbir train embedding`."""

import csv
import hashlib
import json
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.descriptors.networks import model_card
from cbir.errors import CbirError
from cbir.ingest.manifest import Manifest
from cbir.learn.training.embedding_training import EmbeddingRecipe, train_embedding
from cbir.learn.training.labelled_examples import order_classes
from tests.cbir.learn.training.stripes import SHORT, SIDE, command, made
from tests.rights import open_to_others


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["10", "2", "0.5", "2"], ["0.5", "2", "10"]),
        (["10", "2", "mild"], ["10", "2", "mild"]),
        (["nan", "1"], ["1", "nan"]),
        ([], []),
    ],
)
def test_classes_in_order(labels, expected):
    assert order_classes(labels) == expected


class TestCommand:
    def test_card_and_report(self, model, images):
        card = json.loads((model / model_card.EMBEDDING_CARD).read_text())
        assert card["model"] == {"backbone": "small", "pooling": "gem", "dimensions": 16, "side": SIDE}
        assert card["data"]["classes"] == {"kind 0": 20, "kind 1": 20, "kind 2": 20}
        assert card["data"]["split_by"].startswith("patient")
        assert card["training"]["loss"] == "multi-similarity"
        assert set(card["results"]) == {"validation", "test"}
        assert set(card["versions"]) == {"cbir", "torch", "torchvision"}
        assert "Not a medical device" in card["intended_use"]
        assert len(card["data"]["manifest_sha256"]) == 64
        report = (model / "report.html").read_text()
        assert "<svg" in report
        assert ", where all rows, " in report
        assert "data:image/" in report
        assert not [part for part in ('src="http', "src=http", "person 1") if part in report]
        assert len((model / "history.csv").read_text().splitlines()) == 3
        assert list((model / "events").glob("events.*"))

    def test_the_parts_are_told(self, model, images):
        with (model / "split.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        card = json.loads((model / model_card.EMBEDDING_CARD).read_text())
        assert Counter(row["split"] for row in rows) == card["data"]["images"]
        assert {row["path"] for row in rows} == {str(path) for path in images.glob("*.png")}
        told = dict(Manifest(images / "manifest.csv").rows())
        again = dict(Manifest(model / "split.csv").rows())
        changed = {path: {name: again[path][name] for name in ("split", "patient")} for path in told}
        assert {path: labels | changed[path] for path, labels in told.items()} == again
        for patient in {row["patient"] for row in rows}:
            assert len({row["split"] for row in rows if row["patient"] == patient}) == 1

    def test_patients_are_numbered(self, model, images):
        told = dict(Manifest(images / "manifest.csv").rows())
        split = Manifest(model / "split.csv").rows()
        numbers = {(told[path]["patient"], labels["patient"]) for path, labels in split}
        patients, pseudonyms = zip(*numbers, strict=True)
        assert len(set(patients)) == len(set(pseudonyms)) == len(numbers)
        manifest = hashlib.sha256((images / "manifest.csv").read_bytes()).hexdigest()[:12]
        assert set(pseudonyms) == {f"{manifest}-{number}" for number in range(1, len(numbers) + 1)}
        assert not [name for name in set(patients) if name in (model / "split.csv").read_text()]

    def test_only_the_owner_reads_the_folder(self, model):
        readable = open_to_others(model)
        assert not [path for path in readable if "events.out" not in path], (
            "TensorBoard's are in a private folder"
        )

    def test_rows_come_while_it_trains(self, material, tmp_path):
        told = []
        found = train_embedding(
            made(), material, EmbeddingRecipe(**SHORT), tmp_path, on_epoch=lambda rows: told.append(len(rows))
        )
        assert told == [1, 2, 3] == list(range(1, len(found["history"]) + 1))

    def test_killed_and_started_again(self, model, images, tmp_path):
        killed, args = tmp_path / "killed", ("--epochs", "2", "--save-every", "0")
        process = subprocess.Popen(
            [sys.executable, "-m", "cbir.api.main", *command(images, killed, *args)],
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + 60
        while not (killed / "checkpoint.pt").exists() and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert (killed / "checkpoint.pt").exists()
        assert not (killed / model_card.EMBEDDING_CARD).exists()
        again = CliRunner().invoke(app, command(images, killed, *args), catch_exceptions=False)
        assert again.exit_code == 0
        one, other = (
            folder / model_card.EMBEDDING_WEIGHTS for folder in (model, killed)
        )  # never stopped; killed
        assert one.read_bytes() == other.read_bytes()

    @pytest.mark.parametrize(
        ("more", "told"),
        [
            (("--column", "nothing"), "no column nothing"),
            (("--loss", "best"), "no loss"),
            (("--backbone", "huge"), "huge"),
            (("--where", "label=kind 0"), "two classes"),
            (("--device", "nowhere"), "no device"),
            (("--loss", "ordinal"), "'kind 0' in label is not a number"),
        ],
    )
    def test_what_does_not_fit_is_told(self, more, told, images, tmp_path):
        found = CliRunner().invoke(app, command(images, tmp_path / "out", *more))
        assert isinstance(found.exception, CbirError)
        assert told in str(found.exception)
