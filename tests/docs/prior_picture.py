"""The picture of a patient's other studies: a synthetic chest radiograph, and three earlier visits."""

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from playwright import sync_api
from pydicom import dcmread
from pydicom.uid import generate_uid

from tests.chromium import CHROMIUM
from tests.e2e.conftest import PATIENCE_MS
from tests.service.conftest import cbir, serving

SCREEN = sync_api.ViewportSize(width=1280, height=800)
VIEWER = "https://viewer.example.org/viewer?StudyInstanceUIDs={study}"
VISITS = (34, 219, 743)  # days before the last
IMAGES = 240


def _write_visits(files: Path) -> str:
    """Write earlier visits of the first patient, a little shifted; return the study of the last visit."""
    first = dcmread(files / "phantom-000000.dcm")
    day = datetime.strptime(first.StudyDate, "%Y%m%d").date()
    for number, before in enumerate(VISITS):
        study = generate_uid(entropy_srcs=["visit", str(number)])
        for name in ("phantom-000000.dcm", "phantom-000001.dcm"):
            dataset = dcmread(files / name)
            if dataset.file_meta.TransferSyntaxUID.is_compressed:
                dataset.decompress()
            pixels = np.roll(dataset.pixel_array, (3 * number + 5, -4 * number - 2), (0, 1))
            dataset.PixelData = pixels.tobytes()
            dataset.StudyInstanceUID, dataset.SeriesInstanceUID = study, f"{study[:60]}.1"
            dataset.SOPInstanceUID = generate_uid(entropy_srcs=[study, name])
            dataset.file_meta.MediaStorageSOPInstanceUID = dataset.SOPInstanceUID
            dataset.StudyDate = f"{day - timedelta(before):%Y%m%d}"
            dataset.save_as(files / f"visit-{number}-{name}")
    return str(first.StudyInstanceUID)


def take_priors(work: Path) -> bytes:
    """Return a screenshot of the search page with the other studies of the patient of a radiograph."""
    files, collection = work / "radiographs", work / "collection"
    cbir("dataset", "phantoms", files, "--count", str(IMAGES), "--format", "dicom")
    study = _write_visits(files)
    cbir("index", files, "--collection", collection)
    with serving(collection, CBIR_VIEWER_LINK=VIEWER) as served, sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        page = browser.new_page(viewport=SCREEN, base_url=served.address, color_scheme="light")
        page.set_default_timeout(PATIENCE_MS)
        found = page.request.get(f"/v1/images?study={study}").json()["items"]
        image = next(each for each in found if each["labels"]["view_position"] == "PA")["image_id"]
        page.goto(f"/?image={image}")
        page.locator("#priors .card img").nth(5).evaluate("image => image.decode()")
        page.wait_for_load_state("networkidle")
        picture = page.screenshot()
        browser.close()
    return picture
