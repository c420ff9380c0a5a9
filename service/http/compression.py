"""Gzip compression of JSON and text responses."""

import gzip

from flask import Flask, Response, request

MIN_BYTES = 1024  # smaller responses fit into one packet anyway
LEVEL = 3
COMPRESSIBLE = (
    "application/dicom+json",
    "application/json",
    "application/problem+json",
    "text/plain",
    "text/html",
    "text/css",
    "text/javascript",
)


def install(app: Flask) -> None:
    """Compress the responses of `app`."""
    app.after_request(_compress)


def _compress(response: Response) -> Response:
    if response.mimetype not in COMPRESSIBLE or response.is_streamed or response.status_code in (204, 304):
        return response
    response.vary.add("Accept-Encoding")
    if request.accept_encodings["gzip"] <= 0 or "Content-Encoding" in response.headers:
        return response
    data = response.get_data()
    if len(data) < MIN_BYTES:
        return response
    response.set_data(gzip.compress(data, LEVEL, mtime=0))
    response.headers["Content-Encoding"] = "gzip"
    tag, _ = response.get_etag()
    if tag:
        response.set_etag(tag, weak=True)
    return response
