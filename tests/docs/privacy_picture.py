"""Picture of the privacy section in the report of an audit."""

from pathlib import Path

from playwright import sync_api

from tests.chromium import CHROMIUM
from tests.service.conftest import cbir

SCREEN = sync_api.ViewportSize(width=1100, height=760)


def take_privacy(work: Path) -> bytes:
    """Return the picture, PNG, of the report on phantoms with made-up tags; some have text in their pixels."""
    files, collection, report = work / "files", work / "collection", work / "report"
    cbir("dataset", "phantoms", files, "--count", "60", "--format", "dicom")
    cbir("index", files, "--collection", collection, "--profile", "tamura")
    cbir("collection", "audit", "--privacy", "--collection", collection, "--out", report)
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        page = browser.new_page(viewport=SCREEN, color_scheme="light")
        page.goto((report / "report.html").as_uri())
        page.locator("#privacy").evaluate("heading => heading.scrollIntoView()")
        picture = page.screenshot()
        browser.close()
    return picture
