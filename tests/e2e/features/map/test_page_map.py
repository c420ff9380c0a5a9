"""The map in a browser: groups, an image by keys, a lasso that leads to the gallery, a query and its results."""

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
    return ["GPU stall due to ReadPixels"]  # of drawing by software


@pytest.fixture
def map_page(blank_page: sync_api.Page, mapped: Served) -> sync_api.Page:
    blank_page.goto(f"{mapped.address}/map")
    blank_page.wait_for_selector(READY)
    return blank_page


def total(page: sync_api.Page) -> int:
    return int(page.locator("#total").inner_text().split()[0])


def lasso(page: sync_api.Page) -> None:
    """Draw an outline around the whole map."""
    page.locator("label", has_text="Lasso").click()
    box = page.locator("#overlay").bounding_box()
    assert box is not None
    corners = [(2, 2), (box["width"] - 2, 2), (box["width"] - 2, box["height"] - 2), (2, box["height"] - 2)]
    for number, (x, y) in enumerate(corners):
        page.mouse.move(box["x"] + x, box["y"] + y, steps=2)
        if number == 0:
            page.mouse.down()
    page.mouse.up()


def test_a_lasso_leads_to_the_gallery(map_page: sync_api.Page) -> None:
    count = total(map_page)
    map_page.get_by_label("Colour by").select_option("label")
    map_page.get_by_role("checkbox", name="Show odd").uncheck()
    lasso(map_page)
    map_page.locator("#selected", has_text=f"{count // 2} images selected").wait_for()
    map_page.get_by_role("button", name="in the gallery").click()
    map_page.wait_for_selector("#grid:not([aria-busy]) .tile")
    map_page.locator("#total", has_text=f"{count // 2} images").wait_for()  # counted beside the images
    until(map_page, f"document.querySelectorAll('.tile').length === {count // 2}")
    map_page.get_by_role("button", name="Show all images again").click()
    map_page.locator("#total", has_text=f"{count} images").wait_for()
    map_page.go_back()
    map_page.locator("#total", has_text=f"{count // 2} images").wait_for()


def test_groups_of_a_label_and_of_numbers(map_page: sync_api.Page) -> None:
    map_page.get_by_label("Colour by").select_option("label")
    rows = map_page.locator("#groups tr")
    rows.filter(has_text="even").wait_for()
    assert rows.count() == 2
    button = map_page.get_by_role("button", name="even", exact=True)
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    map_page.get_by_role("button", name="Show all", exact=True).click()
    assert button.get_attribute("aria-pressed") == "false"
    map_page.get_by_label("Colour by").select_option("")
    rows.filter(has_text="Without this label").wait_for()
    assert "key=" in map_page.url
    map_page.reload()
    map_page.wait_for_selector(READY)


def test_an_image_by_keys_and_search_with_it(map_page: sync_api.Page) -> None:
    map_page.locator("#overlay").focus()
    for key in ("-", "-", "0", "ArrowLeft", "+", "ArrowRight"):
        map_page.keyboard.press(key)
    for _ in range(8):  # until an image is near the middle
        if map_page.locator("#middle", has_text="In the middle").count():
            break
        map_page.keyboard.press("-")
    map_page.locator("#middle", has_text="In the middle").wait_for(state="attached")
    map_page.keyboard.press("Enter")
    panel = map_page.get_by_role("region", name="Chosen image")
    panel.locator("dd").first.wait_for()
    panel.get_by_role("button", name="Close").click()
    panel.wait_for(state="hidden")
    assert map_page.evaluate("document.activeElement.id") == "overlay"
    map_page.keyboard.press("Enter")
    panel.get_by_role("link", name="Search with this image").click()
    map_page.wait_for_selector("#columns .card")
    assert "image=" in map_page.url


def test_results_of_a_search_on_the_map(map_page: sync_api.Page, mapped: Served) -> None:
    image = "fetch('/v1/images?limit=1').then((r) => r.json()).then(({ items }) => items[0].image_id)"
    map_page.goto(f"{mapped.address}/?image={map_page.evaluate(image)}")
    map_page.wait_for_selector("#columns:not([aria-busy]) .card")
    map_page.locator("[popovertarget=query-menu]").click()
    map_page.get_by_role("link", name="Show on the map").click()
    map_page.wait_for_selector(READY)
    assert "image=" in map_page.url
    assert "hits=" in map_page.url
    map_page.get_by_text("The star is your image").wait_for()


def test_deleted_images_of_an_address_are_left_out(map_page: sync_api.Page, mapped: Served) -> None:
    image = map_page.evaluate(
        "fetch('/v1/images?limit=1').then((r) => r.json()).then(({ items }) => items[0].image_id)"
    )
    for gone in (f"image={'0' * 32}&hits={image}", f"image={'0' * 32}", f"hits={image},{'1' * 32}"):
        map_page.goto(f"{mapped.address}/map?{gone}")
        map_page.wait_for_selector(READY)
        assert map_page.locator("#problem").is_hidden()


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
    colours = """(() => { const canvas = document.getElementById("points");
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return data.some((value, at) => at % 4 === 3 && value > 0); })()"""
    until(map_page, colours)


@pytest.mark.skipif(not AXE.exists(), reason="there is no axe-core")
@pytest.mark.parametrize("width", [400, 1280])
def test_accessible(map_page: sync_api.Page, width: int) -> None:
    map_page.set_viewport_size({"width": width, "height": 900})
    lasso(map_page)
    assert complaints_dark_and_light(map_page) == []
