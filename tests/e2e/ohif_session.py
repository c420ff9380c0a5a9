"""A reader in OHIF: opens a study, our panel, another series, a similar study. Prints what was seen as JSON.

`python -m tests.e2e.ohif_session VIEWER STUDY PICTURE` runs in the network namespace of Orthanc.
"""

import json
import sys
from typing import Any

from playwright import sync_api

from tests.chromium import CHROMIUM
from tests.e2e.conftest import PATIENCE_MS

SCREEN = sync_api.ViewportSize(width=1440, height=900)
SOFTWARE_GL = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]


def look(browser: sync_api.Browser, viewer: str, study: str, picture: str) -> dict[str, Any]:
    """Return the addresses of the panel's page and of what its first card opened, and the console's errors."""
    context = browser.new_context(viewport=SCREEN, color_scheme="null")
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    errors: list[str] = []
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.goto(f"{viewer}/viewer?StudyInstanceUIDs={study}")
    page.get_by_text("Skip all").click()  # the tour
    page.locator("[data-cy='similar-btn']").click()
    frame = page.frame_locator("iframe[title='Similar images']")
    frame.locator(".card img").first.evaluate("image => image.decode()")
    shown = page.locator("iframe[title='Similar images']")
    seen: dict[str, Any] = {"first": shown.get_attribute("src"), "cards": frame.locator(".card").count()}
    seen["dark"] = frame.locator("body").evaluate("() => matchMedia('(prefers-color-scheme: dark)').matches")
    page.wait_for_timeout(1000)  # the viewport fits the picture to its new width
    page.screenshot(path=picture)
    with page.expect_event("framenavigated"):
        page.locator("[data-cy='study-browser-thumbnail']").nth(1).dblclick()
    frame.locator(".card").first.wait_for()
    seen["second"] = shown.get_attribute("src")
    with context.expect_page() as opened:
        frame.locator(".card").first.click()
    opened.value.wait_for_url("**/viewer?StudyInstanceUIDs=*")
    seen["opened"] = opened.value.url
    seen["errors"] = errors
    return seen


if __name__ == "__main__":
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=str(CHROMIUM), args=SOFTWARE_GL)
        print(json.dumps(look(launched, *sys.argv[1:])))
        launched.close()
