"""Forms as programs send them: names of files in other encodings, fields in others, and compressed bodies."""

import gzip
import json
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from tests.service.conftest import problem

FIELD = b'--b\r\nContent-Disposition: form-data; name="rerank"%b\r\n\r\n%b\r\n'


def search(
    client: FlaskClient, picture: Path, disposition: bytes, fields: bytes = b"", kind: str = "form-data"
):
    head = b"--b\r\nContent-Disposition: form-data; " + disposition + b"\r\nContent-Type: image/png\r\n\r\n"
    body = fields + head + picture.read_bytes() + b"\r\n--b--\r\n"
    return client.post("/v1/search?k=3", data=body, content_type=f"multipart/{kind}; boundary=b")


@pytest.mark.parametrize(
    "name",
    [
        b'filename="M\xfcller.png"',
        b"filename=M\xfcller.png",
        'filename="テスト.png"'.encode(),
        'filename="テスト.png"'.encode("shift-jis"),
        b"filename*=ISO-8859-1''M%FCller.png",
        b"filename*=utf-8''%ff%fe",
        b'filename="a\x00\xff"',
        b"filename=\"\xff\"; filename*=nonsense''%FC",
        b'filename="' + b"\xe4" * 4000 + b'"',
    ],
)
def test_names_of_files_in_any_encoding(client: FlaskClient, pictures: list[Path], name: bytes) -> None:
    answer = search(client, pictures[0], b'name="image"; ' + name, FIELD % (b"", b"none"))
    assert answer.status_code == 200, answer.text
    assert len(answer.json["results"]) == 3
    assert "none" in str(answer.json["rerank"])


@pytest.mark.parametrize("fill", [b"", b"\0" * 600_000], ids=["small", "larger than a field may be"])
def test_a_file_without_a_name(
    client: FlaskClient, pictures: list[Path], tmp_path: Path, fill: bytes
) -> None:
    """Clients of openapi-python-client send none unless they are given one."""
    file = tmp_path / "nameless.png"
    file.write_bytes(pictures[0].read_bytes() + fill)
    answer = search(client, file, b'name="image"')
    assert answer.status_code == 200, answer.text
    assert answer.json == search(client, file, b'name="image"; filename="a"').json | {
        "timings_ms": answer.json["timings_ms"]
    }


@pytest.mark.parametrize(("text", "status"), [(b"query.png", 422), (b"x" * 600_000, 413)])
def test_the_name_of_a_file_in_place_of_the_file(client: FlaskClient, text: bytes, status: int) -> None:
    """As with curl -F image=query.png, without the @."""
    body = FIELD.replace(b"rerank", b"image") % (b"", text) + b"--b--\r\n"
    answer = client.post("/v1/search", data=body, content_type="multipart/form-data; boundary=b")
    assert status == 413 or "must be sent as a file" in answer.json["detail"]
    problem(answer, status)


def test_an_unknown_name_of_a_field_is_named(client: FlaskClient, pictures: list[Path]) -> None:
    assert "imäge: there is no such file field" in problem(
        search(client, pictures[0], b'name="im\xe4ge"; filename="a"'), 422
    )


def test_fields_in_latin_1(client: FlaskClient, pictures: list[Path]) -> None:
    fields = FIELD % (b"\r\nContent-Type: text/plain; charset=iso-8859-1", b"M\xfcller")
    assert "Müller" in problem(search(client, pictures[0], b'name="image"; filename="a"', fields), 422)


def test_long_fields_are_refused(client: FlaskClient, pictures: list[Path]) -> None:
    fields = FIELD % (b"", b"x" * 600_000)
    problem(search(client, pictures[0], b'name="image"; filename="a"', fields), 413)
    problem(search(client, pictures[0], b'name="image"; filename="a"', FIELD % (b"", b"x") * 2000), 413)


def test_forms_that_are_cut(client: FlaskClient, pictures: list[Path]) -> None:
    body = (
        b'--b\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'
        + pictures[0].read_bytes()
    )
    for sent in (body, body[:30], b"", b"--b--", b"--b\r\n\r\nx\r\n--b--"):
        problem(client.post("/v1/search", data=sent, content_type="multipart/form-data; boundary=b"), 422)
    problem(client.post("/v1/search", data=body, content_type="multipart/form-data"), 422)


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "br", "gzip, identity", "deflate"])
def test_compressed_bodies_are_refused_with_the_reason(
    client: FlaskClient, ids: list[str], coding: str
) -> None:
    body = json.dumps({"image_id": ids[0]}).encode()
    for path, kind in (
        ("/v1/search", "application/json"),
        ("/v1/search", "image/png"),
        ("/dicomweb/studies", "application/dicom"),
    ):
        answer = client.post(
            path, data=gzip.compress(body), content_type=kind, headers={"Content-Encoding": coding}
        )
        assert "without the header Content-Encoding" in problem(answer, 415)
    plain = client.post(
        "/v1/search", data=body, content_type="application/json", headers={"Content-Encoding": "identity"}
    )
    assert plain.status_code == 200
