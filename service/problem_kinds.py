"""The kinds of problems there are; docs/errors.md and the page /docs/errors are written from this table."""

from http import HTTPStatus
from typing import NamedTuple

PAGE = "/docs/errors"


class Kind(NamedTuple):
    """title: the same for every problem of the kind. meaning, mend: for the person who meets it."""

    status: HTTPStatus
    title: str
    meaning: str
    mend: str


KINDS: dict[str, Kind] = {
    "malformed": Kind(
        HTTPStatus.BAD_REQUEST,
        "Malformed request",
        "The request cannot be read: not HTTP, JSON that is none, a cursor or header of the wrong form.",
        "Correct the request; sending it again as it is will not help.",
    ),
    "unauthorized": Kind(
        HTTPStatus.UNAUTHORIZED,
        "Token needed",
        "The service needs a token, and the request has none that is valid.",
        "Send `Authorization: Bearer TOKEN`; `cbir token create` makes one.",
    ),
    "forbidden": Kind(
        HTTPStatus.FORBIDDEN,
        "Not allowed",
        "The token's scope does not cover this, the request comes from another site's page or through a proxy that "
        "the setting `trusted_proxies` does not name, or a folder lies below none of the setting `index_roots`.",
        "Use a token of the scope that the API description names, or ask the operator.",
    ),
    "not-found": Kind(
        HTTPStatus.NOT_FOUND,
        "Not found",
        "There is no such address, collection, image or job.",
        "`GET /v1/collections` and `GET /v1/images` list what there is.",
    ),
    "method-not-allowed": Kind(
        HTTPStatus.METHOD_NOT_ALLOWED,
        "Method not allowed",
        "The address exists, but not for that method.",
        "The header `Allow` names the methods it answers.",
    ),
    "not-acceptable": Kind(
        HTTPStatus.NOT_ACCEPTABLE,
        "Not acceptable",
        "The header `Accept` names no media type that this address answers in.",
        "The detail names those it does; `Accept: */*` takes what there is.",
    ),
    "too-slow": Kind(
        HTTPStatus.REQUEST_TIMEOUT,
        "Took too long",
        "The request took longer than the setting `request_seconds`, or its client left before there was an answer.",
        "Send it again; with a smaller image where the connection is slow.",
    ),
    "conflict": Kind(
        HTTPStatus.CONFLICT,
        "Conflict",
        "What is asked for cannot be done in the present state: the picture was deleted earlier by somebody, or the "
        "job has ended.",
        "Add with `restore=true` where the picture shall come back.",
    ),
    "source-gone": Kind(
        HTTPStatus.GONE,
        "The image's file is gone",
        "The file that the image was indexed from is not there any more or shows another picture, or the original of "
        "an image that was sent was not kept.",
        "Put the file back, or set `keep_originals` before sending the next ones.",
    ),
    "changed-meanwhile": Kind(
        HTTPStatus.PRECONDITION_FAILED,
        "Changed meanwhile",
        "`If-Match` names another state of the image than the present one: somebody changed its labels.",
        "Get the image again, look at its labels, and repeat the change with the new `ETag`.",
    ),
    "too-large": Kind(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "Request too large",
        "The body has more bytes than `max_upload_bytes` says, JSON more than 1 MiB, a form without files 16 KiB.",
        "Send fewer images in one request, or ask the operator; in JSON and forms, fewer or shorter values.",
    ),
    "address-too-long": Kind(
        HTTPStatus.REQUEST_URI_TOO_LONG,
        "Address too long",
        "The request line has more than 4094 bytes.",
        "Send parameters as form fields or JSON.",
    ),
    "media-type": Kind(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        "Unsupported media type",
        "The content type of the body is none that this address takes.",
        "The detail names those it takes.",
    ),
    "wrong-host": Kind(
        HTTPStatus.MISDIRECTED_REQUEST,
        "Wrong host name",
        "The service does not answer under the name in the header `Host`.",
        "Ask it under a name it knows; the operator adds names with `allowed_hosts`.",
    ),
    "invalid-input": Kind(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "Invalid input",
        "The request can be read, but a value in it does not fit.",
        "The detail names the value and what fits.",
    ),
    "unreadable-image": Kind(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "Unreadable image",
        "The bytes sent are no image that can be decoded, or one with more pixels than the setting `max_pixels`.",
        "Export the image again, as PNG, JPEG, TIFF, BMP or DICOM.",
    ),
    "too-many-requests": Kind(
        HTTPStatus.TOO_MANY_REQUESTS,
        "Too many requests",
        "As many requests are under way as the service takes on, or an address failed to log in too often.",
        "Wait as many seconds as `Retry-After` says, then send the request again.",
    ),
    "headers-too-large": Kind(
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        "Headers too large",
        "A header has more than 8190 bytes, or there are more than 100.",
        "Send shorter headers.",
    ),
    "unexpected": Kind(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "Unexpected error",
        "The service met an error that nobody thought of.",
        "Its log says where; please report that.",
    ),
    "not-ready": Kind(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "Not ready",
        "The collection cannot be opened at present; the detail says why.",
        "Wait as many seconds as `Retry-After` says; `GET /readyz` tells when it can be searched.",
    ),
    "collection-busy": Kind(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "Somebody else is writing",
        "Another process or job is writing to the collection; there is one writer at a time. Searches go on.",
        "Wait as many seconds as `Retry-After` says; `GET /v1/jobs` shows what is running.",
    ),
    "collection-damaged": Kind(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "Collection damaged",
        "The collection's files cannot be read or contradict each other.",
        "`cbir collection verify` names the damage; restore from a backup.",
    ),
    "storage-full": Kind(
        HTTPStatus.INSUFFICIENT_STORAGE,
        "No room left",
        "The disk of the collection is full. Nothing is damaged; searches go on.",
        "Make room, then repeat the request.",
    ),
}

BY_STATUS = {
    kind.status: name
    for name, kind in reversed(KINDS.items())  # the first of a status stands for it
}


def address(name: str) -> str:
    """The `type` of problems of that kind: a relative address, where it is explained."""
    return f"{PAGE}#{name}"


def as_markdown() -> str:
    """docs/errors.md."""
    parts = [
        "# Errors\n",
        "Every error is answered as `application/problem+json` (RFC 9457): `type`, `title`, `status` and a `detail` "
        "that names what was wrong with this request. `type` is an address below the service's own that shows the "
        "text here. 429 and 503 come with `Retry-After` in seconds.\n",
    ]
    for name, kind in KINDS.items():
        parts.append(f"## {name}\n\n`{address(name)}`, status {kind.status.value}: {kind.title}.\n")
        parts.append(f"{kind.meaning}\n\n{kind.mend}\n")
    return "\n".join(parts)
