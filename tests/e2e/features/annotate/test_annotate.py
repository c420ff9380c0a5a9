"""A reader judges in Chromium, the server is killed on the way: nothing is lost, nothing doubled, and it has learnt.

`CBIR_JUDGEMENTS=200 pytest tests/e2e/features/annotate/test_annotate.py -s -k killed` drives as many as that.
"""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright import sync_api

from service.features.annotate import study_files
from service.features.annotate.active.judgement_journal import PairJudgement, read_journal
from tests.e2e.browsing import PATIENCE_SECONDS, until
from tests.e2e.conftest import PATIENCE_MS
from tests.e2e.judging import (
    UNSENT,
    Annotating,
    introduce,
    joint,
    joints,
    on_screen,
    truths,
)

torch = pytest.importorskip("torch")

JUDGEMENTS = int(os.environ.get("CBIR_JUDGEMENTS", "24"))
IMAGES = 32
UNSEEN = min(120, JUDGEMENTS)  # joints that what was learnt is tested on
ALIKE = 0.02  # a difference that the reader does not see
KEYS = {"first": "ArrowLeft", "second": "ArrowRight", "alike": "ArrowDown"}

LEARNING_SECONDS = 300  # it steps back behind all else that the machine does
LEARNT = "document.getElementById('learning').textContent"

# Nothing came for a while: with no request open, the next pairs are loaded.
QUIET = """performance.now() - Math.max(...performance.getEntriesByType("resource").map((one) => one.responseEnd))
    > 700"""


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return joints(tmp_path_factory.mktemp("joints"), IMAGES)


@pytest.fixture
def screen(browser: sync_api.Browser) -> Iterator[sync_api.Page]:
    """An empty page; no complaint may come but those of a server that is away."""
    errors: list[str] = []
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.set_default_timeout(PATIENCE_MS)
    opened.on("console", lambda said: errors.append(said.text) if said.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    opened.close()
    assert [error for error in errors if "net::ERR_" not in error] == []


@pytest.fixture
def start() -> Iterator[Callable[..., Annotating]]:
    """Starts annotation servers; the one that is left at the end is stopped."""
    started: list[Annotating] = []

    def one(*arguments: str | Path) -> Annotating:
        started.append(Annotating(*arguments))
        return started[-1]

    yield one
    for running in started:
        if running.process.poll() is None:
            running.stop()


def answer(truth: dict[str, float], pair: tuple[str, str]) -> str:
    difference = truth[pair[0]] - truth[pair[1]]
    return "alike" if abs(difference) < ALIKE else "first" if difference > 0 else "second"


def accuracy(study: Path, after: int) -> float:
    """Share of pairs of joints that nobody has seen, which the ranker learnt after that round puts in order."""
    from cbir.learn.severity.severity_rankers import load_severity_ranker

    severities = np.random.default_rng(7).uniform(0, 1, UNSEEN)
    images = np.stack([joint(severity, 10_000 + number) for number, severity in enumerate(severities)])
    folder = sorted((study / study_files.MODELS).glob(f"{after:04d}-*"))[-1]
    mean = load_severity_ranker(folder).severity(images).mean
    first, second = np.triu_indices(len(severities), 1)
    apart = np.abs(severities[first] - severities[second]) > 0.05
    right = (mean[first] > mean[second]) == (severities[first] > severities[second])
    return float(right[apart].mean())


@pytest.mark.timeout(1200)
def test_killed_twice_while_judging(
    collection: Path, screen: sync_api.Page, start: Callable[..., Annotating], tmp_path: Path
) -> None:
    study, truth = tmp_path / "study", truths(collection)
    # A small first round, which teaches little, then large ones; the second is full before the end.
    first_round = round(JUDGEMENTS / 6)
    options = ["--start", first_round / IMAGES, "--step", min(40, JUDGEMENTS * 2 // 3) / IMAGES]
    options += ["--rounds", 20, "--side", 32, "--epochs", 10, "--steps", 0]
    running = start("--collection", collection, "--study-dir", study, "--port", "0", *map(str, options))
    said: list[tuple[str, str, str]] = []
    last: tuple[str, str] | None = None
    kills = {first_round + 1, JUDGEMENTS * 2 // 3}  # while the ranker learns, and amid a round
    asked: set[sync_api.Request] = set()
    screen.on("request", lambda request: asked.add(request))
    for event in ("requestfinished", "requestfailed"):
        screen.on(event, lambda request: asked.discard(request))
    introduce(screen, running.address)
    screen.evaluate("performance.setResourceTimingBufferSize(100_000)")
    while len(said) < JUDGEMENTS:
        pair = on_screen(screen, last)
        assert pair is not None
        said.append((*pair, answer(truth, pair)))
        last = pair
        if len(said) in kills:
            end = time.monotonic() + PATIENCE_SECONDS
            while asked or not screen.evaluate(QUIET):
                assert time.monotonic() < end, [request.url for request in asked]
                screen.wait_for_timeout(20)
        screen.keyboard.press(KEYS[said[-1][2]])
        if len(said) == first_round + 4:
            until(screen, f"{LEARNT} === 'Trained after round 1'", LEARNING_SECONDS)
        if len(said) in kills:
            running.kill()
            for _ in range(2):  # those that are loaded can be judged while the server is away
                pair = on_screen(screen, last)
                assert pair is not None
                said.append((*pair, answer(truth, pair)))
                last = pair
                screen.keyboard.press(KEYS[said[-1][2]])
            assert screen.evaluate(UNSENT) > 0
            running = start("--collection", collection, "--study-dir", study, "--port", str(running.port))
    until(screen, f"{UNSENT} === 0")
    entries = read_journal(study / "judgements.jsonl")
    written = [(one.first, one.second, str(one.answer)) for one in entries if isinstance(one, PairJudgement)]
    assert written == said, "lost, doubled, or in another order"
    assert len({one.name for one in entries}) == len(said) == len(entries)
    assert {one.who for one in entries} == {"Dr. Ada"}
    assert all(one.seconds > 0 for one in entries if isinstance(one, PairJudgement))
    assert screen.locator("#problem").is_hidden()
    until(
        screen,
        f"{LEARNT}.startsWith('Trained after') && {LEARNT} !== 'Trained after round 1'",
        LEARNING_SECONDS,
    )
    log = running.stop()
    assert "failed" not in log, log
    learnt = study_files.latest_model(study)
    assert learnt is not None
    assert learnt.judgements > JUDGEMENTS / 2
    before, now = accuracy(study, 1), accuracy(study, learnt.after)
    print(
        f"{len(said)} judgements; unseen pairs right: {before:.1%} after round 1, {now:.1%} after {learnt.after}"
    )
    assert now > before


@pytest.mark.timeout(900)
def test_a_second_opinion_after_the_last_round_is_learnt(
    collection: Path, browser: sync_api.Browser, start: Callable[..., Annotating], tmp_path: Path
) -> None:
    study = tmp_path / "study"
    options = [
        "--rounds",
        1,
        "--start",
        4 / IMAGES,
        "--overlap",
        1,
        "--side",
        32,
        "--epochs",
        1,
        "--steps",
        0,
    ]
    running = start("--collection", collection, "--study-dir", study, "--port", "0", *map(str, options))
    for judgements, who in ((4, "Dr. Ada"), (8, "Dr. Bob")):
        context = browser.new_context()
        context.set_default_timeout(PATIENCE_MS)
        page, pair = context.new_page(), None
        introduce(page, running.address, who)
        while (pair := on_screen(page, pair)) is not None:
            page.keyboard.press("ArrowLeft")
        until(page, f"{UNSENT} === 0")
        context.close()
        assert len(read_journal(study / "judgements.jsonl")) == judgements
        assert learnt_from(study, judgements) == judgements


def learnt_from(study: Path, judgements: int) -> int:
    """Wait for a ranker that learnt from so many judgements; the number of the latest one."""
    end = time.monotonic() + LEARNING_SECONDS
    while time.monotonic() < end:
        model = study_files.latest_model(study)
        if model is not None and model.judgements >= judgements:
            return model.judgements
        time.sleep(0.2)
    return model.judgements if model else 0
