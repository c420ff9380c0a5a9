"""POST /v1/search with CT series: ZIP archives of slices and NIfTI files."""

import io
import logging
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from cbir import settings
from cbir.ingest import query_file as zipped_files
from service.app import create_app
from service.collections.app_state import current_state
from tests.cbir.images.synthetic_series import stack, write_nifti, write_series
from tests.indexer.block_means import write_block_means
from tests.indexer.commands import index
from tests.service.conftest import page_facts, problem

SHAPE, SPACING = (24, 24, 24), (10.0, 10.0, 10.0)
BODIES = range(1, 5)


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with series of four bodies, and the collection of them in `c`."""
    root = tmp_path_factory.mktemp("scans")
    for seed in BODIES:
        write_series(root / "images" / f"body{seed}", stack(SHAPE, SPACING, seed), SPACING, uid=f"1.2.{seed}")
    (root / "encoders").mkdir()
    write_block_means(root / "encoders")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CBIR_ENCODER_FOLDER", str(root / "encoders"))
        index(root / "images", root / "c", "--profile", "ct-volume")
    return root


@pytest.fixture(scope="module")
def client(scans: Path) -> FlaskClient:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CBIR_ENCODER_FOLDER", str(scans / "encoders"))
        client = create_app(scans / "c", settings.load()).test_client()
        results(
            send(client, zipped(scans / "images" / "body1"))
        )  # decoders keep the folder they started with
    return client


@pytest.fixture(autouse=True)
def use_block_means(scans: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CBIR_ENCODER_FOLDER", str(scans / "encoders"))


def zipped(*paths: Path, **more: bytes) -> bytes:
    """Return an archive of files, or of those in folders, with `more` files by name before them."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in more.items():
            archive.writestr(name, content)
        for path in paths:
            for file in sorted(path.iterdir()) if path.is_dir() else [path]:
                archive.write(file, f"{path.name}/{file.name}")
    return buffer.getvalue()


def send(client: FlaskClient, data: bytes, kind: str = "application/zip", **parameters: Any) -> Any:
    return client.post(
        "/v1/search", data=data, content_type=kind, query_string={"rerank": "none"} | parameters
    )


def results(response: Any) -> list[str]:
    """Return the series of the hits, in order."""
    assert response.status_code == 200, response.text
    return [hit["dicom"]["series"] for hit in response.json["results"]]


def test_an_indexed_series_is_recognised_and_left_out(client, scans):
    answer = send(client, zipped(scans / "images" / "body2"))
    assert sorted(results(answer)) == ["1.2.1", "1.2.3", "1.2.4"]
    query = answer.json["query"]
    by_id = client.post("/v1/search", json={"image_id": query["image_id"], "rerank": "none"})
    assert results(by_id) == results(answer)
    assert (query["format"], query["width"]) == ("dicom", SHAPE[2])


@pytest.mark.parametrize("form", ["zip", "nifti", "zipped nifti", "multipart"])
def test_the_same_body_comes_first(client, scans, tmp_path, form):
    values = stack(SHAPE, SPACING, 3) + 5  # brighter, so it is no copy
    write_series(tmp_path / "slices", values, SPACING, uid="1.2.9", order_seed=4)
    nifti = write_nifti(tmp_path / "body.nii.gz", values, SPACING)
    archive = zipped(tmp_path / "slices", DICOMDIR=b"not a slice")
    if form == "multipart":
        answer = client.post(
            "/v1/search", data={"image": (io.BytesIO(archive), "Jane.zip"), "rerank": "none"}
        )
    else:
        sent = {"zip": archive, "nifti": nifti.read_bytes(), "zipped nifti": zipped(nifti)}
        answer = send(client, sent[form], "application/gzip" if form == "nifti" else "application/zip")
    assert results(answer)[0] == "1.2.3"
    assert answer.json["query"]["image_id"] is None


def test_several_series_are_examples(client, scans):
    files = [(io.BytesIO(zipped(scans / "images" / f"body{seed}")), f"{seed}.zip") for seed in (1, 2)]
    answer = client.post("/v1/search", data={"image": files})
    assert sorted(results(answer)) == ["1.2.3", "1.2.4"]


def test_a_request_holds_one_volume_at_a_time(client, scans):
    """A prepared volume takes 16 MB."""
    archive = zipped(scans / "images" / "body1")

    def most_memory(count: int) -> int:
        tracemalloc.start()
        try:
            files = [(io.BytesIO(archive), "series.zip") for _ in range(count)]
            results(client.post("/v1/search", data={"image": files}))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert most_memory(4) - most_memory(1) < 2 * 16_000_000


@pytest.mark.parametrize(("choose", "reason"), [
    (lambda images: (images / "body1" / "0003.dcm").read_bytes(), "is one slice; search with a folder or ZIP"),
    (lambda images: zipped(images / "body1", images / "body2"), "the image sent holds 2 series"),
    (lambda images: zipped(), "the image sent holds no images"),
    (lambda images: zipped(a=b"text", b=b"text"), "file 1 of the ZIP archive is not a PNG"),
    (lambda images: zipped(*sorted((images / "body1").iterdir())[:15]), "a series of 15 slices here"),
    (lambda images: zipped(images / "body1")[:-40], "the image sent is a damaged ZIP archive"),
])  # fmt: skip
def test_what_is_no_series_is_refused(client, scans, choose, reason):
    detail = problem(send(client, choose(scans / "images")), 422)
    assert reason in detail
    assert "0003" not in detail


@pytest.mark.parametrize(("name", "value"), [("frame", 1), ("region", "0,0,9,9"), ("window", "40,400")])
def test_parts_of_an_image_are_refused(client, scans, name, value):
    detail = problem(send(client, zipped(scans / "images" / "body1"), **{name: value}), 422)
    assert f"{name}: is for single images" in detail


def test_bomb_is_refused(client):
    zeros = bytes(2**20)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for number in range(zipped_files.MOST_BYTES // len(zeros) + 1):
            archive.writestr(str(number), zeros)
    assert "at most 1073741824 are read" in problem(send(client, buffer.getvalue()), 422)


def test_the_page_takes_a_series_and_shows_its_middle_slice(client, scans):
    assert page_facts(client)["of_series"] is True
    slices = write_series(scans / "more", stack(SHAPE, SPACING, 1), SPACING, uid="1.2.7", order_seed=3)
    shown = client.post("/v1/render", data=zipped(scans / "more"), content_type="application/zip")
    middle = client.post(
        "/v1/render", data=slices[SHAPE[0] // 2].read_bytes(), content_type="application/dicom"
    )
    assert shown.status_code == 200
    assert (shown.data, shown.headers["Image-Window"]) == (middle.data, middle.headers["Image-Window"])


def test_warming_up_tries_no_image(client, caplog):
    with caplog.at_level(logging.WARNING), client.application.app_context():
        current_state().warm_up()
    assert not caplog.records


def test_archives_and_volumes_of_other_collections(client, indexed, scans):
    """A collection of single images says what to do with an archive."""
    other = create_app(indexed, settings.load()).test_client()
    assert "is a ZIP archive; unpack it" in problem(send(other, zipped(scans / "images" / "body1")), 422)


@pytest.mark.parametrize("form", ["zip", "nifti"])
def test_one_upload_has_the_middle_slice_and_the_vector(client, scans, tmp_path, form):
    """Later searches need no file; the archive may have hundreds of MiB."""
    data = zipped(scans / "images" / "body2")
    if form == "nifti":
        write_nifti(tmp_path / "a.nii", stack(SHAPE, SPACING, 2), SPACING)
        data = (tmp_path / "a.nii").read_bytes()
    first = send(client, data, include=["pixels", "vector", "cards"])
    query = first.json["query"]
    assert query["pixels"]["facts"]["type"] == "int16"
    assert query["pixels"]["facts"]["image_width"] == SHAPE[2]
    body = {name: query[name] for name in ("vector", "profile", "origin")}
    assert results(client.post("/v1/search", json=body | {"rerank": "none"})) == results(first)
