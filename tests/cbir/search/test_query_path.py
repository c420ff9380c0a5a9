"""A query passes through few files, so that its way can be read."""

from pathlib import Path
from typing import Any

import pytest

import cbir
from cbir.images import read_images
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.records.records import describe_record
from tests.cbir.evaluation.small_run import draw
from tests.query_path import stays, trace_files

MOST_FILES = 50  # of a query by image
MOST_STAYS = 31  # each in another room than the one before


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("pictures")
    paths = [folder / f"{number}.png" for number in range(30)]
    for number, path in enumerate(paths):
        draw(path, number)
    return paths


@pytest.fixture(scope="module")
def collection(pictures: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    profile = profiles.get("lite0-max")
    describe = profile.load_descriptor("cpu")
    entries = []
    with Collection.create(tmp_path_factory.mktemp("indexed") / "collection", profile) as created:
        for path in pictures:
            image = next(iter(read_images(path)))
            record = describe_record(image, source=str(path), source_stamp="1", secret=created.secret)
            entries.append((record, describe(image)))
        with created.writer() as writer:
            writer.add(entries)
            writer.finish()
        return created.folder


@pytest.mark.parametrize("options", [{}, {"rerank": "eprf"}], ids=["default", "eprf"])
def test_a_query_passes_through_few_files(
    pictures: list[Path], collection: Path, options: dict[str, Any]
) -> None:
    with cbir.open(collection, device="cpu") as db:
        assert len(db.search(pictures[0], k=5, **options)) == 5
        files = trace_files(lambda: db.search(pictures[0], k=5, **options))
    assert "cbir/search/searcher.py" in files
    assert len(files) <= MOST_FILES, files
    assert len(stays(files)) <= MOST_STAYS, stays(files)
