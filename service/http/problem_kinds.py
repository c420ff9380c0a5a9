"""Table of all kinds of problems; docs/errors.md and the page /docs/errors are generated from it."""

from http import HTTPStatus
from typing import NamedTuple

PAGE = "/docs/errors"


class ProblemKind(NamedTuple):
    """Kind of problem. title: the same for all its problems. meaning, remedy: explanation for people."""

    status: HTTPStatus
    title: str
    meaning: str
    remedy: str


KINDS: dict[str, ProblemKind] = {
    "malformed": ProblemKind(
        HTTPStatus.BAD_REQUEST,
        "Malformed request",
        "The request cannot be parsed: invalid HTTP, invalid JSON, or a malformed cursor or header.",
        "Correct the request; repeating it unchanged will not help.",
    ),
    "unauthorized": ProblemKind(
        HTTPStatus.UNAUTHORIZED,
        "Token needed",
        "The service requires a token, and the request has no valid one.",
        "Send `Authorization: Bearer TOKEN`; `cbir token create` creates one.",
    ),
    "forbidden": ProblemKind(
        HTTPStatus.FORBIDDEN,
        "Not allowed",
        "The token's scope does not cover this, the request comes from another site's page or through a proxy that "
        "the setting `trusted_proxies` does not name, or a folder is not below any of the setting `index_roots`.",
        "Use a token with the scope given in the API description, or ask the operator.",
    ),
    "not-found": ProblemKind(
        HTTPStatus.NOT_FOUND,
        "Not found",
        "The address, collection, image or job does not exist.",
        "`GET /v1/collections` and `GET /v1/images` list what exists.",
    ),
    "method-not-allowed": ProblemKind(
        HTTPStatus.METHOD_NOT_ALLOWED,
        "Method not allowed",
        "The address exists but does not support the method.",
        "The header `Allow` lists the supported methods.",
    ),
    "not-acceptable": ProblemKind(
        HTTPStatus.NOT_ACCEPTABLE,
        "Not acceptable",
        "The header `Accept` names no media type that this address produces.",
        "The detail lists the supported types; `Accept: */*` accepts any.",
    ),
    "too-slow": ProblemKind(
        HTTPStatus.REQUEST_TIMEOUT,
        "Took too long",
        "The request took longer than the setting `request_seconds`, or its client disconnected before the response.",
        "Send it again; with a smaller image if the connection is slow.",
    ),
    "conflict": ProblemKind(
        HTTPStatus.CONFLICT,
        "Conflict",
        "The request conflicts with the current state: the picture was deleted earlier, or the job has ended.",
        "Add the picture with `restore=true` to bring it back.",
    ),
    "source-gone": ProblemKind(
        HTTPStatus.GONE,
        "The image's file is gone",
        "The source file of the image is gone or shows another picture, or the original of an uploaded image was not "
        "stored.",
        "Put the file back, or set `keep_originals` before the next uploads.",
    ),
    "changed-meanwhile": ProblemKind(
        HTTPStatus.PRECONDITION_FAILED,
        "Changed meanwhile",
        "`If-Match` does not match the current state of the image: its labels were changed.",
        "Get the image again, check its labels, and repeat the change with the new `ETag`.",
    ),
    "too-large": ProblemKind(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "Request too large",
        "The body exceeds `max_upload_bytes`, JSON 1 MiB, or a form without files 16 KiB.",
        "Send fewer images per request, or ask the operator; in JSON and forms, send fewer or shorter values.",
    ),
    "address-too-long": ProblemKind(
        HTTPStatus.REQUEST_URI_TOO_LONG,
        "Address too long",
        "The request line is longer than 4094 bytes.",
        "Send parameters as form fields or JSON.",
    ),
    "media-type": ProblemKind(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        "Unsupported media type",
        "The address does not accept the content type of the body.",
        "The detail lists the accepted types.",
    ),
    "wrong-host": ProblemKind(
        HTTPStatus.MISDIRECTED_REQUEST,
        "Wrong host name",
        "The service does not respond to the host name in the header `Host`.",
        "Use a host name of the service; the operator adds names with `allowed_hosts`.",
    ),
    "invalid-input": ProblemKind(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "Invalid input",
        "The request can be parsed, but one of its values is invalid.",
        "The detail names the value and what is valid.",
    ),
    "unreadable-image": ProblemKind(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "Unreadable image",
        "The uploaded file cannot be decoded as an image, or has more pixels than the setting `max_pixels`.",
        "Export the image again, as PNG, JPEG, TIFF, BMP or DICOM.",
    ),
    "too-many-requests": ProblemKind(
        HTTPStatus.TOO_MANY_REQUESTS,
        "Too many requests",
        "The service is at its limit of concurrent requests, or an address failed to log in too often.",
        "Wait for the seconds in `Retry-After`, then repeat the request.",
    ),
    "headers-too-large": ProblemKind(
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        "Headers too large",
        "A header is longer than 8190 bytes, or there are more than 100 headers.",
        "Send shorter headers.",
    ),
    "unexpected": ProblemKind(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "Unexpected error",
        "The service ran into an unexpected error.",
        "The log of the service says where; please report it.",
    ),
    "not-ready": ProblemKind(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "Not ready",
        "The collection cannot be opened at the moment; the detail says why.",
        "Wait for the seconds in `Retry-After`; `GET /readyz` shows when the collection can be searched.",
    ),
    "collection-busy": ProblemKind(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "Collection busy",
        "Another process or job is writing to the collection; there is one writer at a time. Searches continue.",
        "Wait for the seconds in `Retry-After`; `GET /v1/jobs` shows running jobs.",
    ),
    "collection-damaged": ProblemKind(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "Collection damaged",
        "The collection's files cannot be read or are inconsistent.",
        "`cbir collection verify` reports the damage; restore from a backup.",
    ),
    "storage-full": ProblemKind(
        HTTPStatus.INSUFFICIENT_STORAGE,
        "Storage full",
        "The disk of the collection is full. Nothing is damaged; searches continue.",
        "Free some space, then repeat the request.",
    ),
}

BY_STATUS = {
    kind.status: name
    for name, kind in reversed(KINDS.items())  # the first kind of a status represents it
}


def problem_type(name: str) -> str:
    """Return the `type` of problems of the kind `name`: the relative address of its explanation."""
    return f"{PAGE}#{name}"


def problem_kinds_markdown() -> str:
    """Return the text of docs/errors.md."""
    parts = [
        "# Errors\n",
        "Every error response is `application/problem+json` (RFC 9457): `type`, `title`, `status` and a `detail` "
        "that says what is wrong with this request. `type` is an address relative to the service that shows the "
        "text here. 429 and 503 come with `Retry-After` in seconds.\n",
    ]
    for name, kind in KINDS.items():
        parts.append(f"## {name}\n\n`{problem_type(name)}`, status {kind.status.value}: {kind.title}.\n")
        parts.append(f"{kind.meaning}\n\n{kind.remedy}\n")
    return "\n".join(parts)
