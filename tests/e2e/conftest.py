"""A browser and a service, which all files share, and the page in one from the other."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright import sync_api

from tests.cbir.store.index.conftest import milvus, vector_server
from tests.chromium import CHROMIUM, MISSING
from tests.service.conftest import Served, index_once, pictures, serving

PATIENCE_MS = 60_000  # the machine may be busy
sync_api.expect.set_options(timeout=PATIENCE_MS)

__all__ = ["milvus", "pictures", "vector_server"]  # fixtures of other tests, used here too


@pytest.fixture(scope="session")
def indexed(pictures: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a collection with the default profile; not to be changed."""
    return index_once(pictures, tmp_path_factory, "indexed-default")


@pytest.fixture(scope="package")
def served(indexed: Path) -> Iterator[Served]:
    with serving(indexed) as running:
        yield running


@pytest.fixture(scope="package")
def browser() -> Iterator[sync_api.Browser]:
    if not CHROMIUM.exists():
        pytest.skip(MISSING)
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def tolerated() -> list[str]:
    """What complaints of the browser's console may say, for tests that expect some; they may come late."""
    return []


@pytest.fixture
def blank_page(browser: sync_api.Browser, tolerated: list[str]) -> Iterator[sync_api.Page]:
    """A page without an address yet; no complaint may come but those that are tolerated."""
    errors: list[str] = []
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.set_default_timeout(PATIENCE_MS)
    opened.set_default_navigation_timeout(PATIENCE_MS)
    opened.on("console", lambda said: errors.append(said.text) if said.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    opened.close()
    assert [error for error in errors if not any(words in error for words in tolerated)] == []


@pytest.fixture
def page(blank_page: sync_api.Page, served: Served) -> sync_api.Page:
    """The search page as it is first seen."""
    blank_page.goto(served.address)
    return blank_page
