"""Validation of URLs: archive, viewer, framing origins, state database, collections in PostgreSQL."""

import re
from ipaddress import ip_address
from urllib.parse import SplitResult, parse_qs, quote, urljoin, urlsplit

PLACEHOLDERS = ("study", "series", "instance", "frame")
COMPARED = ("study", "prior")
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
NOT_IN_URL = re.compile(r"[^!-~]|[<>\"\\]")  # RFC 3986
INDEXES = ("auto", "flat", "ivf", "hnsw", "pgvector")  # values of the setting `index`, apart from Milvus
REPLACED_INDEXES = {"exact": "flat", "faiss-ivf": "flat or ivf"}  # of earlier versions
UID = re.compile(r"(?=.{1,64}\Z)[0-9]+(\.[0-9]+)*")  # PS3.5, 9.1; leading zeros occur in practice
ORIGIN = re.compile(r"https?://[^/?#@*\s;,'\"]+")
DATABASE_SCHEME = "postgresql+psycopg"
DEFAULT_SCHEMA = "cbir"
SCHEMA_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")  # needs no quotes in SQL


def is_uid(text: str) -> bool:
    """Return True if `text`, from a header, is a UID and so cannot leave a URL's path."""
    return UID.fullmatch(text) is not None


def validate_http_url(text: str) -> str:
    """Return an http or https URL without its trailing slash; raise ValueError for anything else."""
    parts = _split(text)
    if parts.query or parts.fragment:
        raise ValueError(
            f"{text} has a ? or a #; give only the part before, for instance http://localhost:8042/dicom-web"
        )
    return text.rstrip("/")


def is_private_link(url: str) -> bool:
    """Return whether what is sent to a URL cannot be read on the network: it is https, or of this machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "https" or host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def validate_issuer(text: str) -> str:
    """Return the URL of an OpenID Connect issuer as it is, since tokens repeat it exactly; raise ValueError."""
    validate_http_url(text)
    return text


def validate_viewer_template(text: str) -> str:
    """Return an http or https URL with {study} and optionally {series}, {instance}, {frame}; raise ValueError."""
    return _validate_template(text, PLACEHOLDERS, ("study",))


def validate_compare_template(text: str) -> str:
    """Return an http or https URL with {study} and {prior}; raise ValueError."""
    return _validate_template(text, COMPARED, COMPARED)


def _validate_template(text: str, allowed: tuple[str, ...], required: tuple[str, ...]) -> str:
    names = PLACEHOLDER.findall(text)
    literal = PLACEHOLDER.sub("", text)
    if set(names) - set(allowed) or "{" in literal or "}" in literal:
        raise ValueError(f"{text}: only {', '.join(allowed)} are allowed in braces")
    for name in required:
        if name not in names:
            raise ValueError(f"{text} does not contain {{{name}}}; write it where the study's UID belongs")
    if "{" in _split(text).netloc:
        raise ValueError(f"{text}: the host must not depend on the image")
    return text


def fill_template(template: str, **values: str) -> str:
    """Fill the placeholders of `template` with percent-encoded values (RFC 3986, 2.1)."""
    return PLACEHOLDER.sub(lambda match: quote(values[match.group(1)], safe=""), template)


def validate_origin(text: str) -> str:
    """Return an origin (RFC 6454) such as https://viewer.example.org in lower case; raise ValueError."""
    if not ORIGIN.fullmatch(text):
        raise ValueError(f"{text} is not an origin; write it as https://viewer.example.org, without a path")
    _split(text)
    return text.lower()


def origin_of(url: str, base: str = "") -> str:
    """Return scheme, host and port of a URL, which may be relative to `base`; "" for what is not http or https."""
    try:
        parts = urlsplit(urljoin(base, url))
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    except (KeyError, ValueError):
        return ""
    host = re.sub(r"[^!-~]", "?", parts.hostname or "")[:255]
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}" if host else ""


def validate_state_database(text: str) -> str:
    """Return the URL of a PostgreSQL database as SQLAlchemy reads it; raise ValueError, which names no password."""
    return _validate_database(text, "schema", ("password", "options"))


def validate_index(text: str) -> str:
    """Return the name of an index, or the address of a Milvus server without its trailing slash; raise ValueError."""
    if text in INDEXES:
        return text
    if text in REPLACED_INDEXES:
        raise ValueError(f"{text} is called {REPLACED_INDEXES[text]} now")
    parts = urlsplit(text)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme != "milvus":
        raise ValueError(f"{text} is none of {', '.join(INDEXES)} and milvus://host:port")
    if parts.password is not None:
        raise ValueError("a password does not belong in the URL; use the setting index_password_file")
    options = parse_qs(parts.query, keep_blank_values=True)
    if not parts.hostname or not port or parts.fragment or options not in ({}, {"tls": ["true"]}):
        raise ValueError(
            "the address of the Milvus server is not of the form milvus://user@host:port/database?tls=true"
        )
    return text.rstrip("/")


def state_schema(url: str) -> str:
    """Return the name of the schema in the URL of a state database."""
    return _query_value(url, "schema")


def is_collection_address(text: str) -> bool:
    """Return whether the text of a collection is an address, and not a folder or an alias."""
    return "://" in text


def validate_collection_address(text: str) -> str:
    """Return the address of a collection in PostgreSQL as it is; raise ValueError, which names no password."""
    return _validate_database(text, "collection", ("password", "options", "schema"))


def collection_name(address: str) -> str:
    """Return the name of the collection in an address: that of its schema."""
    return _query_value(address, "collection")


def _validate_database(text: str, schema: str, refused: tuple[str, ...]) -> str:
    """Return the URL of a PostgreSQL database if all of it can be used.

    Parameters
    ----------
    text : str
        The URL.
    schema : str
        Parameter behind the ? that names the schema.
    refused : tuple of str
        Parameters that do not belong there.

    Raises
    ------
    ValueError
        With the reason, which does not quote the URL.
    """
    example = f"{DATABASE_SCHEME}://user@host/database"
    try:
        parts = urlsplit(text)
        query = parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        _ = parts.port
    except ValueError:
        raise ValueError(f"not a URL; write it as {example}") from None
    if parts.scheme != DATABASE_SCHEME or parts.fragment or not parts.path.strip("/"):
        raise ValueError(
            f"not the URL of a PostgreSQL database; write it as {example}, special characters as %40"
        )
    if not (parts.hostname or query.get("host")):
        raise ValueError(
            f"no host; write it as {example}, or {DATABASE_SCHEME}://user@/database?host=/folder/of/socket"
        )
    if set(refused) & query.keys():
        raise ValueError(
            f"{' and '.join(refused[:2])} do not belong behind the ?; write the password as user:password@host"
            if set(refused[:2]) & query.keys()
            else f"{refused[2]} does not belong behind the ?; name the collection with {schema}=NAME"
        )
    if not SCHEMA_NAME.fullmatch(_query_value(text, schema)):
        raise ValueError(
            f"{schema}: at most 63 small letters, digits and _, not beginning with a digit or pg_"
        )
    return text


def _query_value(url: str, name: str) -> str:
    return parse_qs(urlsplit(url).query, keep_blank_values=True).get(name, [DEFAULT_SCHEMA])[-1]


def without_password(url: str | None) -> str | None:
    """Return the URL of a database with *** in place of its password."""
    return url and re.sub(r"(//[^/?#:]*:)[^/?#]*@", r"\1***@", url)


def _split(text: str) -> SplitResult:
    parts = urlsplit(text)
    try:
        valid_port = parts.port is None or parts.port > 0
    except ValueError:
        valid_port = False
    if parts.scheme not in ("http", "https") or not parts.hostname or not valid_port:
        raise ValueError(f"{text} is not an http or https URL")
    if parts.username is not None or parts.password is not None:
        raise ValueError("credentials do not belong in a URL; clients may see it")
    if NOT_IN_URL.search(text):
        raise ValueError(f"{text!r} has a character that is not allowed in a URL")
    return parts
