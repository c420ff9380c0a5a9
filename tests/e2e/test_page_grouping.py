"""One result per patient or label on the page, and more of a group on demand."""

from pathlib import Path

import pytest
from playwright import sync_api

from tests.e2e.browsing import SETTLED, choose, ids, settle
from tests.e2e.test_page_axe import AXE, complaints


def group(page: sync_api.Page, by: str) -> None:
    page.get_by_role("combobox", name="One result per").select_option(by)
    settle(page)
    page.wait_for_selector(f"{SETTLED} .of-group")


def test_one_per_label_and_more_of_it(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    group(page, "label:label")
    first = ids(page)
    assert len(first) == 2
    assert "group_by=label" in page.url
    page.locator(".of-group").first.click()
    page.get_by_role("img", name="Rank 1.2", exact=True).wait_for()
    opened = ids(page)
    assert opened[0] == first[0]
    assert opened[-1] == first[1]
    assert len(set(opened)) == len(opened) == 16  # 15 of each label
    assert page.locator(".of-group").count() == 1
    assert page.evaluate("document.activeElement.dataset.image") == opened[1]


def test_the_address_has_the_grouping(page: sync_api.Page) -> None:
    page.locator(".examples .card").first.click()
    page.wait_for_selector(f"{SETTLED} .move")
    group(page, "patient")
    found, address = ids(page), page.url
    assert len(found) <= 8
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector(f"{SETTLED} .move")
    assert ids(page) == found


@pytest.mark.skipif(not AXE.exists(), reason="there is no axe-core; see test_page_axe.py")
def test_accessible_groups(page: sync_api.Page, pictures: list[Path]) -> None:
    page.emulate_media(reduced_motion="reduce")
    choose(page, pictures[-1])
    group(page, "patient")
    assert complaints(page) == []
