"""The page of an audit: it is started, suspects are corrected, and another one is cancelled."""

from pathlib import Path

import pytest
from playwright import sync_api
from playwright.sync_api import expect

from tests.service.conftest import cbir, serving


@pytest.mark.slow
def test_suspects_are_corrected_and_an_audit_is_cancelled(blank_page: sync_api.Page, tmp_path: Path) -> None:
    page, files, collection = blank_page, tmp_path / "radiographs", tmp_path / "collection"
    cbir("dataset", "phantoms", files, "--count", "80")
    labels = "--labels", files / "manifest.csv"
    cbir("index", files, *labels, "--profile", "huang2012", "--jobs", "1", "--collection", collection)
    with serving(collection) as served:
        images = page.request.get(f"{served.address}/v1/images?limit=1000").json()["items"]
        values = sorted({image["labels"]["anatomy"] for image in images})
        wrong = images[0]
        other = next(value for value in values if value != wrong["labels"]["anatomy"])
        one = f"{served.address}/v1/images/{wrong['image_id']}"
        assert page.request.patch(one, data={"labels": {"anatomy": other}}).ok
        page.goto(f"{served.address}/quality")
        expect(page.locator("#made")).to_contain_text("no audit")
        page.get_by_label("Label to check").select_option("anatomy")
        page.get_by_role("button", name="Start an audit").click()
        page.locator("#tab-labels").click(timeout=120_000)
        row = page.locator(f".finding:has(.subject img[src*='{wrong['image_id']}'])")
        last = page.locator(".finding").last
        last.get_by_role("button", name="Keep").press("Enter")
        expect(last).to_be_focused()  # its button is disabled now, and no row follows
        page.reload()
        row.focus()
        page.keyboard.press("y")
        expect(row).to_contain_text("Changed")
        page.locator("#tab-duplicates").click()
        page.locator("#tab-labels").click()
        expect(row).to_contain_text("Changed")
        page.reload()
        expect(row).to_contain_text("Changed")
        expect(row.get_by_role("button", name="Change to")).to_be_disabled()
        expect(page.get_by_label("Label to check")).to_have_value("anatomy")
        expect(page.locator("#tab-drift")).to_have_text("Drift")  # one day has no weeks to compare
        audit = page.request.get(f"{served.address}/v1/audit").json()["audit"]
        (suspect,) = (item for item in audit["labels"]["items"] if item["image_id"] == wrong["image_id"])
        assert page.request.get(one).json()["labels"]["anatomy"] == suspect["suggested"] != other
        assert cancelled_audit(page, served.address)
        expect(page.locator("#problem")).to_be_hidden()  # that it was cancelled is no failure


def cancelled_audit(page: sync_api.Page, address: str) -> bool:
    """Whether one of ten audits was cancelled before it ended, and the page shows the one before it again."""
    for _ in range(10):
        made = page.locator("#made").inner_text()
        with page.expect_response("**/cancel") as cancelling:
            page.get_by_role("button", name="Start an audit").click()
            page.get_by_role("button", name="Cancel").click()
        assert cancelling.value.status == 202
        expect(page.locator("#progress-line")).to_be_hidden(timeout=120_000)
        job = page.request.get(cancelling.value.url.removesuffix("/cancel")).json()
        if job["state"] == "cancelled":
            expect(page.locator("#made")).to_contain_text(made.removesuffix("."))
            return True
    return False
