"""Teaching files: what HTML and PDF show of a case, and what they do not."""

import base64
import json
import re
import sys
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from PIL import Image

from cbir.errors import InvalidInput
from cbir.store import Record
from service.access.token_stores import Scope
from service.features.saved.cases.pdf_file import breaks_anywhere, marked_up, render_pdf
from service.features.saved.cases.teaching_file import TeachingFile, TeachingPicture, split_paragraphs
from tests.service import wards
from tests.service.conftest import problem
from tests.service.features.saved.cases.test_cases import new_case, save
from tests.service.wards import Ward

NOTE = "First <script>alert(1)</script>\nline & more.\n\n内侧关节间隙变窄。"


@pytest.fixture(scope="session")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Ward:
    return wards.make(tmp_path_factory)


@pytest.fixture
def client(ward: Ward) -> FlaskClient:
    return ward.client(Scope.search)


@pytest.fixture
def address(ward: Ward, client: FlaskClient) -> str:
    """The address of a case about DICOM images."""
    ids = [record.image_id for record in dicom_records(ward)]
    return f"/v1/cases/{save(client, new_case(ids, title='Knee & hip', note=NOTE))['id']}"


def dicom_records(ward: Ward) -> list[Record]:
    return [record for record in ward.visible if record.instance]


def export(client: FlaskClient, address: str, query: str = "") -> Any:
    answer = client.get(f"{address}/export?{query}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Disposition"].startswith("attachment; filename=")
    return answer


def pictures_in(html: str) -> list[bytes]:
    return [base64.b64decode(text) for text in re.findall(r"data:image/jpeg;base64,([^\"]+)", html)]


def text_of(pdf: bytes) -> str:
    """The texts of a PDF file that its standard fonts and CID fonts show, page by page."""
    pages = []
    for stream in re.findall(rb"stream\r?\n(.*?)endstream", pdf, re.DOTALL):
        try:
            page = zlib.decompress(base64.a85decode(stream.strip().removesuffix(b"~>")))
        except (ValueError, zlib.error):
            continue  # a picture
        font = b""
        for name, text in re.findall(rb"/(F[^ ]+) [0-9.]+ Tf|\(((?:[^()\\]|\\.)*)\) Tj", page, re.DOTALL):
            font = name or font
            pages.append(_decoded(text, font))
    return "".join(pages)


def _decoded(text: bytes, font: bytes) -> str:
    """A text as its font has it: the first is the standard font, the others hold UTF-16."""
    raw = re.sub(rb"\\([0-7]{3}|.)", lambda found: _unescaped(found[1]), text, flags=re.DOTALL)
    return raw.decode("cp1252" if font == b"F1" else "utf-16-be")


def _unescaped(code: bytes) -> bytes:
    return bytes([int(code, 8)]) if code.isdigit() else code


def assert_identifies_no_one(ward: Ward, content: bytes) -> None:
    for record in ward.visible:
        for secret in (record.image_id, record.study, record.series, record.instance, record.patient_key):
            assert not secret or secret.encode() not in content
        assert Path(record.source).name.encode() not in content
    assert ward.folder.name.encode() not in content
    assert not re.search(rb"20[2-9][0-9]-[01][0-9]", content)


def test_the_html_file_identifies_no_one(ward: Ward, client: FlaskClient, address: str) -> None:
    html = export(client, address, "format=html").text
    assert_identifies_no_one(ward, html.encode())
    assert "<h1>Knee &amp; hip</h1>" in html
    assert "<p>First &lt;script&gt;alert(1)&lt;/script&gt;\nline &amp; more.</p>" in html
    assert "<script" not in html
    assert not re.search(r"(src|href)=\"(?!data:image/jpeg)", html)
    pictures = pictures_in(html)
    assert len(pictures) == 3  # the query and two results
    for data in pictures:
        with Image.open(BytesIO(data)) as picture:
            assert picture.format == "JPEG"
            assert not picture.getexif()
            assert set(picture.info) <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}


def test_labels_and_results_are_chosen(ward: Ward, client: FlaskClient, address: str) -> None:
    assert "site:" not in export(client, address).text
    chosen = export(client, address, "label_keys=site&label_keys=none-has-it&ranks=2").text
    assert "site: ward-a" in chosen
    assert "none-has-it" not in chosen
    assert "judged not relevant" in chosen
    assert "judged relevant" not in chosen
    assert len(pictures_in(chosen)) == 2
    assert len(pictures_in(export(client, address, "ranks=0").text)) == 1
    problem(client.get(f"{address}/export?format=docx"), 422)
    problem(client.get(f"{address}/export?" + "&".join(f"label_keys={key}" for key in range(7))), 422)


def test_the_part_of_the_query_is_shown(client: FlaskClient, ward: Ward) -> None:
    uploaded = BytesIO()
    Image.new("L", (60, 40)).save(uploaded, "PNG")
    ids = [record.image_id for record in dicom_records(ward)]
    saved = save(client, new_case(ids, search={"region": [10, 5, 30, 20]}), uploaded.getvalue())
    html = export(client, f"/v1/cases/{saved['id']}").text
    with Image.open(BytesIO(pictures_in(html)[0])) as picture:
        assert picture.size == (30, 20)


def test_the_pdf_file_identifies_no_one(ward: Ward, client: FlaskClient, address: str) -> None:
    pdf = export(client, address, "format=pdf&label_keys=site").data
    assert pdf.startswith(b"%PDF-")
    assert_identifies_no_one(ward, pdf)
    text = text_of(pdf)
    for part in ("Knee & hip", "<script>alert(1)</script>", "内侧关节间隙变窄", "site: ward-a"):
        assert part in text, part
    assert_identifies_no_one(ward, text.encode())


def file_of(answers: int, lines: tuple[str, ...], note: str = "") -> TeachingFile:
    data = BytesIO()
    Image.new("L", (8, 4)).save(data, "JPEG")
    pictures = [TeachingPicture(data.getvalue() if number else None, lines) for number in range(answers)]
    return TeachingFile("Title", split_paragraphs(note), (), None, tuple(pictures))


def headings(monkeypatch: pytest.MonkeyPatch) -> None:
    words = dict.fromkeys(("query", "answers", "no_picture", "footer"), "word")
    monkeypatch.setattr(TeachingFile, "headings", words)


@pytest.mark.parametrize("letter", ["x", "膝", "x "])
def test_a_pdf_file_of_any_length(monkeypatch: pytest.MonkeyPatch, letter: str) -> None:
    headings(monkeypatch)
    content = file_of(200, tuple(letter * 100 for _ in range(8)), letter * 5000)
    assert render_pdf(content).count(b"/Type /Page\n") > 10
    assert render_pdf(file_of(0, ())).count(b"/Type /Page\n") == 1


def test_without_reportlab_or_with_a_wrong_font(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    headings(monkeypatch)
    (tmp_path / "font.ttf").write_bytes(b"no font")
    with pytest.raises(InvalidInput, match=r"pdf_font: .*font\.ttf"):
        render_pdf(file_of(0, ()), tmp_path / "font.ttf")
    monkeypatch.setitem(sys.modules, "reportlab.platypus", None)
    with pytest.raises(InvalidInput, match=r"\[pdf\]"):
        render_pdf(file_of(0, ()))


def test_runs_of_letters_have_fonts_that_cover_them() -> None:
    fonts = re.findall(
        r'<font name="([^"]+)">([^<]*)</font>', marked_up("a<b>é 膝 한 ≥α\x07\nz", own_font=False)
    )
    shown = [(name, text.replace("<br/>", "")) for name, text in fonts]
    assert shown[0] == ("Helvetica", "a&lt;b&gt;é ")
    assert ("STSong-Light", "膝") in shown
    assert ("HYSMyeongJo-Medium", "한") in shown
    assert ("Symbol", "≥α") in shown
    assert "\x07" not in json.dumps(shown)
    assert breaks_anywhere("a膝")
    assert not breaks_anywhere("é")


def test_paragraphs() -> None:
    assert split_paragraphs("a\nb\r\n\r\n\n\nc\n") == ("a\nb", "c")
    assert split_paragraphs(" \n\n") == ()
