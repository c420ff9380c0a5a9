"""The site builds without a warning, loads nothing from elsewhere, and its search works from a folder."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Page, Request, sync_playwright

from docs_site.source_pages import ROOT, rewrite_links
from tests.chromium import CHROMIUM

LOADED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?\s(?:src|href)=[\"']?(?:https?:)?//[^>]*>")


def build(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Run MkDocs in the root of the project."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", *arguments],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(["--site-dir", str(folder)])
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_pages_load_nothing_from_other_origins(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        assert not LOADED.findall(page.read_text(encoding="utf-8")), page


@pytest.fixture
def page() -> Iterator[Page]:
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"]) as browser,
    ):
        yield browser.new_page()


@pytest.mark.e2e
@pytest.mark.skipif(not CHROMIUM.exists(), reason="needs Chromium")
def test_the_search_works_in_a_folder_without_a_server(site: Path, page: Page) -> None:
    elsewhere = []

    def note(request: Request) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            elsewhere.append(request.url)

    page.on("request", note)
    page.goto((site / "index.html").as_uri())
    page.get_by_role("textbox", name="Search").fill("pseudo-relevance")
    page.locator(".md-search-result__link", has_text="How it works").first.wait_for()
    assert not elsewhere


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "warning"),
    [
        ("index.md", "[x](other.md#missing)", "does not contain an anchor"),
        ("index.md", "[x](missing.md)", "is not found"),
        ("forgotten.md", "# Not in the navigation", "not included in the"),
    ],
)
def test_a_build_fails_for(name: str, text: str, warning: str, tmp_path: Path) -> None:
    settings = yaml.unsafe_load((ROOT / "mkdocs.yml").read_text())
    (tmp_path / "docs").mkdir()
    for page, content in {"index.md": "# A", "other.md": "# B", name: text}.items():
        (tmp_path / "docs" / page).write_text(content)
    kept = {key: settings[key] for key in ("site_name", "strict", "validation")}
    nav = {"nav": ["index.md", "other.md"], "plugins": []}
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(kept | nav))
    done = build(["--config-file", str(tmp_path / "mkdocs.yml"), "--site-dir", str(tmp_path / "site")])
    assert done.returncode == 1
    assert warning in done.stderr


@pytest.mark.parametrize(
    ("link", "rewritten", "warnings"),
    [
        ("bench/results/query.md#time", "../results/query.md#time", 0),
        ("docs/rerank.md", "../rerank.md", 0),
        ("Makefile", "https://github.com/cbir-contributors/cbir/blob/main/Makefile", 0),
        ("bench", "https://github.com/cbir-contributors/cbir/tree/main/bench", 0),
        ("#here", "#here", 0),
        ("https://example.org/a_(b)", "https://example.org/a_(b)", 0),
        ("docs/missing.md", "docs/missing.md", 1),
        ("../outside.md", "../outside.md", 1),
        ("htp://example.org", "htp://example.org", 1),
        ("https:///no-host", "https:///no-host", 1),
    ],
)
def test_links_of_pages_outside_docs(link: str, rewritten: str, warnings: int) -> None:
    pages = {"docs/rerank.md": "rerank.md", "bench/results/query.md": "results/query.md"}
    messages: list[str] = []
    text = rewrite_links(f"[a]({link}), `[b]({link})`", "README.md", "deep/page.md", pages, messages.append)
    assert text == f"[a]({rewritten}), `[b]({link})`"
    assert len(messages) == warnings


def test_code_keeps_its_links() -> None:
    text = "```text\n[a](missing.md)\n```\n`one\n[b](missing.md)` [c](x.md)\n"
    messages: list[str] = []
    rewritten = rewrite_links(text, "docs/a.md", "a.md", {"docs/x.md": "x.md"}, messages.append)
    assert rewritten == text
    assert not messages
