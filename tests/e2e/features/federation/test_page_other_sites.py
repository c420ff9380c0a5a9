"""Other hospitals on the page: the switch, images marked by site, and sites that do not answer."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright import sync_api

from cbir.system.access_rights import Scope
from tests.e2e.browsing import choose, settle
from tests.e2e.test_page_axe import AXE, complaints
from tests.service.conftest import Served, copy_folder, serving, stored_tokens

SHARED = {
    "CBIR_FEDERATION_MINIMUM": "1",
    "CBIR_FEDERATION_THUMBNAILS": "true",
    "CBIR_FEDERATION_LABELS": "label",
}


@pytest.fixture(scope="module")
def served(indexed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service that knows another one with the same images, and one that is not there."""
    place = tmp_path_factory.mktemp("north")
    other, state, token = (place / name for name in ("collection", "state", "token"))
    copy_folder(indexed, other)
    token.write_text(stored_tokens(state).create([Scope.federate])[1])
    with serving(other, CBIR_STATE_FOLDER=str(state), CBIR_REQUIRE_TOKENS="true", **SHARED) as north:
        sites = {
            "north": {"url": north.address, "seconds": 20, "token_file": str(token)},
            "east": {"url": "http://127.0.0.1:1"},
        }
        with serving(indexed, CBIR_SITES=json.dumps(sites)) as south:
            yield south


def ask(page: sync_api.Page, pictures: list[Path]) -> None:
    """Search with a picture here, and then at the other hospitals too."""
    choose(page, pictures[-1])
    page.get_by_role("checkbox", name="Other hospitals").check()
    settle(page)
    page.locator(".elsewhere").first.wait_for()


def test_images_of_other_sites_are_marked(page: sync_api.Page, pictures: list[Path]) -> None:
    ask(page, pictures)
    own, elsewhere = page.locator("#columns li:not(.elsewhere)"), page.locator("#columns .elsewhere")
    assert own.count() == elsewhere.count() == 10  # both have the same images: each is found twice
    assert elsewhere.first.locator(".site").inner_text() == "north"
    assert (
        elsewhere.first.locator("img").evaluate("image => image.decode().then(() => image.naturalWidth)") > 0
    )
    notes = page.locator("#sites").inner_text()
    assert "This hospital: 10 results" in notes
    assert "north: 10 results, 30 images searched" in notes
    assert "east gave no answer: it cannot be reached" in notes
    assert "federated" not in page.url  # no link makes a page send anything


def test_the_switch_is_off_at_first(page: sync_api.Page, pictures: list[Path]) -> None:
    choose(page, pictures[-1])
    assert not page.get_by_role("checkbox", name="Other hospitals").is_checked()
    assert page.locator(".elsewhere").count() == 0


@pytest.mark.skipif(not AXE.exists(), reason="there is no axe-core; see test_page_axe.py")
def test_accessible_sites(page: sync_api.Page, pictures: list[Path]) -> None:
    page.emulate_media(reduced_motion="reduce")
    ask(page, pictures)
    assert complaints(page) == []
