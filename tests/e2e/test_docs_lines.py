"""The lines of /docs, taken from a browser, run as they are printed."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from playwright import sync_api

from cbir.learn.grading import make_ranker
from cbir.learn.grading.grader import fit_grader
from cbir.store import Collection
from service.access.tokens import Scope, TokenStore
from service.client import Client, ServiceError
from service.pages.docs_lines import NEEDS
from tests.e2e.browsing import until
from tests.e2e.test_docs_page import bash, lines, status_of
from tests.service import dicom_collection
from tests.service.conftest import serving
from tests.service.features.audit.quarantine.test_quarantine_api import picture as written_picture

# What the reader puts in is not in these lines.
NOT_FILLED = {"cancel": 404, "retry": 404, "release": 404, "refuse": 404}
OF_OTHERS = {"federation_search": 422}  # the vector of another service


class Printed(NamedTuple):
    """Lines of a page, and the folder that has the files that they send."""

    address: str
    folder: Path
    token: str
    curl: dict[str, str]
    python: dict[str, str]
    client: str


Reader = Callable[[str, str], Printed]


@pytest.fixture
def printed_by(browser: sync_api.Browser, tmp_path: Path) -> Iterator[Reader]:
    """Reads the lines of the page of a service, as the holder of a token."""
    context = browser.new_context()

    def read(address: str, token: str) -> Printed:
        page = context.new_page()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        page.set_extra_http_headers(headers)
        page.goto(f"{address}/docs")
        until(page, "document.querySelector('[data-line=curl] code').textContent")
        for name in ("query", "slice"):
            bash(page.locator(f"[data-line={name}] code").text_content() or "", tmp_path, CBIR_TOKEN=token)
        client = page.locator("[data-line=client] code").text_content() or ""
        return Printed(address, tmp_path, token, lines(page, "curl"), lines(page, "python"), client)

    yield read
    context.close()


def statuses(printed: Printed) -> dict[str, int]:
    """The status of every curl line; what a line has started ends before the next."""
    answers = {}
    with Client(printed.address, printed.token or None) as client:
        for name, line in printed.curl.items():
            answers[name] = status_of(line, printed.folder, CBIR_TOKEN=printed.token)
            with suppress(ServiceError):  # who may not see jobs starts none
                until_ended(client)
    return answers


def failures_of_python(printed: Printed, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The status of every Python line that raises, in one interpreter."""
    monkeypatch.chdir(printed.folder)
    monkeypatch.setenv("CBIR_TOKEN", printed.token)
    names: dict[str, Any] = {}
    exec(printed.client, names)
    failed = {}
    with names["client"]:
        for name, line in printed.python.items():
            try:
                exec(line or "", names)
            except ServiceError as refused:
                failed[name] = refused.problem.status
            until_ended(names["client"])
    return failed


def records(address: str, token: str) -> dict[str, dict[str, str]]:
    """Labels of all images, by id."""
    with Client(address, token) as client:
        return {image.image_id: dict(image.labels) for image in client.images()}


def failed(answers: dict[str, int]) -> dict[str, int]:
    return {name: status for name, status in answers.items() if not 200 <= status < 300}


def until_ended(client: Client) -> None:
    """Wait until no job runs: meanwhile what changes the collection is answered with 503."""
    while any(job.state in ("waiting", "running") for job in client.jobs()):
        time.sleep(0.1)


@pytest.fixture(scope="module")
def equipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Address and token of a service that has everything that lines need."""
    folder, _ = dicom_collection.make(tmp_path_factory)
    folder = Path(shutil.copytree(folder, tmp_path_factory.mktemp("equipped") / "collection"))
    images = tmp_path_factory.mktemp("images")
    tokens = TokenStore(tmp_path_factory.mktemp("state"))
    _, token = tokens.create([Scope.admin, Scope.federate])
    environment = {
        "CBIR_REQUIRE_TOKENS": "true",
        "CBIR_STATE_FOLDER": str(tokens.file.parent),
        "CBIR_INDEX_ROOTS": str(images),
        "CBIR_KEEP_ORIGINALS": "true",
        "CBIR_INTAKE": "quarantine",
    }
    with Collection(folder) as collection:
        ids = [record.image_id for _, record in collection.page(0, 20)]
    with serving(folder, **environment) as running, Client(running.address, token) as client:
        client.add(written_picture("DOE JANE 1957"))
        for number, image_id in enumerate(ids):
            client.set_labels(image_id, {"severity": str(number % 4)})
        with Collection(folder) as collection:
            fit_grader(collection, "severity", make_ranker("s-ndcg"))
        client.index(str(images))
        until_ended(client)
        yield running.address, token


def test_every_curl_line_runs(equipped: tuple[str, str], printed_by: Reader) -> None:
    printed = printed_by(*equipped)
    before = records(*equipped)
    answers = statuses(printed)
    assert len(answers) > 80
    assert failed(answers) == NOT_FILLED | OF_OTHERS
    assert before.items() <= records(*equipped).items(), "a line changed an image that it has not made"


def test_every_python_line_runs(
    equipped: tuple[str, str], printed_by: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = printed_by(*equipped)
    assert len([line for line in printed.python.values() if line]) > 75
    before = records(*equipped)
    assert failures_of_python(printed, monkeypatch) == NOT_FILLED
    assert before.items() <= records(*equipped).items(), "a line changed an image that it has not made"


def test_lines_of_a_new_collection_run_or_say_what_they_need(
    indexed: Path,
    tmp_path_factory: pytest.TempPathFactory,
    printed_by: Reader,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is saved, judged or kept there, no image is DICOM, and nobody needs a token."""
    folder = Path(shutil.copytree(indexed, tmp_path_factory.mktemp("new") / "collection"))
    state = str(tmp_path_factory.mktemp("state"))
    with serving(folder, CBIR_STATE_FOLDER=state) as running:
        printed = printed_by(running.address, "")
        assert failed(statuses(printed)).keys() - NEEDS.keys() == set()
        assert failures_of_python(printed, monkeypatch).keys() - NEEDS.keys() == set()


def test_lines_of_a_limited_token_run_or_say_what_they_need(
    indexed: Path, tmp_path_factory: pytest.TempPathFactory, printed_by: Reader
) -> None:
    """It may judge and label the CT slices of the second collection, whose name has a space, and add nothing."""
    made, _ = dicom_collection.make(tmp_path_factory)
    folder = Path(shutil.copytree(made, tmp_path_factory.mktemp("second") / "my knees"))
    first = Path(shutil.copytree(indexed, tmp_path_factory.mktemp("first") / "collection"))
    tokens = TokenStore(tmp_path_factory.mktemp("state"))
    scopes = [Scope.search, Scope.annotate]
    _, token = tokens.create(scopes, collections=[folder.name], where=["modality=CT"])
    environment = {"CBIR_REQUIRE_TOKENS": "true", "CBIR_STATE_FOLDER": str(tokens.file.parent)}
    with serving(first, "--collection", str(folder), **environment) as running:
        answers = failed(statuses(printed_by(running.address, token)))
        bearer = {"Authorization": f"Bearer {token}"}
        paths = httpx.get(f"{running.address}/openapi.json", headers=bearer).json()["paths"]
    needed = {
        item["operationId"]: item.get("x-scope") for methods in paths.values() for item in methods.values()
    }
    unexplained = {name for name in answers if needed[name] in map(str, scopes) and answers[name] != 403}
    assert unexplained - NEEDS.keys() == set()
