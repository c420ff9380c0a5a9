"""The annotation page's other tasks in Chromium: instructions, reference images, single images, what was judged."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright import sync_api

from cbir.store import Collection
from service.features.annotate.active.judgement_journal import ImageGrade, PairJudgement, Undo, read_journal
from tests.e2e.browsing import until
from tests.e2e.conftest import PATIENCE_MS
from tests.e2e.judging import DRAWN, UNSENT, Annotating, annotating, joints, on_screen
from tests.e2e.test_page_axe import AXE, complaints_dark_and_light

WIDTHS = [(1440, 900), (1024, 768), (390, 844)]
LARGE = "Boolean(document.querySelector('#large cbir-viewer')?.picture)"
INSTRUCTIONS = "# How to judge\n\n- Look at the **gap**.\n\n<script>window.hacked = 1</script>\n"
GRADED = "document.querySelector('.grading-row [data-grade]')?.disabled === false"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("study")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, study: Path) -> Iterator[Annotating]:
    folder = tmp_path_factory.mktemp("joints")
    collection = joints(folder, 16)
    (folder / "how.md").write_text(INSTRUCTIONS)
    with Collection(collection) as opened:
        records = [record for _, record in opened.iterate()]
    reference = next(record.image_id for record in records if float(record.labels["truth"]) == 1)
    options = ["--grades", "none,mild,severe", "--overlap", "1", "--where", "truth<0.9"]
    options += ["--instructions", str(folder / "how.md"), "--reference", f"{reference}=Worst of all"]
    with annotating("--collection", collection, "--study-dir", study, *options) as found:
        yield found


@pytest.fixture
def page(browser: sync_api.Browser) -> Iterator[sync_api.Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    context.set_default_timeout(PATIENCE_MS)
    errors: list[str] = []
    opened = context.new_page()
    opened.on("console", lambda said: errors.append(said.text) if said.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    context.close()
    assert errors == []


def begin(page: sync_api.Page, running: Annotating, who: str, path: str = "") -> None:
    """Open a page of the study and pass the dialogs of a first visit."""
    page.goto(running.address + path)
    page.get_by_label("Your name").fill(who)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="How to judge").wait_for()
    assert not page.locator("#left img").count(), "the instructions come before the first pair"
    page.keyboard.press("Enter")
    until(page, DRAWN)


def entries(study: Path, who: str) -> list[PairJudgement | ImageGrade | Undo]:
    return [entry for entry in read_journal(study / "judgements.jsonl") if entry.who == who]


def arrived(page: sync_api.Page) -> None:
    until(page, f"{UNSENT} === 0")


def test_instructions_and_reference_images(page: sync_api.Page, running: Annotating) -> None:
    begin(page, running, "Ida")
    assert page.evaluate("window.hacked") is None
    page.reload()
    on_screen(page)
    assert not page.locator("#instructions").is_visible(), "shown once"
    page.keyboard.press("i")
    page.get_by_text("Look at the gap.").wait_for()
    page.keyboard.press("Escape")
    strip = page.locator("#references")
    assert strip.is_visible(), "there is room beside the pictures"
    strip.get_by_role("button", name="Worst of all").click()
    until(page, LARGE)
    page.keyboard.press("+")
    assert page.evaluate("document.querySelector('#large cbir-viewer').scale") == 1.25
    page.keyboard.press("Escape")
    page.keyboard.press("r")
    assert not strip.is_visible()


def test_instructions_are_in_the_menu_of_a_phone(page: sync_api.Page, running: Annotating) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    begin(page, running, "Max")
    page.get_by_role("button", name="Menu").click()
    page.locator("#more").get_by_role("button", name="Instructions").click()
    page.get_by_text("Look at the gap.").wait_for()


def test_single_images(page: sync_api.Page, running: Annotating, study: Path) -> None:
    begin(page, running, "Sue", "/single")
    shown = []
    for key in ("0", "2", "x"):
        until(page, GRADED)
        shown.append(page.evaluate("document.getElementById('panes').dataset.first"))
        page.keyboard.press(key)
        until(page, f"document.getElementById('panes').dataset.first !== '{shown[-1]}'")
    page.keyboard.press("u")
    until(page, f"document.getElementById('panes').dataset.first === '{shown[2]}' && {GRADED}")
    page.get_by_role("button", name="mild").click()
    arrived(page)
    first, second, third, undo, fourth = entries(study, "Sue")
    grades = [each for each in (first, second, third, fourth) if isinstance(each, ImageGrade)]
    assert [(each.image, each.grade) for each in grades] == [
        (shown[0], 0), (shown[1], 2), (shown[2], None), (shown[2], 1)
    ]  # fmt: skip
    assert isinstance(undo, Undo)
    assert undo.undoes == third.name
    assert page.locator("#round").inner_text().startswith("3 of ")


def test_review_changes_and_withdraws(page: sync_api.Page, running: Annotating, study: Path) -> None:
    begin(page, running, "Rob")
    on_screen(page)
    page.keyboard.press("ArrowLeft")
    arrived(page)
    page.get_by_role("link", name="Judged").click()
    card = page.locator("#judged .card")
    card.get_by_text("Rob ·").wait_for()
    card.get_by_role("combobox").select_option("alike")
    card.get_by_text("Before, ").wait_for()
    assert card.locator(".label").inner_text() == "Equal"
    judged, changed = entries(study, "Rob")
    assert isinstance(judged, PairJudgement)
    assert isinstance(changed, PairJudgement)
    assert (changed.first, changed.second, changed.answer) == (judged.first, judged.second, "alike")
    card.get_by_role("button", name="Withdraw").click()
    page.get_by_text("No answers match.").wait_for()
    *_, one, other = entries(study, "Rob")
    assert [entry.undoes for entry in (one, other) if isinstance(entry, Undo)] == [judged.name, changed.name]


def test_pictures_above_each_other_on_a_phone(page: sync_api.Page, running: Annotating) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    begin(page, running, "Pia")
    upper, lower, answer = (page.locator(name).bounding_box() for name in ("#left", "#right", "#first"))
    assert upper
    assert lower
    assert answer
    assert upper["width"] == lower["width"] > 350
    assert min(upper["height"], lower["height"]) > 250
    assert lower["y"] >= upper["y"] + upper["height"]
    assert answer["y"] + answer["height"] <= 844, "the answers are on the first screen"
    assert page.get_by_role("button", name="Upper").is_visible()


@pytest.mark.skipif(not AXE.exists(), reason="there is no axe-core; `make axe` brings it")
@pytest.mark.parametrize(("width", "height"), WIDTHS)
def test_accessible(page: sync_api.Page, running: Annotating, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.goto(running.address)
    page.get_by_label("Your name").fill(f"Axe {width}")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="How to judge").wait_for()
    found = {"instructions": complaints_dark_and_light(page)}
    page.keyboard.press("Enter")
    on_screen(page)
    if not page.locator("#references").is_visible():
        page.keyboard.press("r")
    found["pair"] = complaints_dark_and_light(page)
    page.locator("#references button").first.click()
    until(page, LARGE)
    found["large"] = complaints_dark_and_light(page)
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowRight")
    arrived(page)
    page.get_by_role("link", name="Single images").click()
    until(page, GRADED)
    found["single"] = complaints_dark_and_light(page)
    page.get_by_role("link", name="Judged").click()
    page.locator("#judged .card").first.wait_for()
    found["review"] = complaints_dark_and_light(page)
    assert {state: said for state, said in found.items() if said} == {}
