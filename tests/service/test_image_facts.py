"""What the headers of a rendering and of a picture say: frames, spacing, modality and window."""

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from flask.testing import FlaskClient
from PIL import Image
from pydicom import Dataset, dcmread
from pydicom.data import get_testdata_file

from cbir import settings
from cbir.images.dicom_decoder import pixel_spacing
from cbir.store import Collection
from service.app import create_app
from tests.service.conftest import problem
from tests.service.dicom_collection import make


def render(client: FlaskClient, path: str | Path, **params: str) -> dict[str, str]:
    data = Path(path).read_bytes()
    answer = client.post("/v1/render", query_string=params, data=data, content_type="image/*")
    assert answer.status_code == 200, answer.text
    return dict(answer.headers)


def test_a_scan_has_spacing_and_modality(client: FlaskClient) -> None:
    path = str(get_testdata_file("CT_small.dcm"))
    headers = render(client, path, window="40,400")
    spacing = [float(side) for side in headers["Image-Spacing"].split(",")]
    assert spacing == pytest.approx([float(side) for side in dcmread(path).PixelSpacing])
    facts = headers["Image-Modality"], headers["Image-Frames"], headers["Image-Window"]
    assert facts == ("CT", "1", "40,400")


def test_pages_are_counted(client: FlaskClient, tmp_path: Path) -> None:
    pages = [Image.fromarray(np.full((20, 30), value, np.uint8)) for value in (10, 20, 30)]
    pages[0].save(tmp_path / "three.tiff", save_all=True, append_images=pages[1:])
    headers = render(client, tmp_path / "three.tiff", frame="3")
    assert (headers["Image-Frames"], headers["Image-Size"]) == ("3", "30,20")
    assert not {"Image-Spacing", "Image-Modality", "Image-Window"} & set(headers)


def test_spacing_of_a_frame() -> None:
    dataset, item, group = Dataset(), Dataset(), Dataset()
    assert pixel_spacing(dataset, 0) is None
    dataset.ImagerPixelSpacing = [0.2, 0.1]
    assert pixel_spacing(dataset, 0) == (0.2, 0.1)
    dataset.PixelSpacing = [0.7, 0.6]
    assert pixel_spacing(dataset, 0) == (0.7, 0.6)
    item.PixelSpacing = [0.5, 0.4]
    group.PixelMeasuresSequence = [item]
    dataset.PerFrameFunctionalGroupsSequence = [Dataset(), group]
    assert [pixel_spacing(dataset, index) for index in (0, 1)] == [(0.7, 0.6), (0.5, 0.4)]
    for nothing in ([0, 1], [0.5], None):
        dataset.PixelSpacing = nothing
        dataset.ImagerPixelSpacing = nothing
        assert pixel_spacing(dataset, 0) is None


def test_picture_in_a_window(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder, slices = make(tmp_path_factory)
    client = create_app(folder, settings.load()).test_client()
    uid = slices[0].SOPInstanceUID
    with Collection(folder) as collection:
        (record,) = (one for _, one in collection.iterate() if one.instance == uid)
    address = f"/v1/images/{record.image_id}/picture"
    plain = client.get(address)
    windowed = client.get(f"{address}?window=40,10")
    assert windowed.headers["Image-Window"] == "40,10"
    assert windowed.data != plain.data
    assert windowed.headers["ETag"] != plain.headers["ETag"]
    problem(client.get(f"{address}?window=40,0"), 422)


def test_a_bad_file_among_several_is_named_by_its_number(client: FlaskClient, pictures: list[Path]) -> None:
    files = [(BytesIO(path.read_bytes()), "image") for path in (pictures[0], Path(__file__))]
    answer = client.post("/v1/search", data={"image": files})
    assert problem(answer, 422).startswith("image 2 of 2 is not a PNG")
