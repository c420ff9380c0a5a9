"""The page of a reader study by keyboard, and the usage log that the search page sends."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright import sync_api
from playwright.sync_api import expect

from cbir.store import Collection
from service.features.annotate.reader_study import tables as reader_studies
from service.features.annotate.reader_study.tables import ReaderStudy, StudyItem
from service.features.usage import tables as usage_log
from service.state.database import StateDatabase
from tests.e2e import browsing
from tests.e2e.browsing import choose, ids
from tests.e2e.test_page_axe import AXE, complaints, complaints_dark_and_light
from tests.service.conftest import Served, serving

SECONDS = 60  # the machine may be busy
WITH_LOGIN = """document.addEventListener("readystatechange", () => {
  if (document.readyState !== "interactive") return;
  document.head.append(Object.assign(document.createElement("meta"), { name: "csrf", content: "ended" }));
})"""  # before the modules of the page run


@pytest.fixture(scope="module")
def state_folder(indexed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder with a study of three queries."""
    folder = tmp_path_factory.mktemp("state")
    with Collection(indexed) as collection:
        images = list(collection.image_ids().values())
    items = [StudyItem(n, images[n], tuple(images[5:8]), tuple(images[7:10])) for n in (1, 2, 3)]
    study = ReaderStudy("blinded", indexed.name, "none", "eprf", 3, 3, 2, True, 1, b"0123456789abcdef")
    reader_studies.add_study(StateDatabase(folder), study, items)
    return folder


@pytest.fixture(scope="module")
def served(indexed: Path, state_folder: Path) -> Iterator[Served]:
    with serving(indexed, CBIR_USAGE_LOG="true", CBIR_STATE_FOLDER=str(state_folder)) as running:
        yield running


@pytest.fixture
def page(blank_page: sync_api.Page) -> sync_api.Page:
    """A page for the address of each test."""
    return blank_page


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def progress(page: sync_api.Page, text: str) -> None:
    page.locator("#progress-text", has_text=text).wait_for()


def test_a_reader_answers_by_keyboard_pauses_and_goes_on(
    page: sync_api.Page, served: Served, state_folder: Path
) -> None:
    database = StateDatabase(state_folder)
    page.goto(f"{served.address}/study/blinded")
    page.get_by_label("I am reader").select_option("2")
    page.get_by_role("button", name="Begin or continue").click()
    progress(page, "Query 1 of 3, 0 answered")
    assert page.locator("#list-left img, #list-right img").count() == 6
    page.keyboard.press("Enter")
    assert "Rate both lists" in page.get_by_role("alert").inner_text()
    page.get_by_role("button", name="Relevant: Image 1").first.click()
    for key in "2", "9", "r":
        page.keyboard.press(key)
    page.get_by_label("Note").fill("likes 3 and L")  # keys in a field are text
    page.get_by_role("button", name="Save and go on").click()
    progress(page, "Query 2 of 3, 1 answered")
    (stored,) = reader_studies.read_answers(database, "blinded", 2)
    assert sorted([stored.useful_a, stored.useful_b]) == [2, 4]
    assert (stored.preference == 1) == stored.a_left
    assert list(stored.relevant.values()) == [True]
    assert stored.note == "likes 3 and L"

    page.reload()
    page.get_by_label("I am reader").select_option("2")
    page.get_by_role("button", name="Begin or continue").click()
    progress(page, "Query 2 of 3, 1 answered")
    page.keyboard.press("p")
    progress(page, "Query 1 of 3, 1 answered")
    assert page.locator("input[name=better]:checked").get_attribute("value") == "right"
    assert page.get_by_role("button", name="Relevant: Image 1").first.get_attribute("aria-pressed") == "true"
    page.keyboard.press("e")
    page.keyboard.press("Enter")
    progress(page, "Query 2 of 3, 1 answered")
    assert reader_studies.read_answers(database, "blinded", 2)[0].preference == 0
    for count in (2, 3):
        for key in "1", "6", "e", "Enter":
            page.keyboard.press(key)
        until(lambda count=count: len(reader_studies.read_answers(database, "blinded", 2)) == count)
        if count == 2:
            progress(page, "Query 3 of 3, 2 answered")
    page.get_by_role("heading", name="All queries are answered").wait_for()


def test_a_picture_is_enlarged_while_keys_are_not_answers(page: sync_api.Page, served: Served) -> None:
    page.goto(f"{served.address}/study/blinded")
    page.get_by_role("button", name="Begin or continue").click()
    progress(page, "Query 1 of 3, 0 answered")
    page.get_by_role("button", name="Image 2", exact=True).last.click()
    large = page.get_by_role("dialog", name="Large picture")
    expect(large.locator("figcaption")).to_have_text("Image 2")
    browsing.until(page, "Boolean(document.querySelector('#large cbir-viewer').picture)")
    page.keyboard.press("+")
    browsing.until(page, "document.querySelector('#large cbir-viewer').scale > 1")
    page.keyboard.press("3")  # of the rating
    page.keyboard.press("Escape")
    expect(large).to_have_count(0)
    assert page.locator("#reading input:checked").count() == 0
    page.get_by_role("button", name="The query", exact=True).click()
    expect(large.locator("figcaption")).to_have_text("The query")
    large.get_by_role("button", name="Close").click()
    expect(large).to_have_count(0)


def test_keys_of_the_study_are_text_in_the_dialog_of_a_new_login(
    page: sync_api.Page, served: Served, tolerated: list[str]
) -> None:
    tolerated.append("401")
    page.add_init_script(WITH_LOGIN)
    page.goto(f"{served.address}/study/blinded")
    page.get_by_role("button", name="Begin or continue").click()
    page.locator("#list-left img").first.wait_for()
    page.route("**/study/blinded/answers", lambda route: route.fulfill(status=401))
    for key in "3", "8", "e", "Enter":
        page.keyboard.press(key)
    page.locator("#login-token").wait_for()
    page.keyboard.type("p1Le0r")
    assert page.locator("#login-token").input_value() == "p1Le0r"


@pytest.mark.skipif(not AXE.exists(), reason="there is no axe-core")
def test_pages_of_a_study_are_accessible(page: sync_api.Page, served: Served) -> None:
    page.set_viewport_size({"width": 400, "height": 900})
    page.goto(f"{served.address}/study/blinded")
    said = complaints(page)
    page.get_by_role("button", name="Begin or continue").click()
    page.locator("#list-left img").first.wait_for()
    said += complaints_dark_and_light(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    for address in ("/studies", "/study/blinded/results"):
        page.goto(served.address + address)
        said += complaints_dark_and_light(page)
    assert said == []


def test_the_search_page_logs_what_is_opened_and_judged(
    page: sync_api.Page, served: Served, pictures: list[Path], state_folder: Path
) -> None:
    database = StateDatabase(state_folder)
    page.goto(served.address)
    choose(page, pictures[0])
    shown = ids(page)
    page.get_by_role("button", name="Useful", exact=True).click()
    page.locator("#columns .card").nth(2).click()
    page.keyboard.press("y")
    page.keyboard.press("Escape")
    page.goto("about:blank")  # waiting events are sent before
    until(lambda: sum(len(search.events) for search in usage_log.read_usage(database)) >= 3)
    (search,) = usage_log.read_usage(database)
    assert list(search.answers) == shown
    assert search.events == {("compare", shown[2]): 1, ("relevant", shown[2]): 1, ("useful", ""): 1}
