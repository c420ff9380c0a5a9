"""The page of similar images in a viewer's frame, in a real browser."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, urlencode

import pytest
from playwright import sync_api

from tests.e2e.browsing import settle
from tests.e2e.conftest import PATIENCE_MS
from tests.e2e.test_page_axe import AXE, complaints
from tests.service.conftest import Served, cbir, serving
from tests.service.dicom_collection import make


class Viewer(BaseHTTPRequestHandler):
    """A page that frames what its address names, isolated as viewers with shared memory are."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        self.end_headers()
        address = self.path.partition("?frame=")[2]
        if address:
            self.wfile.write(b'<iframe id="similar" width="320" height="600"></iframe><script>')
            self.wfile.write(
                f"document.getElementById('similar').src=decodeURIComponent('{address}')".encode()
            )
            self.wfile.write(b"</script>")

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def viewer() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Viewer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://localhost:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def beside(viewer: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, str, str]]:
    """A service that the viewer may frame and whose users log in; the page's path; a token."""
    folder = tmp_path_factory.mktemp("framed")
    collection, ct = make(tmp_path_factory)
    environment = {
        "CBIR_STATE_FOLDER": str(folder / "state"),
        "CBIR_REQUIRE_TOKENS": "true",
        "CBIR_FRAME_ORIGINS": viewer,
        "CBIR_VIEWER_LINK": viewer + "/view?StudyInstanceUIDs={study}",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CBIR_STATE_FOLDER", str(folder / "state"))
        token = cbir("admin", "token", "create", "--scope", "search").split()[-1]
    query = {"study": ct[0].StudyInstanceUID, "level": "instance"}
    with serving(collection, **environment) as running:
        yield running, f"/similar?{urlencode(query)}", token


def framed(page: sync_api.Page, viewer: str, address: str) -> sync_api.FrameLocator:
    page.set_default_timeout(PATIENCE_MS)
    page.goto(f"{viewer}/?frame={quote(address, safe='')}")
    return page.frame_locator("#similar")


def test_similar_images_beside_the_viewer(
    browser: sync_api.Browser, viewer: str, beside: tuple[Served, str, str]
) -> None:
    """Of the same site, as two ports of a host are: the login holds in the frame."""
    served, path, token = beside
    address = served.address.replace("127.0.0.1", "localhost") + path
    context = browser.new_context()
    page = context.new_page()
    frame = framed(page, viewer, address)
    with context.expect_page(timeout=PATIENCE_MS) as opened:
        frame.get_by_role("link", name="Log in (new tab)").click()
    login = opened.value
    login.set_default_timeout(PATIENCE_MS)
    login.fill("#token", token)
    login.get_by_role("button", name="Log in").click()
    login.wait_for_selector(".card")
    frame.get_by_role("link", name="I have logged in").click()
    frame.locator(".card").first.wait_for()
    pictures = frame.locator(".card img")
    sync_api.expect(frame.locator(".card")).to_have_count(12, timeout=PATIENCE_MS)
    pictures.first.evaluate("image => image.decode()")
    assert pictures.first.evaluate("image => image.naturalWidth") > 0
    with context.expect_page(timeout=PATIENCE_MS) as opened:
        frame.locator(".card").first.click()
    opened.value.wait_for_url(
        lambda url: url.startswith(f"{viewer}/view?StudyInstanceUIDs="), timeout=PATIENCE_MS
    )
    frame.get_by_role("link", name="Studies").click()
    frame.get_by_role("heading", name="Similar studies").wait_for()
    context.close()


def test_other_pages_cannot_frame_it(
    browser: sync_api.Browser, viewer: str, beside: tuple[Served, str, str]
) -> None:
    served, path, _ = beside
    page = browser.new_page()
    other = viewer.replace("localhost", "127.0.0.1")  # another origin
    with page.expect_console_message(lambda said: "frame-ancestors" in said.text, timeout=PATIENCE_MS):
        frame = framed(page, other, served.address + path)
    assert frame.get_by_text("Please log in").count() == 0
    page.close()


def test_on_another_site_the_frame_says_what_to_do(
    browser: sync_api.Browser, viewer: str, beside: tuple[Served, str, str]
) -> None:
    """localhost and 127.0.0.1 are two sites: the browser keeps the login back."""
    served, path, token = beside
    context = browser.new_context()
    login = context.new_page()
    login.set_default_timeout(PATIENCE_MS)
    login.goto(f"{served.address}/login")
    login.fill("#token", token)
    login.get_by_role("button", name="Log in").click()
    login.wait_for_selector("main")
    frame = framed(context.new_page(), viewer, served.address + path)
    frame.get_by_role("heading", name="Please log in").wait_for()
    frame.get_by_role("link", name="I have logged in").click()
    frame.get_by_role("heading", name="Please log in").wait_for()
    context.close()


@pytest.mark.parametrize(("width", "colours"), [(280, "dark"), (420, "light")])
def test_nothing_is_cut_off_and_all_can_be_read(
    browser: sync_api.Browser, beside: tuple[Served, str, str], width: int, colours: str
) -> None:
    served, path, token = beside
    context = browser.new_context(
        viewport={"width": width, "height": 700}, color_scheme="dark" if colours == "dark" else "light"
    )
    context.set_extra_http_headers({"Authorization": f"Bearer {token}"})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    for address, wanted in (
        (path, ".card"),
        (f"{path}&offset=12", '[rel="prev"]'),
        ("/similar?study=1.2", ".problem"),
    ):
        page.goto(served.address + address)
        page.wait_for_selector(wanted)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if AXE.exists():
            assert complaints(page) == []
    context.close()


def test_metadata_lead_to_the_viewer_too(
    browser: sync_api.Browser, viewer: str, beside: tuple[Served, str, str]
) -> None:
    served, path, token = beside
    context = browser.new_context()
    context.set_extra_http_headers({"Authorization": f"Bearer {token}"})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    found = context.request.get(f"{served.address}/v1/{path.removeprefix('/')}").json()["results"][0]["best"]
    page.goto(f"{served.address}/?image={found['image_id']}")
    settle(page)
    page.locator("#columns .card").first.press("Enter")
    page.keyboard.press("i")
    link = page.get_by_role("link", name="Open the study").first
    link.wait_for()
    assert str(link.get_attribute("href")).startswith(f"{viewer}/view?StudyInstanceUIDs=")
    assert link.get_attribute("rel") == "noopener noreferrer"
    context.close()
