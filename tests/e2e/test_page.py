"""The page in a real browser, over a real service."""

from pathlib import Path

import PIL.Image
import pytest
from playwright import sync_api

from tests.e2e.browsing import SETTLED, choose, ids, show, until
from tests.service.conftest import Served


def test_start(page: sync_api.Page) -> None:
    assert page.get_by_role("heading", name="Find images like yours").is_visible()
    assert page.locator(".examples .card").count() == 12
    assert page.get_by_role("button", name="Search", exact=True).is_disabled()
    assert "Not a medical device" in page.inner_text("footer")


def test_file_is_answered(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    assert len(ids(page)) == 20
    picture = page.locator("#picture")
    assert picture.evaluate("image => image.complete && image.naturalWidth > 0")
    first = page.locator(".column .card").first
    assert first.locator(".rank").text_content() == "1"
    assert first.locator(".label").text_content() in ("even", "odd")
    assert "score" in (first.locator(".figures").text_content() or "")
    assert page.locator(".stages").inner_text().startswith("decode")
    seen = "[...document.querySelectorAll('.column img')].slice(0, 5).every(image => image.naturalWidth > 0)"
    until(page, seen)


def test_before_and_after(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    after = ids(page)
    show(page, "Side by side")
    before = ids(page, "Before re-ranking")
    assert ids(page) == after
    assert len(before) == len(after) == 20
    moves = page.locator('section[aria-label="After re-ranking"] .move').all_text_contents()
    for now, (image, move) in enumerate(zip(after, moves, strict=True)):
        if image in before:
            places = before.index(image) - now
            assert move == ("=" if not places else f"▲{places}" if places > 0 else f"▼{-places}")
        else:
            assert move == "new" or move.startswith("▲")
    show(page, "Before")
    assert ids(page, "Before re-ranking") == before
    assert page.locator(".move").count() == 0


def test_without_reranking_there_is_nothing_to_compare(page: sync_api.Page, pictures: list[Path]) -> None:
    page.get_by_role("combobox", name="Re-ranking").select_option("none")
    assert "visual similarity" in page.inner_text("#explanation")
    page.set_input_files("#file", pictures[-1])
    page.wait_for_selector(f"{SETTLED} .card")
    assert len(ids(page, "Results")) == 20
    assert not page.locator("#views").is_visible()
    page.get_by_role("combobox", name="Re-ranking").select_option("pearson")
    page.wait_for_selector(f"{SETTLED} .move")
    assert page.locator("#views").is_visible()


def test_search_from_an_answer_and_back(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    first = ids(page)
    page.locator(".column .card").nth(2).press("s")
    page.wait_for_url(f"**/?image={first[2]}")
    page.wait_for_selector(f"{SETTLED} .move")
    second = ids(page)
    assert first[2] not in second
    assert "of the collection" in page.inner_text("#caption")
    page.go_back()
    page.get_by_text("Your image ·").wait_for()
    page.wait_for_selector(f"{SETTLED} .move")
    assert ids(page) == first


def test_address_can_be_shared(page: sync_api.Page, served: Served) -> None:
    image = page.locator(".examples .card").first.get_attribute("data-image")
    page.goto(f"{served.address}/?image={image}&rerank=pearson&k=5&where=label%3Dodd")
    page.wait_for_selector(f"{SETTLED} .move")
    assert len(ids(page)) == 5
    assert set(page.locator(".column .label").all_text_contents()) == {"odd"}
    assert page.get_by_role("combobox", name="Re-ranking").input_value() == "pearson"
    assert page.get_by_label("Only images with").input_value() == "label=odd"


def test_filter_that_nothing_fits(page: sync_api.Page) -> None:
    page.locator(".examples .card").first.click()
    page.wait_for_selector(f"{SETTLED} .move")
    page.get_by_label("Only images with").fill("label=nobody")
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_role("heading", name="No results").wait_for()
    assert "label=nobody" in page.inner_text("#nothing")


def test_text_file(page: sync_api.Page, tolerated: list[str], tmp_path: Path) -> None:
    tolerated.append("422")
    (tmp_path / "letter.png").write_text("Dear colleague")
    page.set_input_files("#file", tmp_path / "letter.png")
    page.get_by_role("alert").wait_for()
    said = page.inner_text("#problem")
    assert "not a PNG, JPEG, TIFF, BMP, DICOM or NIfTI file" in said
    assert page.locator(".column").count() == 0


def test_image_that_is_not_in_the_collection(
    page: sync_api.Page, served: Served, tolerated: list[str]
) -> None:
    tolerated.append("404")
    page.goto(f"{served.address}/?image=nothing-like-it")
    page.get_by_role("alert").wait_for()
    assert "nothing-like-it" in page.inner_text("#problem")


def test_frames(page: sync_api.Page, pictures: list[Path], tmp_path: Path) -> None:
    pages = [PIL.Image.open(path) for path in pictures[:3]]
    pages[0].save(tmp_path / "pages.tif", save_all=True, append_images=pages[1:])
    choose(page, tmp_path / "pages.tif")
    assert "frame 1" in page.inner_text("#caption")
    page.get_by_label("Frame").fill("3")
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_text("frame 3").wait_for()
    choose(page, pictures[-1])
    assert not page.get_by_label("Frame").is_visible()


def test_dropped_file(page: sync_api.Page, pictures: list[Path]) -> None:
    page.evaluate(
        """bytes => {
            const dropped = new DataTransfer();
            dropped.items.add(new File([new Uint8Array(bytes)], "dropped.png"));
            const event = new DragEvent("drop", { dataTransfer: dropped, bubbles: true, cancelable: true });
            document.getElementById("drop").dispatchEvent(event);
        }""",
        list(pictures[-1].read_bytes()),
    )
    page.wait_for_selector(f"{SETTLED} .move")
    assert len(ids(page)) == 20


def test_service_that_is_gone(page: sync_api.Page, tolerated: list[str], pictures: list[Path]) -> None:
    tolerated.append("ERR_CONNECTION_REFUSED")
    page.route("**/v1/**", lambda route: route.abort("connectionrefused"))
    page.set_input_files("#file", pictures[0])
    page.get_by_role("alert").wait_for()
    assert "does not respond" in page.inner_text("#problem")


@pytest.mark.parametrize("width", [360, 400, 768, 1280])
def test_nothing_is_wider_than_the_window(page: sync_api.Page, pictures: list[Path], width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    choose(page, pictures[-1])
    for view in ("After re-ranking", "Side by side"):
        show(page, view)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_keyboard_reaches_everything(page: sync_api.Page) -> None:
    reached = set()
    for _ in range(20):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.className"))
    assert {"file", "rerank", "k", "where", "brand", "card"} <= reached
