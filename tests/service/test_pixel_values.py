"""Pixel values of stored images and of uploads, with what a viewer needs to window and to measure them."""

import gzip
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import httpx
import numpy as np
import pytest
import tifffile
from flask import Flask
from flask.testing import FlaskClient
from numpy.typing import NDArray

from cbir import settings
from cbir.store import Collection
from service.access.token_stores import Scope, TokenStore
from service.app import create_app
from service.client import Client
from tests.cbir.images.synthetic_dicom import dicom_set, written
from tests.cbir.images.synthetic_series import write_nifti
from tests.service.conftest import cbir, problem

SIDE = 96
HU = np.random.default_rng(1).integers(-1024, 3000, (SIDE, SIDE), np.int16)
PLACE = {"ImagePositionPatient": [1.0, 2.0, 3.5], "ImageOrientationPatient": [1, 0, 0, 0, 1, 0]}


def ct_file(stored: NDArray[Any] = HU, **attributes: Any) -> bytes:
    header = {
        "StudyInstanceUID": "1.2.9", "SeriesInstanceUID": "1.2.9.1", "Modality": "CT", "RescaleSlope": 1,
        "RescaleIntercept": -10, "PixelSpacing": [0.5, 0.25], "InstanceNumber": 4, **PLACE,
    }  # fmt: skip
    return bytes(written(dicom_set(stored, **header | attributes)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("pixels")
    (base / "images").mkdir()
    (base / "images" / "ct.dcm").write_bytes(ct_file())
    cv2.imwrite(str(base / "images" / "grey.png"), (HU % 256).astype(np.uint8))
    cbir("index", base / "images", "--collection", base / "own", "--jobs", "1", "--profile", "huang2012")
    return base / "own"


@pytest.fixture
def app(folder: Path) -> Flask:
    return create_app(folder, settings.load())


@pytest.fixture
def by_format(folder: Path) -> dict[str, str]:
    with Collection(folder) as collection:
        return {record.format: record.image_id for _, record in collection.iterate()}


def read(answer: Any) -> tuple[dict[str, Any], NDArray[Any]]:
    assert answer.status_code == 200, answer.text
    facts = json.loads(answer.headers["Image-Facts"])
    kind = "uint8" if facts["type"] == "rgb8" else facts["type"]
    shape = (facts["height"], facts["width"], *([3] if facts["type"] == "rgb8" else []))
    data = gzip.decompress(answer.data) if answer.headers.get("Content-Encoding") == "gzip" else answer.data
    return facts, np.frombuffer(data, np.dtype(kind).newbyteorder("<")).reshape(shape)


def of_image(client: FlaskClient, image_id: str, **query: Any) -> Any:
    return client.get(f"/v1/images/{image_id}/picture", query_string={"pixels": "true", **query})


def of_upload(client: FlaskClient, file: bytes, **form: Any) -> Any:
    return client.post("/v1/render", data={"image": (io.BytesIO(file), "x"), "pixels": "true", **form})


def test_values_of_a_stored_slice(client: FlaskClient, by_format: dict[str, str]) -> None:
    answer = of_image(client, by_format["dicom"])
    facts, numbers = read(answer)
    assert np.array_equal(numbers, HU)
    assert (facts["type"], facts["slope"], facts["intercept"], facts["unit"]) == ("int16", 1, -10, "HU")
    assert facts["spacing"] == {"rows": 0.5, "columns": 0.25}
    assert facts["place"] == {
        "position": [1, 2, 3.5], "orientation": [1, 0, 0, 0, 1, 0], "instance": 4,
    }  # fmt: skip
    assert (facts["least"], facts["greatest"]) == (HU.min() - 10, HU.max() - 10)
    assert (facts["photometric"], facts["inverted"], facts["modality"]) == ("MONOCHROME2", False, "CT")
    assert facts["region"] == [0, 0, SIDE, SIDE]
    assert answer.headers["Cache-Control"] == "private, no-cache"


def test_an_upload_has_the_same(client: FlaskClient, by_format: dict[str, str]) -> None:
    answer = of_upload(client, ct_file())
    facts, numbers = read(answer)
    stored, _ = read(of_image(client, by_format["dicom"]))
    assert facts == stored
    assert np.array_equal(numbers, HU)
    assert answer.headers["Cache-Control"] == "no-store"


def test_they_are_compressed_and_sent_once(client: FlaskClient, by_format: dict[str, str]) -> None:
    packed = client.get(
        f"/v1/images/{by_format['dicom']}/picture?pixels=true", headers={"Accept-Encoding": "gzip"}
    )
    assert packed.headers["Content-Encoding"] == "gzip"
    assert np.array_equal(read(packed)[1], HU)
    tag = packed.headers["ETag"]
    again = client.get(f"/v1/images/{by_format['dicom']}/picture?pixels=true", headers={"If-None-Match": tag})
    assert (again.status_code, again.data) == (304, b"")
    picture = client.get(f"/v1/images/{by_format['dicom']}/picture", headers={"If-None-Match": tag})
    assert picture.status_code == 200
    assert picture.mimetype == "image/png"


def test_a_region_in_full_and_the_whole_reduced(client: FlaskClient, by_format: dict[str, str]) -> None:
    facts, numbers = read(of_image(client, by_format["dicom"], region="10,20,70,65"))
    assert np.array_equal(numbers, HU[20:85, 10:80])
    assert (facts["region"], facts["image_width"], facts["image_height"]) == ([10, 20, 70, 65], SIDE, SIDE)
    facts, numbers = read(of_image(client, by_format["dicom"], side=64))
    assert numbers.shape == (64, 64)
    assert (facts["region"], facts["spacing"]) == ([0, 0, SIDE, SIDE], {"rows": 0.5, "columns": 0.25})
    assert abs(float(numbers.mean()) - float(HU.mean())) < 5
    for query, name in (
        ({"region": "90,0,10,10"}, "region"),
        ({"side": 4096}, "side"),
        ({"window": "1,2"}, "window"),
    ):
        assert name in problem(of_image(client, by_format["dicom"], **query), 422)


def test_large_frames_are_reduced(client: FlaskClient) -> None:
    large = np.zeros((32, 4096), np.uint16)
    facts, numbers = read(of_upload(client, ct_file(large)))
    assert numbers.shape == (16, 2048)
    assert (facts["image_width"], facts["image_height"]) == (4096, 32)


def test_pictures_have_bytes(client: FlaskClient, by_format: dict[str, str]) -> None:
    facts, numbers = read(of_image(client, by_format["png"]))
    assert np.array_equal(numbers, (HU % 256).astype(np.uint8))
    assert (facts["type"], facts["slope"], facts["intercept"], facts["place"]) == ("uint8", 1, 0, None)
    assert facts["window"] == {"center": 128, "width": 256}
    colour = np.random.default_rng(0).integers(0, 256, (64, 80, 3), np.uint8)
    file = cv2.imencode(".png", colour[..., ::-1])[1].tobytes()
    facts, numbers = read(of_upload(client, file))
    assert np.array_equal(numbers, colour)
    assert (facts["type"], facts["photometric"], facts["window"]) == ("rgb8", "RGB", None)


def png(pixels: NDArray[Any]) -> bytes:
    return bytes(cv2.imencode(".png", pixels)[1])


def tiff(pixels: NDArray[Any], **tags: Any) -> bytes:
    file = io.BytesIO()
    tifffile.imwrite(file, pixels, **tags)
    return file.getvalue()


@pytest.mark.parametrize("top", [4095, 65535])
@pytest.mark.parametrize("write", [png, tiff])
def test_grey_pictures_of_16_bits_keep_them(
    client: FlaskClient, write: Callable[[NDArray[Any]], bytes], top: int
) -> None:
    stored = np.random.default_rng(2).integers(0, top, (64, 80), np.uint16, endpoint=True)
    stored[0, 0], stored[0, 1] = 7, top
    facts, numbers = read(of_upload(client, write(stored)))
    assert (facts["type"], facts["slope"], facts["intercept"], facts["unit"]) == ("uint16", 1, 0, "")
    assert np.array_equal(numbers, stored)
    assert facts["window"] == {"center": (top + 1) / 2, "width": top + 1}
    assert (facts["least"], facts["greatest"]) == (stored.min(), top)
    shown = client.post("/v1/render", data={"image": (io.BytesIO(write(stored)), "x")}).data
    in_window = np.rint(numbers / top * 255)  # LINEAR: center - width / 2 is 0, center + width / 2 - 1 is 255
    assert np.array_equal(cv2.imdecode(np.frombuffer(shown, np.uint8), cv2.IMREAD_GRAYSCALE), in_window)


def test_a_tiff_page_of_16_bits_is_signed_or_has_white_at_0(client: FlaskClient) -> None:
    facts, numbers = read(of_upload(client, tiff(HU)))
    low, high = np.percentile(HU, [1, 99])
    assert np.array_equal(numbers, HU)
    assert facts["window"]["center"] - facts["window"]["width"] / 2 == pytest.approx(low)
    assert facts["window"]["width"] - 1 == pytest.approx(high - low)
    stored = np.arange(64 * 64, dtype=np.uint16).reshape(64, 64)
    facts, numbers = read(of_upload(client, tiff(stored, photometric="miniswhite")))
    assert np.array_equal(numbers, stored)
    assert (facts["inverted"], facts["photometric"]) == (True, "MONOCHROME1")


def test_windows_of_dicom_and_of_volumes(
    client: FlaskClient, by_format: dict[str, str], tmp_path: Path
) -> None:
    """A volume may have values from 0 to 1, of which a window of DICOM, which ends 1 earlier, shows nothing."""
    assert read(of_image(client, by_format["dicom"]))[0]["exact"] is False
    write_nifti(
        tmp_path / "a.nii", np.linspace(0, 1, 4096, dtype=np.float32).reshape(16, 16, 16), (1.0, 1.0, 1.0)
    )
    facts, _ = read(of_upload(client, (tmp_path / "a.nii").read_bytes()))
    assert facts["exact"] is True
    assert facts["window"]["width"] < 1


def test_frames_of_a_file(client: FlaskClient) -> None:
    frames = np.stack([HU, HU // 2])
    file = bytes(written(dicom_set(frames, frames=2)))
    facts, numbers = read(of_upload(client, file, frame=2))
    assert np.array_equal(numbers, HU // 2)
    assert (facts["frame"], facts["frames"]) == (2, 2)


def test_no_values_without_the_file_and_no_picture_for_ever(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "ct.dcm").write_bytes(ct_file())
    cbir(
        "index",
        tmp_path / "images",
        "--collection",
        tmp_path / "own",
        "--jobs",
        "1",
        "--profile",
        "huang2012",
    )
    (tmp_path / "images" / "ct.dcm").unlink()
    client = create_app(tmp_path / "own", settings.load()).test_client()
    (image,) = client.get("/v1/images").json["items"]
    assert "file" in problem(of_image(client, image["image_id"]), 410)
    monkeypatch.setattr(Collection, "thumbnail", lambda *_: b"a JPEG")  # as received images have one
    thumbnail = client.get(f"/v1/images/{image['image_id']}/picture")
    assert thumbnail.mimetype == "image/jpeg"
    (tmp_path / "images" / "ct.dcm").write_bytes(ct_file())  # a mounted folder is there again
    known = {"If-None-Match": thumbnail.headers["ETag"]}
    again = client.get(f"/v1/images/{image['image_id']}/picture", headers=known)
    assert (again.status_code, again.mimetype) == (200, "image/png")


def test_limited_callers_and_the_audit_log(folder: Path, by_format: dict[str, str], tmp_path: Path) -> None:
    state = tmp_path / "state"
    tokens = TokenStore(state)
    client = create_app(folder, settings.load(require_tokens=True, state_folder=state)).test_client()
    for where, status in ((["modality=CT"], 200), (["modality=MR"], 404)):
        _, text = tokens.create([Scope.search], where=where)
        answer = client.get(
            f"/v1/images/{by_format['dicom']}/picture?pixels=true",
            headers={"Authorization": f"Bearer {text}"},
        )
        assert answer.status_code == status
    lines = [json.loads(line) for line in (state / "audit.jsonl").read_text().splitlines()]
    shown = [line for line in lines if line.get("images") == [by_format["dicom"]]]
    assert [line["status"] for line in shown if line["status"] == 200] == [200]


@pytest.fixture
def asking(app: Flask) -> Iterator[Client]:
    with Client("http://localhost", transport=httpx.WSGITransport(app=app)) as client:
        yield client


def test_client_returns_numbers_and_facts(asking: Client, by_format: dict[str, str]) -> None:
    for query in (by_format["dicom"], ct_file()):
        data, facts = asking.pixels(query, region=(0, 0, 64, 64))
        assert np.array_equal(np.frombuffer(data, facts.type).reshape(64, 64), HU[:64, :64])
        assert facts.unit == "HU"
