"""Saving a search as a case, taking it up again, and writing it as a teaching file."""

import re
from pathlib import Path

import httpx
import pytest
from playwright import sync_api
from playwright.sync_api import expect

from tests.e2e.browsing import choose, ids, settle, start, until
from tests.e2e.test_page_axe import AXE, complaints_dark_and_light
from tests.service.conftest import Served


def judge_and_search(page: sync_api.Page) -> None:
    page.locator("#columns .card").nth(2).press("y")
    page.locator("#columns .card").first.press("n")
    with page.expect_response("**/search"):
        page.keyboard.press("j")
    settle(page)
    page.locator("#columns .card").nth(4).press("y")


def save(page: sync_api.Page, title: str) -> str:
    """Save the search that is shown, and return the address of the case."""
    page.locator("#save-case").click()
    page.locator("#case-title").fill(title)
    page.locator("#case-note").fill("First <b>.\n\n第二")
    page.locator("#case-confirm").click()
    link = page.locator("#notice a")
    link.wait_for()
    assert link.inner_text() == title
    return str(link.get_attribute("href"))


def shown(page: sync_api.Page) -> tuple[list[str], str, list[str]]:
    settle(page)
    rounds = page.locator("#rounds ol li").all_inner_texts()
    return ids(page), page.locator("#judged").inner_text(), [" ".join(text.split()) for text in rounds]


@pytest.mark.parametrize("uploaded", [True, False])
def test_a_case_is_taken_up_with_its_judgements(
    page: sync_api.Page, served: Served, pictures: list[Path], uploaded: bool
) -> None:
    page.goto(f"{served.address}/?k=7&where=severity>=0&group_by=image")
    if uploaded:
        choose(page, pictures[-1])
    else:
        start(page)
    judge_and_search(page)
    before = shown(page)
    address = save(page, f"Case {uploaded}")
    page.goto(served.address + "/saved")
    item = page.locator("#list li", has_text=f"Case {uploaded}")
    assert item.locator(".excerpt").inner_text().startswith("First <b>.")
    until(page, "document.querySelector('#list img')?.naturalWidth > 0")
    item.get_by_role("link", name="Open the search").click()
    assert shown(page) == before
    assert page.get_by_role("button", name="Remove the filter severity>=0").is_visible()
    assert page.evaluate("new URLSearchParams(location.search).get('k')") == "7"
    page.goto(served.address + address)
    expect(page.locator("#verdict")).to_have_text(re.compile(r"Refined by your marks\. "))
    expect(page.locator("#answers li")).to_have_count(7)
    page.locator("#answers .card").nth(2).click()
    until(page, "Boolean(document.querySelectorAll('.reading cbir-viewer')[1]?.picture)")
    expect(page.locator(".reading h2")).to_have_text("Result 3 of 7")


def test_a_case_is_changed_exported_and_deleted(
    page: sync_api.Page, served: Served, pictures: list[Path]
) -> None:
    choose(page, pictures[-1])
    address = save(page, "To be changed")
    page.goto(served.address + address)
    html = page.locator("#export-html")
    html.wait_for()
    assert html.get_attribute("href") is None
    page.locator("[data-rank='2']").uncheck()
    page.locator("#checked").check()
    assert "ranks=1&ranks=3" in str(html.get_attribute("href"))
    assert page.locator("[data-key=label]").count() > 1
    page.locator("#label-keys input[value=label]").uncheck()
    assert html.get_attribute("href") is None
    assert page.locator("[data-key=label]").count() == 0
    page.locator("#checked").check()
    with page.expect_download() as download:
        page.locator("#export-pdf").click()
    assert Path(download.value.path()).read_bytes().startswith(b"%PDF-")
    page.locator("#title").fill("Changed")
    page.locator("#shared").check()
    page.get_by_role("button", name="Save changes").click()
    page.get_by_role("heading", name="Changed", exact=True).wait_for()
    expect(page.locator("#checked")).not_to_be_checked()  # the file has another title
    page.goto(served.address + "/saved")
    page.locator("#words").fill("chang")
    until(page, "document.querySelectorAll('#list li').length === 1")
    page.get_by_role("button", name="Delete Changed").click()
    page.locator("#delete-confirm").dblclick()  # asks the service once
    page.locator("#none").wait_for()


def test_a_draft_of_a_case_outlives_its_dialog(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[0])
    page.locator("#save-case").click()
    page.locator("#case-title").fill("Fracture")
    page.locator("#case-note").fill("Compare with\nthe other side")
    page.keyboard.press("Escape")
    page.locator("#save-case").click()
    expect(page.locator("#case-title")).to_have_value("Fracture")
    expect(page.locator("#case-note")).to_have_value("Compare with\nthe other side")
    page.locator("#case-confirm").click()
    page.locator("#notice a").wait_for()
    page.locator("#save-case").click()
    expect(page.locator("#case-note")).to_have_value("")
    page.locator("#case-note").fill("Of the first image")
    page.keyboard.press("Escape")
    choose(page, pictures[1])
    page.locator("#save-case").click()
    expect(page.locator("#case-note")).to_have_value("")


def test_a_case_is_kept_by_two_taps_on_a_phone(page: sync_api.Page, pictures: list[Path]) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    choose(page, pictures[0])
    page.locator("#save-case").click()
    page.keyboard.type("Fracture")
    page.locator("#case-confirm").click()
    expect(page.get_by_role("link", name="Fracture")).to_be_visible()


def test_several_images_are_no_case(page: sync_api.Page, pictures: list[Path]) -> None:
    page.set_input_files("#file", pictures[-2:])
    settle(page)
    page.locator("#save-case").click()
    assert "one query image" in page.locator("#case-problem").inner_text()
    assert page.locator("#case-confirm").is_disabled()


def test_a_case_that_is_gone(page: sync_api.Page, served: Served, tolerated: list[str]) -> None:
    tolerated.append("404")
    page.goto(f"{served.address}/?case=0123456789abcdef")
    assert "no case" in page.get_by_role("alert").inner_text()


def test_a_case_says_what_its_search_said(page: sync_api.Page, served: Served) -> None:
    with httpx.Client(base_url=served.address) as service:
        images = service.get("/v1/images", params={"limit": 50}).json()["items"]
        alike = [image for image in images if image["labels"]["label"] == images[0]["labels"]["label"]][:6]
        answers = [
            {"rank": rank, "image_id": image["image_id"], "score": 0.5, "distance": rank}
            for rank, image in enumerate(alike, 1)
        ]
        query = alike[0]["image_id"]
        for changes, said in (
            ({}, "Of "),
            ({"rounds": [[{"image_id": query, "relevance": 1}]]}, "Refined by your marks"),
            ({"search": {"image_id": query, "where": ["severity>=0"]}}, None),
            ({"search": {"image_id": query, "region": [0, 0, 9, 9]}}, None),
            ({"outlier": True}, "Nothing here looks like this"),
            ({"verdict": "No clear answer: 4 a, 2 b of 6."}, "No clear answer: 4 a"),
        ):
            case = {"title": "Case", "search": {"image_id": query}, "answers": answers, **changes}
            saved = service.post("/v1/cases", json=case).json()
            page.goto(f"{served.address}/saved/cases/{saved['id']}")
            page.locator("#answers li").first.wait_for()
            expect(page.locator("#verdict")).to_have_count(0 if said is None else 1)
            assert said is None or said in page.inner_text("#verdict")
            service.delete(f"/v1/cases/{saved['id']}")


@pytest.mark.skipif(not AXE.exists(), reason="there is no axe-core")
@pytest.mark.parametrize("width", [400, 1280])
def test_accessible(page: sync_api.Page, served: Served, pictures: list[Path], width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{served.address}/?k=5")
    choose(page, pictures[-1])
    page.locator("#save-case").click()
    found = {"dialog": complaints_dark_and_light(page)}
    page.keyboard.press("Escape")
    address = save(page, "For all")
    page.goto(served.address + "/saved")
    page.locator("#list li").first.wait_for()
    found["list"] = complaints_dark_and_light(page)
    page.goto(served.address + address.replace("/saved", ""))  # as it was saved before the page moved
    page.locator("#answers li").first.wait_for()
    expect(page.locator("#verdict")).to_have_text(
        re.compile(r"nearest are labelled|No clear answer: .* of the . nearest")
    )
    found["case"] = complaints_dark_and_light(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("button", name="Delete For all").click()
    found["delete"] = complaints_dark_and_light(page)
    assert {state: said for state, said in found.items() if said} == {}
