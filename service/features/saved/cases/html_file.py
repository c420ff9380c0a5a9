"""Teaching file as one HTML document without scripts and other files."""

from base64 import b64encode

from flask import render_template

from service.features.saved.cases.teaching_file import TeachingFile


def render_html(content: TeachingFile) -> str:
    """Return the HTML document."""
    return render_template("case_file.html", content=content, words=content.headings, encode=_data_address)


def _data_address(data: bytes) -> str:
    return f"data:image/jpeg;base64,{b64encode(data).decode()}"
