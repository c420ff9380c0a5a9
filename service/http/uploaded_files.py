"""Uploaded images of requests, from the form or the body."""

from flask import request
from werkzeug.exceptions import RequestEntityTooLarge, UnsupportedMediaType

from cbir.errors import InvalidInput
from cbir.search import MAX_EXAMPLES
from cbir.settings import Settings
from service.http.request_body import MULTIPART

BINARY_TYPES = ("application/dicom", "application/gzip", "application/octet-stream", "application/zip")


def uploaded_examples(settings: Settings) -> list[bytes]:
    """Return the image files of a search, at most MAX_EXAMPLES; `settings` limit their size."""
    files = uploaded_files(settings)
    if len(files) > MAX_EXAMPLES:
        raise InvalidInput(f"image: at most {MAX_EXAMPLES} files, not {len(files)}")
    return files


def uploaded_file(settings: Settings) -> bytes:
    """Return the only image file of the request, in the form field `image` or as the body; not empty."""
    files = uploaded_files(settings)
    if len(files) != 1:
        raise InvalidInput(f"image: exactly one file is needed in this field, not {len(files)}")
    return files[0]


def uploaded_files(settings: Settings, allow_empty: bool = False) -> list[bytes]:
    """Return the image files of the request; raises RequestEntityTooLarge above the limit of `settings`.

    Raises InvalidInput for an empty file unless `allow_empty`.
    """
    if request.mimetype == MULTIPART:
        files = _file_parts()
    elif request.mimetype in BINARY_TYPES or request.mimetype.startswith("image/"):
        files = [request.get_data(cache=False)]
    else:
        raise UnsupportedMediaType(
            "send an image as multipart/form-data (field image), or as the body with content type image/*, "
            'application/dicom, application/zip or application/octet-stream; or application/json with an "image_id" '
            "to search with"
        )
    if not allow_empty and not all(files):
        raise InvalidInput("the image sent is empty")
    if sum(map(len, files)) > settings.max_upload_bytes:
        raise RequestEntityTooLarge
    return files


def _file_parts() -> list[bytes]:
    if unexpected := sorted(set(request.files) - {"image"}):
        raise InvalidInput(f"{unexpected[0]}: there is no such file field; send the image in the field image")
    files = request.files.getlist("image")
    if not files and "image" in request.form:
        raise InvalidInput("image: must be sent as a file, for instance with curl -F image=@FILE")
    if not files:
        raise InvalidInput("image: a file is needed in this field")
    return [file.read() for file in files]
