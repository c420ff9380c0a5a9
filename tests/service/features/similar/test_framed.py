"""The page for a viewer's frame, as it is sent; tests/e2e/test_framed.py frames it."""

import re
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from pydicom import Dataset

from cbir import settings
from service.app import create_app
from tests.service.conftest import cbir
from tests.service.dicom_collection import SLICES, make

VIEWER = "https://viewer.example.org/view?StudyInstanceUIDs={study}&a=b"
ORIGIN = "https://viewer.example.org"


@pytest.fixture(scope="module")
def dicom_collection(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Dataset]]:
    return make(tmp_path_factory)


@pytest.fixture(scope="module")
def near(dicom_collection: tuple[Path, list[Dataset]]) -> FlaskClient:
    return create_app(
        dicom_collection[0], settings.load(viewer_link=VIEWER, frame_origins=ORIGIN)
    ).test_client()


@pytest.fixture
def query(dicom_collection: tuple[Path, list[Dataset]]) -> dict[str, str]:
    ct = dicom_collection[1][0]
    return {"study": ct.StudyInstanceUID, "series": ct.SeriesInstanceUID, "instance": ct.SOPInstanceUID}


def test_answers_lead_to_the_viewer(near: FlaskClient, query: dict[str, str]) -> None:
    page = near.get("/similar", query_string=query | {"limit": "5"})
    assert page.status_code == 200
    assert "Not a medical device" in page.text
    links = re.findall(r'class="card" href="([^"]*)" target="(\w+)" rel="noopener noreferrer"', page.text)
    assert len(links) == 5
    reported = near.get(
        "/v1/similar", query_string=query | {"level": "study", "exclude": "study", "limit": 5}
    ).json
    assert [address.replace("&amp;", "&") for address, _ in links] == [
        item["best"]["links"]["viewer"] for item in reported["results"]
    ]
    assert {target for _, target in links} == {"_blank"}
    assert 'target="_top"' in near.get("/similar", query_string=query | {"target": "top"}).text
    missing = near.get("/similar?study=1", headers={"Accept-Language": "de"}).text
    assert "Die Sammlung hat solche Bilder nicht" in missing
    assert "There is no image of the study 1" in missing
    for address in re.findall(r'<img src="([^"]*)"', page.text):
        assert near.get(address.replace("&amp;", "&")).mimetype == "image/jpeg"


def test_pages_and_levels_lead_on(near: FlaskClient, query: dict[str, str]) -> None:
    page = near.get("/similar", query_string=query | {"level": "instance", "exclude": "instance"}).text
    seen: list[str] = []
    while True:
        seen += re.findall(r'<span class="rank">(\d+)</span>', page)
        following = re.search(r'href="([^"]*)" rel="next"', page)
        if not following:
            break
        page = near.get(following.group(1).replace("&amp;", "&")).text
    assert seen == [str(rank) for rank in range(1, 20 + 2 * SLICES)]
    levels = re.findall(r'<a href="([^"]*level=\w+[^"]*)"', page)
    assert len(levels) == 3 + 1  # and the page before
    assert {near.get(address.replace("&amp;", "&")).status_code for address in levels} == {200}
    none = near.get("/similar", query_string=query | {"where": "modality=none"})
    assert "no others" in none.text


def test_only_origins_of_the_settings_may_frame_it(
    near: FlaskClient, dicom_collection: tuple[Path, list[Dataset]], query: dict[str, str]
) -> None:
    for requested in (query, {"study": "1.2.3"}, {}):
        headers = near.get("/similar", query_string=requested).headers
        assert f"frame-ancestors {ORIGIN};" in headers["Content-Security-Policy"]
        assert "X-Frame-Options" not in headers
        assert headers["Cross-Origin-Embedder-Policy"] == "require-corp"
        assert headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    others = [near.get(path).headers for path in ("/", "/login", "/v1/collections", "/static/page.css")]
    alone = create_app(dicom_collection[0], settings.load()).test_client()
    for headers in (*others, alone.get("/similar", query_string=query).headers):
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


@pytest.mark.parametrize(
    ("requested", "status", "words"),
    [
        ({}, 422, "Study: field required"),
        ({"study": "1.2.3"}, 404, "no image of the study 1.2.3"),
        ({"study": "<script>"}, 422, "is not a UID"),
        ({"study": "1.2", "target": "<b>"}, 422, "Target"),
        ({"study": "1.2", "collection": "<b>"}, 404, "&lt;b&gt;"),
    ],
)
def test_what_is_wrong_is_said_in_the_frame(
    near: FlaskClient, requested: dict[str, str], status: int, words: str
) -> None:
    answer = near.get("/similar", query_string=requested)
    assert (answer.status_code, answer.mimetype) == (status, "text/html")
    assert words in answer.text
    assert "<script" not in answer.text
    assert "<b>" not in answer.text


def test_without_a_viewer_the_page_of_the_service_is_opened(
    dicom_collection: tuple[Path, list[Dataset]], query: dict[str, str]
) -> None:
    client = create_app(dicom_collection[0], settings.load()).test_client()
    page = client.get("/similar", query_string=query | {"collection": "collection"}).text
    address = re.findall(r'class="card" href="([^"]*)"', page)[0].replace("&amp;", "&")
    assert re.fullmatch(r"/\?image=[0-9a-f]{32}&collection=collection", address)
    assert client.get(address).status_code == 200


def test_a_frame_is_told_to_log_in_elsewhere(
    dicom_collection: tuple[Path, list[Dataset]],
    query: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CBIR_STATE_FOLDER", str(tmp_path / "state"))
    token = cbir("admin", "token", "create", "--scope", "search").split()[-1]
    base = settings.load(require_tokens=True, frame_origins=ORIGIN)
    client = create_app(dicom_collection[0], base).test_client()
    browser = {"Accept": "text/html", "Sec-Fetch-Dest": "iframe", "Sec-Fetch-Site": "cross-site"}
    requested = client.get("/similar", query_string=query, headers=browser)
    assert requested.status_code == 401
    assert f"frame-ancestors {ORIGIN};" in requested.headers["Content-Security-Policy"]
    assert 'target="_blank"' in requested.text
    assert 'href="/login?next=/similar?' in requested.text.replace("%3F", "?").replace("%2F", "/")
    assert client.get("/", headers=browser).headers["X-Frame-Options"] == "DENY"
    alone = client.get("/similar", query_string=query, headers={"Accept": "text/html"})
    assert alone.status_code == 303
    assert client.get("/similar", query_string=query).status_code == 401
    with_token = client.get("/similar", query_string=query, headers={"Authorization": f"Bearer {token}"})
    assert with_token.status_code == 200
    log = (tmp_path / "state" / "audit.jsonl").read_text().splitlines()
    assert '"action": "search"' in log[-1]
    assert '"images": ["' in log[-1]
