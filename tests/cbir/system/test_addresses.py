"""Validation of URLs in the settings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbir import settings
from cbir.errors import InvalidInput
from cbir.store.external_links import external_links, resource_url
from cbir.system.addresses import fill_template


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("viewer_link", "https://viewer.example.org/view"),
        ("viewer_link", "https://viewer.example.org/{series}"),
        ("viewer_link", "https://viewer.example.org/{study}/{patient}"),
        ("viewer_link", "https://viewer.example.org/{study}/{"),
        ("viewer_link", "https://viewer.example.org/{study}/{}"),
        ("viewer_link", "https://{study}.example.org/"),
        ("viewer_link", "javascript:alert('{study}')"),
        ("viewer_link", "data:text/html,{study}"),
        ("viewer_link", "//viewer.example.org/{study}"),
        ("viewer_link", "https://viewer.example.org/{study}\n"),
        ("viewer_link", "https://a:b@viewer.example.org/{study}"),
        ("viewer_link", "https://viewer.example.org:port/{study}"),
        ("archive_url", "ftp://archive.example.org"),
        ("archive_url", "https://archive.example.org/dicom-web?x=1"),
        ("archive_url", "https://anna:geheim@archive.example.org/"),
        ("archive_public_url", "/dicom-web"),
        ("frame_origins", "*"),
        ("frame_origins", "https://*.example.org"),
        ("frame_origins", "https://viewer.example.org/"),
        ("frame_origins", "https://viewer.example.org; script-src *"),
        ("frame_origins", "viewer.example.org"),
        ("frame_origins", "https://просмотр.example.org"),
        ("archive_url", "http://archive.example.org/bücher"),
    ],
)
def test_invalid_urls_are_reported_by_load(name: str, value: str) -> None:
    with pytest.raises(InvalidInput, match=f"setting {name}") as refused:
        settings.load(**{name: value})
    assert "geheim" not in str(refused.value)


def test_links_of_an_image() -> None:
    current = settings.load(
        archive_url="http://10.0.0.1:8042/dicom-web/",
        archive_public_url="https://pacs.example.org/dicom-web/",
        viewer_link="https://v.example.org/view?StudyInstanceUIDs={study}&s={series}&i={instance}#f={frame}",
        frame_origins="https://A.example.org, http://localhost:3000",
    )
    assert current.frame_origins == ("https://a.example.org", "http://localhost:3000")
    result = external_links(current, "1.2", "1.3", "1.4", 7)
    archive = "https://pacs.example.org/dicom-web/studies/1.2/series/1.3/instances/1.4"
    assert result["rendered"] == f"{archive}/frames/7/rendered"
    assert result["viewer"] == "https://v.example.org/view?StudyInstanceUIDs=1.2&s=1.3&i=1.4#f=7"
    assert external_links(current, "1.2", "1.3", "1.4", None)["rendered"] == f"{archive}/rendered"
    for bad in ("", "..", ".", "1.2/3", "1..2", "1.2\n", "1" * 65):
        assert external_links(current, "1.2", bad, "1.4", None) == {"rendered": None, "viewer": None}
        with pytest.raises(InvalidInput, match="series"):
            resource_url("https://pacs.example.org", "1.2", bad or "x", "1.4")
    assert external_links(settings.load(), "1.2", "1.3", "1.4", None) == {"rendered": None, "viewer": None}


@given(st.text())
def test_values_are_encoded(value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        return
    address = fill_template("https://v.example.org/?S={study}&T=1", study=value)
    assert address.startswith("https://v.example.org/?S=")
    assert set(address.removeprefix("https://v.example.org/?S=").removesuffix("&T=1")) <= set(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~%"
    )
