"""Take the pictures of pages in the documents, of synthetic radiographs: `make pictures` (NAMES="search ohif").

Each becomes docs/pictures/NAME.webp.
"""

import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image, ImageDraw
from playwright import sync_api

from tests.chromium import CHROMIUM
from tests.docs.blocks import ROOT
from tests.docs.prior_picture import take_priors
from tests.docs.privacy_picture import take_privacy
from tests.e2e.browsing import choose, until, until_viewers
from tests.e2e.conftest import PATIENCE_MS
from tests.e2e.judging import annotating, introduce
from tests.e2e.ohif import viewing, write_files
from tests.service.conftest import cbir, serving

FOLDER = ROOT / "docs" / "pictures"
SCREEN = sync_api.ViewportSize(width=1280, height=800)
IMAGES = 400
STUDY = "first-ten"


def search(page: sync_api.Page, query: Path) -> None:
    """Search with a radiograph that the collection does not have."""
    choose(page, query)


def compare(page: sync_api.Page, query: Path) -> None:
    """Open a result beside the query."""
    choose(page, query)
    page.locator("#columns .card").nth(1).click()
    until_viewers(page, "viewer.picture")


def gallery(page: sync_api.Page, query: Path) -> None:
    """Choose a label in the gallery and select images."""
    page.goto("/browse")
    page.locator("img").nth(5).evaluate("image => image.decode()")


def case(page: sync_api.Page, query: Path) -> None:
    """Save a search as a case, and open the page with its teaching file."""
    choose(page, query)
    page.locator("#columns .card").nth(1).press("y")
    page.locator("#save-case").click()
    page.locator("#case-title").fill("Effusion on the left")
    page.locator("#case-note").fill(
        "Compare the costophrenic angles.\n\nThe third result shows the early stage."
    )
    page.locator("#case-confirm").click()
    page.locator("#notice a").click()
    page.locator("#answers img").nth(4).evaluate("image => image.decode()")


def cohort(page: sync_api.Page, query: Path) -> None:
    """Find all images of a kind, until some are found."""
    choose(page, query)
    page.locator("#columns .card").nth(1).press("y")
    page.locator("#columns .card").nth(2).press("y")
    page.locator("#find-all").click()
    page.locator("#begin-title").fill("Like this radiograph")
    page.locator("#begin-confirm").click()
    page.locator("#grid .card").nth(5).wait_for()
    label = page.locator("#grid .card b").first.inner_text()
    for left in (1, 0):
        for card in page.locator("#grid li").all()[: 24 if left else 7]:
            belongs = card.locator("b").inner_text() == label
            card.locator(".mark").nth(0 if belongs else 1).click()
        if left:
            page.locator("#next").click()
            until(page, "!document.querySelector('.liked, .unliked')")
    page.locator("#grid img").nth(9).evaluate("image => image.decode()")


def why(page: sync_api.Page, query: Path) -> None:
    """Show what matches of the query and the first result, in the comparison."""
    compare(page, query)
    page.keyboard.press("h")
    page.wait_for_timeout(3000)


def collection_map(page: sync_api.Page, query: Path) -> None:
    """Show the results of a search on the map."""
    choose(page, query)
    page.locator("[popovertarget=query-menu]").click()
    page.get_by_role("link", name="Show on the map").click()
    page.wait_for_timeout(5000)


def administration(page: sync_api.Page, query: Path) -> None:
    """Show what runs, after some searches."""
    choose(page, query)
    page.goto("/admin")
    page.wait_for_timeout(2000)


def quarantine(page: sync_api.Page, query: Path) -> None:
    """Show images with text that came in; the service was started with `intake=quarantine`."""
    for number, words in enumerate(
        ("DOE JANE 12.03.1957", "ID 4711123", "SMITH JOHN M 54Y", "GARCIA 2019-03-07")
    ):
        picture = Image.open(query).convert("L").rotate(3 * number)
        picture = picture.resize((512, 512 * picture.height // picture.width))
        ImageDraw.Draw(picture).text((12, 10), words, fill=255, font_size=24)
        data = io.BytesIO()
        picture.save(data, "PNG")
        answer = page.request.post("/v1/images", data=data.getvalue(), headers={"Content-Type": "image/png"})
        assert answer.status == 202, answer.text()
    page.goto("/quality#quarantine")
    page.locator("#quarantined img").nth(3).evaluate("image => image.decode()")


def audit(page: sync_api.Page, query: Path) -> None:
    """Change the label of some images, and show that an audit suspects them."""
    items = page.request.get("/v1/images?limit=1000").json()["items"]
    for item, other in zip(items[:120:10], items[125:], strict=False):
        labels = {"label": other["labels"]["label"]}
        assert page.request.patch(f"/v1/images/{item['image_id']}", data={"labels": labels}).ok
    page.goto("/quality")
    page.locator("#label").select_option("label")
    page.locator("#run").click()
    page.locator("#tab-labels").click(timeout=10 * PATIENCE_MS)
    page.locator(".finding img").nth(7).evaluate("image => image.decode()")


def study(page: sync_api.Page, query: Path) -> None:
    """Compare two methods in a reader study."""
    page.goto(f"/study/{STUDY}")
    page.get_by_role("button", name="Begin or continue").click()
    page.wait_for_timeout(2000)


# The state of a page that a picture shows, by its name; the page is open at the search page before.
SCENES: dict[str, Callable[[sync_api.Page, Path], None]] = {
    "search": search,
    "compare": compare,
    "gallery": gallery,
    "case": case,
    "cohort": cohort,
    "quarantine": quarantine,
    "why": why,
    "map": collection_map,
    "administration": administration,
    "study": study,
    "audit": audit,  # the last: it changes labels
}


def take_scenes(names: list[str], work: Path) -> None:
    """Take pictures of the pages of one service."""
    files, collection = work / "radiographs", work / "collection"
    cbir("dataset", "phantoms", files, "--count", str(IMAGES + 1))
    query = sorted(files.glob("*.png"))[-1].rename(work / "query.png")
    cbir("index", files, "--labels", files / "manifest.csv", "--collection", collection)
    cbir("collection", "map", "--collection", collection)
    state = str(work / "state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CBIR_STATE_FOLDER", state)
        cbir(
            "evaluate",
            "study",
            "create",
            STUDY,
            "--collection",
            collection,
            "--a",
            "none",
            "--b",
            "auto",
            "--label",
            "label",
        )
    with (
        serving(collection, CBIR_STATE_FOLDER=state, CBIR_INTAKE="quarantine") as served,
        sync_api.sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        for name in names:
            page = browser.new_page(viewport=SCREEN, base_url=served.address, color_scheme="light")
            page.set_default_timeout(PATIENCE_MS)
            page.goto("/")
            SCENES[name](page, query)
            page.wait_for_timeout(2000)  # a page that polls is never idle
            save(name, page.screenshot())
            page.close()
        browser.close()


def take_ohif(work: Path) -> None:
    """Take the picture of our panel in the viewer OHIF, with Orthanc behind it."""
    studies = write_files(work / "files", 60)
    study = next(uid for uid, series in studies.items() if len(series) > 1)
    with viewing(work, work / "files") as (network, address):
        network.run(sys.executable, "-m", "tests.e2e.ohif_session", address, study, work / "panel.png")
    save("ohif", (work / "panel.png").read_bytes())


def take_annotation(work: Path) -> None:
    """Take the picture of the annotation page with reference images."""
    files, collection = work / "lenses", work / "lens-collection"
    cbir("dataset", "phantoms", files, "--count", "60", "--slit-lamp")
    cbir("index", files, "--labels", files / "manifest.csv", "--collection", collection)
    options = [
        "--question",
        "Which lens is more opaque?",
        "--grades",
        "0,1,2,3,4,5,6",
        "--reference-label",
        "grade",
    ]
    with (
        annotating("--collection", collection, "--study-dir", work / "study", *options) as running,
        sync_api.sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        page = browser.new_page(viewport=SCREEN, color_scheme="light")
        introduce(page, running.address)
        page.wait_for_load_state("networkidle")
        save("annotation", page.screenshot())
        browser.close()


def save(name: str, png: bytes) -> None:
    """Write the picture `name` to the documents."""
    path = FOLDER / f"{name}.webp"
    Image.open(io.BytesIO(png)).convert("RGB").save(path, quality=80, method=6)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} kB", flush=True)


def main(names: list[str]) -> None:
    """Take the pictures `names`; all without any."""
    known = [*SCENES, "ohif", "annotation", "priors", "privacy"]
    if unknown := set(names) - set(known):
        sys.exit(f"there is no picture {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    chosen = [name for name in known if name in names or not names]
    with tempfile.TemporaryDirectory() as folder:
        work = {name: Path(folder, name) for name in ("pages", "ohif", "annotation", "priors", "privacy")}
        for path in work.values():
            path.mkdir()
        if scenes := [name for name in chosen if name in SCENES]:
            take_scenes(scenes, work["pages"])
        if "ohif" in chosen:
            take_ohif(work["ohif"])
        if "annotation" in chosen:
            take_annotation(work["annotation"])
        if "priors" in chosen:
            save("priors", take_priors(work["priors"]))
        if "privacy" in chosen:
            save("privacy", take_privacy(work["privacy"]))


if __name__ == "__main__":
    main(sys.argv[1:])
