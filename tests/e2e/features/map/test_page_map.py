"""The map of Browse: colours, an image by keys, an area that filters the images, a query and its results."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright import sync_api

from cbir.store import Collection
from cbir.store.snapshot.derived_files import write_map
from service.features.map.collection_map import compute_map
from tests.e2e.browsing import until
from tests.e2e.test_page_axe import AXE, complaints_dark_and_light
from tests.service.conftest import Served, copy_folder, serving

READY = "#map:not([aria-busy])"
TILES = "#grid:not([aria-busy]) .tile"
BRIGHT = """(() => { const canvas = document.getElementById("points");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let bright = 0;
    for (let at = 0; at < data.length; at += 4)
        bright += data[at + 3] > 0 && Math.max(data[at], data[at + 1], data[at + 2]) > 96;
    return bright; })()"""  # pixels of points that are not dimmed


@pytest.fixture(scope="module")
def mapped(indexed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The service of a collection with a map."""
    folder = copy_folder(indexed, tmp_path_factory.mktemp("map") / "own")
    with Collection(folder) as collection:
        write_map(folder, compute_map(collection.view(), collection.profile))
    with serving(folder) as running:
        yield running


@pytest.fixture
def tolerated() -> list[str]:
    return ["GPU stall due to ReadPixels", "willReadFrequently"]  # of drawing by software, and of looking


@pytest.fixture
def map_page(blank_page: sync_api.Page, mapped: Served) -> sync_api.Page:
    blank_page.set_viewport_size({"width": 1440, "height": 900})
    blank_page.goto(f"{mapped.address}/map")
    blank_page.wait_for_selector(READY)
    blank_page.wait_for_selector(TILES)
    return blank_page


def total(page: sync_api.Page) -> int:
    return int(page.locator("#total").inner_text().split()[0])


def lasso(page: sync_api.Page, mode: str = "Lasso", right: float = 1) -> None:
    """Draw an outline around the left part of the map, or all of it."""
    page.locator("label", has_text=mode).click()
    box = page.locator("#overlay").bounding_box()
    assert box is not None
    width = box["width"] * right - 2
    corners = [(2, 2), (width, 2), (width, box["height"] - 2), (2, box["height"] - 2)]
    corners = corners if mode == "Lasso" else corners[::2]
    for number, (x, y) in enumerate(corners):
        page.mouse.move(box["x"] + x, box["y"] + y, steps=2)
        if number == 0:
            page.mouse.down()
    page.mouse.up()


def images(page: sync_api.Page, count: int) -> None:
    """Wait until the list has this many images."""
    page.locator("#total", has_text=f"{count} image").wait_for()
    page.locator(f"#grid:not([aria-busy]) .tile[aria-setsize='{count}']").first.wait_for()


def test_a_lasso_filters_the_images_and_counts(map_page: sync_api.Page) -> None:
    count = total(map_page)
    lasso(map_page, right=0.5)
    chip = map_page.get_by_role("button", name="Chosen on the map")
    chip.wait_for()
    until(map_page, f"Number.parseInt(document.getElementById('total').textContent) < {count}")
    chosen = total(map_page)
    images(map_page, chosen)
    of_odd = map_page.locator("#facets label", has_text="odd").locator(".count")
    until(map_page, f"Number(document.querySelector('#facets .count').textContent) <= {chosen}")
    odd = int(of_odd.inner_text())
    assert 0 < odd <= chosen
    map_page.get_by_role("checkbox", name="odd").check()
    images(map_page, odd)
    titles = map_page.locator("#grid .tile b").all_inner_texts()
    assert set(titles) == {"odd"}
    map_page.reload()  # the address has the area
    images(map_page, odd)
    chip.click()
    images(map_page, count // 2)
    map_page.go_back()
    images(map_page, odd)


def test_a_rectangle_around_all_leaves_all(map_page: sync_api.Page) -> None:
    count = total(map_page)
    lasso(map_page, "Rectangle")
    map_page.get_by_role("button", name="Chosen on the map").wait_for()
    images(map_page, count)
    map_page.locator("#grid").focus()
    map_page.keyboard.press("Control+a")
    map_page.get_by_text(f"{count} images selected").wait_for()


def test_colours_filter_and_are_remembered(map_page: sync_api.Page) -> None:
    count = total(map_page)
    map_page.get_by_label("Colour by").select_option("label")
    groups = map_page.locator(".legend .group")
    groups.filter(has_text="even").wait_for()
    assert groups.count() == 2
    groups.filter(has_text="even").click()
    images(map_page, count // 2)
    assert map_page.get_by_role("checkbox", name="even").is_checked()
    assert groups.filter(has_text="even").get_attribute("aria-pressed") == "true"
    groups.filter(has_text="even").click()
    images(map_page, count)
    map_page.get_by_label("Colour by").select_option("")
    groups.filter(has_text="Without this label").wait_for()
    map_page.reload()
    map_page.wait_for_selector(READY)
    groups.filter(has_text="Without this label").wait_for()


def test_the_panel_is_hidden_and_stays_so(map_page: sync_api.Page) -> None:
    width = map_page.locator("#grid").evaluate("grid => grid.clientWidth")
    map_page.locator("#map-switch").click()
    map_page.locator("#map").wait_for(state="hidden")
    assert map_page.locator("#grid").evaluate("grid => grid.clientWidth") > width
    map_page.reload()
    map_page.wait_for_selector(TILES)
    assert map_page.locator("#map").is_hidden()
    map_page.locator("#map-switch").click()
    map_page.wait_for_selector(READY)


@pytest.mark.parametrize("width", [768, 390])
def test_on_narrow_screens_the_map_is_behind_a_button(map_page: sync_api.Page, width: int) -> None:
    map_page.set_viewport_size({"width": width, "height": 800})
    map_page.reload()
    map_page.wait_for_selector(TILES)
    assert map_page.locator("#map").is_hidden()
    map_page.locator("#map-switch").click()
    map_page.wait_for_selector(READY)
    assert map_page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_map_that_is_not_computed_is_offered(blank_page: sync_api.Page, served: Served) -> None:
    blank_page.set_viewport_size({"width": 1440, "height": 900})
    asked: list[str] = []
    blank_page.on("request", lambda request: asked.append(request.url))
    blank_page.goto(f"{served.address}/browse")
    blank_page.wait_for_selector(TILES)
    blank_page.get_by_role("button", name="Compute the map").wait_for()
    assert not [address for address in asked if address.endswith("/map")]  # which would start a job


def test_an_image_by_keys_is_opened_large(map_page: sync_api.Page) -> None:
    map_page.locator("#overlay").focus()
    for key in ("-", "-", "0", "ArrowLeft", "+", "ArrowRight"):
        map_page.keyboard.press(key)
    for _ in range(8):  # until an image is near the middle
        if map_page.locator("#middle", has_text="In the middle").count():
            break
        map_page.keyboard.press("-")
    map_page.locator("#middle", has_text="In the middle").wait_for(state="attached")
    map_page.keyboard.press("Enter")
    dialog = map_page.get_by_role("dialog")
    until(map_page, "document.getElementById('large-viewer').picture?.size.width > 0")
    map_page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    assert map_page.evaluate("document.activeElement.id") == "overlay"
    map_page.keyboard.press("Enter")
    dialog.get_by_role("link", name="Search with this image").click()
    map_page.wait_for_selector("#columns .card")
    assert "image=" in map_page.url


def test_results_of_a_search_on_the_map(map_page: sync_api.Page, mapped: Served) -> None:
    image = "fetch('/v1/images?limit=1').then((r) => r.json()).then(({ items }) => items[0].image_id)"
    map_page.goto(f"{mapped.address}/?image={map_page.evaluate(image)}")
    map_page.wait_for_selector("#columns:not([aria-busy]) .card")
    map_page.locator("[popovertarget=query-menu]").click()
    with map_page.context.expect_page() as opened:  # in its own tab: an uploaded query stays
        map_page.get_by_role("link", name="Show on the map").click()
    shown = opened.value
    shown.wait_for_selector(READY)
    assert "image=" in shown.url
    assert "hits=" in shown.url
    shown.get_by_text("The star is your image").wait_for()


def test_deleted_images_of_an_address_are_left_out(map_page: sync_api.Page, mapped: Served) -> None:
    image = map_page.evaluate(
        "fetch('/v1/images?limit=1').then((r) => r.json()).then(({ items }) => items[0].image_id)"
    )
    for gone in (f"image={'0' * 32}&hits={image}", f"image={'0' * 32}", f"hits={image},{'1' * 32}"):
        map_page.goto(f"{mapped.address}/map?{gone}")
        map_page.wait_for_selector(READY)
        assert map_page.get_by_role("alert").count() == 0


def test_points_are_drawn_again_once_the_map_rests(map_page: sync_api.Page) -> None:
    box = map_page.locator("#overlay").bounding_box()
    assert box is not None
    watch = """points => {
        window.transforms = [];
        new MutationObserver(() => window.transforms.push(points.style.transform))
            .observe(points, { attributes: true });
    }"""
    map_page.locator("#points").evaluate(watch)  # a busy machine may look again only after it rests
    map_page.mouse.move(box["x"] + 50, box["y"] + 50)
    map_page.mouse.down()
    map_page.mouse.move(box["x"] + 80, box["y"] + 40)
    until(map_page, "window.transforms.some(transform => transform.includes('30px, -10px'))")
    map_page.mouse.up()
    until(map_page, "document.getElementById('points').style.transform === ''")


def test_without_webgl(map_page: sync_api.Page) -> None:
    map_page.add_init_script(
        "const get = HTMLCanvasElement.prototype.getContext;"
        "HTMLCanvasElement.prototype.getContext = function (kind, ...more) {"
        "  return kind === 'webgl' ? null : get.call(this, kind, ...more); };"
    )
    map_page.reload()
    map_page.wait_for_selector(READY)
    until(map_page, f"{BRIGHT} > 0")
    before = map_page.evaluate(BRIGHT)
    map_page.get_by_role("checkbox", name="odd").check()  # the others are dimmed
    until(map_page, f"{BRIGHT} < {before}")
    assert map_page.evaluate(BRIGHT) > 0


@pytest.mark.skipif(not AXE.exists(), reason="there is no axe-core")
@pytest.mark.parametrize("width", [400, 1280])
def test_accessible(map_page: sync_api.Page, width: int) -> None:
    map_page.set_viewport_size({"width": width, "height": 900})
    lasso(map_page)
    assert complaints_dark_and_light(map_page) == []
