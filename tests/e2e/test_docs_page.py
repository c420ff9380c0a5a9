"""The page /docs in a browser: lines that run as printed, and forms that send requests."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright import sync_api
from pydicom import Dataset

from cbir.search import example_values as example
from service.access.tokens import Scope, TokenStore
from service.client import Client
from tests.e2e.browsing import until
from tests.e2e.conftest import PATIENCE_MS
from tests.e2e.test_page_axe import AXE, complaints, complaints_dark_and_light
from tests.indexer.receiving import file_of, slices
from tests.service import dicom_collection
from tests.service.conftest import Served, serving


@pytest.fixture(scope="module")
def dicom(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Dataset]]:
    folder, instances = dicom_collection.make(tmp_path_factory)
    return Path(shutil.copytree(folder, tmp_path_factory.mktemp("docs") / "collection")), instances


@pytest.fixture(scope="module")
def served(dicom: tuple[Path, list[Dataset]]) -> Iterator[Served]:
    """A service over a collection that the tests change."""
    with serving(dicom[0]) as running:
        yield running


@pytest.fixture
def page(blank_page: sync_api.Page, served: Served) -> sync_api.Page:
    """The page of the documentation."""
    blank_page.goto(f"{served.address}/docs")
    until(blank_page, "document.querySelector('[data-line=curl] code').textContent")
    return blank_page


@pytest.fixture
def folder(tmp_path: Path, page: sync_api.Page) -> Path:
    """The current folder of the lines, with the files that they send."""
    bash(page.locator("[data-line=query] code").text_content() or "", tmp_path)
    assert (tmp_path / "query.png").read_bytes().startswith(b"\x89PNG")
    (item,) = slices(1, 48, seed=31)
    (tmp_path / "slice.dcm").write_bytes(file_of(item))
    return tmp_path


def bash(line: str, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        ["bash", "-ec", line],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def status_of(line: str, folder: Path, **environment: str) -> int:
    """Run a curl line as it is printed, and then say which status it got."""
    assert line.rpartition("\n")[2].startswith(("curl ", "  "))
    return int(bash(f"{line} -sS -o body -w '%{{http_code}}'", folder, **environment)[-3:])


def lines(page: sync_api.Page, kind: str) -> dict[str, str]:
    """The lines of a kind, by operation."""
    return dict(
        page.evaluate(
            "kind => [...document.querySelectorAll('.operation')].map(item =>"
            " [item.id, item.querySelector(`[data-line=${kind}] code`)?.textContent])",
            kind,
        )
    )


def form_of(page: sync_api.Page, name: str) -> sync_api.Locator:
    """Open the form of an operation from its link."""
    page.goto(page.url.partition("#")[0] + f"#{name}")
    operation = page.locator(f"#{name}")
    operation.get_by_text("Try it", exact=True).click()
    return operation.locator(".try")


def send(form: sync_api.Locator) -> str:
    """Send a form; what is said about the response."""
    form.locator("[type=submit]").click()
    form.locator("[type=submit]:not([disabled])").wait_for()
    return form.locator("output").inner_text()


def test_search_with_an_image(page: sync_api.Page, folder: Path) -> None:
    form = form_of(page, "search")
    assert send(form) == "Choose a file first."
    form.get_by_label("Image file").set_input_files(folder / "query.png")
    form.get_by_label("k", exact=True).fill("3")
    form.get_by_label("rerank").fill("none")
    assert "-F k=3 -F rerank=none" in lines(page, "curl")["search"]
    assert send(form).startswith("200 OK · ")
    body = form.locator(".answer pre").last.inner_text()
    assert body.count('"rank": ') == 3
    images = form.locator(".pictures img")
    assert images.count() == 3
    assert page.evaluate(
        "[...document.querySelectorAll('.pictures img')].every(image => image.naturalWidth > 0)"
    )
    form.get_by_text("Headers").click()
    assert "content-type: application/json" in form.locator(".answer").inner_text()


def test_other_bodies(page: sync_api.Page, folder: Path) -> None:
    form = form_of(page, "search")
    form.get_by_label("Body", exact=True).select_option("application/json")
    assert form.get_by_label("Image file").is_hidden()
    assert example.IMAGE_ID not in form.get_by_label("JSON").input_value()
    assert send(form).startswith("200 OK")
    form.get_by_label("Body", exact=True).select_option("application/octet-stream")
    form.get_by_label("Image file").set_input_files(folder / "slice.dcm")
    form.get_by_label("k", exact=True).fill("2")
    assert "--data-binary @slice.dcm" in lines(page, "curl")["search"]
    assert send(form).startswith("200 OK")
    assert form.locator(".pictures img").count() == 2


def test_answers_that_are_no_json(page: sync_api.Page) -> None:
    form = form_of(page, "thumbnail")
    assert send(form).startswith("200 OK")
    until(page, "document.querySelector('#thumbnail .answer img').naturalWidth > 0")
    form = form_of(page, "metrics")
    assert send(form).startswith("200 OK")
    assert "cbir_requests_total" in form.locator(".answer pre").last.inner_text()


def test_changes_ask_first(page: sync_api.Page, served: Served, folder: Path, tolerated: list[str]) -> None:
    tolerated.append("404")
    with Client(served.address) as client:
        image = client.add((folder / "slice.dcm").read_bytes(), duplicates=True, restore=True).ids[0]
        form = form_of(page, "delete")
        form.get_by_label("image_id").fill(image)
        asked: list[str] = []
        page.once("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
        assert send(form) == "Not sent."
        assert asked == [f"Delete this image permanently?\n\nDELETE /v1/images/{image}"]
        assert client.image(image).image_id == image
        page.once("dialog", lambda dialog: dialog.accept())
        assert send(form).startswith("204 ")
        page.once("dialog", lambda dialog: dialog.accept())
        assert send(form).startswith("404 ")
        assert "/docs/errors#not-found" in form.locator(".answer pre").last.inner_text()


def test_stores_an_instance(page: sync_api.Page, tmp_path: Path) -> None:
    (item,) = slices(1, 48, seed=32)
    (tmp_path / "other.dcm").write_bytes(file_of(item))
    form = form_of(page, "store_instances")
    form.get_by_label("DICOM file").set_input_files(tmp_path / "other.dcm")
    page.once("dialog", lambda dialog: dialog.accept())
    assert send(form).startswith("200 OK")
    assert item.SOPInstanceUID in form.locator(".answer pre").last.inner_text()


def test_by_keyboard(page: sync_api.Page) -> None:
    page.locator("#collections > summary").focus()
    page.keyboard.press("Enter")
    assert page.locator("#collections").get_attribute("open") is not None
    page.locator("#collections .try > summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("#collections .answer pre").last.wait_for()
    page.locator("#collections .copy").first.focus()
    page.keyboard.press("Enter")
    page.locator("#collections .copy").first.get_by_text("Copied").or_(
        page.get_by_text("Not allowed")
    ).wait_for()


@pytest.mark.skipif(not AXE.exists(), reason="there is no axe-core")
def test_accessible(page: sync_api.Page, folder: Path) -> None:
    form = form_of(page, "search")
    form.get_by_label("Image file").set_input_files(folder / "query.png")
    send(form)
    form_of(page, "set_labels")
    page.locator("#schema-Hit > summary").click()
    # axe takes half a minute for all operations, which one template makes
    page.evaluate(
        "document.querySelectorAll('main details:not([open]):not([open] *)').forEach(item => item.remove())"
    )
    assert complaints_dark_and_light(page) == []
    page.set_viewport_size({"width": 390, "height": 900})
    assert complaints(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.fixture(scope="module")
def guarded(indexed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, TokenStore]]:
    """A service that needs tokens."""
    tokens = TokenStore(tmp_path_factory.mktemp("state"))
    tokens.create([Scope.admin])
    copy = Path(shutil.copytree(indexed, tmp_path_factory.mktemp("guarded") / "collection"))
    with serving(copy, CBIR_REQUIRE_TOKENS="true", CBIR_STATE_FOLDER=str(tokens.file.parent)) as running:
        yield running, tokens


def test_tokens(browser: sync_api.Browser, guarded: tuple[Served, TokenStore], tmp_path: Path) -> None:
    served, tokens = guarded
    _, reading = tokens.create([Scope.search])
    _, admin = tokens.create([Scope.admin])
    page = browser.new_context().new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(f"{served.address}/docs")
    page.get_by_label("Token").fill(reading)
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r":\d+/docs$"))
    until(page, "document.querySelector('[data-line=curl] code')?.textContent")

    form = form_of(page, "image")
    assert send(form).startswith("200 OK")  # by the login
    printed = lines(page, "curl")
    assert "$CBIR_TOKEN" not in printed["health"]
    assert status_of(printed["image"], tmp_path, CBIR_TOKEN=reading) == 200
    assert status_of(printed["history"], tmp_path, CBIR_TOKEN=reading) == 403
    assert status_of(printed["history"], tmp_path, CBIR_TOKEN=admin) == 200
    assert 'token=os.environ["CBIR_TOKEN"]' in page.locator("[data-line=client] code").inner_text()

    page.goto(f"{served.address}/docs#history")
    history = page.locator("#history")
    assert "You lack the scope admin" in history.inner_text()
    assert history.locator(".try").is_hidden()
    page.get_by_label("Token for the forms").fill(admin)
    history.get_by_text("Try it", exact=True).click()
    assert send(history.locator(".try")).startswith("200 OK")
    kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
    assert admin not in kept + page.content() + "".join(lines(page, "curl").values())
    page.reload()
    assert page.get_by_label("Token for the forms").input_value() == ""
    page.context.close()
