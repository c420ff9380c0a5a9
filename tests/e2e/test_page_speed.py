"""First results soon after the answer; 200 answers scroll smoothly. Limits are generous: the machine is shared."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright import sync_api

from tests.e2e.browsing import SETTLED, ids, until
from tests.service.conftest import Served, cbir, serving

PAINT_MS = 150
PAINT_SHARED_MS = 2 * PAINT_MS  # other work may take the processor in one of the runs, not in all
MEDIAN_MS, HIGH_MS = 25, 100  # a screen with 60 pictures a second has 16.7 for each

# From the end of the answer to the search until the frame with the first cards was painted.
WATCH = """() => {
    window.painted = [];
    new MutationObserver(() => {
        if (!document.querySelector("#columns .column .card")) return;
        if (document.querySelector("#columns .move")) return; // the second answer only adds what moved
        requestAnimationFrame(() => setTimeout(() => {
            const answers = performance.getEntriesByType("resource").filter(e => e.name.endsWith("/v1/search"));
            window.painted.push(performance.now() - answers.at(-1).responseEnd);
        }));
    }).observe(document.getElementById("columns"), { childList: true });
}"""

SCROLL = """async () => {
    const times = [];
    let last = performance.now();
    const end = document.documentElement.scrollHeight - innerHeight;
    for (let y = 0; y <= end; y += 120) {
        scrollTo(0, y);
        await new Promise(requestAnimationFrame);
        const now = performance.now();
        times.push(now - last);
        last = now;
    }
    return times.slice(2);
}"""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path]]:
    """A service of 240 images, and a picture that is not among them."""
    folder = tmp_path_factory.mktemp("many")
    cbir("phantoms", folder / "pictures", "--count", "241", "--size", "128")
    query = sorted((folder / "pictures").glob("*.png"))[-1].rename(folder / "query.png")
    cbir(
        "index",
        folder / "pictures",
        "--labels",
        folder / "pictures" / "manifest.csv",
        "--collection",
        folder / "c",
    )
    with serving(folder / "c") as running:
        yield running, query


@pytest.fixture
def long(browser: sync_api.Browser, many: tuple[Served, Path]) -> Iterator[sync_api.Page]:
    """The page, asking for 200 answers."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.goto(f"{many[0].address}/?k=200")
    yield opened
    opened.close()


def test_first_results_are_painted_at_once(long: sync_api.Page, many: tuple[Served, Path]) -> None:
    long.evaluate(WATCH)
    for _ in range(3):
        long.set_input_files("#file", many[1])
        long.wait_for_selector(f"{SETTLED} .move")
    assert len(ids(long)) == 200
    painted = sorted(long.evaluate("window.painted"))
    print("answer to screen, ms:", [round(ms, 1) for ms in painted])
    assert len(painted) == 3
    assert painted[0] < PAINT_MS
    assert painted[1] < PAINT_SHARED_MS


def test_200_answers_scroll_without_jank(long: sync_api.Page, many: tuple[Served, Path]) -> None:
    long.set_input_files("#file", many[1])
    long.wait_for_selector(f"{SETTLED} .move")
    frames = sorted(long.evaluate(SCROLL))
    median, high = frames[len(frames) // 2], frames[int(0.95 * len(frames))]
    print(f"{len(frames)} frames, ms: median {median:.1f}, 95 % below {high:.1f}, longest {frames[-1]:.1f}")
    assert len(frames) > 30
    assert median < MEDIAN_MS
    assert high < HIGH_MS


def test_pictures_out_of_sight_wait(long: sync_api.Page, many: tuple[Served, Path]) -> None:
    asked: set[str] = set()
    long.on("request", lambda request: asked.add(request.url) if request.url.endswith("/thumbnail") else None)
    long.set_input_files("#file", many[1])
    long.wait_for_selector(f"{SETTLED} .move")
    long.wait_for_load_state("networkidle")
    seen = len(asked)
    assert 0 < seen < 150
    long.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    until(long, "[...document.querySelectorAll('.card img')].slice(-1)[0].naturalWidth > 0")
    assert len(asked) > seen
