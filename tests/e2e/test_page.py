"""The search page in a real browser, over a real service."""

from pathlib import Path

import PIL.Image
import pytest
from playwright import sync_api

from tests.e2e.browsing import (
    SEARCHES,
    VIEWER,
    become_expert,
    choose,
    ids,
    see_query,
    settle,
    show,
    titles,
    until,
)
from tests.service.conftest import Served


def test_start(page: sync_api.Page) -> None:
    assert page.get_by_role("button", name="Drop an image here").is_visible()
    assert page.locator("#start .card").count() == 3
    assert page.locator("#side").is_hidden()
    assert "Not a medical device" in page.inner_text("footer")


def test_start_by_touch(browser: sync_api.Browser, served: Served) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.goto(served.address)
    page.locator("#start").wait_for()
    assert page.inner_text("#drop").split("\n") == [
        "Choose an image",
        "PNG, JPEG, TIFF, DICOM, NIfTI or a ZIP archive",
    ]
    assert page.get_attribute("#box", "placeholder") == "Type an image id or a link …"
    page.close()


def test_file_is_answered(page: sync_api.Page, pictures: list[Path]) -> None:
    page.goto(f"{page.url}?group_by=image")
    choose(page, pictures[-1])
    assert len(ids(page)) == 20
    see_query(page)
    first = page.locator("#columns li").first
    assert first.locator(".number").text_content() == "1"
    assert first.locator("b").text_content() in ("even", "odd")
    assert first.locator(".figures").count() == 0  # of experts
    seen = "[...document.querySelectorAll('#columns img')].slice(0, 5).every(image => image.naturalWidth > 0)"
    until(page, seen)


def test_one_result_a_patient_and_more_of_it(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    assert "One per known patient" in page.inner_text("#group")
    first = ids(page)
    assert len(first) == 8  # patients of 30 images
    page.locator("[data-more]").first.click()
    page.get_by_text("1.2", exact=True).wait_for()
    opened = ids(page)
    assert opened[0] == first[0]
    assert opened[-1] == first[-1]
    assert len(set(opened)) == len(opened) > len(first)
    page.get_by_text("Fewer").click()
    until(page, "!document.body.textContent.includes('Fewer')")
    assert ids(page) == first


def test_before_and_after(page: sync_api.Page, served: Served, pictures: list[Path]) -> None:
    page.goto(f"{served.address}/?group_by=image")
    become_expert(page)
    choose(page, pictures[-1])
    after = ids(page)
    assert "score" in page.locator("#columns .figures").first.inner_text()
    assert "decode" in page.inner_text("#summary")
    show(page, "Side by side")
    before = ids(page, "before")
    assert ids(page) == after
    assert len(before) == len(after) == 20
    moves = page.locator('[data-list="after"] .move').all_text_contents()
    for now, (image, move) in enumerate(zip(after, moves, strict=True)):
        if image in before:
            places = before.index(image) - now
            assert move == ("=" if not places else f"▲{places}" if places > 0 else f"▼{-places}")
        else:
            assert move == "new" or move.startswith("▲")
    show(page, "Before")
    assert ids(page, "before") == before
    assert page.locator(".move").count() == 0


def test_without_reranking_there_is_nothing_to_compare(page: sync_api.Page, pictures: list[Path]) -> None:
    become_expert(page)
    choose(page, pictures[-1])
    page.locator("#rerank").select_option("none")
    settle(page)
    assert "visual similarity" in page.inner_text("#explanation")
    assert page.locator("#views").count() == 0
    page.locator("#rerank").select_option("pearson")
    settle(page)
    assert page.locator("#views").is_visible()


def test_search_from_an_answer_and_back(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    first = ids(page)
    page.locator("#columns .card").nth(2).press("s")
    page.wait_for_url(f"**/?image={first[2]}")
    settle(page)
    second = ids(page)
    assert first[2] not in second
    page.go_back()
    settle(page)
    until(page, f"document.querySelector('#columns .card').dataset.image === '{first[0]}'")
    assert ids(page) == first


def test_address_can_be_shared(page: sync_api.Page, served: Served) -> None:
    image = page.locator("#start .card").first.get_attribute("data-image")
    page.goto(f"{served.address}/?image={image}&rerank=pearson&k=5&where=label%3Dodd")
    settle(page)
    assert len(ids(page)) == 5
    assert titles(page) == {"odd"}
    become_expert(page)
    assert page.locator("#rerank").input_value() == "pearson"
    assert page.get_by_role("button", name="Remove the filter label=odd").is_visible()


def test_a_file_that_is_no_image_keeps_the_results(
    page: sync_api.Page, pictures: list[Path], tolerated: list[str], tmp_path: Path
) -> None:
    tolerated.append("422")
    choose(page, pictures[-1])
    shown = ids(page)
    (tmp_path / "letter.png").write_text("Dear colleague")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    page.set_input_files("#file", tmp_path / "letter.png")
    page.get_by_role("alert").wait_for()
    page.wait_for_load_state("networkidle")
    assert [url.rsplit("/", 1)[1] for url in sent] == ["search"]  # the refusal tells enough
    assert "not a PNG, JPEG, TIFF, BMP, DICOM or NIfTI file" in page.inner_text("#problem")
    assert ids(page) == shown
    choose(page, pictures[-2])
    assert page.locator("#problem").count() == 0


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
    until(page, f"{VIEWER}.count === 3")
    with page.expect_response(SEARCHES) as response:
        page.locator("#side .viewer-slider").fill("3")
    assert response.value.json()["query"]["frame"] == 3
    settle(page)
    choose(page, pictures[-1])
    until(page, f"{VIEWER}.count === 1")


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
    settle(page)
    assert len(ids(page)) == 8


def test_service_that_is_gone(page: sync_api.Page, tolerated: list[str], pictures: list[Path]) -> None:
    tolerated.append("ERR_CONNECTION_REFUSED")
    choose(page, pictures[-1])
    shown = ids(page)
    page.route("**/v1/**", lambda route: route.abort("connectionrefused"))
    page.set_input_files("#file", pictures[0])
    page.get_by_role("alert").wait_for()
    assert "does not respond" in page.inner_text("#problem")
    assert ids(page) == shown
    page.unroute("**/v1/**")
    page.get_by_role("button", name="Try again").click()
    settle(page)
    assert page.locator("#problem").count() == 0


@pytest.mark.parametrize("width", [360, 400, 768, 1280])
def test_nothing_is_wider_than_the_window(page: sync_api.Page, pictures: list[Path], width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    become_expert(page)
    choose(page, pictures[-1])
    for view in ("After re-ranking", "Side by side"):
        show(page, view)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert (
            page.evaluate(
                "document.getElementById('found').scrollWidth - document.getElementById('found').clientWidth"
            )
            <= 0
        )


def test_keyboard_reaches_everything(page: sync_api.Page) -> None:
    reached = set()
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.className"))
    assert {"box", "choose", "brand", "drop", "card"} <= reached
