"""Requests made from the OpenAPI document, sensible ones and others: none is answered with a server error."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.service.conftest import Served, serving

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")


@schemathesis.serializer("multipart/related")
def related(_context: object, value: object) -> bytes:
    """A body of one part; schemathesis has none for this kind."""
    return b"--edge\r\n\r\n" + str(value).encode(errors="replace") + b"\r\n--edge--\r\n"


EXAMPLES = 6  # of each operation
DOCUMENT = schemathesis.openapi.from_path(Path(__file__).parents[2] / "docs" / "openapi.json")
OPERATIONS = [results.ok() for results in DOCUMENT.get_all_operations()]
MODES = schemathesis.GenerationMode
# Of every operation what the document allows, and what it does not where there is something to get wrong.
REQUESTS = [(item, MODES.POSITIVE) for item in OPERATIONS] + [
    (item, MODES.NEGATIVE)
    for item in OPERATIONS
    if list(item.query) or any(body.media_type.endswith(("json", "form-data")) for body in item.body)
]


@pytest.fixture(scope="module")
def changing(indexed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The service of a collection of its own, which the requests change."""
    writable = Path(shutil.copytree(indexed, tmp_path_factory.mktemp("own") / "collection"))
    with serving(writable) as running:
        yield running


@pytest.mark.parametrize(
    ("operation", "mode"), REQUESTS, ids=[f"{item.label} {mode.value}" for item, mode in REQUESTS]
)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_no_request_is_a_server_error(changing: Served, operation, mode, data) -> None:
    case = data.draw(operation.as_strategy(generation_mode=mode))
    answer = case.call(base_url=changing.address, timeout=300)
    assert answer.status_code < 500, (answer.status_code, answer.text, case.as_curl_command())
    assert str(answer.status_code) in case.operation.definition.raw["responses"], case.as_curl_command()
    if answer.status_code >= 400:
        documented = case.operation.definition.raw["responses"][str(answer.status_code)]
        assert answer.headers["content-type"][0] in documented.get("content", ["application/problem+json"])


@pytest.mark.parametrize("extra", ["nonsense=1", f"nonsense={'9' * 9000}"], ids=["unknown", "too long"])
def test_answer_to_wrong_parameters_is_described(changing: Served, extra: str) -> None:
    with httpx.Client(base_url=changing.address, timeout=30) as client:
        for item in OPERATIONS:
            path = re.sub(r"\{\w+\}", "1", item.path)
            answer = client.request(item.method, f"{path}?{extra}")
            assert str(answer.status_code) in item.definition.raw["responses"], (item.label, answer.text)


def test_the_document_has_operations() -> None:
    assert len(OPERATIONS) > 15
