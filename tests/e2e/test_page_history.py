"""What the page says is of the query that it shows: while an answer is awaited, after an error, back and reloaded."""

from pathlib import Path

from playwright import sync_api

from tests.e2e.browsing import (
    SEARCHES,
    VIEWER,
    become_expert,
    choose,
    crop_by_mouse,
    see_query,
    settle,
    show,
    start,
    until,
)
from tests.service.conftest import Served


def test_no_verdict_of_the_query_before(
    page: sync_api.Page, pictures: list[Path], tolerated: list[str]
) -> None:
    tolerated.append("503")
    choose(page, pictures[-1])
    page.locator("#verdict").wait_for()
    page.route(SEARCHES, lambda route: route.fulfill(status=503, json={"detail": "closed"}))
    page.set_input_files("#file", pictures[-2])
    page.get_by_role("alert").wait_for()
    assert page.locator("#columns .card").count() > 0  # they stay
    for name in ("#verdict", "#compare", "#save-case"):
        sync_api.expect(page.locator(name)).not_to_be_visible()
    assert page.locator("#columns .mark").count() == page.locator("#columns li").count()  # to search alone
    page.locator("#columns .card").first.press("y")
    assert page.locator("#judged").count() == 0
    page.unroute(SEARCHES)
    page.get_by_role("button", name="Try again").click()
    settle(page)
    sync_api.expect(page.locator("#verdict")).to_be_visible()


def test_back_takes_the_region_away(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    with page.expect_response(SEARCHES):
        crop_by_mouse(page)
    settle(page)
    page.get_by_text("Only the region is searched").wait_for()
    page.go_back()
    until(page, f"{VIEWER}.region === null")
    assert page.get_by_text("Only the region is searched").count() == 0
    page.go_forward()
    until(page, f"{VIEWER}.region?.width > 0.2")


def test_back_after_a_reload_shows_no_other_file(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    page.reload()
    page.locator("#drop").wait_for()
    choose(page, pictures[-2])
    page.go_back()
    page.locator("#drop").wait_for()


def test_a_picture_has_no_window_to_search_in(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    see_query(page)
    page.evaluate(f"{VIEWER}.changeWindow([100, 60])")
    page.wait_for_timeout(100)
    assert page.locator("#search-window").count() == 0


def test_what_is_kept_is_for_one_person(page: sync_api.Page, served: Served, pictures: list[Path]) -> None:
    page.evaluate("document.getElementById('keep').click()")
    choose(page, pictures[-1])
    page.wait_for_timeout(300)  # until it is stored
    page.evaluate("localStorage.setItem('keep-query', 'user someone else')")
    page.goto(served.address)
    page.locator("#drop").wait_for()
    page.wait_for_timeout(300)
    assert page.locator("#columns").count() == 0
    page.evaluate("document.getElementById('keep').click()")  # what the other kept is forgotten
    page.wait_for_timeout(300)
    page.goto(served.address)
    page.locator("#drop").wait_for()
    page.wait_for_timeout(300)
    assert page.locator("#columns").count() == 0


def test_a_card_of_the_order_before_opens_itself(page: sync_api.Page, pictures: list[Path]) -> None:
    become_expert(page)
    choose(page, pictures[-1])
    with page.expect_response(SEARCHES):
        page.locator("#rerank").select_option("eprf")
    settle(page)
    show(page, "Side by side")
    card = page.locator('#columns [data-list="before"] .card').last
    rank = card.locator(".number").inner_text()
    card.click()
    page.locator(".reading h2", has_text=f"Result {rank} of").wait_for()


def test_no_images_of_other_studies(page: sync_api.Page) -> None:
    answer = {"query": {}, "results": [], "extras": {}, "agreement": [], "before": None}
    page.route(SEARCHES, lambda route: route.fulfill(json=answer))
    page.locator("#start .card").first.click()
    page.get_by_text("The collection has no images of other studies.").wait_for()
    page.unroute(SEARCHES)
    page.get_by_role("button", name="Search in the query's own study too").click()
    settle(page)
    assert "own=1" in page.url


def test_a_link_of_another_host_stays_here(page: sync_api.Page, served: Served, tolerated: list[str]) -> None:
    """Its path begins with //, which is the beginning of another address where it stands alone."""
    tolerated.append("404")
    page.goto(f"{served.address}/?q={served.address}//example.org/a")
    page.wait_for_url(f"{served.address}//example.org/a")


def test_marks_are_kept_for_the_same_image(page: sync_api.Page) -> None:
    image = start(page)
    page.locator("#columns .card").first.press("y")
    page.reload()
    settle(page)
    assert f"image={image}" in page.url
    assert page.inner_text("#judged") == "1 like this"
