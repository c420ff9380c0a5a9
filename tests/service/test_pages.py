"""The page as it is sent; tests/e2e/test_page.py uses it."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from cbir import rerank, settings
from cbir.store import Collection
from cbir.store.base import profile
from service.app import create_app
from service.languages.catalogues import folders
from tests.service.conftest import facts_of

STATIC = [folder / "static" for folder in folders()]
STATIC_FILES = {
    path.relative_to(folder).as_posix(): path
    for folder in STATIC
    for path in sorted(folder.rglob("*"))
    if path.is_file()
}


class Tags(HTMLParser):
    """Every tag with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_page_knows_the_collection(client: FlaskClient, ids: list[str]) -> None:
    page = client.get("/").text
    facts = facts_of(page)
    assert facts["images"] == len(ids)
    assert facts["profile"] == "huang2012"
    assert facts["caller"] == "service"  # without tokens
    assert {"label", "severity"} <= set(facts["label_keys"])
    assert sorted(facts["filters"]["label"]) == [["even", 15], ["odd", 15]]
    assert "Not a medical device" in page


def test_every_reranker_is_explained(client: FlaskClient) -> None:
    told = {each["name"]: each for each in facts_of(client.get("/").text)["rerankers"]}
    assert set(told) == set(rerank.names())
    for name in rerank.names():
        reranker = rerank.reranker_class(name)
        assert told[name]["description"] == reranker.description
        assert told[name]["title"] == reranker.title
        assert set(told[name]["defaults"]) == {each["name"] for each in told[name]["parameters"]}
        paper = rerank.get(name, preset="paper").parameters if reranker.paper else None
        assert told[name]["paper"] == paper


def test_nothing_inline_and_nothing_from_elsewhere(client: FlaskClient) -> None:
    for tag, attributes in Tags(client.get("/").text).found:
        assert tag != "style"
        assert tag != "script" or attributes.get("src")
        assert not [name for name in attributes if name == "style" or name.startswith("on")]
        for name in ("src", "href"):
            assert not re.match(r"(\w+:)?//", attributes.get(name) or "")
    for file in STATIC_FILES.values():
        if file.parent.name in ("swagger-ui", "vendor"):
            continue  # tests in a browser see that they fetch nothing, and that the page's policy holds
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|@import|innerHTML|\beval\(", text), file


def test_controls_are_labelled(client: FlaskClient) -> None:
    tags = Tags(client.get("/").text).found
    assert ("html", {"lang": "en", "data-theme": "dark"}) in tags
    for tag, attributes in tags:
        if tag == "img":
            assert "alt" in attributes
    labelled = {attributes.get("for") for tag, attributes in tags if tag == "label"}
    for tag, attributes in tags:
        wrapped = "hidden" in attributes  # opened by buttons
        if tag in ("input", "select") and not wrapped:
            assert attributes.get("aria-label") or attributes["id"] in labelled


@pytest.mark.parametrize("file", STATIC_FILES)
def test_static_files(client: FlaskClient, file: str) -> None:
    with client.get(f"/static/{file}") as answer:
        assert answer.status_code == 200
        if file.endswith(".js"):
            assert "javascript" in answer.mimetype


def test_empty_collection(tmp_path: Path) -> None:
    Collection.create(tmp_path / "empty", profile.get("huang2012")).close()
    page = create_app(tmp_path / "empty", settings.load()).test_client().get("/")
    assert page.status_code == 200
    assert facts_of(page.text)["images"] == 0


def test_labels_are_escaped(writable: Path, ids: list[str]) -> None:
    with Collection(writable) as collection:
        source = collection.record(ids[0]).source
        with collection.writer() as writer:
            writer.relabel(source, {"label": "<script>alert(1)</script>", "<b>": "x"})
    page = create_app(writable, settings.load()).test_client().get("/").text
    assert "<script>alert" not in page
    assert "<b>" not in page


def test_one_of_several_collections(indexed: Path, tmp_path: Path) -> None:
    Collection.create(tmp_path / "empty", profile.get("huang2012")).close()
    client = create_app([indexed, tmp_path / "empty"], settings.load()).test_client()
    first, second = client.get("/").text, client.get("/?collection=empty").text
    for page, name in ((first, indexed.name), (second, "empty")):
        assert f'data-collection="{name}" aria-current="true"' in page
        assert facts_of(page)["collection"] == name
    assert f"collection={indexed.name}" in first
    assert facts_of(second)["images"] == 0
    missing = client.get("/?collection=unknown")
    assert missing.status_code == 404
    assert "No such collection" in missing.text
    assert 'href="/?collection=empty"' in missing.text


def test_a_collection_that_cannot_be_opened_leaves_the_others(indexed: Path, tmp_path: Path) -> None:
    client = create_app([tmp_path / "nothing", indexed], settings.load()).test_client()
    broken = client.get("/")
    assert broken.status_code == 503
    assert f'href="/?collection={indexed.name}"' in broken.text
    assert client.get(f"/?collection={indexed.name}").status_code == 200


def test_one_collection_needs_no_choice(client: FlaskClient) -> None:
    page = client.get("/").text
    assert 'id="collection"' not in page
    assert "collection=" not in page


def test_light_colours_by_choice(client: FlaskClient) -> None:
    client.set_cookie("cbir-theme", "light")
    assert '<html lang="en" data-theme="light">' in client.get("/").text
    client.set_cookie("cbir-theme", "<b>")
    assert '<html lang="en" data-theme="dark">' in client.get("/").text
