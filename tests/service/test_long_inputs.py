"""Long headers, addresses and bodies take time in proportion to their length, and never much."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from flask.testing import FlaskClient

LENGTH = 8190  # of the longest header
ADDRESS_LENGTH = 4000
MOST_SECONDS = 0.5
REPEATS = 3

UNITS = (
    " ",
    "a",
    ",",
    ";",
    "=",
    '"',
    "\\",
    "/",
    "a/b,",
    "a/b;q=0.1,",
    "text/html;level=1;",
    "*/*,",
    "q=0.",
    "a=b;",
    'a="b";',
    'a="\\"',
    "0-1,",
    "-1,",
    '"a",',
    'W/"',
    "%41",
    "%",
    "a.",
    ":",
    "[",
    "a,b;c=d e",
    "\t",
    "0",
    "..",
    "//",
    "a=b&",
    "&",
    "+",
)
HEADERS = {
    "Accept": "",
    "Accept-Encoding": "gzip;q=",
    "Accept-Language": "en;q=",
    "Authorization": "Bearer ",
    "Cookie": "cbir=",
    "Range": "bytes=",
    "If-None-Match": "",
    "If-Match": '"',
    "If-Modified-Since": "Sun, ",
    "Content-Type": "multipart/form-data; boundary=",
    "Host": "",
    "Origin": "http://",
    "Forwarded": "for=",
    "X-Forwarded-For": "1.1.1.1, ",
    "X-Forwarded-Host": "",
    "Content-Disposition": "form-data; name=",
    "Cache-Control": "max-age=",
    "Sec-Fetch-Site": "",
    "Idempotency-Key": "",
}


def seconds(request: Callable[[], Any]) -> float:
    """The least time of a few requests, none of which is an error of the service."""
    least = float("inf")
    for _ in range(REPEATS):
        started = time.perf_counter()
        assert request().status_code < 500
        least = min(least, time.perf_counter() - started)
        if least < MOST_SECONDS:
            break
    return least


def slow(times: dict[str, float]) -> dict[str, float]:
    """Those that took too long."""
    return {name: round(taken, 2) for name, taken in times.items() if taken > MOST_SECONDS}


@pytest.mark.slow
@pytest.mark.parametrize("name", HEADERS)
def test_long_headers(client: FlaskClient, name: str) -> None:
    times = {}
    for unit in UNITS:
        value = (HEADERS[name] + unit * LENGTH)[:LENGTH].strip()
        method = client.post if name.startswith("Content") else client.get
        times[unit] = seconds(
            lambda method=method, value=value: method("/v1/images?limit=1", headers={name: value})
        )  # type: ignore[misc]
    assert slow(times) == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "begin",
    [
        "/v1/images?where=",
        "/v1/images?where=a=",
        "/v1/images?cursor=",
        "/v1/images?",
        "/v1/images/",
        "/similar?study=",
        "/login?next=",
        "/v1/collection?collection=",
        "/dicomweb/",
        "/",
    ],
)
def test_long_addresses(client: FlaskClient, begin: str) -> None:
    times = {}
    for unit in UNITS:
        address = (
            (begin + unit * ADDRESS_LENGTH)[:ADDRESS_LENGTH]
            .replace('"', "%22")
            .replace(" ", "+")
            .replace("\t", "+")
        )
        times[unit] = seconds(lambda address=address: client.get(address))  # type: ignore[misc]
    assert slow(times) == {}


JSON_BODIES = {
    "spaces in a filter": lambda n: b'{"image_id": "x", "where": ["' + b" " * n + b'"]}',
    "operators in a filter": lambda n: b'{"image_id": "x", "where": ["' + b"=<" * (n // 2) + b'"]}',
    "a long name": lambda n: b'{"' + b"a" * n + b'": 1}',
    "a long id": lambda n: b'{"image_id": "' + b"a" * n + b'"}',
    "a long key": lambda n: b'{"exclude_patient": "' + b"0" * n + b'"}',
    "a long number": lambda n: b'{"k": ' + b"1" * n + b"}",
    "a long fraction": lambda n: b'{"k": 1.' + b"1" * n + b"}",
    "many names": lambda n: b"{" + b",".join(b'"%d":1' % number for number in range(n // 10)) + b"}",
    "many names of many": lambda n: (
        b'{"feedback": [' + b",".join([b'{"a":1,"b":2,"c":3}'] * (n // 20)) + b"]}"
    ),
    "many filters": lambda n: b'{"where": [' + b",".join([b'"a=b"'] * (n // 6)) + b"]}",
    "many examples": lambda n: b'{"examples": [' + b",".join([b'"a"'] * (n // 4)) + b"]}",
    "much feedback": lambda n: b'{"feedback": [' + b",".join([b"{}"] * (n // 3)) + b"]}",
    "deep lists": lambda n: b'{"where": ' + b"[" * n,
    "deep objects": lambda n: b'{"a":' * (n // 5),
    "escapes": lambda n: b'{"rerank": "' + b"\\u0020" * (n // 6) + b'"}',
}


@pytest.mark.slow
@pytest.mark.parametrize("name", JSON_BODIES)
def test_long_json(client: FlaskClient, name: str) -> None:
    body = JSON_BODIES[name](2**20 - 100)
    path = "/v1/search"
    assert seconds(lambda: client.post(path, data=body, content_type="application/json")) < 2 * MOST_SECONDS


BOUNDARY = b"boundary"
PART = b'\r\n--boundary\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'
RELATED = b"\r\n--boundary\r\nContent-Type: application/dicom\r\n\r\n"
BODY_UNITS = (
    b"\r",
    b"\n",
    b"\r\n",
    b"-",
    b"--",
    b"\r\n--",
    b"\r\n--boundar",
    b"--boundary",
    b"\r\n\r\n",
    b"a",
    b"\x00",
    PART,
    RELATED,
    b"a: b\r\n",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "multipart/form-data; boundary=boundary",
        'multipart/related; type="application/dicom"; boundary=boundary',
        "application/x-www-form-urlencoded",
    ],
)
@pytest.mark.parametrize(
    "begin", [b"", PART, b"\r\n--boundary\r\n"], ids=["nothing", "a part", "a part's headers"]
)
def test_long_bodies_grow_linearly(client: FlaskClient, kind: str, begin: bytes) -> None:
    path = "/dicomweb/studies" if "related" in kind else "/v1/render"
    times = {}
    for unit in BODY_UNITS:
        for size in (2**20, 2**22):
            body = begin + unit * (size // len(unit))
            times[f"{unit!r} {size}"] = seconds(
                lambda body=body: client.post(path, data=body, content_type=kind)
            )  # type: ignore[misc]
    slow_ones = {
        name: (times[f"{name} {2**20}"], times[f"{name} {2**22}"])
        for name in map(repr, BODY_UNITS)
        if times[f"{name} {2**22}"] > max(1.0, 8 * times[f"{name} {2**20}"])
    }
    assert slow_ones == {}
