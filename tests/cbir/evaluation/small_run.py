"""A small collection of real files, and `cbir evaluate run` on it."""

import csv
import json

import cv2
import numpy as np
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.descriptors import get as descriptor
from cbir.errors import CbirError
from cbir.images import read_images
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.records.records import add_labels, describe_record

COUNT = 48
FAST = ("--jobs", "1", "--no-pictures")


def draw(path, number, side=48):
    """A picture: fine texture for even numbers, coarse for odd ones."""
    noise = np.random.default_rng(number).integers(0, 256, (side, side), np.uint8)
    cv2.imwrite(str(path), cv2.GaussianBlur(noise, (0, 0), 4) if number % 2 else noise)


def labels_of(number):
    """Two labels; one image of a class of its own, two without; patients of four images; grades and codes."""
    label = {45: "rare", 46: "", 47: ""}.get(number, "coarse" if number % 2 else "fine")
    return {
        "label": label,
        "half": str(number // 24),
        "grade": str(number % 4),
        "irma_code": f"112{number % 3}-120-{'7*' if number == 5 else '70'}0-500",
        "patient": f"Doe^{number // 4}",
    }


def index(folder, pictures):
    made = Collection.create(folder, profiles.get("tamura"))
    entries = []
    for number in range(COUNT):
        path = pictures / f"{number}.png"
        draw(path, number)
        image = next(iter(read_images(path)))
        found = describe_record(image, source=str(path), source_stamp="1", secret=made.secret)
        entries.append((add_labels(found, labels_of(number), made.secret), descriptor("tamura")(image)))
    with made.writer() as writer:
        writer.add(entries)
        writer.finish()
    return made


def run(*arguments, code=0):
    """Run `cbir evaluate run` in this process; what it printed."""
    done = CliRunner().invoke(app, ["evaluate", "run", *map(str, arguments)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.output


def refused(*arguments):
    """Run `cbir evaluate run` in this process; the reason why it refuses."""
    done = CliRunner().invoke(app, ["evaluate", "run", *map(str, arguments)])
    if isinstance(done.exception, CbirError):
        return str(done.exception)
    assert done.exit_code == 2, done.output
    return done.output


def summary(out):
    return json.loads((out / "summary.json").read_text())


def rows(out):
    with (out / "queries.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def lines(path):
    return [line.split() for line in path.read_text().splitlines()]
