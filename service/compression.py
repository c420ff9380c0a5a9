"""JSON and text packed with gzip for those who take it."""

import gzip

from flask import Flask, Response, request

LEAST_BYTES = 1024  # below, a packet holds it anyway
LEVEL = 3
PACKED = (
    "application/dicom+json",
    "application/json",
    "application/problem+json",
    "text/plain",
    "text/html",
    "text/css",
    "text/javascript",
)


def install(app: Flask) -> None:
    """Pack the responses of `app`."""
    app.after_request(_pack)


def _pack(response: Response) -> Response:
    if response.mimetype not in PACKED or response.is_streamed or response.status_code in (204, 304):
        return response
    response.vary.add("Accept-Encoding")
    if request.accept_encodings["gzip"] <= 0 or "Content-Encoding" in response.headers:
        return response
    data = response.get_data()
    if len(data) < LEAST_BYTES:
        return response
    response.set_data(gzip.compress(data, LEVEL, mtime=0))
    response.headers["Content-Encoding"] = "gzip"
    tag, _ = response.get_etag()
    if tag:
        response.set_etag(tag, weak=True)
    return response
