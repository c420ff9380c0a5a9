"""The lines of Python that the description of the API shows, each sent to a service."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cbir.search import example_values as example
from service.client import Client, ServiceError
from tests.indexer.receiving import file_of, slices
from tests.service.conftest import serving

PATHS = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text(encoding="utf-8"))["paths"]
SAMPLES = {
    operation["operationId"]: sample["source"]
    for path in PATHS.values()
    for operation in path.values()
    if not re.search("^deprecated_|_of_default$", operation["operationId"])
    for sample in operation.get("x-codeSamples", [])
}
# What the collection of the test has not: images by the examples' UIDs, a case, a grader, a map.
REFUSED = {403, 404, 409, 410, 503}


@pytest.fixture(scope="module")
def client(indexed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("own")
    with (
        serving(Path(shutil.copytree(indexed, folder / "collection"))) as running,
        Client(running.address) as sent,
    ):
        yield sent


@pytest.mark.parametrize("name", SAMPLES)
def test_the_line_is_a_valid_request(
    name: str, client: Client, pictures: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, other = [record.image_id for record, _ in zip(client.images(), range(2), strict=False)]
    shutil.copy(pictures[0], tmp_path / "query.png")
    (dataset,) = slices(1, 48, seed=5)
    (tmp_path / "slice.dcm").write_bytes(file_of(dataset))
    monkeypatch.chdir(tmp_path)
    source = SAMPLES[name].replace(example.IMAGE_ID, image).replace(example.OTHER_IMAGE_ID, other)
    status = 200
    try:
        exec(source.replace("modality", "label"), {"client": client})
    except ServiceError as error:
        status = error.problem.status
    assert status in {200, *REFUSED}, source


def test_most_operations_have_a_line() -> None:
    assert len(SAMPLES) > 70
